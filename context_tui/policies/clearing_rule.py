"""Clearing rules: policies described by numbers alone, so that a sweep can compute thousands of settings at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable


class ClearingRule(NamedTuple):
    """A setting of a policy that clears large tool results of older turns.

    The policy acts before a call, once the last recorded size plus an estimate of what followed reaches
    ``window_share`` of the context window. It then replaces the content of every tool result that is larger than
    ``min_clear_tokens``, stands before the last ``keep_recent_turns`` turns and has not been cleared yet by
    ``placeholder``.

    ``assumed_window`` is the window, in tokens, that the runtime takes where it knows none.
    """

    keep_recent_turns: int
    min_clear_tokens: int
    window_share: float
    assumed_window: int
    placeholder: str


@runtime_checkable
class HasClearingRule(Protocol):
    """A policy that is fully described by a clearing rule."""

    def clearing_rule(self, params: Any) -> ClearingRule:
        """Return the rule that these parameters make."""
