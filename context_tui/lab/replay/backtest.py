"""Back-tests, which compare an agent's own policies with the compactions that its sessions recorded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from context_tui.compaction.plan import Trigger
from context_tui.compaction.recorded_compactions import find_recorded_compactions, predict_size_after
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import find_changed_params
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import NO_POLICY, POLICIES
from context_tui.policies.runtime_state import RuntimeState, build_runtime_state, format_comparison
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.policies.versions import find_policy_of_version, list_own_policies
from context_tui.session.context import Context
from context_tui.session.facts import Compaction, epoch_at, find_last_rewrite
from context_tui.session.values import Checkpoint
from context_tui.tokens.measures import build_calibrated_table


class BacktestResult(NamedTuple):
    """A recorded compaction, compared with when the policy would have fired.

    Attributes:
        kind, trigger: ``full`` or ``micro``, and the recorded cause of the compaction.
        recorded: believed size in tokens at that point, as recorded or else as the policy computes it; None if unknown.
        testable: whether the compaction can be compared; ``why`` states the result, or the reason why it cannot.
        off_by: number of calls by which the policy fires too early, negated; None if it does not fire.
        above: largest size at an earlier checkpoint without a compaction, which the threshold must exceed.
        after_recorded: recorded size of the first request after a full compaction, in tokens; None if there is none.
        after_predicted: the size predicted for that request; None if no size was recorded before in its context.
    """

    message: int
    kind: str
    trigger: str | None
    recorded: int | None
    testable: bool
    off_by: int | None
    why: str
    above: int | None = None
    after_recorded: int | None = None
    after_predicted: int | None = None

    @property
    def is_hit(self) -> bool:
        """Whether the policy fires at the call of the compaction or one call earlier."""
        return self.off_by is not None and self.off_by >= -1


class ThresholdInterval(NamedTuple):
    """Thresholds above ``above`` and up to ``most`` tokens, which explain ``explains`` compactions out of ``of``."""

    above: int
    most: int
    explains: int
    of: int


class BacktestCase(NamedTuple):
    """A recorded compaction, with the parameters that the policy had in the agent's version at that time."""

    compaction: Compaction
    params: Params


_SizesAfter = dict[int, tuple[int | None, int | None]]


