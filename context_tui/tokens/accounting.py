"""Size of a context as recorded, and as baseline plus delta (system 2 of the seed systems)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context, context_at, memoize
from context_tui.session.facts import Facts, Usage, prompt_row_at
from context_tui.session.memory import build_facts
from context_tui.session.values import MessageFlag, Role
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import Estimator, bytes4, count_message_tokens


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
    """Return the usage of the last request at or before the point, never from before a compaction."""
    row = find_last_request(context)
    return context.facts.requests[row] if row >= 0 else None


def estimate_prompt(facts: Facts, at: int | None = None) -> int:
    """Estimated tokens of the system prompt and the tool schemas, as far as they are in the file: the newest, or those
    of a request that ends before message *at*.
    """
    return sum(estimate_prompt_parts(facts, at))


def estimate_prompt_parts(facts: Facts, at: int | None = None) -> tuple[int, int]:
    """Estimated tokens of the system prompt, and of the tool schemas, as :func:`estimate_prompt` adds them."""
    row = -1 if at is None else prompt_row_at(facts, at)
    if row in (-1, len(facts.prompts) - 1) or not facts.prompts:
        return bytes_to_tokens(facts.system_bytes), bytes_to_tokens(facts.tools_bytes)
    system, tools = (
        sum(part.size for part in parts) for parts in (facts.prompts[row].system, facts.prompts[row].tools)
    )
    return bytes_to_tokens(system), bytes_to_tokens(tools)


@memoize
def compute_not_in_file(context: Context) -> int | None:
    """Tokens of the session's first request that are not in the file: recorded - estimated.

    None where that is not positive, where the file holds whole requests, or where there is no request before the point
    of *context*. In a copy nothing is
    recorded: it has what the last request of the session had that it was made of, which is negative where that was less
    than the estimate.
    """
    facts = context.facts
    if facts.not_in_file is not None:
        return facts.not_in_file
    if facts.holds_requests or not facts.requests or facts.request_message[0] >= context.at:
        return None
    first = context_at(facts, facts.request_message[0])
    hidden = facts.requests[0].context - index_context(first).total - estimate_prompt(facts, first.at)
    return hidden if hidden > 0 else None


@memoize
def compute_prompt_not_in_file(context: Context) -> int | None:
    """Compute the part of the content outside the file that is a system prompt and tools.

    None where the first request that is recorded comes behind several that are not: what it has more than the estimate
    is the error of that, too, and nobody knows how much of it.
    """
    facts = context.facts
    if facts.not_in_file is not None:
        return facts.prompt_not_in_file
    hidden = compute_not_in_file(context)
    return None if hidden is None or _count_replies_before(facts) > 1 else hidden


def _count_replies_before(facts: Facts) -> int:
    """Count the replies in the context of the first recorded request."""
    first, silent = context_at(facts, facts.request_message[0]), MessageFlag.SYNTHETIC
    return sum(facts.role[at] == Role.ASSISTANT and not facts.flags[at] & silent for at in first.order)


class BelievedSize(NamedTuple):
    """Tokens of a context: ``recorded`` of its last request (None: nothing was recorded in it), and ``estimated`` of
    what was appended since (``bytes/4``), or of all of it where nothing was recorded.
    """

    recorded: int | None
    estimated: int

    @property
    def tokens(self) -> int:
        """Baseline and delta together."""
        return (self.recorded or 0) + self.estimated


def compute_believed_size(context: Context) -> BelievedSize:
    """Compute the size that a counting runtime believes *context* to have (system 2 of the seed systems).

    The reply of the last request is the first that counts as appended. :meth:`RunningSizes.believed` says the same at
    one point after another.
    """
    sums, request = index_context(context), find_last_request(context)
    reply = sums.position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        return BelievedSize(None, sums.total)
    return BelievedSize(context.facts.requests[request].context, sums.total - sums.prefix[reply])


def estimate_message(message: dict[str, Any], estimator: Estimator = bytes4) -> int:
    """Tokens of one Anthropic-shaped message."""
    return count_message_tokens(build_facts([message]), 0, estimator)


class History:
    """Size that a runtime believes its context to have: the last recorded one plus an estimate of what followed.

    Without a real count it believes the estimate of all messages; an empty history without one has no estimate.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._baseline: int | None = None
        self._delta = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> int | None:
        """The believed size in tokens; None for an empty history without a real count."""
        if self._baseline is not None:
            return self._baseline + self._delta
        return sum(self._tokens) if self._tokens else None

    def append(self, message: dict[str, Any] | int) -> None:
        """Add a message (or its estimate) to the end; it counts in the delta."""
        tokens = message if isinstance(message, int) else estimate_message(message)
        self._tokens.append(tokens)
        self._delta += tokens

    def record(self, input_tokens: int) -> None:
        """Take the real count of the request just made; its reply will be the first message of the delta."""
        self._baseline, self._delta = input_tokens, 0

    def replace(self, messages: list[dict[str, Any]]) -> None:
        """Put another history in place of this one; the baseline is forgotten."""
        self._tokens = [estimate_message(message) for message in messages]
        self._forget()

    def splice(self, drop_count: int, summary: dict[str, Any] | str) -> None:
        """Drop up to *drop_count* messages from the front and put the summary first; the baseline is forgotten."""
        message = {"role": "assistant", "content": summary} if isinstance(summary, str) else summary
        self._tokens[: min(drop_count, len(self._tokens))] = [estimate_message(message)]
        self._forget()

    def truncate(self, length: int) -> None:
        """Keep the first *length* messages; to the same or a longer length it changes nothing."""
        if length < len(self._tokens):
            del self._tokens[length:]
            self._forget()

    def _forget(self) -> None:
        self._baseline, self._delta = None, 0
