"""Styled text parts, wrapped and laid out as lines in one or two columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from context_tui.text.sanitize import sanitize


class WrappedLine(NamedTuple):
    """One line of wrapped text: the characters from ``start`` up to ``stop``, indented by ``indent`` spaces."""

    start: int
    stop: int
    indent: int = 0


def wrap_text(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a sanitized text, wrapped at *width* cells."""
    return (" " * indent + text[start:stop] for start, stop, indent in find_wrapped_lines(text, width))


def find_wrapped_lines(text: str, width: int) -> Iterator[WrappedLine]:
    """Yield the start, end and indentation of each line of a sanitized text that is wrapped at *width* cells."""
    width = max(width, 2)  # a wide character must fit
    start = 0
    while True:
        stop = text.find("\n", start)
        yield from _wrap_line(text, start, len(text) if stop < 0 else stop, width)
        if stop < 0:
            return
        start = stop + 1


def _wrap_line(text: str, start: int, stop: int, width: int) -> Iterator[WrappedLine]:
    line = text[start:stop]
    is_ascii = line.isascii()
    if len(line) <= width and (is_ascii or cell_len(line) <= width):
        yield WrappedLine(start, stop)
        return
    # Continuation lines are indented like the first one, by at most half of the width.
    hanging_indent = min(len(line) - len(line.lstrip(" ")), width // 2, width - 2)
    indent = first = 0
    while first < len(line):
        room = width - indent
        end = min(first + room, len(line)) if is_ascii else _find_fitting_end(line, first, room)
        if end < len(line):
            blank = line.rfind(" ", first, end + 1)
            # A line that would be less than a third full is filled with a part of the next word instead.
            if blank > first + (end - first) // 3:
                end = blank
        length = len(line[first:end].rstrip(" ")) if end < len(line) else end - first
        yield WrappedLine(start + first, start + first + length, indent)
        first = end + 1 if end < len(line) and line[end] == " " else end
        indent = hanging_indent


def _find_fitting_end(line: str, start: int, width: int) -> int:
    cells = 0
    for index in range(start, len(line)):
        cells += get_character_cell_size(line[index])
        if cells > width:
            return max(index, start + 1)
    return len(line)


COLUMN_GAP = " │ "


class StyleSpan(NamedTuple):
    """A style for the characters of a text from ``start`` up to but not including ``stop``."""

    start: int
    stop: int
    style: str


StyleSpans = tuple[StyleSpan, ...]
Highlighter = Callable[[Sequence[str], str], Sequence[StyleSpans]]
"""Function that returns the style spans of each line of code in a language, as far as known."""


class TextPart(NamedTuple):
    """A piece of text, such as a line, with the style in which it is drawn.

    Attributes:
        text: the text, which is sanitized before it is drawn; ``spans`` refer to the sanitized text.
        style: ``text``, ``heading``, ``muted`` or another style of the pane.
        mark: prefix of the first line, such as the mark of a diff or list, or a line number.
        continuation_mark: prefix of continuation lines, as wide as the mark.
        mark_style: style of both marks; empty for that of the text.
        continues: whether the next part continues the same line.
        mark_is_content: whether the mark belongs to the original text, and is copied with it.
    """

    text: str
    style: str = "text"
    spans: StyleSpans = ()
    mark: str = ""
    continuation_mark: str = ""
    mark_style: str = ""
    continues: bool = False
    right_part: TextPart | None = None
    mark_is_content: bool = False


class LayoutLine(NamedTuple):
    """A drawn line: a prefix, and the characters of a part from ``start`` up to ``stop``; ``spans`` refer to them."""

    part_number: int
    start: int
    stop: int
    prefix: str
    text: str
    style: str
    spans: StyleSpans = ()
    prefix_style: str = ""
    right_line: LayoutLine | None = None
    prefix_is_content: bool = False

    @property
    def drawn_text(self) -> str:
        """The text as it is drawn, without the right column."""
        return self.prefix + self.text


def sanitize_part(part: TextPart) -> TextPart:
    """Return the part with sanitized text, and without its spans if sanitizing changed the text that they refer to."""
    text = sanitize(part.text)
    spans = part.spans if text == part.text else ()
    return part._replace(text=text, spans=spans, right_part=sanitize_part(part.right_part) if part.right_part else None)


EMPTY_PART = TextPart("", "nothing")
"""Filler beside a part without a counterpart; it takes no line."""


def pair_columns(left: Iterable[TextPart], right: Iterable[TextPart]) -> Iterator[TextPart]:
    """Yield parts that show *left* and *right* side by side, in two columns."""
    for left_part, right_part in zip_longest(left, right, fillvalue=EMPTY_PART):
        yield left_part._replace(right_part=right_part)


class PartLayout:
    """A layout of parts from top to bottom in *width* cells, in which two columns are laid out independently."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._right_lines: deque[LayoutLine] = deque()

    def lay_out(self, part: TextPart, number: int) -> list[LayoutLine]:
        """Return the lines of the next part, which must be sanitized; *number* is its index among the parts."""
        if part.right_part is None:
            return [*self.flush_right(), *lay_out_part(part, number, self.width)]
        column_width = compute_column_width(self.width)
        if part.right_part.style != EMPTY_PART.style:
            self._right_lines.extend(lay_out_part(part.right_part, number, column_width))
        if part.style == EMPTY_PART.style:
            return []
        blank = LayoutLine(number, 0, 0, "", "", "text")
        lines = lay_out_part(part, number, column_width)
        return [line._replace(right_line=self._right_lines.popleft() if self._right_lines else blank) for line in lines]

    def restyle(self, part: TextPart, number: int, lines: Sequence[LayoutLine]) -> list[LayoutLine]:
        """Return new lines for a part whose styles have changed, keeping the right column of its old *lines*."""
        width = compute_column_width(self.width) if part.right_part else self.width
        new_lines = lay_out_part(part, number, width) if part.style != EMPTY_PART.style else iter(())
        return [line._replace(right_line=old.right_line) for line, old in zip(new_lines, lines, strict=False)]

    def flush_right(self) -> list[LayoutLine]:
        """Return the remaining lines of the right column, each beside an empty line of the left one."""
        lines = [LayoutLine(line.part_number, 0, 0, "", "", "text", right_line=line) for line in self._right_lines]
        self._right_lines.clear()
        return lines


def lay_out_part(part: TextPart, number: int, width: int) -> Iterator[LayoutLine]:
    """Yield the lines of a sanitized part in *width* cells, without its right column; *number* is its index."""
    room = min(cell_len(part.mark), width // 2, max(width - 2, 0))
    lead, continuation = set_cell_size(part.mark, room), set_cell_size(part.continuation_mark, room)
    if is_content := part.mark_is_content:  # such a mark may begin with blanks, so that its start is cut
        lead = set_cell_size(part.mark[::-1], room)[::-1]
    for start, stop, indent in find_wrapped_lines(part.text, width - room):
        spans = tuple(_clip_spans(part.spans, start, stop)) if part.spans else ()
        text = part.text[start:stop]
        mark = lead + " " * indent
        yield LayoutLine(number, start, stop, mark, text, part.style, spans, part.mark_style, None, is_content)
        lead, is_content = continuation, False


def _clip_spans(spans: Sequence[StyleSpan], start: int, stop: int) -> Iterator[StyleSpan]:
    for first, last, style in spans:
        if first < stop and last > start:
            yield StyleSpan(max(first - start, 0), min(last, stop) - start, style)


def compute_column_width(width: int) -> int:
    """Return the width in cells of each of two columns in a line of *width* cells."""
    return max((width - len(COLUMN_GAP)) // 2, 2)


class LineColumn(NamedTuple):
    """One column of a drawn line, and the index of the column's first character in that line."""

    line: LayoutLine
    start: int
    is_right: bool

    def clip_selection(self, first: int, last: int) -> tuple[int, int]:
        """Clip the range from *first* to *last* to the characters of this column that can be copied."""
        start = self.start + (0 if self.line.prefix_is_content else len(self.line.prefix))
        end = self.start + len(self.line.drawn_text)
        return min(max(first, start), end), max(min(last, end), start)


def get_column(line: LayoutLine, width: int, *, is_right: bool) -> LineColumn:
    """Return the right or left column of a line; if it has no right column, both are the whole line."""
    if is_right and line.right_line:
        return LineColumn(line.right_line, _find_right_start(line, width), True)
    return LineColumn(line, 0, False)


def is_in_right_column(line: LayoutLine, place: int, width: int) -> bool:
    """Return whether the character at index *place* in a drawn line belongs to the right column."""
    return line.right_line is not None and place >= _find_right_start(line, width)


def _find_right_start(line: LayoutLine, width: int) -> int:
    return len(line.drawn_text) + compute_column_width(width) - cell_len(line.drawn_text) + len(COLUMN_GAP)


def format_copied_text(parts: Sequence[TextPart], selections: Iterable[tuple[LineColumn, int, int]]) -> str:
    """Return the selected characters as in the original text, without the line breaks that wrapping added."""
    texts: list[str] = []
    last_number, copied_to = -1, 0
    for (line, offset, is_right), first, stop in selections:
        part = parts[line.part_number]
        part = part.right_part if is_right and part.right_part else part
        start, end = (max(place - offset - len(line.prefix), 0) + line.start for place in (first, stop))
        if line.part_number == last_number:
            texts.append(part.text[copied_to:end])  # with the blank at which the line was broken
        else:
            texts += [] if last_number < 0 or parts[last_number].continues else ["\n"]
            # The drawn mark may have been cut.
            has_mark = line.prefix_is_content and first == offset and stop >= offset + len(line.prefix)
            texts += [part.mark if has_mark else line.prefix[first - offset : stop - offset], part.text[start:end]]
            copied_to = 0
        last_number, copied_to = line.part_number, max(end, copied_to)
    return "".join(texts)
