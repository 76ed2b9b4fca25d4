"""Canvas of terminal cells on which charts are drawn, independent of widgets.

Columns and bars fill cells in eighths. All characters must be one cell wide; styles are those of Textual.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

from context_tui.tui.terminal.cells import HORIZONTAL_BLOCKS, VERTICAL_BLOCKS
from context_tui.tui.widgets.styled_text import Run


def count_eighths(value: float, maximum: float, cells: int = 1) -> int:
    """Return how many eighths of a cell a value fills if *maximum* fills *cells*; at least 1 for a positive value."""
    if value <= 0 or maximum <= 0:
        return 0
    return min(max(round(value * cells * 8 / maximum), 1), cells * 8)


def distribute_cells(amounts: Sequence[int], cells: int) -> list[int]:
    """Return the share of *cells* for each amount, in proportion; rounding may leave a small amount with 0 cells."""
    total = sum(amounts)
    ends = [round(partial_sum * cells / total) if total else 0 for partial_sum in accumulate(amounts, initial=0)]
    return [end - start for start, end in pairwise(ends)]


class Canvas:
    """A grid of styled characters on which a chart is drawn; cell 0 of line 0 is at the upper left."""

    def __init__(self, width: int, height: int = 1) -> None:
        self.width, self.height = width, height
        self._glyphs = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]

    def write(self, x: int, y: int, text: str, style: str = "") -> None:
        """Write *text* on line *y*, starting at cell *x*; characters outside the canvas are cut off."""
        start, stop = max(x, 0), min(x + len(text), self.width)
        if start < stop and 0 <= y < self.height:
            self._glyphs[y][start:stop] = text[start - x : stop - x]
            self._styles[y][start:stop] = [style] * (stop - start)

    def draw_column(self, x: int, bottom: int, eighths: int, style: str, width: int = 1) -> None:
        """Draw a column that stands on line *bottom* and is *eighths* of a line high and *width* cells wide."""
        full, remainder = divmod(eighths, 8)
        width = min(width, self.width - x)
        if x < 0 or width <= 0:
            return
        cells, top = slice(x, x + width), bottom - full + (not remainder)
        for y in range(max(top, 0), bottom + 1):
            self._glyphs[y][cells] = VERTICAL_BLOCKS[8 if y > bottom - full else remainder] * width
            self._styles[y][cells] = [style] * width

    def fill_column(self, x: int, top: int, bottom: int, glyph: str, style: str = "") -> None:
        """Put *glyph* in cell *x* on each line from *top* to *bottom*, both included."""
        if 0 <= x < self.width:
            for y in range(max(top, 0), min(bottom, self.height - 1) + 1):
                self._glyphs[y][x], self._styles[y][x] = glyph, style

    def get_glyph(self, x: int, y: int) -> str:
        """Return the character in cell *x* of line *y*; a space if nothing was drawn there."""
        return self._glyphs[y][x]

    def draw_bar(self, x: int, y: int, eighths: int, style: str) -> None:
        """Draw a horizontal bar, *eighths* of a cell long, that begins at cell *x* of line *y*."""
        full, remainder = divmod(eighths, 8)
        self.write(x, y, HORIZONTAL_BLOCKS[8] * full + (HORIZONTAL_BLOCKS[remainder] if remainder else ""), style)

    def get_line(self, y: int = 0) -> list[Run]:
        """Return line *y* as runs of neighbouring cells with the same style."""
        groups = groupby(zip(self._glyphs[y], self._styles[y], strict=True), itemgetter(1))
        return [("".join(glyph for glyph, _ in cells), style) for style, cells in groups]

    def get_lines(self) -> list[list[Run]]:
        """Return all lines as runs, from top to bottom."""
        return [self.get_line(y) for y in range(self.height)]
