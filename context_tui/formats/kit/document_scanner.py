"""Scanning the message list of a document, one element after the other; and reading its text again."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit.documents import (
    MESSAGES,
    Broken,
    Element,
    Lists,
    Run,
    RunFinder,
    encoded,
    read_runs,
    runs_in,
    shown,
    size_of,
    text_of,
    value_of,
)
from context_tui.formats.kit.files import file_stamp, open_regular, status_of
from context_tui.formats.kit.heads import values_at
from context_tui.formats.kit.limits import too_large
from context_tui.formats.kit.line_scanner import Placing
from context_tui.formats.kit.message_builder import MessageBuilder, Part, checking
from context_tui.formats.kit.rereading import Rereading
from context_tui.formats.kit.values import text_in, title_of
from context_tui.session.losses import format_losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import RecordKind, Role


class DocumentShape(Protocol):
    """How a format understands a run. One is made for every pass over it.

    It may have ``lists``, the :class:`Lists` that its runs are found by, ``note``, a function of a run that says what a
    user has to know before reading it, and ``title``, one of the text that was asked first, where that begins alike in
    every session.
    """

    def begin(self, run: Run, builder: MessageBuilder) -> None:
        """Take what stands beside the message list: model, window, system prompt, tools."""

    def tools(self, run: Run) -> list[dict[str, Any]]:
        """The run's tool schemas, Anthropic-shaped; none in most files."""
        return []

    def reply(self, run: Run) -> dict[str, Any] | None:
        """The logged response as one more element of the list, with its ``usage``; in most files each is in it."""
        return None

    def part(self, value: Any, place: int) -> Part:
        """What the element at *place* says.

        Raises:
            ValueError: it is no message.
        """


class DocumentContent:
    """Full text of a run that is at hand as the file's own bytes."""

    def __init__(
        self,
        elements: list[Element],
        run: Run,
        shape: DocumentShape,
        part: Callable[[Any, int], Part],
        builder: MessageBuilder,
        now: Callable[[Run], bool],
    ) -> None:
        self._elements, self.run, self._shape = elements, run, shape
        self._builder, self.facts, self._now = builder, builder.facts, now
        self._part, self._texts = part, Rereading(builder.facts)

    def is_unchanged(self) -> bool:
        """Whether the file still has the run as it was read; there may be more of it."""
        return self._now(self.run)

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Blocks of a message, from every element that it was put together from."""
        places = self.facts.record_place
        return self._texts.blocks(message, lambda row: self._part(self.value(row), places[row]))

    def value(self, row: int) -> Any:
        """The element of a record that could be read."""
        return value_of(self._elements[self.facts.record_place[row]])

    def raw(self, record: int) -> str:
        """An element's own text."""
        return shown(self._elements[self.facts.record_place[record]])

    def system(self) -> str:
        """The system prompt, wherever the request had it."""
        return self._builder.system

    def tools(self) -> list[dict[str, Any]]:
        """Tool schemas, Anthropic-shaped."""
        return self._builder.tools or self._shape.tools(self.run)


Runs = Callable[[Path], list[Run]]
"""How a format reads the message lists in a file: :func:`read_runs`, or one of its own."""


