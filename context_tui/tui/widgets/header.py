"""The lines at the top: what is open, what was recorded, how full the window is, and of what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from context_tui.compaction.next_request import compute_current_size
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.text.numbers import format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tokens.accounting import find_last_request
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.counts import ContextCounts, count_context, find_turn_starts, format_context_counts
from context_tui.tui.text import pluralize
from context_tui.tui.widgets.composition import Share, parts_line, parts_of
from context_tui.tui.widgets.draw import BOLD, GOOD, HUE, MUTED, WARN, Run, cells, clip, content, safe, spread
from context_tui.tui.widgets.gauge import Level, gauge_line
from context_tui.tui.widgets.recorded_line import Recorded, recorded_line, recorded_of, request_at

LEAST = 24
"""Cells of a bar below which words give way to it."""


def window_text(window: Window, width: int) -> str:
    """Where the window's size is from, where that is a guess."""
    if window.source not in ("assumed", "inferred"):
        return ""
    if width < 72:
        return f"window {window.source}: w"
    return f"window {window.source if width < 100 else f'{window.tokens:,} {window.source}'}: w sets it"


def others_text(window: Window) -> str:
    """The other sizes that the window of this model could have."""
    others = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"the window may be {others}: w sets it" if others and not window_text(window, 100) else ""


