"""Syntax highlighting by Pygments, which is imported on first use, and a cache with a queue of code to highlight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from context_tui.session.values import Checkpoint
from context_tui.tui.rendering.layout import StyleSpan, StyleSpans
from context_tui.tui.threads import ThreadJob

MAX_HIGHLIGHTED_CHARS = 32_000
MAX_CACHED_CHARS = 200_000
"""Maximum number of characters in the cache when another message is shown."""
MAX_LINE_CHARS = 1_000
"""Maximum number of characters of a line; code with longer lines is not highlighted."""


_TOKEN_TYPES = {
    "comment": "Comment",
    "keyword": "Comment.Preproc Keyword",
    "number": "Keyword.Constant Literal.Number Generic.Deleted",
    "name": "Name.Attribute Name.Class Name.Decorator Name.Function Name.Tag Generic.Heading Generic.Subheading",
    "string": "Literal.String Literal.Date Generic.Inserted",
}
_TOKEN_STYLES = {name: style for style, names in _TOKEN_TYPES.items() for name in names.split()}
"""Styles by the names of token types."""


class CodeText(NamedTuple):
    """Lines of code, and their language."""

    text: str
    language: str


HighlightedCode = tuple[CodeText, list[StyleSpans]]


class HighlightCache:
    """A cache of style spans for code, and a queue of requested code that is not highlighted yet."""

    def __init__(self) -> None:
        self._spans_by_code: dict[CodeText, list[StyleSpans]] = {}
        self._queue: dict[CodeText, None] = {}

    def get_spans(self, lines: Sequence[str], language: str) -> list[StyleSpans]:
        """Return the style spans of each line; they are empty as long as the code is not highlighted."""
        no_spans: list[StyleSpans] = [()] * len(lines)
        if not language or any(len(line) > MAX_LINE_CHARS for line in lines):
            return no_spans
        code = CodeText("\n".join(lines), language)
        if len(code.text) > MAX_HIGHLIGHTED_CHARS:
            return no_spans
        spans = self._spans_by_code.get(code)
        if spans is None:
            self._queue[code] = None
        return spans or no_spans

    def pop_queue(self) -> list[CodeText]:
        """Return the code waiting to be highlighted, and empty the queue."""
        code_texts, self._queue = list(self._queue), {}
        return code_texts

    def store(self, highlighted: Sequence[HighlightedCode]) -> None:
        """Add highlighted code to the cache."""
        self._spans_by_code.update(highlighted)

    def reset_queue(self) -> None:
        """Empty the queue because another message will be shown; also empty the cache if it has grown large."""
        self._queue.clear()
        if sum(len(code.text) for code in self._spans_by_code) > MAX_CACHED_CHARS:
            self._spans_by_code.clear()


def compute_highlights(code_texts: Sequence[CodeText], job: ThreadJob) -> list[HighlightedCode]:
    """Return each text with its style spans; to be called in a thread, because the first call imports Pygments."""
    return [(code, highlight(code.text, code.language, job.checkpoint)) for code in code_texts]


def highlight(text: str, language: str, checkpoint: Checkpoint) -> list[StyleSpans]:
    """Return the style spans of each line, or [] if the language has no lexer; *checkpoint* may raise to cancel."""
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    lines = text.split("\n")
    spans_by_line: list[list[StyleSpan]] = [[] for _ in lines]
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return []
    row, line_start = 0, 0
    for place, kind, value in lexer.get_tokens_unprocessed(text):
        checkpoint()
        style = _find_token_style(kind)
        while row < len(lines) - 1 and place > line_start + len(lines[row]):
            line_start, row = line_start + len(lines[row]) + 1, row + 1
        if style:
            start, line = place - line_start, row
            for text_in_line in value.split("\n"):
                if text_in_line.strip():
                    _append_span(spans_by_line[line], StyleSpan(start, start + len(text_in_line), style))
                start, line = 0, line + 1
    return [tuple(spans) for spans in spans_by_line]


@cache
def _find_token_style(kind: tuple[str, ...]) -> str:
    names = (".".join(kind[:count]) for count in range(len(kind), 0, -1))
    return next((_TOKEN_STYLES[name] for name in names if name in _TOKEN_STYLES), "")


def _append_span(spans: list[StyleSpan], span: StyleSpan) -> None:
    if spans and spans[-1].stop == span.start and spans[-1].style == span.style:
        span = StyleSpan(spans.pop().start, span.stop, span.style)
    spans.append(span)
