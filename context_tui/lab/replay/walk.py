"""Replay of a policy along a recorded session, call by call.

The policy acts on the history that its earlier firings produced. Its trigger is checked at the checkpoints of its
runtime, with the believed size that the runtime would compute. The size that the provider would have reported is the
recorded size plus the calibrated difference between the history and the recorded context.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from context_tui.compaction.changes import count_actions
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.lab.replay import result
from context_tui.lab.replay.amounts import ZERO_AMOUNT, Amount, add_amounts, resize_context, subtract_amounts
from context_tui.lab.replay.history import ReplayHistory
from context_tui.lab.replay.packed_plans import pack_plan
from context_tui.lab.replay.recording import Recording
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_recorded_params
from context_tui.policies.registry import find_policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.tokens.accounting import has_valid_size

DEFAULT_SUMMARY_DELAY = 2
"""Default number of calls made while a summary is written in the background."""


def replay(
    session: Session | Recording,
    policy: str,
    *,
    recorded: result.CompactionHandling = "keep",
    summary_tokens: int | None = None,
    delay: int = DEFAULT_SUMMARY_DELAY,
    window: int | None = None,
    **params: Any,
) -> result.Replay:
    """Replay *policy* along *session* as if the runtime had used it, and return sizes, firings and totals.

    Args:
        recorded: whether recorded compactions happen (``keep``) or not (``ignore``).
        summary_tokens: estimated size of a summary in tokens (default: the median of the recorded ones, else 2,000).
        delay: number of calls that the agent makes while a summary is written in the background.
        window: the context window in tokens (default: that of the file).

    Raises:
        PlanError: the policy or a parameter is unknown, or a value is out of range.
    """
    found_policy = find_policy(policy)
    if isinstance(session, Session):
        session = Recording(session.with_window(window) if window is not None else session)
    policy_params = build_recorded_params(found_policy, params, session.facts)
    return replay_recording(
        session, found_policy, policy_params, recorded=recorded, summary_tokens=summary_tokens, delay=delay
    )


def replay_recording(
    recording: Recording,
    policy: Policy,
    params: Params,
    *,
    recorded: result.CompactionHandling = "keep",
    summary_tokens: int | None = None,
    delay: int = DEFAULT_SUMMARY_DELAY,
    checkpoint: Checkpoint = lambda: None,
) -> result.Replay:
    """Replay a policy along a recording that several replays share; see :func:`replay` for arguments and errors."""
    if not policy.phases:
        raise PlanError(f"{policy.name} is applied by hand: it cannot be replayed")
    if recorded not in ("keep", "ignore"):
        raise PlanError(f"recorded={recorded}: must be keep or ignore")
    if delay < 0 or (summary_tokens is not None and summary_tokens <= 0):
        raise PlanError("the delay of a summary must be 0 or more calls, its size 1 or more tokens")
    walk = Walk(recording, policy, params, recorded, summary_tokens or recording.summary_tokens, delay)
    return walk.run(checkpoint)


class _PolicyStep(NamedTuple):
    policy: Policy
    params: Params


@dataclass
class _PendingFiring:
    step: _PolicyStep
    plan: Plan
    decided: int
    message: int
    before: Amount
    after: Amount
    amount_before: Amount
    amount_after: Amount
    summarised_amount: Amount | None
    believed: int


class _BackgroundSummary(NamedTuple):
    step: _PolicyStep
    plan: Plan
    believed: int
    decided: int
    ready_at_call: int  # number of the call before which it is ready


class Walk:
    """The state of one replay while it proceeds along the recording."""

    def __init__(
        self,
        recording: Recording,
        policy: Policy,
        params: Params,
        recorded: result.CompactionHandling,
        summary_tokens: int,
        delay: int,
    ) -> None:
        self.recording, self.policy, self.params, self.recorded = recording, policy, params, recorded
        self.summary_tokens, self.delay = summary_tokens, delay
        self.steps = [_PolicyStep(*each) for each in policy.steps(params)] or [_PolicyStep(policy, params)]
        self.history, self.baseline = ReplayHistory(recording, recorded), get_baseline(recording, recorded)
        self.events = deque(recording.events)
        self.next_event_at = 0  # no event applies before this message
        self.call = 0
        self.calls = iter(recording.calls)
        self.next_call = next(self.calls, None)
        self.sizes: list[int] = []
        self.unchanged_prefixes: list[int] = []
        self.firings = result.Firings()
        self.last_whole_plan: Plan | None = None  # of a firing
        self.pending_firings: list[_PendingFiring] = []
        self.background_summary: _BackgroundSummary | None = None
        self.last_reported: tuple[int, Usage] | None = None  # reply and usage of the last call with a recorded size
        self.nearest_miss: result.NearestMiss | None = None
        self.nearest_share = -1.0  # value of the nearest miss as a share of its threshold
        # By policy, generation and length of the last history for which its plan was empty.
        self.fruitless_plans: dict[str, tuple[int, int]] = {}

    def run(self, checkpoint: Checkpoint) -> result.Replay:
        recording = self.recording
        for message, phases in recording.checkpoints:
            if self.next_event_at <= message:
                self._apply_events(message)
            self.history.append_until(message)
            if not self.policy.phases.isdisjoint(phases):
                self._check_triggers(message, phases)
            if self.next_call is not None and self.next_call.message == message:
                checkpoint()
                if self.next_event_at <= message:
                    self._apply_events(message, silent=True)
                self._send_call(self.next_call)
                self.next_call = next(self.calls, None)
        history = self.history
        return result.Replay(
            recording.session,
            self.policy.name,
            self.params,
            self.recorded,
            recording.calls,
            self.sizes,
            self.baseline.sizes,
            self.unchanged_prefixes,
            self.firings,
            history.removed_by_policy,
            history.removed_by_recording,
            [window.tokens for window in recording.windows],
            None if self.firings else self.nearest_miss,
        )

    def _apply_events(self, message: int, *, silent: bool = False) -> None:
        """Apply the recorded events up to *message*; silent ones at *message* only if *silent*."""
        while self.events and self.events[0].at + (self.events[0].silent and not silent) <= message:
            event, excess_before = self.events.popleft(), self.history.excess
            shifts = self.history.compute_event_shifts(event, [change.plan for change in self.pending_firings])
            took_effect = self.history.update(event)
            if took_effect and event.order is not None:
                self.background_summary = None
                for change in self.pending_firings:  # their context ends here without a call
                    change.before = change.after = self.history.excess
                continue
            shift = subtract_amounts(self.history.excess, excess_before)
            shifts = shifts if took_effect else [shift] * len(shifts)
            for change, (earlier, later) in zip(self.pending_firings, pairwise([*shifts, shift]), strict=True):
                change.before, change.after = add_amounts(change.before, earlier), add_amounts(change.after, later)
        self.next_event_at = self.events[0].at if self.events else result.NEVER_REMOVED

    # Checkpoints

    def _check_triggers(self, message: int, phases: frozenset[str]) -> None:
        if self.background_summary is not None and self.background_summary.ready_at_call <= self.call:
            self._finish_summary(message)
        state, generation = self._build_state(message), self.history.generation
        for step in self.steps:
            if step.policy.phases.isdisjoint(phases):
                continue
            if self.history.generation != generation:
                generation, estimate = self.history.generation, self.history.estimate
                state = replace(
                    state,
                    believed_tokens=estimate,
                    estimated_tokens=estimate,
                    message_count=len(self.history.order),
                    result_count=self.history.results,
                    images=self.history.count_images(),
                    context_rewritten=True,
                )
            trigger = step.policy.trigger(state, step.params)
            if trigger.fires:
                self._fire(step, state, message)
                continue
            share = trigger.value / trigger.threshold if trigger.value is not None and trigger.threshold else 0.0
            if self.nearest_share < min(share, 1.0):
                self.nearest_miss = result.NearestMiss(message if share else None, trigger.reason)
                self.nearest_share = share

    def _build_state(self, message: int) -> RuntimeState:
        history, facts, recording = self.history, self.recording.facts, self.recording
        reply, usage = self.last_reported or (-1, None)
        if usage is None or reply < history.floor:
            believed, usage = history.estimate, None
        else:
            believed = usage.context + history.tokens_before[message] - history.tokens_before[reply]
        last_reply = history.find_last_assistant()
        idle_from = facts.end_time[last_reply] if last_reply >= 0 else -1
        idle = (facts.time[message] - idle_from) / 1000 if 0 <= idle_from <= facts.time[message] else None
        is_call = self.next_call is not None and self.next_call.message == message
        return RuntimeState(
            message,
            believed,
            usage,
            idle,
            at_end=False,
            has_assistant=last_reply >= 0,
            window=recording.windows[self.call] if is_call else recording.session.window_at(message),
            input_includes_cache=facts.input_includes_cache,
            firing_only=True,
            estimated_tokens=history.estimate,
            message_count=len(history.order),
            result_count=history.results,
            images=history.count_images(),
            reply_tokens=history.tokens_before[reply + 1] - history.tokens_before[reply] if usage is not None else 0,
            reasoning_tokens=history.count_past_reasoning(),
        )

    def _fire(self, step: _PolicyStep, state: RuntimeState, message: int) -> None:
        summary, believed = self.background_summary, state.believed_tokens
        if step.policy.runs_in_background(state, step.params):
            if summary is None and (plan := self._make_plan(step, state)) is not None:
                ready_at_call = self.call + self.delay
                self.background_summary = _BackgroundSummary(step, plan, believed, message, ready_at_call)
                if not self.delay:
                    self._finish_summary(message)
        elif summary is not None and summary.step is step:
            self._finish_summary(message)
        elif (plan := self._make_plan(step, state)) is not None:
            self._apply_plan(step, plan, believed, message, message)

    def _make_plan(self, step: _PolicyStep, state: RuntimeState) -> Plan | None:
        history, name, replan_on = self.history, step.policy.name, step.policy.replan_on
        generation, length = self.fruitless_plans.get(name, (-1, -1))
        if replan_on and generation == history.generation:
            flags = self.recording.facts.flags
            if not any(flags[message] & replan_on for message in history.order[length:]):
                self.fruitless_plans[name] = generation, len(history.order)
                return None
        plan = step.policy.plan(history.build_context(), step.params, state)
        self.nearest_share = 1.0
        if plan.has_changes:
            return plan
        self.nearest_miss = result.NearestMiss(state.at, plan.reason)
        self.fruitless_plans[name] = history.generation, len(history.order)
        return None

    def _finish_summary(self, message: int) -> None:
        summary, self.background_summary = self.background_summary, None
        if summary is not None:
            self._apply_plan(summary.step, summary.plan, summary.believed, summary.decided, message)

    def _apply_plan(self, step: _PolicyStep, plan: Plan, believed: int, decided: int, message: int) -> None:
        history, excess_before = self.history, self.history.excess
        summarised: Amount | None = None
        if plan.needs_summary:
            summarised = self.recording.compute_amount(plan.summarised_message_numbers, plan.context.replacements)
        first_changed = history.apply_plan(plan, self.summary_tokens)
        sizes = excess_before, history.excess, *history.split_amount(first_changed), summarised, believed
        self.pending_firings.append(_PendingFiring(step, plan, decided, message, *sizes))

    # Calls

    def _send_call(self, call: result.ModelCall) -> None:
        recording, history = self.recording, self.history
        recorded_amount = subtract_amounts(history.amount, history.excess)
        size = self._compute_size(history.excess, recorded_amount)
        self.unchanged_prefixes.append(self._compute_unchanged_prefix(size))
        self.sizes.append(size)
        if self.call not in recording.side_calls:  # else the next call is the first one that they change
            for change in self.pending_firings:
                self._append_firing(change, size, recorded_amount)
            self.pending_firings.clear()
            history.changed_from = None
        if recording.recorded_sizes[self.call] is not None and has_valid_size(recording.facts, call.request):
            usage = recording.facts.requests[call.request]
            fresh = min(usage.fresh, size)
            usage_reported = Usage(fresh, size - fresh, output=usage.output, output_trusted=usage.output_trusted)
            self.last_reported = call.message, usage_reported
        self.call += 1

    def _compute_size(self, excess: Amount, recorded_amount: Amount) -> int:
        size, baseline_excess = self.baseline.sizes[self.call], self.baseline.excess[self.call]
        if excess == baseline_excess or self.call in self.recording.side_calls:
            return size
        before, after = add_amounts(recorded_amount, baseline_excess), add_amounts(recorded_amount, excess)
        return resize_context(size, self.recording.fixed_sizes[self.call], before, after)

    def _compute_unchanged_prefix(self, size: int) -> int:
        if not self.sizes:
            return 0
        previous_size = self.sizes[-1 - (self.call - 1 in self.recording.side_calls)]
        first_changed, limit = self.history.changed_from, min(size, previous_size)
        if first_changed is None:
            return limit
        return min(limit, self._compute_prefix_before(size, *self.history.split_amount(first_changed)))

    def _compute_prefix_before(self, size: int, amount_before: Amount, amount_after: Amount) -> int:
        """Compute the tokens of a context before the first changed message.

        Content that is not in the file counts as before that message, up to the amount in the first call.
        """
        maximum = self.recording.fixed_sizes[self.call] + amount_before.total
        return max(min(size - amount_after.total, maximum), 0)

    def _append_firing(self, change: _PendingFiring, size: int, recorded_amount: Amount) -> None:
        plan, is_last = change.plan, change.after is self.history.excess
        after = size if is_last else self._compute_size(change.after, recorded_amount)
        summarised = summarizer_input = summarizer_output = 0
        if change.summarised_amount is not None:
            summarised = plan.messages_summarised
            summarizer_input = change.summarised_amount.total
            summarizer_output = self.recording.table.convert_estimate(self.summary_tokens)
        cleared, truncated = count_actions(plan.changes)
        unchanged_prefix = self._compute_prefix_before(after, change.amount_before, change.amount_after)
        before = self._compute_size(change.before, recorded_amount)
        cache_cut = result.CacheCut(unchanged_prefix, summarizer_input, summarizer_output)
        stored_plan = pack_plan(plan, self.last_whole_plan)
        self.last_whole_plan = plan if stored_plan is plan else self.last_whole_plan
        decision = change.message, change.decided, change.step.policy.name, stored_plan
        counts = cleared, truncated, plan.messages_dropped - summarised, summarised
        trigger_size = plan.trigger.value if plan.trigger.unit == "tokens" else None
        reasons = change.believed if trigger_size is None else trigger_size, plan.trigger.reason
        self.firings.append(result.Firing(self.call, *decision, before, after, cache_cut, *counts, *reasons))


class Baseline(NamedTuple):
    """Calls without a policy: the size of each context in tokens, and its excess over the recorded context."""

    sizes: list[int]
    excess: list[Amount]


def get_baseline(recording: Recording, recorded: result.CompactionHandling) -> Baseline:
    """Return the sizes of the calls without a policy, with recorded compactions kept or ignored.

    The first call after an ignored compaction has the size of the previous call plus the calibrated size of the content
    appended since. Later calls grow as recorded, and side calls stay as recorded.
    """
    if recorded not in recording.memo:
        as_recorded = Baseline(recording.sizes, [ZERO_AMOUNT] * len(recording.calls))
        recording.memo[recorded] = _build_undone_baseline(recording) if recorded == "ignore" else as_recorded
    baseline: Baseline = recording.memo[recorded]
    return baseline


def _build_undone_baseline(recording: Recording) -> Baseline:
    history, events = ReplayHistory(recording, "ignore"), iter(recording.events)
    baseline, event = Baseline([], []), next(events, None)
    offset = length = 0  # difference to the recorded size, and number of messages of the previous call
    for number, (call, size) in enumerate(zip(recording.calls, recording.sizes, strict=True)):
        if number in recording.side_calls:
            baseline.sizes.append(size)
            baseline.excess.append(ZERO_AMOUNT)
            continue
        undone, before = False, number - 1 - (number - 1 in recording.side_calls)
        while event is not None and event.at <= call.message:
            history.update(event)
            undone |= event.compaction
            event = next(events, None)
        history.append_until(call.message)
        recorded = size + history.excess.tokens + history.excess.put_back
        if undone and baseline.sizes:
            appended = recording.compute_amount(history.order[length:], {})
            offset = baseline.sizes[before] + appended.tokens - recorded
        baseline.sizes.append(max(recorded + offset, 0))
        baseline.excess.append(history.excess)
        length = len(history.order)
    return baseline
