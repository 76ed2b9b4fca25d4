"""Plot of each setting's savings against its regret, with steps along the Pareto front, or against its break-even."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot
from typing import NamedTuple

from context_tui.tui.sweep.board import SweepBoard
from context_tui.tui.sweep.table import BEATEN_SIGN, BEST_SIGN, CURRENT_SIGN, CURSOR_SIGN, KNEE_SIGN
from context_tui.tui.terminal.themes import BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.canvas import Canvas
from context_tui.tui.widgets.styled_text import Run

GUTTER = 8
"""Cells to the left of the plot, for its scale."""
FRONTIER_STYLE = "$primary 60%"
"""Style of the line that joins the points of the Pareto front."""
HORIZONTAL, VERTICAL, CORNER = "─", "│", "┘"
CURSOR_COLUMN, CURSOR_ROW = "┊", "┈"
CELL_ASPECT = 2.0
"""Height of a cell divided by its width, to find the nearest point."""


FormatAmount = Callable[[float], str]


class PlotPoint(NamedTuple):
    """A setting's savings and, on the horizontal axis, its regret in tokens or its break-even in extra calls."""

    saved: float
    x: float


class PlotFrame(NamedTuple):
    """A plot's area: values from ``left`` to ``right``, savings from ``bottom`` to ``top``, and the size in cells."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def compute_cell(self, point: PlotPoint) -> tuple[int, int]:
        """Return the column and line of a point, counted from the plot's upper left corner."""
        x = (point.x - self.left) / (self.right - self.left) * (self.width - 1)
        y = (self.top - point.saved) / (self.top - self.bottom) * (self.height - 1)
        return round(x), round(y)


def build_points(board: SweepBoard) -> dict[str, PlotPoint]:
    """Return the points of a board's settings on the axes of the plot, keyed by setting name."""
    points = board.sweep.dominance.points
    if not board.shows_break_even:
        return {name: PlotPoint(each.saved, each.regret) for name, each in points.items()}
    return {name: PlotPoint(each.saved, board.totals[name].break_even_calls) for name, each in points.items()}


def build_frame(points: Sequence[PlotPoint], width: int, height: int) -> PlotFrame:
    """Return a frame that contains all points and the origin."""
    saved = [each.saved for each in points] or [0.0]
    top, bottom = max(0.0, *saved), min(0.0, *saved)
    left, right = (limit((each.x for each in points), default=0.0) for limit in (min, max))
    left, right = min(left, 0.0), max(right, 0.0)
    right, top = right if right > left else left + 1.0, top if top > bottom else bottom + 1.0
    return PlotFrame(left, right, bottom, top, max(width, 2), max(height, 2))


@dataclass(frozen=True, eq=False)
class Scatter:
    """The points of a plot; ``cells`` maps (column, line) to settings. With ``has_steps``, steps join the front."""

    points: Mapping[str, PlotPoint]
    frontier: Sequence[str]
    frame: PlotFrame
    cells: Mapping[tuple[int, int], str]
    has_steps: bool

    def find_nearest(self, x: int, y: int) -> str | None:
        """Return the setting whose cell is nearest to (*x*, *y*), or None if the plot has no points."""
        distances = {cell: hypot(cell[0] - x, CELL_ASPECT * (cell[1] - y)) for cell in self.cells}
        return self.cells[min(distances, key=distances.__getitem__)] if distances else None


def build_scatter(
    points: Mapping[str, PlotPoint],
    frontier: Sequence[str],
    current: str,
    width: int,
    height: int,
    *,
    has_steps: bool = True,
) -> Scatter:
    """Place the points in a plot of *width* by *height* cells, not counting the scales."""
    frame = build_frame([*points.values()], width, height)
    cells: dict[tuple[int, int], str] = {}
    for name in (*(name for name in (current, *frontier) if name in points), *points):
        cells.setdefault(frame.compute_cell(points[name]), name)
    return Scatter(points, frontier, frame, cells, has_steps)


