"""The model calls of a session: its recorded requests, or every reply in a file that records none."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.session.facts import Facts
from context_tui.session.values import BlockFlag, MessageFlag, Role


def iterate_calls(facts: Facts, length: int) -> Iterator[tuple[int, int]]:
    """Return each call before message *length* as the message of its reply and its row in ``requests``, or -1."""
    excluded, inserted = MessageFlag.SUMMARY | MessageFlag.SYNTHETIC | MessageFlag.NOT_SENT, find_inserted(facts)
    unmarked = (message for message in range(length) if not facts.flags[message] & excluded)
    replies = (message for message in unmarked if facts.role[message] == Role.ASSISTANT and message not in inserted)
    requests = ((message, row) for row, message in enumerate(facts.request_message))
    return requests if facts.request_message else ((message, -1) for message in replies)


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
