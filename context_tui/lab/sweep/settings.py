"""The settings of a sweep: every combination of the values that are asked for, of one policy after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.replay.words import changed
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameters import assignments, pairs, parameters_of, params_for, values_in

MOST_SETTINGS = 20_000
"""Settings that a sweep may have in all."""


class Setting(NamedTuple):
    """A policy with all its parameters; ``name`` says those that are not its defaults, as they are typed."""

    policy: Policy
    params: Params
    name: str
    default: bool

    @property
    def values(self) -> dict[str, Any]:
        """The parameters, JSON-ready."""
        return self.params.model_dump(mode="json")


def setting(policy: Policy, params: Params) -> Setting:
    """The setting of these parameters."""
    values = changed(params)
    return Setting(policy, params, " ".join([policy.name, *assignments(values)]), not values)


def values_of(policy: Policy, texts: Sequence[str]) -> dict[str, list[Any]]:
    """The values that ``KEY=VALUES`` texts name, by parameter; those of a list are one.

    Raises:
        PlanError: a text has no value, or a value is not allowed. A name may be unknown.
    """
    given = pairs(texts)
    own = {name: text for name, text in given.items() if "." not in name}
    listed = {each.name: each for each in parameters_of(policy)}
    lists = {name: text for name, text in own.items() if name in listed and listed[name].kind == "list"}
    known = {each.name: each for each in parameters_of(policy, params_for(policy, lists))}
    return {
        name: values_in(known[name], text) if name in known and known[name].kind in ("number", "switch") else [text]
        for name, text in given.items()
    }


def grid(policy: Policy, texts: Sequence[str] = ()) -> list[Setting]:
    """Every combination of the values that ``KEY=VALUES`` texts name, the last one changing fastest.

    Values are ``1..8``, ``1..8:2`` with a step, ``a,b,c``, or one value
    (:func:`context_tui.policies.parameters.values_in`); lists of names are one value.

    Raises:
        PlanError: a name is unknown, a value is not allowed, or there are more than :data:`MOST_SETTINGS` settings.
    """
    values = values_of(policy, texts)
    count = prod(map(len, values.values()))
    if count > MOST_SETTINGS:
        by = " × ".join(f"{len(each):,}" for each in values.values())
        raise PlanError(
            f"{policy.name}: {by} are {count:,} settings, at most {MOST_SETTINGS:,} are allowed; give fewer values"
        )
    return [
        setting(policy, params_for(policy, dict(zip(values, each, strict=True)))) for each in product(*values.values())
    ]


def together(grids: Iterable[Sequence[Setting]]) -> list[Setting]:
    """The settings of several grids, each once, in their order.

    Raises:
        PlanError: there are none, or more than :data:`MOST_SETTINGS`.
    """
    found = {each.name: each for settings in grids for each in settings}
    if not found:
        raise PlanError("no policy is named; give one with -P")
    if len(found) > MOST_SETTINGS:
        raise PlanError(f"{len(found):,} settings, at most {MOST_SETTINGS:,} are allowed; give fewer values")
    return list(found.values())
