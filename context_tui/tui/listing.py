"""Which rows are listed, and in which order: what the timeline folds, filters and sorts. Pure.

What is listed in the order of the session takes no room for each row; rows that a filter chose or that are sorted are
an array.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from context_tui.compaction.verdicts import PAST
from context_tui.session.values import Kind, Spans
from context_tui.tui.filters import Filter, bit, number_of, traits_of
from context_tui.tui.folds import NONE, Folds
from context_tui.tui.marks import Marker
from context_tui.tui.rows import WHOLE, Rows


def listed(rows: Rows, marker: Marker, wanted: Filter, by_size: bool, folds: Folds = NONE) -> Sequence[int]:
    """The rows to list, in order. Filtered or by size no heads are listed, and no folds count; by size only those of
    the context are.
    """
    if not wanted and not by_size:
        return folded(rows, folds) if folds else range(len(rows))
    tool = number_of(marker.context.facts, wanted.tool) if wanted.tool else -1
    found = [row for row in _candidates(rows, marker, wanted) if _matches(rows, marker, wanted, tool, row)]
    if by_size:
        found = [row for row in found if rows.block[row] >= WHOLE and marker.position(rows.message[row]) >= 0]
        found.sort(key=lambda row: (-shown_tokens(rows, marker, row), row))
    return array("l", found)


def is_listed(listed: Sequence[int], row: int) -> bool:
    """Whether a row is listed, or a turn that is folded stands for it: whether no filter and no order leaves it out."""
    return not isinstance(listed, array) or row in listed


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
    if row in listed:
        return listed.index(row)
    return min(range(len(listed)), key=lambda line: abs(listed[line] - row), default=0)  # they may be sorted by size


def _candidates(rows: Rows, marker: Marker, wanted: Filter) -> list[int] | range:
    """The rows that are looked at: all, or those that the plan changes where only these can match."""
    plan = marker.plan
    if plan and wanted.verdict in PAST.values() and not plan.dropped:
        facts = plan.context.facts
        changed = [b for b, change in plan.changes.items() if PAST[change.action] == wanted.verdict]
        places = ((facts.block_message[b], b if facts.kind[b] == Kind.TOOL_RESULT else WHOLE) for b in changed)
        return sorted({rows.row_of(message, block) for message, block in places})
    return range(len(rows))


def _matches(rows: Rows, marker: Marker, wanted: Filter, tool: int, row: int) -> bool:
    """Whether a row meets a filter, whose tool has this number."""
    message, block, facts = rows.message[row], rows.block[row], marker.context.facts
    if block < WHOLE or (wanted.min_tokens and shown_tokens(rows, marker, row) < wanted.min_tokens):
        return False
    if wanted.in_context and marker.position(message) < 0:
        return False
    if wanted.category or wanted.tool or wanted.path:
        kinds, tools = traits_of(facts, message, block, wanted.path)
        if wanted.category and not kinds & bit(wanted.category):
            return False
        if (wanted.path and not tools) or (wanted.tool and tool not in tools):
            return False
    return not wanted.verdict or marker.mark(message, block).word == wanted.verdict


def shown_tokens(rows: Rows, marker: Marker, row: int) -> int:
    """Tokens of a row as it stands in the context; outside of it, as it was recorded."""
    block, context = rows.block[row], marker.context
    if block >= 0 and block in context.replacements and marker.position(rows.message[row]) >= 0:
        return rows.sizes.block_tokens(context, block) if rows.sizes else context.replacements[block].tokens
    return rows.tokens[row]
