"""Policies compared along one session: their settings, the cursor, and their replays, prices and regrets."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

from context_tui.compaction.plan import Trigger
from context_tui.errors import PlanError
from context_tui.lab.price.cache_requests import RecordedCalls as RecordedCalls
from context_tui.lab.price.cache_requests import reconstruct_recorded_calls
from context_tui.lab.price.pricing import price_replay
from context_tui.lab.regret.bound import compute_regret_bound
from context_tui.lab.regret.cases import compute_regret
from context_tui.lab.regret.index import UseIndex, build_use_index
from context_tui.lab.replay.backtest import PolicyBacktest, run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import (
    REPLAY_LIMITS_TEXT,
    CompactionHandling,
    Firing,
    Replay,
    ReplayTotals,
    format_policy_label,
)
from context_tui.lab.replay.walk import replay_recording
from context_tui.lab.study import Study, StudySettings
from context_tui.policies.base import Params, Policy, list_nested_policies
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.tui.terminal.cells import choose_form, shorten_at_word
from context_tui.tui.timeline.context_events import (
    ContextEvent,
    find_context_events,
)
from context_tui.tui.view import View

InspectorCommand = Callable[[], str]
"""Command for the screen below a closed one; it returns a message to show."""


@dataclass(frozen=True, eq=False)
class LaneResult:
    """Replay of a policy, with its totals, price and regret.

    Attributes:
        replay: the replay.
        totals: its totals, in tokens.
        baseline_tokens: tokens sent without the policy.
        thresholds: sizes in tokens, by the runtime's count, at which the policy acted, or if it never did, at which it
            would act at the end of the session; empty if its trigger is no size.
        study: price and regret; None until they are computed.
    """

    replay: Replay
    totals: ReplayTotals
    baseline_tokens: int
    thresholds: tuple[int, ...]
    study: Study | None = None


class RecordingIndex(NamedTuple):
    """Index of a recording: its cache reads, uses of content, and backtests of the agent's own policies."""

    calls: RecordedCalls
    uses: UseIndex
    backtests: list[PolicyBacktest]


def build_recording_index(recording: Recording, checkpoint: Callable[[], object] = lambda: None) -> RecordingIndex:
    """Build the index of recorded calls, later uses and back-tests; *checkpoint* may raise to stop."""
    return RecordingIndex(
        reconstruct_recorded_calls(recording.session),
        build_use_index(recording, checkpoint),
        run_backtests(recording, checkpoint),
    )


def add_study(result: LaneResult, index: RecordingIndex, settings: StudySettings) -> LaneResult:
    """Add the price and the regret to a result."""
    replay = result.replay
    priced = price_replay(replay, recorded=index.calls, shares_prefix=settings.shares_prefix, reuse=settings.reuse)
    regret, bound = compute_regret(replay, index.uses), compute_regret_bound(replay, index.uses)
    return replace(result, study=Study(replay, priced, regret, bound))


def run_replay(
    recording: Recording,
    policy: Policy,
    params: Params,
    settings: StudySettings,
    state: RuntimeState,
    checkpoint: Callable[[], object] = lambda: None,
) -> LaneResult:
    """Replay a policy and compute its totals and thresholds.

    Args:
        settings: treatment of recorded compactions, size and delay of summaries.
        state: runtime state at the end of the session.
        checkpoint: called at every call; it may raise to stop.

    Raises:
        PlanError: the policy cannot be replayed.
    """
    replay = replay_recording(
        recording,
        policy,
        params,
        recorded=settings.recorded,
        summary_tokens=settings.summary_tokens,
        delay=settings.delay,
        checkpoint=checkpoint,
    )
    thresholds = {_get_token_threshold(firing.plan.trigger) for firing in replay.firings}
    limits = tuple(sorted(limit for limit in thresholds if limit is not None))
    limits = limits or compute_thresholds(policy, params, state)
    return LaneResult(replay, replay.totals, sum(replay.baseline), limits)


def compute_thresholds(policy: Policy, params: Params, state: RuntimeState) -> tuple[int, ...]:
    """Compute the sizes in tokens at which a policy or one of its steps acts: unique, ascending."""
    limits = compute_step_thresholds(policy, params, state)
    return tuple(sorted({limit for limit in limits if limit is not None}))


