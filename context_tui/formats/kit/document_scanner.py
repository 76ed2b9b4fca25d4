"""Scan the message lists in JSON documents, element by element, and read their full text again."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance, Format, Scanner
from context_tui.formats.kit import files, message_builder
from context_tui.formats.kit.blocks import extract_text
from context_tui.formats.kit.documents import (
    DEFAULT_MESSAGE_LISTS,
    BrokenElement,
    Element,
    Run,
    RunFinder,
    count_element_bytes,
    decode_element,
    encode_run,
    find_runs,
    format_element,
    get_element_text,
    read_runs,
)
from context_tui.formats.kit.heads import read_first_values
from context_tui.formats.kit.prompts import join_system
from context_tui.formats.kit.values import format_title
from context_tui.session.losses import format_losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import RecordKind, Role


class DocumentShape(Protocol):
    """Interface of a format's element parser, which keeps state between elements, so that each scan needs its own.

    A shape may also have ``lists``, the :class:`MessageLists` that locates runs; ``note``, a function that returns a
    note for users about a run; and ``title``, a function that turns the text of the first prompt into a title.
    """

    def read_metadata(self, run: Run, builder: message_builder.MessageBuilder) -> None:
        """Pass the metadata beside the message list to *builder*: model, context window, system prompt and tools."""

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        """Return the tool schemas recorded with a run, in Anthropic's form, or an empty list if there are none."""
        return []

    def parse_response(self, run: Run) -> dict[str, Any] | None:
        """Return the response logged beside the list, as one more element with ``usage``, or None if there is none."""
        return None

    def parse(self, value: Any, place: int) -> message_builder.ParsedRecord:
        """Parse the element at index *place* of the list, or raise ValueError if it is not a message."""


class DocumentContent(message_builder.RecordContent):
    """The full text of a run. The bytes of its elements stay in memory."""

    def __init__(self, builder: message_builder.MessageBuilder, scanner: DocumentScanner) -> None:
        super().__init__(builder, builder.facts)
        self.elements, self.run, self.shape = scanner.elements, scanner.run, scanner.shape
        self._parse, self.has_run = scanner.adder.parse, scanner.has_run

    def is_unchanged(self) -> bool:
        return self.has_run(self.run)

    def parse_record(self, row: int) -> message_builder.ParsedRecord:
        return self._parse(self.decode_element(row), self.facts.record_place[row])

    def decode_element(self, row: int) -> Any:
        """Return the JSON value of the element in record *row*, or raise ValueError if it cannot be decoded."""
        return decode_element(self.elements[self.facts.record_place[row]])

    def raw(self, record: int) -> str:
        return format_element(self.elements[self.facts.record_place[record]])

    def tools(self) -> list[dict[str, Any]]:
        return self.builder.tools or self.shape.parse_tools(self.run)


RunReader = Callable[[Path], list[Run]]
"""Function that reads the message lists in a file, such as :func:`read_runs`."""


class DocumentScanner:
    """A resumable scan of one run in a file, which reads only the new elements if some were appended.

    After any other change it starts again. It starts again after every change if the session has ``related_files``
    (files and folders that also describe it), or ``needs_lookahead`` (parsing an element depends on later ones).
    """

    def __init__(
        self,
        path: Path,
        info: SessionInfo,
        shape: Callable[[], DocumentShape],
        *,
        read_runs: RunReader = read_runs,
        related_files: Sequence[Path] = (),
        needs_lookahead: bool = False,
    ) -> None:
        self._path, self._info, self._new_shape = path, info, shape
        self._is_resumable = not related_files and not needs_lookahead
        self._read_runs, self.related_files = read_runs, tuple(related_files)
        self._stamp = self._read_stamp()
        self._start_run(self._read_run())

    @property
    def progress(self) -> float:
        return self._next / len(self.elements) if self.elements else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted = self._next == len(self.elements) and self._stamp != self._read_stamp() and self._reload()
        old_count = 0 if restarted else len(self._builder.facts)
        while self._next < len(self.elements):
            self._scan_element(self._next)
            self._next += 1
            if deadline is not None and time.monotonic() >= deadline:
                break
        facts, is_end = self._builder.facts, self._next == len(self.elements)
        if is_end and len(facts.record_kind) and not any(kind != RecordKind.PROBLEM for kind in facts.record_kind):
            raise UnreadableSession(f"{self._path}: none of its records can be read: {facts.problems[0].what}")
        changed = self._builder.pop_first_changed(old_count)
        return Advance(len(facts) - old_count, 0 if restarted else changed, is_end)

    def session(self) -> Session:
        content = DocumentContent(self._builder, self)
        return Session(content.facts, content, self._info, len(content.facts))

    def _scan_element(self, place: int) -> None:
        element, location = self.elements[place], f"element {place}"
        size = count_element_bytes(element)
        if reason := files.format_too_large(size):
            self._builder.add_problem(place, size, location, reason)
            return
        try:
            value = decode_element(element)
        except ValueError as error:
            self._builder.add_problem(place, size, location, str(error))
        else:
            self.adder.add(value, location, place, size, place)

    def has_run(self, run: Run) -> bool:
        """Return whether the file still begins with the complete elements of *run*, and has the same metadata."""
        current, is_torn = self._read_run(), bool(run.elements) and isinstance(run.elements[-1], BrokenElement)
        elements = run.elements[: len(run.elements) - is_torn]
        if [*map(get_element_text, current.elements[: len(elements)])] != [*map(get_element_text, elements)]:
            return False
        (system, *metadata), (new_system, *new_metadata) = map(self._read_out_of_band, (run, current))
        return system == new_system and all(old in (None, new) for old, new in zip(metadata, new_metadata, strict=True))

    def _read_out_of_band(self, run: Run) -> tuple[Any, ...]:
        """Return (system prompt, tools), model and response of a run. The file may gain a model or response later."""
        shape, builder = self._new_shape(), message_builder.MessageBuilder()
        shape.read_metadata(run, builder)
        return (join_system(builder.facts), shape.parse_tools(run)), builder.facts.model, shape.parse_response(run)

    def _read_stamp(self) -> tuple[files.FileStamp | None, ...]:
        return tuple(map(files.read_file_stamp, (self._path, *self.related_files)))

    def _read_run(self) -> Run:
        runs = self._read_runs(self._path)
        number = int(self._info.id or 0) if (self._info.id or "0").isdecimal() else -1
        if number < 0 and len(runs) == 1:  # the id names the file among others
            number = 0
        if not 0 <= number < len(runs):
            raise UnreadableSession(f"{self._path}: unknown session {self._info.id!r}")
        return runs[number]

    def _start_run(self, run: Run) -> None:
        self.run, self.shape, self._builder = run, self._new_shape(), message_builder.MessageBuilder()
        self.adder = message_builder.RecordAdder(self.shape, self._builder)
        self.elements, self._next = _append_response(run, self.shape), 0
        self.shape.read_metadata(run, self._builder)

    def _reload(self) -> bool:
        self._stamp = self._read_stamp()
        try:
            run = self._read_run()
        except UnreadableSession:  # while it is being written, keep what was read
            return False
        elements = _append_response(run, self.shape)
        is_extended = [*map(get_element_text, elements[: self._next])] == [*map(get_element_text, self.elements)]
        if self._is_resumable and is_extended:
            self.run, self.elements = run, elements
            return False
        self._start_run(run)
        return True


