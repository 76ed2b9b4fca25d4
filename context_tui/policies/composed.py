"""A policy that is data: rules of shared parts, run in order, with parameters for the numbers that they set."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

from pydantic import create_model

from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import BasePolicy, Belief, Params, Policy, nothing
from context_tui.policies.in_order import Steps, any_background, any_trigger, plan_in_order
from context_tui.policies.parameters import params_for
from context_tui.policies.parts.changing import changing
from context_tui.policies.parts.keeping import Limits
from context_tui.policies.parts.part import Path, field_of, settings_of, with_values
from context_tui.policies.parts.rules import Borrowed, Rule, Spec
from context_tui.policies.parts.shortening import shortening
from context_tui.policies.registry import policy_named
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.session.values import MessageFlag
from context_tui.tokens.context_index import index_context

_TRIGGER_ONLY = ("trigger", "size")
"""Parts of a rule that only its trigger reads."""


class Place(NamedTuple):
    """Where a parameter's value goes: to which rule, and there to a place in a part or a parameter of a policy."""

    rule: int
    path: Path


class Composed(BasePolicy):
    """A policy made of a :class:`Spec`: one rule of parts, or several that are steps of it.

    Its attributes are of the instance, as there is one class for all of them; :func:`composed` gives it as a policy.
    """

    def __init__(self, spec: Spec) -> None:
        """Make the parameters of what the rules set.

        Raises:
            PlanError: a rule is a policy that there is not, or sets a parameter that it has not.
        """
        self.spec = spec
        self.name, self.about, self.runtime = spec.name, spec.about, spec.runtime  # type: ignore[misc]
        self.source, self.version, self.limits = spec.source, spec.version, spec.limits  # type: ignore[misc]
        self._borrowed = {
            number: policy_named(rule.policy) for number, rule in enumerate(spec.rules) if isinstance(rule, Borrowed)
        }
        others = len(self._borrowed) == len(spec.rules) > 0 and "phases" not in spec.model_fields_set
        own = () if others else spec.phases
        self.phases = frozenset(own).union(*(policy.phases for policy in self._borrowed.values()))
        self.Params, self._places = _params_of(spec, self._borrowed)
        self.flat_curves = frozenset(  # type: ignore[misc]
            name for name, places in self._places.items() if all(self._only_triggers(place) for place in places)
        )
        by_turns = len(spec.rules) == 1 and all(isinstance(rule, Rule) and rule.by_turns for rule in spec.rules)
        self.waits_for = MessageFlag.TURN_START if by_turns else 0  # type: ignore[misc]
        self.needs_trigger = any(policy.needs_trigger for policy in self._borrowed.values())  # type: ignore[misc]

    def _only_triggers(self, place: Place) -> bool:
        """Whether a value is read by the trigger only."""
        if place.rule in self._borrowed:
            return False
        rule = self.spec.rules[place.rule]
        if place.path[0] == "summarise":
            return True
        by_limit = isinstance(rule, Rule) and rule.keep.share_of_trigger is not None
        return len(self.spec.rules) == 1 and place.path[0] in _TRIGGER_ONLY and not by_limit

    @cached_property
    def _steps(self) -> list[Policy]:
        """A policy for each rule, where there are several or it is another's."""
        if len(self.spec.rules) < 2 and not self._borrowed:
            return []
        made = []
        for number, rule in enumerate(self.spec.rules):
            if isinstance(rule, Borrowed):
                made.append(self._borrowed[number])
                continue
            name = f"{self.spec.name}-{rule.name or rule.action}"
            made.append(composed(self.spec.model_copy(update={"name": name, "rules": (rule,), "limits": ()})))
        return made

    @cached_property
    def _set(self) -> Any:
        """What a rule is with other values, kept for the settings that were asked for last."""
        return _kept(self._rule_with)

    @cached_property
    def _stepped(self) -> Any:
        """The steps with their parameters, kept for the settings that were asked for last."""
        return _kept(self._steps_with)

    def _values(self, params: Params, number: int) -> dict[Path, Any]:
        """The values of one rule, by their places."""
        return {
            place.path: getattr(params, name)
            for name, places in self._places.items()
            for place in places
            if place.rule == number
        }

    def _rule_with(self, params: Params) -> Rule:
        return cast(Rule, with_values(cast(Rule, self.spec.rules[0]), self._values(params, 0)))

    def _steps_with(self, params: Params) -> list[tuple[Policy, Params]]:
        found = []
        for number, (policy, rule) in enumerate(zip(self._steps, self.spec.rules, strict=True)):
            values = self._values(params, number)
            if isinstance(rule, Borrowed):
                options = {str(path[0]): value for path, value in values.items()}
            else:
                own = {each.path: each.name for each in _numbered(rule)}
                options = {own[path]: value for path, value in values.items()}
            found.append((policy, policy.Params.model_construct(**options)))
        return found

    def steps(self, params: Any) -> Steps:
        """Its rules as policies, in order; none where it has one rule of parts."""
        return self._stepped(params) if self._steps else []

    def believed(self, state: RuntimeState) -> Belief | None:
        if self._steps:
            known = (policy.believed(state) for policy in self._steps)
            return next((each for each in known if each is not None), None)
        if not self.spec.rules:
            return None
        rule = cast(Rule, self.spec.rules[0])
        return rule.size.of(state) if rule.trigger.looks_at_size() else None

    def hint(self, context: Context) -> str:
        hints = (policy.hint(context) for policy in self._steps)
        return next(filter(None, hints), "")

    def derived(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """What a policy that it runs derives."""
        for place in self._places[name]:
            if place.rule in self._borrowed:
                policy, options = self.steps(params)[place.rule]
                return policy.derived(str(place.path[0]), options, context, state)
        return None

    def end(self, name: str, params: Any, context: Context) -> int | None:
        """Where a parameter of a policy that it runs ends."""
        for place in self._places[name]:
            if place.rule in self._borrowed:
                policy, options = self.steps(params)[place.rule]
                return policy.end(str(place.path[0]), options, context)
            if place.path == ("keep", "every"):
                return len(index_context(context).results.block) + 2
        return None

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        if self._steps:
            return any_trigger(self.steps(params), state)
        if not self.spec.rules:
            return Trigger(False, "it never runs", source="the rule")
        rule: Rule = self._set(params)
        return rule.trigger.holds(rule.size, state)

    def background(self, state: RuntimeState, params: Any) -> bool:
        if self._steps:
            return any_background(self.steps(params), state)
        if not self.spec.rules:
            return False
        rule: Rule = self._set(params)
        return rule.summarise is not None and rule.summarise.background and self.trigger(state, params).fires

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """What its rules would do, one after another; where one fires, those that do."""
        if self._steps:
            return plan_in_order(self.name, params, self.steps(params), context, replace(state, firing_only=True))
        if not self.spec.rules:
            return nothing(self.name, params, context, self.trigger(state, params), "it does nothing")
        rule: Rule = self._set(params)
        window = rule.trigger.window(state)
        size, known = rule.size, state.window.is_known
        limits = Limits(window, rule.trigger.limit(state) or window, known, size.bytes_per_token, size.per_message)
        does = shortening if rule.shortens else changing
        return does(self.name, rule, params, context, rule.trigger.holds(size, state), limits)


def _kept(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """*make* with what it made of the last settings; the very last ones are known without comparing them."""
    among = lru_cache(maxsize=64)(make)
    last: tuple[Any, Any] = None, None

    def made(params: Any) -> Any:
        nonlocal last
        found = last  # another thread may ask for other settings meanwhile
        if found[0] is not params:
            found = last = params, among(params)
        return found[1]

    return made


def composed(spec: Spec) -> Policy:
    """The policy that a spec describes.

    Raises:
        PlanError: a rule is a policy that there is not, or sets a parameter that it has not.
    """
    return cast(Policy, Composed(spec))


def _numbered(rule: Rule) -> list[Any]:
    """The settings of a rule; of two with one name the second has a number."""
    found, taken = [], dict[str, int]()
    for each in settings_of(rule):
        taken[each.name] = count = taken.get(each.name, 0) + 1
        found.append(each if count == 1 else each._replace(name=f"{each.name}_{count}"))
    return found


def _params_of(spec: Spec, borrowed: dict[int, Policy]) -> tuple[type[Params], dict[str, list[Place]]]:
    """The parameters of a spec, and where the value of each goes.

    A name that several rules have is one parameter where they set the same value; else each has its rule before it.
    """
    found: list[tuple[str, int, Path, Any, Any]] = []
    for number, rule in enumerate(spec.rules):
        if isinstance(rule, Borrowed):
            found += _of_policy(number, rule, borrowed[number])
        else:
            for each in _numbered(rule):
                kind, field = field_of(each)
                found.append((each.name, number, each.path, kind, field))
    defaults: dict[str, set[str]] = {}
    for name, _, _, _, field in found:
        defaults.setdefault(name, set()).add(repr(field.default))
    fields: dict[str, Any] = {}
    places: dict[str, list[Place]] = {}
    for name, number, path, kind, field in found:
        if len(defaults[name]) > 1:
            name = f"{_called(spec, number)}_{name}"
        fields.setdefault(name, (kind, field))
        places.setdefault(name, []).append(Place(number, path))
    title = "".join(part.capitalize() for part in spec.name.replace("_", "-").replace(".", "-").split("-"))
    return create_model(f"{title}Params", __base__=Params, **fields), places


def _called(spec: Spec, number: int) -> str:
    """A rule as the names of its parameters call it."""
    rule = spec.rules[number]
    name = rule.policy if isinstance(rule, Borrowed) else rule.name or rule.action
    return name.replace("-", "_").replace(".", "_")


def _of_policy(number: int, rule: Borrowed, policy: Policy) -> list[tuple[str, int, Path, Any, Any]]:
    """The parameters of a policy that is a rule, with the defaults that the rule gives them.

    Raises:
        PlanError: it has not such a parameter, or runs others itself.
    """
    if policy.nests or policy.marked:
        raise PlanError(f"{policy.name} cannot be a rule; name the policies that it runs")
    values = params_for(policy, rule.params)
    found: list[tuple[str, int, Path, Any, Any]] = []
    for name, field in policy.Params.model_fields.items():
        field = copy(field)
        field.default = getattr(values, name)
        found.append((name, number, (name,), field.annotation, field))
    return found
