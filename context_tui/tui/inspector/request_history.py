"""One-line chart of the context size of every request, with new contexts, drops and the planning point marked.

Independent of widgets. A column shows one request, or the largest or smallest of several, whichever differs more from
the previous column, so that peaks and drops are visible at any width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from context_tui.session.session import Session
from context_tui.tui.terminal.themes import BAD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.canvas import Canvas, count_eighths
from context_tui.tui.widgets.styled_text import Run, count_cells

WINDOW_TICKS = (60, 70, 85)
"""Percentages of the window at which runtimes typically compact."""
NEW_CONTEXT_GLYPH, DROP_GLYPH, POINT_GLYPH = "│", "▾", "◆"
GLYPH_LABELS = {NEW_CONTEXT_GLYPH: "new context", DROP_GLYPH: "drop", POINT_GLYPH: "here"}
HISTORY_GAP = 3


class HistoryEvent(NamedTuple):
    """A new context or a drop of the recorded size before a request; ``glyph`` tells which of the two it is."""

    request: int
    message: int
    glyph: str = NEW_CONTEXT_GLYPH


@dataclass(frozen=True, eq=False)
class RequestHistory:
    """The context size recorded for each request, the message that answered it, and the events between requests."""

    tokens: Sequence[int]
    messages: Sequence[int]
    events: Sequence[HistoryEvent] = ()

    @cached_property
    def peak(self) -> int:
        """The index of the request with the largest context, or -1 if there are no requests."""
        return max(range(len(self.tokens)), key=self.tokens.__getitem__, default=-1)


class WindowCrossing(NamedTuple):
    """The message at which the context exceeded a share of the window, and whether it has stayed above that since."""

    message: int
    is_lasting: bool


@lru_cache(maxsize=4)
def find_window_crossings(history: RequestHistory, window: int, at: int) -> dict[int, WindowCrossing]:
    """Return crossings before *at*, keyed by percentage: the latest if the size is still above it, else the first."""
    point, crossings = bisect_left(history.messages, at), {}
    for tick in WINDOW_TICKS:
        limit, row = window * tick / 100, point
        while row and history.tokens[row - 1] >= limit:
            row -= 1
        is_lasting = row < point
        if not is_lasting:
            row = next((number for number in range(point) if history.tokens[number] >= limit), -1)
        if row >= 0:
            crossings[tick] = WindowCrossing(history.messages[row], is_lasting)
    return crossings


def build_request_history(session: Session) -> RequestHistory:
    """Build the history of the session's recorded requests, in the order in which they were answered."""
    facts = session.facts
    count = bisect_left(facts.request_message, session.length)
    messages = facts.request_message[:count]
    events = [HistoryEvent(bisect_left(messages, drop.message), drop.message, DROP_GLYPH) for drop in session.drops]
    events += (HistoryEvent(bisect_left(messages, epoch.message), epoch.message) for epoch in facts.epochs)
    event_by_request = {event.request: event for event in events if 0 < event.request < count}
    tokens = [usage.context for usage in facts.requests[:count]]
    return RequestHistory(tokens, messages, [event_by_request[request] for request in sorted(event_by_request)])


class HistoryColumn(NamedTuple):
    """A chart column for the requests from ``first`` up to but not including ``end``, drawn at ``tokens`` tokens."""

    first: int
    end: int
    tokens: int


