"""Scan files of JSON lines, record by record, and read their full text again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit.branches import BranchFacts
from context_tui.formats.kit.files import format_beginning, read_status
from context_tui.formats.kit.lines import LineFile, LineReader
from context_tui.formats.kit.message_builder import MessageBuilder, ParsedRecord, RecordAdder, RecordContent
from context_tui.session.facts import Facts
from context_tui.session.jsontext import compact_json, is_nested_deeper, loads
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import RecordKind

Record = dict[str, Any]
OTHER_FILE_OFFSET = (1 << 64) - 1
"""Place of a record that precedes the first line, and was read from another file."""


class LineShape(Protocol):
    """Interface of a format's record parser, which keeps state between records, so that each scan needs its own."""

    def parse(self, record: Record) -> ParsedRecord:
        """Parse the JSON object on one line, or raise ValueError with the reason if it is not understood.

        A record is parsed again when its text is displayed, and the result must then be the same.
        """


class LineContent(RecordContent):
    """The full text of a session, read again from its file's lines on demand."""

    def __init__(
        self, builder: MessageBuilder, facts: Facts, file: LineFile, adder: RecordAdder, first: Record | None
    ) -> None:
        super().__init__(builder, facts)
        self.file, self._adder, self.first = file, adder, first

    def parse_record(self, row: int) -> ParsedRecord:
        return self._adder.parse(self.read_record(row))

    def raw(self, record: int) -> str:
        if self.facts.record_place[record] == OTHER_FILE_OFFSET:
            data = compact_json(self.first)
            return format_beginning(data, len(data))
        return self.file.format_line(self.facts.record_place[record], self.facts.record_length[record])

    def is_unchanged(self) -> bool:
        return self.file.is_unchanged()

    def read_record(self, row: int) -> Record:
        """Read the record in *row* again from its line, and return it. The row must not be a problem."""
        if self.first is not None and self.facts.record_place[row] == OTHER_FILE_OFFSET:
            return self.first
        return parse_object(self.file.read_range(self.facts.record_place[row], self.facts.record_length[row]))


class LineScanner:
    """A resumable scan of a file that holds one session and may grow.

    A record from another file, *first*, may precede the first line. *base* is the file that this one continues.
    """

    def __init__(
        self,
        path: Path,
        info: SessionInfo,
        shape: Callable[[], LineShape],
        *,
        input_includes_cache: bool = False,
        first: Record | None = None,
        base: LineFile | None = None,
    ) -> None:
        self._file, self._info, self._first = LineFile(path, base=base), info, first
        self._builder = MessageBuilder()
        self._adder = RecordAdder(shape(), self._builder)
        self._builder.facts.input_includes_cache = input_includes_cache
        self._readers = [LineReader(self._file, self._builder.facts, parse_object)]
        while base is not None:
            self._readers.insert(0, LineReader(base, self._builder.facts, parse_object, f"{base.path.name}, "))
            base = base.base
        self._live = BranchFacts(self._builder.facts, self._builder, info)
        if first is not None:
            self._append_record(first, OTHER_FILE_OFFSET, 0)

    @property
    def progress(self) -> float:
        size = self._file.start + self._file.size
        return self._readers[0].place / size if size else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        facts, old_count = self._builder.facts, len(self._builder.facts)
        while is_end := self._readers[0].advance(self._append_record, deadline):
            if len(self._readers) == 1:
                break
            self._readers.pop(0)
        if is_end and not any(kind != RecordKind.PROBLEM for kind in facts.record_kind):
            reason = f"; {facts.problems[0].where}: {facts.problems[0].what}" if facts.problems else ""
            raise UnreadableSession(f"{self._file.path}: holds no known record{reason}")
        changed = self._live.find_first_changed(self._builder.pop_first_changed(old_count))
        return Advance(len(facts) - old_count, changed, is_end)

    def session(self) -> Session:
        facts = self._live.select_facts()
        content = LineContent(self._builder, facts, self._file, self._adder, self._first)
        return Session(facts, content, self._info, len(facts))

    def _append_record(self, record: Record, place: int, length: int) -> None:
        self._adder.add(record, self._readers[0].line_label, place, length)


def parse_object(line: bytes) -> Record:
    """Return the JSON object on a line, or raise ValueError if the line holds another value or is nested too deeply."""
    value = loads(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if is_nested_deeper(value):
        raise ValueError("nested too deeply")
    return value


def is_whole_file(session: Session) -> bool:
    """Return whether a session consists of all lines of a single file."""
    content = session.content
    if not isinstance(content, LineContent) or session.info.id:
        return False
    return content.first is None and content.file.base is None


def copy_lines(session: Session, path: Path) -> list[str] | None:
    """Copy the lines read so far to *path*, and return notes, or None if that is impossible (see ``Format.copy``)."""
    content = session.content
    if not isinstance(content, LineContent) or not is_whole_file(session):
        return None
    return copy_read_lines(content.file, content.facts, path)


def copy_read_lines(file: LineFile, facts: Facts, path: Path) -> list[str]:
    """Copy the lines read so far to the new file *path*, and return a note on unread bytes, or [] if there are none."""
    with path.open("xb") as out:
        ends = map(sum, zip(facts.record_place, facts.record_length, strict=True))
        file.copy_to(max(ends, default=0), out)
        unread_bytes = os.stat(file.descriptor).st_size - out.tell()
    note = f"not in the copy: {unread_bytes:,} bytes at the end of the file that were not read"
    return [note] if unread_bytes else []


def list_only_session(path: Path, format_name: str, title: str = "") -> list[SessionInfo]:
    """Return a list of a file's only session (see ``Format.list_sessions``). The default title is the file name."""
    status = read_status(path)
    return [SessionInfo(str(path), format_name, "", title or path.stem, time=status.st_mtime, bytes=status.st_size)]
