"""Parsing of the grid that a user types for a sweep, and the proposal of a first one.

A grid is a line such as ``keep_recent_turns=1..8 min_clear_tokens=256,512,1024``, with values in the form of
``sweep -p``. A word without ``=`` names another policy, whose values follow.
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
"""Maximum number of proposed settings, for a short session and for a long one."""
MAX_PROPOSED_CALLS = 40_000
"""Maximum number of replayed calls of a proposal: the calls of the session times the settings."""
MAX_SWEPT_PARAMETERS, MAX_VALUES = 4, 12
"""Maximum number of swept parameters, and of values of each."""
SHARE_STEP = 0.1
MIN_DENSE_VALUES, MAX_FACTOR = 10, 8
"""Number of values from which on no round number is skipped; largest factor between a value and the current one."""
MAX_LINEAR_COUNT = 8
"""Largest count whose neighbors are proposed one by one; larger counts are multiplied."""


class GridPart(NamedTuple):
    """A policy in a grid, with the values of its parameters as typed."""

    policy: Policy
    value_texts: list[str]


# Parsing


def parse_grid(text: str, policy: Policy) -> list[GridPart]:
    """Parse a grid into its policies; values before any policy name belong to *policy*.

    Raises PlanError if a quote is open or a policy is unknown.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise PlanError("a quote is not closed; add the missing one") from None
    parts = [GridPart(policy, [])]
    for word in words:
        if "=" in word:
            parts[-1].value_texts.append(word)
        else:
            parts.append(GridPart(find_policy(word), []))
    return parts if parts[0].value_texts or len(parts) == 1 else parts[1:]


def count_settings(parts: Sequence[GridPart]) -> int:
    """Return how many settings a grid has at most, raising PlanError if a value is not allowed."""
    return sum(prod(len(values) for values in parse_grid_values(*part).values()) for part in parts)


def build_settings(parts: Sequence[GridPart], current: SweepSetting) -> list[SweepSetting]:
    """Build all settings of a grid: the *current* one, and for each policy its defaults and its combinations.

    Raises:
        PlanError: a name is unknown, a value is not allowed, or there are more than ``MAX_SETTINGS``.
    """
    count = count_settings(parts)
    if count > MAX_SETTINGS:
        raise PlanError(f"{count:,} settings, at most {MAX_SETTINGS:,} are allowed; give fewer values")
    grids = [
        [build_setting(part.policy, build_params(part.policy, {})), *build_grid(part.policy, part.value_texts)]
        for part in parts
    ]
    return merge_grids([[current], *grids])


# Proposing


def propose_grid(policy: Policy, params: Params, parameters: Sequence[Parameter], calls: int = 0) -> str:
    """Propose a grid with a policy's most important parameters and values around the default and the current one.

    Changed values of other parameters are kept. A grid has at most :data:`MAX_PROPOSED` settings, and fewer if a replay
    has many *calls*.

    Args:
        parameters: the policy's parameters in a context, from :func:`.list_parameters_in_context`.
    """
    defaults = build_params(policy, {})
    swept = _choose_parameters(parameters, policy, params)
    switch_count = sum(each.kind == "switch" for each in swept)
    limit = max(min(MAX_PROPOSED, MAX_PROPOSED_CALLS // max(calls, 1)), MIN_PROPOSED)
    count = min(int((limit / 2**switch_count) ** (1 / max(len(swept) - switch_count, 1))), MAX_VALUES)
    words = []
    for each in swept:
        current = each.get_effective_value(get_value(policy, params, each.name))
        values = [False, True] if each.kind == "switch" else _list_values(each, current, max(count, 2))
        words.append(f"{each.name}={_format_values(each, values)}")
    for each in parameters:
        value = get_value(policy, params, each.name)
        default = each.default if each.owner else get_value(policy, defaults, each.name)
        if each not in swept and value != default:
            words.append(shlex.quote(format_assignments({each.name: value})[0]))
    return " ".join(words)


def _choose_parameters(parameters: Sequence[Parameter], policy: Policy, params: Params) -> list[Parameter]:
    """Return the parameters to sweep, in the order of the policy; if there are too many, numbers are preferred.

    Sizes of summaries are excluded, as a replay uses those of the recorded summaries, and so are limits that are not
    set.
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


def _list_values(parameter: Parameter, current: Number, count: int) -> list[Number]:
    """List at most *count* values: the current one, the default, and values around these."""
    centers = dict.fromkeys([current] if parameter.default is None else [current, parameter.default])
    ladders = [_build_ladder(parameter, center, count) for center in centers]
    values = centers.copy()
    for distance in range(1, count + 1):
        for ladder, index in ladders:
            places = [place for place in (index - distance, index + distance) if 0 <= place < len(ladder)]
            values |= dict.fromkeys(ladder[place] for place in places)
    return sorted([*values][: max(count, len(centers))])


def _build_ladder(parameter: Parameter, center: Number, count: int) -> tuple[list[Number], int]:
    scale = parameter.scale or build_scale(0, 1, None, 1, "")
    if parameter.ratio:
        values = _list_shares(float(center))
    elif parameter.unit == "%":
        values = [round(center) + step * round(100 * SHARE_STEP) for step in range(-9, 10)]
    elif scale.round_values:
        values = _list_round_values(scale, center, count)
    else:
        values = _list_counts(scale, round(center))
    ladder = sorted({each for each in values if scale.low <= each <= scale.high} | {center})
    return ladder, ladder.index(center)


def _list_shares(center: float) -> list[Number]:
    if center <= 2 * SHARE_STEP:
        return [round(center * factor, 4) for factor in (0.25, 0.5, 1, 2, 3, 4, 6)]
    shares = (center + step * SHARE_STEP for step in range(-9, 10))
    return [round(share, 4) for share in shares if share > SHARE_STEP / 2]


def _list_round_values(scale: Scale, center: Number, count: int) -> list[Number]:
    """List round numbers around a value, every second one if *count* is small; around zero, shares of the maximum."""
    if not center:
        shares = (scale.track_end / part for part in (40, 20, 10, 5, 2))
        return [0, *(min(scale.round_values, key=lambda value: abs(value - share)) for share in shares)]
    step = 1 if count >= MIN_DENSE_VALUES else 2
    values = sorted({value for value in scale.round_values if value <= max(scale.track_end, center)} | {center})
    candidates = values[values.index(center) % step :: step]
    return [value for value in candidates if center / MAX_FACTOR <= value <= center * MAX_FACTOR]


def _list_counts(scale: Scale, center: int) -> list[Number]:
    reach = max(round(scale.track_end), center)
    if center <= MAX_LINEAR_COUNT:
        counts = [*range(round(scale.low), MAX_LINEAR_COUNT + 1), 12, 16, 24, 32]
    else:
        counts = [round(center * factor) for factor in (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8)]
    return [each for each in counts if each <= reach]


def _format_values(parameter: Parameter, values: Sequence[Any]) -> str:
    """Format values as they are typed; consecutive counts are written as a range."""
    if parameter.kind == "switch":
        return ",".join(str(each).lower() for each in values)
    if parameter.ratio:
        return ",".join(f"{each:g}" for each in values)
    if parameter.unit in ("tokens", "bytes", "seconds"):  # a range would stand for round numbers
        return ",".join(map(str, values))
    runs: list[list[int]] = []
    for each in values:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
