"""What a rule could change in a history that goes on, kept from one look to the next: each looks at what is new.

Blocks of a kind are numbered in prompt order; of them those are kept that have the right tool and size and were not
cleared yet. A look adds what was appended, and looks again at the stretches in which bodies were changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex, index_context


class BlockColumns(Protocol):
    """The blocks of a kind in prompt order, those that went too: parallel columns of positions and rows."""

    @property
    def position(self) -> list[int]:
        """The position of each one's message."""

    @property
    def block(self) -> list[int]:
        """The row of each one."""


_TOOL_RESULT = int(Kind.TOOL_RESULT)


class _BlockColumns(NamedTuple):
    position: list[int]
    block: list[int]


BlockFilter = Callable[[range], list[int]]
"""Which of some consecutive numbers are kept, ascending."""


class _CachedSelection:
    """Chosen numbers of blocks, ascending; ``block_count`` blocks were looked at, and so many changed stretches."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.block_count, self.range_count = 0, 0

    def update(self, numbers: range, choose: BlockFilter) -> None:
        """Look at some, for the first time or again."""
        found = self.numbers
        found[bisect_left(found, numbers.start) : bisect_left(found, numbers.stop)] = choose(numbers)


def find_blocks_of_kind(context: Context, kind: Kind) -> BlockColumns:
    """The blocks of a kind."""
    sums = index_context(context)
    if kind == _TOOL_RESULT:
        return sums.results
    found, known = sums.memo.get(kind, (_BlockColumns([], []), 0))
    if known < len(context):
        facts, order = context.facts, context.order
        for position in range(known, len(context)):
            rows = [row for row in facts.blocks_of(order[position]) if facts.kind[row] == kind]
            found.block.extend(rows)
            found.position.extend([position] * len(rows))
        sums.memo[kind] = found, len(context)
    kept: BlockColumns = found
    return kept


def find_call_rows(context: Context) -> dict[int, list[int]]:
    """Rows of the blocks that make each call."""
    sums, blocks = index_context(context), find_blocks_of_kind(context, Kind.TOOL_USE)
    found, known = sums.memo.get("calls", (dict[int, list[int]](), 0))
    for row in blocks.block[known:]:
        found.setdefault(context.facts.call[row], []).append(row)
    sums.memo["calls"] = found, len(blocks.block)
    kept: dict[int, list[int]] = found
    return kept


def select_block_numbers(sums: ContextIndex, key: Hashable, blocks: BlockColumns, choose: BlockFilter) -> list[int]:
    """The numbers of blocks that *choose* keeps, which *key* stands for; it is asked only of what is new or changed.

    What it says of a block may depend on the block, and on what stands in its place, and on nothing else.
    """
    kept: _CachedSelection | None = sums.memo.get(key)
    if kept is None:
        kept = sums.memo[key] = _CachedSelection()
    known, length, spans = kept.block_count, len(blocks.block), len(sums.changed_ranges)
    if kept.range_count < spans:
        for first, last in sums.changed_ranges[kept.range_count :]:
            begin = bisect_left(blocks.position, first, hi=known)
            kept.update(range(begin, bisect_right(blocks.position, last, hi=known)), choose)
        kept.range_count = spans
    if known < length:
        kept.update(range(known, length), choose)
        kept.block_count = length
    return kept.numbers


def slice_between(numbers: list[int], first: int, end: int) -> list[int]:
    """Those of ascending numbers from *first* on and below *end*."""
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]
