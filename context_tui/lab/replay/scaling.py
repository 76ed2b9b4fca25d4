"""How much smaller factors are to be taken where recorded prompts are smaller than what they hold by them.

The factors are fitted on what contexts grow by, and may be too large for all of one: a runtime leaves thinking out, or
no fit was possible and typical factors stand in. What a policy takes out by them may then be more than there was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_tui.lab.replay.amounts import SIGNATURE, THINKING

SIZE_TOLERANCE = 1_000
"""Tokens by which a prompt may be recorded as smaller than what it holds."""
OUTLIER_SHARE = 0.05
"""Share of the calls that may be odd ones, to which the factors are not held ..."""
MIN_SCALE_RATIO = 0.9
"""... where these would take them below this share of what all others allow."""


class WeightScale(NamedTuple):
    """What the factors of thinking and its signatures are taken by, and then all of them; at most 1 each."""

    thinking: float
    all: float

    def __str__(self) -> str:
        return f"{self.all:.1%}{'' if self.thinking == 1 else f' (thinking at {self.thinking:.0%} of that)'}"


def fit_scale(calls: Sequence[tuple[int, int, int]]) -> WeightScale:
    """The scale for a model's calls: of each the recorded tokens, and what it holds without thinking, and of that."""
    room = sorted((size - rest) / thinking for size, rest, thinking in calls if thinking > 0)
    thinking = _format_upper_bound(room[int(len(room) * OUTLIER_SHARE)]) if room else 1.0
    held = [(size, rest + thinking * thought) for size, rest, thought in calls]
    shares = sorted((size + SIZE_TOLERANCE) / tokens for size, tokens in held if tokens > 0)
    return WeightScale(
        thinking,
        _format_upper_bound(max(shares[0], MIN_SCALE_RATIO * shares[int(len(shares) * OUTLIER_SHARE)]))
        if shares
        else 1.0,
    )


def scale_weights(weights: tuple[float, ...], thinking: float, overall: float) -> tuple[float, ...]:
    """Weights (:func:`context_tui.lab.replay.amounts.compute_weights`) that are taken by these."""
    return tuple(
        value * overall * (thinking if place in (THINKING, SIGNATURE) else 1.0) for place, value in enumerate(weights)
    )


def _format_upper_bound(share: float) -> float:
    return min(max(share, 0.0), 1.0)
