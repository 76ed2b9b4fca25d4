"""Token counts: estimators, believed sizes, calibration, exact tokenizers, and breakdowns of a context."""

from __future__ import annotations

from typing import Any

from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.tokens.accounting import History, estimate_message
from context_tui.tokens.estimators import count_context_tokens, count_message_tokens, get_estimator

__all__ = ["History", "estimate"]


def estimate(source: Session | Context | dict[str, Any], by: str = "bytes/4") -> int | None:
    """Estimate the tokens in a session, a context, a message or a block, or return None if there are no messages."""
    estimator = get_estimator(by)
    if isinstance(source, dict):
        return estimate_message(source if "role" in source else {"role": "user", "content": [source]}, estimator)
    if not len(source):
        return None
    if isinstance(source, Session):
        return sum(count_message_tokens(source.facts, message, estimator) for message in range(len(source)))
    return count_context_tokens(source, estimator)
