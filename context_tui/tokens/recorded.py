"""What the file itself says about size: recorded context, and what is not in the file.

Recorded, estimated and not-in-file numbers are kept apart: differences are taken between numbers of one point only.
"""

from __future__ import annotations

from bisect import bisect_left

from context_tui.session.context import Context, context_at, memoize
from context_tui.session.facts import Facts, MessageFlag, Role, Usage
from context_tui.tokens.estimators import bytes_to_tokens
from context_tui.tokens.measured import index_context


def find_last_request(context: Context) -> int:
    """Row of the last request before the context's point whose size still holds, or -1.

    It is never from before the epoch, nor from before a microcompaction: both forget the baseline (system 2).
    """
    return find_request_before(context.facts, context.at, max(context.epoch_start, context.last_rewrite))


def find_request_before(facts: Facts, at: int, floor: int) -> int:
    """Row of the last request before message *at*, or -1 where that ended before message *floor*."""
    row = bisect_left(facts.request_message, at) - 1
    return row if row >= 0 and facts.request_message[row] >= floor else -1


def find_last_usage(context: Context) -> Usage | None:
    """The usage of the last request at or before the point, never from before a compaction."""
    row = find_last_request(context)
    return context.facts.requests[row] if row >= 0 else None


def estimate_prompt(facts: Facts) -> int:
    """Estimated tokens of the system prompt and the tool schemas, as far as they are in the file."""
    return bytes_to_tokens(facts.system_bytes) + bytes_to_tokens(facts.tools_bytes)


@memoize
def compute_not_in_file(context: Context) -> int | None:
    """Tokens of the session's first request that are not in the file: recorded - estimated.

    None where that is not positive, or where there is no request before the point of *context*. In a copy nothing is
    recorded: it has what the last request of the session had that it was made of, which is negative where that was less
    than the estimate.
    """
    facts = context.facts
    if facts.not_in_file is not None:
        return facts.not_in_file
    if not facts.requests or facts.request_message[0] >= context.at:
        return None
    first = context_at(facts, facts.request_message[0])
    hidden = facts.requests[0].context - index_context(first).total - estimate_prompt(facts)
    return hidden if hidden > 0 else None


@memoize
def compute_prompt_not_in_file(context: Context) -> int | None:
    """Of what is not in the file, the part that stands for a system prompt and tools.

    None where the first request that is recorded comes behind several that are not: what it has more than the estimate
    is the error of that, too, and nobody knows how much of it.
    """
    facts = context.facts
    if facts.not_in_file is not None:
        return facts.prompt_not_in_file
    hidden = compute_not_in_file(context)
    return None if hidden is None or _count_replies_before(facts) > 1 else hidden


def _count_replies_before(facts: Facts) -> int:
    """How many replies the context of the first recorded request holds."""
    first, silent = context_at(facts, facts.request_message[0]), MessageFlag.SYNTHETIC
    return sum(facts.role[at] == Role.ASSISTANT and not facts.flags[at] & silent for at in first.order)
