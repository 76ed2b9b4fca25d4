"""The estimate beside the recorded size: how far it is off, what that comes from, and what the parts really take.

A cause is named with its tokens, each sized by itself from recorded numbers; what these leave over is unexplained.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from context_tui.session.context import Context, once
from context_tui.session.facts import BlockFlag, Explanation, Facts, Kind
from context_tui.session.fitting import Content, Factors, content_of, fit, intervals
from context_tui.session.session import Session
from context_tui.tokens.breakdown import CATEGORIES, category_of
from context_tui.tokens.estimators import IMAGE_TOKENS, tokens_of_bytes
from context_tui.tokens.measured import measured
from context_tui.tokens.recorded import in_file, last_request, not_in_file

FAR_OFF = 0.15
"""Share of the recorded size by which an estimate may be off before the screen says so."""
WORTH_NAMING = 0.1
"""Share of the whole difference from which on a cause is named."""
STEADY = 0.25
"""How far the intervals' ratios may be from their median, half of them, for a tokenizer to be the cause."""
LEAST_TEXT = 200
"""Estimated tokens that an interval must have for its ratio to say something."""
LEAST_JUMP = 1_000
"""Tokens from which on growth without a record is told from how contents differ."""
LARGEST_IMAGE = 1_600
"""Tokens that an image has at most, at Anthropic."""


@dataclass(frozen=True)
class Cause:
    """Why an estimate is off, and by how many tokens: positive where it makes the estimate too large."""

    what: str
    tokens: int


@dataclass(frozen=True)
class Fit:
    """The estimate beside the recorded size at the last request: ``expected`` = estimated + not in the file.

    ``causes`` are sized each by itself, largest first; ``unexplained`` is what they leave over.
    """

    recorded: int
    expected: int
    causes: tuple[Cause, ...] = ()
    unexplained: int = 0

    @property
    def off(self) -> float:
        """(expected - recorded) / recorded: negative when the estimate is too small."""
        return (self.expected - self.recorded) / self.recorded

    @property
    def far(self) -> bool:
        """Whether the estimate is so far off that it needs a reason."""
        return abs(self.off) >= FAR_OFF

    @property
    def cause(self) -> str:
        """The causes in words, with their tokens; nothing where the estimate is near enough."""
        return ", ".join(self.reasons(" tokens"))

    def reasons(self, unit: str = "") -> list[str]:
        """Each cause in words, and what is unexplained where that is worth it; none where it is near enough."""
        if not self.far:
            return []
        words = [f"{cause.what} {_more_or_less(cause.tokens, unit)}" for cause in self.causes]
        if not words or abs(self.unexplained) >= WORTH_NAMING * abs(self.expected - self.recorded):
            words.append(f"unexplained: {_more_or_less(self.unexplained, unit)}")
        return words


def _more_or_less(tokens: int, unit: str) -> str:
    """By how much the real size differs from an estimate that is too large by *tokens*."""
    return f"{abs(tokens):,}{unit} {'less' if tokens > 0 else 'more'}"


def fit_at(session: Session, context: Context) -> Fit | None:
    """How the estimate fits what was recorded last, and what it is off by; None: nothing recorded."""
    row = last_request(context)
    facts = context.facts
    if row < 0 or not facts.requests[row].context:
        return None
    recorded, at = facts.requests[row].context, facts.request_message[row]
    before = session.context_at(at)
    hidden = not_in_file(context) or 0
    expected = measured(before).total + in_file(facts) + hidden
    gap = expected - recorded
    if abs(gap) < FAR_OFF * recorded:
        return Fit(recorded, expected, (), gap)
    causes = [Cause(what, round(tokens)) for what, tokens in _causes(session, before, row, hidden)]
    named = [cause for cause in causes if abs(cause.tokens) >= WORTH_NAMING * abs(gap)]
    named.sort(key=lambda cause: -abs(cause.tokens))
    return Fit(recorded, expected, tuple(named), gap - sum(cause.tokens for cause in named))


def _causes(session: Session, before: Context, row: int, hidden: int) -> Iterator[tuple[str, float]]:
    """Everything that can be sized, with the tokens by which it makes the estimate too large."""
    facts, factors = before.facts, fit(before.facts, row + 1)
    drops = [drop for drop in session.drops if before.epoch_start < drop.message <= facts.request_message[row]]
    counted = (Explanation.CLEARED, Explanation.MICROCOMPACTION)  # their results are not in the estimate any more
    for what in dict.fromkeys(drop.explained_by for drop in drops if drop.explained_by not in counted):
        yield (what or "silent drop"), sum(drop.gone for drop in drops if drop.explained_by == what)
    content, begun = shape_of(before), _first_request(facts, before)
    if content.images:
        estimated, each = _image_estimate(before), factors.image if factors else None
        if each is not None:
            yield "images", estimated - each * content.images
        elif estimated > LARGEST_IMAGE * content.images:
            yield "images (at least)", estimated - LARGEST_IMAGE * content.images
    if factors is None:
        return
    text, thinking, signature, call, result = content.tokens
    off = text * (1 - factors.text) + call * (1 - factors.call) + result * (1 - factors.result)
    tokens_of = {"frames of requests": -factors.each * (row - begun)}
    # At its first request the context has a part that is not in the file; *hidden* says so for the session's first.
    began = session.context_at(facts.request_message[begun])
    base = facts.requests[begun].context - factors.of(shape_of(began)) - in_file(facts)
    tokens_of["injected without a record"] = -_jumps(facts, begun, row, factors)
    if begun:
        tokens_of["injected without a record"] += hidden - base
    else:
        off += hidden - base
    if thinking or signature:
        tokens_of["thinking"] = thinking * (1 - factors.thinking) + signature * (1 - factors.signature)
    if _steady(facts, row + 1, factors):
        tokens_of["tokenizer"] = off
    yield from tokens_of.items()


