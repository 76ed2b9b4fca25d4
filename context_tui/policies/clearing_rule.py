"""Clearing rules: policies described by numbers alone, so that a sweep can compute thousands of settings at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable


class ClearingRule(NamedTuple):
    """Setting of a policy that clears large tool results of older turns.

    The policy acts before a call, once the last recorded size plus an estimate of later messages reaches
    ``window_share`` of the context window. It replaces by ``placeholder`` every tool result that is larger than
    ``min_clear_tokens``, precedes the last ``keep_recent_turns`` turns, and is not cleared yet. ``assumed_window`` is
    the window in tokens that the runtime assumes if the actual window is unknown.
    """

    keep_recent_turns: int
    min_clear_tokens: int
    window_share: float
    assumed_window: int
    placeholder: str


@runtime_checkable
class HasClearingRule(Protocol):
    """Policy that a clearing rule describes completely."""

    def clearing_rule(self, params: Any) -> ClearingRule:
        """Return the rule with these parameters."""
