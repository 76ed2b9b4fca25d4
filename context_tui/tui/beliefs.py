"""What each runtime would have believed before every model call of a session: counted once, off the paint path."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

from context_tui.policies.triggers import runtime_states
from context_tui.session.facts import Facts
from context_tui.session.session import Session

TURN = 500
"""Moments after which a thread gives the screen its turn."""


@dataclass(frozen=True)
class Beliefs:
    """Tokens by message, -1 where there is none: baseline plus delta, and input tokens of the last reply."""

    facts: Facts
    length: int
    believed: array[int]
    read: array[int]
    recorded: array[int]

    def knows(self, session: Session, message: int) -> bool:
        """Whether this says all there is about a message; a session that has grown since has the same beginning."""
        return self.facts is session.facts and message < self.length

    def words(self, message: int) -> str:
        """What was believed before a message; empty where no model was called."""
        if not 0 <= message < self.length or self.believed[message] < 0:
            return ""
        how = "last recorded + estimate" if self.recorded[message] else "an estimate, as nothing was recorded before it"
        seen = self.read[message]
        sdk = (
            f"{seen:,} by agent-sdk (input tokens of the last reply)"
            if seen >= 0
            else "nothing by agent-sdk (no reply)"
        )
        return f"believed before it: {self.believed[message]:,} by defect ({how}), {sdk}"


def beliefs_of(session: Session, pause: float = 0.0) -> Beliefs:
    """The whole series, in a time that grows with the session; *pause* is slept now and then, for threads."""
    length = len(session)
    believed, read, recorded = (array("q", [-1]) * length for _ in range(3))
    for number, state in enumerate(runtime_states(session, frozenset({"before_call"}))):
        if pause and number % TURN == 0:
            time.sleep(pause)
        if state.at < length:
            believed[state.at] = state.believed
            recorded[state.at] = state.recorded is not None
            if state.input_tokens is not None:
                read[state.at] = state.input_tokens
    return Beliefs(session.facts, length, believed, read, recorded)