def title_line(
    session: Session,
    window: Window,
    here: ContextCounts,
    turns: int,
    requests: int,
    at: int,
    width: int,
    progress: float = 1.0,
    read: int | None = None,
    ruler: str = "",
    following: bool = False,
) -> list[Run]:
    """What is open, with counts of what is in the context at the point; the point at the right edge, or how much was
    read of what is not read to its end. While it is being read, *read* messages so far, nobody knows what is in it.
    *ruler* is what sizes are by, where it is not the policies' own; *following* says that it is read as it grows.
    """
    info, facts = session.info, session.facts
    name = make_visible(PurePath(info.path).name) or info.title or "session"
    named = safe(f"{name}#{info.id}" if info.id else name, max(12, width // 3))
    problems = pluralize(len(facts.problems), "problem") if facts.problems else ""
    guessed = window_text(window, width)
    done: Run = ("● following", GOOD) if following else ("at the end", "")
    end: Run = done if progress >= 1 else (f"{format_percent(progress)} read", f"bold {WARN}")
    point: Run = end if at >= len(session) else (f"before #{at:,}", f"bold {WARN}")
    around = sum(cells([(text, "")]) + 2 for text in (named, problems, guessed, ruler, point[0]) if text)
    if read is None:
        within = format_context_counts(here, len(session), turns, width - around - 1)
    else:
        within = f"{pluralize(read, 'message')} so far" if read else ""
    ranks: list[tuple[int, Run]] = [
        (10, (named, BOLD)),
        (4, (f"compacted by {safe(session.origin, 24)}" if session.origin else "", GOOD)),
        (3, (safe(info.format, 24), MUTED)),
        (5, (safe(facts.model or "", 32), HUE)),
        (7, (" " + within, "")),
        (8, (problems, WARN)),
        (6, (ruler, HUE)),
        (2, (pluralize(requests, "request") if requests else "", MUTED)),
        (4, (pluralize(len(facts.branches), "rewound branch", "rewound branches") if facts.branches else "", MUTED)),
        (8, (guessed, WARN)),
        (1, (others_text(window), MUTED)),
    ]
    return spread([part for part in ranks if part[1][0].strip()], [point], width)


def _named(sizes: TokenTable | None, width: int = 200) -> str:
    """A ruler with how good it is, in few words, fewer where it is narrow; empty for the policies' own."""
    if sizes is None:
        return ""
    brief = sizes.note.partition(":")[0]
    if width < 100:
        return f"{sizes.label} {brief}" if sizes.measure is TokenMeasure.CALIBRATED else sizes.label
    return f"by {sizes.name} ({brief})"


def _heads(sizes: TokenTable | None) -> tuple[str, ...]:
    """What stands before the parts, by which ruler they are: from more words to fewer."""
    if sizes is None:
        return "estimated parts:", "est."
    return f"parts by {sizes.description}:", f"parts {_named(sizes)}:", f"parts by {sizes.name}:", sizes.label


class HeaderBar(Widget):
    """File and counts, the recorded context over the session, the gauge of the window, and what it is full of.

    Where it is less than four lines high, first the recorded context is left out, then the parts.
    """

    DEFAULT_CSS = "HeaderBar { height: 4; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

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
        self._starts: list[int] = []
        self._here = ContextCounts(0, 0)
        self._at = 0
        self._progress, self._following = 1.0, False
        self._read: int | None = None
        self._level: Level | None = None
        self._parts: list[Share] | None = None
        self._sizes: TokenTable | None = None
        self._drawn: tuple[Size, Content] | None = None
        self._columns = range(0)

    def show(
        self,
        session: Session,
        context: Context,
        parts: Mapping[str, int] | None = None,
        *,
        progress: float = 1.0,
        sizes: TokenTable | None = None,
        following: bool = False,
    ) -> None:
        """Show a session at the point of *context*.

        Args:
            parts: ``Breakdown.by_category``, None while it is not known.
            sizes: the ruler that these are by; ``bytes/4`` without one.
            progress: the share of the file that has been read.
            following: whether it is read as it grows.
        """
        if session is not self.session:
            # Each of these looks at the whole session.
            self.session, self._recorded, self._starts = session, recorded_of(session), find_turn_starts(session)
        size, row = compute_current_size(context, sizes), find_last_request(context)
        self._at, self._progress, self._following = context.at, progress, following
        self._read = 0 if progress < 1 and not len(session) else None
        self._here = count_context(context, self._starts)
        message = session.facts.request_message[row] if row >= 0 else -1
        self._level = Level(size, session.window_at(context.at), message)
        self._parts = None if parts is None else parts_of(parts, size.tokens)
        self._sizes = sizes
        self._draw_again()

    def show_progress(self, progress: float, messages: int) -> None:
        """Say how much of the file has been read; the rest stays, as a look at the whole session takes its time."""
        self._progress = progress
        if self._read is not None:
            self._read = messages
        self._draw_again()

    def _draw_again(self) -> None:
        self._drawn = None
        self.refresh()

    def render(self) -> Content:
        """The lines; they are made once for what is shown in a size."""
        if self._drawn is None or self._drawn[0] != self.content_size:
            lines = self._lines(*self.content_size)
            drawn = Content("\n").join(content(clip(runs, self.content_size.width), self.ascii) for runs in lines)
            self._drawn = self.content_size, drawn
        return self._drawn[1]

    def _lines(self, width: int, height: int) -> list[list[Run]]:
        session, level, parts = self.session, self._level, self._parts
        if session is None or level is None or not width:
            return []
        turns, requests = len(self._starts), len(self._recorded.tokens)
        lines = [
            title_line(
                session,
                level.window,
                self._here,
                turns,
                requests,
                self._at,
                width,
                self._progress,
                self._read,
                _named(self._sizes, width),
                self._following,
            )
        ]
        self._columns = range(0)
        if self._read is not None:
            return lines
        least = max(LEAST, width // 3)
        if height > 3:
            drawn, self._columns = recorded_line(self._recorded, width, level.window.tokens, self._at, least)
            lines.append(drawn)
        lines.append(gauge_line(level, parts, width, least))
        if height > 2 and parts:
            lines.append(parts_line(parts, level.free, width, _heads(self._sizes)))
        return lines

    def on_click(self, event: events.Click) -> None:
        """Go to the request that was clicked."""
        cell = event.x - self.gutter.left
        if event.y - self.gutter.top == 1 and cell in self._columns:
            message = request_at(self._recorded, len(self._columns), self._at, cell - self._columns.start)
            if message is not None:
                self.post_message(self.Jumped(message))
