"""The settings of a sweep: every combination of the values that are asked for, of one policy after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.replay.result import find_changed_params
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_params, list_parameters
from context_tui.policies.parameters import format_assignments, parse_assignments, parse_values

MAX_SETTINGS = 20_000
"""Settings that a sweep may have in all."""


class SweepSetting(NamedTuple):
    """A policy with all its parameters; ``name`` says those that are not its defaults, as they are typed."""

    policy: Policy
    params: Params
    name: str
    is_default: bool

    @property
    def param_values(self) -> dict[str, Any]:
        """The parameters, JSON-ready."""
        return self.params.model_dump(mode="json")


def build_setting(policy: Policy, params: Params) -> SweepSetting:
    """The setting of these parameters."""
    values = find_changed_params(params)
    return SweepSetting(policy, params, " ".join([policy.name, *format_assignments(values)]), not values)


def parse_grid_values(policy: Policy, texts: Sequence[str]) -> dict[str, list[Any]]:
    """The values that ``KEY=VALUES`` texts name, by parameter; those of a list are one.

    Raises:
        PlanError: a text has no value, or a value is not allowed. A name may be unknown.
    """
    given = parse_assignments(texts)
    own = {name: text for name, text in given.items() if "." not in name}
    listed = {each.name: each for each in list_parameters(policy)}
    lists = {name: text for name, text in own.items() if name in listed and listed[name].kind == "list"}
    known = {each.name: each for each in list_parameters(policy, build_params(policy, lists))}
    return {
        name: parse_values(known[name], text) if name in known and known[name].kind in ("number", "switch") else [text]
        for name, text in given.items()
    }


def build_grid(policy: Policy, texts: Sequence[str] = ()) -> list[SweepSetting]:
    """Every combination of the values that ``KEY=VALUES`` texts name, the last one changing fastest.

    Values are ``1..8``, ``1..8:2`` with a step, ``a,b,c``, or one value
    (:func:`context_tui.policies.parameters.parse_values`); lists of names are one value.

    Raises:
        PlanError: a name is unknown, a value is not allowed, or there are more than :data:`MAX_SETTINGS` settings.
    """
    values = parse_grid_values(policy, texts)
    count = prod(map(len, values.values()))
    if count > MAX_SETTINGS:
        by = " × ".join(f"{len(each):,}" for each in values.values())
        raise PlanError(
            f"{policy.name}: {by} = {count:,} settings; at most {MAX_SETTINGS:,} are allowed: give fewer values"
        )
    return [
        build_setting(policy, build_params(policy, dict(zip(values, each, strict=True))))
        for each in product(*values.values())
    ]


def merge_grids(grids: Iterable[Sequence[SweepSetting]]) -> list[SweepSetting]:
    """The settings of several grids, each once, in their order.

    Raises:
        PlanError: there are none, or more than :data:`MAX_SETTINGS`.
    """
    found = {each.name: each for settings in grids for each in settings}
    if not found:
        raise PlanError("no policy; name one with -P")
    if len(found) > MAX_SETTINGS:
        raise PlanError(f"{len(found):,} settings; at most {MAX_SETTINGS:,} are allowed: give fewer values")
    return list(found.values())
