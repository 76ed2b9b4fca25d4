"""Policies compared along one session: their settings, the cursor, and their replays, prices and regrets."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

from context_tui.compaction.plan import Trigger
from context_tui.errors import PlanError
from context_tui.lab.price.breaks import CacheBreak
from context_tui.lab.replay.backtest import PolicyBacktest
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT, Firing, Replay, ReplayTotals, format_policy_label
from context_tui.lab.study import Lab, Study, StudySettings
from context_tui.policies.base import Params, Policy, list_nested_policies
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.versions import format_recording_version
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint
from context_tui.tui.jump_points import find_next
from context_tui.tui.terminal.cells import choose_form, shorten_at_word
from context_tui.tui.timeline.context_events import ContextEvent, find_context_events
from context_tui.tui.view import View

InspectorCommand = Callable[[], str]
"""Command that a screen passes to the inspector when it closes; it returns a message for the user."""


@dataclass(frozen=True, eq=False)
class LaneResult:
    """A policy's replay with the totals, price and regret computed from it.

    Attributes:
        thresholds: sizes in tokens, as the runtime counts, at which the policy fired; if it never fired, those at which
            it would fire at the end of the session. Empty if the trigger does not depend on the size.
        study: price and regret; None until computed.
    """

    replay: Replay
    totals: ReplayTotals
    baseline_tokens: int
    thresholds: tuple[int, ...]
    study: Study | None = None


def compute_step_thresholds(policy: Policy, params: Params, state: RuntimeState) -> list[int | None]:
    """Return the size in tokens at which each step fires, None for other kinds of trigger; [] after a PlanError."""
    try:
        steps = policy.steps(params) or [(policy, params)]
        return [_get_token_threshold(step.trigger(state, step_params)) for step, step_params in steps]
    except PlanError:
        return []


def _sort_thresholds(thresholds: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({threshold for threshold in thresholds if threshold is not None}))


def _get_token_threshold(trigger: Trigger) -> int | None:
    return trigger.threshold if trigger.unit == "tokens" else None


MAX_POLICIES = 12


class ReplayKey(NamedTuple):
    """Identity of a replay: the policy, its settings as JSON (``values``), and the settings that all replays share."""

    policy: str
    values: str
    settings: StudySettings


@dataclass(eq=False)
class Lane:
    """One of the policies being compared, with its last result.

    Attributes:
        view: holds the policy's name and settings.
        error: reason why the policy could not be replayed with these settings; empty if it could.
        result_key: key of the settings that ``result`` or ``error`` belongs to; the settings may have changed since.
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
        """The policy's settings whose values differ from the defaults."""
        return self.view.get_settings(self.policy)

    @property
    def params(self) -> Params:
        """All parameters of the policy, defaults included; raises PlanError if ``values`` is not valid."""
        return build_params(POLICIES[self.policy], self.values)

    @property
    def label(self) -> str:
        """The policy's name with its changed settings, or only the name if the settings are not valid."""
        try:
            label = format_policy_label(self.policy, self.params)
            version = format_recording_version(self.policy, self.params, self.view.session.facts)
            source = "yours" if self.view.params.get(self.policy) else version
            return f"{label} ({source})" if source else label
        except PlanError:
            return self.policy


class ReplayTask(NamedTuple):
    """Work for a lane: to replay the policy or, if ``result`` is set, to add a price and a regret to that result."""

    lane: Lane
    key: ReplayKey
    params: Params
    result: LaneResult | None = None


def run_replay(recording: Recording, task: ReplayTask, checkpoint: Checkpoint = lambda: None) -> LaneResult:
    """Replay a policy and compute its totals and thresholds; raises PlanError if it cannot be replayed."""
    policy, params = POLICIES[task.key.policy], task.params
    replay = task.key.settings.replay(recording, policy, params, checkpoint)
    thresholds = _sort_thresholds(_get_token_threshold(firing.plan.trigger) for firing in replay.firings)
    thresholds = thresholds or _sort_thresholds(compute_step_thresholds(policy, params, task.lane.view.runtime_state))
    return LaneResult(replay, replay.totals, sum(replay.baseline), thresholds)


