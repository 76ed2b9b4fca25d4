"""Which rows are listed, and in which order: the filter and the sorting of the timeline. Pure."""

from __future__ import annotations

from array import array

from context_tui.compaction.verdicts import PAST
from context_tui.session.facts import Kind
from context_tui.tokens.breakdown import category_of
from context_tui.tui.filters import Filter
from context_tui.tui.marks import Marker
from context_tui.tui.rows import WHOLE, Rows


def listed(rows: Rows, marker: Marker, wanted: Filter, by_size: bool) -> array[int] | None:
    """The rows to list, in order; None for all of them in file order. By size only those of the context are listed."""
    if not wanted and not by_size:
        return None
    found = [row for row in _candidates(rows, marker, wanted) if _matches(rows, marker, wanted, row)]
    if by_size:
        found = [row for row in found if rows.block[row] >= WHOLE and marker.position(rows.message[row]) >= 0]
        found.sort(key=lambda row: (-rows.tokens[row], row))
    return array("l", found)


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
