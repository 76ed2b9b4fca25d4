"""Facts without some of their messages, for branches that were left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from context_tui.session.facts import Facts, Role


def without_messages(facts: Facts, gone: Collection[int]) -> Facts:
    """New facts without the messages *gone*; their records stay accounted for as message records."""
    kept = [message for message in range(len(facts)) if message not in gone]
    number = {message: index for index, message in enumerate(kept)}
    found = Facts()
    for message in kept:
        index = found.add_message(Role(facts.role[message]), facts.flags[message], facts.time[message])
        for block in facts.blocks_of(message):
            found.copy_block(index, facts, block)
    for row, message in enumerate(facts.record_message):
        place, length, kind = facts.record_place[row], facts.record_length[row], facts.record_kind[row]
        found.add_record(place, length, kind, number.get(message, -1))
    for row, message in enumerate(facts.request_message):
        if message in number:
            found.add_request(number[message], facts.requests[row], facts.request_time[row])
    found.problems = facts.problems
    for compaction in facts.compactions:
        at = next((number[m] for m in range(compaction.message, len(facts)) if m in number), len(kept))
        prefix = tuple(number[message] for message in compaction.prefix if message in number)
        found.compactions.append(replace(compaction, message=at, prefix=prefix))
    found.model, found.window = facts.model, facts.window
    found.input_includes_cache = facts.input_includes_cache
    found.system_rows = facts.system_rows
    found.system_bytes, found.tools_bytes = facts.system_bytes, facts.tools_bytes
    return found
