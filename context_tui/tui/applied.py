"""What applying a plan did, told on the copy: in words, at each row, and where the message that one was at is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from context_tui.compaction.apply import order_after
from context_tui.compaction.next_request import NextRequest, size_now
from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import PAST
from context_tui.session.session import Session
from context_tui.tokens.context_index import index_context
from context_tui.tui.numbers import sign
from context_tui.tui.text import plural
from context_tui.tui.view import Applied, Location


def applied(plan: Plan, after: Session, cursor: Location) -> tuple[Applied, Location]:
    """What *plan* did where *after* came of it, and where a cursor that was at *cursor* is there."""
    left = list(order_after(plan))
    order = [each if isinstance(each, int) else -1 for each in left]
    place = {message: index for index, message in enumerate(order) if message >= 0}
    touched = {plan.context.facts.block_message[row] for row in plan.changes}
    marks: dict[int, str] = {}
    for message in touched & place.keys():
        for old, new in _rows(plan, after, message, place[message]).items():
            if old in plan.changes:
                marks[new] = PAST[plan.changes[old].action]
    told = Applied(plan.policy, _summary(plan, marks, after), MappingProxyType(marks))
    if cursor.message in place:
        index = place[cursor.message]
        return told, Location(index, _rows(plan, after, cursor.message, index).get(cursor.block, min(cursor.block, -1)))
    position = index_context(plan.context).position_of.get(cursor.message, -1)
    if plan.action_at(position) == "summarise" and plan.summary in left:
        return told, Location(left.index(plan.summary))
    following = next((at for at, message in enumerate(order) if message > cursor.message), len(order))
    return told, Location(max(following - 1, 0))


def _rows(plan: Plan, after: Session, message: int, index: int) -> dict[int, int]:
    """The rows of a message's blocks, as far as they are still there, and their rows in the copy."""
    left, new = [], after.facts.blocks_of(index)
    for row in plan.context.facts.blocks_of(message):
        change = plan.changes.get(row)
        body = change.body if change else plan.context.replacements.get(row)
        if body is None or not body.removed:
            left.append(row)
    return dict(zip(left, new, strict=True))


def _summary(plan: Plan, marks: Mapping[int, str], after: Session) -> str:
    """One line: ``next request ~58,592 → ~35,094 tokens, 23 blocks cleared``."""
    did = [f"{plural(count, 'block')} {word}" for word, count in Counter(marks.values()).items()]
    if plan.messages_dropped:
        did.append(f"{plural(plan.messages_dropped, 'message')} {'summarised' if plan.summarises else 'dropped'}")
    before, now = NextRequest(size_now(plan.context)), size_now(after.context_at()).tokens
    return ", ".join([f"next request {sign(before)}{before.before:,} → ~{now:,} tokens", *did])
