"""Text that looks like work: made once, then only cut, as a random choice for each character would take minutes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate

_WORDS = (
    "session token refresh cache request response handler parser index buffer policy window context result message "
    "threshold config default value error retry stream reader writer path file line column offset length return raise "
    "yield import class def self async await with for while if else not none true false list dict tuple string bytes "
    "number test assert fixture module package version release branch commit merge review check build deploy"
).split()
_FOREIGN = "größe déjà naïve année сессия контекст токен 漢字 会话 上下文 トークン 세션 ✓ → … “quoted” 🚀 €".split()


@dataclass(frozen=True)
class Text:
    """A few megabytes of lines, to cut pieces from.

    Attributes:
        lines: the lines themselves, each with its newline.
        plain: all lines as one text, ASCII only.
        foreign: the same amount with other scripts and emoji in it.
        numbered: the lines as a file viewer prints them, with their numbers.
    """

    lines: list[str]
    plain: str = field(repr=False)
    foreign: str = field(repr=False)
    numbered: str = field(repr=False)
    _plain_starts: list[int] = field(repr=False)
    _numbered_starts: list[int] = field(repr=False)

    @classmethod
    def make(cls, rng: random.Random, count: int = 40_000) -> Text:
        """Make ``count`` lines, the same for the same state of ``rng``."""
        lines = [_line(rng, _WORDS) for _ in range(count)]
        foreign = [_line(rng, _WORDS + _FOREIGN * 3) for _ in range(count)]
        numbered = [f"{number:>6}→{line}" for number, line in enumerate(lines, 1)]
        starts = [list(accumulate(map(len, kind), initial=0)) for kind in (lines, numbered)]
        return cls(lines, "".join(lines), "".join(foreign), "".join(numbered), *starts)

    def cut(self, rng: random.Random, size: int) -> str:
        """About ``size`` characters from anywhere; one piece in twenty is not ASCII."""
        pool = self.foreign if rng.random() < 0.05 else self.plain
        start = rng.randrange(len(pool) - size)
        return pool[start : start + size]

    def file(self, first: int, count: int) -> tuple[str, str]:
        """The lines from ``first`` on as a file holds them, and as a viewer prints them."""
        return (
            self.plain[self._plain_starts[first] : self._plain_starts[first + count]],
            self.numbered[self._numbered_starts[first] : self._numbered_starts[first + count]],
        )


def _line(rng: random.Random, vocabulary: list[str]) -> str:
    return "    " * rng.randrange(4) + " ".join(rng.choices(vocabulary, k=rng.randrange(1, 12))) + "\n"
