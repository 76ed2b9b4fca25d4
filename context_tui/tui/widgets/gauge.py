"""Gauge of the context window: a bar that shows the parts of the next request by category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_tui.lab.fullness import ContextPart
from context_tui.text.files import read_toml
from context_tui.text.numbers import format_tokens
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY
from context_tui.tui.widgets.canvas import Canvas, distribute_cells
from context_tui.tui.widgets.styled_text import Run


class CategoryStyle(NamedTuple):
    """The appearance of a content category in the gauge: name, short name, fill pattern and style."""

    name: str
    short: str
    pattern: str
    style: str


_CATEGORIES = read_toml("context_tui.tui.widgets", "categories.toml")
CATEGORY_STYLES = {name: CategoryStyle(*row) for name, row in _CATEGORIES.items()}
"""Styles of the categories of a breakdown; categories with the same short name are one part of the bar."""
FREE_PATTERN = "·"
ZOOM_SHARE = 0.25
"""Used share of the window below which the bar shows only the used part."""


def draw_gauge(tokens: int, window: int, parts: Sequence[ContextPart], width: int) -> list[Run]:
    """Draw a bar *width* cells wide with the used part divided into *parts*; if little is used, draw that part only."""
    share, free = tokens / max(window, 1), max(window - tokens, 0)
    used_text, free_text = "used ", f" {format_tokens(free)} free"
    if not 0 < share < ZOOM_SHARE or len(used_text + free_text) * 2 > width:
        used_text = free_text = ""
    used_cells = min(width, max(round(share * width), 1 if tokens else 0))
    if free_text:
        used_cells = width - len(used_text + free_text)
    canvas = Canvas(width)
    canvas.write(0, 0, FREE_PATTERN * width, MUTED)
    canvas.write(0, 0, used_text, MUTED)
    canvas.write(width - len(free_text), 0, free_text, MUTED)
    x = len(used_text)
    if not parts:
        canvas.write(x, 0, "█" * used_cells, PRIMARY)
    sizes = distribute_cells([part.tokens for part in parts], used_cells)
    for part, size in zip(parts, sizes, strict=True):
        style = CATEGORY_STYLES[part.category]
        canvas.write(x, 0, style.pattern * size, style.style)
        _draw_label(canvas, x, size, style.short, BOLD)
        x += size
    if not free_text:
        _draw_label(canvas, used_cells, width - used_cells, f"{format_tokens(free)} free", MUTED)
    return canvas.get_line()


def _draw_label(canvas: Canvas, x: int, size: int, name: str, style: str) -> None:
    if size >= len(name) + 4:
        canvas.write(x + (size - len(name) - 2) // 2, 0, f" {name} ", style)
