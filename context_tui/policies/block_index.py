"""Cached lookups in the blocks of a context, updated only for new and changed blocks from one trigger to the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import NamedTuple

from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex, index_context, memoize_by_messages


class BlockColumns(NamedTuple):
    """Message positions and rows of all blocks of one kind in prompt order, including removed blocks."""

    position: list[int]
    block: list[int]


BlockFilter = Callable[[range], list[int]]
"""Function that selects some of a range of block numbers, ascending."""


class _CachedSelection:
    """Block numbers selected so far, ascending, and how many blocks and changed ranges were examined."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.block_count, self.range_count = 0, 0

    def update(self, numbers: range, choose: BlockFilter) -> None:
        selection = self.numbers
        selection[bisect_left(selection, numbers.start) : bisect_left(selection, numbers.stop)] = choose(numbers)


def find_blocks_of_kind(context: Context, kind: Kind) -> BlockColumns:
    """Return the positions and rows of all blocks of one kind in the context."""
    index = index_context(context)
    if kind == Kind.TOOL_RESULT:
        return BlockColumns(index.results.position, index.results.block)
    entry: tuple[BlockColumns, int] = index.memo.get(kind, (BlockColumns([], []), 0))
    columns, start = entry
    if start < len(context):
        facts, order = context.facts, context.order
        for position in range(start, len(context)):
            rows = [row for row in facts.blocks_of(order[position]) if facts.kind[row] == kind]
            columns.block.extend(rows)
            columns.position.extend([position] * len(rows))
        index.memo[kind] = columns, len(context)
    return columns


def find_call_rows(context: Context) -> dict[int, list[int]]:
    """Map each tool call id to the rows of the tool_use blocks with that id."""
    index, blocks = index_context(context), find_blocks_of_kind(context, Kind.TOOL_USE)
    entry: tuple[dict[int, list[int]], int] = index.memo.get("calls", ({}, 0))
    rows_by_call, start = entry
    for row in blocks.block[start:]:
        rows_by_call.setdefault(context.facts.call[row], []).append(row)
    index.memo["calls"] = rows_by_call, len(blocks.block)
    return rows_by_call


def select_block_numbers(index: ContextIndex, key: Hashable, blocks: BlockColumns, choose: BlockFilter) -> list[int]:
    """Return the numbers of the blocks that *choose* selects, cached under *key*.

    *choose* may depend only on a block and its replacement, because only new and changed blocks are passed to it again.
    """
    selection: _CachedSelection | None = index.memo.get(key)
    if selection is None:
        selection = index.memo[key] = _CachedSelection()
    count, length, range_count = selection.block_count, len(blocks.block), len(index.changed_ranges)
    if selection.range_count < range_count:
        for first, last in index.changed_ranges[selection.range_count :]:
            start = bisect_left(blocks.position, first, hi=count)
            selection.update(range(start, bisect_right(blocks.position, last, hi=count)), choose)
        selection.range_count = range_count
    if count < length:
        selection.update(range(count, length), choose)
        selection.block_count = length
    return selection.numbers


def slice_between(numbers: list[int], first: int, end: int) -> list[int]:
    """Return the part of an ascending list from *first* up to but not including *end*."""
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]


def find_cut_before_pairs(context: Context, cut: int) -> int:
    """Return the last position at or before *cut* that separates no tool call from its result."""
    calls = find_open_calls(context)
    while calls[cut] < cut:
        cut = calls[cut]
    return cut


@memoize_by_messages
def find_open_calls(context: Context) -> list[int]:
    """Return, for each cut, the position of the first call that it separates from its result, or the cut if none.

    Ids may repeat: a result belongs to the last call before it, and a call is answered by its first result.
    """
    facts, tool_use, result = context.facts, int(Kind.TOOL_USE), int(Kind.TOOL_RESULT)
    kind, call = facts.kind, facts.call
    events = [
        (position, call[block], kind[block] == tool_use)
        for position, message in enumerate(context.order)
        for block in context.blocks_of(message)
        if kind[block] == tool_use or kind[block] == result
    ]
    last_result = {call_id: position for position, call_id, is_call in events if not is_call}
    open_calls: dict[int, int] = {}  # position by call id
    spans: list[tuple[int, int]] = []  # from a call to its result, or to the next call with its id
    for position, call_id, is_call in events:
        call_position = open_calls.pop(call_id, position)
        if call_position < position and call_id in last_result:
            spans.append((call_position, min(position, last_result[call_id])))
        if is_call:
            open_calls[call_id] = position
    first_calls, covered = list(range(len(context) + 1)), 0
    for start, end in sorted(spans):
        for cut in range(max(start, covered) + 1, end + 1):
            first_calls[cut] = start
        covered = max(covered, end)
    return first_calls


class PrefixSums:
    """Sums of the amounts below or above a level, prepared so that each query is a binary search."""

    def __init__(self, levels: Iterable[int], amounts: Iterable[int]) -> None:
        pairs = sorted(zip(levels, amounts, strict=True))
        self._levels = [level for level, _ in pairs]
        self._sums = list(accumulate((amount for _, amount in pairs), initial=0))

    def sum_below(self, value: float) -> int:
        """Return the sum of the amounts whose level is below *value*."""
        return self._sums[bisect_left(self._levels, value)]

    def sum_above(self, value: float) -> int:
        """Return the sum of the amounts whose level is above *value*."""
        return self._sums[-1] - self._sums[bisect_right(self._levels, value)]
