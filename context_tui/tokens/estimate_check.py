"""Comparison of an estimated size with the recorded one, and the likely causes of the error."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context, memoize
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.token_factors import ContentTokens, Factors, estimate_content, find_intervals, fit_factors
from context_tui.session.values import BlockFlag, Explanation, Kind
from context_tui.tokens.accounting import estimate_prompt, find_last_request
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.estimators import IMAGE_TOKENS

LARGE_ERROR = 0.15
"""Minimum relative error of an estimate for its causes to be shown."""
MIN_CAUSE_SHARE = 0.1
"""Minimum share of the difference for a cause to be named."""
MAX_RATIO_SPREAD = 0.25
"""Maximum median deviation of the intervals' ratios for the tokenizer to be the cause."""
MIN_INTERVAL_TOKENS = 200
"""Minimum estimated tokens of an interval for its ratio to be used."""
MIN_JUMP = 1_000
"""Minimum tokens of growth without a record that count as an insertion."""
MAX_IMAGE_TOKENS = 1_600
"""Maximum tokens of an image, at Anthropic."""


_CAUSE_TEXTS = {
    "silent drop": "unlogged clearing",
    "frames of requests": "per-request overhead",
    "injected without a record": "unlogged insertions",
    "unexplained": "unattributed",
}


class Cause(NamedTuple):
    """A likely cause of an estimate's error; the tokens are positive if it makes the estimate too large."""

    label: str
    tokens: int

    @property
    def text(self) -> str:
        """The cause in words for display; ``label`` names it in JSON."""
        return _CAUSE_TEXTS.get(self.label, self.label)


class EstimateCheck(NamedTuple):
    """The recorded size of the last request, and the expected one: its estimate plus the tokens not in the file.

    ``causes`` are measured independently and sorted from the largest; ``unexplained`` is the error that remains.
    """

    recorded: int
    expected: int
    causes: tuple[Cause, ...] = ()
    unexplained: int = 0

    @property
    def relative_error(self) -> float:
        """Error relative to the recorded size, negative if the estimate is too small."""
        return (self.expected - self.recorded) / self.recorded

    @property
    def is_far_off(self) -> bool:
        """Whether the error is too large to be left unexplained."""
        return abs(self.relative_error) >= LARGE_ERROR

    @property
    def causes_text(self) -> str:
        """The causes with their tokens as text, or an empty string if the error is small."""
        if not self.is_far_off:
            return ""
        causes = [(cause.text, cause.tokens) for cause in self.causes]
        causes += [("unattributed", self.unexplained)] if self.unexplained else []
        return ", ".join(f"{text} {'−' if tokens > 0 else '+'}{abs(tokens):,} tokens" for text, tokens in causes)


def check_estimate(session: Session, context: Context) -> EstimateCheck | None:
    """Compare an estimate with the last recorded size of the context, or return None if none is recorded."""
    row = find_last_request(context)
    facts = context.facts
    if row < 0 or not facts.requests[row].context:
        return None
    recorded, at = facts.requests[row].context, facts.request_message[row]
    context_before = session.context_at(at)
    hidden = measure_context(context).not_in_file or 0
    expected = index_context(context_before).total + estimate_prompt(facts, at) + hidden
    gap = expected - recorded
    if abs(gap) < LARGE_ERROR * recorded:
        return EstimateCheck(recorded, expected, (), gap)
    causes = [Cause(label, round(tokens)) for label, tokens in _size_causes(session, context_before, row, hidden)]
    main_causes = [cause for cause in causes if abs(cause.tokens) >= MIN_CAUSE_SHARE * abs(gap)]
    main_causes.sort(key=lambda cause: -abs(cause.tokens))
    return EstimateCheck(recorded, expected, tuple(main_causes), gap - sum(cause.tokens for cause in main_causes))


