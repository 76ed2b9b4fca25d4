"""Size of a context as a runtime computes it: a baseline (last recorded size) plus a delta (estimate of the rest)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.facts import Epoch, Facts, Usage, find_prompt_row
from context_tui.session.memory import build_facts
from context_tui.session.token_factors import is_other_conversation
from context_tui.session.values import BlockFlag, MessageFlag, Role
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import Estimator, bytes4, count_message_tokens


def find_last_request(context: Context) -> int:
    """Return the row of the last request whose recorded size still applies to the context, or -1 if none does.

    A new epoch and a microcompaction reset the baseline, so requests before these do not count.
    """
    return find_request_before(context.facts, context.at, max(context.epoch_start, context.last_rewrite))


def find_request_before(facts: Facts, at: int, floor: int) -> int:
    """Return the row of the last request before message *at* with a valid size, or -1 if its reply precedes *floor*."""
    row = bisect_left(facts.request_message, at) - 1
    while row >= 0 and not has_valid_size(facts, row):
        row -= 1  # runtimes forget the size of a reply that they leave out
    return row if row >= 0 and facts.request_message[row] >= floor else -1


def has_valid_size(facts: Facts, row: int) -> bool:
    """Return whether request *row* shows the context's size: it has one and is no side request; its reply was kept."""
    is_sent = not facts.flags[facts.request_message[row]] & MessageFlag.NOT_SENT
    return bool(facts.requests[row].context) and is_sent and not is_other_conversation(facts, row)


def find_last_usage(context: Context) -> Usage | None:
    """Return the usage of the last request whose size still applies (:func:`find_last_request`), or None."""
    row = find_last_request(context)
    return context.facts.requests[row] if row >= 0 else None


def estimate_prompt(facts: Facts, at: int | None = None) -> int:
    """Estimate the tokens in the system prompt and tools of the last request before *at* (default: the newest one)."""
    return sum(estimate_prompt_parts(facts, at))


def estimate_prompt_parts(facts: Facts, at: int | None = None) -> tuple[int, int]:
    """Estimate the same tokens as :func:`estimate_prompt`, but the system prompt and the tool schemas separately."""
    row = -1 if at is None else find_prompt_row(facts, at)
    if row in (-1, len(facts.prompts) - 1) or not facts.prompts:
        return bytes_to_tokens(facts.system_bytes), bytes_to_tokens(facts.tools_bytes)
    prompt = facts.prompts[row]
    system, tools = (bytes_to_tokens(sum(part.size for part in parts)) for parts in (prompt.system, prompt.tools))
    return system, tools


def find_standing_blocks(facts: Facts) -> list[int]:
    """Return the rows of the blocks that the agent inserted before the user's first message.

    An agent inserts such blocks (instructions, project files, the environment) again into every new context, so no
    policy can remove them. If the first compaction after which any of them recur leaves others out, such as the output
    of a hook, the others are ordinary blocks. A compacted copy may have a typed message before such blocks.
    """
    blocks = list[int]()
    for message in range(len(facts)):
        rows = [*facts.blocks_of(message)]
        injected = [row for row in rows if facts.block_flags[row] & BlockFlag.INJECTED]
        if facts.role[message] == Role.ASSISTANT:
            break
        blocks += injected
        if len(injected) < len(rows) and (blocks or facts.size_basis is None):
            break
    sizes = {facts.size[row] for row in blocks}
    contexts = (_list_inserted_sizes(facts, epoch) for epoch in facts.epochs if blocks and epoch.cause == "compaction")
    inserted_again = next((context for context in contexts if context & sizes), sizes)
    return [row for row in blocks if facts.size[row] in inserted_again]


def _list_inserted_sizes(facts: Facts, epoch: Epoch) -> set[int]:
    messages = chain(epoch.prefix, range(epoch.message, min(epoch.start, len(facts))))
    return {facts.size[row] for row in _list_injected(facts, messages)}


def _list_injected(facts: Facts, messages: Iterable[int]) -> list[int]:
    rows = chain.from_iterable(map(facts.blocks_of, messages))
    return [row for row in rows if facts.block_flags[row] & BlockFlag.INJECTED]


def find_fixed_blocks(facts: Facts) -> list[int]:
    """Return the rows of the standing blocks, and of their copies that the agent inserted after compactions.

    A copy is an injected block that a new context begins with and that has the size of a standing block.
    """
    standing = find_standing_blocks(facts)
    sizes = {facts.size[row] for row in standing}
    compactions = (epoch for epoch in facts.epochs if epoch.cause == "compaction") if standing else ()
    starts = chain.from_iterable(range(epoch.message, min(epoch.start, len(facts))) for epoch in compactions)
    again = (row for row in _list_injected(facts, starts) if facts.size[row] in sizes)
    return list(dict.fromkeys((*standing, *again)))


class BelievedSize(NamedTuple):
    """Size of a context in tokens: the last request's ``recorded`` size, and the ``estimated`` size of later content.

    Without a recorded request, ``recorded`` is None and ``estimated`` (``bytes/4``) covers the whole context.
    """

    recorded: int | None
    estimated: int

    @property
    def tokens(self) -> int:
        """Sum of the recorded and the estimated tokens."""
        return (self.recorded or 0) + self.estimated


def compute_believed_size(context: Context) -> BelievedSize:
    """Return the size that a runtime computes for the context, from the last recorded size and an estimate of the rest.

    The estimate begins with the reply to the last request. :meth:`RunningSizes.believed_size` returns the same for
    successive points of a session.
    """
    index, request = index_context(context), find_last_request(context)
    reply = index.position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        return BelievedSize(None, index.total)
    return BelievedSize(context.facts.requests[request].context, index.total - index.prefix[reply])


def estimate_message(message: dict[str, Any], estimator: Estimator = bytes4) -> int:
    """Estimate the tokens in one message in Messages API form."""
    return count_message_tokens(build_facts([message]), 0, estimator)


class History:
    """Running size of a history: the last recorded size (baseline) plus an estimate of later messages (delta).

    Without a recorded size, the size is the estimate of all messages.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._baseline: int | None = None
        self._delta = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> int | None:
        """The believed size in tokens, or None for an empty history without a recorded size."""
        if self._baseline is not None:
            return self._baseline + self._delta
        return sum(self._tokens) if self._tokens else None

    def append(self, message: dict[str, Any] | int) -> None:
        """Append a message, or the estimated tokens of one, to the history, and add its tokens to the delta."""
        tokens = message if isinstance(message, int) else estimate_message(message)
        self._tokens.append(tokens)
        self._delta += tokens

    def record(self, input_tokens: int) -> None:
        """Set the baseline to the recorded size of a request, and the delta to zero."""
        self._baseline, self._delta = input_tokens, 0

    def replace(self, messages: list[dict[str, Any]]) -> None:
        """Replace the whole history with *messages*, and forget the baseline."""
        self._tokens = [estimate_message(message) for message in messages]
        self._baseline = None

    def splice(self, drop_count: int, summary: dict[str, Any] | str) -> None:
        """Replace the first *drop_count* messages, or all if there are fewer, with a summary; forget the baseline."""
        message = {"role": "assistant", "content": summary} if isinstance(summary, str) else summary
        self._tokens[: min(drop_count, len(self._tokens))] = [estimate_message(message)]
        self._baseline = None

    def truncate(self, length: int) -> None:
        """Keep only the first *length* messages, and forget the baseline if that removes any."""
        if length < len(self._tokens):
            del self._tokens[length:]
            self._baseline = None
