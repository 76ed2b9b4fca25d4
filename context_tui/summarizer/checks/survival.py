"""Whether a fact is still there in a summary, and the words that prove it, or the lack of them.

- A path: a path in the summary that ends as it does, or is below it. As many of its last parts have to be there as tell
  it from the other paths of the history, so at least the name of the file (of a folder two parts), and all that both
  have must be the same.
- An identifier: as a whole word, capitals as they are.
- A number: the same digits, whatever separates thousands; of a short one the same unit too. Of a hexadecimal name its
  first seven digits.
- An error or a constraint: a sentence with at least 60 % of its distinctive words, and two of them, endings left out.
  What forbids something counts only where that sentence does so too.

Nothing is guessed: what a summary says in other words counts as lost.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from context_tui.summarizer.checks.facts import (
    Fact,
    FactKind,
    blanked,
    exact,
    negated,
    numbers_in,
    path_parts,
    quoted,
    sentences,
    words,
)
from context_tui.summarizer.checks.summary_checks import URL

_DEEPEST = 40  # parts of a path that are looked at, from its end
_PATHLIKE = re.compile(r"[\w.@+~/-]+")
_IDENTIFIER = re.compile(r"(?<!\w)[A-Za-z_]\w*")


class Survival(NamedTuple):
    """What became of a fact: ``evidence`` quotes the text where it is kept, and says what is missing where not."""

    kept: bool
    evidence: str


class Told:
    """A text, read once for all facts that are looked for in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sentences = list(sentences(text))
        self._having: dict[str, list[int]] = {}
        for number, sentence in enumerate(self._sentences):
            for word in words(sentence):
                self._having.setdefault(word, []).append(number)
        self._paths: dict[str, dict[tuple[str, ...], int]] = {}
        for match in _PATHLIKE.finditer(blanked(text, URL)):
            parts = path_parts(match[0].rstrip("."))[-_DEEPEST:]
            for length in range(len(parts), 0, -1):  # and the folders that it is in
                self._paths.setdefault(parts[length - 1], {}).setdefault(parts[:length], match.start())
        self._names: dict[str, int] = {}
        for match in _IDENTIFIER.finditer(text):
            self._names.setdefault(match[0], match.start())
        self._numbers: dict[str, dict[str, int]] = {}
        for digits, unit, _, at in numbers_in(text):
            self._numbers.setdefault(digits, {}).setdefault(unit, at)

    def survival(self, fact: Fact) -> Survival:
        """Whether the text has this fact."""
        match fact.kind:
            case FactKind.PATH:
                return self._path(fact)
            case FactKind.IDENTIFIER:
                return self._identifier(fact)
            case FactKind.NUMBER:
                return self._number(fact)
        return self._sentence(fact)

    def _path(self, fact: Fact) -> Survival:
        parts = fact.parts
        for named, at in self._paths.get(parts[-1], {}).items():
            common = min(len(named), len(parts))
            if common >= fact.need and named[-common:] == parts[-common:]:
                return self._proof(at)
        return Survival(False, f"no path ends with {'/'.join(parts[-fact.need :])}")

    def _identifier(self, fact: Fact) -> Survival:
        name = fact.parts[0]
        return self._proof(self._names[name]) if name in self._names else Survival(False, f"no word {name}")

    def _number(self, fact: Fact) -> Survival:
        digits, unit = fact.parts
        units = self._numbers.get(digits, {})
        at = units.get(unit)
        if at is None and exact(digits):
            at = next(iter(units.values()), None)
        return Survival(False, f"no number {fact.text}") if at is None else self._proof(at)

    def _sentence(self, fact: Fact) -> Survival:
        counts = Counter(number for word in fact.parts for number in self._having.get(word, ()))
        of, best = len(fact.parts), 0
        for number, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
            sentence = self._sentences[number]
            if count < fact.need:
                break
            if not fact.negated or negated(sentence):
                return Survival(True, quoted(sentence, 0))
            best = best or count
        if best:
            return Survival(False, f"a sentence has {best} of its {of} words and forbids nothing")
        most = max(counts.values(), default=0)
        return Survival(False, f"no sentence has {fact.need} of its {of} words; at most {most}")

    def _proof(self, at: int) -> Survival:
        """The line around a place."""
        return Survival(True, quoted(self._text, at))
