"""Matching of facts against a summary, to tell which survive and to quote the text that shows it.

- A path survives if the summary has a path with the same end, or one below it. The final parts that distinguish the
  path from all others of the history must be present (at least the file name, or two parts of a folder), and all parts
  that both paths have must be equal.
- An identifier must occur as a whole word, in the same case.
- A number must have the same digits, apart from thousands separators, and, if it is short, the same unit. A hexadecimal
  name must have the same first seven digits.
- An error or a constraint survives in a sentence with at least 60 % and at least two of its distinctive words, compared
  without endings. A prohibition survives only in a sentence that forbids or excludes something.

Paraphrases are not recognized: they count as lost.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from context_tui.summarizer.checks import facts
from context_tui.summarizer.checks.summary_checks import URL_PATTERN

_MAX_PATH_PARTS = 40  # final parts of a path that are compared
_PATHLIKE = re.compile(r"[\w.@+~/-]+")
_IDENTIFIER = re.compile(r"(?<!\w)[A-Za-z_]\w*")


class FactSurvival(NamedTuple):
    """The result of matching a fact against a summary; ``evidence`` quotes the summary, or names the missing parts."""

    preserved: bool
    evidence: str


class FactMatcher:
    """Index of a text, to match any number of facts against the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sentences = list(facts.split_sentences(text))
        self._sentences_by_word: dict[str, list[int]] = {}
        for number, sentence in enumerate(self._sentences):
            for word in facts.extract_keywords(sentence):
                self._sentences_by_word.setdefault(word, []).append(number)
        self._paths: dict[str, dict[tuple[str, ...], int]] = {}
        for match in _PATHLIKE.finditer(facts.blank_matches(text, URL_PATTERN)):
            parts = facts.split_path(match[0].rstrip("."))[-_MAX_PATH_PARTS:]
            for length in range(len(parts), 0, -1):  # also index its folders
                self._paths.setdefault(parts[length - 1], {}).setdefault(parts[:length], match.start())
        self._names: dict[str, int] = {}
        for match in _IDENTIFIER.finditer(text):
            self._names.setdefault(match[0], match.start())
        self._numbers: dict[str, dict[str, int]] = {}
        for digits, unit, _, at in facts.find_numbers(text):
            self._numbers.setdefault(digits, {}).setdefault(unit, at)

    def match_fact(self, fact: facts.Fact) -> FactSurvival:
        """Return whether the text preserves the fact, and the evidence for or against it."""
        matchers = {
            facts.FactKind.PATH: self._match_path,
            facts.FactKind.IDENTIFIER: self._match_identifier,
            facts.FactKind.NUMBER: self._match_number,
        }
        return matchers.get(fact.kind, self._match_sentence)(fact)

    def _match_path(self, fact: facts.Fact) -> FactSurvival:
        parts = fact.parts
        for candidate, at in self._paths.get(parts[-1], {}).items():
            common = min(len(candidate), len(parts))
            if common >= fact.required_parts and candidate[-common:] == parts[-common:]:
                return self._build_evidence(at)
        return FactSurvival(False, f"no path ends with {'/'.join(parts[-fact.required_parts :])}")

    def _match_identifier(self, fact: facts.Fact) -> FactSurvival:
        name = fact.parts[0]
        at = self._names.get(name)
        return FactSurvival(False, f"no word {name}") if at is None else self._build_evidence(at)

    def _match_number(self, fact: facts.Fact) -> FactSurvival:
        digits, unit = fact.parts
        units = self._numbers.get(digits, {})
        at = units.get(unit)
        if at is None and facts.is_exact(digits):
            at = next(iter(units.values()), None)
        return FactSurvival(False, f"no number {fact.text}") if at is None else self._build_evidence(at)

    def _match_sentence(self, fact: facts.Fact) -> FactSurvival:
        counts = Counter(number for word in fact.parts for number in self._sentences_by_word.get(word, ()))
        total, best = len(fact.parts), 0
        for number, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
            sentence = self._sentences[number]
            if count < fact.required_parts:
                break
            if not fact.negated or facts.is_negated(sentence):
                return FactSurvival(True, facts.quote_line(sentence, 0))
            best = best or count
        if best:
            return FactSurvival(False, f"a sentence has {best} of its {total} words and forbids nothing")
        highest = max(counts.values(), default=0)
        return FactSurvival(False, f"no sentence has {fact.required_parts} of its {total} words; at most {highest}")

    def _build_evidence(self, at: int) -> FactSurvival:
        return FactSurvival(True, facts.quote_line(self._text, at))