def compute_step_thresholds(policy: Policy, params: Params, state: RuntimeState) -> list[int | None]:
    """Compute the size in tokens at which each step of a policy acts; None where the size does not decide."""
    try:
        triggers = [step.trigger(state, its) for step, its in policy.steps(params) or [(policy, params)]]
    except PlanError:
        return []
    return [_get_token_threshold(each) for each in triggers]


def _get_token_threshold(trigger: Trigger) -> int | None:
    return trigger.threshold if trigger.unit == "tokens" else None


MAX_POLICIES = 12


class ReplayKey(NamedTuple):
    """Everything that a replay depends on: a policy, its settings as JSON, and those of every replay."""

    policy: str
    values: str
    settings: StudySettings


@dataclass(eq=False)
class Lane:
    """Compared policy: ``view`` holds its name and settings, ``result`` the last result.

    ``result_key`` is the key of the result, which differs from that of the settings until they are replayed; ``error``
    is the reason why there is no result.
    """

    view: View
    result: LaneResult | None = None
    error: str = ""
    result_key: ReplayKey | None = None

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.view.policy

    @property
    def values(self) -> dict[str, Any]:
        """Values that differ from the defaults."""
        return self.view.get_settings(self.policy)

    @property
    def params(self) -> Params:
        """The policy's parameters.

        Raises:
            PlanError: there are none for these values.
        """
        return build_params(POLICIES[self.policy], self.values)

    @property
    def label(self) -> str:
        """Policy name and changed settings."""
        try:
            return format_policy_label(self.policy, self.params)
        except PlanError:
            return self.policy

    @property
    def replay(self) -> Replay | None:
        """Last replay of the policy; None until known."""
        return self.result.replay if self.result else None


class ReplayTask(NamedTuple):
    """Replay to compute for a lane or, where ``result`` is set, its price and regret."""

    lane: Lane
    key: ReplayKey
    params: Params
    result: LaneResult | None = None


