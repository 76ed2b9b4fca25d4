"""Counting tokens: rulers, baseline-plus-delta accounting, what is recorded, and breakdowns."""

from __future__ import annotations

from typing import Any

from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.tokens.history import History, estimate_message
from context_tui.tokens.rulers import context_tokens, message_tokens, ruler

__all__ = ["History", "estimate"]


def estimate(what: Session | Context | dict[str, Any], by: str = "bytes/4") -> int | None:
    """Estimated tokens of a session (all its messages), a context, a message or a block.

    Returns:
        Tokens; None for an empty history.
    """
    rule = ruler(by)
    if isinstance(what, dict):
        return estimate_message(what if "role" in what else {"role": "user", "content": [what]}, rule)
    if isinstance(what, Session):
        return sum(message_tokens(what.facts, message, rule) for message in range(len(what))) if len(what) else None
    return context_tokens(what, rule) if len(what) else None
