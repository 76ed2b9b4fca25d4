"""Size of a context as recorded, and as baseline plus delta (system 2 of the seed systems)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context, context_at, memoize
from context_tui.session.facts import Facts, Usage, prompt_row_at
from context_tui.session.memory import build_facts
from context_tui.session.values import BlockFlag, MessageFlag, Role
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import Estimator, bytes4, count_message_tokens


def find_last_request(context: Context) -> int:
    """Return the row of the last request before the context's point whose size still holds, or -1.

    A request from before the epoch, or before a microcompaction, does not count: both reset the baseline (system 2).
    """
    return find_request_before(context.facts, context.at, max(context.epoch_start, context.last_rewrite))


def find_request_before(facts: Facts, at: int, floor: int) -> int:
    """Return the row of the last request before message *at* whose reply is sent; -1 if it ended before *floor*."""
    row = bisect_left(facts.request_message, at) - 1
    while row >= 0 and facts.flags[facts.request_message[row]] & MessageFlag.NOT_SENT:
        row -= 1  # runtimes forget the size of a reply that they leave out
    return row if row >= 0 and facts.request_message[row] >= floor else -1


def find_last_usage(context: Context) -> Usage | None:
    """Return the usage of the last request at or before the point, never from before a compaction."""
    row = find_last_request(context)
    return context.facts.requests[row] if row >= 0 else None


def estimate_prompt(facts: Facts, at: int | None = None) -> int:
    """Estimate the tokens of the system prompt and the tool schemas, as far as they are in the file.

    Args:
        at: those of the request before this message; default: the newest.
    """
    return sum(estimate_prompt_parts(facts, at))


def estimate_prompt_parts(facts: Facts, at: int | None = None) -> tuple[int, int]:
    """Estimate the tokens of the system prompt and of the tool schemas, as :func:`estimate_prompt` adds them."""
    row = -1 if at is None else prompt_row_at(facts, at)
    if row in (-1, len(facts.prompts) - 1) or not facts.prompts:
        return bytes_to_tokens(facts.system_bytes), bytes_to_tokens(facts.tools_bytes)
    system, tools = (
        sum(part.size for part in parts) for parts in (facts.prompts[row].system, facts.prompts[row].tools)
    )
    return bytes_to_tokens(system), bytes_to_tokens(tools)


def find_standing_blocks(facts: Facts) -> list[int]:
    """Return the rows of the blocks that the agent inserted before anything was typed.

    Instructions, project files and the environment: an agent inserts them anew into every context, so that no policy
    can remove them.
    """
    blocks = list[int]()
    for message in range(len(facts)):
        rows = [*facts.blocks_of(message)]
        injected = [row for row in rows if facts.block_flags[row] & BlockFlag.INJECTED]
        if facts.role[message] == Role.ASSISTANT:
            break
        blocks += injected
        if len(injected) < len(rows):
            break
    return blocks


@memoize
def compute_not_in_file(context: Context) -> int | None:
    """Return the tokens of the session's first request that are not in the file: recorded − estimated.

    None if that is not positive, if the file holds whole requests, or if no request precedes the point of *context*.
    A copy has no recorded requests; it
    keeps the difference at the last request of its original, which is negative if the estimate is larger.
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
    """Return the part of the content outside the file that is a system prompt and tools.

    None if several requests before the first recorded one are missing: the difference then includes the error of their
    estimate.
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
    """Tokens of a context: ``recorded`` of its last request (None: none recorded), and ``estimated`` (``bytes/4``)
    of what was appended since, or of the whole context without a recorded request.
    """

    recorded: int | None
    estimated: int

    @property
    def tokens(self) -> int:
        """Baseline and delta together."""
        return (self.recorded or 0) + self.estimated


def compute_believed_size(context: Context) -> BelievedSize:
    """Compute the size that a counting runtime believes *context* to have (system 2 of the seed systems).

    The reply of the last request is the first message that counts as appended. :meth:`RunningSizes.believed_size`
    computes the same at one point after another.
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
    """Size that a runtime believes its context to have: the last recorded size plus an estimate of what followed.

    Without a recorded size it is the estimate of all messages; an empty history without one has no estimate.
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
        """Set the recorded size of the request just made; its reply will be the first message of the delta."""
        self._baseline, self._delta = input_tokens, 0

    def replace(self, messages: list[dict[str, Any]]) -> None:
        """Replace the whole history; the baseline is reset."""
        self._tokens = [estimate_message(message) for message in messages]
        self._forget()

    def splice(self, drop_count: int, summary: dict[str, Any] | str) -> None:
        """Replace up to *drop_count* messages at the front by the summary; the baseline is reset."""
        message = {"role": "assistant", "content": summary} if isinstance(summary, str) else summary
        self._tokens[: min(drop_count, len(self._tokens))] = [estimate_message(message)]
        self._forget()

    def truncate(self, length: int) -> None:
        """Keep the first *length* messages; no change if there are no more."""
        if length < len(self._tokens):
            del self._tokens[length:]
            self._forget()

    def _forget(self) -> None:
        self._baseline, self._delta = None, 0
