"""Cache of syntax highlighting, with the code still to be highlighted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.tui.rendering.layout import StyleSpans

MAX_HIGHLIGHTED_CHARS = 32_000
"""Characters of a text that are highlighted."""
MAX_CACHED_CHARS = 200_000
"""Characters of earlier messages whose looks are kept."""
MAX_LINE_CHARS = 1_000
"""Characters of a line from which on its text is not code that anybody reads."""


class CodeText(NamedTuple):
    """Lines in a language."""

    text: str
    language: str


HighlightedCode = tuple[CodeText, list[StyleSpans]]
"""Lines and the looks of each."""


class HighlightCache:
    """Looks of code by its text; what is asked for and not known is ``wanted``."""

    def __init__(self) -> None:
        self._spans_by_code: dict[CodeText, list[StyleSpans]] = {}
        self._wanted: dict[CodeText, None] = {}

    def get_spans(self, lines: Sequence[str], language: str) -> list[StyleSpans]:
        """The looks of each of these lines, in the places of its text; none while they are not known."""
        nothing: list[StyleSpans] = [()] * len(lines)
        if not language or any(len(line) > MAX_LINE_CHARS for line in lines):
            return nothing
        code = CodeText("\n".join(lines), language)
        if len(code.text) > MAX_HIGHLIGHTED_CHARS:
            return nothing
        known = self._spans_by_code.get(code)
        if known is None:
            self._wanted[code] = None
        return known or nothing

    def pop_wanted(self) -> list[CodeText]:
        """Return the code that waits to be highlighted, and empty the queue."""
        wanted = list(self._wanted)
        self._wanted.clear()
        return wanted

    def store(self, highlighted: Sequence[HighlightedCode]) -> None:
        """Keep what was found out."""
        self._spans_by_code.update(highlighted)

    def reset_wanted(self) -> None:
        """Another message is shown: forget what was known of others, unless that is little."""
        self._wanted.clear()
        if sum(len(code.text) for code in self._spans_by_code) > MAX_CACHED_CHARS:
            self._spans_by_code.clear()


def compute_highlights(wanted: Sequence[CodeText], checkpoint: Callable[[], object]) -> list[HighlightedCode]:
    """Find out what is wanted, in a thread: the first time it takes a while to import."""
    from context_tui.tui.rendering.highlighting import highlight

    return [(code, highlight(code.text, code.language, checkpoint)) for code in wanted]
