"""What was recorded about the request that a message was the reply to."""

from __future__ import annotations

import time
from bisect import bisect_left

from context_tui.session.session import Session
from context_tui.tui.view import Location


def describe_request(session: Session, location: Location) -> str:
    """When a message was written, and the recorded usage of the request that ended at it; empty where neither is."""
    facts, parts = session.facts, []
    if location.message < len(facts.time) and facts.time[location.message] > 0:
        parts.append(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.time[location.message] / 1000)))
    row = bisect_left(facts.request_message, location.message)
    if location.block < 0 and row < len(facts.request_message) and facts.request_message[row] == location.message:
        usage = facts.requests[row]
        written = usage.cache_write_5m + usage.cache_write_1h
        cached = f"{usage.cache_read:,} from the cache, {written:,} written to it"
        parts.append(f"recorded: {usage.context:,} tokens in ({cached})")
        if usage.output_trusted:
            parts.append(f"{usage.output:,} out")
    return ", ".join(parts)
