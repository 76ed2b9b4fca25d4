"""Compact formatting of sizes, ages, token counts and shares; ASCII replacements of mathematical signs."""

from __future__ import annotations

ASCII_SIGNS = str.maketrans({"≥": ">=", "≤": "<=", "−": "-"})
"""ASCII replacements of the signs of comparison and subtraction, for output that cannot show these."""


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks, as an error handler of :mod:`codecs`: ASCII for signs, else ``?``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII_SIGNS.get(ord(each), "?") for each in error.object[error.start : error.end]), error.end


def format_bytes(count: int) -> str:
    """Format a file size; empty if unknown."""
    if count <= 0:
        return ""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def format_age(seconds: float) -> str:
    """Format an age in one unit; empty if unknown."""
    if seconds < 0 or seconds > 50 * 365 * 86_400:
        return "" if seconds > 0 else "now"
    for unit, length in (("y", 365 * 86_400), ("mo", 30 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def format_tokens(tokens: int) -> str:
    """Format a token count in at most five cells: ``812``, ``58.5k``, ``112k``, ``1.25M``."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}k" if tokens < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 9_995_000 else f"{tokens / 1_000_000:.0f}M"


def format_percent(share: float) -> str:
    """Format a share as a percentage; a share that would round to 0 or 100 is ``<1 %`` or ``>99 %``."""
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share:.0%}".replace("%", " %")
