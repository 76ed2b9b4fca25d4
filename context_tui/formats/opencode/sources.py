"""Read the messages of an opencode session from tables, a tree of files, or an export.

Of the database, only ``session``, ``message`` and ``part`` are read, as other tables hold data private to opencode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.kit import documents
from context_tui.formats.kit import files as kit_files
from context_tui.formats.kit.databases import decode_text, encode_value
from context_tui.formats.kit.documents import BrokenElement, Element
from context_tui.formats.kit.entry_scanner import Entry, RowSource, format_placeholders
from context_tui.formats.kit.values import as_object, as_text
from context_tui.formats.opencode.reader import remove_reverted
from context_tui.session.jsontext import try_loads


class TableSource(RowSource):
    """The rows of one session in the database, with messages ordered by creation time, and parts by id."""

    message_table, session_table = "message", "session"
    metadata_columns = ("revert",)
    _revert: Any = None

    def list_ids(self) -> list[str]:
        self._revert = self.read_metadata().get("revert")
        sql = "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id"
        return [decode_text(row[0]) for row in self.database.query(sql, (self.session_id,))]

    def read_metadata(self) -> Mapping[str, Any]:
        """Return ``revert``, the point to which the session was reverted, if the database records it."""
        return {name: try_loads(encode_value(value)) for name, value in super().read_metadata().items()}

    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        selected, marks = self.select_messages(("id", "data"), ids, max_value_bytes), format_placeholders(ids)
        parts_sql = f"SELECT message_id, id, data FROM part WHERE message_id IN ({marks}) ORDER BY message_id, id"
        parts: dict[str, list[tuple[str, bytes]]] = {}
        for message, name, data in self.database.query(parts_sql, ids, max_value_bytes=max_value_bytes):
            parts.setdefault(decode_text(message), []).append((decode_text(name), encode_value(data)))
        rows = ((decode_text(name), encode_value(data)) for name, data in selected)
        return {name: Entry(name, (data, *remove_reverted(parts.get(name, ()), self._revert))) for name, data in rows}


class TreeSource:
    """The files of one session: the session file, ``message/SESSION/ID.json`` and ``part/MESSAGE/ID.json``."""

    def __init__(self, path: Path, session_id: str) -> None:
        self.path, self._session = path, session_id
        self.messages, self._parts = find_message_folders(path, session_id)
        self._revert: Any = None

    def read_stamp(self) -> Hashable:
        return kit_files.read_file_stamp(self.path), tuple(self._list_stamps())

    def list_ids(self) -> list[str]:
        """Return the names of the message files, which ascend with creation time."""
        self._revert = self.read_metadata().get("revert")
        return [_get_stem(entry) for entry in kit_files.list_entries(self.messages) if entry.name.endswith(".json")]

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        return [entry for each in ids if (entry := self._read_entry(each)) is not None]

    def read_metadata(self) -> Mapping[str, Any]:
        try:
            return read_session_object(self.path)
        except UnreadableSession:  # being written right now
            return {}

    def _read_entry(self, name: str) -> Entry | None:
        body = _read_bytes(self.messages / f"{name}.json")
        if body is None:
            return None
        files = [entry for entry in kit_files.list_entries(self._parts / name) if entry.name.endswith(".json")]
        size = len(body) + sum(os.path.getsize(entry) for entry in files if os.path.isfile(entry))
        if size > kit_files.MAX_RECORD_BYTES:
            return Entry(name, (), kit_files.TOO_LARGE)
        parts = [(_get_stem(entry), data) for entry in files if (data := _read_bytes(Path(entry.path))) is not None]
        return Entry(name, (body, *remove_reverted(parts, self._revert)))

    def compute_size(self) -> int:
        """Return the total size of the session's files, in bytes."""
        stamps = (stamp for _, stamp in self._list_stamps())
        return sum(stamp[1] for stamp in (kit_files.read_file_stamp(self.path), *stamps) if stamp)

    def list_folders(self) -> list[Path]:
        """Return the folders with the session's files, whether they exist or not."""
        return [self.messages, *(self._parts / _get_stem(entry) for entry in kit_files.list_entries(self.messages))]

    def _list_stamps(self) -> Iterator[tuple[str, kit_files.FileStamp | None]]:
        for entry in kit_files.list_entries(self.messages):
            yield entry.name, kit_files.read_file_stamp(entry.path)
            for part in kit_files.list_entries(self._parts / _get_stem(entry)):
                yield part.name, kit_files.read_file_stamp(part.path)


