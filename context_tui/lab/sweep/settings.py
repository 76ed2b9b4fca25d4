"""Settings to sweep: all combinations of the requested values, policy by policy."""

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
from context_tui.policies.versions import list_version_params

MAX_SETTINGS = 20_000


class SweepSetting(NamedTuple):
    """A policy with its parameters.

    ``name`` is the policy followed by the parameters that differ from the defaults, and by those that are set although
    the version of an agent would decide them.
    """

    policy: Policy
    params: Params
    name: str
    is_default: bool

    @property
    def param_values(self) -> dict[str, Any]:
        """The parameters as JSON values, by name."""
        return self.params.model_dump(mode="json")


def build_setting(policy: Policy, params: Params) -> SweepSetting:
    """Build the setting for a policy with these parameters."""
    names = params.model_fields_set & list_version_params(policy.name)
    values = find_changed_params(params) | {name: getattr(params, name) for name in sorted(names)}
    return SweepSetting(policy, params, " ".join([policy.name, *format_assignments(values)]), not values)


def parse_grid_values(policy: Policy, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse ``KEY=VALUES`` texts into the values of each parameter; a list parameter gets one value, the list.

    Raises:
        PlanError: a text has no value, or a value is not allowed. Unknown names are not errors here.
    """
    texts_by_name = parse_assignments(texts)
    top_level = {name: text for name, text in texts_by_name.items() if "." not in name}
    list_names = {parameter.name for parameter in list_parameters(policy) if parameter.kind == "list"}
    lists = {name: text for name, text in top_level.items() if name in list_names}
    parameters = {parameter.name: parameter for parameter in list_parameters(policy, build_params(policy, lists))}
    several = {name for name, each in parameters.items() if each.kind in ("number", "switch")}
    pairs = texts_by_name.items()
    return {name: parse_values(parameters[name], text) if name in several else [text] for name, text in pairs}


def build_grid(policy: Policy, texts: Sequence[str] = ()) -> list[SweepSetting]:
    """Build every combination of the values in ``KEY=VALUES`` texts, in which the last parameter varies fastest.

    Values are ``1..8``, ``1..8:2`` with a step, ``a,b,c``, or one value
    (:func:`context_tui.policies.parameters.parse_values`); lists of names are one value.

    Raises:
        PlanError: a name is unknown, a value is not allowed, or there are more than :data:`MAX_SETTINGS` settings.
    """
    values = parse_grid_values(policy, texts)
    count = prod(map(len, values.values()))
    if count > MAX_SETTINGS:
        factors = " × ".join(f"{len(parameter_values):,}" for parameter_values in values.values())
        allowed = f"at most {MAX_SETTINGS:,} are allowed: give fewer values"
        raise PlanError(f"{policy.name}: {factors} = {count:,} settings; {allowed}")
    combinations = (dict(zip(values, each, strict=True)) for each in product(*values.values()))
    return [build_setting(policy, build_params(policy, each)) for each in combinations]


def merge_grids(grids: Iterable[Sequence[SweepSetting]]) -> list[SweepSetting]:
    """Merge grids without duplicates, raising PlanError if they have no settings or more than :data:`MAX_SETTINGS`."""
    by_name = {setting.name: setting for settings in grids for setting in settings}
    if not by_name:
        raise PlanError("no policy; name one with -P")
    if len(by_name) > MAX_SETTINGS:
        raise PlanError(f"{len(by_name):,} settings; at most {MAX_SETTINGS:,} are allowed: give fewer values")
    return list(by_name.values())
