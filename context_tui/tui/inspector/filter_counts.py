"""Numbers of rows that each filter would list, counted in slices so that long sessions do not block the screen."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from math import inf

from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.tui.timeline.filters import (
    SIZE_STEPS,
    RowFilter,
    RowTraits,
    count_shown_tokens,
    find_row_traits,
    find_tool_number,
)
from context_tui.tui.timeline.marks import VERDICT_LABELS, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, TimelineRows

SLICE_ROWS = 512


class FilterCounts:
    """Row counts grouped by the traits that filters test; ``counted_rows`` says how many are counted so far."""

    def __init__(self, rows: TimelineRows, marker: RowMarker, path: str = "") -> None:
        self.counted_rows = 0
        self._rows, self._marker, self._path = rows, marker, path
        self._next_row, self._row_count = 0, len(rows)
        self._counts_by_traits = Counter[RowTraits]()

    def advance(self, seconds: float = inf) -> bool:
        """Count rows for about *seconds* seconds, and return whether all rows are counted."""
        until = time.perf_counter() + seconds
        while self._next_row < self._row_count:
            self._count_rows(range(self._next_row, min(self._next_row + SLICE_ROWS, self._row_count)))
            if time.perf_counter() >= until:
                break
        return self._next_row >= self._row_count

    def count_matching(self, row_filter: RowFilter) -> int:
        """Return how many of the rows counted so far match *row_filter*."""
        tool = find_tool_number(self._marker.context.facts, row_filter.tool) if row_filter.tool else -1
        return sum(count for traits, count in self._counts_by_traits.items() if row_filter.matches(traits, tool))

    def _count_rows(self, span: range) -> None:
        rows, marker, path, counts = self._rows, self._marker, self._path, self._counts_by_traits
        facts = marker.context.facts
        for row in span:
            message, block = rows.message[row], rows.block[row]
            if block >= WHOLE_MESSAGE:
                kinds, tools = find_row_traits(facts, message, block, path)
                verdict = marker.find_mark(message, block).verdict
                size = bisect_right(SIZE_STEPS, count_shown_tokens(rows, marker, row))
                counts[RowTraits(kinds, tools, verdict, SIZE_STEPS[size - 1] if size else 0)] += 1
        self.counted_rows = sum(counts.values())
        self._next_row = span.stop


def find_possible_verdicts(marker: RowMarker, messages: int) -> list[str]:
    """Return the verdicts that rows may have, in legend order, as far as the plan and context tell."""
    plan, context = marker.plan, marker.context
    verdicts = {"kept"} | set(marker.applied_marks.values())
    if plan is not None:
        verdicts |= {"protected"} | {ACTION_PAST_TENSE[action] for action in _find_block_actions(marker, plan)}
        verdicts |= {"summarised"} if plan.dropped_ranges and plan.summarised_ranges else set()
        verdicts |= {"dropped"} if plan.dropped_ranges != plan.summarised_ranges else set()
        verdicts |= {"gone"} if context.replacements else set()
    verdicts |= {"before"} if len(context.order) < context.at else set()
    verdicts |= {"after"} if context.at < messages else set()
    return [verdict for verdict in (*VERDICT_LABELS, "kept") if verdict in verdicts]


def _find_block_actions(marker: RowMarker, plan: Plan) -> set[str]:
    if not plan.dropped_ranges:
        return {change.action for change in plan.changes.values()}
    owner = marker.context.facts.block_message
    blocks = (block for block in plan.changes if not plan.find_action(marker.find_position(owner[block])))
    return {plan.changes[block].action for block in blocks}
