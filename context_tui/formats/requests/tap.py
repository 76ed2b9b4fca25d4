"""Read claude-tap's recordings: its database, bundles of one session, JSON Lines and exported JSON.

A record is a request with its response. In the database and in bundles, large parts of records are stored once as
blobs, and records refer to them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from context_tui.formats.kit.databases import Database, decode_text
from context_tui.formats.kit.documents import Element, decode_element, decode_items, decode_members
from context_tui.formats.kit.files import MAX_RECORD_BYTES, open_regular, read_whole_file
from context_tui.formats.kit.lines import LineTail
from context_tui.formats.kit.values import parse_id, parse_time_ms
from context_tui.formats.requests.bodies import Exchange, OtherRequest, RequestBody, join_elements
from context_tui.formats.requests.scanner import SessionFacts
from context_tui.session.problems import Problem

FORMAT_NAME = "claude-tap"
TRACE_MARK, RECORD_MARK = "__claude_tap_compact_trace__", "__claude_tap_compact_record__"
BLOB_MARK = "__claude_tap_blob_ref__"
_REFERENCE_START = b'{"%s"' % BLOB_MARK.encode()
_SESSION_HEADERS = ("x-claude-code-session-id", "thread-id", "session-id", "session_id", "x-session-id")
_NO_CONVERSATION = ("count_tokens", "countTokens", "/embeddings")


class Blobs:
    """The large parts of records, each stored once and keyed by hash."""

    def __init__(self) -> None:
        self.values: dict[str, msgspec.Raw] = {}

    def find(self, digest: str) -> msgspec.Raw | None:
        """Return the part with the hash *digest*, or None if it is missing."""
        return self.values.get(digest)

    def resolve(self, element: Element) -> Element:
        """Return the part to which *element* refers (ValueError if missing), or *element* if it is not a reference."""
        if not isinstance(element, msgspec.Raw) or not bytes(memoryview(element)[:40]).startswith(_REFERENCE_START):
            return element
        reference = decode_element(element)
        inner = reference.get(BLOB_MARK) if isinstance(reference, dict) else None
        digest = parse_id(inner.get("hash")) if isinstance(inner, dict) else ""
        value = self.find(digest)
        if value is None:
            raise ValueError(f"a part of it is not there: {digest[:24]!r}")
        return value


class DatabaseBlobs(Blobs):
    """The blobs of a session in the database, which are read when they are first needed."""

    def __init__(self, database: Database, session: str) -> None:
        super().__init__()
        self._database, self._session = database, session

    def find(self, digest: str) -> msgspec.Raw | None:
        if digest not in self.values:
            sql = "SELECT payload_json FROM record_blobs WHERE session_id = ? AND hash = ?"
            rows = self._database.query(sql, (self._session, digest), max_value_bytes=MAX_RECORD_BYTES)
            if not rows:
                return None
            self.values[digest] = msgspec.Raw(bytes(rows[0][0]))
        return self.values[digest]


def parse_record(data: Element, blobs: Blobs) -> RequestBody:
    """Parse a recorded request and its response, or raise ValueError (OtherRequest if it asks no model for a reply)."""
    members = _decode(data)
    if RECORD_MARK in members:
        members = _decode(members.get("record"))
    if "turn" in members and "messages" in members and "request" not in members:
        return _parse_exported(members)
    request, response = _decode(members.get("request")), decode_members(members.get("response")) or {}
    path = parse_id(decode_element(request.get("path")))
    body = decode_members(blobs.resolve(request.get("body")))
    if body is None or any(part in path for part in _NO_CONVERSATION):
        raise OtherRequest("no request to a model")
    body = {name: blobs.resolve(value) for name, value in body.items()}
    for name in ("messages", "input"):
        if (listed := decode_items(body.get(name))) is not None:
            body[name] = join_elements([blobs.resolve(each) for each in listed])
    headers = decode_element(request.get("headers"))
    sender = {str(name).lower(): value for name, value in headers.items()} if isinstance(headers, dict) else {}
    source = next((parse_id(sender[name]) for name in _SESSION_HEADERS if sender.get(name)), "")
    reply = decode_element(response.get("body")) if "body" in response else None
    status = decode_element(response.get("status")) if "status" in response else None
    note = f"the response was an error, status {status}" if isinstance(status, int) and status >= 400 else ""
    return RequestBody(body, reply, path, source, note)


def _parse_exported(members: dict[str, Any]) -> RequestBody:
    """Parse a turn of exported JSON, which holds messages only for Anthropic's clients."""
    if not decode_items(members.get("messages")):
        raise ValueError("exported JSON has no messages of this client; export with --format compact")
    reply = decode_element(members.get("response"))
    body = {name: value for name, value in members.items() if name in ("model", "messages", "system", "tools")}
    return RequestBody(body, {"role": "assistant", **reply} if isinstance(reply, dict) else None)


