"""Markdown as parts of a document: read piece by piece, so that of a long text only what is looked at is parsed.

Imported only once something is to be rendered. What was written stays in its lines and keeps their indentation; only
what markdown has marks for looks otherwise. HTML and entities are text, and so is an underscore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, zip_longest
from types import SimpleNamespace
from typing import Any

from markdown_it import MarkdownIt, helpers
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize
from markdown_it.token import Token
from rich.cells import cell_len

from context_tui.tui.languages import language_named
from context_tui.tui.parts import Looks, Part, Span, Spans
from context_tui.tui.wrapping import wrapped

SECTION, LONG_SECTION, LONGEST_SECTION = 2_000, 4_000, 12_000
"""Characters from which on a section ends where a block does, at any line of prose, and at any line."""
LONGEST_LINE = 4_000
MARKS = 800
"""Brackets or stars from which on a section is shown as it was written: they may take very long to pair."""

_MARKS = r"(?:[ >]|[-*+] |\d{1,9}[.)] )*"  # of quotes and lists
_FENCE = re.compile(_MARKS + "(`{3,}|~{3,})(.*)")
_HEADINGS = {"h1": "h1", "h2": "h2"}
_INLINE = {"strong_open": "strong", "em_open": "em", "s_open": "strike", "link_open": "link"}
_Text = tuple[str, Spans]


def rendered(text: str, look: str, width: int, looks: Looks) -> Iterator[Part]:
    """The parts of a safe text, its prose in *look*; tables are fitted into so many cells."""
    for section in sections(text.removesuffix("\n")):
        lines = section.split("\n")
        if lines[-1:] == [""]:
            lines.pop()
        marks = max(section.count("["), section.count("*"))
        if marks > MARKS or max(map(len, lines), default=0) > LONGEST_LINE:
            yield from (Part(line, look) for line in lines)
        else:
            yield from _Section(lines, look, width, looks).parts(_parser().parse(section))


def sections(text: str) -> Iterator[str]:
    """Pieces of a text, ended where one block ends and another begins; a fence that is cut is opened again."""
    piece: list[str] = []
    size, fence, blank = 0, "", False
    for line in text.split("\n"):
        starts = blank and line.strip() != "" and not line.startswith(" ")
        prose = not fence and not line.lstrip().startswith("|")
        if (prose and (size >= LONG_SECTION or (size >= SECTION and starts))) or size >= LONGEST_SECTION:
            yield "".join(piece)
            piece, size = [f"{fence}\n"] if fence else [], 0
        piece.append(line + "\n")
        size, blank = size + len(line) + 1, not line.strip()
        if len(line) <= LONGEST_LINE and (found := _FENCE.fullmatch(line)):
            if not fence:
                fence = found[1] + language_named(found[2]) if "`" not in found[2] else ""
            elif found[1].startswith(re.match(r"`+|~+", fence)[0]) and not found[2].strip():  # type: ignore[index]
                fence = ""
    yield "".join(piece)


@dataclass
class _Container:
    """A quote, a list or an item of one: what stands before its first line, and before the others."""

    first: str
    under: str
    used: bool = False

    def mark(self) -> str:
        """What stands before the next line."""
        found, self.used = self.under if self.used else self.first, True
        return found


class _Section:
    def __init__(self, lines: Sequence[str], look: str, width: int, looks: Looks) -> None:
        self._lines, self._look, self._width, self._looks = lines, look, width, looks
        self._inside: list[_Container] = []
        self._heading = ""  # the look of the heading that begins
        self._at = 0  # the next line that has not been shown

    def parts(self, tokens: Sequence[Token]) -> Iterator[Part]:
        """The parts of all blocks, with an empty one where there are empty lines between them."""
        table: list[Token] = []
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                self._heading = _HEADINGS.get(token.tag, "h3") if token.nesting > 0 else ""
            elif token.type == "blockquote_open":
                self._inside.append(_Container("│ ", "│ "))
            elif token.type == "list_item_open":
                bullet = f"{token.info}{token.markup} " if token.info else "• "
                self._inside.append(_Container(bullet, " " * len(bullet)))
            elif token.type in ("blockquote_close", "list_item_close"):
                container = self._inside.pop()
                if not container.used and container.first.strip() != "│":  # an empty item
                    yield from self._line("", (), self._look, container.first.rstrip())
            elif table or token.type == "table_open":
                table.append(token)
                if token.type == "table_close":
                    yield from self._block(table[0], self._table(table))
                    table = []
            elif token.type in ("inline", "fence", "code_block", "hr"):
                yield from self._block(token, self._leaf(token))
        yield from self._gap(len(self._lines))

    def _block(self, token: Token, parts: Iterable[Part]) -> Iterator[Part]:
        first, stop = token.map or (self._at, self._at)
        yield from self._gap(first)
        yield from parts
        while stop > first and not self._lines[min(stop, len(self._lines)) - 1].strip(" >"):
            stop -= 1  # some blocks count the empty lines behind them
        self._at = max(stop, self._at)

    def _gap(self, line: int) -> Iterator[Part]:
        """An empty line where there is one, or more, before this one."""
        if any(not each.strip(" >") for each in self._lines[self._at : line]):
            mark = "".join(each.under for each in self._inside if each.used).rstrip()
            yield Part("", self._look, (), mark, mark, "bullet")
            self._at = line

    def _line(self, text: str, spans: Spans, look: str, more: str = "") -> Iterator[Part]:
        mark = "".join(each.mark() for each in self._inside) + more
        under = "".join(each.under for each in self._inside) + more
        listed = bool(mark.strip(" │"))
        yield Part(text, look, spans, mark, under, "bullet" if listed else "muted", written=listed)

    def _leaf(self, token: Token) -> Iterator[Part]:
        if token.type == "hr":
            yield from self._line("─" * 24, (), "muted")
        elif token.type == "inline":
            for text, spans in _inline(token):
                yield from self._line(text, spans, self._heading or self._look)
        else:
            info = token.info.strip()
            language = language_named(info)
            if info and not _is_language(info):
                yield from self._line(info, (Span(0, len(info), "muted"),), "fence", "  ")
                if not token.content:
                    return
            lines = token.content.removesuffix("\n").split("\n")
            for text, spans in zip(lines, self._looks(lines, language), strict=True):
                yield from self._line(text, spans, "fence", "  ")

    def _table(self, tokens: Sequence[Token]) -> Iterator[Part]:
        rows: list[list[_Text]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(next(iter(_inline(token)), ("", ())))
        room = self._width - sum(len(each.under) for each in self._inside)
        widths = _fit([max(cell_len(row[n][0]) for row in rows) for n in range(len(rows[0]))], room)
        first, stop = tokens[0].map or (0, 0)
        lines = [line.lstrip(" >") for line in self._lines[first:stop]]
        # Cells in a row of more than the first one has would not be shown.
        if not widths or max(_cells(line) for line in lines[2:] or [""]) > len(widths):
            if not all(each.used for each in self._inside):
                lines[0] = re.sub(_MARKS, "", lines[0], count=1)
            for line in lines:
                yield from self._line(line, (), self._look)
            return
        for number, row in enumerate(rows):
            for text, spans in _row(row, widths):
                spans = (Span(0, len(text), "strong"), *spans) if number == 0 else spans
                yield from self._line(text, spans, self._look)
            if number == 0:
                yield from self._line("─┼─".join("─" * width for width in widths), (), "muted")


def _is_language(info: str) -> bool:
    """Whether the line of a fence names a language that is known, and says nothing else."""
    return info.replace("+", "").replace("#", "").isalnum() and language_named(info) != ""


def _cells(line: str) -> int:
    """How many cells a row of a table has."""
    return len(escapedSplit(line.strip().removeprefix("|").removesuffix("|")))


def _fit(widths: list[int], room: int) -> list[int]:
    """Widths of columns that fit; none where there are too many columns."""
    room -= 3 * (len(widths) - 1)
    if room < 4 * len(widths):
        return []
    while sum(widths) > room:
        widest = max(widths)
        second = max((width for width in widths if width < widest), default=0)
        many = widths.count(widest)
        less = max(second, widest - -(-(sum(widths) - room) // many), 1)
        widths = [less if width == widest else width for width in widths]
    return [max(width, 1) for width in widths]


def _row(row: Sequence[_Text], widths: Sequence[int]) -> Iterator[_Text]:
    """The lines of a row of a table: each cell wrapped in its column."""
    columns = [
        [(text[piece.start : piece.stop], piece.start) for piece in wrapped(text, width)]
        for (text, _), width in zip(row, widths, strict=True)
    ]
    for line in zip_longest(*columns, fillvalue=("", 0)):
        cells = [piece + " " * (width - cell_len(piece)) for (piece, _), width in zip(line, widths, strict=True)]
        starts = accumulate((len(cell) + 3 for cell in cells), initial=0)
        spans = [
            Span(at + max(first - start, 0), at + min(last - start, len(piece)), look)
            for (piece, start), at, (_, looks) in zip(line, starts, row, strict=False)
            for first, last, look in looks
            if first < start + len(piece) and last > start
        ]
        yield " │ ".join(cells).rstrip(), tuple(spans)


def _inline(token: Token) -> Iterator[_Text]:
    """The lines of a paragraph, a heading or a cell."""
    text, spans = "", list[Span]()
    opened: list[tuple[str, int, str]] = []
    for child in token.children or ():
        if child.type in ("softbreak", "hardbreak"):
            yield text, (*spans, *(Span(start, len(text), look) for look, start, _ in opened))
            text, spans, opened = "", [], [(look, 0, target) for look, _, target in opened]
        elif child.type in _INLINE:
            opened.append((_INLINE[child.type], len(text), _target(child, "href")))
        elif child.type.endswith("_close") and opened:
            look, start, target = opened.pop()
            spans.append(Span(start, len(text), look))
            if look == "link" and target not in (text[start:], "mailto:" + text[start:]):
                spans.append(Span(len(text), len(text) + len(target) + 3, "muted"))
                text += f" ({target})"
        elif child.type == "code_inline":
            spans.append(Span(len(text), len(text) + len(child.content), "code"))
            text += child.content
        elif child.type == "image":
            text += f"image: {child.content} ({_target(child, 'src')})"
        else:
            text += child.content
    yield text, tuple(spans)


def _target(token: Token, key: str) -> str:
    """Where a link or an image leads, with its title."""
    return " ".join(str(token.attrs[each]) for each in (key, "title") if token.attrs.get(each))


def _lines_stay(state: StateInline, silent: bool) -> bool:
    """A line break is one, and what the next line begins with stays."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.push("softbreak", "br", 0)
    state.pos += 1
    return True


