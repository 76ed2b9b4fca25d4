"""The space of a policy's parameters: what each is and may be, its text there and back, and the values of a range.

Shared by the command line, the panel of settings and sweeps. A parameter of a policy that another one runs is named
``POLICY.KEY``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.registry import LISTED_POLICIES, POLICIES, find_policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.scales import Number, Scale, build_scale, compute_round_values, format_number, parse_number
from context_tui.session.context import Context, memoize
from context_tui.tokens.context_index import index_context

MAX_RANGE_VALUES = 1_000
"""Values that a range may have."""


class ListEntry(NamedTuple):
    """Something to tick: its name, and what stands beside it."""

    name: str
    note: str = ""


@dataclass(frozen=True)
class Parameter:
    """A parameter; ``kind`` is number, switch, list (names), marks (set in the timeline) or nested (of other policies).

    ``low`` and ``high`` are inclusive, None where there is no bound. The rest is known in a context only: ``scale``
    ends where nothing would change any more, ``implied_value`` is what the policy takes where nothing is set, ``entries`` are
    what a list can hold.
    """

    name: str
    kind: str
    about: str
    unit: str
    default: Any
    low: Number | None = None
    high: Number | None = None
    ratio: bool = False
    optional: bool = False
    of_window: bool = False
    refers_to: str = ""
    ordered: bool = False
    scale: Scale | None = None
    implied_value: int | None = None
    entries: tuple[ListEntry, ...] = ()

    @property
    def label(self) -> str:
        """The name without the policy before it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The policy before the name, or nothing."""
        return self.name.rpartition(".")[0]

    @property
    def type(self) -> str:
        """The type of its values, as listings name it."""
        names = {"switch": "boolean", "list": "list", "marks": "list", "nested": "object"}
        kind = names.get(self.kind, "number" if self.ratio else "integer")
        return f"{kind} or null" if self.optional else kind

    def get_effective_value(self, value: Any) -> Any:
        """The number that stands for the value: what is derived where nothing is set."""
        return self.implied_value if value is None else value

    def format_range(self) -> str:
        """Range, unit and default, in words: ``1 to 1,000 turns, default 3``."""
        if self.scale is None:
            return ""
        low, high = format_number(self.scale.low), format_number(self.scale.high)
        unit = f" {self.unit}" if self.unit else ""
        words = f"message {low} to {high}" if self.refers_to == "message" else f"{low} to {high}{unit}"
        return words if self.default is None else f"{words}, default {format_number(self.default)}"


# What there is


def list_parameters(policy: Policy, params: BaseModel | None = None) -> list[Parameter]:
    """The parameters of a policy in the order of its fields, then those of the policies that it runs with *params*."""
    found = [_build_parameter(name, field) for name, field in policy.Params.model_fields.items()]
    for name, inner in _find_nested_policies(policy, params).items() if params is not None else ():
        found += [_build_parameter(f"{name}.{key}", field) for key, field in inner.Params.model_fields.items()]
    return found


def get_value(policy: Policy, params: BaseModel, name: str) -> Any:
    """The value of a parameter; ``POLICY.KEY`` is one of a policy that *policy* runs."""
    owner, _, key = name.rpartition(".")
    if not owner:
        return getattr(params, key)
    options: Mapping[str, Any] = getattr(params, policy.nested_field).get(owner, {})
    return options[key] if key in options else POLICIES[owner].Params.model_fields[key].get_default()


def _find_nested_policies(policy: Policy, params: BaseModel) -> dict[str, Policy]:
    """The policies that a policy runs, as far as there are any of these names."""
    return {name: POLICIES[name] for name in dict.fromkeys(policy.nested_policies(params)) if name in POLICIES}


def _build_parameter(name: str, field: FieldInfo) -> Parameter:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit, refers_to, default = str(extra.get("unit") or ""), str(extra.get("refers_to") or ""), field.get_default()
    low, high = (next((getattr(m, end) for m in field.metadata if hasattr(m, end)), None) for end in ("ge", "le"))
    types = get_args(field.annotation) or (field.annotation,)
    kind = "number"
    if isinstance(default, bool):
        kind = "switch"
    elif isinstance(default, tuple) or get_origin(field.annotation) is tuple:
        kind = "marks" if refers_to == "marks" else "list"
    elif isinstance(default, Mapping):
        kind = "nested"
    return Parameter(
        name,
        kind,
        field.description or "",
        unit,
        default,
        low,
        high,
        ratio=float in types,
        optional=default is None,
        of_window=bool(extra.get("of_window")),
        refers_to=refers_to,
        ordered=bool(extra.get("ordered")),
    )


# In a context


def list_parameters_in_context(
    policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> list[Parameter]:
    """The parameters that can be set, with what is known of them in a context: scales, derived numbers, entries."""
    found = []
    for each in list_parameters(policy, params):
        if each.kind == "nested":
            continue
        owner = POLICIES[each.owner] if each.owner else policy
        own = owner.Params(**getattr(params, policy.nested_field).get(each.owner, {})) if each.owner else params
        found.append(_resolve_in_context(each, owner, own, context, state))
    return found


def _resolve_in_context(
    each: Parameter, policy: Policy, params: BaseModel, context: Context, state: RuntimeState
) -> Parameter:
    if each.kind == "list":
        return replace(
            each, entries=_ENTRY_LISTERS[each.refers_to](context) if each.refers_to in _ENTRY_LISTERS else ()
        )
    if each.kind != "number":
        return each
    low, high = each.low if each.low is not None else 0, each.high if each.high is not None else max(context.at, 1)
    if each.refers_to == "message":
        low, high = min(context.epoch_start, context.at), context.at
    derived = policy.implied_value(each.label, params, context, state)
    end = policy.slider_max(each.label, params, context)
    if end is None:
        end = compute_slider_max(each, context, state)
    relevant = max(end, derived or 0, getattr(params, each.label) or 0)
    scale = build_scale(low, high, each.default if each.default is not None else derived, relevant, each.unit)
    return replace(each, scale=scale, implied_value=derived)


def compute_slider_max(parameter: Parameter, context: Context, state: RuntimeState) -> int:
    """The value beyond which a parameter changes nothing in this context, by its unit."""
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
    """Whether there are results before the first turn, which one more turn than there are keeps as well."""
    sums = index_context(context)
    return bool(sums.results.position and sums.turn_starts and sums.results.position[0] < sums.turn_starts[0])


@memoize
def _measure_largest_result(context: Context) -> tuple[int, int]:
    """The largest tool result: in tokens, and in bytes of compact JSON."""
    results = index_context(context).results
    return max(results.tokens, default=0), max((context.facts.json_bytes[row] for row in results.block), default=0)


@memoize
def _list_tool_entries(context: Context) -> tuple[ListEntry, ...]:
    """The tools with results in the context and the tokens of these, largest first."""
    facts, results = context.facts, index_context(context).results
    tokens: dict[int, int] = {}
    for block, size in zip(results.block, results.tokens, strict=True):
        row = facts.tool[block]
        tokens[row] = tokens.get(row, 0) + size
    named = sorted(((size, facts.tools[row]) for row, size in tokens.items() if row >= 0), key=lambda t: (-t[0], t[1]))
    return tuple(ListEntry(name, f"{size:,}") for size, name in named)


def _list_policy_entries(context: Context) -> tuple[ListEntry, ...]:
    """The policies that another one can run: neither those that run others nor those with marks in a session, nor the
    presets, which are named.
    """
    return tuple(
        ListEntry(name)
        for name, policy in LISTED_POLICIES.items()
        if not policy.nested_field and not policy.is_session_bound
    )


_ENTRY_LISTERS = {"tools": _list_tool_entries, "policies": _list_policy_entries}
"""What a list can hold, by what it refers to."""


# From text and keywords


def build_params(policy: Policy, values: Mapping[str, Any], option_names: Mapping[str, str] | None = None) -> Params:
    """Parameters from keywords or text; ``POLICY.KEY`` sets one of a policy that *policy* runs.

    Args:
        elsewhere: names that are no parameters, and what the caller's user would set them by.

    Raises:
        PlanError: a name is unknown or a value is out of its range; the message says which and what is allowed.
    """
    given: dict[str, Any] = {}
    steps: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        owner, dot, name = key.rpartition(".")
        if dot and policy.nested_field:
            steps.setdefault(owner, {})[name] = value
        else:
            given[key] = value
    try:
        params = policy.Params(**given)
        if not policy.nested_field:
            return params
        options: dict[str, dict[str, Any]] = dict(getattr(params, policy.nested_field))
        for owner, each in steps.items():
            options[owner] = {**options.get(owner, {}), **each}
        for owner, each in options.items():
            build_params(find_policy(owner), each, option_names)
        return params.model_copy(update={policy.nested_field: options})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "?"
        if first["type"] == "extra_forbidden":
            near = (option_names or {}).get(name) or next(
                iter(get_close_matches(name, policy.Params.model_fields, 1)), ""
            )
            hint = f"did you mean {near}?" if near else f"available: {', '.join(policy.Params.model_fields)}"
            raise PlanError(f"{policy.name}: unknown parameter {name!r}; {hint}") from None
        raise PlanError(f"{policy.name}: {name}={first['input']!r}: {_format_error(policy, name, first)}") from None


_TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def _format_error(policy: Policy, name: str, error: Any) -> str:
    """What is wrong with a value, in our words where the library's are about code."""
    field = policy.Params.model_fields.get(name)
    kind = str(error["type"]).partition("_")[0]
    if field is not None and error["type"] in ("greater_than_equal", "less_than_equal", "finite_number"):
        each = _build_parameter(name, field)
        return f"must be {each.low:,} or more" if each.high is None else f"must be {each.low:,} to {each.high:,}"
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}"
    return str(error["msg"]).removeprefix("Value error, ")


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dictionary.

    Raises:
        PlanError: one has no ``=``.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise PlanError(f"parameter {text!r} has no value; write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def parse_names(value: Any) -> Any:
    """A list from text: names with commas between them, or a JSON list; what is no text is left to be validated."""
    if not isinstance(value, str):
        return value
    try:
        listed = json.loads(value) if value.startswith("[") else None
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return tuple(listed)
    return tuple(name.strip() for name in value.split(",") if name.strip())


# To what differs from the defaults, and to text


def find_changed_values(policy: Policy, params: BaseModel) -> dict[str, dict[str, Any]]:
    """The values that are not the defaults, by policy: those of *policy*, and of each that it runs its own."""
    fields = type(params).model_fields
    values = {name: getattr(params, name) for name in fields}
    changed = {name: value for name, value in values.items() if value != fields[name].get_default()}
    nested = changed.pop(policy.nested_field, {}) if policy.nested_field else {}
    found = {policy.name: changed} if changed else {}
    for owner, options in nested.items():
        found |= find_changed_values(find_policy(owner), build_params(find_policy(owner), options))
    return found


def format_assignments(values: Mapping[str, Any]) -> list[str]:
    """The ``KEY=VALUE`` texts of values; those of other policies are ``POLICY.KEY=VALUE``."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += [f"{owner}.{each}" for owner, options in value.items() for each in format_assignments(options)]
        else:
            found.append(f"{key}={format_value(value)}")
    return found


def format_value(value: Any) -> str:
    """A value as text: a list with commas, or as JSON where :func:`parse_names` would read these as another list."""
    if not isinstance(value, list | tuple):
        return str(value)
    items = tuple(":".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in value)
    text = ",".join(items)
    return text if parse_names(text) == items and text.isprintable() else json.dumps(items)


# Ranges


def parse_values(parameter: Parameter, text: str) -> list[Any]:
    """The values that a text names, in its order: ``1..8``, ``1..8:2`` with a step, ``a,b,c``, or one value.

    Without a step, tokens, bytes and seconds go from one round number to the next, as a log scale does; counts go by
    one, shares by 0.05. Both ends belong to a range.

    Raises:
        PlanError: a value is not allowed, the range is empty, or it has more than ``MAX_RANGE_VALUES`` values.
    """
    try:
        if parameter.kind == "switch":
            return list(dict.fromkeys(_parse_switch(each) for each in text.split(",")))
        if parameter.kind != "number":
            return [parse_names(text)]
        found: list[Any] = []
        for each in text.split(","):
            found += _parse_range(parameter, each) if ".." in each else [_parse_number(parameter, each)]
        return list(dict.fromkeys(found))
    except ValueError as error:
        raise PlanError(f"{parameter.name}={text}: {error}") from None


def _parse_switch(text: str) -> bool:
    words = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False}
    if text.strip().lower() not in words:
        raise ValueError(f"{text!r} is not true or false")
    return words[text.strip().lower()]


def _parse_number(parameter: Parameter, text: str, optional: bool = True) -> Number | None:
    low = parameter.low if parameter.low is not None else 0
    high = parameter.high if parameter.high is not None else 10**9
    if parameter.ratio:
        low, high = float(low), float(high)
    return parse_number(text, low, high, optional and parameter.optional)


def _parse_range(parameter: Parameter, text: str) -> list[Number]:
    ends, _, by = text.partition(":")
    first, last = (_parse_number(parameter, each, optional=False) or 0 for each in ends.split("..", 1))
    if first > last:
        raise ValueError(f"the range is empty, as {format_number(first)} is more than {format_number(last)}; swap them")
    if not by and not parameter.ratio and parameter.unit in ("tokens", "bytes", "seconds"):
        fixed = None if parameter.default is None else int(parameter.default)
        rungs = compute_round_values(int(first), int(last), fixed, parameter.unit == "seconds")
        return list(rungs)
    step = _parse_step(parameter, by)
    count = int((last - first) / step + 1e-9) + 1
    if count > MAX_RANGE_VALUES:
        raise ValueError(
            f"the range has {count:,} values, at most {MAX_RANGE_VALUES:,} are allowed; give a larger step"
        )
    found = [round(first + at * step, 4) if parameter.ratio else first + at * int(step) for at in range(count)]
    return found if found[-1] == last else [*found, last]


def _parse_step(parameter: Parameter, text: str) -> Number:
    if not text:
        return 0.05 if parameter.ratio else 1
    step = parse_number(text, 0.0, 1.0) if parameter.ratio else parse_number(text, 1, 10**9)
    if not step:
        raise ValueError("the step must be more than 0")
    return step
