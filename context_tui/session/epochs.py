"""Where contexts begin and what they hold, before what was inferred: the parts that a context is put together from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from context_tui.session.facts import Epoch, Facts, MessageFlag


def epoch_at(facts: Facts, at: int) -> Epoch:
    """The epoch that the context before message *at* belongs to. One begins with its first message, not before it."""
    row = bisect_left(facts.epochs, at, key=lambda epoch: epoch.message) - 1
    while row >= 0 and facts.epochs[row].start > at:
        row -= 1
    return facts.epochs[row] if row >= 0 else Epoch(0, "start")


def order_at(facts: Facts, at: int) -> tuple[Epoch, Sequence[int]]:
    """The epoch before message *at*, and the messages of its context in prompt order."""
    epoch = epoch_at(facts, at)
    order: Sequence[int] = range(epoch.start, at)
    if epoch.prefix:
        order = [*epoch.prefix, *order]
    flags, unsent = facts.flags, MessageFlag.NOT_SENT
    if any(flags[message] & unsent for message in order):
        order = [message for message in order if not flags[message] & unsent]
    return epoch, order


def find_last_rewrite(facts: Facts, at: int) -> int:
    """The message before which a recorded microcompaction last cleared something, up to message *at*; 0: never."""
    row = bisect_right(facts.rewrites, at) - 1
    return facts.rewrites[row] if row >= 0 else 0
