"""Plot savings against regret: a point for each setting, and steps along the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from context_tui.lab.sweep.frontier import ParetoPoint
from context_tui.text.numbers import format_tokens
from context_tui.tui.sweep.table import BEATEN_SIGN, BEST_SIGN, CURRENT_SIGN, CURSOR_SIGN
from context_tui.tui.widgets.canvas import Canvas
from context_tui.tui.widgets.styled_text import BOLD, GOOD, MUTED, PRIMARY, WARN, Run

GUTTER = 8
"""Cells to the left of the plot, for its scale."""
FRONTIER_STYLE = "$primary 60%"
"""The line that joins the points that nothing beats."""
HORIZONTAL, VERTICAL, CORNER = "─", "│", "┘"
CURSOR_COLUMN, CURSOR_ROW = "┊", "┈"
"""The lines from the cursor to the axes."""
CELL_ASPECT = 2.0
"""How much higher a cell is than wide, where the nearest point is looked for."""


class PlotFrame(NamedTuple):
    """Regret from ``left`` to ``right`` over *width* cells, savings from ``bottom`` to ``top`` over *height* lines."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def compute_position(self, point: ParetoPoint) -> tuple[float, float]:
        """Return the position of a point, in cells from the upper left of the plot."""
        x = (point.regret - self.left) / (self.right - self.left) * (self.width - 1)
        y = (self.top - point.saved) / (self.top - self.bottom) * (self.height - 1)
        return x, y

    def compute_cell(self, point: ParetoPoint) -> tuple[int, int]:
        """Return the cell of a point."""
        x, y = self.compute_position(point)
        return round(x), round(y)


def build_frame(points: Sequence[ParetoPoint], width: int, height: int) -> PlotFrame:
    """Return the scale of these points in so many cells; nothing saved and nothing used later are always in it."""
    saved = [each.saved for each in points] or [0.0]
    top, bottom = max(0.0, *saved), min(0.0, *saved)
    right = max((each.regret for each in points), default=0.0)
    return PlotFrame(0.0, right or 1.0, bottom, top if top > bottom else bottom + 1.0, max(width, 2), max(height, 2))


@dataclass(frozen=True, eq=False)
class Scatter:
    """The points of settings in a frame: of several in one cell, which counts is in ``cells``."""

    points: Mapping[str, ParetoPoint]
    frontier: Sequence[str]
    frame: PlotFrame
    cells: Mapping[tuple[int, int], str]

    def find_nearest(self, x: int, y: int) -> str | None:
        """Return the setting of the nearest cell; None where there is no point at all."""
        return min(
            self.cells.values(),
            key=lambda name: self._compute_distance(name, x, y),
            default=None,
        )

    def _compute_distance(self, name: str, x: int, y: int) -> float:
        column, row = self.frame.compute_cell(self.points[name])
        return (column - x) ** 2 + (CELL_ASPECT * (row - y)) ** 2


def build_scatter(
    points: Mapping[str, ParetoPoint], frontier: Sequence[str], current: str, width: int, height: int
) -> Scatter:
    """Return the points in *width* and *height* cells, the scale and the axis below not among them."""
    frame = build_frame([*points.values()], width, height)
    cells: dict[tuple[int, int], str] = {}
    first = [name for name in (current, *frontier) if name in points]
    for name in (*first, *points):
        cells.setdefault(frame.compute_cell(points[name]), name)
    return Scatter(points, frontier, frame, cells)


def draw_plot(scatter: Scatter, current: str, cursor: str, format_saving: Callable[[float], str]) -> list[list[Run]]:
    """Return the plot with its scale at the left and below.

    Args:
        told: what is saved, in short.
    """
    frame, points = scatter.frame, scatter.points
    width, height = frame.width, frame.height
    canvas = Canvas(GUTTER + width, height + 1)
    for y in range(height):
        canvas.write(GUTTER - 1, y, "│", MUTED)
    canvas.write(GUTTER - 1, height, "└" + "─" * width, MUTED)
    here = frame.compute_cell(points[cursor]) if cursor in points else None
    if here is not None:
        _draw_crosshair(canvas, here, height)
    _draw_frontier(canvas, scatter)
    best = {*scatter.frontier}
    for (x, y), name in scatter.cells.items():
        sign, style = (BEST_SIGN, f"{BOLD} {GOOD}") if name in best else (BEATEN_SIGN, MUTED)
        canvas.write(GUTTER + x, y, sign, style)
    if current in points:
        x, y = frame.compute_cell(points[current])
        canvas.write(GUTTER + x, y, CURRENT_SIGN, f"{BOLD} {WARN}")
    if here is not None:
        canvas.write(GUTTER + here[0], here[1], CURSOR_SIGN, f"{BOLD} {PRIMARY}")
    _draw_axes(canvas, scatter, cursor if here else None, format_saving)
    return canvas.get_lines()


def _draw_crosshair(canvas: Canvas, here: tuple[int, int], height: int) -> None:
    """Draw lines from the cursor to both axes."""
    x, y = here
    for column in range(x):
        canvas.write(GUTTER + column, y, CURSOR_ROW, MUTED)
    canvas.fill_column(GUTTER + x, y + 1, height - 1, CURSOR_COLUMN, MUTED)


def _draw_frontier(canvas: Canvas, scatter: Scatter) -> None:
    """Draw the Pareto front: the most that is saved at each regret."""
    cells = [scatter.frame.compute_cell(scatter.points[name]) for name in scatter.frontier]
    for (x, y), (next_x, next_y) in pairwise(cells):
        canvas.write(GUTTER + x, y, HORIZONTAL * (next_x - x), FRONTIER_STYLE)
        if next_y < y:
            canvas.fill_column(GUTTER + next_x, next_y, y - 1, VERTICAL, FRONTIER_STYLE)
            if next_x > x:
                canvas.write(GUTTER + next_x, y, CORNER, FRONTIER_STYLE)


def _draw_axes(canvas: Canvas, scatter: Scatter, cursor: str | None, format_saving: Callable[[float], str]) -> None:
    """The ends of both scales, and where the cursor is."""
    frame, points = scatter.frame, scatter.points
    height, width = frame.height, frame.width
    labels = {0: (format_saving(frame.top), MUTED), height - 1: (format_saving(frame.bottom), MUTED)}
    axis = height
    used = any(each.regret for each in points.values())
    ends = [(0, "0"), (width, format_tokens(round(frame.right)) if used else "nothing")]
    taken = range(0)
    if cursor is not None:
        x, y = frame.compute_cell(points[cursor])
        labels[y] = (format_saving(points[cursor].saved), f"{BOLD} {PRIMARY}")
        text = f" {format_tokens(round(points[cursor].regret))} "
        at = min(max(x - len(text) // 2, 0), width - len(text))
        canvas.write(GUTTER + at, axis, text, f"{BOLD} {PRIMARY}")
        taken = range(at, at + len(text))
    for y, (text, style) in labels.items():
        canvas.write(0, y, text.rjust(GUTTER - 1), style)
    for at, text in ends:
        text = f"{text} " if not at else f" {text}"
        start = min(at, width - len(text))
        if not any(place in taken for place in range(start, start + len(text))):
            canvas.write(GUTTER + start, axis, text, MUTED)
