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
class LaneResult:
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
    baseline_tokens: int
    thresholds: tuple[int, ...]
    study: Study | None = None


class RecordingIndex(NamedTuple):
    """What is known of the recording besides sizes: what the calls read from the cache, what is used where, and how the
    agent's own policies fare against its compactions.
    """

    calls: RecordedCalls
    uses: UseIndex
    backtests: list[PolicyBacktest]


def build_recording_index(recording: Recording, checkpoint: Callable[[], object] = lambda: None) -> RecordingIndex:
    """Read the whole session once. *checkpoint* is called at every message; it may raise to stop."""
    return RecordingIndex(
        reconstruct_recorded_calls(recording.session),
        build_use_index(recording, checkpoint),
        run_backtests(recording, checkpoint),
    )


def add_study(result: LaneResult, index: RecordingIndex, settings: StudySettings) -> LaneResult:
    """The same with its price and its regret, as *how* says."""
    replay = result.replay
    priced = price_replay(replay, recorded=index.calls, shares_prefix=settings.shares_prefix, reuse=settings.reuse)
    return replace(
        result, study=Study(replay, priced, compute_regret(replay, index.uses), compute_regret_bound(replay, index.uses))
    )


def run_replay(
    recording: Recording,
    policy: Policy,
    params: Params,
    settings: StudySettings,
    state: RuntimeState,
    checkpoint: Callable[[], object] = lambda: None,
) -> LaneResult:
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
        recorded=settings.recorded,
        summary_tokens=settings.summary_tokens,
        delay=settings.delay,
        checkpoint=checkpoint,
    )
    acted = {firing.plan.trigger for firing in made.firings}
    limits = _collect_token_thresholds(acted) or compute_thresholds(policy, params, state)
    return LaneResult(made, made.totals, sum(made.baseline), limits)


def compute_thresholds(policy: Policy, params: Params, state: RuntimeState) -> tuple[int, ...]:
    """Sizes in tokens at which a policy, or one of its steps, would act, each once, the smallest first."""
    try:
        pairs = policy.steps(params) or [(policy, params)]
        return _collect_token_thresholds({step.trigger(state, its) for step, its in pairs})
    except PlanError:
        return ()


def _collect_token_thresholds(triggers: Iterable[Trigger]) -> tuple[int, ...]:
    return tuple(sorted({each.threshold for each in triggers if each.threshold is not None and each.unit == "tokens"}))