class PolicyComparison:
    """State of the replay screen: policies compared along one session, and a cursor on one of its calls.

    Attributes:
        lanes: the compared policies, at least one; ``selected_number`` is the index of the selected lane.
        recording: data that all replays share; None until prepared.
        lab: data that prices and regrets share; None until prepared.
        replay_lock: held while replaying, because replays of a recording add their summaries to the same facts.
    """

    def __init__(self, view: View, previous: PolicyComparison | None = None) -> None:
        """Compare the policy of *view* with those of a *previous* comparison, which may be of another session."""
        view = replace(view, at=None, applied=None)
        self.session: Session = view.session
        self.lanes, self.selected_number, self.call = [Lane(view)], 0, 0
        self.settings = StudySettings()
        self.recording: Recording | None = None
        self.lab: Lab | None = None
        self.replay_lock = Lock()
        self._context_events: dict[int, list[ContextEvent]] | None = None
        self._full_context: Context | None = None
        if previous is not None:
            self._adopt_policies(previous, view)

    def _adopt_policies(self, previous: PolicyComparison, view: View) -> None:
        """Adopt the policies of *previous*, and select that of *view*; if missing, it replaces the selected one."""
        values = _serialize_values(view)
        self.settings, self.lanes = previous.settings, previous.lanes
        same_values = (n for n, lane in enumerate(self.lanes) if _serialize_values(lane.view) == values)
        self.selected_number = next(same_values, previous.selected_number)
        if previous.session is view.session:
            self.recording, self.replay_lock, self.call = previous.recording, previous.replay_lock, previous.call
            self.lab = previous.lab
        else:
            self.lanes = [Lane(replace(lane.view, session=view.session)) for lane in previous.lanes]
        self.selected_lane.view = view

    # State

    @property
    def selected_lane(self) -> Lane:
        """The lane of the selected policy."""
        return self.lanes[self.selected_number]

    @property
    def replay(self) -> Replay | None:
        """The selected policy's last replay, or None if none was computed or the last one failed."""
        result = self.selected_lane.result
        return result.replay if result else None

    @property
    def call_count(self) -> int:
        """Number of model calls in the recording; 0 until the recording is prepared."""
        return len(self.recording.calls) if self.recording else 0

    @property
    def backtests(self) -> Sequence[PolicyBacktest]:
        """Back-tests for the agent's own policies; empty until the lab is prepared."""
        return self.lab.backtests if self.lab else ()

    @property
    def cache_breaks(self) -> dict[int, CacheBreak]:
        """The cache breaks keyed by call; empty until the lab is prepared."""
        if self.recording is None or self.lab is None:
            return {}
        by_message = {each.message: each for each in self.lab.cache_history.breaks}
        calls = enumerate(self.recording.calls)
        return {number: by_message[call.message] for number, call in calls if call.message in by_message}

    def move_to_message(self, message: int) -> None:
        """Move the cursor to the first call at or after *message*, or to the last call if no call follows."""
        if self.recording is not None:
            self.move_to_call(bisect_left(self.recording.calls, message, key=lambda call: call.message))

    def build_key(self, lane: Lane) -> ReplayKey:
        """Return the key of a replay with the lane's present settings."""
        return ReplayKey(*_serialize_values(lane.view), self.settings)

    def is_outdated(self, lane: Lane) -> bool:
        """Return whether a policy has yet to be replayed with its present settings."""
        return lane.result_key != self.build_key(lane)

    def choose_replay_task(self) -> ReplayTask | None:
        """Return the next replay to compute, starting with the selected policy, or None if all are up to date."""
        for lane in (self.selected_lane, *self.lanes):
            if not self.is_outdated(lane):
                continue
            key = self.build_key(lane)
            equal_lane = next((other for other in self.lanes if other.result_key == key), None)
            if equal_lane is not None:
                lane.result, lane.error, lane.result_key = equal_lane.result, equal_lane.error, key
                continue
            try:
                return ReplayTask(lane, key, lane.params)
            except PlanError as error:
                lane.result, lane.error, lane.result_key = None, str(error), key
        return None

    def choose_study_task(self) -> ReplayTask | None:
        """Return the next task that adds a price and a regret, or None if none can be computed now."""
        for lane in (self.selected_lane, *self.lanes):
            result = lane.result
            if self.lab is None or result is None or result.study is not None or self.is_outdated(lane):
                continue
            equal_results = (other.result for other in self.lanes if other.result_key == lane.result_key)
            priced_result = next((equal for equal in equal_results if equal is not None and equal.study), None)
            if priced_result is None:
                return ReplayTask(lane, self.build_key(lane), result.replay.params, result)
            lane.result = priced_result
        return None

    def update(self, task: ReplayTask, result: LaneResult | str) -> bool:
        """Store the result or error of a task, even for earlier settings; return False if it is not needed any more."""
        lane, key = task.lane, self.build_key(task.lane)
        if task.result is not None and task.result is not lane.result:
            return False
        is_same_policy = (key.policy, key.settings.recorded) == (task.key.policy, task.key.settings.recorded)
        if lane not in self.lanes or not is_same_policy:
            return False
        lane.result, lane.error = (None, result) if isinstance(result, str) else (result, "")
        lane.result_key = task.key
        return True

    @property
    def full_context(self) -> Context:
        """A context that holds every message sent, so that the ranges of settings cover the whole recording."""
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
        """Indices of the calls before which the selected policy fires, in order; empty without a replay."""
        return sorted({firing.call for firing in self.replay.firings}) if self.replay else []

    def get_firings(self, call: int) -> list[Firing]:
        """Return the selected policy's firings just before *call*; empty if the policy does not fire there."""
        return [firing for firing in self.replay.firings if firing.call == call] if self.replay else []

    @property
    def context_events(self) -> Mapping[int, Sequence[ContextEvent]]:
        """The context events recorded since the previous call, keyed by call; calls without events are missing."""
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
        """Move the cursor by *steps* calls, backwards if negative, stopping at the first or last call."""
        self.move_to_call(self.call + steps)

    def move_to_call(self, call: int) -> None:
        """Move the cursor to *call*, or to the first or last call if *call* is out of range."""
        self.call = min(max(call, 0), max(self.call_count - 1, 0))

    def move_to_firing(self, step: int) -> bool:
        """Move the cursor to the next (+1) or previous (-1) firing, wrapping around; return False if there is none."""
        call = find_next(self.firing_calls, self.call, step)
        if call is not None:
            self.call = call
        return call is not None

    # Compared policies

    def select_lane(self, number: int) -> None:
        """Select the policy at index *number*, or the first or last one if *number* is out of range."""
        self.selected_number = min(max(number, 0), len(self.lanes) - 1)

    def choose_policy(self, policy: str) -> None:
        """Put *policy* in the selected lane, discarding the lane's result; do nothing if the lane already has it."""
        if policy != self.selected_lane.policy:
            self.lanes[self.selected_number] = Lane(self.selected_lane.view.with_policy(policy))

    def set_param(self, policy: str, name: str, value: Any) -> None:
        """Change the setting *name* of *policy* in the selected lane, whose replay is then out of date."""
        self.selected_lane.view = self.selected_lane.view.with_param(policy, name, value)

    def add_policy(self, policy: str) -> bool:
        """Insert *policy* after the selected one and select it; return False if there are already ``MAX_POLICIES``."""
        if len(self.lanes) >= MAX_POLICIES:
            return False
        self.lanes.insert(self.selected_number + 1, Lane(self.selected_lane.view.with_policy(policy)))
        self.selected_number += 1
        return True

    def remove_selected(self) -> bool:
        """Remove the selected policy and select a neighbour; return False, removing nothing, if it is the only one."""
        if len(self.lanes) == 1:
            return False
        del self.lanes[self.selected_number]
        self.select_lane(self.selected_number)
        return True

    def toggle_recorded_compactions(self) -> None:
        """Switch between keeping and undoing recorded compactions, which makes all replays out of date."""
        self.settings = replace(self.settings, recorded="ignore" if self.settings.recorded == "keep" else "keep")

    # Return to the inspector

    @property
    def inspector_point(self) -> int | None:
        """Message before which the inspector would plan for the call under the cursor, or None if there are no calls.

        It is the message before which the selected policy decided to fire, if it fires at that call, else the reply.
        """
        if self.recording is None or not self.call_count:
            return None
        firings = self.get_firings(self.call)
        return firings[0].decided if firings else self.recording.calls[self.call].message

    @property
    def policy_params(self) -> dict[str, Mapping[str, Any]]:
        """Changed settings of all lanes, keyed by policy; if lanes disagree, the selected lane takes precedence."""
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


def format_limits(width: int) -> str:
    """Format the explanation of what a replay cannot show, in the longest form that fits in *width* cells."""
    text = " ".join(REPLAY_LIMITS_TEXT)
    short_text = "It shows what would have been dropped, not what the agent would have done."
    forms = (text, f"{text.partition('. ')[0]}.", short_text)
    return shorten_at_word(choose_form(forms, width), width)
