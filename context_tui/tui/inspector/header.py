"""Header of the inspector: the session, its requests, the gauge of the context window, and parts of the context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.text.numbers import format_count, format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tokens.accounting import find_last_request
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.inspector.request_history import (
    RequestHistory,
    build_request_history,
    find_message_at_cell,
    format_history_line,
)
from context_tui.tui.timeline.turns import ContextCounts, count_context, find_turn_starts, format_context_counts
from context_tui.tui.widgets.gauge import (
    ContextPart,
    WindowLevel,
    build_context_parts,
    format_gauge_line,
    format_parts_line,
)
from context_tui.tui.widgets.styled_text import (
    BOLD,
    GOOD,
    MUTED,
    PRIMARY,
    WARN,
    Run,
    build_lines,
    clip_runs,
    count_cells,
    format_safe_line,
    justify_runs,
)

MIN_GAUGE_WIDTH = 24
"""Cells of a bar for which the texts beside it are shortened."""


def format_window_source(window: Window, width: int) -> str:
    """Format the source of the window's size; empty unless the size is a guess."""
    if window.source not in ("assumed", "inferred"):
        return ""
    if width < 72:
        return f"window {window.source}: w"
    return f"window {window.source if width < 100 else f'{window.tokens:,} {window.source}'}: w sets it"


def format_window_alternatives(window: Window) -> str:
    """Format the other sizes that the window of this model may have; empty if the size is a guess."""
    sizes = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    return f"the window may be {sizes}: w sets it" if sizes and not format_window_source(window, 100) else ""


def _format_measure(token_table: TokenTable | None, width: int = 200) -> str:
    """Format a token measure with its accuracy, shorter if *width* is small; empty for the policies' own."""
    if token_table is None:
        return ""
    accuracy = token_table.note.partition(":")[0]
    if token_table.measure is TokenMeasure.CALIBRATED:
        return f"{token_table.label} {accuracy}"
    return token_table.label if width < 100 else f"by {token_table.name} ({accuracy})"


def _format_parts_labels(token_table: TokenTable | None) -> tuple[str, ...]:
    if token_table is None:
        return "estimated parts:", "est."
    if token_table.measure is TokenMeasure.CALIBRATED:
        return "calibrated parts:" if token_table.is_calibrated else "estimated parts:", token_table.label
    full = f"parts by {token_table.description}:", f"parts {_format_measure(token_table)}:"
    return (*full, f"parts by {token_table.name}:", token_table.label)


