"""Lines broken at a width in cells, at a blank where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, get_character_cell_size


def wrap(text: str, width: int) -> Iterator[str]:
    """The pieces of *text* (safe text, split at its line breaks), each at most *width* cells wide."""
    width = max(width, 2)  # the widest character there is
    for line in text.split("\n"):
        yield from _pieces(line, width)


def _pieces(line: str, width: int) -> Iterator[str]:
    if len(line) <= width and (line.isascii() or cell_len(line) <= width):
        yield line
        return
    ascii_only = line.isascii()
    start = 0
    while start < len(line):
        end = min(start + width, len(line)) if ascii_only else _reach(line, start, width)
        if end < len(line):
            blank = line.rfind(" ", start, end + 1)
            # A blank far back would leave the line nearly empty: long words are cut instead.
            if blank > start + (end - start) // 3:
                end = blank
        yield line[start:end].rstrip(" ") if end < len(line) else line[start:end]
        start = end + 1 if end < len(line) and line[end] == " " else end


def _reach(line: str, start: int, width: int) -> int:
    """How far a piece that begins at *start* can go."""
    used = 0
    for index in range(start, len(line)):
        used += get_character_cell_size(line[index])
        if used > width:
            return max(index, start + 1)
    return len(line)
