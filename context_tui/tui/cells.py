"""Text in exactly as many cells of the terminal as there are for it."""

from __future__ import annotations

from rich.cells import set_cell_size

ELLIPSIS = "…"
"""Stands where something is cut off."""


def fit_to_width(text: str, width: int) -> str:
    """*text* in exactly *width* cells."""
    if width <= 0:
        return ""
    if text.isascii():
        return text[:width].ljust(width)
    return set_cell_size(text, width)


def clip_to_width(text: str, width: int) -> str:
    """*text* in exactly *width* cells, with a sign where some of it is cut off."""
    if width <= 0:
        return ""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    cut = fit_to_width(text, width)
    if cut.rstrip() == text.rstrip() or width < 2:
        return cut
    return fit_to_width(text, width - 1) + ELLIPSIS
