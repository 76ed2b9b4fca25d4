"""Hidden reasoning of ended turns, which a runtime may count once more beside what a provider reported."""

from __future__ import annotations

from collections.abc import Iterable

from context_tui.session.facts import Facts, MessageFlag, Role

_TURN_START, _ASSISTANT = int(MessageFlag.TURN_START), int(Role.ASSISTANT)


class PastReasoning:
    """Its tokens in a context that is taken message by message, in prompt order: those before the newest turn began.

    What a turn ended counts from its first reply on: before that, a runtime looks when nothing is typed yet. Source:
    codex-rs/core, ContextManager.get_non_last_reasoning_items_tokens, and where it is asked for.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._current = self._pending = 0  # of the turn that has not ended, and of those that have but do not count yet
        self.tokens = 0

    def update(self, messages: Iterable[int]) -> None:
        """Take the messages that come next."""
        flags, role, reasoning = self._facts.flags, self._facts.role, self._facts.reasoning
        if not reasoning:
            return
        for message in messages:
            if flags[message] & _TURN_START:
                self._pending, self._current = self._pending + self._current, 0
            elif role[message] == _ASSISTANT:
                self.tokens, self._pending = self.tokens + self._pending, 0
                self._current += reasoning.get(message, 0)


def count_past_reasoning(facts: Facts, order: Iterable[int]) -> int:
    """Its tokens in a whole context, whose messages are in prompt order."""
    made = PastReasoning(facts)
    made.update(order)
    return made.tokens
