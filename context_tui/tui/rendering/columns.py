"""Columns fitted to the cells of a line; the least important ones are dropped or narrowed first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

ColumnT = TypeVar("ColumnT")


class ColumnFitter:
    """An allocator of a line's cells to columns, the most important column first; a later call may widen a column.

    ``fitter[column]`` is the width of a column, or 0 if it has none; ``room`` is the number of cells still free.
    """

    def __init__(self, width: int, reserved: int = 0) -> None:
        self.width, self.room = width, width - reserved
        self._cells: dict[str, int] = {}

    def __getitem__(self, column: str) -> int:
        return self._cells.get(column, 0)

    def reserve(self, column: str, cells: int) -> None:
        """Give a column its cells even if there is not enough room for them."""
        self.room -= cells
        self._cells[column] = cells

    def fit(self, column: str, least: int, most: int | None = None, *, spare: int = 0, from_width: int = 0) -> bool:
        """Give a column from *least* to *most* cells (default: *least*), and return whether there was room.

        In a line narrower than *from_width*, nothing is given; *spare* cells are left for later columns.
        """
        old_cells = self[column]
        cells = min(least if most is None else most, old_cells + self.room - spare)
        if cells < max(least, old_cells + 1) or self.width < from_width:
            return False
        self.room -= cells - old_cells
        self._cells[column] = cells
        return True


def drop_columns(
    columns: Iterable[ColumnT],
    room: int,
    get_cells: Callable[[ColumnT], int],
    get_rank: Callable[[ColumnT], int],
    *,
    at_least: int = 1,
) -> list[ColumnT]:
    """Return the columns that fit in *room* cells, dropping the lowest ranks first but keeping *at_least* columns."""
    fitting = list(columns)
    cells = sum(map(get_cells, fitting))
    while len(fitting) > at_least and cells > room:
        dropped = min(fitting, key=get_rank)
        fitting.remove(dropped)
        cells -= get_cells(dropped)
    return fitting
