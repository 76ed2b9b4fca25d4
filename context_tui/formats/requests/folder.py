"""Read a folder of raw request bodies that Claude Code writes (``OTEL_LOG_RAW_API_BODIES=file:DIR``).

The bodies are ``UUID.request.json`` and ``ID.response.json``. ``index.jsonl`` (since 2.1.274) names the pairs and each
pair's session. Without it, they are paired by time and content, and a request's metadata names the session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.claude_code.parsing import Record, extract_blocks, is_typed_by_person, parse_line
from context_tui.formats.claude_code.parsing import is_injected as is_injected_block
from context_tui.formats.claude_code.paths import find_projects_folder, find_title
from context_tui.formats.kit.documents import decode_element, decode_items, decode_members
from context_tui.formats.kit.files import list_entries, open_regular, read_file_stamp, read_whole_file
from context_tui.formats.kit.values import as_object, as_text, parse_id, parse_time_ms
from context_tui.formats.requests.bodies import ANTHROPIC, Exchange, RequestBody, Signature, sign_element
from context_tui.formats.requests.scanner import SessionFacts
from context_tui.session.jsontext import loads
from context_tui.session.problems import Problem

FORMAT_NAME = "claude-requests"
REQUEST_SUFFIX, RESPONSE_SUFFIX = ".request.json", ".response.json"
INDEX_NAME = "index.jsonl"
CUT_MARK = b"[TRUNCATED - Content exceeds"
CUT_REASON = (
    "the body is cut at 60 KB; record with OTEL_LOG_RAW_API_BODIES=file:DIR instead of 1, which keeps whole bodies"
)

_MESSAGE_ID = re.compile(rb'"id" ?: ?"([^"]*)"')


def has_requests(path: Path) -> bool:
    """Return whether a folder contains request bodies, judged by the file names."""
    with suppress(OSError), os.scandir(path) as entries:
        return any(entry.name.endswith(REQUEST_SUFFIX) for entry in entries)
    return False


class _IndexRow(NamedTuple):
    time: int
    group: str
    source: str
    message_id: str
    response: str


class _File(NamedTuple):
    name: str
    changed: int
    size: int


class RequestFolder:
    """The log of the requests whose bodies are in a folder."""

    format_name, generation = FORMAT_NAME, 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._groups: dict[_File, str] = {}
        self._message_ids: dict[_File, str] = {}
        self._session_facts: dict[str, tuple[Any, SessionFacts]] = {}
        self._tails: dict[_File, tuple[Signature, int, int, Signature]] = {}
        self._pairs: dict[str, str] = {}  # response by request, if no index pairs them

    def list_exchanges(self) -> tuple[list[Exchange], list[Problem]]:
        files = list[_File]()
        for entry in list_entries(self.path):
            if entry.name.endswith((REQUEST_SUFFIX, RESPONSE_SUFFIX)):
                with suppress(OSError):  # deleted meanwhile
                    files.append(_File(entry.name, entry.stat().st_mtime_ns, entry.stat().st_size))
        requests = {file.name: file for file in files if file.name.endswith(REQUEST_SUFFIX)}
        responses = {file.name: file for file in files if file.name.endswith(RESPONSE_SUFFIX)}
        rows, problems = self._read_index(requests, responses)
        paired = {row.response for row in rows.values()}
        open_requests = [file for name, file in requests.items() if name not in rows]
        self._pair_by_content(open_requests, [file for name, file in responses.items() if name not in paired])
        exchanges = []
        for name, file in requests.items():
            seconds, pair = file.changed // 1_000_000, self._pairs.get(name, "")
            row = rows.get(name) or _IndexRow(seconds, self._read_group(file), "", "", pair)
            paired.add(row.response)
            response = responses.get(row.response)
            read = partial(self._read_body, name, response.name if response else "", row)
            exchanges.append(Exchange(name, row.time, row.group, row.source, read, (file, response)))
        problems += [Problem(name, "a response without its request") for name in responses if name not in paired]
        return sorted(exchanges, key=lambda each: (each.time, requests[each.name].changed)), problems

    def read_session_facts(self, group: str) -> SessionFacts:
        file = self._find_session_file(group)
        if file is None:
            return SessionFacts()
        stamp = read_file_stamp(file)
        if self._session_facts.get(group, (None,))[0] != stamp:
            self._session_facts[group] = stamp, read_session_file(file)
        return self._session_facts[group][1]

    def _find_session_file(self, group: str) -> Path | None:
        name = f"{group}.jsonl"
        candidate_paths = (self.path / name, self.path.absolute().parent / name)
        projects = (Path(entry.path) / name for entry in list_entries(find_projects_folder(os.environ)))
        with suppress(OSError):  # an id that is too long for a file name
            return next((path for path in (*candidate_paths, *projects) if group and path.is_file()), None)
        return None

    def _read_index(
        self, requests: dict[str, _File], responses: dict[str, _File]
    ) -> tuple[dict[str, _IndexRow], list[Problem]]:
        rows, problems, requests_by_response = dict[str, _IndexRow](), list[Problem](), dict[str, str]()
        path = self.path / INDEX_NAME
        lines = read_whole_file(path).split(b"\n") if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            location = f"{INDEX_NAME} line {number}"
            try:
                value = loads(line)
            except ValueError:
                if number < len(lines):  # the last line may be half written
                    problems.append(Problem(location, "not JSON; its files are joined by time and content"))
                continue
            members = as_object(value)
            request, response = (parse_id(members.get(name)) for name in ("request_file", "response_file"))
            if request not in requests:
                problems.append(Problem(location, f"names a request that is not there: {request[:80]!r}"))
                continue
            message_id = parse_id(members.get("message_id"))
            stored_id = self._read_message_id(responses[response]) if response in responses else ""
            if stored_id and message_id and stored_id != message_id:
                found = f"names {response[:80]!r}, which holds another message: {stored_id[:40]}"
                problems.append(Problem(location, found))
                matches = (name for name, file in responses.items() if self._read_message_id(file) == message_id)
                response = next(matches, "")
            elif response and response not in responses:
                problems.append(Problem(location, f"names a response that is not there: {response[:80]!r}"))
                response = ""
            if requests_by_response.get(response, request) != request or request in rows:
                problems.append(Problem(location, "names a body that another line has; the earlier line counts"))
                continue
            if response:
                requests_by_response[response] = request
            source = parse_id(members.get("query_source"))
            time, session_id = parse_time_ms(members.get("timestamp")), parse_id(members.get("session_id"))
            agent = source if source.startswith("agent") else ""
            rows[request] = _IndexRow(time, session_id, agent, message_id, response)
        return rows, problems

    def _read_group(self, file: _File) -> str:
        if file not in self._groups:
            try:
                metadata = decode_element(_decode_members(self._read(file.name)).get("metadata"))
            except ValueError:
                return ""
            self._groups[file] = _find_session_id(as_text(as_object(metadata).get("user_id")))
        return self._groups[file]

    def _read_message_id(self, file: _File) -> str:
        if file not in self._message_ids:
            try:
                with open_regular(self.path / file.name) as opened:
                    match = _MESSAGE_ID.search(opened.read(200))
            except (OSError, UnreadableSession):
                return ""
            self._message_ids[file] = match[1].decode("utf-8", "replace") if match else ""
        return self._message_ids[file]

    def _pair_by_content(self, requests: list[_File], responses: list[_File]) -> None:
        """Pair each response that no index names with the request that it follows in time.

        Of several open requests, the match is the one whose messages a later request repeats along with the reply.
        """
        paired = {*self._pairs.values()}
        open_requests = [file for file in requests if file.name not in self._pairs]
        pending = sorted((file for file in responses if file.name not in paired), key=lambda file: file.changed)
        events = sorted([(file.changed, 1) for file in open_requests] + [(file.changed, -1) for file in pending])
        is_ambiguous = max(accumulate(step for _, step in events), default=0) > 1  # several requests are open at once
        followed: dict[Signature, set[tuple[Signature, int]]] = {}  # histories, by the reply that comes after
        for head, _, last_reply, reply in map(self._read_tail, requests if is_ambiguous else ()):
            followed.setdefault(reply, set()).add((head, last_reply))
        for response in pending if is_ambiguous else ():
            reply = sign_element(ANTHROPIC.shape(), msgspec.Raw(self._read(response.name)), 0)
            histories = followed.get(reply, set()) if reply else set()
            match = next((file for file in open_requests if self._read_tail(file)[:2] in histories), None)
            if match:
                self._pairs[match.name] = response.name
                open_requests.remove(match)
        paired = {*self._pairs.values()}
        for response in pending:
            earlier = [file for file in open_requests if file.changed <= response.changed]
            if response.name not in paired and earlier:  # one of the same time most likely follows it
                match = max(earlier, key=lambda file: (file.changed < response.changed, file.changed))
                self._pairs[match.name] = response.name
                open_requests.remove(match)

    def _read_tail(self, file: _File) -> tuple[Signature, int, int, Signature]:
        if file not in self._tails:
            shape = ANTHROPIC.shape()
            try:
                elements = decode_items(_decode_members(self._read(file.name)).get(ANTHROPIC.key)) or []
            except ValueError:
                elements = []
            replies = [n for n, each in enumerate(elements) if b'"role":"assistant"' in bytes(memoryview(each)[:40])]
            last_reply = replies[-1] if replies else -1
            head, reply = (sign_element(shape, elements[n], n) if elements else () for n in (0, last_reply))
            self._tails[file] = head, len(elements), last_reply, reply if replies else ()
        return self._tails[file]

    def _read(self, name: str) -> bytes:
        try:
            return read_whole_file(self.path / name)
        except UnreadableSession as error:
            raise ValueError(str(error)) from None

    def _read_body(self, request: str, response: str, row: _IndexRow) -> RequestBody:
        data = self._read(request)
        if CUT_MARK in data[-200:]:
            raise ValueError(CUT_REASON)
        members = _decode_members(data)
        if ANTHROPIC.key not in members:
            raise ValueError(f"a JSON body of another API: a request of {ANTHROPIC.name} has messages")
        reply, note = None, ""
        try:
            reply = loads(self._read(response)) if response else None
        except ValueError:
            note = f"its response {response} is empty, cut or not JSON"
        if reply is None and row.message_id and (file := self._find_session_file(row.group)):
            reply = find_reply(file, row.message_id)  # Claude Code may end before the response is written
        return RequestBody(members, reply, note="" if reply else note)


def _decode_members(data: bytes) -> dict[str, msgspec.Raw]:
    members = decode_members(msgspec.Raw(data))
    if members is None:
        raise ValueError("not a JSON object, or still being written")
    return members


def _find_session_id(user: str) -> str:
    """Return the session id in ``metadata.user_id``, which is JSON or, in older versions, ends with the id."""
    try:
        return parse_id(as_object(loads(user.encode())).get("session_id"))
    except ValueError:
        return user.rpartition("_session_")[2] if "_session_" in user else ""


def read_session_file(path: Path) -> SessionFacts:
    """Return facts about a run from Claude Code's session file: typed text, times of replies, title and folder."""
    typed, times, cwd = set[str](), dict[str, int](), ""
    for record in _read_records(path):
        cwd = cwd or record.cwd or ""
        if record.type == "assistant" and record.message and record.message.id:
            times[record.message.id] = parse_time_ms(record.timestamp)
        elif record.type == "user" and is_typed_by_person(record) is not False and not record.isCompactSummary:
            texts = (block for block in extract_blocks(record) if block.get("type") == "text")
            typed.update(str(block.get("text")).strip() for block in texts if not is_injected_block(record, block))
    return SessionFacts(frozenset(typed), times, find_title(path), cwd)


def find_reply(path: Path, message_id: str) -> dict[str, Any] | None:
    """Return the model's reply with the id *message_id* from Claude Code's session file, or None if it is missing."""
    blocks: list[Any] = []
    usage = None
    for record in _read_records(path, message_id.encode()):
        if record.type == "assistant" and record.message and record.message.id == message_id:
            blocks += extract_blocks(record)
            usage = record.message.usage or usage
    return {"id": message_id, "role": "assistant", "content": blocks, "usage": usage} if blocks else None


def _read_records(path: Path, text: bytes = b"") -> Iterator[Record]:
    with suppress(UnreadableSession):
        for line in read_whole_file(path).split(b"\n"):
            if text in line:
                with suppress(ValueError):
                    yield parse_line(line)
