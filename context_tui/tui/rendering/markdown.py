"""Markdown rendered as styled text parts, section by section; imported on first use.

Line breaks and indentation are kept. HTML, entities and underscores are plain text.
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

from context_tui.tui.rendering.languages import find_fence_language
from context_tui.tui.rendering.layout import Highlighter, StyleSpan, StyleSpans, TextPart, find_wrapped_lines

SECTION_CHARS, LONG_SECTION_CHARS, MAX_SECTION_CHARS = 2_000, 4_000, 12_000
"""Sizes in characters after which a section ends at the next block, at the next line of prose, and at any line."""
MAX_LINE_CHARS = 4_000
MAX_PAIRED_MARKS = 800
"""Maximum number of brackets or stars of a section; a section with more is plain text, as pairing them is slow."""

_CONTAINER_MARKS = r"(?:[ >]|[-*+] |\d{1,9}[.)] )*"  # marks of quotes and lists
_FENCE = re.compile(_CONTAINER_MARKS + "(`{3,}|~{3,})(.*)")
_HEADING_STYLES = {"h1": "h1", "h2": "h2"}
_INLINE_STYLES = {"strong_open": "strong", "em_open": "em", "s_open": "strike", "link_open": "link"}
_StyledLine = tuple[str, StyleSpans]


def render_markdown(text: str, style: str, width: int, highlight: Highlighter) -> Iterator[TextPart]:
    """Yield the parts of a sanitized Markdown text, with prose in *style* and tables at most *width* cells wide."""
    for section in split_sections(text.removesuffix("\n")):
        lines = section.split("\n")
        if lines[-1:] == [""]:
            lines.pop()
        marks = max(section.count("["), section.count("*"))
        if marks > MAX_PAIRED_MARKS or max(map(len, lines), default=0) > MAX_LINE_CHARS:
            yield from (TextPart(line, style) for line in lines)
        else:
            yield from _SectionRenderer(lines, style, width, highlight).render(_build_parser().parse(section))


def split_sections(text: str) -> Iterator[str]:
    """Yield sections of a text, divided between blocks if possible; one that starts within code repeats the fence."""
    section: list[str] = []
    size, fence, is_blank = 0, "", False
    for line in text.split("\n"):
        starts_block = is_blank and line.strip() != "" and not line.startswith(" ")
        is_prose = not fence and not line.lstrip().startswith("|")
        is_full = size >= LONG_SECTION_CHARS or (size >= SECTION_CHARS and starts_block)
        if (is_prose and is_full) or size >= MAX_SECTION_CHARS:
            yield "".join(section)
            section, size = [f"{fence}\n"] if fence else [], 0
        section.append(line + "\n")
        size, is_blank = size + len(line) + 1, not line.strip()
        if len(line) <= MAX_LINE_CHARS and (match := _FENCE.fullmatch(line)):
            if not fence:
                fence = match[1] + find_fence_language(match[2]) if "`" not in match[2] else ""
            elif match[1].startswith(re.match(r"`+|~+", fence)[0]) and not match[2].strip():  # type: ignore[index]
                fence = ""
    yield "".join(section)


@dataclass
class _Container:
    """A quote or list item, with the mark before its first line and the mark before later lines."""

    first_mark: str
    continuation_mark: str
    has_begun: bool = False

    def get_next_mark(self) -> str:
        """Return the mark before the next line: ``first_mark`` once, and then ``continuation_mark``."""
        mark, self.has_begun = self.continuation_mark if self.has_begun else self.first_mark, True
        return mark


class _SectionRenderer:
    def __init__(self, lines: Sequence[str], style: str, width: int, highlight: Highlighter) -> None:
        self._lines, self._style, self._width, self._highlight = lines, style, width, highlight
        self._containers: list[_Container] = []
        self._heading_style = ""  # style of the heading that is being rendered
        self._next_line = 0  # first line that is not rendered yet

    def render(self, tokens: Sequence[Token]) -> Iterator[TextPart]:
        """Yield the parts of all blocks, with one empty part for the empty lines between two blocks."""
        table: list[Token] = []
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                self._heading_style = _HEADING_STYLES.get(token.tag, "h3") if token.nesting > 0 else ""
            elif token.type == "blockquote_open":
                self._containers.append(_Container("│ ", "│ "))
            elif token.type == "list_item_open":
                bullet = f"{token.info}{token.markup} " if token.info else "• "
                self._containers.append(_Container(bullet, " " * len(bullet)))
            elif token.type in ("blockquote_close", "list_item_close"):
                container = self._containers.pop()
                if not container.has_begun and container.first_mark.strip() != "│":  # an empty item
                    yield from self._render_line("", (), self._style, container.first_mark.rstrip())
            elif table or token.type == "table_open":
                table.append(token)
                if token.type == "table_close":
                    yield from self._render_block(table[0], self._render_table(table))
                    table = []
            elif token.type in ("inline", "fence", "code_block", "hr"):
                yield from self._render_block(token, self._render_leaf(token))
        yield from self._render_gap(len(self._lines))

    def _render_block(self, token: Token, parts: Iterable[TextPart]) -> Iterator[TextPart]:
        first, stop = token.map or (self._next_line, self._next_line)
        yield from self._render_gap(first)
        yield from parts
        while stop > first and not self._lines[min(stop, len(self._lines)) - 1].strip(" >"):
            stop -= 1  # the parser counts empty lines after some blocks to these blocks
        self._next_line = max(stop, self._next_line)

    def _render_gap(self, line: int) -> Iterator[TextPart]:
        if any(not text.strip(" >") for text in self._lines[self._next_line : line]):
            mark = "".join(item.continuation_mark for item in self._containers if item.has_begun).rstrip()
            yield TextPart("", self._style, (), mark, mark, "bullet")
            self._next_line = line

    def _render_line(self, text: str, spans: StyleSpans, style: str, extra_mark: str = "") -> Iterator[TextPart]:
        mark = "".join(container.get_next_mark() for container in self._containers) + extra_mark
        continuation = "".join(container.continuation_mark for container in self._containers) + extra_mark
        is_listed = bool(mark.strip(" │"))
        mark_style = "bullet" if is_listed else "muted"
        yield TextPart(text, style, spans, mark, continuation, mark_style, mark_is_content=is_listed)

    def _render_leaf(self, token: Token) -> Iterator[TextPart]:
        if token.type == "hr":
            yield from self._render_line("─" * 24, (), "muted")
        elif token.type == "inline":
            for text, spans in _parse_inline(token):
                yield from self._render_line(text, spans, self._heading_style or self._style)
        else:
            info = token.info.strip()
            language = find_fence_language(info)
            is_name = info.replace("+", "").replace("#", "").isalnum()
            if info and not (is_name and language):
                yield from self._render_line(info, (StyleSpan(0, len(info), "muted"),), "fence", "  ")
                if not token.content:
                    return
            lines = token.content.removesuffix("\n").split("\n")
            for text, spans in zip(lines, self._highlight(lines, language), strict=True):
                yield from self._render_line(text, spans, "fence", "  ")

    def _render_table(self, tokens: Sequence[Token]) -> Iterator[TextPart]:
        rows: list[list[_StyledLine]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(next(iter(_parse_inline(token)), ("", ())))
        room = self._width - sum(len(container.continuation_mark) for container in self._containers)
        widths = _fit_columns([max(cell_len(row[n][0]) for row in rows) for n in range(len(rows[0]))], room)
        first, stop = tokens[0].map or (0, 0)
        lines = [line.lstrip(" >") for line in self._lines[first:stop]]
        # Such a table is shown raw, as the parser drops the cells beyond those of the first row.
        rows_of_cells = [escapedSplit(line.strip().removeprefix("|").removesuffix("|")) for line in lines[2:] or [""]]
        if not widths or max(map(len, rows_of_cells)) > len(widths):
            if not all(container.has_begun for container in self._containers):
                lines[0] = re.sub(_CONTAINER_MARKS, "", lines[0], count=1)
            for line in lines:
                yield from self._render_line(line, (), self._style)
            return
        for number, row in enumerate(rows):
            for text, spans in _wrap_row(row, widths):
                spans = (StyleSpan(0, len(text), "strong"), *spans) if number == 0 else spans
                yield from self._render_line(text, spans, self._style)
            if number == 0:
                yield from self._render_line("─┼─".join("─" * width for width in widths), (), "muted")


def _fit_columns(widths: list[int], room: int) -> list[int]:
    room -= 3 * (len(widths) - 1)
    if room < 4 * len(widths):
        return []
    while sum(widths) > room:
        widest = max(widths)
        second = max((width for width in widths if width < widest), default=0)
        widest_count = widths.count(widest)
        smaller = max(second, widest - -(-(sum(widths) - room) // widest_count), 1)
        widths = [smaller if width == widest else width for width in widths]
    return [max(width, 1) for width in widths]


def _wrap_row(row: Sequence[_StyledLine], widths: Sequence[int]) -> Iterator[_StyledLine]:
    columns = [
        [(text[piece.start : piece.stop], piece.start) for piece in find_wrapped_lines(text, width)]
        for (text, _), width in zip(row, widths, strict=True)
    ]
    for line in zip_longest(*columns, fillvalue=("", 0)):
        cells = [piece + " " * (width - cell_len(piece)) for (piece, _), width in zip(line, widths, strict=True)]
        starts = accumulate((len(cell) + 3 for cell in cells), initial=0)
        spans = [
            StyleSpan(at + max(first - start, 0), at + min(last - start, len(piece)), style)
            for (piece, start), at, (_, styles) in zip(line, starts, row, strict=False)
            for first, last, style in styles
            if first < start + len(piece) and last > start
        ]
        yield " │ ".join(cells).rstrip(), tuple(spans)


def _parse_inline(token: Token) -> Iterator[_StyledLine]:
    text, spans = "", list[StyleSpan]()
    open_spans: list[tuple[str, int, str]] = []
    for child in token.children or ():
        if child.type in ("softbreak", "hardbreak"):
            yield text, (*spans, *(StyleSpan(start, len(text), style) for style, start, _ in open_spans))
            text, spans, open_spans = "", [], [(style, 0, target) for style, _, target in open_spans]
        elif child.type in _INLINE_STYLES:
            open_spans.append((_INLINE_STYLES[child.type], len(text), _format_target(child, "href")))
        elif child.type.endswith("_close") and open_spans:
            style, start, target = open_spans.pop()
            spans.append(StyleSpan(start, len(text), style))
            if style == "link" and target not in (text[start:], "mailto:" + text[start:]):
                spans.append(StyleSpan(len(text), len(text) + len(target) + 3, "muted"))
                text += f" ({target})"
        elif child.type == "code_inline":
            spans.append(StyleSpan(len(text), len(text) + len(child.content), "code"))
            text += child.content
        elif child.type == "image":
            text += f"image: {child.content} ({_format_target(child, 'src')})"
        else:
            text += child.content
    yield text, tuple(spans)


def _format_target(token: Token, key: str) -> str:
    return " ".join(str(token.attrs[name]) for name in (key, "title") if token.attrs.get(name))


def _keep_line_break(state: StateInline, silent: bool) -> bool:
    """Parse a line break, keeping the spaces at the start of the next line; return False at any other character."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.push("softbreak", "br", 0)
    state.pos += 1
    return True


