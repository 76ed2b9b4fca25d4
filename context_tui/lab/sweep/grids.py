"""Settings to sweep: all combinations of the values in a grid that a user types or the program proposes.

A grid is a line such as ``keep_recent_turns=1..8 min_clear_tokens=256,512,1024``, with values in the form of
``sweep -p``. A word without ``=`` names another policy, whose values follow.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.replay.result import find_changed_params
from context_tui.policies.base import Params, Policy
from context_tui.policies.parameter_space import build_params, build_recorded_params, get_value, list_parameters
from context_tui.policies.parameters import Parameter, format_assignments, parse_assignments, parse_values
from context_tui.policies.registry import find_policy
from context_tui.policies.scales import Number, Scale, build_scale
from context_tui.policies.versions import list_version_params
from context_tui.session.facts import Facts

MAX_SETTINGS = 20_000
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


class SweepSetting(NamedTuple):
    """A policy with its parameters.

    ``name`` is the policy, followed by the parameters that differ from the defaults or that are set although an agent's
    version would decide them.
    """

    policy: Policy
    params: Params
    name: str
    is_default: bool

    @property
    def param_values(self) -> dict[str, Any]:
        """The parameters as JSON values, keyed by name."""
        return self.params.model_dump(mode="json")


def build_setting(policy: Policy, params: Params) -> SweepSetting:
    """Build the setting for a policy with these parameters."""
    names = params.model_fields_set & list_version_params(policy.name)
    values = find_changed_params(params) | {name: getattr(params, name) for name in sorted(names)}
    return SweepSetting(policy, params, " ".join([policy.name, *format_assignments(values)]), not values)


def parse_grid_values(policy: Policy, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse ``KEY=VALUES`` texts into the values of each parameter; a list parameter gets one value, the list.

    Raises PlanError if a text has no value, or a value is not allowed. Unknown names are not errors here.
    """
    texts_by_name = parse_assignments(texts)
    list_names = {parameter.name for parameter in list_parameters(policy) if parameter.kind == "list"}
    lists = {name: text for name, text in texts_by_name.items() if name in list_names}
    parameters = {parameter.name: parameter for parameter in list_parameters(policy, build_params(policy, lists))}
    several = {name for name, each in parameters.items() if each.kind in ("number", "switch")}
    pairs = texts_by_name.items()
    return {name: parse_values(parameters[name], text) if name in several else [text] for name, text in pairs}


def build_grid(policy: Policy, texts: Sequence[str] = ()) -> list[SweepSetting]:
    """Build every combination of the values in ``KEY=VALUES`` texts, in which the last parameter varies fastest.

    Values are ``1..8``, ``1..8:2`` with a step, ``a,b,c``, or one value
    (:func:`context_tui.policies.parameters.parse_values`); lists of names are one value.

    Raises PlanError if a name is unknown, a value is not allowed, or there are more than :data:`MAX_SETTINGS` settings.
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


# A line of several policies


class GridPart(NamedTuple):
    """A policy in a grid, with the values of its parameters as typed."""

    policy: Policy
    value_texts: list[str]


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


def build_settings(parts: Sequence[GridPart], current: SweepSetting, facts: Facts) -> list[SweepSetting]:
    """Build the *current* setting and, for each policy of a grid, the recording version's defaults and combinations.

    Raises PlanError if a name is unknown, a value is not allowed, or there are more than ``MAX_SETTINGS``.
    """
    count = count_settings(parts)
    if count > MAX_SETTINGS:
        raise PlanError(f"{count:,} settings, at most {MAX_SETTINGS:,} are allowed; give fewer values")
    defaults = [build_setting(part.policy, build_recorded_params(part.policy, {}, facts)) for part in parts]
    return merge_grids(
        [[current], *([default, *build_grid(*part)] for default, part in zip(defaults, parts, strict=True))]
    )


# Proposing


def propose_grid(policy: Policy, params: Params, parameters: Sequence[Parameter], calls: int = 0) -> str:
    """Propose a grid with a policy's most important parameters and values around the default and the current one.

    The *parameters* are those in a context, from :func:`.list_parameters_in_context`. Changed values of others are
    kept. A grid has at most :data:`MAX_PROPOSED` settings, and fewer if a replay has many *calls*.
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
