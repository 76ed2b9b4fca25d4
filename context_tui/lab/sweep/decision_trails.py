"""Decision trails: settings that make the same decisions throughout a recording are replayed once.

A replay is determined by the answers of its policy: whether it fires at a checkpoint, whether it writes in the
background, and what its plan changes. The questions and answers are stored as a tree. Another setting is asked the same
questions without a walk: where it reaches an end, it does the same as the setting that got there first; where it gives
a new answer, it is replayed and its trail is added.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar, cast

from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

T = TypeVar("T")
MAX_KEPT_QUESTIONS = 2_000_000
"""Questions, and messages of contexts, stored per session; later settings are replayed one by one."""

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


class _QuestionNode(Generic[T]):
    """Question, and the node that each answer leads to; most have one."""

    __slots__ = ("first_answer", "first_child", "other_children", "question")

    def __init__(self, question: _Question) -> None:
        self.question = question
        self.first_answer = cast(Hashable, None)
        self.first_child = cast("_QuestionNode[T] | _ReplayEnd[T] | None", None)
        self.other_children: dict[Hashable, _QuestionNode[T] | _ReplayEnd[T]] | None = None

    def find_child(self, answer: Hashable) -> _QuestionNode[T] | _ReplayEnd[T] | None:
        if self.first_child is not None and self.first_answer == answer:
            return self.first_child
        return self.other_children.get(answer) if self.other_children else None

    def add_child(self, answer: Hashable, to: _QuestionNode[T] | _ReplayEnd[T]) -> None:
        if self.first_child is None:
            self.first_answer, self.first_child = answer, to
        else:
            self.other_children = self.other_children or {}
            self.other_children[answer] = to


class _ReplayEnd(NamedTuple, Generic[T]):
    """End of a replay."""

    result: T


class DecisionTrails(Generic[T]):
    """Trails along one recording with one set of options; ``replay_count`` counts the walks."""

    def __init__(self) -> None:
        self.replay_count = 0
        self._roots: dict[Hashable, _QuestionNode[T] | _ReplayEnd[T]] = {}
        self._remaining_room = MAX_KEPT_QUESTIONS
        self._hit_counts: dict[Hashable, tuple[int, int]] = {}

    def replay_or_reuse(self, policy: Policy, params: Params, replay: Callable[[Policy], T]) -> T:
        """Return the result of *replay* for these parameters, or for others that decide the same."""
        steps = _list_steps(policy, params)
        key = (policy.name, *(each.name for each, _ in steps))
        tries, hits = self._hit_counts.get(key, (0, 0))
        if tries >= MIN_TRIES and hits * MIN_HIT_DIVISOR < tries:
            self.replay_count += 1
            return replay(policy)
        node = self._roots.get(key)
        while isinstance(node, _QuestionNode):
            node = node.find_child(node.question.ask(*steps[node.question.step_number]))
        self._hit_counts[key] = tries + 1, hits + (node is not None)
        if node is not None:
            return node.result
        log: list[tuple[_Question, Hashable]] = []
        result = replay(cast(Policy, _RecordedPolicy(policy, steps, log)))
        self.replay_count += 1
        room = sum(1 + (len(question.context) if question.context is not None else 0) for question, _ in log)
        if room <= self._remaining_room:
            self._remaining_room -= room
            self._add_trail(key, log, _ReplayEnd(result))
        return result

    def _add_trail(self, key: Hashable, log: list[tuple[_Question, Hashable]], end: _ReplayEnd[T]) -> None:
        if not log:
            self._roots[key] = end
            return
        node = self._roots.setdefault(key, _QuestionNode(log[0][0]))
        for (_, answer), following in zip(log, [*log[1:], None], strict=True):
            assert isinstance(node, _QuestionNode)
            child = node.find_child(answer)
            if child is None:
                child = end if following is None else _QuestionNode(following[0])
                node.add_child(answer, child)
            node = child


def _list_steps(policy: Policy, params: Params) -> list[tuple[Policy, Params]]:
    """List the policies that run in order, with their parameters; a simple policy is its own only step."""
    return list(policy.steps(params)) or [(policy, params)]


class _RecordedPolicy:
    """Policy whose answers are logged."""

    def __init__(
        self, policy: Policy, steps: list[tuple[Policy, Params]], log: list[tuple[_Question, Hashable]]
    ) -> None:
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
