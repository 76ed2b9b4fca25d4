"""How many messages and turns a context has, and the turns of which it has only a part. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag
from context_tui.tokens.context_index import index_context
from context_tui.tui.text import pluralize
from context_tui.tui.turns import compute_message_spans


class ContextCounts(NamedTuple):
    """Messages, turns that begin in a context, and the numbers of those of which it has only what came later."""

    messages: int
    turns: int
    partial_turns: tuple[int, ...] = ()


def format_context_counts(counts: ContextCounts, messages: int, turns: int, width: int) -> str:
    """How much of the *messages* and *turns* of a file is in the context, in *room* cells where that can be."""
    some, all_turns = (
        format_fraction(counts.messages, messages, "message"),
        format_fraction(counts.turns, turns, "turn"),
    )
    forms = [f"in context: {some}, {all_turns}", f"in context: {some}", pluralize(counts.messages, "message")]
    if parts := len(counts.partial_turns):
        forms.insert(
            0, f"{forms[0]} + part of {f'turn {counts.partial_turns[0]:,}' if parts == 1 else f'{parts:,} more'}"
        )
    return next((form for form in forms if len(form) <= width), forms[-1])


def format_fraction(count: int, total: int, noun: str) -> str:
    """So many of all; where these are the same, how many."""
    return pluralize(count, noun) if count == total else f"{count:,} of {pluralize(total, noun)}"


def find_turn_starts(session: Session) -> list[int]:
    """The messages that turns begin with."""
    flags, start = session.facts.flags, int(MessageFlag.TURN_START)
    return [message for message in range(session.length) if flags[message] & start]


def count_context(context: Context, starts: Sequence[int]) -> ContextCounts:
    """The counts of a context of a session whose turns begin at *starts*."""
    begun = {context.order[position] for position in index_context(context).turn_starts}
    turns = (bisect_right(starts, each.start) for each in compute_message_spans(context).ranges)
    parts = dict.fromkeys(turn for turn in turns if turn and starts[turn - 1] not in begun)
    return ContextCounts(len(context), len(begun), tuple(parts))
