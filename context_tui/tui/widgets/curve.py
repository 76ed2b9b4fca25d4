"""The curve of one setting: the next request over its range, with the current value marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.content import Content
from textual.widget import Widget

from context_tui.policies.scales import number
from context_tui.tui.widgets.canvas import Canvas, eighths
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, clip, content

FLAT = 0.02
"""The part of the largest value up to which differences are not drawn."""


def nearest(values: Sequence[float], current: float) -> int:
    """Index of the value that is nearest to the current one."""
    return min(range(len(values)), key=lambda index: abs(values[index] - current))


def heights(tokens: Sequence[int], rows: int) -> list[int]:
    """Eighths of *rows* for each point, on a scale from nothing to the largest; what differs by little is flat."""
    low, high = min(tokens), max(tokens)
    if high - low < high * FLAT:
        return [rows * 8] * len(tokens)
    return [max(eighths(each, high, rows), 1) for each in tokens]


def curve_lines(
    name: str, values: Sequence[Any], tokens: Sequence[int], current: Any, width: int, height: int
) -> list[list[Run]]:
    """The curve in *height* lines: bars with the ends of their scale beside them, and the values below."""
    if not values or len(values) != len(tokens) or height < 2 or width < 24:
        return []
    if min(tokens) == max(tokens):
        words = f"{name} changes nothing here" if len(tokens) > 1 else "only one value"
        return [clip([(words, MUTED)], width)]
    numbers = [float(value) for value in values]
    here = nearest(numbers, float(current)) if current is not None else -1
    bottom, high, low = height - 2, f"{max(tokens):,}", f"{min(tokens):,}"
    label = len(high) + 1
    step = max(1, min(6, (width - label) // len(tokens)))
    shown = list(range(len(tokens)))
    if len(tokens) > width - label:
        shown = [index * (len(tokens) - 1) // (width - label - 1) for index in range(width - label)]
        here = min(range(len(shown)), key=lambda column: abs(shown[column] - here)) if here >= 0 else -1
    canvas = Canvas(width, height)
    canvas.write(0, bottom, "0".rjust(label - 1), MUTED)
    canvas.write(0, 0, high, MUTED)
    for column, tall in enumerate(heights([tokens[index] for index in shown], height - 1)):
        style = f"bold {HUE}" if column == here else MUTED
        canvas.column(label + column * step, bottom, tall, style, step)
    _draw_axis(canvas, values, current, label, step * len(shown), here * step + step // 2, f"~{low} to ~{high}")
    return canvas.lines()


def _draw_axis(
    canvas: Canvas, values: Sequence[Any], current: Any, label: int, span: int, here: int, tokens: str
) -> None:
    """The ends of the range, and the current value under its bar; beside them what the bars are."""
    first, last = (
        number(value) if not isinstance(value, bool) else "on" if value else "off" for value in (values[0], values[-1])
    )
    mark = f"▲ {number(current) if not isinstance(current, bool) else 'on' if current else 'off'}" if here >= 0 else ""
    at, y = max(0, min(here, span - len(mark))), canvas.height - 1
    if len(first) < at:
        canvas.write(label, y, first, MUTED)
    canvas.write(label + at, y, mark, f"{BOLD} {HUE}")
    end = max(span, at + len(mark))
    if at + len(mark) + len(last) < span:
        canvas.write(label + span - len(last), y, last, MUTED)
    units = (f"  next request {tokens}", "  next request", "")
    canvas.write(
        label + end, y, next(unit for unit in units if label + end + len(unit) <= canvas.width or not unit), MUTED
    )


class CurveView(Widget):
    """The curve, as high as there is room for."""

    DEFAULT_CSS = "CurveView { height: 1fr; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii
        self.name_shown = ""
        self._values: Sequence[Any] = ()
        self._tokens: Sequence[int] = ()
        self._current: Any = None

    def show(self, name: str, values: Sequence[Any], tokens: Sequence[int], current: Any) -> None:
        """Draw the next requests, in tokens, for these values of a setting."""
        self.name_shown, self._values, self._tokens, self._current = name, values, tokens, current
        self.refresh()

    def mark(self, current: Any) -> None:
        """Move the mark to another value of the same setting."""
        if current != self._current:
            self._current = current
            self.refresh()

    def clear(self) -> None:
        """Draw nothing until there is a curve."""
        if self._values:
            self.show("", (), (), None)

    def render(self) -> Content:
        """The curve for this size."""
        size = self.content_size
        lines = curve_lines(self.name_shown, self._values, self._tokens, self._current, size.width, min(size.height, 4))
        return Content("\n").join(content(line, self.ascii) for line in lines)