def _jumps(facts: Facts, begun: int, row: int, factors: Factors) -> float:
    """Tokens by which the context grew, after the request *begun*, where nothing in the file accounts for them."""
    least = max(LEAST_JUMP, 10 * factors.error)
    off = (
        interval.growth - factors.of(interval.content) - factors.each
        for interval in intervals(facts, row + 1)
        if interval.row > begun and not interval.content.images
    )
    return sum(jump for jump in off if jump >= least)


def _first_request(facts: Facts, context: Context) -> int:
    """Row of the first request of the context's epoch."""
    return bisect_left(facts.request_message, max(context.epoch_start - 1, 0))


def _steady(facts: Facts, end: int, factors: Factors) -> bool:
    """Whether recorded tokens per estimated token are much the same wherever there are neither images nor thinking.

    Thinking is taken off where a model never goes without.
    """
    ratios = []
    for interval in intervals(facts, end):
        text, thinking, signature, call, result = interval.content.tokens
        tokens = text + call + result
        if tokens >= LEAST_TEXT and not interval.content.images and not interval.content.turns:
            rest = factors.each + thinking * factors.thinking + signature * factors.signature
            ratios.append((interval.growth - rest) / tokens)
    if len(ratios) < 3:
        return False
    middle = median(ratios)
    return median(abs(ratio - middle) for ratio in ratios) <= STEADY * middle


@once
def shape_of(context: Context) -> Content:
    """What is in a context by kind of content, where bodies that stand in place of recorded ones count."""
    facts, found = context.facts, content_of(context.facts, context.order)
    for row, body in context.replaced.items():
        if facts.block_flags[row] & BlockFlag.HAS_IMAGE:
            found.images -= 1
        else:
            found.tokens[-1] -= tokens_of_bytes(facts.size[row])
        found.tokens[-1] += body.tokens
    return found


def _image_estimate(context: Context) -> int:
    """Estimated tokens of images, and of results that hold one."""
    facts, total = context.facts, 0
    for message in context.order:
        for block in facts.blocks_of(message):
            if facts.kind[block] == Kind.IMAGE:
                total += IMAGE_TOKENS
            elif facts.block_flags[block] & BlockFlag.HAS_IMAGE and block not in context.replaced:
                total += tokens_of_bytes(facts.size[block])
    return total


@dataclass(frozen=True)
class Suggested:
    """What recorded sizes suggest that a context's categories really take: tokens by category, or ``why`` they cannot.

    The frame of each request counts as ``tool_use``; ``not_in_file`` is what the others leave of the recorded size. A
    category is None where nothing sizes it.
    """

    by_category: Mapping[str, int | None] | None
    why: str = ""


def suggested(session: Session, context: Context) -> Suggested:
    """The categories of *context* by what was recorded, as far as that can say."""
    row = last_request(context)
    if row < 0:
        return Suggested(None, "nothing recorded in this context")
    facts, factors = context.facts, fit(context.facts, row + 1)
    if factors is None:
        return Suggested(None, "too few requests, or they do not grow steadily enough")
    share: dict[str, float] = dict.fromkeys(CATEGORIES, 0.0)
    unsized: set[str] = set()
    appended = 0.0
    for message in context.order:
        for block in facts.blocks_of(message):
            category = category_of(facts, message, block)
            body = context.replaced.get(block)
            tokens = body.tokens * factors.result if body else _tokens_of(facts, block, factors)
            if tokens is None:
                unsized.add(category)
                continue
            share[category] += tokens
            if message >= facts.request_message[row]:
                appended += tokens
    gone = sum(
        drop.gone
        for drop in session.drops
        if drop.explained_by == Explanation.THINKING and context.epoch_start < drop.message < context.at
    )
    share["thinking"] = max(share["thinking"] - gone, 0.0)
    share["system"] = tokens_of_bytes(facts.system_bytes) * factors.text
    share["tools"] = tokens_of_bytes(facts.tools_bytes) * factors.call
    share["tool_use"] += factors.each * (row - _first_request(facts, context))
    rest = facts.requests[row].context + appended - sum(share.values())
    if rest < -0.05 * facts.requests[row].context:
        return Suggested(None, f"its parts would be {-rest:,.0f} tokens more than were recorded")
    share["not_in_file"] = max(rest, 0.0)
    return Suggested({name: None if name in unsized else round(tokens) for name, tokens in share.items()})


def _tokens_of(facts: Facts, block: int, factors: Factors) -> float | None:
    """Recorded tokens that a block takes; None where nothing sizes it."""
    kind, size = facts.kind[block], facts.size[block]
    if kind == Kind.IMAGE or facts.block_flags[block] & BlockFlag.HAS_IMAGE:
        return factors.image
    if kind == Kind.THINKING:
        text = facts.text_bytes[block]
        return tokens_of_bytes(text) * factors.thinking + tokens_of_bytes(size - text) * factors.signature
    shares = {Kind.TOOL_USE: factors.call, Kind.TOOL_RESULT: factors.result, Kind.OTHER: 0.0}
    return tokens_of_bytes(size) * shares.get(Kind(kind), factors.text)
