"""What a runtime knows at the moment it looks: what it believes its size to be, what was recorded, how long it idled."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from context_tui.session.context import Context
from context_tui.session.facts import Facts, Role, Usage
from context_tui.session.window import Window
from context_tui.tokens.measured import measured


@dataclass(frozen=True)
class Moment:
    """The moment before message ``at``: tokens, and seconds since the last assistant message (None: not known).

    ``believed`` is baseline plus delta (system 2); ``recorded`` the usage of the last request of this epoch, if any;
    ``at_end`` says that the recording ends here, which counts as idle; ``input_includes_cache`` that a runtime is told
    cached tokens as input tokens too; ``forced`` that a plan is wanted whatever the trigger says.
    """

    at: int
    believed: int
    recorded: Usage | None
    idle_seconds: float | None
    at_end: bool
    has_assistant: bool
    window: Window
    input_includes_cache: bool = False
    forced: bool = False


def last_request(context: Context, before: int | None = None) -> int:
    """Row of the last request of the context's epoch that ended before message *before* (default: its point), or -1."""
    facts = context.facts
    end = context.at if before is None else before
    row = bisect_right(facts.request_message, end - 1) - 1
    return row if row >= 0 and facts.request_message[row] >= context.epoch_start else -1


def believed_at(context: Context, position: int, request: int) -> int:
    """Baseline plus delta before *position* of the context, with the usage of *request* (-1: none) as the baseline."""
    sums = measured(context)
    if request < 0:
        return sums.prefix[position]
    reply = sums.position_of.get(context.facts.request_message[request])
    if reply is None or reply > position:
        return sums.prefix[position]
    return context.facts.requests[request].context + sums.prefix[position] - sums.prefix[reply]


def idle_at(facts: Facts, context: Context, length: int) -> tuple[float | None, bool]:
    """Seconds between the last assistant message of the context and message ``at``; and whether the recording ends."""
    if context.at >= length:
        return None, True
    for message in reversed(context.order):
        if facts.role[message] == Role.ASSISTANT:
            before, after = facts.time[message], facts.time[context.at]
            return ((after - before) / 1000 if before >= 0 and after >= 0 else None), False
    return None, False


def moment_of(
    context: Context, window: Window, length: int, idle_seconds: float | None = None, forced: bool = False
) -> Moment:
    """The moment at the context's point, in a session of *length* messages."""
    facts = context.facts
    request = last_request(context)
    idle, at_end = idle_at(facts, context, length)
    if idle_seconds is not None:
        idle, at_end = idle_seconds, False
    return Moment(
        at=context.at,
        believed=believed_at(context, len(context), request),
        recorded=facts.requests[request] if request >= 0 else None,
        idle_seconds=idle,
        at_end=at_end,
        has_assistant=any(facts.role[message] == Role.ASSISTANT for message in context.order),
        window=window,
        input_includes_cache=facts.input_includes_cache,
        forced=forced,
    )


def assistant_runs(facts: Facts, length: int) -> list[int]:
    """Messages before which a runtime called its model: every assistant message, ascending."""
    return [message for message in range(length) if facts.role[message] == Role.ASSISTANT]


def gaps(facts: Facts, length: int) -> list[tuple[int, float]]:
    """Every (message, idle seconds) at which a user message follows an assistant one."""
    return [
        (after, (facts.time[after] - facts.time[before]) / 1000)
        for before, after in pairwise(range(length))
        if facts.role[before] == Role.ASSISTANT and facts.role[after] == Role.USER
        if facts.time[before] >= 0 and facts.time[after] >= 0
    ]
