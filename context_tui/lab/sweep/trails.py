"""What policies decided along a recording: settings that decide the same everywhere are replayed once.

A replay is told by what its policy answers: whether it fires at a look, whether it writes in the background, and what
its plan changes. So the questions that were asked and the answers are kept as a tree. Another setting is asked the same
questions, without walking: where it comes to an end it does the same as the setting that came there before; where it
answers what none answered, it is replayed, and its trail is added.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar, cast

from context_tui.compaction.changes import AlikeChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

T = TypeVar("T")
ROOM = 2_000_000
"""Questions, and messages of contexts, that are kept of a session; settings after that are replayed one by one."""

ENOUGH, LEAST = 12, 4
"""Settings of a policy after which nobody is asked any more, where fewer than one in so many did as another did."""


class _Asked(NamedTuple):
    """A question to one of the policies that run in order; with a context it is for a plan."""

    step: int
    background: bool
    state: RuntimeState
    context: Context | None = None

    def answer(self, policy: Policy, params: Params) -> Hashable:
        if self.context is not None:
            return _what(policy.plan(self.context, params, self.state))
        if self.background:
            return policy.background(self.state, params)
        return policy.trigger(self.state, params).fires


class _Node(Generic[T]):
    """A question, and where each answer leads; most have one."""

    __slots__ = ("asked", "first", "others", "then")

    def __init__(self, asked: _Asked) -> None:
        self.asked, self.first, self.then = asked, cast(Hashable, None), cast("_Node[T] | _End[T] | None", None)
        self.others: dict[Hashable, _Node[T] | _End[T]] | None = None

    def after(self, answer: Hashable) -> _Node[T] | _End[T] | None:
        if self.then is not None and self.first == answer:
            return self.then
        return self.others.get(answer) if self.others else None

    def lead(self, answer: Hashable, to: _Node[T] | _End[T]) -> None:
        if self.then is None:
            self.first, self.then = answer, to
        else:
            self.others = self.others or {}
            self.others[answer] = to


class _End(NamedTuple, Generic[T]):
    """Where a replay came to its end."""

    made: T


class Trails(Generic[T]):
    """The trails along one recording, replayed in one way. ``replays`` is how often one had to be walked."""

    def __init__(self) -> None:
        self.replays = 0
        self._roots: dict[Hashable, _Node[T] | _End[T]] = {}
        self._room = ROOM
        self._tried: dict[Hashable, tuple[int, int]] = {}

    def of(self, policy: Policy, params: Params, replay: Callable[[Policy], T]) -> T:
        """What *replay* makes of a policy with these parameters, or made of others that do the same."""
        steps = _steps(policy, params)
        key = (policy.name, *(each.name for each, _ in steps))
        tried, known = self._tried.get(key, (0, 0))
        if tried >= ENOUGH and known * LEAST < tried:
            self.replays += 1
            return replay(policy)
        node = self._roots.get(key)
        while isinstance(node, _Node):
            node = node.after(node.asked.answer(*steps[node.asked.step]))
        self._tried[key] = tried + 1, known + (node is not None)
        if node is not None:
            return node.made
        log: list[tuple[_Asked, Hashable]] = []
        made = replay(cast(Policy, _Watched(policy, steps, log)))
        self.replays += 1
        room = sum(1 + (len(asked.context) if asked.context is not None else 0) for asked, _ in log)
        if room <= self._room:
            self._room -= room
            self._add(key, log, _End(made))
        return made

    def _add(self, key: Hashable, log: list[tuple[_Asked, Hashable]], end: _End[T]) -> None:
        if not log:
            self._roots[key] = end
            return
        node = self._roots.setdefault(key, _Node(log[0][0]))
        for (_, answer), following in zip(log, [*log[1:], None], strict=True):
            assert isinstance(node, _Node)
            then = node.after(answer)
            if then is None:
                then = end if following is None else _Node(following[0])
                node.lead(answer, then)
            node = then


def _steps(policy: Policy, params: Params) -> list[tuple[Policy, Params]]:
    """The policies that run in order, with their parameters: itself, where it is made of no others."""
    return list(policy.steps(params)) or [(policy, params)]


class _Watched:
    """A policy whose answers are noted."""

    def __init__(self, policy: Policy, steps: list[tuple[Policy, Params]], log: list[tuple[_Asked, Hashable]]) -> None:
        self._policy, self._log, self._number = policy, log, 0
        if [each for each, _ in steps] != [policy]:
            self.steps = lambda params: [(self._step(*each), each[1][1]) for each in enumerate(steps)]

    def _step(self, number: int, step: tuple[Policy, Params]) -> _Watched:
        made = _Watched(step[0], [step], self._log)
        made._number = number
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        found = self._policy.trigger(state, params)
        self._log.append((_Asked(self._number, False, state), found.fires))
        return found

    def background(self, state: RuntimeState, params: Any) -> bool:
        found = self._policy.background(state, params)
        self._log.append((_Asked(self._number, True, state), found))
        return found

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        found = self._policy.plan(context, params, state)
        self._log.append((_Asked(self._number, False, state, context), _what(found)))
        return found


def _what(plan: Plan) -> Hashable:
    """What a plan does. One that cuts texts short says with what parameters: what they leave is not known before."""
    changes: Hashable
    if isinstance(plan.changes, AlikeChanges):
        change = plan.changes.change
        changes, rendered = (tuple(plan.changes.rows), change.action, change.body), change.render
    else:
        each = [(row, change.action, change.body) for row, change in plan.changes.items()]
        changes = tuple(each)
        rendered = next((change.render for change in plan.changes.values() if change.render), None)
    params = plan.params.model_dump_json() if rendered else ""
    return changes, plan.dropped, plan.inserts, plan.summarised, params
