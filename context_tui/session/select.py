"""Facts without some of their messages, for branches that were left."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from dataclasses import replace

from context_tui.session.facts import Facts, Role
from context_tui.session.spans import Spans


def without_messages(facts: Facts, gone: Collection[int]) -> Facts:
    """New facts without the messages *gone*; their records stay accounted for as message records."""
    kept = [message for message in range(len(facts)) if message not in gone]
    number = {message: index for index, message in enumerate(kept)}
    block_number: dict[int, int] = {}
    found = Facts()
    for message in kept:
        index = found.add_message(Role(facts.role[message]), facts.flags[message], facts.time[message])
        found.ended[index] = facts.ended[message]
        for block in facts.blocks_of(message):
            block_number[block] = found.copy_block(index, facts, block)
    for row, message in enumerate(facts.record_message):
        place, length, kind = facts.record_place[row], facts.record_length[row], facts.record_kind[row]
        found.add_record(place, length, kind, number.get(message, -1))
    for row, message in enumerate(facts.request_message):
        if message in number:
            found.model = facts.models[facts.request_model[row]] if facts.request_model[row] >= 0 else None
            found.add_request(number[message], facts.requests[row], facts.request_time[row])
    found.cache_misses = {number[reply]: why for reply, why in facts.cache_misses.items() if reply in number}
    found.problems = facts.problems
    found.shared_rows = facts.shared_rows  # what is kept of such a record does not depend on who has the rest
    for message, row in facts.shared.items():
        if message in number:
            found.shared[number[message]] = row

    def moved(message: int) -> int:
        return bisect_left(kept, message)

    end = kept[-1] + 1 if kept else 0
    clears = deque(epoch.message for epoch in facts.epochs if epoch.cause == "clear" and epoch.message < end)
    for compaction in facts.compactions:
        if compaction.message > end or (compaction.kind == "full" and compaction.message not in number):
            continue  # it was on what is gone
        while clears and clears[0] < compaction.message:
            found.begin_epoch(moved(clears.popleft()), "clear")
        cleared = frozenset(block_number[row] for row in compaction.cleared if row in block_number)
        prefix = Spans(*(range(moved(each.start), moved(each.stop)) for each in compaction.prefix.ranges))
        at = moved(compaction.message)
        found.add_compaction(replace(compaction, message=at, prefix=prefix, cleared=cleared))
    for message in clears:
        found.begin_epoch(moved(message), "clear")
    found.model, found.window = facts.model, facts.window
    found.input_includes_cache = facts.input_includes_cache
    found.system_rows = facts.system_rows
    found.system_bytes, found.tools_bytes = facts.system_bytes, facts.tools_bytes
    return found
