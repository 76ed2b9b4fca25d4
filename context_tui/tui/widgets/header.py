"""The three lines at the top: what is open, what was recorded, and how full the window is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from context_tui.sanitize import visible
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.tokens.fit import Fit
from context_tui.tokens.measured import measured
from context_tui.tokens.recorded import in_file, not_in_file, recorded_usage
from context_tui.tui.text import plural
from context_tui.tui.widgets.draw import BOLD, GOOD, HUE, MUTED, WARN, Run, cells, clip, content, safe, spread
from context_tui.tui.widgets.gauge import Level, gauge, numbers
from context_tui.tui.widgets.recorded_line import Recorded, legend, line, recorded_of, request_at

GAP, MIN_BAR = 3, 24
WORDS = ((0, True, True), (0, False, True), (1, False, True), (1, False, False), (2, False, False), (3, False, False))
"""What is said beside the bars, less and less: how short, whether other sizes of the window, and how far it is off."""


def window_text(window: Window, width: int) -> str:
    """Where the window's size is from, where that is a guess."""
    if window.source not in ("assumed", "inferred"):
        return ""
    return f"window {window.source}: w" if width < 100 else f"window {window.tokens:,} {window.source}: w sets it"


class Counts(NamedTuple):
    """How many messages and turns there are."""

    messages: int
    turns: int


def within_text(here: Counts, room: int) -> str:
    """How much is in the context, in *room* cells where that can be."""
    messages, turns = plural(here.messages, "message"), plural(here.turns, "turn")
    forms = (f"in context: {messages}, {turns}", f"in context: {messages}", messages)
    return next((form for form in forms if len(form) <= room), messages)


def file_text(here: Counts, file: Counts, width: int) -> str:
    """What the file holds where that is not what is in the context; shorter on a line of few cells."""
    named = zip(("message", "turn"), here, file, strict=True)
    more = [plural(holds, what) for what, has, holds in named if has != holds]
    return f"(file: {', '.join(more[-1:] if width < 120 else more)})" if more else ""


def title_line(
    session: Session,
    window: Window,
    here: Counts,
    file: Counts,
    requests: int,
    at: int,
    width: int,
    progress: float = 1.0,
) -> list[Run]:
    """What is open, with counts of what is in the context at the point; the point at the right edge, or how much was
    read of what is not read to its end.
    """
    info, facts, more = session.info, session.facts, file_text(here, file, width)
    name = visible(PurePath(info.path).name) or info.title or "session"
    named = safe(f"{name}#{info.id}" if info.id else name, max(12, width // 3))
    problems = plural(len(facts.problems), "problem") if facts.problems else ""
    guessed = window_text(window, width)
    end: Run = ("at the end", "") if progress >= 1 else (f"{progress:.0%} read", f"bold {WARN}")
    point: Run = end if at >= len(session) else (f"before #{at:,}", f"bold {WARN}")
    around = sum(cells([(text, "")]) + 2 for text in (named, problems, guessed, point[0]) if text)
    ranks: list[tuple[int, Run]] = [
        (10, (named, BOLD)),
        (4, (f"compacted by {safe(session.origin, 24)}" if session.origin else "", GOOD)),
        (3, (safe(info.format, 24), MUTED)),
        (5, (safe(facts.model or "", 32), HUE)),
        (7, (" " + within_text(here, width - around - 1), "")),
        (6, (more, MUTED)),
        (8, (problems, WARN)),
        (2, (f"{plural(requests, 'request')}{' in the file' if more else ''}", MUTED)),
        (4, (plural(len(facts.branches), "rewound branch", "rewound branches") if facts.branches else "", MUTED)),
        (8, (guessed, WARN)),
    ]
    return spread([part for part in ranks if part[1][0].strip()], [point], width)


class HeaderBar(Widget):
    """File and counts, the recorded context over the session, and the gauge of the window."""

    DEFAULT_CSS = "HeaderBar { height: 3; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

    class Jumped(Message):
        """The recorded line was clicked at the request that ended at ``message``."""

        def __init__(self, message: int) -> None:
            super().__init__()
            self.message = message

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii
        self.session: Session | None = None
        self._recorded = Recorded((), ())
        self._turns = 0
        self._here = Counts(0, 0)
        self._at = 0
        self._progress = 1.0
        self._level: Level | None = None
        self._parts: Mapping[str, int] | None = None

    def show(
        self,
        session: Session,
        context: Context,
        parts: Mapping[str, int] | None = None,
        *,
        fit: Fit | None = None,
        progress: float = 1.0,
    ) -> None:
        """Show a session at the point of *context*.

        Args:
            parts: ``Breakdown.by_category``, None while it is not known.
            fit: ``fit_at`` of this point, None while it is not known.
            progress: the share of the file that has been read.
        """
        if session is not self.session:
            # Each of these looks at the whole session.
            self.session, self._recorded, self._turns = session, recorded_of(session), session.turns
        usage = recorded_usage(context)
        self._at, self._parts, self._progress = context.at, parts, progress
        self._here = Counts(len(context), len(measured(context).turn_starts))
        self._level = Level(
            usage.context if usage else None,
            measured(context).total + in_file(session.facts),
            not_in_file(context),
            session.window_at(context.at),
            fit,
            bool(self._recorded.tokens),
        )
        self.refresh()

    def show_progress(self, progress: float) -> None:
        """Say how much of the file has been read; the rest stays, as a look at the whole session takes its time."""
        self._progress = progress
        self.refresh()

    def _layout(self, level: Level, width: int) -> tuple[int, list[Run], list[Run]]:
        """Cells of the bars, and the words beside the recorded line and beside the gauge: as long as there is room."""
        found: tuple[int, list[Run], list[Run]] = (0, [], [])
        for detail, others, off in WORDS:
            beside_line = legend(self._recorded, level.window.tokens, detail)
            beside = beside_line, numbers(level, detail, others, off)
            found = (max(width - max(map(cells, beside)) - GAP, 0), *beside)
            if found[0] >= max(MIN_BAR, width // 3):
                break
        return found

    def render(self) -> Content:
        """The three lines."""
        session, level, width = self.session, self._level, self.content_size.width
        if session is None or level is None or not width:
            return Content("")
        size, beside_line, beside_gauge = self._layout(level, width)
        file = Counts(len(session), self._turns)
        requests = len(self._recorded.tokens)
        top = title_line(session, level.window, self._here, file, requests, self._at, width, self._progress)
        middle = line(self._recorded, size, level.window.tokens, self._at) if size else []
        middle += [(" " * (size - cells(middle) + GAP), ""), *beside_line]
        bottom = gauge(level, self._parts, size, self.ascii) if size else []
        bottom += [(" " * GAP, ""), *beside_gauge]
        return Content("\n").join(content(clip(runs, width), self.ascii) for runs in (top, middle, bottom))

    def on_click(self, event: events.Click) -> None:
        """Go to the request that was clicked."""
        if self._level is None or event.y - self.gutter.top != 1:
            return
        size, *_ = self._layout(self._level, self.content_size.width)
        message = request_at(self._recorded, size, self._at, event.x - self.gutter.left)
        if message is not None:
            self.post_message(self.Jumped(message))
