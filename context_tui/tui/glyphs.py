"""The few drawn characters, in two alphabets: one for terminals with block drawing, one in plain ASCII."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Glyphs:
    """What to draw with."""

    turn: str
    bar: str
    shades: str
    rule: str
    here: str
    more: str


BLOCKS = Glyphs(turn="▶", bar="▇", shades=" ▏▎▍▌▋▊▉█", rule="─", here="◀", more="…")
PLAIN = Glyphs(turn=">", bar="#", shades=" ..::==##", rule="-", here="<", more="~")


def glyphs(ascii_only: bool) -> Glyphs:
    """The alphabet to draw with."""
    return PLAIN if ascii_only else BLOCKS
