"""Settings common to all replays of the replay screen, and the parameter behind a threshold that is dragged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, floor
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.study import StudySettings
from context_tui.policies.base import Policy, find_nested_field
from context_tui.policies.parameter_space import build_params, get_value
from context_tui.policies.parameters import Parameter
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.scales import Number, build_scale
from context_tui.tui.comparison import compute_step_thresholds

COMMON_OWNER = "options for all policies"
"""The heading of these settings; no policy can have such a name."""
MAX_DELAY_CALLS, MAX_SUMMARY_TOKENS = 1_000, 100_000_000
"""The longest delay, and the largest summary, that can be set here."""
USUAL_DELAY_CALLS, USUAL_SUMMARY_TOKENS = 20, 20_000
"""What the sliders reach to, where nothing larger is set."""

_DEFAULT_SETTINGS = StudySettings()
_RECORDED, _DELAY, _SUMMARY_TOKENS, _SHARES_PREFIX, _CACHE_ANYWHERE = (
    f"{COMMON_OWNER}.{name}" for name in ("keep_recorded", "delay", "summary_tokens", "shares_prefix", "cache_anywhere")
)
_SETTINGS_FIELDS = {_DELAY: "delay", _SUMMARY_TOKENS: "summary_tokens", _SHARES_PREFIX: "shares_prefix"}


def build_common_controls(
    settings: StudySettings, recording: Recording | None, *, has_compactions: bool
) -> list[Parameter]:
    """Build the settings that all replays share.

    Args:
        recording: what all replays share; None until it is known.
        compacted: whether the recording holds compactions that can be undone.
    """
    derived = recording.summary_tokens if recording else None
    largest = max(USUAL_SUMMARY_TOKENS, derived or 0, settings.summary_tokens or 0)
    recorded = Parameter(_RECORDED, "switch", "keep recorded compactions, or undo them", "", True)
    return [
        *([recorded] if has_compactions else []),
        Parameter(
            _DELAY,
            "number",
            "calls made while a summary is written in the background",
            "calls",
            _DEFAULT_SETTINGS.delay,
            0,
            MAX_DELAY_CALLS,
            scale=build_scale(
                0, MAX_DELAY_CALLS, _DEFAULT_SETTINGS.delay, max(USUAL_DELAY_CALLS, settings.delay), "calls"
            ),
        ),
        Parameter(
            _SUMMARY_TOKENS,
            "number",
            "summary size (bytes/4); not set: the median of the recorded summaries, else 2,000",
            "tokens",
            None,
            1,
            MAX_SUMMARY_TOKENS,
            optional=True,
            scale=build_scale(1, MAX_SUMMARY_TOKENS, derived, largest, "tokens"),
            implied_value=derived,
        ),
        Parameter(
            _SHARES_PREFIX,
            "switch",
            "the summarizer's prompt shares its prefix with the calls and reads it from the prompt cache",
            "",
            False,
        ),
        Parameter(
            _CACHE_ANYWHERE,
            "switch",
            "a changed prompt is read from the cache up to the change",
            "",
            False,
        ),
    ]


def get_common_values(settings: StudySettings) -> dict[str, Any]:
    """Return the values of these settings by name."""
    switches = {_RECORDED: settings.recorded == "keep", _CACHE_ANYWHERE: settings.reuse == "anywhere"}
    return {**switches, **{name: getattr(settings, key) for name, key in _SETTINGS_FIELDS.items()}}


def replace_common_value(settings: StudySettings, name: str, value: Any) -> StudySettings | None:
    """Return the same with another value; None where *name* is none of these settings."""
    if name == _RECORDED:
        return replace(settings, recorded="keep" if value else "ignore")
    if name == _CACHE_ANYWHERE:
        return replace(settings, reuse="anywhere" if value else "breakpoints")
    return replace(settings, **{_SETTINGS_FIELDS[name]: value}) if name in _SETTINGS_FIELDS else None


TOKEN_GRAIN = 1_000
"""Tokens between the values that a line is pulled to."""
STEP_TOLERANCE = 1e-6
"""How far from whole a number of steps may be, as hundredths are not exact."""
_THRESHOLD_UNITS = ("tokens", "of window", "%")


class ThresholdHandle(NamedTuple):
    """Handle of a threshold line: the parameter that moves it, and the step of the policy whose threshold it is."""

    control: Parameter
    step: int


class _ControlRank(NamedTuple):
    """Rank of a parameter: number of directions in which it moves a threshold, is it set, is it a share."""

    direction_count: int
    is_set: bool
    is_share: bool


class ThresholdDrag:
    """A policy at its settings, whose lines can be pulled.

    Args:
        values: what is set, as the policy's keywords; ``controls`` are all that can be set.
        state: what its runtime knows; thresholds are computed for it.
    """

    def __init__(self, policy: Policy, values: dict[str, Any], controls: list[Parameter], state: RuntimeState) -> None:
        self._policy, self._values, self._state = policy, values, state
        self._controls = [each for each in controls if each.scale and each.unit in _THRESHOLD_UNITS]
        self._params = build_params(policy, values)

    def find_handle(self, threshold: int) -> ThresholdHandle | None:
        """Return the handle of the line at a size; None where no parameter moves it."""
        now = compute_step_thresholds(self._policy, self._params, self._state)
        known = [(abs(limit - threshold), step) for step, limit in enumerate(now) if limit is not None]
        if not known:
            return None
        step = min(known)[1]
        found = [(self._rank_control(each, step), each) for each in self._controls]
        best = max(found, key=lambda pair: pair[0], default=None)
        return ThresholdHandle(best[1], step) if best and best[0].direction_count else None

    def compute_value(self, handle: ThresholdHandle, tokens: int) -> Number:
        """Return the value that puts the line nearest to a size: a round one, within the bounds of the parameter."""
        scale = handle.control.scale
        if scale is None:
            raise ValueError(f"{handle.control.name} is no number")
        grain: Number = TOKEN_GRAIN if handle.control.unit == "tokens" else scale.step
        first = ceil(scale.low / grain - STEP_TOLERANCE)
        count = max(floor(scale.high / grain + STEP_TOLERANCE) - first, 0)

        def compute_threshold(place: int) -> int:
            value = scale.clamp(round((first + place) * grain, 2))
            return self._compute_threshold(handle.control, value, handle.step)

        rises = compute_threshold(count) >= compute_threshold(0)
        place = _bisect_first(
            lambda at: compute_threshold(at) >= tokens if rises else compute_threshold(at) <= tokens, count
        )
        near = (each for each in (place - 1, place) if 0 <= each <= count)
        best = min(near, key=lambda at: abs(compute_threshold(at) - tokens))
        return scale.clamp(round((first + best) * grain, 2))

    def _rank_control(self, control: Parameter, step: int) -> _ControlRank:
        """Rank how well a parameter moves a threshold."""
        value = get_value(self._policy, self._params, control.name)
        now = self._compute_threshold(control, value, step)
        moved = sum(
            self._compute_threshold(control, other, step) not in (now, -1)
            for other in self._list_neighbors(control, value)
        )
        return _ControlRank(moved, value is not None, control.unit != "tokens")

    @staticmethod
    def _list_neighbors(control: Parameter, value: Number | None) -> Iterator[Number]:
        shown, scale = control.get_effective_value(value), control.scale
        if scale is not None:
            for way in (-1, 1):
                yield scale.step_value(scale.low if shown is None else shown, way)

    def _compute_threshold(self, control: Parameter, value: Number | None, step: int) -> int:
        """Return the threshold of a step with another value; -1 where there is none."""
        try:
            params = build_params(self._policy, _replace_value(self._policy, self._values, control, value))
        except PlanError:
            return -1
        found = compute_step_thresholds(self._policy, params, self._state)
        limit = found[step] if step < len(found) else None
        return -1 if limit is None else limit


def _replace_value(policy: Policy, values: dict[str, Any], control: Parameter, value: Number | None) -> dict[str, Any]:
    """Return keywords with one value changed; a value of a policy that *policy* runs is nested in that policy's
    keywords.
    """
    if not control.owner:
        return {**values, control.label: value}
    field = find_nested_field(policy)
    nested = {**values.get(field, {})}
    nested[control.owner] = {**nested.get(control.owner, {}), control.label: value}
    return {**values, field: nested}


def _bisect_first(holds: Callable[[int], bool], count: int) -> int:
    """Return the first of 0 to *count* for which something holds that goes on to hold; *count* + 1 where there is
    none.
    """
    low, high = 0, count + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
