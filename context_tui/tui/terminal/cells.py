"""Glyphs, their ASCII replacements, and text cut or padded to a width in terminal cells."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from context_tui.text.files import read_toml
from context_tui.text.sanitize import sanitize_line

DRAWING_CHARACTERS = "".join(map(chr, range(0x2500, 0x25A0)))
"""Box drawing and block elements, used for bars, borders, rules and shades."""
VERTICAL_BLOCKS, HORIZONTAL_BLOCKS = " ▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█"
"""Blocks that fill zero to eight eighths of a cell: from the bottom, and from the left."""

_SIGNS = read_toml("context_tui.tui.terminal", "ascii.toml")
ASCII_GLYPHS = str.maketrans(
    {
        **dict.fromkeys(DRAWING_CHARACTERS, "+"),
        **{glyph: sign for glyphs, signs in _SIGNS.items() for glyph, sign in zip(glyphs, signs, strict=True)},
        **dict.fromkeys(("⏎", *map(chr, range(0x2400, 0x2440))), "?"),  # pictures of characters that are not shown
        "🔎": "/ ",
    }
)
"""Replacement of each glyph by one ASCII character, so that lines keep their widths."""


def to_ascii(text: str) -> str:
    """Replace glyphs in *text* with ASCII of the same width; ``≥`` and the space after it become ``>=``."""
    return text.replace("≥ ", ">=").replace("≤ ", "<=").translate(ASCII_GLYPHS)


ASCII_KEY_NAMES = str.maketrans({"⏎": "enter", "⌫": "backspace"})

ELLIPSIS = "…"


MAX_LINE_SOURCE = 2_000
"""Maximum number of characters of a text that are used for one line; no terminal shows more."""


def choose_form(forms: Sequence[str], width: int) -> str:
    """Return the first of *forms*, ordered longest first, that fits in *width* cells, or the last if none fits."""
    return next((form for form in forms if cell_len(form) <= width), forms[-1])


def fit_to_width(text: str, width: int) -> str:
    """Cut *text* or pad it with blanks to exactly *width* cells."""
    if width <= 0:
        return ""
    if text.isascii():
        return text[:width].ljust(width)
    return set_cell_size(text, width)


def clip_to_width(text: str, width: int) -> str:
    """Cut *text* or pad it with blanks to exactly *width* cells; an ellipsis marks the cut."""
    if width <= 0:
        return ""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    cut = fit_to_width(text, width)
    if cut.rstrip() == text.rstrip() or width < 2:
        return cut
    return fit_to_width(text, width - 1) + ELLIPSIS


def shorten(text: str, width: int) -> str:
    """Cut *text* to at most *width* cells, with an ellipsis at its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS if width > 0 else ""


def shorten_at_word(text: str, width: int) -> str:
    """Cut *text* after a word to at most *width* cells, with an ellipsis; if the first word is too long, cut that."""
    if cell_len(text) <= width:
        return text
    stripped_text = text.rstrip()
    return shorten(stripped_text[: find_word_end(stripped_text, width)] + ELLIPSIS, width)


def find_word_end(text: str, width: int) -> int:
    """Return the end of the last word in *text* after which an ellipsis fits, or else the end of the first word."""
    end = len(text)
    while cell_len(text[:end]) >= width and (space := text.rfind(" ", 0, end)) > 0:
        end = len(text[:space].rstrip())
    return end


def shorten_middle(text: str, width: int) -> str:
    """Cut *text* to at most *width* cells, with an ellipsis in place of its middle."""
    if cell_len(text) <= width or width < 3:
        return set_cell_size(text, max(width, 0)) if cell_len(text) > width else text
    tail = ""
    for character in reversed(text):
        if cell_len(character + tail) > (width - 1) // 2:
            break
        tail = character + tail
    return set_cell_size(text, width - 1 - cell_len(tail)).rstrip() + ELLIPSIS + tail


def shorten_path(path: str, width: int) -> str:
    """Cut a path at its start to *width* cells, between two folders if possible, and make it safe to draw."""
    text = sanitize_line(path[:MAX_LINE_SOURCE])
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[max(1, (cell_len(text) - width + 1) // 2) :]
    separator = text.find("/")
    text = text[separator:] if 0 <= separator < len(text) - 1 else text
    return ELLIPSIS + text if width > 0 else ""