def _size_causes(session: Session, context_before: Context, row: int, hidden: int) -> Iterator[tuple[str, float]]:
    facts, factors = context_before.facts, fit_factors(context_before.facts, row + 1)
    drops = [drop for drop in session.drops if context_before.epoch_start < drop.message <= facts.request_message[row]]
    excluded = (Explanation.CLEARED, Explanation.MICROCOMPACTION)  # the estimate does not include their results
    for cause in dict.fromkeys(drop.explained_by for drop in drops if drop.explained_by not in excluded):
        yield cause or "silent drop", sum(drop.removed_tokens for drop in drops if drop.explained_by == cause)
    first_row = bisect_left(facts.request_message, max(context_before.epoch_start - 1, 0))
    content = _estimate_content(context_before)
    if content.images:
        estimated, image_tokens = _estimate_images(context_before), factors.image if factors else None
        if image_tokens is not None:
            yield "images", estimated - image_tokens * content.images
        elif estimated > MAX_IMAGE_TOKENS * content.images:
            yield "images (at least)", estimated - MAX_IMAGE_TOKENS * content.images
    if factors is None:
        return
    text, thinking, signature, call, result = content.tokens
    tokenizer_error = text * (1 - factors.text) + call * (1 - factors.call) + result * (1 - factors.result)
    tokens_of = {"frames of requests": -factors.request_overhead * (row - first_row)}
    # Tokens not in the file: *hidden* those of the session's first request, *first_hidden* of the context's first one.
    first_content = _estimate_content(session.context_at(facts.request_message[first_row]))
    first_hidden = facts.requests[first_row].context - factors.count_tokens(first_content) - estimate_prompt(facts)
    if not facts.holds_requests:
        tokens_of["injected without a record"] = -_sum_jumps(facts, first_row, row, factors)
    if first_row and not facts.holds_requests:
        tokens_of["injected without a record"] += hidden - first_hidden
    else:
        tokenizer_error += hidden - first_hidden
    if thinking or signature:
        tokens_of["thinking"] = thinking * (1 - factors.thinking) + signature * (1 - factors.signature)
    if _is_steady(facts, row + 1, factors):
        tokens_of["tokenizer"] = tokenizer_error
    yield from tokens_of.items()


def _sum_jumps(facts: Facts, first_row: int, row: int, factors: Factors) -> float:
    """Sum the tokens by which the context grew after the request *first_row* without a record that explains it."""
    min_jump = max(MIN_JUMP, 10 * factors.error)
    later = (each for each in find_intervals(facts, row + 1) if each.row > first_row and not each.content.images)
    residuals = (each.growth - factors.count_tokens(each.content) - factors.request_overhead for each in later)
    return sum(jump for jump in residuals if jump >= min_jump)


def _is_steady(facts: Facts, end: int, factors: Factors) -> bool:
    """Return whether recorded tokens per estimated token are steady over the intervals without images or turn starts.

    Thinking is subtracted from the recorded tokens.
    """
    ratios = []
    for interval in find_intervals(facts, end):
        text, thinking, signature, call, result = interval.content.tokens
        tokens = text + call + result
        if tokens >= MIN_INTERVAL_TOKENS and not interval.content.images and not interval.content.turns:
            other_tokens = factors.request_overhead + thinking * factors.thinking + signature * factors.signature
            ratios.append((interval.growth - other_tokens) / tokens)
    if len(ratios) < 3:
        return False
    middle = median(ratios)
    return median(abs(ratio - middle) for ratio in ratios) <= MAX_RATIO_SPREAD * middle


@memoize
def _estimate_content(context: Context) -> ContentTokens:
    facts, content = context.facts, estimate_content(context.facts, context.order)
    for row, body in context.replacements.items():
        if facts.block_flags[row] & BlockFlag.HAS_IMAGE:
            content.images -= 1
        else:
            content.tokens[-1] -= bytes_to_tokens(facts.size[row])
        content.tokens[-1] += body.tokens
    return content


def _estimate_images(context: Context) -> int:
    facts, total = context.facts, 0
    for block in (block for message in context.order for block in facts.blocks_of(message)):
        if facts.kind[block] == Kind.IMAGE:
            total += IMAGE_TOKENS
        elif facts.block_flags[block] & BlockFlag.HAS_IMAGE and block not in context.replacements:
            total += bytes_to_tokens(facts.size[block])
    return total
