"""What is computed about one policy along a recording, in threads: first the replay, then its price and its regret."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_tui.compaction.plan import Trigger
from context_tui.errors import PlanError
from context_tui.lab.price.priced import price_replay
from context_tui.lab.price.recorded import RecordedCalls as RecordedCalls
from context_tui.lab.price.recorded import reconstruct_recorded_calls
from context_tui.lab.regret.bound import compute_regret_bound
from context_tui.lab.regret.cases import compute_regret
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.lab.replay.own import PolicyBacktest, run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Replay, ReplayTotals
from context_tui.lab.replay.walk import replay_recording
from context_tui.lab.study import Study, StudySettings
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState


@dataclass(frozen=True, eq=False)
class Measured:
    """A replay and what follows from it.

    Attributes:
        replay: the policy along the recording.
        totals: its sums, in tokens.
        without: tokens that are sent without the policy.
        thresholds: sizes in tokens, as its runtime counts, at which the policy acted; where it did not, at which it
            would at the end of the session; none where it goes by something else.
        study: its price and its regret; None until these are known too.
    """

    replay: Replay
    totals: ReplayTotals
    without: int
    thresholds: tuple[int, ...]
    study: Study | None = None


class Shared(NamedTuple):
    """What is known of the recording besides sizes: what the calls read from the cache, what is used where, and how the
    agent's own policies fare against its compactions.
    """

    calls: RecordedCalls
    uses: UseIndex
    backs: list[PolicyBacktest]


def shared(recording: Recording, checkpoint: Callable[[], object] = lambda: None) -> Shared:
    """Read the whole session once. *checkpoint* is called at every message; it may raise to stop."""
    return Shared(
        reconstruct_recorded_calls(recording.session),
        build_use_index(recording, checkpoint),
        run_backtests(recording, checkpoint),
    )


def studied(made: Measured, known: Shared, how: StudySettings) -> Measured:
    """The same with its price and its regret, as *how* says."""
    replay = made.replay
    priced = price_replay(replay, recorded=known.calls, shares_prefix=how.shares_prefix, reuse=how.reuse)
    return replace(
        made, study=Study(replay, priced, compute_regret(replay, known.uses), compute_regret_bound(replay, known.uses))
    )


def measure(
    recording: Recording,
    policy: Policy,
    params: Params,
    how: StudySettings,
    state: RuntimeState,
    checkpoint: Callable[[], object] = lambda: None,
) -> Measured:
    """Replay a policy, and compute what follows from that.

    Args:
        how: what becomes of recorded compactions, and what summaries are like.
        state: what a runtime knows at the end of the session.
        checkpoint: called at every call; it may raise to stop.

    Raises:
        PlanError: the policy cannot be replayed.
    """
    made = replay_recording(
        recording,
        policy,
        params,
        recorded=how.recorded,
        summary_tokens=how.summary_tokens,
        delay=how.delay,
        checkpoint=checkpoint,
    )
    acted = {firing.plan.trigger for firing in made.firings}
    limits = _in_tokens(acted) or thresholds(policy, params, state)
    return Measured(made, made.totals, sum(made.baseline), limits)


def thresholds(policy: Policy, params: Params, state: RuntimeState) -> tuple[int, ...]:
    """Sizes in tokens at which a policy, or one of its steps, would act, each once, the smallest first."""
    try:
        pairs = policy.steps(params) or [(policy, params)]
        return _in_tokens({step.trigger(state, its) for step, its in pairs})
    except PlanError:
        return ()


def _in_tokens(triggers: Iterable[Trigger]) -> tuple[int, ...]:
    return tuple(sorted({each.threshold for each in triggers if each.threshold is not None and each.unit == "tokens"}))
