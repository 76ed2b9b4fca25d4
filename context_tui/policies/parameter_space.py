"""The parameters of a policy in a context: those of the policies that it runs too, where each ends, what lists can
hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from context_tui.policies.base import Params, Policy, find_nested_field, is_session_bound, list_nested_policies
from context_tui.policies.parameters import ListEntry, Parameter, build_parameter, validate_params
from context_tui.policies.registry import LISTED_POLICIES, POLICIES, find_policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.scales import build_scale
from context_tui.session.context import Context, memoize
from context_tui.tokens.context_index import index_context


def list_parameters(policy: Policy, params: BaseModel | None = None) -> list[Parameter]:
    """List the parameters of a policy, then those of the policies that it runs with *params*."""
    parameters = [build_parameter(name, field) for name, field in policy.Params.model_fields.items()]
    for name, inner in _find_nested_policies(policy, params).items() if params is not None else ():
        parameters += [build_parameter(f"{name}.{key}", field) for key, field in inner.Params.model_fields.items()]
    return parameters


def get_value(policy: Policy, params: BaseModel, name: str) -> Any:
    """Return the value of a parameter; ``POLICY.KEY`` is one of a policy that *policy* runs."""
    owner, _, key = name.rpartition(".")
    if not owner:
        return getattr(params, key)
    options: Mapping[str, Any] = getattr(params, find_nested_field(policy)).get(owner, {})
    return options[key] if key in options else POLICIES[owner].Params.model_fields[key].get_default()


def _find_nested_policies(policy: Policy, params: BaseModel) -> dict[str, Policy]:
    return {name: POLICIES[name] for name in dict.fromkeys(list_nested_policies(policy, params)) if name in POLICIES}


def list_parameters_in_context(
    policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> list[Parameter]:
    """List the parameters that can be set, with their scales, implied values and entries in a context."""
    parameters = []
    for each in list_parameters(policy, params):
        if each.kind == "nested":
            continue
        owner = POLICIES[each.owner] if each.owner else policy
        own = owner.Params(**getattr(params, find_nested_field(policy)).get(each.owner, {})) if each.owner else params
        parameters.append(_resolve_in_context(each, owner, own, context, state))
    return parameters


def _resolve_in_context(
    parameter: Parameter, policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> Parameter:
    if parameter.kind == "list":
        return replace(
            parameter,
            entries=_ENTRY_LISTERS[parameter.refers_to](context) if parameter.refers_to in _ENTRY_LISTERS else (),
        )
    if parameter.kind != "number":
        return parameter
    low = parameter.low if parameter.low is not None else 0
    high = parameter.high if parameter.high is not None else max(context.at, 1)
    if parameter.refers_to == "message":
        low, high = min(context.epoch_start, context.at), context.at
    implied_value = policy.implied_value(parameter.label, params, context, state)
    end = policy.slider_max(parameter.label, params, context)
    if end is None:
        end = compute_slider_max(parameter, context, state)
    relevant = max(end, implied_value or 0, getattr(params, parameter.label) or 0)
    scale = build_scale(
        low, high, parameter.default if parameter.default is not None else implied_value, relevant, parameter.unit
    )
    return replace(parameter, scale=scale, implied_value=implied_value)


def compute_slider_max(parameter: Parameter, context: Context, state: RuntimeState) -> int:
    """Return the value beyond which a parameter changes nothing in this context, by its unit."""
    sums, unit = index_context(context), parameter.unit
    if parameter.refers_to == "message":
        return context.at
    if unit == "turns":
        return len(sums.turn_starts) + _has_results_before_turns(context)
    if unit == "results":
        return len(sums.results.block)
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


def _has_results_before_turns(context: Context) -> bool:
    """Return whether there are results before the first turn, which one turn more than there are keeps as well."""
    sums = index_context(context)
    return bool(sums.results.position and sums.turn_starts and sums.results.position[0] < sums.turn_starts[0])


@memoize
def _measure_largest_result(context: Context) -> tuple[int, int]:
    """Return the largest tool result: in tokens, and in bytes of compact JSON."""
    results = index_context(context).results
    return max(results.tokens, default=0), max((context.facts.json_bytes[row] for row in results.block), default=0)


@memoize
def _list_tool_entries(context: Context) -> tuple[ListEntry, ...]:
    """Return the tools with results in the context and the tokens of these, largest first."""
    facts, results = context.facts, index_context(context).results
    tokens: dict[int, int] = {}
    for block, size in zip(results.block, results.tokens, strict=True):
        row = facts.tool[block]
        tokens[row] = tokens.get(row, 0) + size
    sizes = sorted(((size, facts.tools[row]) for row, size in tokens.items() if row >= 0), key=lambda t: (-t[0], t[1]))
    return tuple(ListEntry(name, f"{size:,}") for size, name in sizes)


def _list_policy_entries(context: Context) -> tuple[ListEntry, ...]:
    """List the policies that another one can run: no presets, none with marks or with nested policies."""
    return tuple(
        ListEntry(name)
        for name, policy in LISTED_POLICIES.items()
        if not find_nested_field(policy) and not is_session_bound(policy)
    )


_ENTRY_LISTERS = {"tools": _list_tool_entries, "policies": _list_policy_entries}
"""What a list can hold, by what it refers to."""


def build_params(policy: Policy, values: Mapping[str, Any], option_names: Mapping[str, str] | None = None) -> Params:
    """Parameters from keywords or text; ``POLICY.KEY`` sets one of a policy that *policy* runs.

    Args:
        option_names: by a name that is no parameter, the option that sets what its user means.

    Raises:
        PlanError: a name is unknown or a value is out of its range; the message says which and what is allowed.
    """
    own_values: dict[str, Any] = {}
    steps: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        owner, dot, name = key.rpartition(".")
        if dot and find_nested_field(policy):
            steps.setdefault(owner, {})[name] = value
        else:
            own_values[key] = value
    params = validate_params(policy, own_values, option_names)
    if not find_nested_field(policy):
        return params
    options: dict[str, dict[str, Any]] = dict(getattr(params, find_nested_field(policy)))
    for owner, each in steps.items():
        options[owner] = {**options.get(owner, {}), **each}
    for owner, each in options.items():
        build_params(find_policy(owner), each, option_names)
    return params.model_copy(update={find_nested_field(policy): options})


def find_changed_values(policy: Policy, params: BaseModel) -> dict[str, dict[str, Any]]:
    """Find the values that differ from the defaults, by policy: those of *policy*, and of each policy that it runs."""
    fields = type(params).model_fields
    values = {name: getattr(params, name) for name in fields}
    changed = {name: value for name, value in values.items() if value != fields[name].get_default()}
    nested = changed.pop(find_nested_field(policy), {}) if find_nested_field(policy) else {}
    by_policy = {policy.name: changed} if changed else {}
    for owner, options in nested.items():
        by_policy |= find_changed_values(find_policy(owner), build_params(find_policy(owner), options))
    return by_policy
