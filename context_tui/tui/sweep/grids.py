"""Propose the grid that a sweep begins with, and parse a typed one.

A grid is a line such as ``keep_recent_turns=1..8 min_clear_tokens=256,512,1024``, each value as ``sweep -p`` takes it.
A word without ``=`` names another policy, whose values follow it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.sweep.settings import (
    MAX_SETTINGS,
    SweepSetting,
    build_grid,
    build_setting,
    merge_grids,
    parse_grid_values,
)
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_params, get_value
from context_tui.policies.parameters import Parameter, format_assignments
from context_tui.policies.registry import find_policy
from context_tui.policies.scales import Number, Scale, build_scale

MAX_PROPOSED, MIN_PROPOSED = 240, 36
"""Settings that are proposed at most for a short session, and for a long one."""
MAX_PROPOSED_CALLS = 40_000
"""Calls to a model that a proposal goes along at most, counted for each setting."""
MAX_SWEPT_PARAMETERS, MAX_VALUES = 4, 12
"""Parameters that are swept at most, and values of one."""
SHARE_STEP = 0.1
"""The step from one share to the next."""
MIN_DENSE_VALUES, MAX_FACTOR = 10, 8
"""Values of a parameter from which on no round number is passed over; and how many times more or less than the present
is tried."""
MAX_LINEAR_COUNT = 8
"""Counts up to here are taken one by one; from there on they are doubled and halved."""


class GridPart(NamedTuple):
    """A policy of a grid, and the values of its parameters as they were typed."""

    policy: Policy
    value_texts: list[str]


# What a line means


def parse_grid(text: str, policy: Policy) -> list[GridPart]:
    """Parse the policies of a line; what precedes the first name is for *policy*.

    Raises:
        PlanError: a quote is not closed, or there is no such policy.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise PlanError("a quote is not closed; add the missing one") from None
    found = [GridPart(policy, [])]
    for word in words:
        if "=" in word:
            found[-1].value_texts.append(word)
        else:
            found.append(GridPart(find_policy(word), []))
    return [each for each in found if each.value_texts or each is not found[0] or len(found) == 1]


def count_settings(parts: Sequence[GridPart]) -> int:
    """Count the settings at most: some may be equal.

    Raises:
        PlanError: a value is not allowed.
    """
    return sum(prod(len(values) for values in parse_grid_values(*part).values()) for part in parts)


def build_settings(parts: Sequence[GridPart], current: SweepSetting) -> list[SweepSetting]:
    """Build all settings: the *current* one, and of each policy the defaults and the grid.

    Raises:
        PlanError: a name is unknown, a value is not allowed, or there are more than ``MOST_SETTINGS``.
    """
    count = count_settings(parts)
    if count > MAX_SETTINGS:
        raise PlanError(f"{count:,} settings, at most {MAX_SETTINGS:,} are allowed; give fewer values")
    grids = [
        [build_setting(part.policy, build_params(part.policy, {})), *build_grid(part.policy, part.value_texts)]
        for part in parts
    ]
    return merge_grids([[current], *grids])


# What is proposed


