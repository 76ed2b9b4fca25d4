"""Cached lookups over a context's blocks: selections by kind, cuts that split no call from its result, prefix sums."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import NamedTuple, Protocol

from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex, index_context, memoize_by_messages


class BlockColumns(Protocol):
    """The blocks of a kind in prompt order, those that went too: parallel columns of positions and rows."""

    @property
    def position(self) -> list[int]:
        """Positions of the messages."""

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
    """Selected numbers of blocks, ascending; ``block_count`` blocks and so many changed ranges have been examined."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.block_count, self.range_count = 0, 0

    def update(self, numbers: range, choose: BlockFilter) -> None:
        """Look at some, for the first time or again."""
        found = self.numbers
        found[bisect_left(found, numbers.start) : bisect_left(found, numbers.stop)] = choose(numbers)


def find_blocks_of_kind(context: Context, kind: Kind) -> BlockColumns:
    """Return the blocks of a kind."""
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
    """Select the numbers of the blocks that *choose* accepts, cached by *key*; only new and changed blocks are
    examined.

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
    """Return the ascending numbers from *first* on and below *end*."""
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]


def find_cut_before_pairs(context: Context, cut: int) -> int:
    """Return the latest position up to *cut* that splits no call from its result."""
    calls = find_open_calls(context)
    while calls[cut] < cut:
        cut = calls[cut]
    return cut


@memoize_by_messages
def find_open_calls(context: Context) -> list[int]:
    """Per cut, the position of the first call before it whose result is at or behind it; the cut itself where none is.

    Two calls may have one id, and a call several results: a result belongs to the last call before it, and a call is
    answered by its first result.
    """
    facts, use, result = context.facts, int(Kind.TOOL_USE), int(Kind.TOOL_RESULT)
    kind, call = facts.kind, facts.call
    events = [
        (position, call[block], kind[block] == use)
        for position, message in enumerate(context.order)
        for block in context.blocks_of(message)
        if kind[block] == use or kind[block] == result
    ]
    last_result = {which: position for position, which, made in events if not made}
    open_since: dict[int, int] = {}
    spans: list[tuple[int, int]] = []  # from a call to where it is answered, or made again
    for position, which, made in events:
        since = open_since.pop(which, position)
        if since < position:
            spans.append((since, min(position, last_result.get(which, -1))))
        if made:
            open_since[which] = position
    found, covered = list(range(len(context) + 1)), 0
    for since, until in sorted(spans):
        for cut in range(max(since, covered) + 1, until + 1):
            found[cut] = since
        covered = max(covered, until)
    return found


class PrefixSums:
    """Amounts, each at a level."""

    def __init__(self, levels: Iterable[int], amounts: Iterable[int]) -> None:
        pairs = sorted(zip(levels, amounts, strict=True))
        self._levels = [level for level, _ in pairs]
        self._sums = list(accumulate((amount for _, amount in pairs), initial=0))

    def sum_below(self, value: float) -> int:
        """Return the sum of the amounts at levels below *value*."""
        return self._sums[bisect_left(self._levels, value)]

    def sum_at_least(self, value: float) -> int:
        """Return the sum of the amounts at *value* and above."""
        return self._sums[-1] - self.sum_below(value)

    def sum_above(self, value: float) -> int:
        """Return the sum of the amounts at levels above *value*."""
        return self._sums[-1] - self._sums[bisect_right(self._levels, value)]
