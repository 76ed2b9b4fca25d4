"""What applying a plan did, told on the copy: in words, at each row, and where the message that one was at is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from context_tui.compaction.apply import iterate_result_entries
from context_tui.compaction.next_request import NextRequest, compute_current_size
from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import ACTION_PAST_TENSE
from context_tui.session.session import Session
from context_tui.tokens.context_index import index_context
from context_tui.tui.numbers import format_estimate_sign
from context_tui.tui.text import pluralize
from context_tui.tui.view import AppliedPlan, Location


def describe_applied_plan(plan: Plan, copy: Session, cursor: Location) -> tuple[AppliedPlan, Location]:
    """What *plan* did where *after* came of it, and where a cursor that was at *cursor* is there."""
    left = list(iterate_result_entries(plan))
    order = [each if isinstance(each, int) else -1 for each in left]
    place = {message: index for index, message in enumerate(order) if message >= 0}
    touched = {plan.context.facts.block_message[row] for row in plan.changes}
    marks: dict[int, str] = {}
    for message in touched & place.keys():
        for old, new in _map_rows(plan, copy, message, place[message]).items():
            if old in plan.changes:
                marks[new] = ACTION_PAST_TENSE[plan.changes[old].action]
    told = AppliedPlan(plan.policy, _format_summary(plan, marks, copy), MappingProxyType(marks))
    if cursor.message in place:
        index = place[cursor.message]
        return told, Location(
            index, _map_rows(plan, copy, cursor.message, index).get(cursor.block, min(cursor.block, -1))
        )
    position = index_context(plan.context).position_of.get(cursor.message, -1)
    if plan.find_action(position) == "summarise" and plan.summary_insert in left:
        return told, Location(left.index(plan.summary_insert))
    following = next((at for at, message in enumerate(order) if message > cursor.message), len(order))
    return told, Location(max(following - 1, 0))


def _map_rows(plan: Plan, copy: Session, message: int, index: int) -> dict[int, int]:
    """The rows of a message's blocks, as far as they are still there, and their rows in the copy."""
    left, new = [], copy.facts.blocks_of(index)
    for row in plan.context.facts.blocks_of(message):
        change = plan.changes.get(row)
        body = change.body if change else plan.context.replacements.get(row)
        if body is None or not body.removed:
            left.append(row)
    return dict(zip(left, new, strict=True))


def _format_summary(plan: Plan, marks: Mapping[int, str], copy: Session) -> str:
    """One line: ``next request ~58,592 → ~35,094 tokens, 23 blocks cleared``."""
    did = [f"{pluralize(count, 'block')} {word}" for word, count in Counter(marks.values()).items()]
    if plan.messages_dropped:
        did.append(f"{pluralize(plan.messages_dropped, 'message')} {'summarised' if plan.needs_summary else 'dropped'}")
    before, now = NextRequest(compute_current_size(plan.context)), compute_current_size(copy.context_at()).tokens
    return ", ".join([f"next request {format_estimate_sign(before)}{before.tokens_before:,} → ~{now:,} tokens", *did])
