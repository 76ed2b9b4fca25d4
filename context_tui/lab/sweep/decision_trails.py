"""Decision trails: settings that make the same decisions throughout a recording are replayed once.

A replay is determined by the answers of its policy: whether it fires at a checkpoint, whether it writes in the
background, and what its plan changes. The trail of a replay is these questions with their answers. Another setting is
asked the same questions without a walk: if it gives all answers of a trail, its result is that of the trail.
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
"""Trails stored per policy, the newest first: neighbours in a grid are the most likely to decide the same."""
MIN_TRIES, MIN_HIT_DIVISOR = 12, 4
"""Settings of a policy after which trails are given up, unless one in this many reused another's replay."""


class _Question(NamedTuple):
    """Question to one of the policies that run in order; with a context it asks for a plan."""

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
"""Questions to a policy, with its answers."""


class DecisionTrails(Generic[T]):
    """Trails along one recording with one set of options; ``replay_count`` counts the walks."""

    def __init__(self) -> None:
        self.replay_count = 0
        self._trails: dict[Hashable, deque[tuple[_Log, T]]] = defaultdict(lambda: deque(maxlen=MAX_TRAILS))
        self._hit_counts: dict[Hashable, tuple[int, int]] = {}

    def replay_or_reuse(self, policy: Policy, params: Params, replay: Callable[[Policy], T]) -> T:
        """Return the result of *replay* for these parameters, or for others that decide the same."""
        steps = list(policy.steps(params)) or [(policy, params)]
        key = (policy.name, *(each.name for each, _ in steps))
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
    """Policy whose answers are logged."""

    def __init__(self, policy: Policy, steps: list[tuple[Policy, Params]], log: _Log) -> None:
        self._policy, self._log, self._step_number = policy, log, 0
        if [each for each, _ in steps] != [policy]:
            self.steps = lambda params: [(self._wrap_step(*each), each[1][1]) for each in enumerate(steps)]

    def _wrap_step(self, number: int, step: tuple[Policy, Params]) -> _RecordedPolicy:
        wrapped = _RecordedPolicy(step[0], [step], self._log)
        wrapped._step_number = number
        return wrapped

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
    """Describe the effect of a plan; truncations are identified by the parameters, as their output is unknown."""
    changes: Hashable
    if isinstance(plan.changes, UniformChanges):
        change = plan.changes.change
        changes, rendered = (tuple(plan.changes.rows), change.action, change.body), change.render
    else:
        each = [(row, change.action, change.body) for row, change in plan.changes.items()]
        changes = tuple(each)
        rendered = next((change.render for change in plan.changes.values() if change.render), None)
    params = plan.params.model_dump_json() if rendered else ""
    return changes, plan.dropped_ranges, plan.inserts, plan.summarised_ranges, params
