"""How many messages and turns a context has, and the turns of which it has only a part. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag
from context_tui.tokens.context_index import index_context
from context_tui.tui.text import plural
from context_tui.tui.turns import spans_of


class Counts(NamedTuple):
    """Messages, turns that begin in a context, and the numbers of those of which it has only what came later."""

    messages: int
    turns: int
    parts: tuple[int, ...] = ()


def within_text(here: Counts, messages: int, turns: int, room: int) -> str:
    """How much of the *messages* and *turns* of a file is in the context, in *room* cells where that can be."""
    some, all_turns = of(here.messages, messages, "message"), of(here.turns, turns, "turn")
    forms = [f"in context: {some}, {all_turns}", f"in context: {some}", plural(here.messages, "message")]
    if parts := len(here.parts):
        forms.insert(0, f"{forms[0]} + part of {f'turn {here.parts[0]:,}' if parts == 1 else f'{parts:,} more'}")
    return next((form for form in forms if len(form) <= room), forms[-1])


def of(count: int, total: int, what: str) -> str:
    """So many of all; where these are the same, how many."""
    return plural(count, what) if count == total else f"{count:,} of {plural(total, what)}"


def turn_starts(session: Session) -> list[int]:
    """The messages that turns begin with."""
    flags, start = session.facts.flags, int(MessageFlag.TURN_START)
    return [message for message in range(session.length) if flags[message] & start]


def counts_of(context: Context, starts: Sequence[int]) -> Counts:
    """The counts of a context of a session whose turns begin at *starts*."""
    begun = {context.order[position] for position in index_context(context).turn_starts}
    turns = (bisect_right(starts, each.start) for each in spans_of(context).ranges)
    parts = dict.fromkeys(turn for turn in turns if turn and starts[turn - 1] not in begun)
    return Counts(len(context), len(begun), tuple(parts))
