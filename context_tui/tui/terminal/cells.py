"""Glyphs, their ASCII replacements, and text fitted to a number of terminal cells."""

from __future__ import annotations

from rich.cells import set_cell_size

from context_tui.tui.terminal.contrast import DRAWING_CHARACTERS

VERTICAL_BLOCKS, HORIZONTAL_BLOCKS = " ▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█"
"""Blocks that fill none to eight eighths of a cell: from the bottom up, from the left to the right."""

ASCII_GLYPHS = str.maketrans(
    {
        **dict.fromkeys(DRAWING_CHARACTERS, "+"),
        **dict(zip(VERTICAL_BLOCKS[1:], ".:-=+*##", strict=True)),
        **dict(zip(HORIZONTAL_BLOCKS[1:-1], "_.::==#", strict=True)),
        **dict(zip("░▒▓▔▐▕", ".:%-||", strict=True)),
        **dict(zip("▀▚═╬┼", '"\\=@+', strict=True)),
        **dict(zip("─━│┃┊┆╎┈╌║", "-=|||||.-|", strict=True)),
        **dict(zip("◀▶▸▼▾▴▲●○◆▪‣◦⭑", "<>>vv^^o.@*>o*", strict=True)),
        **dict(zip("·…⋯←→↑↓↕⌫✓✗×–—−", ".~~<>^v:<+xx---", strict=True)),
        "±": "~",
        **dict(zip("“”Δ•\ufffd\u00a0", "''**? ", strict=True)),
        **dict.fromkeys(("⏎", *map(chr, range(0x2400, 0x2440))), "?"),  # pictures of characters that are not shown
        "🔎": "/ ",
    }
)
"""A cell for a cell, so that lines keep their widths."""

ASCII_KEY_NAMES = str.maketrans({"⏎": "enter", "⌫": "backspace"})
"""What keys are called there that have signs."""


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
