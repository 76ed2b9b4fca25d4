"""The context size that each runtime believed in before every model call of a session: counted off the paint path."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from context_tui.policies.triggers import runtime_states
from context_tui.session.facts import Facts
from context_tui.session.session import Session


@dataclass(frozen=True)
class RuntimeSizes:
    """Tokens by message, -1 where there is none: baseline plus delta, and input tokens of the last reply."""

    facts: Facts
    length: int
    believed: array[int]
    read: array[int]
    recorded: array[int]

    def knows(self, session: Session, message: int) -> bool:
        """Whether this says all there is about a message; a session that has grown since has the same beginning."""
        return self.facts is session.facts and message < self.length

    def describe(self, message: int) -> str:
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


def runtime_sizes_of(session: Session, checkpoint: Callable[[], object] = lambda: None) -> RuntimeSizes:
    """The whole series, in a time that grows with the session; *checkpoint* is called at every message."""
    length = len(session)
    believed, read, recorded = (array("q", [-1]) * length for _ in range(3))
    for state in runtime_states(session, frozenset({"before_call"}), checkpoint):
        if state.at < length:
            believed[state.at] = state.believed
            recorded[state.at] = state.recorded is not None
            if state.input_tokens is not None:
                read[state.at] = state.input_tokens
    return RuntimeSizes(session.facts, length, believed, read, recorded)