class HeaderBar(Widget):
    """Session with its counts, recorded context of each request, gauge of the window, and parts of the context.

    With three lines, the recorded context is omitted; with two, also the parts.
    """

    DEFAULT_CSS = "HeaderBar { height: 4; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

    @dataclass
    class RequestClicked(Message):
        """Posted when the request that ended at ``message`` was clicked."""

        message: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.session: Session | None = None
        self._request_history = RequestHistory((), ())
        self._starts: list[int] = []
        self._counts = ContextCounts(0, 0)
        self._point = 0
        self._progress, self._following = 1.0, False
        self._read_messages: int | None = None
        self._level: WindowLevel | None = None
        self._parts: list[ContextPart] | None = None
        self._token_table: TokenTable | None = None
        self._line_cache: tuple[Size, Content] | None = None
        self._columns = range(0)

    def show(
        self,
        session: Session,
        context: Context,
        parts: Mapping[str, int] | None = None,
        *,
        progress: float = 1.0,
        token_table: TokenTable | None = None,
        following: bool = False,
    ) -> None:
        """Show a session at the point of *context*.

        Args:
            parts: ``Breakdown.by_category``; None until computed.
        """
        if session is not self.session:
            # These scan the whole session.
            self.session = session
            self._request_history, self._starts = build_request_history(session), find_turn_starts(session)
        size, row = measure_context(context, token_table).parts, find_last_request(context)
        self._point, self._progress, self._following = context.at, progress, following
        self._read_messages = 0 if progress < 1 and not len(session) else None
        self._counts = count_context(context, self._starts)
        message = session.facts.request_message[row] if row >= 0 else -1
        self._level = WindowLevel(size, session.window_at(context.at), message)
        self._parts = None if parts is None else build_context_parts(parts, size.tokens)
        self._token_table = token_table
        self._redraw()

    def show_progress(self, progress: float, messages: int) -> None:
        """Show the share of the file and the number of messages that have been read; the other lines stay."""
        self._progress = progress
        if self._read_messages is not None:
            self._read_messages = messages
        self._redraw()

    def _redraw(self) -> None:
        self._line_cache = None
        self.refresh()

    def render(self) -> Content:
        if self._line_cache is None or self._line_cache[0] != self.content_size:
            width, height = self.content_size
            lines = (clip_runs(runs, width) for runs in self._build_lines(width, height))
            self._line_cache = self.content_size, build_lines(lines)
        return self._line_cache[1]

    def _format_title_line(self, session: Session, window: Window, width: int) -> list[Run]:
        """Format the session's name and counts, and at the right edge the point or the progress of reading."""
        measure_label, requests = _format_measure(self._token_table, width), len(self._request_history.tokens)
        info, facts = session.info, session.facts
        name = make_visible(PurePath(info.path).name) or info.title or "session"
        session_name = format_safe_line(f"{name}#{info.id}" if info.id else name, max(12, width // 3))
        problems = format_count(len(facts.problems), "problem") if facts.problems else ""
        count, source = len(facts.rewound_branches), format_window_source(window, width)
        branches = format_count(count, "rewound branch", "rewound branches") if count else ""
        end_run: Run = ("● following", GOOD) if self._following else ("at the end", "")
        end: Run = end_run if self._progress >= 1 else (f"{format_percent(self._progress)} read", f"bold {WARN}")
        point: Run = end if self._point >= len(session) else (f"before #{self._point:,}", f"bold {WARN}")
        texts = filter(None, (session_name, problems, source, measure_label, point[0]))
        occupied = sum(count_cells([(text, "")]) + 2 for text in texts)
        if self._read_messages is None:
            context_text = format_context_counts(self._counts, len(session), len(self._starts), width - occupied - 1)
        else:
            context_text = f"{format_count(self._read_messages, 'message')} so far" if self._read_messages else ""
        ranks: list[tuple[int, Run]] = [
            (10, (session_name, BOLD)),
            (4, (f"compacted by {format_safe_line(session.origin, 24)}" if session.origin else "", GOOD)),
            (3, (format_safe_line(info.format, 24), MUTED)),
            (5, (format_safe_line(facts.model or "", 32), PRIMARY)),
            (7, (" " + context_text, "")),
            (8, (problems, WARN)),
            (6, (measure_label, PRIMARY)),
            (2, (format_count(requests, "request") if requests else "", MUTED)),
            (4, (branches, MUTED)),
            (8, (source, WARN)),
            (1, (format_window_alternatives(window), MUTED)),
        ]
        return justify_runs([part for part in ranks if part[1][0].strip()], [point], width)

    def _build_lines(self, width: int, height: int) -> list[list[Run]]:
        session, level, parts = self.session, self._level, self._parts
        if session is None or level is None or not width:
            return []
        lines = [self._format_title_line(session, level.window, width)]
        self._columns = range(0)
        if self._read_messages is not None:
            return lines
        min_width = max(MIN_GAUGE_WIDTH, width // 3)
        if height > 3:
            window = level.window.tokens
            line, self._columns = format_history_line(self._request_history, width, window, self._point, min_width)
            lines.append(line)
        lines.append(format_gauge_line(level, parts, width, min_width))
        if height > 2 and parts:
            lines.append(format_parts_line(parts, level.free, width, _format_parts_labels(self._token_table)))
        return lines

    def on_click(self, event: events.Click) -> None:
        cell = event.x - self.gutter.left
        if event.y - self.gutter.top == 1 and cell in self._columns:
            width, cell = len(self._columns), cell - self._columns.start
            message = find_message_at_cell(self._request_history, width, self._point, cell)
            if message is not None:
                self.post_message(self.RequestClicked(message))
