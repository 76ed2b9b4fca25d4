"""What has been highlighted, and what is to be: nothing is while something is painted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_tui.tui.parts import Spans

LIMIT = 32_000
"""Characters of a text that are highlighted."""
KEPT = 200_000
"""Characters of earlier messages whose looks are kept."""
LONGEST = 1_000
"""Characters of a line from which on its text is not code that anybody reads."""


class Code(NamedTuple):
    """Lines in a language."""

    text: str
    language: str


Known = tuple[Code, list[Spans]]
"""Lines and the looks of each."""


class Highlights:
    """Looks of code by its text; what is asked for and not known is ``wanted``."""

    def __init__(self) -> None:
        self._known: dict[Code, list[Spans]] = {}
        self._wanted: dict[Code, None] = {}

    def of(self, lines: Sequence[str], language: str) -> list[Spans]:
        """The looks of each of these lines, in the places of its text; none while they are not known."""
        nothing: list[Spans] = [()] * len(lines)
        if not language or any(len(line) > LONGEST for line in lines):
            return nothing
        code = Code("\n".join(lines), language)
        if len(code.text) > LIMIT:
            return nothing
        known = self._known.get(code)
        if known is None:
            self._wanted[code] = None
        return known or nothing

    def take_wanted(self) -> list[Code]:
        """What is wanted; it is not wanted any more then."""
        wanted = list(self._wanted)
        self._wanted.clear()
        return wanted

    def keep(self, found: Sequence[Known]) -> None:
        """Keep what was found out."""
        self._known.update(found)

    def begin(self) -> None:
        """Another message is shown: forget what was known of others, unless that is little."""
        self._wanted.clear()
        if sum(len(code.text) for code in self._known) > KEPT:
            self._known.clear()


def find_highlights(wanted: Sequence[Code], checkpoint: Callable[[], object]) -> list[Known]:
    """Find out what is wanted, in a thread: the first time it takes a while to import."""
    from context_tui.tui.highlighting import highlight

    return [(code, highlight(code.text, code.language, checkpoint)) for code in wanted]
