"""Which rows are listed, and in which order: what the timeline folds, filters and sorts. Pure.

What is listed in the order of the session takes no room for each row; rows that a filter chose or that are sorted are
an array.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from context_tui.compaction.verdicts import ACTION_PAST_TENSE
from context_tui.session.values import Kind, Spans
from context_tui.tui.filters import RowFilter, find_row_traits, find_tool_number, get_kind_bit
from context_tui.tui.folds import NO_FOLDS, TurnFolds
from context_tui.tui.marks import RowMarker
from context_tui.tui.rows import WHOLE_MESSAGE, TimelineRows


def list_rows(
    rows: TimelineRows, marker: RowMarker, row_filter: RowFilter, by_size: bool, folds: TurnFolds = NO_FOLDS
) -> Sequence[int]:
    """The rows to list, in order. Filtered or by size no heads are listed, and no folds count; by size only those of
    the context are.
    """
    if not row_filter and not by_size:
        return fold_rows(rows, folds) if folds else range(len(rows))
    tool = find_tool_number(marker.context.facts, row_filter.tool) if row_filter.tool else -1
    found = [
        row
        for row in _find_candidates(rows, marker, row_filter)
        if _matches_filter(rows, marker, row_filter, tool, row)
    ]
    if by_size:
        found = [
            row for row in found if rows.block[row] >= WHOLE_MESSAGE and marker.find_position(rows.message[row]) >= 0
        ]
        found.sort(key=lambda row: (-count_shown_tokens(rows, marker, row), row))
    return array("l", found)


def is_listed(listed: Sequence[int], row: int) -> bool:
    """Whether a row is listed, or a turn that is folded stands for it: whether no filter and no order leaves it out."""
    return not isinstance(listed, array) or row in listed


def fold_rows(rows: TimelineRows, folds: TurnFolds) -> Spans:
    """All rows but those of folded turns, of which only the heads are left, and where another context begins."""
    begins = [row for row, event in rows.iterate_event_rows() if event.begins_context]
    spans: list[range] = [range(rows.heads[0])] if rows.heads else []
    for turn in range(len(rows.heads)):
        span = rows.get_turn_rows(turn)
        if rows.get_turn_number(turn) in folds:
            within = begins[bisect_left(begins, span.start) : bisect_left(begins, span.stop)]
            spans += [range(row, row + 1) for row in (span.start, *within)]
        elif spans and spans[-1].stop == span.start:
            spans[-1] = range(spans[-1].start, span.stop)
        else:
            spans.append(span)
    return Spans(*spans)


def find_line(listed: Sequence[int], row: int) -> int:
    """The line of a row, or of the nearest that is listed: for a row that is folded away, of the last one above it."""
    if not isinstance(listed, array):
        return max(bisect_right(listed, row) - 1, 0)
    if row in listed:
        return listed.index(row)
    return min(range(len(listed)), key=lambda line: abs(listed[line] - row), default=0)  # they may be sorted by size


def _find_candidates(rows: TimelineRows, marker: RowMarker, row_filter: RowFilter) -> list[int] | range:
    """The rows that are looked at: all, or those that the plan changes where only these can match."""
    plan = marker.plan
    if plan and row_filter.verdict in ACTION_PAST_TENSE.values() and not plan.dropped_ranges:
        facts = plan.context.facts
        changed = [b for b, change in plan.changes.items() if ACTION_PAST_TENSE[change.action] == row_filter.verdict]
        places = ((facts.block_message[b], b if facts.kind[b] == Kind.TOOL_RESULT else WHOLE_MESSAGE) for b in changed)
        return sorted({rows.find_row(message, block) for message, block in places})
    return range(len(rows))


def _matches_filter(rows: TimelineRows, marker: RowMarker, row_filter: RowFilter, tool_number: int, row: int) -> bool:
    """Whether a row meets a filter, whose tool has this number."""
    message, block, facts = rows.message[row], rows.block[row], marker.context.facts
    if block < WHOLE_MESSAGE or (
        row_filter.min_tokens and count_shown_tokens(rows, marker, row) < row_filter.min_tokens
    ):
        return False
    if row_filter.in_context and marker.find_position(message) < 0:
        return False
    if row_filter.category or row_filter.tool or row_filter.path:
        kinds, tools = find_row_traits(facts, message, block, row_filter.path)
        if row_filter.category and not kinds & get_kind_bit(row_filter.category):
            return False
        if (row_filter.path and not tools) or (row_filter.tool and tool_number not in tools):
            return False
    return not row_filter.verdict or marker.find_mark(message, block).verdict == row_filter.verdict


def count_shown_tokens(rows: TimelineRows, marker: RowMarker, row: int) -> int:
    """Tokens of a row as it stands in the context; outside of it, as it was recorded."""
    block, context = rows.block[row], marker.context
    if block >= 0 and block in context.replacements and marker.find_position(rows.message[row]) >= 0:
        return rows.token_table.block_tokens(context, block) if rows.token_table else context.replacements[block].tokens
    return rows.tokens[row]
