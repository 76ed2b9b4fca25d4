"""The size of the context along a recording as a chart: blocks under the policy, shade where it would be without. Pure.

All charts of a comparison have one scale, so that they can be held against each other. A column stands for a call, or
for the largest of several, under the cursor for that call alone; its cells are exact to an eighth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_tui.text.numbers import format_tokens
from context_tui.tui.widgets.canvas import Canvas, eighths
from context_tui.tui.widgets.draw import BAD, BOLD, MUTED, WARN, Run

GUTTER = 7
"""Cells to the left of a chart, for its scale."""
LEAST = 3
"""Lines of a chart that is of use."""
SHADE, RULE, TRACE = "░", "┈", "·"
BEHIND = frozenset((" ", SHADE, RULE, TRACE))
"""What the cursor stands before; letters are not broken by it."""
THRESHOLD, PULLED = "threshold", "↕"
"""The name of a line that can be pulled, and the sign of that, behind its size."""
FIRES, BEGINS, FALLS, OVER = "▲", "│", "▾", "!"
SIGNS = {FIRES: "fires", BEGINS: "recorded compaction", FALLS: "recorded clearing or drop", OVER: "over the window"}
"""What stands below a chart."""
BODY = "$primary 60%"
"""The ground of a chart: calmer than the lines of a small one."""
NEAR = 0.4
"""The part of the window up to which a chart leaves it out, as it would be flat."""


@dataclass(frozen=True, eq=False)
class Sawtooth:
    """What is drawn of one policy, by call.

    Attributes:
        sizes: tokens of the context under the policy, ``without`` what they are without it.
        recorded: what was recorded, where that is something else than ``without``.
        windows: the context window.
        thresholds: sizes at which the policy acts.
        fires: calls before which it did.
        events: by call, the sign of what the recording did to its context.
    """

    sizes: Sequence[int]
    without: Sequence[int]
    recorded: Sequence[int | None]
    windows: Sequence[int]
    thresholds: tuple[int, ...]
    fires: Collection[int]
    events: Mapping[int, str]


class Scale(NamedTuple):
    """Calls from ``first`` to ``end`` over ``width`` columns, and tokens from nothing to ``most``."""

    first: int
    end: int
    width: int
    most: int

    def calls_at(self, x: int) -> range:
        """The calls that a column stands for: always one at least."""
        count = self.end - self.first
        low = x * count // self.width
        return range(self.first + low, self.first + max((x + 1) * count // self.width, low + 1))

    def columns_of(self, call: int) -> range:
        """The columns of a call; none where it is out of sight."""
        if not self.first <= call < self.end:
            return range(0)
        count, place = self.end - self.first, call - self.first
        if count >= self.width:
            x = min(place * self.width // count, self.width - 1)
            while call not in self.calls_at(x):
                x += 1
            return range(x, x + 1)
        return range(-(-place * self.width // count), -(-(place + 1) * self.width // count))


def most_of(charts: Sequence[Sawtooth]) -> int:
    """The upper end of a scale: the largest size there is, and the window where that is not far above it."""
    peak = max((max((*chart.sizes, *chart.without), default=0) for chart in charts), default=0)
    limits = [each for chart in charts for each in chart.thresholds]
    limits += [max(chart.windows) for chart in charts if chart.windows]
    near = [each for each in limits if peak >= each * NEAR]
    return max((peak, *near, 1))


def scale_of(charts: Sequence[Sawtooth], width: int, calls: range) -> Scale:
    """The scale of all charts of a comparison in *width* cells, the numbers beside them too."""
    return Scale(calls.start, calls.stop, max(width - GUTTER, 1), most_of(charts))


def zoomed(count: int, cursor: int, level: int) -> range:
    """The calls in sight: all of *count*, at each level half as many, with the cursor among them."""
    size = max(count >> level, min(count, 8))
    first = min(max(cursor - size // 2, 0), count - size)
    return range(first, first + size)


def chart(saw: Sawtooth, scale: Scale, height: int, cursor: int = -1) -> list[list[Run]]:
    """A chart with its scale in *height* lines, the last of them the signs of what happened; *cursor* is a call."""
    rows, width = height - 1, scale.width
    canvas, bottom = Canvas(GUTTER + width, height), rows - 1
    sizes, without = saw.sizes, saw.without
    here = scale.columns_of(cursor)
    tops = list[int]()
    for x in range(width):
        calls = range(cursor, cursor + 1) if x in here else scale.calls_at(x)
        largest = max(calls, key=sizes.__getitem__)
        shade = -(-eighths(max(without[call] for call in calls), scale.most, rows) // 8)
        size = eighths(sizes[largest], scale.most, rows)
        canvas.fill(GUTTER + x, rows - shade, bottom, SHADE, MUTED)
        over = any(sizes[call] > saw.windows[call] for call in calls)
        tops.append(rows - -(-size // 8))
        canvas.column(GUTTER + x, bottom, size, f"{BOLD} {WARN}" if x in here else BAD if over else BODY)
    _trace(canvas, saw, scale, rows)
    for value, name in _rules(saw, scale):
        _rule(canvas, tops, line_of(value, scale, rows), format_tokens(value), name)
    for x in here[:1]:
        for y in range(tops[x]):
            if canvas.glyph(GUTTER + x, y) in BEHIND:
                canvas.write(GUTTER + x, y, "│", f"{BOLD} {WARN}")
    if canvas.glyph(GUTTER - 2, 0) == " ":
        canvas.write(0, 0, format_tokens(scale.most).rjust(GUTTER - 1), MUTED)
    if rows > 1 and canvas.glyph(GUTTER - 2, bottom) == " ":
        canvas.write(0, bottom, "0".rjust(GUTTER - 1), MUTED)
    _signs(canvas, saw, scale, height - 1, here)
    return canvas.lines()


def line_of(value: int, scale: Scale, rows: int) -> int:
    """The line that a size is on."""
    return rows - max(-(-eighths(value, scale.most, rows) // 8), 1)


def size_at(y: int, scale: Scale, rows: int) -> int:
    """The size in tokens that is in the middle of a line; beyond the chart, at its ends."""
    return round(min(max((rows - y - 0.5) / rows, 0), 1) * scale.most)


def _rules(saw: Sawtooth, scale: Scale) -> list[tuple[int, str]]:
    """The sizes with a line of their own, the more important last."""
    window = max((saw.windows[call] for call in range(scale.first, scale.end)), default=0)
    found = [(window, "window"), *((each, THRESHOLD) for each in saw.thresholds)]
    return [(value, name) for value, name in found if 0 < value <= scale.most]


def _rule(canvas: Canvas, tops: Sequence[int], y: int, value: str, name: str) -> None:
    """A line behind the blocks and through the shade, with its name where there is neither."""
    there = [canvas.glyph(GUTTER + x, y) if top > y else "" for x, top in enumerate(tops)]
    free = [glyph == " " for glyph in there]
    for x, glyph in enumerate(there):
        if glyph == " " or (glyph in (SHADE, TRACE) and x % 2):
            canvas.write(GUTTER + x, y, RULE, MUTED)
    canvas.write(0, y, value.rjust(GUTTER - 1), BOLD if name == THRESHOLD else MUTED)
    if name == THRESHOLD:
        canvas.write(GUTTER - 1, y, PULLED, BOLD)
    words = f" {name} "
    places = (1, len(tops) - len(words) - 1, *range(2, len(tops) - len(words)))
    at = next((x for x in places if x >= 0 and all(free[x : x + len(words)])), None)
    if at is not None:
        canvas.write(GUTTER + at, y, words, BOLD if name == THRESHOLD else MUTED)


def _trace(canvas: Canvas, saw: Sawtooth, scale: Scale, rows: int) -> None:
    """The recorded sizes as dots, where they are not what the shade shows."""
    if not any(saw.recorded):
        return
    for x in range(scale.width):
        values = [size for call in scale.calls_at(x) if (size := saw.recorded[call])]
        if values:
            y = line_of(max(values), scale, rows)
            if canvas.glyph(GUTTER + x, y) in (" ", SHADE):
                canvas.write(GUTTER + x, y, TRACE, BOLD)


def signs_at(saw: Sawtooth, calls: range) -> str:
    """The sign below some calls; of several the first that matters."""
    if any(call in saw.fires for call in calls):
        return FIRES
    found = {saw.events[call] for call in calls if call in saw.events}
    if found:
        return BEGINS if BEGINS in found else FALLS
    return OVER if any(saw.sizes[call] > saw.windows[call] for call in calls) else ""


def _signs(canvas: Canvas, saw: Sawtooth, scale: Scale, y: int, here: range) -> None:
    styles = {FIRES: f"{BOLD} {WARN}", OVER: f"{BOLD} {BAD}"}
    shown = -1
    for x in range(scale.width):
        calls = scale.calls_at(x)
        sign = signs_at(saw, calls)
        if sign and calls.start != shown:
            canvas.write(GUTTER + x, y, sign, styles.get(sign, BOLD))
        elif x in here and x == here.start:
            canvas.write(GUTTER + x, y, "┴", f"{BOLD} {WARN}")
        shown = calls.start


def axis(messages: Sequence[int], scale: Scale, cursor: int) -> list[Run]:
    """The line below all charts: the messages at both ends, and the one under the cursor."""
    canvas = Canvas(GUTTER + scale.width)
    if not messages or scale.end <= scale.first:
        return canvas.line()
    here = scale.columns_of(cursor)
    text = f"#{messages[cursor]:,}" if here else ""
    at = min(max(here.start - len(text) // 2, 0), scale.width - len(text)) if here else 0
    first, last = f"#{messages[scale.first]:,}", f"#{messages[scale.end - 1]:,}"
    if not here or (at > len(first) and text != first):
        canvas.write(GUTTER, 0, first, MUTED)
    if not here or (at + len(text) < scale.width - len(last) and text != last):
        canvas.write(GUTTER + scale.width - len(last), 0, last, MUTED)
    canvas.write(GUTTER + at, 0, text, f"{BOLD} {WARN}")
    return canvas.line()
