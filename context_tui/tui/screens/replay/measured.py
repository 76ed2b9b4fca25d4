"""What is computed about one policy along a recording, in a thread; whatever more is to be known is added here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.replay.recording import Recording
from context_tui.replay.result import Recorded, Replay, Totals
from context_tui.replay.walk import replay_with


@dataclass(frozen=True, eq=False)
class Measured:
    """A replay and what follows from it.

    Attributes:
        replay: the policy along the recording.
        totals: its sums, in tokens.
        without: tokens that are sent without the policy.
        thresholds: sizes in tokens, as its runtime counts, at which the policy acts at the end of the session; more
            than one where it is made of several steps, none where it goes by something else.
    """

    replay: Replay
    totals: Totals
    without: int
    thresholds: tuple[int, ...]


def measure(
    recording: Recording,
    policy: Policy,
    params: Params,
    recorded: Recorded,
    state: RuntimeState,
    checkpoint: Callable[[], object] = lambda: None,
) -> Measured:
    """Replay a policy, and compute what follows from that.

    Args:
        state: what a runtime knows at the end of the session.
        checkpoint: called at every call; it may raise to stop.

    Raises:
        PlanError: the policy cannot be replayed.
    """
    made = replay_with(recording, policy, params, recorded=recorded, checkpoint=checkpoint)
    return Measured(made, made.totals, sum(made.baseline), thresholds(policy, params, state))


def thresholds(policy: Policy, params: Params, state: RuntimeState) -> tuple[int, ...]:
    """Sizes in tokens at which a policy acts, each once, the smallest first."""
    steps: Any = getattr(policy, "steps", None)
    found = set[int]()
    try:
        for step, its in (steps(params) if steps else ()) or [(policy, params)]:
            trigger = step.trigger(state, its)
            if trigger.threshold is not None and trigger.unit == "tokens":
                found.add(trigger.threshold)
    except PlanError:
        return ()
    return tuple(sorted(found))
