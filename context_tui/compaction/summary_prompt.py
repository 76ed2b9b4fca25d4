"""Prompts that a runtime sends to have older messages summarised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from context_tui.session.session import Message


def return_unchanged(messages: list[Message]) -> list[Message]:
    """The messages unprepared."""
    return messages


@dataclass(frozen=True)
class SummaryPrompt:
    """What a summarizer is sent besides the head, and how the head is prepared for it.

    Attributes:
        system: the system prompt.
        ask: the messages to send, from the prepared head and the body of an earlier summary to update (or None).
        prepare: the head as it is summarised, before pair repair: long results cut, images named.
        sections: headings that a complete reply holds, in order; empty when none are asked for.
        max_tokens: the most that the reply may use.
        history: whether the head is sent as messages, so that the session's tool schemas go along and its tool pairs
            are repaired first; else ``build_request`` makes text of it.
        own_model: whether the session's own model is asked when the first one fails.
    """

    system: str
    build_request: Callable[[list[Message], str | None], list[Message]]
    prepare_messages: Callable[[list[Message]], list[Message]] = return_unchanged
    sections: tuple[str, ...] = ()
    max_tokens: int = 8_192
    sends_messages: bool = True
    retries_with_session_model: bool = False
