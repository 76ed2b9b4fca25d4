"""Survival of facts in a summary, with the words that prove it, or what is missing.

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
    blank_matches,
    extract_keywords,
    find_numbers,
    is_exact,
    is_negated,
    quote_line,
    split_path,
    split_sentences,
)
from context_tui.summarizer.checks.summary_checks import URL_PATTERN

_MAX_PATH_PARTS = 40  # parts of a path that are looked at, from its end
_PATHLIKE = re.compile(r"[\w.@+~/-]+")
_IDENTIFIER = re.compile(r"(?<!\w)[A-Za-z_]\w*")


class FactSurvival(NamedTuple):
    """Survival of a fact: ``evidence`` quotes the text that preserves it, or names what is missing."""

    preserved: bool
    evidence: str


class FactMatcher:
    """A text, read once for all facts that are looked for in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sentences = list(split_sentences(text))
        self._sentences_by_word: dict[str, list[int]] = {}
        for number, sentence in enumerate(self._sentences):
            for word in extract_keywords(sentence):
                self._sentences_by_word.setdefault(word, []).append(number)
        self._paths: dict[str, dict[tuple[str, ...], int]] = {}
        for match in _PATHLIKE.finditer(blank_matches(text, URL_PATTERN)):
            parts = split_path(match[0].rstrip("."))[-_MAX_PATH_PARTS:]
            for length in range(len(parts), 0, -1):  # and the folders that it is in
                self._paths.setdefault(parts[length - 1], {}).setdefault(parts[:length], match.start())
        self._names: dict[str, int] = {}
        for match in _IDENTIFIER.finditer(text):
            self._names.setdefault(match[0], match.start())
        self._numbers: dict[str, dict[str, int]] = {}
        for digits, unit, _, at in find_numbers(text):
            self._numbers.setdefault(digits, {}).setdefault(unit, at)

    def match_fact(self, fact: Fact) -> FactSurvival:
        """Match a fact in the text."""
        match fact.kind:
            case FactKind.PATH:
                return self._match_path(fact)
            case FactKind.IDENTIFIER:
                return self._match_identifier(fact)
            case FactKind.NUMBER:
                return self._match_number(fact)
        return self._match_sentence(fact)

    def _match_path(self, fact: Fact) -> FactSurvival:
        parts = fact.parts
        for named, at in self._paths.get(parts[-1], {}).items():
            common = min(len(named), len(parts))
            if common >= fact.required_parts and named[-common:] == parts[-common:]:
                return self._build_evidence(at)
        return FactSurvival(False, f"no path ends with {'/'.join(parts[-fact.required_parts :])}")

    def _match_identifier(self, fact: Fact) -> FactSurvival:
        name = fact.parts[0]
        return (
            self._build_evidence(self._names[name]) if name in self._names else FactSurvival(False, f"no word {name}")
        )

    def _match_number(self, fact: Fact) -> FactSurvival:
        digits, unit = fact.parts
        units = self._numbers.get(digits, {})
        at = units.get(unit)
        if at is None and is_exact(digits):
            at = next(iter(units.values()), None)
        return FactSurvival(False, f"no number {fact.text}") if at is None else self._build_evidence(at)

    def _match_sentence(self, fact: Fact) -> FactSurvival:
        counts = Counter(number for word in fact.parts for number in self._sentences_by_word.get(word, ()))
        of, best = len(fact.parts), 0
        for number, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
            sentence = self._sentences[number]
            if count < fact.required_parts:
                break
            if not fact.negated or is_negated(sentence):
                return FactSurvival(True, quote_line(sentence, 0))
            best = best or count
        if best:
            return FactSurvival(False, f"a sentence has {best} of its {of} words and forbids nothing")
        most = max(counts.values(), default=0)
        return FactSurvival(False, f"no sentence has {fact.required_parts} of its {of} words; at most {most}")

    def _build_evidence(self, at: int) -> FactSurvival:
        """The line around a place."""
        return FactSurvival(True, quote_line(self._text, at))
