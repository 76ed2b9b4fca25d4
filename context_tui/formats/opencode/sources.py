"""Where the messages of an opencode session stand: tables, a tree of files, or an export.

In the database only ``session``, ``message`` and ``part`` are named: others hold what nobody but opencode may read.
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
from context_tui.formats.kit.databases import Database, text
from context_tui.formats.kit.documents import Broken, Element, items_of, members_of, shown, value_of
from context_tui.formats.kit.entry_scanner import Entry
from context_tui.formats.kit.files import file_stamp, open_regular, whole_file
from context_tui.formats.kit.heads import whole_part
from context_tui.formats.kit.limits import LARGEST, beginning
from context_tui.formats.kit.places import entries as entries_in
from context_tui.formats.kit.row_entries import entries_by, marks
from context_tui.formats.opencode.shape import without_reverted
from context_tui.session.jsontext import loads


class TableSource:
    """The rows of one session in the database: messages as they were made, parts by their ids."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self._session = database, session_id
        self.path = database.path
        self._revert: Any = None

    def stamp(self) -> Hashable:
        """That of the database."""
        return self.database.stamp()

    def ids(self) -> list[str]:
        """The ids of the messages, by the time at which they were made."""
        self._revert = self.about().get("revert")
        rows = self.database.query(
            "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id", (self._session,)
        )
        return [text(row[0]) for row in rows]

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """Messages with their parts."""
        return entries_by(ids, self._ask)

    def about(self) -> Mapping[str, Any]:
        """To where the session was taken back, if it was."""
        if "revert" not in self.database.columns("session"):
            return {}
        rows = self.database.query("SELECT revert FROM session WHERE id = ?", (self._session,))
        return {"revert": _json(rows[0][0]) if rows else None}

    def _ask(self, ids: Sequence[str], longest: int) -> dict[str, Entry]:
        found = self.database.query(
            f"SELECT id, data FROM message WHERE id IN ({marks(ids)})", tuple(ids), longest=longest
        )
        parts: dict[str, list[tuple[str, bytes]]] = {}
        for message, name, data in self.database.query(
            f"SELECT message_id, id, data FROM part WHERE message_id IN ({marks(ids)}) ORDER BY message_id, id",
            tuple(ids),
            longest=longest,
        ):
            parts.setdefault(text(message), []).append((text(name), _bytes(data)))
        rows = ((text(name), _bytes(data)) for name, data in found)
        return {name: Entry(name, (data, *without_reverted(parts.get(name, ()), self._revert))) for name, data in rows}


class TreeSource:
    """The files of one session: ``message/SESSION/ID.json`` and ``part/MESSAGE/ID.json`` beside its own."""

    def __init__(self, path: Path, session_id: str) -> None:
        self.path, self._session = path, session_id
        self.messages, self._parts = folders_of(path, session_id)
        self._revert: Any = None

    def stamp(self) -> Hashable:
        """Times and sizes of all its files."""
        return file_stamp(self.path), tuple(self._stamps())

    def ids(self) -> list[str]:
        """The names of the message files, which ascend as messages are made."""
        self._revert = self.about().get("revert")
        return [_stem(entry) for entry in entries_in(self.messages) if entry.name.endswith(".json")]

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """Messages with their parts."""
        return [entry for each in ids if (entry := self._entry(each)) is not None]

    def about(self) -> Mapping[str, Any]:
        """The body of the session."""
        try:
            return session_in(self.path)
        except UnreadableSession:  # caught in the middle of being written
            return {}

    def _entry(self, name: str) -> Entry | None:
        body = _content(self.messages / f"{name}.json")
        if body is None:
            return None
        files = [entry for entry in entries_in(self._parts / name) if entry.name.endswith(".json")]
        size = len(body) + sum(entry.stat().st_size for entry in files if entry.is_file())
        if size > LARGEST:
            return Entry(name, None)
        parts = [(_stem(entry), data) for entry in files if (data := _content(Path(entry.path))) is not None]
        return Entry(name, (body, *without_reverted(parts, self._revert)))

    def size(self) -> int:
        """Bytes of all its files."""
        stamps = (stamp for _, stamp in self._stamps())
        return sum(stamp[1] for stamp in (file_stamp(self.path), *stamps) if stamp)

    def folders(self) -> list[Path]:
        """The folders of its files, be they there or not."""
        return [self.messages, *(self._parts / _stem(entry) for entry in entries_in(self.messages))]

    def _stamps(self) -> Iterator[tuple[str, tuple[int, int] | None]]:
        for entry in entries_in(self.messages):
            yield entry.name, file_stamp(entry.path)
            for part in entries_in(self._parts / _stem(entry)):
                yield part.name, file_stamp(part.path)


