"""Reading a file of JSON lines whose records a format understands one at a time; and reading their text again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit.files import status_of
from context_tui.formats.kit.lines import LineFile, LineReader
from context_tui.formats.kit.message_builder import MessageBuilder, Part, checking
from context_tui.session.facts import RecordKind
from context_tui.session.jsontext import loads, nested_deeper
from context_tui.session.session import Session, SessionInfo

Record = dict[str, Any]


class LineShape(Protocol):
    """How a format understands the records on its lines. One is made for every pass over a file."""

    def part(self, record: Record) -> Part:
        """What a record says. It is asked again when the text is shown, so it must say the same of the same record.

        Raises:
            ValueError: it is not understood; the message says why.
        """


class LinesContent:
    """Full text of a session, read from the lines of its file when it is asked for."""

    def __init__(self, file: LineFile, part: Callable[[Record], Part], builder: MessageBuilder) -> None:
        self.file, self._part, self._builder = file, part, builder

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Blocks of a message, from every record that it was put together from."""
        rows = self._builder.facts.records_of(message)
        return [block for row in rows for block in self._part(parse_object(self._line(row))).blocks]

    def raw(self, record: int) -> str:
        """A record's own text."""
        facts = self._builder.facts
        return self.file.shown(facts.record_place[record], facts.record_length[record])

    def system(self) -> str:
        """The system prompt, where a record held it."""
        return self._builder.system

    def tools(self) -> list[dict[str, Any]]:
        """Nothing: records of a conversation do not hold tool schemas."""
        return []

    def unchanged(self) -> bool:
        """Whether the file still begins with what was read."""
        return self.file.unchanged()

    def _line(self, record: int) -> bytes:
        facts = self._builder.facts
        return self.file.read(facts.record_place[record], facts.record_length[record])


class LineScanner:
    """A resumable scan of the only session in a file; as the file grows, what is new is read."""

    def __init__(self, path: Path, info: SessionInfo, shape: Callable[[], LineShape]) -> None:
        self._file, self._info, self._part = LineFile(path), info, checking(shape().part)
        self._builder = MessageBuilder()
        self._reader = LineReader(self._file, self._builder.facts, parse_object)

    @property
    def progress(self) -> float:
        """Share of the file that has been read."""
        return self._reader.progress

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on for about *budget_s* seconds, or to the end when None."""
        deadline = None if budget_s is None else time.perf_counter() + budget_s
        facts, before = self._builder.facts, len(self._builder.facts)
        end = self._reader.advance(self._take, deadline)
        if end and not any(kind != RecordKind.PROBLEM for kind in facts.record_kind):
            raise UnreadableSession(f"{self._file.path}: holds no known record")
        return Advance(len(facts) - before, self._builder.first_changed(before), end)

    def session(self) -> Session:
        """A view of what has been read so far."""
        facts = self._builder.facts
        return Session(facts, LinesContent(self._file, self._part, self._builder), self._info, len(facts))

    def _take(self, record: Record, place: int, length: int) -> None:
        try:
            part = self._part(record)
        except ValueError as error:
            self._reader.problem(place, length, str(error))
        else:
            self._builder.add(part, place, length, self._reader.where)


def parse_object(line: bytes) -> Record:
    """The object on a line.

    Raises:
        ValueError: it holds something else, or is nested too deeply to be worked with.
    """
    value = loads(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if nested_deeper(value):
        raise ValueError("nested too deeply")
    return value


def only_session(path: Path, format_name: str, title: str = "") -> list[SessionInfo]:
    """The one session of a file, as :meth:`Format.sessions` gives it.

    Raises:
        UnreadableSession: the file cannot be read.
    """
    status = status_of(path)
    return [SessionInfo(str(path), format_name, "", title or path.stem, time=status.st_mtime, bytes=status.st_size)]
