"""Which rows are listed, and in which order: what the timeline folds, filters and sorts. Pure.

What is listed in the order of the session takes no room for each row; rows that a filter chose or that are sorted are
an array.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from context_tui.compaction.verdicts import PAST
from context_tui.session.facts import Kind
from context_tui.session.spans import Spans
from context_tui.tokens.breakdown import category_of
from context_tui.tui.filters import Filter
from context_tui.tui.folds import NONE, Folds
from context_tui.tui.marks import Marker
from context_tui.tui.rows import WHOLE, Rows


def listed(rows: Rows, marker: Marker, wanted: Filter, by_size: bool, folds: Folds = NONE) -> Sequence[int]:
    """The rows to list, in order. Filtered or by size no heads are listed, and no folds count; by size only those of
    the context are.
    """
    if not wanted and not by_size:
        return folded(rows, folds) if folds else range(len(rows))
    found = [row for row in _candidates(rows, marker, wanted) if _matches(rows, marker, wanted, row)]
    if by_size:
        found = [row for row in found if rows.block[row] >= WHOLE and marker.position(rows.message[row]) >= 0]
        found.sort(key=lambda row: (-rows.tokens[row], row))
    return array("l", found)


def folded(rows: Rows, folds: Folds) -> Spans:
    """All rows but those of folded turns, of which only the heads are left, and where another context begins."""
    begins = [row for row, event in rows.event_rows() if event.begins_context]
    spans: list[range] = [range(rows.heads[0])] if rows.heads else []
    for turn in range(len(rows.heads)):
        span = rows.span(turn)
        if rows.number(turn) in folds:
            within = begins[bisect_left(begins, span.start) : bisect_left(begins, span.stop)]
            spans += [range(row, row + 1) for row in (span.start, *within)]
        elif spans and spans[-1].stop == span.start:
            spans[-1] = range(spans[-1].start, span.stop)
        else:
            spans.append(span)
    return Spans(*spans)


def line_of(listed: Sequence[int], row: int) -> int:
    """The line of a row, or of the nearest that is listed: for a row that is folded away, of the last one above it."""
    if not isinstance(listed, array):
        return max(bisect_right(listed, row) - 1, 0)
    try:
        return listed.index(row)
    except ValueError:
        return min(bisect_left(listed, row), max(len(listed) - 1, 0))


def _candidates(rows: Rows, marker: Marker, wanted: Filter) -> list[int] | range:
    """The rows that are looked at: all, or those that the plan changes where only these can match."""
    plan = marker.plan
    if plan and wanted.verdict in PAST.values() and not plan.dropped:
        facts = plan.context.facts
        changed = [b for b, change in plan.changes.items() if PAST[change.action] == wanted.verdict]
        places = ((facts.block_message[b], b if facts.kind[b] == Kind.TOOL_RESULT else WHOLE) for b in changed)
        return sorted({rows.row_of(message, block) for message, block in places})
    return range(len(rows))


def _matches(rows: Rows, marker: Marker, wanted: Filter, row: int) -> bool:
    message, block = rows.message[row], rows.block[row]
    if block < WHOLE or rows.tokens[row] < wanted.min_tokens:
        return False
    if wanted.category and not _of_category(marker, message, block, wanted.category):
        return False
    if (wanted.tool or wanted.path) and not _calls(marker, message, block, wanted):
        return False
    return not wanted.verdict or marker.mark(message, block).word == wanted.verdict


def _of_category(marker: Marker, message: int, block: int, category: str) -> bool:
    facts = marker.context.facts
    if block >= 0:
        return category_of(facts, message, block) == category
    blocks = [each for each in facts.blocks_of(message) if facts.kind[each] != Kind.TOOL_RESULT]
    return any(category_of(facts, message, each) == category for each in blocks)


def _calls(marker: Marker, message: int, block: int, wanted: Filter) -> bool:
    """Whether a row is a call of, or a result from, the wanted tool or file."""
    facts = marker.context.facts
    for each in [block] if block >= 0 else facts.blocks_of(message):
        if facts.call[each] < 0 or (block < 0 and facts.kind[each] != Kind.TOOL_USE):
            continue
        use = facts.call_use[facts.call[each]]
        path = facts.path[use] if use >= 0 else -1
        if wanted.tool and facts.tool_name(each) != wanted.tool:
            continue
        if wanted.path and (path < 0 or facts.paths[path] != wanted.path):
            continue
        return True
    return False