def propose_grid(policy: Policy, params: Params, parameters: Sequence[Parameter], calls: int = 0) -> str:
    """Return the line to begin with: the parameters that matter, with a handful of values around the default and the
    present.

    What is set besides stays as it is set. It has at most :data:`MAX_PROPOSED` settings, fewer for a session of many
    *calls*.

    Args:
        parameters: the policy's parameters, in a context (:func:`.list_parameters_in_context`).
    """
    defaults = build_params(policy, {})
    chosen = _choose_parameters(parameters, policy, params)
    switches = sum(each.kind == "switch" for each in chosen)
    most = max(min(MAX_PROPOSED, MAX_PROPOSED_CALLS // max(calls, 1)), MIN_PROPOSED)
    room = min(int((most / 2**switches) ** (1 / max(len(chosen) - switches, 1))), MAX_VALUES)
    found = []
    for each in chosen:
        now = each.get_effective_value(get_value(policy, params, each.name))
        values = [False, True] if each.kind == "switch" else _list_values(each, now, max(room, 2))
        found.append(f"{each.name}={_format_values(each, values)}")
    swept = {each.name for each in chosen}
    for each in parameters:
        value = get_value(policy, params, each.name)
        if each.name not in swept and value != _get_default(policy, defaults, each):
            found.append(shlex.quote(format_assignments({each.name: value})[0]))
    return " ".join(found)


def _get_default(policy: Policy, defaults: Params, parameter: Parameter) -> Any:
    return parameter.default if parameter.owner else get_value(policy, defaults, parameter.name)


def _choose_parameters(parameters: Sequence[Parameter], policy: Policy, params: Params) -> list[Parameter]:
    """Return the parameters to sweep, in the order of the policy: numbers before switches where there are too many.

    The size of a summary is none of them, as a replay takes that of the recorded ones, nor is a limit that is not set.
    """
    numbers = [
        each
        for each in parameters
        if each.kind == "number"
        and each.scale is not None
        and each.refers_to != "message"
        and not each.label.startswith("summary_")
        and not (each.optional and get_value(policy, params, each.name) is None)
        and not (each.of_window and get_value(policy, params, each.name) == each.high)
    ]
    switches = [each for each in parameters if each.kind == "switch"]
    names = {each.name for each in [*numbers, *switches][:MAX_SWEPT_PARAMETERS]}
    return [each for each in parameters if each.name in names]


def _list_values(parameter: Parameter, now: Number, count: int) -> list[Number]:
    """List at most *count* values: the present one and the default, and values around these."""
    centres = dict.fromkeys([now] if parameter.default is None else [now, parameter.default])
    steps = [_build_ladder(parameter, centre, count) for centre in centres]
    found = centres.copy()
    for distance in range(1, count + 1):
        for ladder, at in steps:
            near = [place for place in (at - distance, at + distance) if 0 <= place < len(ladder)]
            found |= dict.fromkeys(ladder[place] for place in near)
    return sorted([*found][: max(count, len(centres))])


def _build_ladder(parameter: Parameter, centre: Number, count: int) -> tuple[list[Number], int]:
    """Build the values to try around one, ascending, and its place among them."""
    scale = parameter.scale or build_scale(0, 1, None, 1, "")
    if parameter.ratio:
        found = _list_shares(float(centre))
    elif parameter.unit == "%":
        found = [round(centre) + step * round(100 * SHARE_STEP) for step in range(-9, 10)]
    elif scale.round_values:
        found = _list_rungs(scale, centre, count)
    else:
        found = _list_counts(scale, round(centre))
    ladder = sorted({each for each in found if scale.low <= each <= scale.high} | {centre})
    return ladder, ladder.index(centre)


def _list_shares(centre: float) -> list[Number]:
    if centre <= 2 * SHARE_STEP:
        return [round(centre * factor, 4) for factor in (0.25, 0.5, 1, 2, 3, 4, 6)]
    return [
        round(centre + step * SHARE_STEP, 4) for step in range(-9, 10) if centre + step * SHARE_STEP > SHARE_STEP / 2
    ]


def _list_rungs(scale: Scale, centre: Number, count: int) -> list[Number]:
    """List round numbers, every second one where only a few are wanted; around zero, shares of the maximum."""
    if not centre:
        return [
            0,
            *(
                min(scale.round_values, key=lambda rung: abs(rung - scale.track_end / part))
                for part in (40, 20, 10, 5, 2)
            ),
        ]
    step = 1 if count >= MIN_DENSE_VALUES else 2
    rungs = sorted({rung for rung in scale.round_values if rung <= max(scale.track_end, centre)} | {centre})
    near = rungs[rungs.index(centre) % step :: step]
    return [rung for rung in near if centre / MAX_FACTOR <= rung <= centre * MAX_FACTOR]


def _list_counts(scale: Scale, centre: int) -> list[Number]:
    reach = max(round(scale.track_end), centre)
    if centre <= MAX_LINEAR_COUNT:
        found = [*range(round(scale.low), MAX_LINEAR_COUNT + 1), 12, 16, 24, 32]
    else:
        found = [round(centre * factor) for factor in (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8)]
    return [each for each in found if each <= reach]


def _format_values(parameter: Parameter, values: Sequence[Any]) -> str:
    """Values as they are typed; counts one after the other are a range."""
    if parameter.kind == "switch":
        return ",".join(str(each).lower() for each in values)
    if parameter.ratio:
        return ",".join(f"{each:g}" for each in values)
    if parameter.unit in ("tokens", "bytes", "seconds"):  # their ranges go by round numbers
        return ",".join(map(str, values))
    runs: list[list[int]] = []
    for each in values:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
