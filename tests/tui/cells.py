"""What a terminal shows of a program's output: cells with the colours they were sent, as xterm paints them.

Knows what Textual writes: text, places, colours and attributes. Everything else is passed over.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color, blend_rgb
from rich.color_triplet import ColorTriplet

from context_tui.tui.terminal.cells import DRAWING_CHARACTERS
from context_tui.tui.terminal.output_filter import compute_contrast

_SEQUENCE = re.compile(
    r"\x1b\[(?P<own>[<=>?]?)(?P<numbers>[\d;]*)[ $]?(?P<final>[@-~])"
    r"|\x1b\].*?(?:\x07|\x1b\\)|\x1bP.*?\x1b\\|\x1b[ -/]*[0-OQ-Z\\^-~]"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f])|(?P<text>[^\x00-\x1f]+)",
    re.DOTALL,
)
# As in xterm's resources; not taken from the program, which has to know them by itself.
_XTERM = """000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5
            7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff""".split()
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_UNFLAGS = {22: "bold dim", 23: "italic", 24: "underline", 27: "reverse", 29: "strike"}
Sent = int | ColorTriplet | None
"""A colour as it was sent: one of 256, any, or the terminal's default."""


class Cell(NamedTuple):
    """What stands in a cell, and how."""

    text: str = " "
    ink: Sent = None
    ground: Sent = None
    flags: frozenset[str] = frozenset()


class Unreadable(NamedTuple):
    """Text that is too close to its ground: where it was written first, what it said, and its contrast."""

    row: int
    text: str
    cell: Cell
    contrast: float


class Cells:
    """The screen of a terminal.

    It is told in pieces what was written: a sequence of which only the beginning has come waits for the rest.

    Args:
        default: what its own two colours are taken for, of text and of the ground.

    Attributes:
        codes: every code of a colour or attribute that came.
        colours: every colour that came.
        seen: every character that came.
    """

    def __init__(self, columns: int, rows: int, default: tuple[str, str] = ("000000", "000000")) -> None:
        self.columns, self.rows = columns, rows
        self._done, self._rest, self._decoder = 0, "", getincrementaldecoder("utf-8")("replace")
        self._default = tuple(map(_triplet, default))
        self.lines = [[Cell()] * columns for _ in range(rows)]
        self.codes: set[int] = set()
        self.colours: set[Sent] = set()
        self.seen: set[str] = set()
        self._x = self._y = 0
        self._pen = Cell()
        self._written: dict[Cell, tuple[int, str]] = {}

    def read(self, output: bytes) -> None:
        """Take in what is new in all that was written so far."""
        new, self._done = output[self._done :], len(output)
        come, at = self._rest + self._decoder.decode(new), 0
        while match := _SEQUENCE.match(come, at):
            at = match.end()
            if text := match["text"]:
                self._write(text)
            elif control := match["control"]:
                self._y += control == "\n"
                self._x = 0 if control in "\r\n" else self._x - (control == "\x08")
            elif match["final"] == "m" and not match["own"]:
                self._colour([int(number or 0) for number in match["numbers"].split(";")])
            elif match["final"] == "H":
                row, column = ([int(n or 1) for n in match["numbers"].split(";")] + [1, 1])[:2]
                self._x, self._y = column - 1, row - 1
        self._rest = come[at:]

    def text(self) -> str:
        """The text on the screen, line by line."""
        return "\n".join("".join(cell.text for cell in line) for line in self.lines)

    def looks(self) -> list[tuple[tuple[Sent, Sent, frozenset[str]], ...]]:
        """How the cells of each line look, whatever stands in them."""
        return [tuple(cell[1:] for cell in line) for line in self.lines]

    def differ(self, looks: Sequence[object]) -> int:
        """How many lines look different from *looks*."""
        return sum(one != other for one, other in zip(looks, self.looks(), strict=True))

    def reversed(self) -> list[str]:
        """What is written in bars of reversed colours."""
        words = (
            "".join(cell.text for cell in line if "reverse" in cell.flags).strip(DRAWING_CHARACTERS + " ")
            for line in self.lines
        )
        return list(filter(None, words))

    def hues(self) -> set[ColorTriplet]:
        """Every colour that came and is no grey."""
        return {seen for colour in self.colours if max(seen := self._seen(colour, 0)) - min(seen) > 50}

    def contrast(self, cell: Cell) -> float:
        """Contrast of what stands in a cell with its ground; terminals dim by half, more or less."""
        ink, ground = self._seen(cell.ink, 0), self._seen(cell.ground, 1)
        if "reverse" in cell.flags:
            ink, ground = ground, ink
        if "dim" in cell.flags:
            ink = blend_rgb(ink, ground)
        return compute_contrast(ink, ground)

    def unreadable(self, text: float = 4.5, dim: float = 3.0) -> list[Unreadable]:
        """Looks in which something to read was ever written with too little contrast, each once.

        Nothing is to be read in what is drawn: bars, borders, rules, scroll bars are made of blocks and lines.
        """
        return [
            Unreadable(row, words[:40], look, round(got, 2))
            for look, (row, words) in self._written.items()
            if (got := self.contrast(look)) < (dim if "dim" in look.flags else text)
        ]

    def _seen(self, colour: Sent, which: int) -> ColorTriplet:
        if colour is None:
            return self._default[which]
        if isinstance(colour, ColorTriplet):
            return colour
        return _triplet(_XTERM[colour]) if colour < 16 else Color.from_ansi(colour).get_truecolor()

    def _write(self, text: str) -> None:
        self.seen.update(text)
        if words := text.strip(DRAWING_CHARACTERS + " "):
            self._written.setdefault(self._pen, (self._y, words))
        for char in text:
            width = cell_len(char)
            if not (0 <= self._y < self.rows and 0 <= self._x < self.columns):
                continue
            line = self.lines[self._y]
            if not width:
                continue
            line[self._x] = self._pen._replace(text=char)
            if width == 2 and self._x + 1 < self.columns:
                line[self._x + 1] = self._pen._replace(text="")
            self._x += width

    def _colour(self, numbers: list[int]) -> None:
        codes = iter(numbers)
        for code in codes:
            self.codes.add(code)
            flags = self._pen.flags
            if code == 0:
                self._pen = Cell()
            elif code in _FLAGS:
                self._pen = self._pen._replace(flags=flags | {_FLAGS[code]})
            elif code in _UNFLAGS:
                self._pen = self._pen._replace(flags=flags - set(_UNFLAGS[code].split()))
            elif code in (39, 49):
                self._set(code - 1, None)
            elif code in (38, 48):
                rest = [next(codes)]
                rest += [next(codes) for _ in range(1 if rest[0] == 5 else 3)]
                self._set(code, rest[1] if rest[0] == 5 else ColorTriplet(*rest[1:]))
            else:
                for first, base in ((30, 0), (40, 0), (90, 8), (100, 8)):
                    if first <= code < first + 8:
                        self._set(38 if first in (30, 90) else 48, code - first + base)

    def _set(self, code: int, colour: Sent) -> None:
        pen = self._pen
        self.colours.add(colour)
        self._pen = pen._replace(ink=colour) if code == 38 else pen._replace(ground=colour)


def _triplet(digits: str) -> ColorTriplet:
    return ColorTriplet(*bytes.fromhex(digits))
