"""Canvas of cells on which charts are drawn. Independent of Textual's widgets.

A chart is a canvas of so many cells; columns and rows fill them by eighths, words lie on top. Only characters of one
cell go on it, each with a style in Textual's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from context_tui.tui.terminal.cells import HORIZONTAL_BLOCKS, VERTICAL_BLOCKS
from context_tui.tui.widgets.styled_text import Run


def count_eighths(value: float, maximum: float, cells: int = 1) -> int:
    """Return eighths of *cells* for a value on a scale from 0 to *most*: at least one for a positive value."""
    if value <= 0 or maximum <= 0:
        return 0
    return min(max(round(value * cells * 8 / maximum), 1), cells * 8)


def distribute_cells(amounts: Sequence[int], cells: int) -> list[int]:
    """Distribute *cells* in proportion to amounts; one too small for a cell adds its share to the next."""
    total = sum(amounts)
    ends = [round(done * cells / total) if total else 0 for done in accumulate(amounts, initial=0)]
    return [end - start for start, end in pairwise(ends)]


class Canvas:
    """Cells of a chart, counted from the upper left; what lies outside is clipped."""

    def __init__(self, width: int, height: int = 1) -> None:
        self.width, self.height = width, height
        self._glyphs = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]

    def write(self, x: int, y: int, text: str, style: str = "") -> None:
        """Write characters into a line from cell *x* on."""
        start, stop = max(x, 0), min(x + len(text), self.width)
        if start < stop and 0 <= y < self.height:
            self._glyphs[y][start:stop] = text[start - x : stop - x]
            self._styles[y][start:stop] = [style] * (stop - start)

    def draw_column(self, x: int, bottom: int, eighths: int, style: str, width: int = 1) -> None:
        """Draw a column that stands on line *bottom*."""
        full, rest = divmod(eighths, 8)
        width = min(width, self.width - x)
        if x < 0 or width <= 0:
            return
        cells, top = slice(x, x + width), bottom - full + (not rest)
        for y in range(max(top, 0), bottom + 1):
            self._glyphs[y][cells] = VERTICAL_BLOCKS[8 if y > bottom - full else rest] * width
            self._styles[y][cells] = [style] * width

    def fill_column(self, x: int, top: int, bottom: int, glyph: str, style: str = "") -> None:
        """Fill one cell of the lines from *top* to *bottom* with a character."""
        if 0 <= x < self.width:
            for y in range(max(top, 0), min(bottom, self.height - 1) + 1):
                self._glyphs[y][x], self._styles[y][x] = glyph, style

    def get_glyph(self, x: int, y: int) -> str:
        """Return the character of a cell."""
        return self._glyphs[y][x]

    def draw_bar(self, x: int, y: int, eighths: int, style: str) -> None:
        """Draw a bar that begins at cell *x*."""
        full, rest = divmod(eighths, 8)
        self.write(x, y, HORIZONTAL_BLOCKS[8] * full + (HORIZONTAL_BLOCKS[rest] if rest else ""), style)

    def get_line(self, y: int = 0) -> list[Run]:
        """Return a line of the chart in its full width."""
        glyphs, styles = self._glyphs[y], self._styles[y]
        found: list[Run] = []
        start = 0
        for x in range(1, self.width + 1):
            if x == self.width or styles[x] != styles[start]:
                found.append(("".join(glyphs[start:x]), styles[start]))
                start = x
        return found

    def get_lines(self) -> list[list[Run]]:
        """Return all lines, from the top."""
        return [self.get_line(y) for y in range(self.height)]
