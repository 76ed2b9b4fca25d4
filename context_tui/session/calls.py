"""The model calls of a session: its recorded requests, or every reply in a file that records none."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.session.facts import Facts
from context_tui.session.values import BlockFlag, MessageFlag, Role


def iterate_calls(facts: Facts, length: int) -> Iterator[tuple[int, int]]:
    """Yield the reply to each model call before message *length*, and the call's row in ``requests``, or -1 if none."""
    if facts.request_message:
        yield from ((message, row) for row, message in enumerate(facts.request_message))
        return
    excluded, inserted = MessageFlag.SUMMARY | MessageFlag.SYNTHETIC | MessageFlag.NOT_SENT, find_inserted(facts)
    for message in range(length):
        is_reply = facts.role[message] == Role.ASSISTANT and not facts.flags[message] & excluded
        if is_reply and message not in inserted:
            yield message, -1


def find_inserted(facts: Facts) -> frozenset[int]:
    """Return the messages that recorded compactions inserted: summaries, and hints to continue."""
    epochs = (epoch for epoch in facts.epochs if epoch.cause == "compaction" and epoch.message)
    return frozenset(
        message
        for epoch in epochs
        if _is_inserted(facts, epoch.message)  # not the first message after a truncation
        for message in range(epoch.message, epoch.start)
    )


def _is_inserted(facts: Facts, message: int) -> bool:
    injected = (facts.block_flags[row] & BlockFlag.INJECTED for row in facts.blocks_of(message))
    return bool(facts.flags[message] & MessageFlag.SUMMARY) or all(injected)
