"""Baseline-plus-delta accounting, as defect keeps it (system 2 of the seed systems)."""

from __future__ import annotations

from typing import Any

from context_tui.session.memory import build_facts
from context_tui.tokens.estimators import Estimator, bytes4, count_message_tokens


def estimate_message(message: dict[str, Any], estimator: Estimator = bytes4) -> int:
    """Tokens of one Anthropic-shaped message."""
    return count_message_tokens(build_facts([message]), 0, estimator)


class History:
    """What a runtime believes its context to be: the last real count plus an estimate of what came after it.

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