def _append_response(run: Run, shape: DocumentShape) -> list[Element]:
    """Return a run's elements with its logged response appended, or merged into a last element with equal blocks."""
    response = shape.parse_response(run)
    if response is None:
        return run.elements
    if run.elements:
        with suppress(ValueError):
            if isinstance(newest := decode_element(run.elements[-1]), dict):
                messages = [message_builder.find_message(shape.parse(each, -1)) for each in (newest, response)]
                own_blocks, response_blocks = (message.blocks if message else [] for message in messages)
                if own_blocks == response_blocks:
                    return [*run.elements[:-1], {**response, **newest}]
    return [*run.elements, response]


def list_document_sessions(
    path: Path, name: str, shape: Callable[[], DocumentShape], runs: list[Run]
) -> list[SessionInfo]:
    """Return a session for each run in a document, titled by its first prompt.

    A session's id is the number of its run, or "" if the document has only one run.
    """
    status, format_note = files.read_status(path), getattr(shape, "note", lambda run: "")
    return [
        SessionInfo(
            str(path),
            name,
            "" if len(runs) == 1 else str(number),
            find_run_title(run, shape()),
            time=status.st_mtime,
            bytes=status.st_size if len(runs) == 1 else sum(map(count_element_bytes, run.elements)),
            note=run.note or str(format_note(run)),
        )
        for number, run in enumerate(runs)
    ]


class DocumentFormat(Format):
    """Base class for formats that store message lists in JSON documents and parse their elements with ``shape``."""

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    shape: ClassVar[type[DocumentShape]]
    needs_lookahead: ClassVar[bool] = False

    def find_runs(self, values: list[Element]) -> list[Run]:
        """Return the runs, each a message list with its metadata, among the JSON values of a file."""
        return find_runs(values, getattr(self.shape, "lists", DEFAULT_MESSAGE_LISTS))

    def read_runs(self, path: Path) -> list[Run]:
        """Read a file and return its runs, or raise UnreadableSession if it has none."""
        return read_runs(path, self.find_runs)

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        return list_document_sessions(path, self.name, self.shape, self.read_runs(path))

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        return DocumentScanner(path, info, self.shape, read_runs=self.read_runs, needs_lookahead=self.needs_lookahead)


def read_document_title(path: Path, shape: DocumentShape, find_runs: RunFinder = find_runs) -> str:
    """Return a title for the first session in a document, or "" if the head of the file contains no typed prompt."""
    runs = find_runs(read_first_values(path))
    return find_run_title(runs[0], shape) if runs else ""


def copy_document(session: Session, path: Path) -> list[str] | None:
    """Copy a session's file, or write only the session's run if the file holds several (see ``Format.copy``)."""
    content = session.content
    if not isinstance(content, DocumentContent):
        return None
    if not session.info.id:
        with files.open_regular(session.info.path) as source, path.open("xb") as out:
            shutil.copyfileobj(source, out)
        return []
    path.write_bytes(encode_run(content.run))
    broken = sum(isinstance(each, BrokenElement) for each in content.run.elements)
    return format_losses(Counter({"records left out that are no JSON": broken} if broken else {}))


def find_run_title(run: Run, shape: DocumentShape) -> str:
    """Return a title made from the first typed prompt in a run, or "" if its first ten elements contain none."""
    parse, format_text = message_builder.validate_result(shape.parse), getattr(shape, "title", format_title)
    for place, element in enumerate(run.elements[:10]):
        try:
            message = message_builder.find_message(parse(decode_element(element), place))
        except ValueError:
            continue
        if message is None or message.role != Role.USER or message.has_results or message.is_injected:
            continue
        if title := format_text(extract_text(message.blocks)):
            return str(title)
    return ""
