"""Decision trails: settings that decide the same everywhere along a recording are replayed once.

A replay is told by what its policy answers: whether it fires at a look, whether it writes in the background, and what
its plan changes. So the questions that were asked and the answers are kept as a tree. Another setting is asked the same
questions, without walking: where it comes to an end it does the same as the setting that came there before; where it
answers what none answered, it is replayed, and its trail is added.
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
"""Questions, and messages of contexts, that are kept of a session; settings after that are replayed one by one."""

MIN_TRIES, MIN_HIT_DIVISOR = 12, 4
"""Settings of a policy after which nobody is asked any more, where fewer than one in so many did as another did."""


class _Question(NamedTuple):
    """A question to one of the policies that run in order; with a context it is for a plan."""

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
    """A question, and where each answer leads; most have one."""

    __slots__ = ("first_answer", "first_child", "other_children", "question")

    def __init__(self, asked: _Question) -> None:
        self.question, self.first_answer, self.first_child = (
            asked,
            cast(Hashable, None),
            cast("_QuestionNode[T] | _ReplayEnd[T] | None", None),
        )
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
    """Where a replay came to its end."""

    result: T


class DecisionTrails(Generic[T]):
    """The trails along one recording, replayed in one way. ``replay_count`` is how often one had to be walked."""

    def __init__(self) -> None:
        self.replay_count = 0
        self._roots: dict[Hashable, _QuestionNode[T] | _ReplayEnd[T]] = {}
        self._remaining_room = MAX_KEPT_QUESTIONS
        self._hit_counts: dict[Hashable, tuple[int, int]] = {}

    def replay_or_reuse(self, policy: Policy, params: Params, replay: Callable[[Policy], T]) -> T:
        """What *replay* makes of a policy with these parameters, or made of others that do the same."""
        steps = _list_steps(policy, params)
        key = (policy.name, *(each.name for each, _ in steps))
        tried, known = self._hit_counts.get(key, (0, 0))
        if tried >= MIN_TRIES and known * MIN_HIT_DIVISOR < tried:
            self.replay_count += 1
            return replay(policy)
        node = self._roots.get(key)
        while isinstance(node, _QuestionNode):
            node = node.find_child(node.question.ask(*steps[node.question.step_number]))
        self._hit_counts[key] = tried + 1, known + (node is not None)
        if node is not None:
            return node.result
        log: list[tuple[_Question, Hashable]] = []
        made = replay(cast(Policy, _RecordedPolicy(policy, steps, log)))
        self.replay_count += 1
        room = sum(1 + (len(asked.context) if asked.context is not None else 0) for asked, _ in log)
        if room <= self._remaining_room:
            self._remaining_room -= room
            self._add_trail(key, log, _ReplayEnd(made))
        return made

    def _add_trail(self, key: Hashable, log: list[tuple[_Question, Hashable]], end: _ReplayEnd[T]) -> None:
        if not log:
            self._roots[key] = end
            return
        node = self._roots.setdefault(key, _QuestionNode(log[0][0]))
        for (_, answer), following in zip(log, [*log[1:], None], strict=True):
            assert isinstance(node, _QuestionNode)
            then = node.find_child(answer)
            if then is None:
                then = end if following is None else _QuestionNode(following[0])
                node.add_child(answer, then)
            node = then


def _list_steps(policy: Policy, params: Params) -> list[tuple[Policy, Params]]:
    """The policies that run in order, with their parameters: itself, where it is made of no others."""
    return list(policy.steps(params)) or [(policy, params)]


class _RecordedPolicy:
    """A policy whose answers are noted."""

    def __init__(
        self, policy: Policy, steps: list[tuple[Policy, Params]], log: list[tuple[_Question, Hashable]]
    ) -> None:
        self._policy, self._log, self._step_number = policy, log, 0
        if [each for each, _ in steps] != [policy]:
            self.steps = lambda params: [(self._wrap_step(*each), each[1][1]) for each in enumerate(steps)]

    def _wrap_step(self, number: int, step: tuple[Policy, Params]) -> _RecordedPolicy:
        made = _RecordedPolicy(step[0], [step], self._log)
        made._step_number = number
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        found = self._policy.trigger(state, params)
        self._log.append((_Question(self._step_number, False, state), found.fires))
        return found

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        found = self._policy.runs_in_background(state, params)
        self._log.append((_Question(self._step_number, True, state), found))
        return found

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        found = self._policy.plan(context, params, state)
        self._log.append((_Question(self._step_number, False, state, context), _describe_plan(found)))
        return found


def _describe_plan(plan: Plan) -> Hashable:
    """What a plan does. One that cuts texts short says with what parameters: what they leave is not known before."""
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
