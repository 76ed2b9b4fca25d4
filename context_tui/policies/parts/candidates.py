"""What a rule could change in a history that goes on, kept from one look to the next: each looks at what is new.

Blocks of a kind are numbered in prompt order; of them those are kept that have the right tool and size and were not
cleared yet. A look adds what was appended, and looks again at the stretches in which bodies were changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from context_tui.session.context import Context
from context_tui.session.facts import Kind
from context_tui.tokens.measured import Measured, measured


class Blocks(NamedTuple):
    """The blocks of a kind in prompt order, those that went too: parallel columns of positions and rows."""

    position: list[int]
    block: list[int]


class Candidates:
    """Numbers of the blocks that *fits* says could be changed, ascending, and of those that are ``marked``."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.marked: list[int] = []
        self._known, self._spans = 0, 0

    def follow(
        self, sums: Measured, blocks: Blocks, marked: Callable[[int], bool], fits: Callable[[int], bool]
    ) -> None:
        """Look at what was changed and appended since the last time.

        Args:
            marked: whether a block (a row) has been cleared before.
            fits: whether one that has not been could be changed.
        """
        for first, last in sums.spans[self._spans :]:
            begin = bisect_left(blocks.position, first, hi=self._known)
            self._look(range(begin, bisect_right(blocks.position, last, hi=self._known)), blocks, marked, fits)
        self._look(range(self._known, len(blocks.block)), blocks, marked, fits)
        self._known, self._spans = len(blocks.block), len(sums.spans)

    def _look(self, numbers: range, blocks: Blocks, marked: Callable[[int], bool], fits: Callable[[int], bool]) -> None:
        """Look at some of them, for the first time or again."""
        gone, good = list[int](), list[int]()
        for number in numbers:
            row = blocks.block[number]
            if marked(row):
                gone.append(number)
            elif fits(row):
                good.append(number)
        for column, found in ((self.marked, gone), (self.numbers, good)):
            column[bisect_left(column, numbers.start) : bisect_left(column, numbers.stop)] = found


def blocks_of_kind(context: Context, kind: Kind) -> Blocks:
    """The blocks of a kind."""
    sums = measured(context)
    if kind == Kind.TOOL_RESULT:
        return Blocks(sums.results.position, sums.results.block)
    found, known = sums.memo.get(kind, (Blocks([], []), 0))
    if known < len(context):
        facts, order = context.facts, context.order
        for position in range(known, len(context)):
            rows = [row for row in facts.blocks_of(order[position]) if facts.kind[row] == kind]
            found.block.extend(rows)
            found.position.extend([position] * len(rows))
        sums.memo[kind] = found, len(context)
    kept: Blocks = found
    return kept


def rows_of_calls(context: Context) -> dict[int, list[int]]:
    """Rows of the blocks that make each call."""
    sums, blocks = measured(context), blocks_of_kind(context, Kind.TOOL_USE)
    found, known = sums.memo.get("calls", (dict[int, list[int]](), 0))
    for row in blocks.block[known:]:
        found.setdefault(context.facts.call[row], []).append(row)
    sums.memo["calls"] = found, len(blocks.block)
    kept: dict[int, list[int]] = found
    return kept


def candidates(
    context: Context, key: Hashable, blocks: Blocks, marked: Callable[[int], bool], fits: Callable[[int], bool]
) -> Candidates:
    """What could be changed by the rule that *key* stands for; :meth:`Candidates.follow` says what the others are."""
    sums = measured(context)
    found = sums.memo.get(key) or Candidates()
    found.follow(sums, blocks, marked, fits)
    sums.memo[key] = found
    kept: Candidates = found
    return kept


def between(numbers: Sequence[int], first: int, end: int) -> Sequence[int]:
    """Those of ascending numbers from *first* on and below *end*."""
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]