class Comparison:
    """State of the replay screen.

    Attributes:
        lanes: the compared policies, at least one; ``selected_number`` is the index of the selected one.
        settings: options for all policies: treatment of recorded compactions, size and delay of summaries.
        recording: the data shared by all replays; None until it is prepared.
        call: the number of the call that the cursor is on.
        recording_index: the data shared by prices and regrets; None until known.
        replay_lock: held while replaying, as replays of one recording add their summaries to the same facts.
    """

    def __init__(self, view: View, previous: Comparison | None = None) -> None:
        """Start with the policy of *view*, beside those of the *previous* comparison, of this session or of another."""
        view = replace(view, at=None, applied=None)
        self.session: Session = view.session
        self.lanes, self.selected_number, self.call = [Lane(view)], 0, 0
        self.settings = StudySettings()
        self.recording: Recording | None = None
        self.recording_index: RecordingIndex | None = None
        self.replay_lock = Lock()
        self._context_events: dict[int, list[ContextEvent]] | None = None
        self._firing_calls_cache: tuple[Replay, list[int]] | None = None
        self._full_context: Context | None = None
        if previous is not None:
            self._adopt(previous, view)

    def _adopt(self, previous: Comparison, view: View) -> None:
        """Compare the policies of the *previous* comparison; the one of *view* is selected."""
        here, same = _serialize_values(view), previous.session is view.session
        self.settings = previous.settings
        self.selected_number = next(
            (n for n, lane in enumerate(previous.lanes) if _serialize_values(lane.view) == here),
            previous.selected_number,
        )
        self.lanes = previous.lanes
        if not same:
            self.lanes = [Lane(replace(lane.view, session=view.session)) for lane in previous.lanes]
        self.selected_lane.view = view
        if same:
            self.recording, self.replay_lock, self.call = previous.recording, previous.replay_lock, previous.call
            self.recording_index = previous.recording_index

    # State

    @property
    def selected_lane(self) -> Lane:
        """The selected policy."""
        return self.lanes[self.selected_number]

    @property
    def replay(self) -> Replay | None:
        """Last replay of the selected policy; None until known."""
        return self.selected_lane.replay

    @property
    def call_count(self) -> int:
        """Number of calls; 0 until known."""
        return len(self.recording.calls) if self.recording else 0

    @property
    def recorded_mode(self) -> CompactionHandling:
        """Treatment of recorded compactions."""
        return self.settings.recorded

    @property
    def backtests(self) -> Sequence[PolicyBacktest]:
        """Results of the agent's own policies against its compactions; none until known."""
        return self.recording_index.backtests if self.recording_index else ()

    @property
    def is_estimated(self) -> bool:
        """Whether the session has no recorded size at all."""
        return self.recording is not None and not any(self.recording.recorded_sizes)

    @property
    def is_pending(self) -> bool:
        """Whether the selected policy is still being computed."""
        return self._is_outdated(self.selected_lane)

    def set_recording(self, recording: Recording) -> None:
        """Set the recording that all replays share."""
        self.recording = recording

    def move_to_message(self, message: int) -> None:
        """Move the cursor to the first call from a message on, or to the last one there is."""
        if self.recording is not None:
            self.move_to_call(bisect_left(self.recording.calls, message, key=lambda call: call.message))

    def build_key(self, lane: Lane) -> ReplayKey:
        """Build the key of a policy's replay."""
        return ReplayKey(*_serialize_values(lane.view), self.settings)

    def _is_outdated(self, lane: Lane) -> bool:
        return lane.result_key != self.build_key(lane)

    def choose_replay_task(self) -> ReplayTask | None:
        """Choose the next replay, the selected policy first; None where all are known."""
        for lane in (self.selected_lane, *self.lanes):
            if not self._is_outdated(lane):
                continue
            setting = self.build_key(lane)
            twin = next((each for each in self.lanes if each.result_key == setting), None)
            if twin is not None:
                lane.result, lane.error, lane.result_key = twin.result, twin.error, setting
                continue
            try:
                return ReplayTask(lane, setting, lane.params)
            except PlanError as error:
                lane.result, lane.error, lane.result_key = None, str(error), setting
        return None

    def choose_study_task(self) -> ReplayTask | None:
        """Choose the next price and regret to compute, once no replay is wanted; None where none is left."""
        for lane in (self.selected_lane, *self.lanes):
            result = lane.result
            if self.recording_index is None or result is None or result.study is not None or self._is_outdated(lane):
                continue
            same = (each.result for each in self.lanes if each.result_key == lane.result_key)
            twin = next((each for each in same if each is not None and each.study is not None), None)
            if twin is None:
                return ReplayTask(lane, self.build_key(lane), result.replay.params, result)
            lane.result = twin
        return None

    def update(self, task: ReplayTask, result: LaneResult | str) -> bool:
        """Store a result, or the error of a task; False where it is no longer needed.

        A result for earlier settings is shown until the next one, so that charts move while a value is dragged.
        """
        lane, key = task.lane, self.build_key(task.lane)
        if task.result is not None and task.result is not lane.result:
            return False
        if lane not in self.lanes or _get_drag_key(key) != _get_drag_key(task.key):
            return False
        lane.result, lane.error = (None, result) if isinstance(result, str) else (result, "")
        lane.result_key = task.key
        return True

    @property
    def full_context(self) -> Context:
        """All messages as one context, which shows the range of settings anywhere in the recording."""
        if self.recording is None:
            return self.selected_lane.view.context
        if self._full_context is None:
            facts, sent_flags = self.session.facts, self.recording.is_sent
            order = tuple(message for message, is_sent in enumerate(sent_flags) if is_sent)
            self._full_context = Context(facts, len(sent_flags), order, 0, {}, content=self.session.content)
        return self._full_context

    # Cursor

    @property
    def firing_calls(self) -> list[int]:
        """The calls of the selected policy's firings, each once, in order."""
        replay = self.replay
        if replay is None:
            return []
        if self._firing_calls_cache is None or self._firing_calls_cache[0] is not replay:
            self._firing_calls_cache = replay, sorted({firing.call for firing in replay.firings})
        return self._firing_calls_cache[1]

    def get_firings(self, call: int) -> list[Firing]:
        """Return the firings of the selected policy before a call."""
        return [firing for firing in self.replay.firings if firing.call == call] if self.replay else []

    @property
    def context_events(self) -> Mapping[int, Sequence[ContextEvent]]:
        """Recorded events of the context by call, since the call before."""
        if self.recording is None:
            return {}
        if self._context_events is None:
            self._context_events = {}
            messages = [call.message for call in self.recording.calls]
            for event in find_context_events(self.session):
                call = bisect_left(messages, event.message)
                if call < len(messages):
                    self._context_events.setdefault(call, []).append(event)
        return self._context_events

    def move_cursor(self, steps: int) -> None:
        """Move the cursor by so many calls."""
        self.move_to_call(self.call + steps)

    def move_to_call(self, call: int) -> None:
        """Move the cursor to a call, or to the nearest there is."""
        self.call = min(max(call, 0), max(self.call_count - 1, 0))

    def move_to_firing(self, step: int) -> bool:
        """Move the cursor to the next (+1) or the previous (-1) firing, around the ends; False where there is none."""
        calls = self.firing_calls
        later = [call for call in calls if (call > self.call if step > 0 else call < self.call)]
        if candidates := later or calls:
            self.call = candidates[0 if step > 0 else -1]
        return bool(calls)

    # Compared policies

    def select_lane(self, number: int) -> None:
        """Select a policy."""
        self.selected_number = min(max(number, 0), len(self.lanes) - 1)

    def choose_policy(self, policy: str) -> None:
        """Put another policy in place of the selected one."""
        if policy != self.selected_lane.policy:
            self.lanes[self.selected_number] = Lane(self.selected_lane.view.with_policy(policy))

    def set_param(self, policy: str, name: str, value: Any) -> None:
        """Give a setting of the selected policy another value."""
        self.selected_lane.view = self.selected_lane.view.with_param(policy, name, value)

    def add_policy(self, policy: str) -> bool:
        """Add a policy after the selected one and select it; False where the comparison is full."""
        if len(self.lanes) >= MAX_POLICIES:
            return False
        self.lanes.insert(self.selected_number + 1, Lane(self.selected_lane.view.with_policy(policy)))
        self.selected_number += 1
        return True

    def remove_selected(self) -> bool:
        """Remove the selected policy; False where it is the only one."""
        if len(self.lanes) == 1:
            return False
        del self.lanes[self.selected_number]
        self.select_lane(self.selected_number)
        return True

    def toggle_recorded_compactions(self) -> None:
        """Switch between keeping and undoing recorded compactions."""
        self.settings = replace(self.settings, recorded="ignore" if self.recorded_mode == "keep" else "keep")

    # Return to the inspector

    @property
    def inspector_point(self) -> int | None:
        """Message before which the inspector plans for the call under the cursor: where a firing there was decided,
        else before its reply.
        """
        if self.recording is None or not self.call_count:
            return None
        firings = self.get_firings(self.call)
        return firings[0].decided if firings else self.recording.calls[self.call].message

    @property
    def policy_params(self) -> dict[str, Mapping[str, Any]]:
        """Settings of all compared policies; of two of one policy those of the selected one."""
        params: dict[str, Mapping[str, Any]] = {}
        for lane in (*self.lanes, self.selected_lane):
            policy = POLICIES[lane.policy]
            names = {lane.policy}
            with suppress(PlanError):
                names |= set(list_nested_policies(policy, lane.params))
            params.update({name: lane.view.params[name] for name in names if name in lane.view.params})
        return {**self.selected_lane.view.params, **params}


def _serialize_values(view: View) -> tuple[str, str]:
    return view.policy, json.dumps(view.get_settings(view.policy), sort_keys=True)


def _get_drag_key(setting: ReplayKey) -> tuple[str, CompactionHandling]:
    return setting.policy, setting.settings.recorded


SHORT_LIMITS = "It shows what would have been dropped, not what the agent would have done."


def format_limits(width: int) -> str:
    """Format the limits of a replay in *width* cells."""
    text = " ".join(REPLAY_LIMITS_TEXT)
    forms = (text, f"{text.partition('. ')[0]}.", SHORT_LIMITS)
    return shorten_at_word(choose_form(forms, width), width)
