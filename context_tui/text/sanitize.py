"""Conversion of recorded text to text that is safe to draw on a terminal."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath

MAX_NAME_LENGTH = 200
"""Limit of displayed names of tools, models and sessions, in characters."""

# Allowed inside an escape string (OSC, DCS, APC, PM, SOS): anything on the same line but a control character.
# No introducer can be part of it, so no character is scanned twice: hostile input costs linear time.
_PAYLOAD = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f]"
_END = r"(?:\x07|\x1b\\|\x9c)"

_SEQUENCE = re.compile(
    # Terminated strings; an unterminated one (a truncated recording) loses at most the length of a title.
    rf"\x1b[\]PX^_](?:{_PAYLOAD}*+{_END}|{_PAYLOAD}{{0,200}}+)"
    # Wrongly decoded quotation marks look like 8-bit introducers: only a terminator makes these a sequence.
    rf"|[\x90\x98\x9d\x9e\x9f]{_PAYLOAD}*+{_END}"
    # Control sequences (colours, cursor movement), complete or not; no terminal takes parameters this long.
    r"|(?:\x1b\[|\x9b)[0-?]{0,200}+[ -/]{0,20}+[@-~]?"
    # All others: ``ESC ( B``, ``ESC =``, ``ESC c``. An ESC before anything else is kept and displayed.
    r"|\x1b[ -/]{0,20}+[0-~]"
)

# Variation selectors, joiners, skin tones: terminals disagree on how these change the width of their neighbours.
# Without them every terminal draws the same number of cells.
_SHAPING_CODES = [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x180B, 0x1810), 0x200C, 0x200D]
_SHAPING_CODES += [*range(0x1F3FB, 0x1F400), 0x034F]
_SHAPING_CODES.remove(0x180E)  # a separator, not a selector

# Unicode's format characters (category Cf): bidi controls, zero-width marks, tags. Spelt out, since querying
# unicodedata for a million code points would take longer than starting up.
_FORMAT_CODES = [
    *(0x00AD, *range(0x0600, 0x0606), 0x061C, 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x180E, 0x200B, 0x200E, 0x200F),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC), 0x110BD, 0x110CD),
    *(*range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE0080)),
]

_TEXT_TABLE: dict[int, str | None] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "␡",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000)], "�"),
    **dict.fromkeys((0x85, 0x2028, 0x2029), "␤"),  # line breaks to str.splitlines, to no terminal
    **dict.fromkeys(_FORMAT_CODES, "·"),
    **dict.fromkeys((0x115F, 0x1160, 0x3164, 0xFFA0), "·"),  # Hangul fillers: letters that draw nothing
    **dict.fromkeys(_SHAPING_CODES),
}


def _format_ranges(codes: list[int]) -> str:
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in runs)


MAX_MARKS = 4
"""Maximum number of combining marks on a character; more would be drawn over neighbouring lines."""
# Five characters that may be marks: no letters, spaces, punctuation, box drawing, East Asian punctuation or emoji.
_MARK_RUN = re.compile(
    r"[^\w\s\x00-\u02ff\u2010-\u20cf\u2100-\u2cee\u2cf2-\u3029\u3030-\u3098\u309b-\ua66e\uff00-\uffff\U0001f000-\U0001faff]{5,}"
)


def _limit_marks(text: str, sign: str = "") -> str:

    def limit(match: re.Match[str]) -> str:
        characters, count = [], 0
        for character in match[0]:
            count = count + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
            characters.append(character if count <= MAX_MARKS else sign)
        return "".join(characters)

    return _MARK_RUN.sub(limit, text)


_NAME_TABLE: dict[int, str] = {code: shown or "·" for code, shown in _TEXT_TABLE.items()} | {0x09: "␉", 0x0A: "⏎"}

_UNSAFE = re.compile("[" + _format_ranges([*_TEXT_TABLE, ord("\t")]) + "]")


def sanitize(text: str, *, tab_width: int = 4) -> str:
    r"""Remove everything from *text* that a terminal would interpret, except ``\n``, and replace tabs with spaces.

    The result has no control characters except ``\n``, no format characters and no surrogates. The number of lines is
    unchanged, and a second call changes nothing. A character keeps at most ``MAX_MARKS`` combining marks.

    Args:
        tab_width: number of spaces for a tab; 0 keeps the tabs.
    """
    # Most text is clean, and costs only this check (2 ms per megabyte of ASCII).
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    if _UNSAFE.search(text) is None:
        return _limit_marks(text)
    safe_text = _SEQUENCE.sub("", text).replace("\r\n", "\n").translate(_TEXT_TABLE)
    return _limit_marks(safe_text.expandtabs(tab_width) if tab_width else safe_text)


def sanitize_line(text: str) -> str:
    """Return *text* as one line that is safe to draw, with ``⏎`` for a line break and a space for a tab."""
    return sanitize(text, tab_width=1).replace("\n", "⏎")


def make_visible(text: str | PurePath) -> str:
    """Return a path, or a message that quotes one, as one safe line in which every character is visible.

    Each character without a glyph, such as a joiner or a byte of an escape sequence, is replaced by one symbol, so that
    different names look different and offsets are unchanged.
    """
    name = str(text)
    return name if name.isascii() and name.isprintable() else _limit_marks(name.translate(_NAME_TABLE), "·")


def truncate_name(text: str, length: int = MAX_NAME_LENGTH) -> str:
    """Truncate a name to at most *length* characters, the last of which is then ``…``."""
    return text if len(text) <= length else text[: length - 1] + "…"
