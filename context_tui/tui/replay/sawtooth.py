"""Chart of the context size along a recording: solid bars under the policy, shade for the baseline.

All charts of a comparison have the same scale. A column shows one call or the largest of several; the column under the
cursor shows the call under the cursor. Heights are exact to an eighth of a cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_tui.text.numbers import format_tokens
from context_tui.tui.terminal.themes import BAD, BOLD, MUTED, WARN
from context_tui.tui.widgets.canvas import Canvas, count_eighths
from context_tui.tui.widgets.styled_text import Run

GUTTER = 7
"""Cells to the left of a chart, for its scale."""
MIN_CHART_LINES = 3
SHADE, RULE, TRACE = "░", "┈", "·"
CURSOR_BACKGROUND = frozenset((" ", SHADE, RULE, TRACE))
"""Glyphs that the line of the cursor may cover; it leaves letters alone."""
THRESHOLD_LABEL, DRAG_SIGN = "threshold", "↕"
"""Label of a threshold, and the sign after its size that shows that it can be dragged."""
FIRING_SIGN, COMPACTION_SIGN, CLEARING_SIGN, OVERFLOW_SIGN, BREAK_SIGN = "▲", "│", "▾", "!", "$"
BLOCK_STYLE = "$primary 60%"
"""Style of the bars, calmer than that of a small chart's lines."""
MIN_WINDOW_SHARE = 0.4
"""Share of a window or threshold that the largest size must reach; otherwise it is left off the scale."""


@dataclass(frozen=True, eq=False)
class Sawtooth:
    """The data for one policy's chart, with one value for each call.

    Attributes:
        sizes: tokens of the context under the policy; ``baseline_sizes`` are those without it.
        recorded_sizes: recorded tokens; empty if they are the same as ``baseline_sizes``.
        break_calls: calls that paid again for many tokens in the prompt cache, as recorded.
    """

    sizes: Sequence[int]
    baseline_sizes: Sequence[int]
    recorded_sizes: Sequence[int | None]
    windows: Sequence[int]
    thresholds: tuple[int, ...]
    firing_calls: Collection[int]
    event_signs: Mapping[int, str]
    break_calls: Collection[int] = ()