def _stars(state: StateInline, silent: bool) -> bool:
    """Only stars emphasise, and none between letters: ``__init__`` and ``2*3*4`` stay what they are."""
    around = state.src[max(state.pos - 1, 0) : state.pos + 2]
    between = len(around) == 3 and around[0].isalnum() and around[2].isalnum()
    return around[1 if state.pos else 0] == "*" and not between and tokenize(state, silent)


def _destination(text: str, start: int, stop: int) -> Any:
    """Where a link leads, as it was written."""
    found = helpers.parseLinkDestination(text, start, stop)
    if found.ok:
        written = text[start : found.pos]
        found.str = written[1:-1] if written.startswith("<") else written
    return found


def _title(text: str, start: int, stop: int, before: Any = None) -> Any:
    """The title of a link, as it was written."""
    found = helpers.parseLinkTitle(text, start, stop, before)
    if found.ok:
        found.str = text[start : found.pos]
    return found


class _Parser(MarkdownIt):
    """Links lead anywhere, and where they lead is shown as it was written: nobody follows them here."""

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["entity", "reference"])
    parser.inline.ruler.at("newline", _lines_stay)
    parser.inline.ruler.at("emphasis", _stars)
    parser.helpers = SimpleNamespace(  # type: ignore[assignment]
        parseLinkDestination=_destination, parseLinkLabel=helpers.parseLinkLabel, parseLinkTitle=_title
    )
    return parser
