"""Policies side by side along one session: which, at which settings, where the cursor is, and what is known by now.

Knows no widget and no thread: whoever computes asks for what is ``wanted`` and hands back what came of it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.replay.own import PolicyBacktest
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling, Firing, Replay
from context_tui.lab.replay.words import format_policy_label
from context_tui.lab.study import StudySettings
from context_tui.policies.base import Params
from context_tui.policies.parameters import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.tui.context_events import ContextEvent, find_context_events
from context_tui.tui.screens.replay.measured import Measured, Shared
from context_tui.tui.view import View

MOST = 12
"""Policies side by side, at most."""


class Setting(NamedTuple):
    """All that a replay depends on: a policy, its settings as JSON, and those of every replay."""

    policy: str
    values: str
    how: StudySettings


@dataclass(eq=False)
class Lane:
    """A policy that is compared: ``view`` holds its name and settings, ``made`` what was computed last.

    That may be of other settings, for as long as what is wanted is being computed; ``trouble`` says why there is none.
    """

    view: View
    made: Measured | None = None
    trouble: str = ""
    made_for: Setting | None = None

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.view.policy

    @property
    def values(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
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
        """The policy and what is set."""
        try:
            return format_policy_label(self.policy, self.params)
        except PlanError:
            return self.policy

    @property
    def replay(self) -> Replay | None:
        """The policy along the recording, as far as it is known."""
        return self.made.replay if self.made else None


class Wanted(NamedTuple):
    """A replay that is to be computed, for a lane; or of one that was ``made``, its price and its regret."""

    lane: Lane
    setting: Setting
    params: Params
    made: Measured | None = None


class Comparison:
    """What the replay screen shows.

    Attributes:
        lanes: the policies that are compared; there is always one. ``selected`` is the number of one.
        how: what every replay is made with: what becomes of recorded compactions, and what summaries are like.
        recording: what all replays share; None until it is prepared.
        call: the number of the call that the cursor is on.
        shared: what prices and regrets share; None until it is known.
        turn: held by the thread that replays: replays of one recording put their summaries into the same facts.
    """

    def __init__(self, view: View, before: Comparison | None = None) -> None:
        """Begin with the policy of *view*, beside those that were compared *before*, of this session or of another."""
        view = replace(view, at=None, applied=None)
        self.session: Session = view.session
        self.lanes, self.selected, self.call = [Lane(view)], 0, 0
        self.how = StudySettings()
        self.recording: Recording | None = None
        self.shared: Shared | None = None
        self.turn = Lock()
        self._events: dict[int, list[ContextEvent]] | None = None
        self._firings: tuple[Replay, list[int]] | None = None
        self._whole: Context | None = None
        if before is not None:
            self._follow(before, view)

    def _follow(self, before: Comparison, view: View) -> None:
        """Compare what was compared before; the selected one is what *view* has chosen."""
        here, same = _values(view), before.session is view.session
        self.how = before.how
        self.selected = next((n for n, lane in enumerate(before.lanes) if _values(lane.view) == here), before.selected)
        self.lanes = before.lanes if same else [Lane(replace(each.view, session=view.session)) for each in before.lanes]
        self.lane.view = view
        if same:
            self.recording, self.turn, self.call = before.recording, before.turn, before.call
            self.shared = before.shared

    # What is known

    @property
    def lane(self) -> Lane:
        """The selected policy."""
        return self.lanes[self.selected]

    @property
    def replay(self) -> Replay | None:
        """The selected policy along the recording, as far as it is known."""
        return self.lane.replay

    @property
    def calls(self) -> int:
        """How many calls there are; 0 until that is known."""
        return len(self.recording.calls) if self.recording else 0

    @property
    def recorded(self) -> CompactionHandling:
        """What becomes of the compactions that the recording holds."""
        return self.how.recorded

    @property
    def backs(self) -> Sequence[PolicyBacktest]:
        """How the agent's own policies fare against its compactions; none until that is known."""
        return self.shared.backs if self.shared else ()

    @property
    def is_estimated(self) -> bool:
        """Whether the session has no recorded size at all."""
        return self.recording is not None and not any(self.recording.recorded_sizes)

    @property
    def waits(self) -> bool:
        """Whether the selected policy is still being computed."""
        return self._is_wanted(self.lane)

    def prepared(self, recording: Recording) -> None:
        """What all replays share is there."""
        self.recording = recording

    def look_at(self, message: int) -> None:
        """Move the cursor to the first call from a message on, or to the last one there is."""
        if self.recording is not None:
            self.go(bisect_left(self.recording.calls, message, key=lambda call: call.message))

    def setting_of(self, lane: Lane) -> Setting:
        """What the replay of a policy depends on."""
        return Setting(*_values(lane.view), self.how)

    def _is_wanted(self, lane: Lane) -> bool:
        return lane.made_for != self.setting_of(lane)

    def wanted(self) -> Wanted | None:
        """What to compute next, the selected policy first; None where all is known."""
        for lane in (self.lane, *self.lanes):
            if not self._is_wanted(lane):
                continue
            setting = self.setting_of(lane)
            twin = next((each for each in self.lanes if each.made_for == setting), None)
            if twin is not None:
                lane.made, lane.trouble, lane.made_for = twin.made, twin.trouble, setting
                continue
            try:
                return Wanted(lane, setting, lane.params)
            except PlanError as error:
                lane.made, lane.trouble, lane.made_for = None, str(error), setting
        return None

    def unstudied(self) -> Wanted | None:
        """Whose price and regret to compute next, once no replay is wanted; None where all are known or none can be."""
        for lane in (self.lane, *self.lanes):
            made = lane.made
            if self.shared is None or made is None or made.study is not None or self._is_wanted(lane):
                continue
            same = (each.made for each in self.lanes if each.made_for == lane.made_for)
            twin = next((each for each in same if each is not None and each.study is not None), None)
            if twin is None:
                return Wanted(lane, self.setting_of(lane), made.replay.params, made)
            lane.made = twin
        return None

    def take(self, wanted: Wanted, answer: Measured | str) -> bool:
        """Take what was computed, or why it was not; False where nobody needs it any more.

        One for earlier settings is shown until the next is there: it moves while a value is dragged.
        """
        lane, now = wanted.lane, self.setting_of(wanted.lane)
        if wanted.made is not None and wanted.made is not lane.made:
            return False
        if lane not in self.lanes or _kind(now) != _kind(wanted.setting):
            return False
        lane.made, lane.trouble = (None, answer) if isinstance(answer, str) else (answer, "")
        lane.made_for = wanted.setting
        return True

    @property
    def whole(self) -> Context:
        """All messages as one context: what settings could mean anywhere along the recording is to be seen in it."""
        if self.recording is None:
            return self.lane.view.context
        if self._whole is None:
            facts, sent = self.session.facts, self.recording.is_sent
            order = tuple(message for message, is_sent in enumerate(sent) if is_sent)
            self._whole = Context(facts, len(sent), order, 0, {}, content=self.session.content)
        return self._whole

    # The cursor

    @property
    def firing_calls(self) -> list[int]:
        """The calls of the selected policy's firings, each once, in order."""
        made = self.replay
        if made is None:
            return []
        if self._firings is None or self._firings[0] is not made:
            self._firings = made, sorted({firing.call for firing in made.firings})
        return self._firings[1]

    def firings_at(self, call: int) -> list[Firing]:
        """What the selected policy did before a call."""
        return [firing for firing in self.replay.firings if firing.call == call] if self.replay else []

    @property
    def events(self) -> Mapping[int, Sequence[ContextEvent]]:
        """By call, what the recording did to its context since the call before."""
        if self.recording is None:
            return {}
        if self._events is None:
            self._events = {}
            messages = [call.message for call in self.recording.calls]
            for event in find_context_events(self.session):
                call = bisect_left(messages, event.message)
                if call < len(messages):
                    self._events.setdefault(call, []).append(event)
        return self._events

    def move(self, steps: int) -> None:
        """Move the cursor by so many calls."""
        self.go(self.call + steps)

    def go(self, call: int) -> None:
        """Move the cursor to a call, or to the nearest there is."""
        self.call = min(max(call, 0), max(self.calls - 1, 0))

    def to_firing(self, step: int) -> bool:
        """Move the cursor to the next (+1) or the previous (-1) firing, around the ends; False where there is none."""
        found = self.firing_calls
        ahead = [call for call in found if (call > self.call if step > 0 else call < self.call)]
        if around := ahead or found:
            self.call = around[0 if step > 0 else -1]
        return bool(found)

    # What is compared

    def select(self, number: int) -> None:
        """Select a policy."""
        self.selected = min(max(number, 0), len(self.lanes) - 1)

    def choose(self, policy: str) -> None:
        """Put another policy in place of the selected one."""
        if policy != self.lane.policy:
            self.lanes[self.selected] = Lane(self.lane.view.with_policy(policy))

    def set(self, policy: str, name: str, value: Any) -> None:
        """Give a setting of the selected policy another value."""
        self.lane.view = self.lane.view.with_param(policy, name, value)

    def add(self, policy: str) -> bool:
        """Compare one more policy, and select it; the same again begins with its settings. False where it is full."""
        if len(self.lanes) >= MOST:
            return False
        self.lanes.insert(self.selected + 1, Lane(self.lane.view.with_policy(policy)))
        self.selected += 1
        return True

    def remove(self) -> bool:
        """Compare the selected policy no longer; False where it is the only one."""
        if len(self.lanes) == 1:
            return False
        del self.lanes[self.selected]
        self.select(self.selected)
        return True

    def toggle_recorded(self) -> None:
        """Let recorded compactions happen, or undo them."""
        self.how = replace(self.how, recorded="ignore" if self.recorded == "keep" else "keep")

    # The way back

    @property
    def point(self) -> int | None:
        """The message before which the inspector is to plan for the call under the cursor: where a firing there was
        decided, else before its reply.
        """
        if self.recording is None or not self.calls:
            return None
        firings = self.firings_at(self.call)
        return firings[0].decided if firings else self.recording.calls[self.call].message

    @property
    def params(self) -> dict[str, Mapping[str, Any]]:
        """The settings of all policies that were compared; of two of one policy those of the selected one count."""
        found: dict[str, Mapping[str, Any]] = {}
        for lane in (*self.lanes, self.lane):
            chosen = POLICIES[lane.policy]
            names = {lane.policy}
            with suppress(PlanError):
                names |= set(chosen.nested_policies(lane.params) if chosen.nested_field else ())
            found.update({name: lane.view.params[name] for name in names if name in lane.view.params})
        return {**self.lane.view.params, **found}


def _values(view: View) -> tuple[str, str]:
    return view.policy, json.dumps(view.get_settings(view.policy), sort_keys=True)


def _kind(setting: Setting) -> tuple[str, CompactionHandling]:
    """What does not change while a value is dragged."""
    return setting.policy, setting.how.recorded