class ExportSource:
    """The messages in the document that ``opencode export`` writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Hashable = None
        self._info: Mapping[str, Any] = {}
        self._elements: list[Element] = []

    def stamp(self) -> Hashable:
        """Time and size of the file."""
        return file_stamp(self.path)

    def ids(self) -> list[str]:
        """The places of the messages. What was read of a document stands that cannot be read at the moment."""
        stamp = self.stamp()
        if stamp != self._stamp:
            try:
                self._info, self._elements = export_in(self.path)
            except UnreadableSession:
                if self._stamp is None:
                    raise
            self._stamp = stamp
        return [str(place) for place in range(len(self._elements))]

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """Messages with their parts."""
        return [self._entry(each) for each in ids if int(each) < len(self._elements)]

    def about(self) -> Mapping[str, Any]:
        """The body of the session."""
        return self._info

    def _entry(self, name: str) -> Entry:
        element = self._elements[int(name)]
        if isinstance(element, Broken):
            return Entry(name, (shown(element).encode("utf-8", "replace"),), element.why)
        members = members_of(element)
        if members is None or "info" not in members:
            return Entry(name, (_raw(element),))
        parts = items_of(members.get("parts", []))
        if parts is None:
            return Entry(name, (_raw(members["info"]), b"parts that are no list"))
        texts = [(_id_of(part) if self._info.get("revert") else "", _raw(part)) for part in parts]
        return Entry(name, (_raw(members["info"]), *without_reverted(texts, self._info.get("revert"))))


def folders_of(path: Path, session_id: str) -> tuple[Path, Path]:
    """Where the messages of a session file and their parts are; versions up to 0.5 had them below its own folder."""
    root = path.parent.parent
    if path.parent.name == "info" and root.name == "session":
        return root / "message" / session_id, root / "part" / session_id
    return root.parent / "message" / session_id, root.parent / "part"


def session_in(path: Path) -> dict[str, Any]:
    """The body of a session in a file of its own.

    Raises:
        UnreadableSession: it cannot be read.
    """
    value = _json(_content(path))
    if not isinstance(value, dict):
        raise UnreadableSession(f"{path}: cannot be read as an opencode session")
    return value


def export_in(path: Path) -> tuple[Mapping[str, Any], list[Element]]:
    """The body of the session and the messages of an export, as they stand there.

    Raises:
        UnreadableSession: it cannot be read.
    """
    data = whole_file(path)
    element, torn = _document(path, data)
    members = members_of(element)
    messages = items_of(members["messages"]) if members and "messages" in members else None
    if members is None or messages is None:
        raise UnreadableSession(f"{path}: holds no messages of an opencode session")
    if torn:
        messages = [*messages, Broken("the file is cut off here", torn)]
    info: Any = None
    with suppress(ValueError):
        info = value_of(members.get("info"))
    return info if isinstance(info, dict) else {}, messages


def _document(path: Path, data: bytes) -> tuple[Element, str]:
    """The value in a file, and what was left of one that was cut off, if it was."""
    decode = msgspec.json.Decoder(msgspec.Raw).decode
    with suppress(ValueError, RecursionError):
        return decode(data), ""
    try:
        return loads(data), ""
    except ValueError as error:
        why = error
    if cut := whole_part(data):
        end, closers = cut
        with suppress(ValueError, RecursionError):
            return decode(data[:end] + closers), beginning(memoryview(data)[end:], len(data) - end)
    raise UnreadableSession(f"{path}: not valid JSON: {why}")


def _id_of(part: Element) -> str:
    members = members_of(part)
    name = members.get("id") if members else None
    try:
        value = value_of(name)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _raw(element: Element) -> bytes:
    """The text of an element; in ASCII where strict JSON refused it, as it may hold what UTF-8 cannot."""
    if isinstance(element, msgspec.Raw):
        return bytes(memoryview(element))
    try:
        return json.dumps(element).encode()
    except RecursionError:
        return b"nested too deeply"


def _stem(entry: os.DirEntry[str]) -> str:
    return entry.name.removesuffix(".json")


def _content(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none that can be read."""
    try:
        with open_regular(path) as file:
            return file.read()
    except (OSError, UnreadableSession):
        return None


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else text(value).encode()


def _json(value: Any) -> Any:
    """The value of some JSON text; None where it is none."""
    if value is None:
        return None
    with suppress(ValueError):
        return loads(_bytes(value))
    return None
