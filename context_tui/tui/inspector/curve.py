"""Chart of the next request's size over the range of one setting, with the current value marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_tui.tui.inspector.outcome import format_value
from context_tui.tui.terminal.cells import choose_form
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.widgets.canvas import Canvas, count_eighths
from context_tui.tui.widgets.styled_text import LinesPane, Run

MIN_TITLED_HEIGHT = 3
FLAT_SHARE = 0.02
"""Differences below this share of the largest value are not drawn."""


def find_nearest(values: Sequence[float], current: float) -> int:
    """Return the index of the entry in *values* that is nearest to *current*."""
    return min(range(len(values)), key=lambda index: abs(values[index] - current))


def compute_bar_heights(tokens: Sequence[int], rows: int) -> list[int]:
    """Return bar heights in eighths of a row, scaled from 0; all are full if they vary by less than ``FLAT_SHARE``."""
    low, high = min(tokens), max(tokens)
    if high - low < high * FLAT_SHARE:
        return [rows * 8] * len(tokens)
    return [max(count_eighths(value, high, rows), 1) for value in tokens]


def draw_curve(
    name: str, values: Sequence[Any], tokens: Sequence[int], current: Any, width: int, height: int, unit: str = ""
) -> list[list[Run]]:
    """Return the chart as lines: scaled bars, the range and, in three lines or more, a title; [] if too small."""
    if not values or len(values) != len(tokens) or height < 2 or width < 24:
        return []
    name = name.rpartition(".")[2]
    high, low = max(tokens), min(tokens)
    if low == high:
        forms = (f"{name} does not change the next request", "no value changes the next request", "no effect")
        if "trigger" in name:
            forms = f"{name} sets when it fires, not what remains", "sets when, not what remains", "sets when"
        return [[(choose_form(forms if len(tokens) > 1 else ("only one value",), width), MUTED)]]
    numbers = [float(value) for value in values]
    current_column = find_nearest(numbers, float(current)) if current is not None else -1
    top, bottom, label = int(height >= MIN_TITLED_HEIGHT), height - 2, len(f"{high:,}") + 1
    step = max(1, min(6, (width - label) // len(tokens)))
    indices = list(range(len(tokens)))
    if len(tokens) > width - label:
        indices = [index * (len(tokens) - 1) // (width - label - 1) for index in range(width - label)]
        if current_column >= 0:
            current_column = find_nearest(indices, current_column)
    canvas = Canvas(width, height)
    if top:
        titles = (f"next request by {name}: ~{low:,} to ~{high:,} tokens", f"next request by {name}, tokens")
        canvas.write(0, 0, choose_form((*titles, f"next request by {name}", f"by {name}", ""), width), BOLD)
    canvas.write(0, bottom, "0".rjust(label - 1), MUTED)
    canvas.write(0, top, f"{high:,}", MUTED)
    for column, height in enumerate(compute_bar_heights([tokens[index] for index in indices], bottom - top + 1)):
        style = f"bold {PRIMARY}" if column == current_column else MUTED
        canvas.draw_column(label + column * step, bottom, height, style, step)
    _draw_axis(canvas, values, current, label, step * len(indices), current_column * step + step // 2, unit)
    return canvas.get_lines()


def _draw_axis(
    canvas: Canvas, values: Sequence[Any], current: Any, label: int, width: int, current_cell: int, unit: str
) -> None:
    """Draw the ends of the range and the current value below its bar; without a title, say what the bars measure."""
    first, last, y = format_value(values[0]), format_value(values[-1]), canvas.height - 1
    pointer = f"▲ {format_value(current)}" if current_cell >= 0 else ""
    start = max(0, min(current_cell, width - len(pointer)))
    right = choose_form((f"{last} {unit}", last, ""), width - start - len(pointer) - 1)
    if unit and pointer and unit not in right and label + start + len(pointer) + 1 + len(unit) <= canvas.width:
        pointer, right = f"{pointer} {unit}", ""
    if len(first) < start:
        canvas.write(label, y, first, MUTED)
    canvas.write(label + start, y, pointer, f"{BOLD} {PRIMARY}")
    canvas.write(label + width - len(right), y, right, MUTED)
    stop, meaning = label + max(width, start + len(pointer)), "  next request"
    if canvas.height < MIN_TITLED_HEIGHT and stop + len(meaning) <= canvas.width:
        canvas.write(stop, y, meaning, MUTED)


class CurveView(LinesPane):
    """A chart of the next request's tokens for each value of one setting, with the current value marked."""

    DEFAULT_CSS = "CurveView { height: 1fr; padding: 0; }"

    def __init__(self) -> None:
        super().__init__(self._draw_curve)
        self.setting_name = ""
        self._values: Sequence[Any] = ()
        self._tokens: Sequence[int] = ()
        self._current: Any = None
        self._unit = ""

    def show(self, name: str, values: Sequence[Any], tokens: Sequence[int], current: Any, unit: str = "") -> None:
        """Draw *tokens*, the size of the next request for each of *values*, and mark the *current* value."""
        self.setting_name, self._values, self._tokens, self._current = name, values, tokens, current
        self._unit = unit
        self.refresh()

    def set_current(self, current: Any) -> None:
        """Move the mark to another value of the setting that the curve shows."""
        if current != self._current:
            self._current = current
            self.refresh()

    def clear(self) -> None:
        """Remove the curve, leaving the widget empty."""
        if self._values:
            self.show("", (), (), None)

    def _draw_curve(self, width: int, height: int) -> list[list[Run]]:
        values, tokens, height = self._values, self._tokens, min(height, 5)
        return draw_curve(self.setting_name, values, tokens, self._current, width, height, self._unit)
