"""Cache of syntax highlighting, with a queue of the code still to be highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_tui.tui.rendering.layout import StyleSpans
from context_tui.tui.threads import ThreadJob

MAX_HIGHLIGHTED_CHARS = 32_000
MAX_CACHED_CHARS = 200_000
"""Maximum number of characters in the cache when another message is shown."""
MAX_LINE_CHARS = 1_000
"""Maximum number of characters of a line; code with longer lines is not highlighted."""


class CodeText(NamedTuple):
    """Some lines of code together with the language they are in."""

    text: str
    language: str


HighlightedCode = tuple[CodeText, list[StyleSpans]]


class HighlightCache:
    """A cache of style spans for code; code that is requested but not yet highlighted goes into a queue."""

    def __init__(self) -> None:
        self._spans_by_code: dict[CodeText, list[StyleSpans]] = {}
        self._queue: dict[CodeText, None] = {}

    def get_spans(self, lines: Sequence[str], language: str) -> list[StyleSpans]:
        """Return the style spans for each line, which are empty until the code has been highlighted."""
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
    """Return the highlighted code; call this in a thread, because the first call imports Pygments."""
    from context_tui.tui.rendering.highlighting import highlight

    return [(code, highlight(code.text, code.language, job.checkpoint)) for code in code_texts]