def draw_plot(
    scatter: Scatter,
    current: str,
    cursor: str,
    format_saving: FormatAmount,
    format_x: FormatAmount,
    knee: str | None = None,
) -> list[list[Run]]:
    """Draw the plot with a scale at its left, labelled by *format_saving*, and one below it, labelled by *format_x*."""
    frame, points = scatter.frame, scatter.points
    width, height = frame.width, frame.height
    canvas = Canvas(GUTTER + width, height + 1)
    for y in range(height):
        canvas.write(GUTTER - 1, y, "│", MUTED)
    canvas.write(GUTTER - 1, height, "└" + "─" * width, MUTED)
    cursor_cell = frame.compute_cell(points[cursor]) if cursor in points else None
    if cursor_cell is not None:
        x, y = cursor_cell
        canvas.write(GUTTER, y, CURSOR_ROW * x, MUTED)
        canvas.fill_column(GUTTER + x, y + 1, height - 1, CURSOR_COLUMN, MUTED)
    if scatter.has_steps:
        _draw_frontier(canvas, scatter)
    best = {*scatter.frontier}
    for (x, y), name in scatter.cells.items():
        sign, style = (BEST_SIGN, f"{BOLD} {GOOD}") if name in best else (BEATEN_SIGN, MUTED)
        canvas.write(GUTTER + x, y, KNEE_SIGN if name == knee else sign, style)
    if current in points:
        x, y = frame.compute_cell(points[current])
        canvas.write(GUTTER + x, y, CURRENT_SIGN, f"{BOLD} {WARN}")
    if cursor_cell is not None:
        x, y = cursor_cell
        canvas.write(GUTTER + x, y, CURSOR_SIGN, f"{BOLD} {PRIMARY}")
    _draw_axes(canvas, scatter, cursor if cursor_cell else None, format_saving, format_x)
    return canvas.get_lines()


def _draw_frontier(canvas: Canvas, scatter: Scatter) -> None:
    cells = [scatter.frame.compute_cell(scatter.points[name]) for name in scatter.frontier]
    for (x, y), (next_x, next_y) in pairwise(cells):
        canvas.write(GUTTER + x, y, HORIZONTAL * (next_x - x), FRONTIER_STYLE)
        if next_y < y:
            canvas.fill_column(GUTTER + next_x, next_y, y - 1, VERTICAL, FRONTIER_STYLE)
            if next_x > x:
                canvas.write(GUTTER + next_x, y, CORNER, FRONTIER_STYLE)


def _draw_axes(
    canvas: Canvas, scatter: Scatter, cursor: str | None, format_saving: FormatAmount, format_x: FormatAmount
) -> None:
    frame, points = scatter.frame, scatter.points
    height, width = frame.height, frame.width
    labels = {0: (format_saving(frame.top), MUTED), height - 1: (format_saving(frame.bottom), MUTED)}
    has_values = any(each.x for each in points.values())
    ends = [(0, format_x(frame.left)), (width, format_x(frame.right) if has_values else "nothing")]
    label_cells = range(0)
    if cursor is not None:
        x, y = frame.compute_cell(points[cursor])
        labels[y] = (format_saving(points[cursor].saved), f"{BOLD} {PRIMARY}")
        text = f" {format_x(points[cursor].x)} "
        start = min(max(x - len(text) // 2, 0), width - len(text))
        canvas.write(GUTTER + start, height, text, f"{BOLD} {PRIMARY}")
        label_cells = range(start, start + len(text))
    for y, (text, style) in labels.items():
        canvas.write(0, y, text.rjust(GUTTER - 1), style)
    for end, text in ends:
        text = f"{text} " if not end else f" {text}"
        start = min(end, width - len(text))
        if not any(cell in label_cells for cell in range(start, start + len(text))):
            canvas.write(GUTTER + start, height, text, MUTED)