class DocumentScanner:
    """A resumable scan of one run of a file; when the file has changed, only what is new is read, if that can be.

    ``runs`` finds the message lists, and ``others`` are files or folders that a session is told in as well, which the
    shape and ``runs`` look at: where there are any, a change means reading all of it again; and so it does where
    elements are understood by what stands behind them (``ahead``).
    """

    def __init__(
        self,
        path: Path,
        info: SessionInfo,
        shape: Callable[[], DocumentShape],
        *,
        runs: Runs | None = None,
        others: Sequence[Path] = (),
        ahead: bool = False,
    ) -> None:
        self._path, self._info, self._new_shape = path, info, shape
        self._reads_on = not others and not ahead
        self._read_runs, self.others = runs or runs_by(shape), tuple(others)
        self._stamp: tuple[tuple[int, int] | None, ...] = ()
        self._load(self._read())

    @property
    def progress(self) -> float:
        """Share of the elements that have been read."""
        return self._next / len(self._elements) if self._elements else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on for about *budget_s* seconds, or to the end when None."""
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted = self._next == len(self._elements) and self._stamp != self._stamp_now() and self._reload()
        before = 0 if restarted else len(self._builder.facts)
        while self._next < len(self._elements):
            self._take(self._next)
            self._next += 1
            if deadline is not None and time.monotonic() >= deadline:
                break
        facts, end = self._builder.facts, self._next == len(self._elements)
        if end and len(facts.record_kind) and not any(kind != RecordKind.PROBLEM for kind in facts.record_kind):
            raise UnreadableSession(f"{self._path}: none of its records can be read: {facts.problems[0].what}")
        changed = self._builder.first_changed(before)
        return Advance(len(facts) - before, 0 if restarted else changed, end)

    def session(self) -> Session:
        """A view of what has been read so far."""
        content = DocumentContent(self._elements, self._run, self._shape, self._part, self._builder, self._still_has)
        return Session(self._builder.facts, content, self._info, len(self._builder.facts))

    def _take(self, place: int) -> None:
        element, where = self._elements[place], f"element {place}"
        size = size_of(element)
        if what := too_large(size):
            self._builder.add_problem(place, size, where, what)
            return
        try:
            value = value_of(element)
            part = self._part(value, place)
            if self._placed:
                part = self._placed(value, part)
        except ValueError as error:
            self._builder.add_problem(place, size, where, str(error))
        else:
            self._builder.add(part, place, size, where)

    def _still_has(self, run: Run) -> bool:
        """Whether the file begins with what *run* was: its elements (but for a torn one), and what stands beside."""
        now, torn = self._run_now(), bool(run.elements) and isinstance(run.elements[-1], Broken)
        known = run.elements[: len(run.elements) - torn]
        if [*map(text_of, now.elements[: len(known)])] != [*map(text_of, known)]:
            return False
        (system, *others), (system_now, *others_now) = map(self._beside, (run, now))
        return system == system_now and all(old in (None, new) for old, new in zip(others, others_now, strict=True))

    def _beside(self, run: Run) -> tuple[Any, ...]:
        """What a run has besides its elements: system prompt and tools; model and response, which may come later."""
        shape, builder = self._new_shape(), MessageBuilder()
        shape.begin(run, builder)
        return (builder.system, shape.tools(run)), builder.facts.model, shape.reply(run)

    def _stamp_now(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(map(file_stamp, (self._path, *self.others)))

    def _read(self) -> Run:
        self._stamp = self._stamp_now()
        return self._run_now()

    def _run_now(self) -> Run:
        runs = self._read_runs(self._path)
        number = int(self._info.id or 0) if (self._info.id or "0").isdecimal() else -1
        if number < 0 and len(runs) == 1:  # the id names the file among others
            number = 0
        if not 0 <= number < len(runs):
            raise UnreadableSession(f"{self._path}: unknown session {self._info.id!r}")
        return runs[number]

    def _load(self, run: Run) -> None:
        self._run, self._shape, self._builder = run, self._new_shape(), MessageBuilder()
        self._part = checking(self._shape.part)
        self._placed = self._shape.placed if isinstance(self._shape, Placing) else None
        self._elements, self._next = _with_reply(run, self._shape), 0
        self._shape.begin(run, self._builder)

    def _reload(self) -> bool:
        """Read a file again that has changed; whether the scan has to start again."""
        try:
            run = self._read()
        except UnreadableSession:  # caught in the middle of being written: what was read still stands
            return False
        elements = _with_reply(run, self._shape)
        if self._reads_on and [*map(text_of, elements[: self._next])] == [*map(text_of, self._elements)]:
            self._run, self._elements = run, elements
            return False
        self._load(run)
        return True


def _with_reply(run: Run, shape: DocumentShape) -> list[Element]:
    """The elements of a run, and the logged response behind them; an element that is the response gets its usage."""
    reply = shape.reply(run)
    if reply is None:
        return run.elements
    if run.elements:
        try:
            last = value_of(run.elements[-1])
            if isinstance(last, dict) and shape.part(last, -1).blocks == shape.part(reply, -1).blocks:
                return [*run.elements[:-1], {**reply, **last}]
        except ValueError:
            pass
    return [*run.elements, reply]


def lists_of(shape: Callable[[], DocumentShape]) -> Lists:
    """What the runs of a format are found by."""
    return cast(Lists, getattr(shape, "lists", MESSAGES))


def runs_by(shape: Callable[[], DocumentShape]) -> Runs:
    """How the message lists of a format are read that has no way of its own."""
    return lambda path: read_runs(path, partial(runs_in, lists=lists_of(shape)))


def _note_of(shape: Callable[[], DocumentShape], run: Run) -> str:
    note = getattr(shape, "note", None)
    return str(note(run)) if note else ""


def documents_in(
    path: Path, name: str, shape: Callable[[], DocumentShape], *, runs: Runs | None = None
) -> list[SessionInfo]:
    """The sessions of a document: its runs, by number, titled with what was said first."""
    found = (runs or runs_by(shape))(path)
    status = status_of(path)
    return [
        SessionInfo(
            str(path),
            name,
            "" if len(found) == 1 else str(number),
            title_of_run(run, shape()),
            time=status.st_mtime,
            bytes=status.st_size if len(found) == 1 else sum(map(size_of, run.elements)),
            note=run.note or _note_of(shape, run),
        )
        for number, run in enumerate(found)
    ]


def title_in_head(path: Path, shape: DocumentShape, find: RunFinder = runs_in) -> str:
    """What the first session of a document is about, from its head; empty where that does not tell."""
    runs = find(values_at(path))
    return title_of_run(runs[0], shape) if runs else ""


def copy_document(session: Session, path: Path) -> list[str] | None:
    """Write the file that *session* is all of, byte for byte, or of one with several the run as a document of its own.

    Returns:
        What is left out; None for a session that was not read from a document.
    """
    content = session.content
    if not isinstance(content, DocumentContent):
        return None
    if not session.info.id:
        with open_regular(session.info.path) as source, path.open("xb") as out:
            shutil.copyfileobj(source, out)
        return []
    path.write_bytes(encoded(content.run))
    broken = sum(isinstance(each, Broken) for each in content.run.elements)
    return format_losses(Counter({"records left out that are no JSON": broken} if broken else {}))


def title_of_run(run: Run, shape: DocumentShape) -> str:
    """What was said first in a run that nobody put in; empty where its first elements do not tell."""
    understood, titled = checking(shape.part), getattr(shape, "title", title_of)
    for place, element in enumerate(run.elements[:10]):
        try:
            part = understood(value_of(element), place)
        except ValueError:
            continue
        if part.role == Role.USER and not (part.results or part.injected) and (said := titled(text_in(part.blocks))):
            return str(said)
    return ""
