"""Decision trails: of the settings that make the same decisions throughout a recording, only one is replayed.

The answers of a policy determine a replay: whether it fires at a checkpoint, whether it summarises in the background,
and what its plan changes. The trail of a replay is the list of these questions with the answers. A setting that gives
the same answers to the questions of a trail has the same result, and needs no replay.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar, cast

from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

T = TypeVar("T")
MAX_TRAILS = 16
"""Trails stored per policy, the newest first, because neighbours in a grid often make the same decisions."""
MIN_TRIES, MIN_HIT_DIVISOR = 12, 4
"""Number of settings after which a policy's trails are used only if at least one in four reused a replay."""


class _Question(NamedTuple):
    """Question to a policy: its plan for a context or, without one, whether it fires or runs in the background."""

    step_number: int
    is_background: bool
    state: RuntimeState
    context: Context | None = None

    def ask(self, policy: Policy, params: Params) -> Hashable:
        if self.context is not None:
            return _describe_plan(policy.plan(self.context, params, self.state))
        if self.is_background:
            return policy.runs_in_background(self.state, params)
        return policy.trigger(self.state, params).fires


_Log = list[tuple[_Question, Hashable]]
"""Questions to a policy with their answers."""


class DecisionTrails(Generic[T]):
    """Trails along one recording with one set of options; ``replay_count`` is the number of replays."""

    def __init__(self) -> None:
        self.replay_count = 0
        self._trails: dict[Hashable, deque[tuple[_Log, T]]] = defaultdict(lambda: deque(maxlen=MAX_TRAILS))
        self._hit_counts: dict[Hashable, tuple[int, int]] = {}

    def replay_or_reuse(self, policy: Policy, params: Params, replay: Callable[[Policy], T]) -> T:
        """Return the result of *replay*, or of an earlier replay with the same decisions."""
        steps = list(policy.steps(params)) or [(policy, params)]
        key = (policy.name, *(step_policy.name for step_policy, _ in steps))
        tries, hits = self._hit_counts.get(key, (0, 0))
        if tries >= MIN_TRIES and hits * MIN_HIT_DIVISOR < tries:
            self.replay_count += 1
            return replay(policy)
        for log, result in self._trails[key]:
            if all(question.ask(*steps[question.step_number]) == answer for question, answer in log):
                self._hit_counts[key] = tries + 1, hits + 1
                return result
        self._hit_counts[key] = tries + 1, hits
        log = []
        result = replay(cast(Policy, _RecordedPolicy(policy, steps, log)))
        self.replay_count += 1
        self._trails[key].appendleft((log, result))
        return result


class _RecordedPolicy:
    def __init__(self, policy: Policy, steps: list[tuple[Policy, Params]], log: _Log) -> None:
        self._policy, self._log, self._step_number = policy, log, 0
        if [step_policy for step_policy, _ in steps] != [policy]:
            wrapped_steps = []
            for number, (step_policy, step_params) in enumerate(steps):
                wrapped = _RecordedPolicy(step_policy, [(step_policy, step_params)], log)
                wrapped._step_number = number
                wrapped_steps.append((wrapped, step_params))
            self.steps = lambda params: wrapped_steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        trigger = self._policy.trigger(state, params)
        self._log.append((_Question(self._step_number, False, state), trigger.fires))
        return trigger

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        answer = self._policy.runs_in_background(state, params)
        self._log.append((_Question(self._step_number, True, state), answer))
        return answer

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        plan = self._policy.plan(context, params, state)
        self._log.append((_Question(self._step_number, False, state, context), _describe_plan(plan)))
        return plan


def _describe_plan(plan: Plan) -> Hashable:
    """Describe the effect of a plan, with the parameters if texts are rendered later."""
    changes: Hashable
    if isinstance(plan.changes, UniformChanges):
        change = plan.changes.change
        changes, is_rendered = (tuple(plan.changes.rows), change.action, change.body), change.render is not None
    else:
        changes = tuple((row, change.action, change.body) for row, change in plan.changes.items())
        is_rendered = any(change.render for change in plan.changes.values())
    params = plan.params.model_dump_json() if is_rendered else ""
    return changes, plan.dropped_ranges, plan.inserts, plan.summarised_ranges, params
