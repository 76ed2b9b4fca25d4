"""The last thing that happens to every line before the terminal gets it.

All text is made safe where it enters a widget; should some ever be forgotten, no control character leaves here. With
``--ascii`` this is also where the drawn characters become plain ones, whichever widget they are from.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

ASCII = str.maketrans(
    {
        **dict(zip("▁▂▃▄▅▆▇█", ".:-=+*##", strict=True)),
        **dict(zip("▏▎▍▌▋▊▉", "_.::==#", strict=True)),
        **dict(zip("░▒▓▔▀▐", ".:%-#|", strict=True)),
        **dict(zip("─━│┃┊┆╎┴┈╌═║", "-=|||||+.-=|", strict=True)),
        **dict(zip("┌┐└┘├┤┬┼╭╮╰╯╔╗╚╝", "++++++++++++++++", strict=True)),
        **dict(zip("◀▶▸▼▾▴▲●○◆", "<>>vv^^o.@", strict=True)),
        **dict(zip("·…⋯←→↑↓⏎✓✗×–—−", ".~~<>^v$+xx---", strict=True)),
        **dict(zip("“”Δ\u00a0", "''* ", strict=True)),
    }
)
"""What is drawn in place of our characters where only ASCII is wanted: a cell for a cell, so that lines keep widths."""

_HIDDEN = {code: "·" for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_HIDDEN |= {code: "·" for code in (0x200E, 0x200F, 0x061C, 0x2028, 0x2029)}


class OutputFilter(LineFilter):
    """Takes control characters out of every line, and with *ascii* our drawn characters.

    It runs Textual's own filters first, as one filter in their place: each filter costs a copy of every line.
    """

    def __init__(self, before: Sequence[LineFilter] = (), *, ascii: bool = False) -> None:
        super().__init__()
        self.before, self._ascii = tuple(before), ascii

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with safe text in the same number of cells."""
        for each in self.before:
            segments = each.apply(segments, background)
        return [self._safe(segment) for segment in segments]

    def _safe(self, segment: Segment) -> Segment:
        text = segment.text
        if segment.control or (text.isascii() and text.isprintable()):
            return segment
        if not text.isprintable():
            text = text.translate(_HIDDEN)
        return Segment(text.translate(ASCII) if self._ascii else text, segment.style)
