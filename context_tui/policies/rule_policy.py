"""Policies built from a PolicySpec, with one rule or several that run in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

from pydantic import create_model
from pydantic.fields import FieldInfo

from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies import base
from context_tui.policies.parameters import validate_params
from context_tui.policies.parts.clear_truncate import plan_body_changes
from context_tui.policies.parts.drop_summarise import plan_message_removal
from context_tui.policies.parts.part import RuleSetting, SettingPath, copy_field, iterate_settings, replace_values
from context_tui.policies.parts.protection import SizeLimits
from context_tui.policies.parts.rules import PolicyRule, PolicySpec, Rule
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.steps import PolicySteps, combine_step_triggers, is_any_step_in_background, plan_steps
from context_tui.session.context import Context
from context_tui.session.values import MessageFlag
from context_tui.tokens.context_index import index_context

_TRIGGER_PARTS = ("trigger", "size")
"""Parts of a rule that only its trigger reads."""
PolicyLookup = Callable[[str], base.Policy]
"""Function that finds a policy by name, or raises PlanError."""


class ParameterTarget(NamedTuple):
    """The place that a parameter sets: the number of a rule, and the path to a value in it."""

    rule: int
    path: SettingPath


class RulePolicy(base.BasePolicy):
    """A policy that applies the rules in a :class:`PolicySpec`; several rules run as steps.

    Its attributes belong to the instance, because all specs share this class.
    """

    def __init__(self, spec: PolicySpec, find_policy: PolicyLookup) -> None:
        """Build the parameters from the values that the rules set; raise PlanError if they run an unknown policy."""
        self.spec, self._find_policy = spec, find_policy
        self._cached_rule, self._cached_steps = lru_cache(64)(self._build_rule), lru_cache(64)(self._build_steps)
        self.name, self.about = spec.name, spec.about
        self.runtime, self.kind = spec.runtime, spec.kind  # type: ignore[misc]
        nested = ((number, rule) for number, rule in enumerate(spec.rules) if isinstance(rule, PolicyRule))
        self._nested_by_rule = {number: find_policy(rule.policy) for number, rule in nested}
        only_policies = len(self._nested_by_rule) == len(spec.rules) > 0 and "phases" not in spec.model_fields_set
        phases = () if only_policies else spec.phases
        self.phases = frozenset(phases).union(*(policy.phases for policy in self._nested_by_rule.values()))
        self.Params, self._parameter_targets = _build_params_model(spec, self._nested_by_rule)
        self.flat_curves = frozenset(  # type: ignore[misc]
            name for name, targets in self._parameter_targets.items() if all(map(self._affects_only_trigger, targets))
        )
        rule = spec.rules[0] if len(spec.rules) == 1 else None
        by_turns = isinstance(rule, Rule) and rule.depends_on_turns_only
        self.replan_on = MessageFlag.TURN_START if by_turns else 0  # type: ignore[misc]
        self.needs_trigger = any(policy.needs_trigger for policy in self._nested_by_rule.values())  # type: ignore[misc]

    def _affects_only_trigger(self, target: ParameterTarget) -> bool:
        if target.rule in self._nested_by_rule:
            return False
        rule = self.spec.rules[target.rule]
        if target.path[0] == "summarise":
            return True
        keeps_by_limit = isinstance(rule, Rule) and rule.keep.share_of_trigger is not None
        return len(self.spec.rules) == 1 and target.path[0] in _TRIGGER_PARTS and not keeps_by_limit

    @cached_property
    def _step_policies(self) -> list[base.Policy]:
        if len(self.spec.rules) < 2 and not self._nested_by_rule:
            return []
        policies = list[base.Policy]()
        for number, rule in enumerate(self.spec.rules):
            if isinstance(rule, PolicyRule):
                policies.append(self._nested_by_rule[number])
                continue
            name = f"{self.spec.name}-{rule.name or rule.action}"
            spec = self.spec.model_copy(update={"name": name, "rules": (rule,), "limits": ()})
            policies.append(RulePolicy(spec, self._find_policy))
        return policies

    def _collect_rule_values(self, params: base.Params, number: int) -> dict[SettingPath, Any]:
        pairs = [(name, target) for name, targets in self._parameter_targets.items() for target in targets]
        return {target.path: getattr(params, name) for name, target in pairs if target.rule == number}

    def _build_rule(self, params: base.Params) -> Rule:
        return replace_values(cast(Rule, self.spec.rules[0]), self._collect_rule_values(params, 0))

    def _build_steps(self, params: base.Params) -> list[tuple[base.Policy, base.Params]]:
        steps = []
        for number, (policy, rule) in enumerate(zip(self._step_policies, self.spec.rules, strict=True)):
            values = self._collect_rule_values(params, number)
            if isinstance(rule, PolicyRule):
                options = {str(path[0]): value for path, value in values.items()}
            else:
                names = {setting.path: setting.name for setting in _number_settings(rule)}
                options = {names[path]: value for path, value in values.items()}
            steps.append((policy, policy.Params.model_construct(**options)))
        return steps

    def steps(self, params: Any) -> PolicySteps:
        """Return the rules as policies, in order, or an empty list for a single rule that runs no other policy."""
        return self._cached_steps(params) if self._step_policies else []

    def believed_size(self, state: RuntimeState) -> base.Belief | None:
        if self._step_policies:
            beliefs = (policy.believed_size(state) for policy in self._step_policies)
            return next((belief for belief in beliefs if belief is not None), None)
        if not self.spec.rules:
            return None
        rule = cast(Rule, self.spec.rules[0])
        return rule.size.compute_belief(state) if rule.trigger.depends_on_size() else None

    def hint(self, context: Context) -> str:
        hints = (policy.hint(context) for policy in self._step_policies)
        return next(filter(None, hints), "")

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        target = next((each for each in self._parameter_targets[name] if each.rule in self._nested_by_rule), None)
        if target is None:
            return None
        policy, options = self.steps(params)[target.rule]
        return policy.implied_value(str(target.path[0]), options, context, state)

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        for target in self._parameter_targets[name]:
            if target.rule in self._nested_by_rule:
                policy, options = self.steps(params)[target.rule]
                return policy.slider_max(str(target.path[0]), options, context)
            if target.path == ("keep", "every"):
                return len(index_context(context).results.block) + 2
        return None

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        if self._step_policies:
            return combine_step_triggers(self.steps(params), state)
        if not self.spec.rules:
            return Trigger(False, "it never runs", source="the rule")
        rule = self._cached_rule(params)
        return rule.trigger.check(rule.size, state)

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        if self._step_policies:
            return is_any_step_in_background(self.steps(params), state)
        if not self.spec.rules:
            return False
        rule = self._cached_rule(params)
        return rule.summarise is not None and rule.summarise.background and self.trigger(state, params).fires

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """Plan the rules in order or, if any of them fire, only those that do."""
        if self._step_policies:
            return plan_steps(self.name, params, self.steps(params), context, replace(state, firing_only=True))
        if not self.spec.rules:
            return base.build_empty_plan(self.name, params, context, self.trigger(state, params), "it does nothing")
        rule = self._cached_rule(params)
        window = rule.trigger.compute_window(state)
        limits = SizeLimits(window, rule.trigger.compute_limit(state) or window, state.window.is_known, rule.size)
        plan_rule = plan_message_removal if rule.removes_messages else plan_body_changes
        return plan_rule(self.name, rule, params, context, rule.trigger.check(rule.size, state), limits)


def _number_settings(rule: Rule) -> Iterator[RuleSetting]:
    counts: dict[str, int] = {}
    for setting in iterate_settings(rule):
        counts[setting.name] = count = counts.get(setting.name, 0) + 1
        yield setting if count == 1 else setting._replace(name=f"{setting.name}_{count}")


def _build_params_model(
    spec: PolicySpec, nested_by_rule: dict[int, base.Policy]
) -> tuple[type[base.Params], dict[str, list[ParameterTarget]]]:
    """Build the model of the parameters of a spec, and the targets of each parameter.

    A name in several rules is one parameter if the rules set the same value, else one parameter for each rule.
    """
    entries: list[tuple[str, ParameterTarget, FieldInfo]] = []
    for number, rule in enumerate(spec.rules):
        if isinstance(rule, PolicyRule):
            settings = _iterate_policy_settings(rule, nested_by_rule[number])
        else:
            settings = _number_settings(rule)
        entries += ((each.name, ParameterTarget(number, each.path), each.field) for each in settings)
    defaults: dict[str, set[str]] = {}
    for name, _, field in entries:
        defaults.setdefault(name, set()).add(repr(field.default))
    fields: dict[str, Any] = {}
    targets: dict[str, list[ParameterTarget]] = {}
    for name, target, field in entries:
        if len(defaults[name]) > 1:
            rule = spec.rules[target.rule]
            rule_name = rule.policy if isinstance(rule, PolicyRule) else rule.name or rule.action
            name = f"{rule_name.replace('-', '_').replace('.', '_')}_{name}"
        fields.setdefault(name, (field.annotation, field))
        targets.setdefault(name, []).append(target)
    title = "".join(part.capitalize() for part in spec.name.replace("_", "-").replace(".", "-").split("-"))
    return create_model(f"{title}Params", __base__=base.Params, **fields), targets


def _iterate_policy_settings(rule: PolicyRule, policy: base.Policy) -> Iterator[RuleSetting]:
    """Yield the parameters of a policy that a rule runs, with the rule's values; raises PlanError for unknown names."""
    if base.find_nested_field(policy) or base.is_session_bound(policy):
        raise PlanError(f"{policy.name} cannot be a rule; name the policies that it runs")
    values = validate_params(policy, rule.params)
    for name, field in policy.Params.model_fields.items():
        yield RuleSetting(name, (name,), copy_field(field, getattr(values, name)))