@lru_cache(maxsize=8)
def build_history_columns(history: RequestHistory, width: int) -> list[HistoryColumn | HistoryEvent]:
    """Return at most *width* columns and events in order; events are left out if they need too much room."""
    count = len(history.tokens)
    if not count or width < 1:
        return []
    new_contexts = [event for event in history.events if event.glyph == NEW_CONTEXT_GLYPH]
    events = next((each for each in (history.events, new_contexts) if len(each) <= width // 4), [])
    edges = [0, *(event.request for event in events), count]
    room = width - len(events)
    columns: list[HistoryColumn | HistoryEvent] = []
    peak, drawn_tokens = history.peak, 0
    for number, (first, end) in enumerate(pairwise(edges)):
        if number:
            columns.append(events[number - 1])
        # The requests between two events get columns in proportion to their number.
        share = end - first if count <= room else max(1, end * room // count - first * room // count)
        later = 2 * (len(events) - number)  # an event and at least one column for each later segment
        share = min(share, end - first, width - len(columns) - later)
        for index in range(share):
            low, high = first + (end - first) * index // share, first + (end - first) * (index + 1) // share
            values = history.tokens[low:high]
            top, bottom = max(values), min(values)
            is_top = low <= peak < high or top - drawn_tokens >= drawn_tokens - bottom
            drawn_tokens = top if is_top else bottom
            columns.append(HistoryColumn(low, high, drawn_tokens))
    return columns


def draw_history(history: RequestHistory, width: int, window: int, at: int) -> list[Run]:
    """Draw the chart in at most *width* cells, with the planning point *at* marked and later requests muted."""
    point, columns = _build_columns_at(history, width, at)
    largest = (history.tokens[history.peak] if history.tokens else 0) or 1
    canvas = Canvas(len(columns))
    for x, column in enumerate(columns):
        if column is None:
            canvas.write(x, 0, POINT_GLYPH, f"bold {WARN}")
        elif isinstance(column, HistoryEvent):
            is_muted = column.glyph == NEW_CONTEXT_GLYPH or _is_after(column, point, at)
            canvas.write(x, 0, column.glyph, MUTED if is_muted else f"bold {BAD}")
        else:
            is_over = column.tokens * 100 >= window * WINDOW_TICKS[0]
            style = MUTED if column.first >= point else WARN if is_over else PRIMARY
            canvas.draw_column(x, 0, max(count_eighths(column.tokens, largest), 1), style)
    return canvas.get_line()


def find_message_at_cell(history: RequestHistory, width: int, at: int, cell: int) -> int | None:
    """Return the message of the event, or of the largest request, in a cell of the chart; None for other cells."""
    _, columns = _build_columns_at(history, width, at)
    column = columns[cell] if 0 <= cell < len(columns) else None
    if column is None or isinstance(column, HistoryEvent):
        return column.message if column else None
    return history.messages[max(range(column.first, column.end), key=history.tokens.__getitem__)]


def _build_columns_at(
    history: RequestHistory, width: int, at: int
) -> tuple[int, list[HistoryColumn | HistoryEvent | None]]:
    """Return the first request answered at or after *at*, and the content of each cell, None for the planning point."""
    point = bisect_left(history.messages, at)
    if point >= len(history.messages):
        return point, [*build_history_columns(history, width)]
    columns = build_history_columns(history, width - 1)
    place = next((place for place, column in enumerate(columns) if _is_after(column, point, at)), len(columns))
    return point, [*columns[:place], None, *columns[place:]]


def _is_after(column: HistoryColumn | HistoryEvent, point: int, at: int) -> bool:
    return column.message >= at if isinstance(column, HistoryEvent) else column.end > point


def format_window_crossings(history: RequestHistory, window: int, at: int, is_full: bool) -> str:
    """Format where the context exceeded shares of the window before *at*: all shares if *is_full*, else the lowest."""
    crossings = find_window_crossings(history, window, at)
    if not crossings:
        has_later = at <= max(history.messages, default=-1)
        return f"{'not yet' if has_later else 'never'} over {WINDOW_TICKS[0]} %"
    parts: list[str] = []
    for tick, (message, is_lasting) in crossings.items():
        text = f"over {tick} %{' of the window' if is_full and not parts else ''}"
        parts.append(f"{text} since #{message:,}" if is_lasting else f"first {text} at #{message:,}")
    return ", ".join(parts if is_full else parts[:1])


def format_legend_variants(history: RequestHistory, window: int, at: int) -> Iterator[tuple[str, list[Run]]]:
    """Yield pairs of the text before the chart and the runs after it, longest variant first."""
    if not history.tokens:
        for text in ("no usage recorded: sizes are estimates", "no usage recorded"):
            yield "", [(text, MUTED)]
        return
    peak, point = history.peak, bisect_left(history.messages, at)
    peak_runs = [("peak ", MUTED), (f"{history.tokens[peak]:,}", ""), (f" at #{history.messages[peak]:,}", MUTED)]
    style = WARN if find_window_crossings(history, window, at) else MUTED
    all_crossings = (format_window_crossings(history, window, at, True), style)
    first_crossing = (format_window_crossings(history, window, at, False), style)
    glyphs = {event.glyph for event in history.events} | ({POINT_GLYPH} if point < len(history.messages) else set())
    signs = [(f"   {sign} {name}", MUTED) for sign, name in GLYPH_LABELS.items() if sign in glyphs]
    yield "Recorded per request ", [all_crossings, ("   ", ""), *peak_runs, *signs]
    yield "Recorded per request ", [first_crossing, ("   ", ""), *peak_runs, *signs]
    yield "Recorded per request ", [first_crossing, ("   ", ""), *peak_runs]
    yield "Recorded ", [first_crossing, ("   ", ""), *peak_runs]
    yield "Recorded ", [first_crossing]
    yield "Recorded ", peak_runs
    yield "Recorded ", peak_runs[:2]


def format_history_line(
    history: RequestHistory, width: int, window: int, at: int, min_width: int
) -> tuple[list[Run], range]:
    """Return the chart with its texts, and the range of its cells; *min_width* cells are kept for it if possible."""
    name, legend, room = "", list[Run](), 0
    min_width = min(min_width, len(history.tokens) + len(history.events) + 1)
    for name, legend in format_legend_variants(history, window, at):
        room = width - len(name) - count_cells(legend) - (HISTORY_GAP if name else 0)
        if room >= (min_width if name else 0):
            break
    if not name or room < 2:
        return [(name, MUTED), *legend], range(0)
    columns = draw_history(history, room, window, at)
    return [(name, MUTED), *columns, (" " * HISTORY_GAP, ""), *legend], range(len(name), len(name) + room)