def backtest_policy(
    recording: Recording,
    policy: Policy,
    cases: Sequence[BacktestCase],
    threshold: int | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> list[BacktestResult]:
    """Compare recorded compactions with a policy, using its own trigger or a different *threshold* in tokens."""
    key = backtest_policy, policy.phases
    if key not in recording.memo:
        recording.memo[key] = list(iterate_runtime_states(recording.session, policy.phases, checkpoint))
    states, calls = recording.memo[key], [call.message for call in recording.calls]
    results = list[BacktestResult]()
    for compaction, params in cases:
        checkpoint()
        trigger = _BacktestTrigger(policy, params, threshold)
        result = _backtest_compaction(recording, trigger, compaction, states, calls)
        if compaction.kind == "full":
            size_after, predicted = _predict_sizes_after(recording, checkpoint).get(compaction.message, (None, None))
            result = result._replace(after_recorded=size_after, after_predicted=predicted)
        results.append(result)
    return results


class _BacktestTrigger(NamedTuple):
    policy: Policy
    params: Params
    threshold: int | None

    def __call__(self, state: RuntimeState) -> Trigger:
        trigger = self.policy.trigger(state, self.params)
        if self.threshold is None or trigger.value is None:
            return trigger
        fires = trigger.value >= self.threshold
        reason = format_comparison(f"{trigger.value:,} tokens", f"{self.threshold:,}", fires=fires)
        return replace(trigger, fires=fires, threshold=self.threshold, reason=reason)

    def clears_anything(self, context: Context, state: RuntimeState) -> bool:
        """Return whether the plan of the policy changes anything in the context."""
        return self.policy.plan(context, self.params, state).has_changes


def _backtest_compaction(
    recording: Recording,
    backtest_trigger: _BacktestTrigger,
    compaction: Compaction,
    states: Sequence[RuntimeState],
    calls: Sequence[int],
) -> BacktestResult:
    session, at = recording.session, compaction.message
    facts, recorded = session.facts, compaction.pre_tokens if compaction.kind == "full" else None

    def build_result(
        why: str, *, testable: bool = False, off_by: int | None = None, above: int | None = None
    ) -> BacktestResult:
        return BacktestResult(at, compaction.kind, compaction.trigger, recorded, testable, off_by, why, above)

    start, micro = epoch_at(facts, at).start, compaction.kind == "micro"
    if micro:
        start = max(start, find_last_rewrite(facts, at - 1))
    get_point = attrgetter("at")
    earlier_states = states[bisect_right(states, start, key=get_point) : bisect_left(states, at, key=get_point)]
    if backtest_trigger.policy.name == NO_POLICY:
        return build_result("its agent has no preset")
    if compaction.trigger == "manual":
        return build_result("requested by the user")
    if not any(start <= message < at for message in facts.request_message):
        return build_result("no size was recorded earlier in its context")
    sizes = [state.recorded_usage.context for state in earlier_states if state.recorded_usage]
    context = session.context_at(at)
    if micro:
        replacements = {row: body for row, body in context.replacements.items() if row not in compaction.cleared_blocks}
        context = replace(context, replacements=replacements, last_rewrite=find_last_rewrite(facts, at - 1), memo={})
    state_now = build_runtime_state(context, session.window_at(at), len(session))
    trigger_now, checks = backtest_trigger(state_now), [(state, backtest_trigger(state)) for state in earlier_states]
    above, is_in_file = max(sizes, default=0), recorded is not None
    if not is_in_file and trigger_now.unit == "tokens":
        recorded = trigger_now.value
        above = max([above, *(trigger.value for _, trigger in checks if trigger.value is not None)])
    for state, trigger in checks:
        if trigger.fires and (not micro or backtest_trigger.clears_anything(session.context_at(state.at), state)):
            early = bisect_left(calls, at) - bisect_left(calls, state.at)
            calls_earlier = "1 call" if early == 1 else f"{early:,} calls"
            return build_result(f"it fires {calls_earlier} earlier", testable=True, off_by=-early, above=above)
    is_reached = recorded is not None and trigger_now.threshold is not None and recorded >= trigger_now.threshold
    if trigger_now.fires or is_reached:
        if micro and not backtest_trigger.clears_anything(context, state_now):
            return build_result("it fires there, but finds too little to clear", testable=True, above=above)
        return build_result("it fires there", testable=True, off_by=0, above=above)
    file_text = f"the file says {recorded:,}; " if is_in_file and recorded != trigger_now.value else ""
    return build_result(f"it does not fire there: {file_text}{trigger_now.reason}", testable=True, above=above)


def _predict_sizes_after(recording: Recording, checkpoint: Checkpoint) -> _SizesAfter:
    """Map each full compaction's message to the recorded and the predicted size of the first request after it."""
    if _predict_sizes_after not in recording.memo:
        session, table = recording.session, build_calibrated_table(recording.session.facts, checkpoint)
        sizes: _SizesAfter = {}
        for compaction in find_recorded_compactions(session):
            if compaction.kind == "full":
                checkpoint()
                predicted = predict_size_after(compaction, table)
                sizes[compaction.message] = compaction.recorded_tokens_after, predicted.tokens if predicted else None
        recording.memo[_predict_sizes_after] = sizes
    result: _SizesAfter = recording.memo[_predict_sizes_after]
    return result


def find_explaining_threshold(results: Sequence[BacktestResult]) -> ThresholdInterval | None:
    """Return the thresholds that explain the most compactions, or None if no result has usable sizes."""
    cases = [
        (result.above or 0, result.recorded) for result in results if result.testable and result.recorded is not None
    ]
    spans = [(low, high) for low, high in cases if low < high]
    if not spans:
        return None
    _, best = max((sum(low < threshold <= high for low, high in spans), threshold) for _, threshold in spans)
    explained = [(low, high) for low, high in spans if low < best <= high]
    lows, highs = zip(*explained, strict=True)
    return ThresholdInterval(max(lows), min(highs), len(explained), len(cases))


class PolicyBacktest(NamedTuple):
    """An agent's policy, compared with the recorded compactions of one kind.

    Attributes:
        results: one for each case, with the threshold that the policy had in the agent's version at that time.
        threshold: the thresholds that explain the most compactions, or None if unknown.
        fitted_results: one for each case, with the highest of these thresholds; empty if unknown.
    """

    policy: str
    cases: list[BacktestCase]
    results: list[BacktestResult]
    threshold: ThresholdInterval | None
    fitted_results: list[BacktestResult]

    @property
    def former_settings(self) -> list[str]:
        """Parameters that a case had and that differ from the current defaults, as ``KEY=VALUE``."""
        texts = (format_assignments(find_changed_params(case.params)) for case in self.cases)
        return list(dict.fromkeys(chain.from_iterable(texts)))


def run_backtests(recording: Recording, checkpoint: Checkpoint = lambda: None) -> list[PolicyBacktest]:
    """Compare recorded compactions with the agent's policies; without a preset, full ones have only predicted sizes."""
    backtests = list[PolicyBacktest]()
    own_policies = list_own_policies(recording.facts.agent or recording.session.info.format)
    for kind, name in {**own_policies, "full": own_policies.get("full", NO_POLICY)}.items():
        cases: dict[str, list[BacktestCase]] = {}
        for compaction in recording.session.facts.compactions:
            if compaction.kind == kind:
                policy_name, params = find_policy_of_version(name, compaction.version)
                case = BacktestCase(compaction, POLICIES[policy_name].Params(**params))
                cases.setdefault(policy_name, []).append(case)
        for policy_name, policy_cases in cases.items():
            policy = POLICIES[policy_name]
            results = backtest_policy(recording, policy, policy_cases, checkpoint=checkpoint)
            threshold = find_explaining_threshold(results)
            fitted = backtest_policy(recording, policy, policy_cases, threshold.most, checkpoint) if threshold else []
            backtests.append(PolicyBacktest(policy_name, policy_cases, results, threshold, fitted))
    return backtests