class ChartScale(NamedTuple):
    """The scale of all charts: the calls ``first_call`` to ``end_call`` (exclusive), and sizes up to ``max_tokens``."""

    first_call: int
    end_call: int
    width: int
    max_tokens: int

    def get_calls(self, x: int) -> range:
        """Return the calls that column *x* shows; there is at least one."""
        count = self.end_call - self.first_call
        low = x * count // self.width
        return range(self.first_call + low, self.first_call + max((x + 1) * count // self.width, low + 1))

    def get_columns(self, call: int) -> range:
        """Return the columns that show a call; empty if the call is not visible."""
        if not self.first_call <= call < self.end_call:
            return range(0)
        count, place = self.end_call - self.first_call, call - self.first_call
        if count >= self.width:
            x = min(place * self.width // count, self.width - 1)
            while call not in self.get_calls(x):
                x += 1
            return range(x, x + 1)
        return range(-(-place * self.width // count), -(-(place + 1) * self.width // count))


def compute_max_tokens(charts: Sequence[Sawtooth]) -> int:
    """Return the top of the scale: the largest size, or a threshold or window not far above it."""
    peak = max((max((*chart.sizes, *chart.baseline_sizes), default=0) for chart in charts), default=0)
    limits = [each for chart in charts for each in chart.thresholds]
    limits += [max(chart.windows) for chart in charts if chart.windows]
    return max((peak, *(limit for limit in limits if peak >= limit * MIN_WINDOW_SHARE), 1))


def build_scale(charts: Sequence[Sawtooth], width: int, calls: range) -> ChartScale:
    """Return a scale common to all charts; *width* includes the gutter with the token labels."""
    return ChartScale(calls.start, calls.stop, max(width - GUTTER, 1), compute_max_tokens(charts))


def compute_zoom_range(count: int, cursor: int, level: int) -> range:
    """Return the calls visible around the cursor: all *count* at level 0, half as many at each further level."""
    size = max(count >> level, min(count, 8))
    first = min(max(cursor - size // 2, 0), count - size)
    return range(first, first + size)


def draw_sawtooth(sawtooth: Sawtooth, scale: ChartScale, height: int, cursor: int = -1) -> list[list[Run]]:
    """Draw a chart in *height* lines, with the signs of events in the last one; *cursor* is the number of a call."""
    rows, width = height - 1, scale.width
    canvas, bottom = Canvas(GUTTER + width, height), rows - 1
    sizes, without = sawtooth.sizes, sawtooth.baseline_sizes
    cursor_columns = scale.get_columns(cursor)
    tops = list[int]()
    for x in range(width):
        calls = range(cursor, cursor + 1) if x in cursor_columns else scale.get_calls(x)
        largest = max(calls, key=sizes.__getitem__)
        shade = -(-count_eighths(max(without[call] for call in calls), scale.max_tokens, rows) // 8)
        size = count_eighths(sizes[largest], scale.max_tokens, rows)
        canvas.fill_column(GUTTER + x, rows - shade, bottom, SHADE, MUTED)
        is_over = any(sizes[call] > sawtooth.windows[call] for call in calls)
        tops.append(rows - -(-size // 8))
        style = BAD if is_over else BLOCK_STYLE
        canvas.draw_column(GUTTER + x, bottom, size, f"{BOLD} {WARN}" if x in cursor_columns else style)
    _draw_trace(canvas, sawtooth, scale, rows)
    for value, name in _list_rules(sawtooth, scale):
        _draw_rule(canvas, tops, compute_line(value, scale, rows), format_tokens(value), name)
    for x in cursor_columns[:1]:
        for y in range(tops[x]):
            if canvas.get_glyph(GUTTER + x, y) in CURSOR_BACKGROUND:
                canvas.write(GUTTER + x, y, "│", f"{BOLD} {WARN}")
    if canvas.get_glyph(GUTTER - 2, 0) == " ":
        canvas.write(0, 0, format_tokens(scale.max_tokens).rjust(GUTTER - 1), MUTED)
    if rows > 1 and canvas.get_glyph(GUTTER - 2, bottom) == " ":
        canvas.write(0, bottom, "0".rjust(GUTTER - 1), MUTED)
    _draw_signs(canvas, sawtooth, scale, height - 1, cursor_columns)
    return canvas.get_lines()


def compute_line(value: int, scale: ChartScale, rows: int) -> int:
    """Return the line that shows a size of *value* tokens, counted from the top of the chart."""
    return rows - max(-(-count_eighths(value, scale.max_tokens, rows) // 8), 1)


def compute_size_at_line(y: int, scale: ChartScale, rows: int) -> int:
    """Return the tokens at the middle of line *y*; a line beyond the chart counts as its edge."""
    return round(min(max((rows - y - 0.5) / rows, 0), 1) * scale.max_tokens)


def _list_rules(sawtooth: Sawtooth, scale: ChartScale) -> list[tuple[int, str]]:
    window = max(sawtooth.windows[scale.first_call : scale.end_call], default=0)
    rules = [(window, "window"), *((size, THRESHOLD_LABEL) for size in sawtooth.thresholds)]
    return [(size, label) for size, label in rules if 0 < size <= scale.max_tokens]


def _draw_rule(canvas: Canvas, tops: Sequence[int], y: int, value: str, name: str) -> None:
    """Draw a horizontal line behind the bars and through the shade, with its name where there is room."""
    style = BOLD if name == THRESHOLD_LABEL else MUTED
    glyphs = [canvas.get_glyph(GUTTER + x, y) if top > y else "" for x, top in enumerate(tops)]
    is_free = [glyph == " " for glyph in glyphs]
    for x, glyph in enumerate(glyphs):
        if glyph == " " or (glyph in (SHADE, TRACE) and x % 2):
            canvas.write(GUTTER + x, y, RULE, MUTED)
    canvas.write(0, y, value.rjust(GUTTER - 1), style)
    if name == THRESHOLD_LABEL:
        canvas.write(GUTTER - 1, y, DRAG_SIGN, BOLD)
    label = f" {name} "
    end = len(tops) - len(label)
    start = next((x for x in (1, end - 1, *range(2, end)) if x >= 0 and all(is_free[x : x + len(label)])), None)
    if start is not None:
        canvas.write(GUTTER + start, y, label, style)


def _draw_trace(canvas: Canvas, sawtooth: Sawtooth, scale: ChartScale, rows: int) -> None:
    if not any(sawtooth.recorded_sizes):
        return
    for x in range(scale.width):
        if values := [size for call in scale.get_calls(x) if (size := sawtooth.recorded_sizes[call])]:
            y = compute_line(max(values), scale, rows)
            if canvas.get_glyph(GUTTER + x, y) in (" ", SHADE):
                canvas.write(GUTTER + x, y, TRACE, BOLD)


def choose_sign(sawtooth: Sawtooth, calls: range) -> str:
    """Return the most important sign among the calls in a column, or "" if they have none."""
    if any(call in sawtooth.firing_calls for call in calls):
        return FIRING_SIGN
    if event_signs := {sawtooth.event_signs[call] for call in calls if call in sawtooth.event_signs}:
        return COMPACTION_SIGN if COMPACTION_SIGN in event_signs else CLEARING_SIGN
    if any(sawtooth.sizes[call] > sawtooth.windows[call] for call in calls):
        return OVERFLOW_SIGN
    return BREAK_SIGN if any(call in sawtooth.break_calls for call in calls) else ""


def _draw_signs(canvas: Canvas, sawtooth: Sawtooth, scale: ChartScale, y: int, cursor_columns: range) -> None:
    styles = {FIRING_SIGN: f"{BOLD} {WARN}", OVERFLOW_SIGN: f"{BOLD} {BAD}"}
    last_start = -1  # several columns may show one call
    for x in range(scale.width):
        calls = scale.get_calls(x)
        sign = choose_sign(sawtooth, calls)
        if sign and calls.start != last_start:
            canvas.write(GUTTER + x, y, sign, styles.get(sign, BOLD))
        elif cursor_columns and x == cursor_columns.start:
            canvas.write(GUTTER + x, y, "┴", f"{BOLD} {WARN}")
        last_start = calls.start


def draw_axis(messages: Sequence[int], scale: ChartScale, cursor: int) -> list[Run]:
    """Draw the axis below all charts, labelled with the messages at both ends and at the cursor."""
    canvas = Canvas(GUTTER + scale.width)
    if not messages or scale.end_call <= scale.first_call:
        return canvas.get_line()
    cursor_columns = scale.get_columns(cursor)
    text = f"#{messages[cursor]:,}" if cursor_columns else ""
    start = min(max(cursor_columns.start - len(text) // 2, 0), scale.width - len(text)) if cursor_columns else 0
    first, last = f"#{messages[scale.first_call]:,}", f"#{messages[scale.end_call - 1]:,}"
    if not cursor_columns or (start > len(first) and text != first):
        canvas.write(GUTTER, 0, first, MUTED)
    if not cursor_columns or (start + len(text) < scale.width - len(last) and text != last):
        canvas.write(GUTTER + scale.width - len(last), 0, last, MUTED)
    canvas.write(GUTTER + start, 0, text, f"{BOLD} {WARN}")
    return canvas.get_line()
