"""What is saved against what is used later, a point for each setting; steps join those that nothing beats. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from context_tui.lab.sweep.frontier import ParetoPoint
from context_tui.text.numbers import format_tokens
from context_tui.tui.screens.sweep.table import BEATEN, BEST, CURRENT, HERE
from context_tui.tui.widgets.canvas import Canvas
from context_tui.tui.widgets.draw import BOLD, GOOD, HUE, MUTED, WARN, Run

GUTTER = 8
"""Cells to the left of the plot, for its scale."""
STEP = "$primary 60%"
"""The line that joins the points that nothing beats."""
ACROSS, UPWARDS, CORNER, RISE = "─", "│", "┘", "┌"
COLUMN, ROW = "┊", "┈"
"""The lines from the cursor to the axes."""
TALL = 2.0
"""How much higher a cell is than wide, where the nearest point is looked for."""


class Frame(NamedTuple):
    """Regret from ``left`` to ``right`` over *width* cells, savings from ``bottom`` to ``top`` over *height* lines."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def place(self, point: ParetoPoint) -> tuple[float, float]:
        """Where a point is, in cells from the upper left of the plot."""
        x = (point.regret - self.left) / (self.right - self.left) * (self.width - 1)
        y = (self.top - point.saved) / (self.top - self.bottom) * (self.height - 1)
        return x, y

    def cell(self, point: ParetoPoint) -> tuple[int, int]:
        """The cell of a point."""
        x, y = self.place(point)
        return round(x), round(y)


def frame_of(points: Sequence[ParetoPoint], width: int, height: int) -> Frame:
    """The scale of these points in so many cells; nothing saved and nothing used later are always in it."""
    saved = [each.saved for each in points] or [0.0]
    top, bottom = max(0.0, *saved), min(0.0, *saved)
    right = max((each.regret for each in points), default=0.0)
    return Frame(0.0, right or 1.0, bottom, top if top > bottom else bottom + 1.0, max(width, 2), max(height, 2))


@dataclass(frozen=True, eq=False)
class Scatter:
    """The points of settings in a frame: of several in one cell, which counts is in ``cells``."""

    points: Mapping[str, ParetoPoint]
    frontier: Sequence[str]
    frame: Frame
    cells: Mapping[tuple[int, int], str]

    def nearest(self, x: int, y: int) -> str | None:
        """The setting of the cell that is nearest to one; None where there is no point at all."""
        return min(
            self.cells.values(),
            key=lambda name: self._distance(name, x, y),
            default=None,
        )

    def _distance(self, name: str, x: int, y: int) -> float:
        column, row = self.frame.cell(self.points[name])
        return (column - x) ** 2 + (TALL * (row - y)) ** 2


def scatter(
    points: Mapping[str, ParetoPoint], frontier: Sequence[str], current: str, width: int, height: int
) -> Scatter:
    """The points in *width* and *height* cells, the scale and the axis below not among them."""
    frame = frame_of([*points.values()], width, height)
    cells: dict[tuple[int, int], str] = {}
    first = [name for name in (current, *frontier) if name in points]
    for name in (*first, *points):
        cells.setdefault(frame.cell(points[name]), name)
    return Scatter(points, frontier, frame, cells)


def plot(made: Scatter, current: str, cursor: str, told: Callable[[float], str]) -> list[list[Run]]:
    """The plot with its scale at the left and below.

    Args:
        told: what is saved, in short.
    """
    frame, points = made.frame, made.points
    width, height = frame.width, frame.height
    canvas = Canvas(GUTTER + width, height + 1)
    for y in range(height):
        canvas.write(GUTTER - 1, y, "│", MUTED)
    canvas.write(GUTTER - 1, height, "└" + "─" * width, MUTED)
    here = frame.cell(points[cursor]) if cursor in points else None
    if here is not None:
        _cross(canvas, here, height)
    _steps(canvas, made)
    best = {*made.frontier}
    for (x, y), name in made.cells.items():
        sign, style = (BEST, f"{BOLD} {GOOD}") if name in best else (BEATEN, MUTED)
        canvas.write(GUTTER + x, y, sign, style)
    if current in points:
        x, y = frame.cell(points[current])
        canvas.write(GUTTER + x, y, CURRENT, f"{BOLD} {WARN}")
    if here is not None:
        canvas.write(GUTTER + here[0], here[1], HERE, f"{BOLD} {HUE}")
    _scales(canvas, made, cursor if here else None, told)
    return canvas.lines()


def _cross(canvas: Canvas, here: tuple[int, int], height: int) -> None:
    """From the cursor to both axes."""
    x, y = here
    for column in range(x):
        canvas.write(GUTTER + column, y, ROW, MUTED)
    canvas.fill(GUTTER + x, y + 1, height - 1, COLUMN, MUTED)


def _steps(canvas: Canvas, made: Scatter) -> None:
    """The line that no point is beyond: the most that is saved at each regret."""
    cells = [made.frame.cell(made.points[name]) for name in made.frontier]
    for (x, y), (next_x, next_y) in pairwise(cells):
        canvas.write(GUTTER + x, y, ACROSS * (next_x - x), STEP)
        if next_y < y:
            canvas.fill(GUTTER + next_x, next_y, y - 1, UPWARDS, STEP)
            if next_x > x:
                canvas.write(GUTTER + next_x, y, CORNER, STEP)


def _scales(canvas: Canvas, made: Scatter, cursor: str | None, told: Callable[[float], str]) -> None:
    """The ends of both scales, and where the cursor is."""
    frame, points = made.frame, made.points
    height, width = frame.height, frame.width
    labels = {0: (told(frame.top), MUTED), height - 1: (told(frame.bottom), MUTED)}
    axis = height
    used = any(each.regret for each in points.values())
    ends = [(0, "0"), (width, format_tokens(round(frame.right)) if used else "nothing")]
    taken = range(0)
    if cursor is not None:
        x, y = frame.cell(points[cursor])
        labels[y] = (told(points[cursor].saved), f"{BOLD} {HUE}")
        text = f" {format_tokens(round(points[cursor].regret))} "
        at = min(max(x - len(text) // 2, 0), width - len(text))
        canvas.write(GUTTER + at, axis, text, f"{BOLD} {HUE}")
        taken = range(at, at + len(text))
    for y, (text, style) in labels.items():
        canvas.write(0, y, text.rjust(GUTTER - 1), style)
    for at, text in ends:
        text = f"{text} " if not at else f" {text}"
        start = min(at, width - len(text))
        if not any(place in taken for place in range(start, start + len(text))):
            canvas.write(GUTTER + start, axis, text, MUTED)
