"""Hidden reasoning of ended turns, which a runtime may count once more beside what a provider reported."""

from __future__ import annotations

from collections.abc import Iterable

from context_tui.session.facts import Facts, MessageFlag

_TURN_START = int(MessageFlag.TURN_START)


class EndedReasoning:
    """Its tokens in a context that is taken message by message, in prompt order: those before the newest turn began.

    Source: codex-rs/core, ContextManager.get_non_last_reasoning_items_tokens.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._newest = 0  # of the turn that has not ended
        self.tokens = 0

    def take(self, messages: Iterable[int]) -> None:
        """Take the messages that come next."""
        flags, reasoning = self._facts.flags, self._facts.reasoning
        if not reasoning:
            return
        for message in messages:
            if flags[message] & _TURN_START:
                self.tokens, self._newest = self.tokens + self._newest, 0
            self._newest += reasoning.get(message, 0)


def ended_reasoning(facts: Facts, order: Iterable[int]) -> int:
    """Its tokens in a whole context, whose messages are in prompt order."""
    made = EndedReasoning(facts)
    made.take(order)
    return made.tokens