class ExportSource:
    """The messages in a document written by ``opencode export``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Hashable = None
        self._info: Mapping[str, Any] = {}
        self._elements: list[Element] = []

    def read_stamp(self) -> Hashable:
        return kit_files.read_file_stamp(self.path)

    def list_ids(self) -> list[str]:
        """Return the indexes of the messages. If the document cannot be read now, use the messages read last."""
        if (stamp := self.read_stamp()) != self._stamp:
            try:
                self._info, self._elements = read_export(self.path)
            except UnreadableSession:
                if self._stamp is None:
                    raise
            self._stamp = stamp
        return [str(place) for place in range(len(self._elements))]

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        return [self._build_entry(each) for each in ids if int(each) < len(self._elements)]

    def read_metadata(self) -> Mapping[str, Any]:
        return self._info

    def _build_entry(self, name: str) -> Entry:
        element = self._elements[int(name)]
        if isinstance(element, BrokenElement):
            return Entry(name, (documents.format_element(element).encode("utf-8", "replace"),), element.reason)
        members = documents.decode_members(element)
        if members is None or "info" not in members:
            return Entry(name, (_format_element(element),))
        parts = documents.decode_items(members.get("parts", []))
        if parts is None:
            return Entry(name, (_format_element(members["info"]), b"parts that are no list"))
        texts = [(_get_part_id(part) if self._info.get("revert") else "", _format_element(part)) for part in parts]
        return Entry(name, (_format_element(members["info"]), *remove_reverted(texts, self._info.get("revert"))))


def find_message_folders(path: Path, session_id: str) -> tuple[Path, Path]:
    """Return the folders with a session's messages and parts. Up to version 0.5, both are in the session's folder."""
    root = path.parent.parent
    if path.parent.name == "info" and root.name == "session":
        return root / "message" / session_id, root / "part" / session_id
    return root.parent / "message" / session_id, root.parent / "part"


def read_session_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a session file, or raise UnreadableSession if there is none."""
    value = try_loads(_read_bytes(path) or b"")
    if not isinstance(value, dict):
        raise UnreadableSession(f"{path}: cannot be read as an opencode session")
    return value


def read_export(path: Path) -> tuple[Mapping[str, Any], list[Element]]:
    """Return the session and the undecoded messages in an export, or raise UnreadableSession for any other file."""
    try:
        element, torn = documents.parse_document(kit_files.read_whole_file(path))
    except ValueError as error:
        raise UnreadableSession(f"{path}: not valid JSON: {error}") from None
    members = documents.decode_members(element)
    messages = documents.decode_items(members["messages"]) if members and "messages" in members else None
    if members is None or messages is None:
        raise UnreadableSession(f"{path}: holds no messages of an opencode session")
    if torn:
        messages = [*messages, BrokenElement("the file is cut off here", torn)]
    return as_object(documents.try_decode(members.get("info"))), messages


def _get_part_id(part: Element) -> str:
    members = documents.decode_members(part)
    return as_text(documents.try_decode(members.get("id"))) if members else ""


def _format_element(element: Element) -> bytes:
    """Return an element as JSON. If it is not strict JSON, escape it to ASCII, as it may hold lone surrogates."""
    if isinstance(element, msgspec.Raw):
        return bytes(memoryview(element))
    try:
        return json.dumps(element).encode()
    except RecursionError:
        return b"nested too deeply"


def _get_stem(entry: os.DirEntry[str]) -> str:
    return entry.name.removesuffix(".json")


def _read_bytes(path: Path) -> bytes | None:
    with suppress(OSError, UnreadableSession), kit_files.open_regular(path) as file:
        return file.read()
    return None
