"""Types, ranges and text form of policy parameters, and the parsing of ranges of values.

The command line, the settings panel and sweeps share this module. A parameter of a policy that another policy runs is
named ``POLICY.KEY`` (:mod:`~context_tui.policies.parameter_space`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy, get_bounds, parse_names
from context_tui.policies.scales import Number, Scale, compute_round_values, format_number, parse_number

MAX_RANGE_VALUES = 1_000


class ListEntry(NamedTuple):
    """A possible entry of a list parameter, with a note to display next to the name."""

    name: str
    note: str = ""


class Parameter(NamedTuple):
    """A parameter of a policy as the command line, the settings panel and sweeps present it.

    Attributes:
        kind: number, switch, list (of names), marks (set in the timeline) or nested (parameters of other policies).
        low, high: inclusive bounds, each None if it is not set.
        ratio: whether the value is a float.
        scale: scale of the slider, which ends at the value above which nothing changes in the context.
        implied_value: value that the policy uses in the context if the parameter is not set.
        entries: entries that a list can have in the context.
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
        """Name without the policy prefix."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """Name of the policy that a nested parameter belongs to, or an empty string."""
        return self.name.rpartition(".")[0]

    @property
    def type(self) -> str:
        """Name of the value's type, for display."""
        names = {"switch": "boolean", "list": "list", "marks": "list", "nested": "object"}
        kind = names.get(self.kind, "number" if self.ratio else "integer")
        return f"{kind} or null" if self.optional else kind

    def get_effective_value(self, value: Any) -> Any:
        """Return *value*, or the implied value if *value* is None."""
        return self.implied_value if value is None else value

    def format_range(self) -> str:
        """Format the range, unit and default, as in ``1 to 1,000 turns, default 3``."""
        if self.scale is None:
            return ""
        low, high = format_number(self.scale.low), format_number(self.scale.high)
        unit = f" {self.unit}" if self.unit else ""
        text = f"message {low} to {high}" if self.refers_to == "message" else f"{low} to {high}{unit}"
        return text if self.default is None else f"{text}, default {format_number(self.default)}"


# Description


def build_parameter(name: str, field: FieldInfo) -> Parameter:
    """Build the description of a parameter from a field of a policy's ``Params``."""
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit, refers_to, default = str(extra.get("unit") or ""), str(extra.get("refers_to") or ""), field.get_default()
    low, high = get_bounds(field)
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


# From text and keywords


_TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def validate_params(policy: Policy, values: Mapping[str, Any], option_names: Mapping[str, str] | None = None) -> Params:
    """Build and validate the parameters of a single policy, with the arguments and errors of ``build_params``."""
    try:
        return policy.Params(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "?"
        if first["type"] == "extra_forbidden":
            matches = get_close_matches(name, policy.Params.model_fields, 1)
            suggestion = (option_names or {}).get(name) or (matches[0] if matches else "")
            available = ", ".join(policy.Params.model_fields)
            hint = f"did you mean {suggestion}?" if suggestion else f"available: {available}"
            raise PlanError(f"{policy.name}: unknown parameter {name!r}; {hint}") from None
        raise PlanError(f"{policy.name}: {name}={first['input']!r}: {_format_error(policy, name, first)}") from None


def _format_error(policy: Policy, name: str, error: Any) -> str:
    field = policy.Params.model_fields.get(name)
    kind = str(error["type"]).partition("_")[0]
    if field is not None and error["type"] in ("greater_than_equal", "less_than_equal", "finite_number"):
        low, high = get_bounds(field)
        return f"must be {low:,} or more" if high is None else f"must be {low:,} to {high:,}"
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}"
    return str(error["msg"]).removeprefix("Value error, ")


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` texts into a dictionary, raising PlanError for a text without a key or an ``=``."""
    assignments = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise PlanError(f"parameter {text!r} has no value; write KEY=VALUE")
        assignments[key.strip()] = value.strip()
    return assignments


# To text


def format_assignments(values: Mapping[str, Any]) -> list[str]:
    """Format each value as ``KEY=VALUE``, or as ``POLICY.KEY=VALUE`` for a nested parameter."""
    texts = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            texts += [f"{owner}.{text}" for owner, options in value.items() for text in format_assignments(options)]
        else:
            texts.append(f"{key}={format_value(value)}")
    return texts


def format_value(value: Any) -> str:
    """Format a value so that :func:`parse_names` reads it back: lists with commas, or as JSON if that is ambiguous."""
    if not isinstance(value, list | tuple):
        return str(value)
    items = tuple(":".join(map(str, item)) if isinstance(item, list | tuple) else str(item) for item in value)
    text = ",".join(items)
    return text if parse_names(text) == items and text.isprintable() else json.dumps(items)


# Ranges


def parse_values(parameter: Parameter, text: str) -> list[Any]:
    """Parse one value, a list (``a,b,c``), or a range that includes both ends (``1..8``, or ``1..8:2`` with a step).

    Without a step, counts go up by 1 and shares by 0.05; tokens, bytes and seconds go to the next round number. Raises
    PlanError if a value is not allowed, the range is empty, or it has more than ``MAX_RANGE_VALUES`` values.
    """
    try:
        if parameter.kind == "switch":
            return list(dict.fromkeys(map(_parse_switch, text.split(","))))
        if parameter.kind != "number":
            return [parse_names(text)]
        values: list[Any] = []
        for item in text.split(","):
            values += _parse_range(parameter, item) if ".." in item else [_parse_number(parameter, item)]
        return list(dict.fromkeys(values))
    except ValueError as error:
        raise PlanError(f"{parameter.name}={text}: {error}") from None


def _parse_switch(text: str) -> bool:
    values = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False}
    if text.strip().lower() not in values:
        raise ValueError(f"{text!r} is not true or false")
    return values[text.strip().lower()]


def _parse_number(parameter: Parameter, text: str, optional: bool = True) -> Number | None:
    low = parameter.low if parameter.low is not None else 0
    high = parameter.high if parameter.high is not None else 10**9
    if parameter.ratio:
        low, high = float(low), float(high)
    return parse_number(text, low, high, optional and parameter.optional)


def _parse_range(parameter: Parameter, text: str) -> list[Number]:
    ends, _, step_text = text.partition(":")
    first, last = (_parse_number(parameter, end, optional=False) or 0 for end in ends.split("..", 1))
    if first > last:
        raise ValueError(f"the range is empty, as {format_number(first)} is more than {format_number(last)}; swap them")
    if not step_text and not parameter.ratio and parameter.unit in ("tokens", "bytes", "seconds"):
        default = None if parameter.default is None else int(parameter.default)
        return list(compute_round_values(int(first), int(last), default, parameter.unit == "seconds"))
    step = _parse_step(parameter, step_text)
    count = int((last - first) / step + 1e-9) + 1
    if count > MAX_RANGE_VALUES:
        allowed = f"at most {MAX_RANGE_VALUES:,} are allowed; give a larger step"
        raise ValueError(f"the range has {count:,} values, {allowed}")
    numbers = range(count)
    values = [round(first + number * step, 4) if parameter.ratio else first + number * int(step) for number in numbers]
    return values if values[-1] == last else [*values, last]


def _parse_step(parameter: Parameter, text: str) -> Number:
    if not text:
        return 0.05 if parameter.ratio else 1
    step = parse_number(text, 0.0, 1.0) if parameter.ratio else parse_number(text, 1, 10**9)
    if not step:
        raise ValueError("the step must be more than 0")
    return step
