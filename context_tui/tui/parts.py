"""What a reading pane shows, piece by piece: texts with a look, and the lines that they are drawn as."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from context_tui.text.sanitize import sanitize
from context_tui.tui.wrapping import wrapped

GAP = " │ "
"""What stands between two columns."""


class Span(NamedTuple):
    """A part of a text that has a look of its own, from character ``start`` to ``stop``."""

    start: int
    stop: int
    look: str


Spans = tuple[Span, ...]
"""The looks of places in one text."""
Looks = Callable[[Sequence[str], str], Sequence[Spans]]
"""The looks of lines of code in a language, where they are known."""


class Part(NamedTuple):
    """A piece of text and how it is drawn.

    Args:
        text: drawn once it is safe; ``spans`` are places in the safe text.
        look: ``text``, ``heading``, ``muted`` or another that the pane knows.
        mark: drawn before the first line: the mark of a diff or of a list, the number of a line.
        under: drawn before the lines that go on with it, as wide as the mark.
        mark_look: the look of both; without one that of the text.
        goes_on: whether the next part is the same line of the text.
        beside: what is drawn to the right of it, in a column of its own.
        written: whether the mark is part of what was written, and copied with it.
    """

    text: str
    look: str = "text"
    spans: Spans = ()
    mark: str = ""
    under: str = ""
    mark_look: str = ""
    goes_on: bool = False
    beside: Part | None = None
    written: bool = False


class Line(NamedTuple):
    """A drawn line: ``lead``, and behind it the characters of a part's text from ``start`` to ``stop``."""

    part: int
    start: int
    stop: int
    lead: str
    text: str
    look: str
    spans: Spans = ()  # places in the text of the line
    lead_look: str = ""
    beside: Line | None = None
    written: bool = False  # whether the lead is a mark that is copied

    @property
    def drawn(self) -> str:
        """What is drawn, without what is beside it."""
        return self.lead + self.text


def safe(part: Part) -> Part:
    """The part with safe text; looks of places in a text that was not safe are gone, as they may be elsewhere now."""
    text = sanitize(part.text)
    spans = part.spans if text == part.text else ()
    return part._replace(text=text, spans=spans, beside=safe(part.beside) if part.beside else None)


NOTHING = Part("", "nothing")
"""What stands on one side where there is something only on the other: it takes no line."""


def side_by_side(left: Iterable[Part], right: Iterable[Part]) -> Iterator[Part]:
    """The parts of two columns."""
    for one, other in zip_longest(left, right, fillvalue=NOTHING):
        yield one._replace(beside=other)


class Layout:
    """Lays parts out one below the other in so many cells, in two columns each for itself."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._waiting: deque[Line] = deque()  # lines of the right column

    def add(self, part: Part, number: int) -> list[Line]:
        """The lines of the next safe part, the *number*-th."""
        if part.beside is None:
            return [*self.rest(), *lines_of(part, number, self.width)]
        each = column_width(self.width)
        if part.beside.look != NOTHING.look:
            self._waiting.extend(lines_of(part.beside, number, each))
        if part.look == NOTHING.look:
            return []
        blank = Line(number, 0, 0, "", "", "text")
        lines = lines_of(part, number, each)
        return [line._replace(beside=self._waiting.popleft() if self._waiting else blank) for line in lines]

    def again(self, part: Part, number: int, lines: Sequence[Line]) -> list[Line]:
        """The lines of a part that has got other looks, in place of those that begin *lines*."""
        each = column_width(self.width) if part.beside else self.width
        laid = lines_of(part, number, each) if part.look != NOTHING.look else iter(())
        return [line._replace(beside=old.beside) for line, old in zip(laid, lines, strict=False)]

    def rest(self) -> list[Line]:
        """The lines of the right column that nothing stands beside any more."""
        lines = [Line(line.part, 0, 0, "", "", "text", beside=line) for line in self._waiting]
        self._waiting.clear()
        return lines


def lines_of(part: Part, number: int, width: int) -> Iterator[Line]:
    """The lines of a safe part, the *number*-th, in so many cells, without what is beside it."""
    room = min(cell_len(part.mark), width // 2, max(width - 2, 0))
    lead, under, written = _cut(part, room), set_cell_size(part.under, room), part.written
    for start, stop, indent in wrapped(part.text, width - room):
        spans = tuple(_within(part.spans, start, stop)) if part.spans else ()
        text = part.text[start:stop]
        yield Line(number, start, stop, lead + " " * indent, text, part.look, spans, part.mark_look, None, written)
        lead, written = under, False


def _cut(part: Part, room: int) -> str:
    """The mark in so many cells: of one that was written the end, as it may begin with blanks."""
    return set_cell_size(part.mark[::-1], room)[::-1] if part.written else set_cell_size(part.mark, room)


def _within(spans: Sequence[Span], start: int, stop: int) -> Iterator[Span]:
    """The spans of the characters from *start* to *stop*, counted from there."""
    for first, last, look in spans:
        if first < stop and last > start:
            yield Span(max(first - start, 0), min(last, stop) - start, look)


def column_width(width: int) -> int:
    """The width of each of two columns, in cells."""
    return max((width - len(GAP)) // 2, 2)


class Column(NamedTuple):
    """A column of a drawn line: what stands there, and the character of the drawn line that it begins at."""

    line: Line
    at: int
    right: bool

    def chosen(self, first: int, last: int) -> tuple[int, int]:
        """Of the drawn characters from *first* to *last*, those of this column that can be copied."""
        begin = self.at + (0 if self.line.written else len(self.line.lead))
        end = self.at + len(self.line.drawn)
        return min(max(first, begin), end), max(min(last, end), begin)


def column(line: Line, width: int, *, right: bool) -> Column:
    """The right or the left column of a line; the only one where there is no other."""
    return Column(line.beside, _right(line, width), True) if right and line.beside else Column(line, 0, False)


def is_right(line: Line, place: int, width: int) -> bool:
    """Whether this character of the drawn line stands in a right column."""
    return line.beside is not None and place >= _right(line, width)


def _right(line: Line, width: int) -> int:
    return len(line.drawn) + column_width(width) - cell_len(line.drawn) + len(GAP)


def copied(parts: Sequence[Part], chosen: Iterable[tuple[Column, int, int]]) -> str:
    """The text of drawn characters, from each of some columns below each other: as it was before it was wrapped."""
    found: list[str] = []
    last, reached = -1, 0
    for (line, at, right), first, stop in chosen:
        one = parts[line.part]
        one = one.beside if right and one.beside else one
        begin, end = (max(place - at - len(line.lead), 0) + line.start for place in (first, stop))
        if line.part == last:
            found.append(one.text[reached:end])  # with the blank that it was broken at
        else:
            found += [] if last < 0 or parts[last].goes_on else ["\n"]
            whole = line.written and first == at and stop >= at + len(line.lead)  # it may not have been drawn whole
            found += [one.mark if whole else line.lead[first - at : stop - at], one.text[begin:end]]
        last, reached = line.part, max(end, reached if line.part == last else 0)
    return "".join(found)
