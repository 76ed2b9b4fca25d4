"""Amounts of content by kind, the weight of each kind in tokens, and scales that fit the weights to recorded sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from context_tui.session.blocks import BYTES_PER_TOKEN, bytes_to_tokens
from context_tui.session.context import Body
from context_tui.session.facts import Facts
from context_tui.session.token_factors import PRIOR, Factors
from context_tui.session.values import BlockFlag, Kind
from context_tui.tokens.context_size import resize
from context_tui.tokens.measures import TYPICAL_IMAGE_TOKENS

Amount = tuple[int, int, int, int, int, int, int]
"""Estimated tokens (``bytes/4``) of text, thinking, signatures, calls and results; numbers of images and requests."""

ZERO_AMOUNT: Amount = (0, 0, 0, 0, 0, 0, 0)
make_amount: Callable[[Iterable[int]], Amount] = tuple  # type: ignore[assignment]
"""Function that returns the amount with seven numbers."""
TEXT, THINKING, SIGNATURE, CALL, RESULT, IMAGES, REQUESTS = range(7)

_INDEX_OF_KIND = {
    int(Kind.TEXT): TEXT,
    int(Kind.THINKING): THINKING,
    int(Kind.TOOL_USE): CALL,
    int(Kind.TOOL_RESULT): RESULT,
}


def build_amount(index: int, tokens: int) -> Amount:
    """Return an amount that holds *tokens* of the kind at *index* and nothing else."""
    counts = [0] * 7
    counts[index] = tokens
    return tuple(counts)  # type: ignore[return-value]


def count_block_amount(facts: Facts, row: int, body: Body | None = None) -> Amount:
    """Return how much content a block, or the body that replaces it, has of each kind."""
    kind = facts.kind[row]
    place = _INDEX_OF_KIND.get(kind, -1)
    if body is not None:
        return build_amount(place, body.tokens) if place >= 0 and not body.removed else ZERO_AMOUNT
    if kind == Kind.IMAGE or facts.block_flags[row] & BlockFlag.HAS_IMAGE:
        return build_amount(IMAGES, 1)
    if kind == Kind.THINKING:
        text = facts.text_bytes[row]
        return (0, bytes_to_tokens(text), bytes_to_tokens(facts.size[row] - text), 0, 0, 0, 0)
    return build_amount(place, facts.size[row] // BYTES_PER_TOKEN) if place >= 0 else ZERO_AMOUNT


def add_amounts(first: Amount, second: Amount) -> Amount:
    """Add two amounts kind by kind."""
    text, thinking, signatures, calls, results, images, requests = first
    a, b, c, d, e, f, g = second
    return text + a, thinking + b, signatures + c, calls + d, results + e, images + f, requests + g


def subtract_amounts(first: Amount, second: Amount) -> Amount:
    """Subtract the second amount from the first, kind by kind."""
    text, thinking, signatures, calls, results, images, requests = first
    a, b, c, d, e, f, g = second
    return text - a, thinking - b, signatures - c, calls - d, results - e, images - f, requests - g


def drop_thinking(amount: Amount) -> Amount:
    """Return the amount without thinking and signatures, which a runtime may omit from a request."""
    text, _, _, calls, results, images, requests = amount
    return text, 0, 0, calls, results, images, requests


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of any number of amounts, kind by kind."""
    total = ZERO_AMOUNT
    for amount in amounts:
        total = add_amounts(total, amount)
    return total


def compute_weights(factors: Factors | None) -> tuple[float, ...]:
    """Return the tokens per unit of each kind for a model with these factors, or with typical ones if None."""
    factors = factors or PRIOR
    image = float(TYPICAL_IMAGE_TOKENS) if factors.image is None else factors.image
    overhead = factors.request_overhead
    return (factors.text, factors.thinking, factors.signature, factors.call, factors.result, image, overhead)


def convert_to_tokens(amount: Amount, kind_weights: tuple[float, ...]) -> int:
    """Convert an amount, which may be negative, to tokens with the weights from :func:`compute_weights`."""
    text, thinking, signatures, calls, results, images, requests = amount
    a, b, c, d, e, f, g = kind_weights
    return round(text * a + thinking * b + signatures * c + calls * d + results * e + images * f + requests * g)


def resize_context(size: int, outside: int, before: Amount, after: Amount, kind_weights: tuple[float, ...]) -> int:
    """Return the new size of a context with *size* tokens when its content changes from *before* to *after*.

    The *outside* tokens, which are in no message (system prompt, tool schemas), always stay. Tokens that are neither
    these nor content belong to the requests, and are removed in proportion to the removed requests.
    """
    removed_share = 1 - after[REQUESTS] / before[REQUESTS] if after[REQUESTS] < before[REQUESTS] else 0.0
    change = convert_to_tokens(subtract_amounts(after, before), kind_weights)
    return resize(size, outside, convert_to_tokens(before, kind_weights), change, removed_share)


SIZE_TOLERANCE = 1_000
"""Tokens by which a recorded prompt may be smaller than its content."""
OUTLIER_SHARE = 0.05
"""Share of the calls that may be ignored as outliers when a scale is fitted."""
MIN_SCALE_RATIO = 0.9
"""Minimum of the scale, as a ratio to the scale that fits all calls except outliers."""


class WeightScale(NamedTuple):
    """Factors for weights, at most 1: an additional one for thinking and signatures, and one for all kinds."""

    thinking: float
    all: float

    def __str__(self) -> str:
        return f"{self.all:.1%}{'' if self.thinking == 1 else f' (thinking at {self.thinking:.0%} of that)'}"


def fit_scale(calls: Sequence[tuple[int, int, int]]) -> WeightScale:
    """Fit a scale to calls, given as recorded tokens, estimated tokens without thinking, and those of the thinking."""
    ratios = sorted((size - other) / thinking for size, other, thinking in calls if thinking > 0)
    thinking_scale = _limit_to_one(ratios[int(len(ratios) * OUTLIER_SHARE)]) if ratios else 1.0
    scaled = ((size, other + thinking_scale * thinking) for size, other, thinking in calls)
    ratios = sorted((size + SIZE_TOLERANCE) / tokens for size, tokens in scaled if tokens > 0)
    if not ratios:
        return WeightScale(thinking_scale, 1.0)
    scale = max(ratios[0], MIN_SCALE_RATIO * ratios[int(len(ratios) * OUTLIER_SHARE)])
    return WeightScale(thinking_scale, _limit_to_one(scale))


def scale_weights(weights: tuple[float, ...], scale: WeightScale) -> tuple[float, ...]:
    """Multiply the weights from :func:`compute_weights` by a scale."""
    return tuple(
        weight * scale.all * (scale.thinking if index in (THINKING, SIGNATURE) else 1.0)
        for index, weight in enumerate(weights)
    )


def _limit_to_one(scale: float) -> float:
    return min(max(scale, 0.0), 1.0)
