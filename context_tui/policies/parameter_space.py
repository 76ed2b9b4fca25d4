"""The parameters that can be set for a policy in a given context, including those of the policies that it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from context_tui.policies.base import Params, Policy, find_nested_field, is_session_bound, list_nested_policies
from context_tui.policies.parameters import ListEntry, Parameter, build_parameter, validate_params
from context_tui.policies.registry import POLICIES, find_policy, list_policy_names
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.scales import build_scale
from context_tui.policies.versions import find_recorded_params
from context_tui.session.context import Context, memoize
from context_tui.session.facts import Facts
from context_tui.tokens.context_index import index_context


def list_parameters(policy: Policy, params: BaseModel | None = None) -> list[Parameter]:
    """List the parameters of a policy, followed by those of the policies that it runs with *params*."""
    parameters = [build_parameter(name, field) for name, field in policy.Params.model_fields.items()]
    for name in dict.fromkeys(list_nested_policies(policy, params)) if params is not None else ():
        fields = POLICIES[name].Params.model_fields if name in POLICIES else {}
        parameters += [build_parameter(f"{name}.{key}", field) for key, field in fields.items()]
    return parameters


def get_value(policy: Policy, params: BaseModel, name: str) -> Any:
    """Return the value of the parameter *name*, which may be nested (``POLICY.KEY``)."""
    owner, _, key = name.rpartition(".")
    if not owner:
        return getattr(params, key)
    options: Mapping[str, Any] = getattr(params, find_nested_field(policy)).get(owner, {})
    return options[key] if key in options else POLICIES[owner].Params.model_fields[key].get_default()


def list_parameters_in_context(
    policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> list[Parameter]:
    """List the parameters of a policy with the slider scale, implied value and list entries that fit the context."""
    parameters = []
    for parameter in list_parameters(policy, params):
        owner, owner_params = policy, params
        if parameter.kind == "nested":
            continue
        if parameter.owner:
            owner = POLICIES[parameter.owner]
            owner_params = owner.Params(**getattr(params, find_nested_field(policy)).get(parameter.owner, {}))
        parameters.append(_resolve_in_context(parameter, owner, owner_params, context, state))
    return parameters


def _resolve_in_context(
    parameter: Parameter, policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> Parameter:
    if parameter.kind == "list":
        list_entries = _ENTRY_LISTERS.get(parameter.refers_to)
        return parameter._replace(entries=list_entries(context) if list_entries else ())
    if parameter.kind != "number":
        return parameter
    recorded = find_recorded_params(policy.name, context.facts)
    parameter = parameter._replace(default=recorded.get(parameter.label, parameter.default))
    low = parameter.low if parameter.low is not None else 0
    high = parameter.high if parameter.high is not None else max(context.at, 1)
    if parameter.refers_to == "message":
        low, high = min(context.epoch_start, context.at), context.at
    implied_value = policy.implied_value(parameter.label, params, context, state)
    slider_max = policy.slider_max(parameter.label, params, context)
    if slider_max is None:
        slider_max = compute_slider_max(parameter, context, state)
    slider_max = max(slider_max, implied_value or 0, getattr(params, parameter.label) or 0)
    default = parameter.default if parameter.default is not None else implied_value
    scale = build_scale(low, high, default, slider_max, parameter.unit)
    return parameter._replace(scale=scale, implied_value=implied_value)


def compute_slider_max(parameter: Parameter, context: Context, state: RuntimeState) -> int:
    """Return the value above which a parameter in this unit can no longer change anything in the context."""
    index, unit = index_context(context), parameter.unit
    if parameter.refers_to == "message":
        return context.at
    if unit == "turns":
        turns, results = index.turn_starts, index.results.position
        return len(turns) + bool(results and turns and results[0] < turns[0])  # one more keeps results before turn 1
    if unit == "results":
        return len(index.results.block)
    if unit == "messages":
        return len(context)
    if unit == "tokens" and parameter.of_window:
        return max(state.window.tokens, state.believed_tokens)
    if unit == "tokens":
        return _measure_largest_result(context)[0]
    if unit == "bytes":
        return _measure_largest_result(context)[1]
    if unit == "%":
        return 100
    return 3_600 if unit == "seconds" else 0


@memoize
def _measure_largest_result(context: Context) -> tuple[int, int]:
    results = index_context(context).results
    return max(results.tokens, default=0), max((context.facts.json_bytes[row] for row in results.block), default=0)


@memoize
def _list_tool_entries(context: Context) -> tuple[ListEntry, ...]:
    facts, results = context.facts, index_context(context).results
    tokens: dict[int, int] = {}
    for block, size in zip(results.block, results.tokens, strict=True):
        row = facts.tool[block]
        tokens[row] = tokens.get(row, 0) + size
    sizes = sorted(((size, facts.tools[row]) for row, size in tokens.items() if row >= 0), key=lambda t: (-t[0], t[1]))
    return tuple(ListEntry(name, f"{size:,}") for size, name in sizes)


def _list_policy_entries(context: Context) -> tuple[ListEntry, ...]:
    """List the policies that another policy can run: no presets, and none with marks or nested policies."""
    policies = {name: POLICIES[name] for name in list_policy_names()}
    names = (name for name, each in policies.items() if not find_nested_field(each) and not is_session_bound(each))
    return tuple(map(ListEntry, names))


_ENTRY_LISTERS = {"tools": _list_tool_entries, "policies": _list_policy_entries}
"""Functions that list the possible entries of a list parameter, by :data:`ReferenceKind`."""


def build_params(policy: Policy, values: Mapping[str, Any], option_names: Mapping[str, str] | None = None) -> Params:
    """Build and validate the parameters of a policy from Python values or text; ``POLICY.KEY`` sets a nested one.

    Raises PlanError if a name is unknown, or a value is out of its range. For unknown names, the error suggests
    command-line options from *option_names*.
    """
    nested_field = find_nested_field(policy)
    if not nested_field:
        return validate_params(policy, values, option_names)
    direct_values: dict[str, Any] = {}
    nested_values: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        owner, dot, name = key.rpartition(".")
        if dot:
            nested_values.setdefault(owner, {})[name] = value
        else:
            direct_values[key] = value
    params = validate_params(policy, direct_values, option_names)
    options: dict[str, dict[str, Any]] = dict(getattr(params, nested_field))
    for owner, owner_values in nested_values.items():
        options[owner] = {**options.get(owner, {}), **owner_values}
    for owner, owner_values in options.items():
        build_params(find_policy(owner), owner_values, option_names)
    return params.model_copy(update={nested_field: options})


def build_recorded_params(
    policy: Policy, values: Mapping[str, Any], facts: Facts, option_names: Mapping[str, str] | None = None
) -> Params:
    """Build parameters as ``build_params`` does, taking those that *values* does not set from the recording version."""
    return build_params(policy, {**find_recorded_params(policy.name, facts), **values}, option_names)


def find_changed_values(policy: Policy, params: BaseModel) -> dict[str, dict[str, Any]]:
    """Return the values that differ from the defaults, keyed by the names of *policy* and the policies that it runs."""
    fields = type(params).model_fields
    values = {name: getattr(params, name) for name in fields}
    changed = {name: value for name, value in values.items() if value != fields[name].get_default()}
    nested = changed.pop(find_nested_field(policy), {}) if find_nested_field(policy) else {}
    by_policy = {policy.name: changed} if changed else {}
    for owner, options in nested.items():
        by_policy |= find_changed_values(find_policy(owner), build_params(find_policy(owner), options))
    return by_policy
