"""The characters that we draw, and what each becomes where only ASCII is wanted."""

from __future__ import annotations

from context_tui.tui.readable import DRAWING_CHARACTERS

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
