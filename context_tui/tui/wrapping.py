"""Lines broken at a width in cells, at a blank where there is one; what follows stays below the first line's indent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size


class WrappedLine(NamedTuple):
    """A drawn line of a text: its characters from ``start`` to ``stop``, with ``indent`` cells before them."""

    start: int
    stop: int
    indent: int = 0


def wrap_text(text: str, width: int) -> Iterator[str]:
    """The lines of *text* (safe text), each at most *width* cells wide."""
    return (" " * indent + text[start:stop] for start, stop, indent in find_wrapped_lines(text, width))


def find_wrapped_lines(text: str, width: int) -> Iterator[WrappedLine]:
    """The pieces of *text* (safe text, split at its line breaks), each with its indent at most *width* cells wide."""
    width = max(width, 2)  # the widest character there is
    start = 0
    while True:
        stop = text.find("\n", start)
        yield from _wrap_line(text, start, len(text) if stop < 0 else stop, width)
        if stop < 0:
            return
        start = stop + 1


def _wrap_line(text: str, start: int, stop: int, width: int) -> Iterator[WrappedLine]:
    line = text[start:stop]
    ascii_only = line.isascii()
    if len(line) <= width and (ascii_only or cell_len(line) <= width):
        yield WrappedLine(start, stop)
        return
    # The first piece brings the blanks that it begins with; more than half of the line is not given to them.
    hang, indent, begin = min(len(line) - len(line.lstrip(" ")), width // 2, width - 2), 0, 0
    while begin < len(line):
        room = width - indent
        end = min(begin + room, len(line)) if ascii_only else _find_fitting_end(line, begin, room)
        if end < len(line):
            blank = line.rfind(" ", begin, end + 1)
            # A blank far back would leave the line nearly empty: long words are cut instead.
            if blank > begin + (end - begin) // 3:
                end = blank
        shown = len(line[begin:end].rstrip(" ")) if end < len(line) else end - begin
        yield WrappedLine(start + begin, start + begin + shown, indent)
        begin = end + 1 if end < len(line) and line[end] == " " else end
        indent = hang


def _find_fitting_end(line: str, start: int, width: int) -> int:
    """How far a piece that begins at *start* can go."""
    used = 0
    for index in range(start, len(line)):
        used += get_character_cell_size(line[index])
        if used > width:
            return max(index, start + 1)
    return len(line)
