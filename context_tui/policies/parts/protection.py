"""Content that a rule protects: recent turns, messages, tokens and tool results, and the start of the context."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import ceil
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from context_tui.compaction.plan import VerdictCode
from context_tui.policies.base import param, token_param
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.trigger_condition import Size
from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.context import Context, memoize
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context


class ProtectedEnd(NamedTuple):
    """A protected end of the context: its first position, and the reason as a code, a template and a number."""

    start: int
    code: VerdictCode
    template: str
    number: float

    @property
    def explanation(self) -> str:
        """The reason as text, with the number filled in."""
        return self.template.format(self.number)


class SizeLimits(NamedTuple):
    """The window and the trigger's limit in tokens, and how the runtime counts the tokens of what it keeps."""

    window: int
    trigger_limit: int
    is_window_known: bool
    size: Size


class Keep(Part):
    """Content that a rule keeps; anything that one of the limits covers is kept.

    At the end of the context: ``turns``, ``messages``, ``tokens``, or a share of the window (``share``), of the
    trigger's limit, of the context's tokens, or of its messages. ``at_least`` and ``at_most`` bound the tokens of a
    share; with ``crossing``, the message that crosses a token limit is also kept. ``share_of_messages`` applies to
    contexts of at least ``from_messages`` messages. With ``results_apart``, each tool result counts as one of the
    ``messages``. If the window is unknown, ``unknown_window`` messages are kept in place of ``share``.

    Among the tool results: the newest ``results`` or ``result_tokens``, of all results or, with ``count = "eligible"``,
    of those that could be cleared. Results are cleared in batches of ``every``.

    At the start: ``first`` messages. Among the removed messages: the newest typed ones, up to ``user_tokens`` and
    ``user_messages``.
    """

    prefix: ClassVar[str] = "keep"

    first: int | None = param(None, "messages at the beginning that are kept", "messages", 0, 100_000)
    turns: int | None = param(None, "turns at the end that are kept", "turns", 1, 1_000)
    messages: int | None = param(None, "messages at the end that are kept", "messages", 0, 100_000)
    results_apart: bool = False
    tokens: int | None = token_param(None, "tokens of messages at the end that are kept")
    share: float | None = param(None, "share of the window kept at the end", "of window", 0.0, 1.0)
    share_of_trigger: float | None = param(None, "share of the trigger's limit kept at the end", "of limit", 0.0, 1.0)
    share_of_context: float | None = param(None, "share of the tokens kept at the end", "of tokens", 0.0, 1.0)
    share_of_messages: float | None = param(None, "share of the messages kept at the end", "of messages", 0.0, 1.0)
    from_messages: int = Field(default=0, ge=0, le=100_000)
    at_least: int | None = token_param(None, "tokens kept at the end at least")
    at_most: int | None = token_param(None, "tokens kept at the end at most")
    crossing: bool = False
    unknown_window: int | None = Field(default=None, ge=0, le=100_000)
    results: int | None = param(None, "newest tool results that are kept", "results", 0, 100_000)
    result_tokens: int | None = token_param(None, "tokens of the newest tool results that are kept")
    count: Literal["all", "eligible"] = "all"
    every: int | None = param(None, "results that are cleared together", "results", 1, 100_000)
    user_tokens: int | None = token_param(None, "tokens of what was typed that are kept")
    user_messages: int | None = param(None, "newest typed messages that are kept", "messages", 0, 1_000)

    def keeps_typed_messages(self) -> bool:
        """Return whether messages that a person typed are kept although the rule removes those around them."""
        return self.user_tokens is not None or self.user_messages is not None

    def find_protected_ends(self, context: Context, limits: SizeLimits) -> list[ProtectedEnd]:
        """Return the protected end of the context for each limit that is set."""
        sums, length = index_context(context), len(context)
        ends: list[ProtectedEnd] = []
        if self.turns is not None:
            starts, turns = sums.turn_starts, self.turns
            start = starts[-turns] if turns <= len(starts) else 0
            ends.append(ProtectedEnd(start, VerdictCode.RECENT_TURN, "within the last {:,} turns", turns))
        if self.messages is not None:
            start = self._find_last_messages(context, self.messages)
            last = "within the last {:,} messages" + (", each result counted as one" if self.results_apart else "")
            ends.append(ProtectedEnd(start, VerdictCode.RECENT_MESSAGE, last, self.messages))
        if self.share_of_messages is not None and length >= self.from_messages:
            share = self.share_of_messages
            start = length - ceil(length * share)
            ends.append(ProtectedEnd(start, VerdictCode.RECENT_MESSAGE, "within the last {:.0%} of messages", share))
        if self.share_of_context is not None:
            share = self.share_of_context
            start = bisect_left(sums.prefix, sums.total * (1 - share) - 1e-6)
            ends.append(ProtectedEnd(start, VerdictCode.TAIL, "within the last {:.0%} of the tokens", share))
        if self.share is not None and self.unknown_window is not None and not limits.is_window_known:
            start = self._find_last_messages(context, self.unknown_window)
            last = "within the last {:,} messages, as the window is unknown"
            ends.append(ProtectedEnd(start, VerdictCode.RECENT_MESSAGE, last, self.unknown_window))
        elif (budget := self.compute_tail_budget(limits)) is not None:
            prefix = _count_json_prefix(context) if limits.size.as_json else sums.prefix
            start = self._find_tail_start(prefix, budget, limits)
            ends.append(ProtectedEnd(start, VerdictCode.TAIL, "in the tail of about {:,} tokens", budget))
        return ends

    def _find_last_messages(self, context: Context, count: int) -> int:
        """Return the first position of the last *count* messages, which count as ``results_apart`` says."""
        if not self.results_apart:
            return max(len(context) - count, 0)
        facts = context.facts
        for position in range(len(context) - 1, -1, -1):
            if count <= 0:
                return position + 1
            kinds = [facts.kind[row] for row in facts.blocks_of(context.order[position])]
            results = kinds.count(Kind.TOOL_RESULT)
            count -= results + (results < len(kinds) or not kinds)
        return 0

    def compute_tail_budget(self, limits: SizeLimits) -> int | None:
        """Return how many tokens to keep at the end, or None if no limit is in tokens."""
        if self.tokens is not None:
            return self.tokens
        if self.share is None and self.share_of_trigger is None:
            return None
        of_window = None if self.share is None else int(self.share * limits.window)
        budget = of_window if of_window is not None else int((self.share_of_trigger or 0.0) * limits.trigger_limit)
        budget = max(budget, self.at_least or 0)
        return budget if self.at_most is None else min(budget, self.at_most)

    def _find_tail_start(self, prefix: list[int], budget: int, limits: SizeLimits) -> int:
        """Return the position from which at most *budget* tokens follow; with ``crossing``, at least *budget*."""
        length, share = len(prefix) - 1, BYTES_PER_TOKEN / limits.size.bytes_per_token

        def count_tail_tokens(at: int) -> int:
            """Return the negated tokens from *at* to the end, a value that ascends with *at*, as bisection requires."""
            return -ceil((prefix[-1] - prefix[at]) * share + (length - at) * limits.size.per_message)

        if self.crossing:
            return max(bisect_right(range(length + 1), -budget, key=count_tail_tokens) - 1, 0)
        return bisect_left(range(length + 1), -budget, key=count_tail_tokens)

    def find_protected_start(self, context: Context, limits: SizeLimits) -> int:
        """Return the position from which all messages are protected, or the context's length if none is."""
        return min((end.start for end in self.find_protected_ends(context, limits)), default=len(context))


@memoize
def _count_json_prefix(context: Context) -> list[int]:
    index, facts = index_context(context), context.facts
    tokens = index.tokens.copy()
    for position, row in zip(index.results.position, index.results.block, strict=True):
        if row not in context.replacements:
            tokens[position] += (facts.json_bytes[row] - facts.text_bytes[row]) // BYTES_PER_TOKEN
    return list(accumulate(tokens, initial=0))
