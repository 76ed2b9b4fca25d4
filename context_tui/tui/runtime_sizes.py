"""The context size that each runtime believed in before every model call of a session: counted off the paint path."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from context_tui.errors import PlanError
from context_tui.policies.base import Policy
from context_tui.policies.registry import find_runtimes
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.triggers import iterate_runtime_states
from context_tui.session.facts import Facts
from context_tui.session.session import Session


class RuntimeSizeSeries:
    """What one runtime believes, by message: tokens (-1: it knows none), and by what (-1: it was not asked)."""

    def __init__(self, length: int) -> None:
        self.tokens, self._source_index = array("q", [-1]) * length, array("i", [-1]) * length
        self._sources: list[str] = []

    def append(self, policy: Policy, state: RuntimeState) -> None:
        """Ask what it believes at a moment."""
        try:
            belief = policy.believed_size(state)
        except PlanError:
            return
        if belief is not None:
            if belief.source not in self._sources:
                self._sources.append(belief.source)
            self._source_index[state.at] = self._sources.index(belief.source)
            self.tokens[state.at] = -1 if belief.tokens is None else belief.tokens

    def format_size(self, runtime: str, message: int) -> str:
        """What it believes before a message; empty where it was not asked."""
        if self._source_index[message] < 0:
            return ""
        much = f"{self.tokens[message]:,}" if self.tokens[message] >= 0 else "unknown"
        return f"{runtime} {much} ({self._sources[self._source_index[message]]})"


@dataclass(frozen=True)
class RuntimeSizes:
    """The series of each runtime."""

    facts: Facts
    length: int
    by_runtime: dict[str, RuntimeSizeSeries] = field(default_factory=dict)

    def covers(self, session: Session, message: int) -> bool:
        """Whether this says all there is about a message; a session that has grown since has the same beginning."""
        return self.facts is session.facts and message < self.length

    def format_sizes(self, message: int) -> str:
        """What was believed before a message; empty where no model was called."""
        if not 0 <= message < self.length:
            return ""
        each = filter(None, (series.format_size(runtime, message) for runtime, series in self.by_runtime.items()))
        words = ", ".join(each)
        return f"what each runtime takes the context's size to be here: {words}" if words else ""


def compute_runtime_sizes(session: Session, checkpoint: Callable[[], object] = lambda: None) -> RuntimeSizes:
    """All series, in a time that grows with the session; *checkpoint* is called at every message."""
    length, policies = len(session), find_runtimes()
    found = {runtime: RuntimeSizeSeries(length) for runtime in policies}
    for state in iterate_runtime_states(session, frozenset({"before_call"}), checkpoint):
        if state.at < length:
            for runtime, series in found.items():
                series.append(policies[runtime], state)
    return RuntimeSizes(session.facts, length, found)
