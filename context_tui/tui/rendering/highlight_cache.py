"""Cache of syntax highlighting, with the code that remains to be highlighted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.tui.rendering.layout import StyleSpans

MAX_HIGHLIGHTED_CHARS = 32_000
"""Characters of a text up to which it is highlighted."""
MAX_CACHED_CHARS = 200_000
"""Characters of earlier messages whose highlighting stays in the cache."""
MAX_LINE_CHARS = 1_000
"""Length of a line from which on a text is not highlighted, as nobody reads such code."""


class CodeText(NamedTuple):
    """Lines of code in a language."""

    text: str
    language: str


HighlightedCode = tuple[CodeText, list[StyleSpans]]
"""Lines of code with the style spans of each."""


class HighlightCache:
    """Style spans of code by its text; code that was requested and is not known is ``wanted``."""

    def __init__(self) -> None:
        self._spans_by_code: dict[CodeText, list[StyleSpans]] = {}
        self._wanted: dict[CodeText, None] = {}

    def get_spans(self, lines: Sequence[str], language: str) -> list[StyleSpans]:
        """Return the style spans of each line; none while they are unknown."""
        nothing: list[StyleSpans] = [()] * len(lines)
        if not language or any(len(line) > MAX_LINE_CHARS for line in lines):
            return nothing
        code = CodeText("\n".join(lines), language)
        if len(code.text) > MAX_HIGHLIGHTED_CHARS:
            return nothing
        spans = self._spans_by_code.get(code)
        if spans is None:
            self._wanted[code] = None
        return spans or nothing

    def pop_wanted(self) -> list[CodeText]:
        """Return the wanted code, and clear it."""
        requested = list(self._wanted)
        self._wanted.clear()
        return requested

    def store(self, highlighted: Sequence[HighlightedCode]) -> None:
        """Store highlighted code."""
        self._spans_by_code.update(highlighted)

    def reset_wanted(self) -> None:
        """Clear the wanted code, and the cache if it is large, since another message is shown."""
        self._wanted.clear()
        if sum(len(code.text) for code in self._spans_by_code) > MAX_CACHED_CHARS:
            self._spans_by_code.clear()


def compute_highlights(code_texts: Sequence[CodeText], checkpoint: Callable[[], object]) -> list[HighlightedCode]:
    """Highlight code, in a thread, as the first import takes a while."""
    from context_tui.tui.rendering.highlighting import highlight

    return [(code, highlight(code.text, code.language, checkpoint)) for code in code_texts]