def _decode(element: Element) -> dict[str, Element]:
    members = decode_members(element)
    if members is None:
        raise ValueError("not a JSON object")
    return members


class TapDatabase:
    """The log of one session, or of all sessions, in claude-tap's database."""

    format_name, generation = FORMAT_NAME, 0

    def __init__(self, path: Path, session: str = "") -> None:
        self.path, self._session = path, session
        self._database = Database(path)
        self._blobs: tuple[str, Blobs] = "", Blobs()
        self._clients: dict[str, str] = {}

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        condition, values = ("WHERE session_id = ?", (self._session,)) if self._session else ("", ())
        columns = "session_id, record_index, timestamp, length(payload_json)"
        order = "ORDER BY session_id, record_index"
        rows = self._database.query(f"SELECT {columns} FROM records {condition} {order}", values)
        self._clients = {session: client for session, client, _ in self.list_rows()}
        exchanges = []
        for session, index, stamp, size in rows:
            group = decode_text(session)
            name = f"{group[:8]} record {index}"
            time = parse_time_ms(decode_text(stamp))
            exchanges.append(Exchange(name, time, group, "", partial(self._read, group, index), size))
        return exchanges, []

    def list_rows(self) -> list[tuple[str, str, str]]:
        """Return the id, the client and the time of the last change of each session that has records."""
        rows = self._database.query("SELECT id, client, updated_at FROM sessions WHERE record_count > 0")
        return [(decode_text(name), decode_text(client), decode_text(updated)) for name, client, updated in rows]

    def read_session_facts(self, group: str) -> SessionFacts:
        return SessionFacts(client=self._clients.get(group, ""))

    def _read(self, session: str, index: int) -> RequestBody:
        if self._blobs[0] != session:
            self._blobs = session, DatabaseBlobs(self._database, session)
        sql = "SELECT payload_json FROM records WHERE session_id = ? AND record_index = ?"
        rows = self._database.query(sql, (session, index), max_value_bytes=MAX_RECORD_BYTES)
        if not rows:
            raise ValueError("the record is gone")
        return parse_record(msgspec.Raw(bytes(rows[0][0])), self._blobs[1])


class TapFile:
    """A log stored in one file: as JSON Lines, as a compressed bundle, or as exported JSON."""

    format_name, generation = FORMAT_NAME, 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = LineTail(path)
        self._places: list[tuple[int, int]] = []
        self._blobs = Blobs()
        self._records: list[Element] = []
        with open_regular(path) as file:
            self._is_document = file.read(1) == b"[" or TRACE_MARK.encode() in file.read(200)

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        if self._is_document:
            if not self._records:
                self._read_document()
            reads = [partial(parse_record, record, self._blobs) for record in self._records]
        else:
            if self._lines.is_replaced():
                self.generation += 1
                self._places.clear()
            self._places += [(place, len(line)) for place, line in self._lines.read_on()]
            reads = [partial(self._read_line, place, length) for place, length in self._places]
        group = self.path.stem
        return [Exchange(f"record {n}", n, group, "", read) for n, read in enumerate(reads, 1)], []

    def read_session_facts(self, group: str) -> SessionFacts:
        return SessionFacts()

    def _read_document(self) -> None:
        data = msgspec.Raw(read_whole_file(self.path))
        members = decode_members(data) or {}
        self._records = decode_items(members.get("records") if members else data) or []
        for digest, value in (decode_members(members.get("blobs")) or {}).items():
            payload: Any = (decode_members(value) or {}).get("payload", value)
            self._blobs.values[digest] = msgspec.Raw(bytes(memoryview(payload)))

    def _read_line(self, offset: int, length: int) -> RequestBody:
        with open_regular(self.path) as file:
            file.seek(offset)
            return parse_record(msgspec.Raw(file.read(length)), self._blobs)
