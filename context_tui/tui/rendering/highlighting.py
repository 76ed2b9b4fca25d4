"""Syntax highlighting by Pygments; imported on first use."""

from __future__ import annotations

from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, String  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from context_tui.session.values import Checkpoint
from context_tui.tui.rendering.layout import StyleSpan, StyleSpans

_TOKEN_STYLES = {
    Comment: "comment",
    Comment.Preproc: "keyword",
    Keyword: "keyword",
    Keyword.Constant: "number",
    Name.Attribute: "name",
    Name.Class: "name",
    Name.Decorator: "name",
    Name.Function: "name",
    Name.Tag: "name",
    Number: "number",
    String: "string",
    Literal.Date: "string",
    Generic.Heading: "name",
    Generic.Subheading: "name",
    Generic.Inserted: "string",
    Generic.Deleted: "number",
}


def highlight(text: str, language: str, checkpoint: Checkpoint) -> list[StyleSpans]:
    """Return the style spans for each line, or [] if the language has no lexer; *checkpoint* may raise to stop."""
    lines = text.split("\n")
    spans_by_line: list[list[StyleSpan]] = [[] for _ in lines]
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return []
    row, line_start = 0, 0
    for place, kind, value in lexer.get_tokens_unprocessed(text):
        checkpoint()
        style = next((_TOKEN_STYLES[each] for each in reversed(kind.split()) if each in _TOKEN_STYLES), "")
        while row < len(lines) - 1 and place > line_start + len(lines[row]):
            line_start, row = line_start + len(lines[row]) + 1, row + 1
        if style:
            start, line = place - line_start, row
            for text_in_line in value.split("\n"):
                if text_in_line.strip():
                    _append_span(spans_by_line[line], StyleSpan(start, start + len(text_in_line), style))
                start, line = 0, line + 1
    return [tuple(spans) for spans in spans_by_line]


def _append_span(spans: list[StyleSpan], span: StyleSpan) -> None:
    if spans and spans[-1].stop == span.start and spans[-1].style == span.style:
        span = StyleSpan(spans.pop().start, span.stop, span.style)
    spans.append(span)