def _parse_emphasis(state: StateInline, silent: bool) -> bool:
    """Parse emphasis by asterisks outside words only, so that ``__init__`` and ``2*3*4`` stay plain text."""
    text = state.src[max(state.pos - 1, 0) : state.pos + 2]
    is_in_word = len(text) == 3 and text[0].isalnum() and text[2].isalnum()
    return text[1 if state.pos else 0] == "*" and not is_in_word and tokenize(state, silent)


def _parse_destination(text: str, start: int, stop: int) -> Any:
    result = helpers.parseLinkDestination(text, start, stop)
    if result.ok:
        target = text[start : result.pos]
        result.str = target[1:-1] if target.startswith("<") else target
    return result


def _parse_title(text: str, start: int, stop: int, before: Any = None) -> Any:
    result = helpers.parseLinkTitle(text, start, stop, before)
    if result.ok:
        result.str = text[start : result.pos]
    return result


class _Parser(MarkdownIt):
    """A parser that accepts all links and shows their targets as written, because links cannot be followed here."""

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _build_parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["entity", "reference"])
    parser.inline.ruler.at("newline", _keep_line_break)
    parser.inline.ruler.at("emphasis", _parse_emphasis)
    parser.helpers = SimpleNamespace(  # type: ignore[assignment]
        parseLinkDestination=_parse_destination, parseLinkLabel=helpers.parseLinkLabel, parseLinkTitle=_parse_title
    )
    return parser
