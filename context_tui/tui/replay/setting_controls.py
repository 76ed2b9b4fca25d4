"""Settings that all replays of the replay screen share, and thresholds that are dragged."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from math import ceil, floor
from typing import Any

from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.study import StudySettings
from context_tui.policies.parameter_space import get_value
from context_tui.policies.parameters import Parameter
from context_tui.policies.registry import POLICIES
from context_tui.policies.scales import Number, build_scale
from context_tui.tui.comparison import Lane, compute_step_thresholds
from context_tui.tui.view import View

COMMON_OWNER = "options for all policies"
"""Heading of the common settings; no policy can have such a name."""
MAX_DELAY_CALLS, MAX_SUMMARY_TOKENS = 1_000, 100_000_000
USUAL_DELAY_CALLS, USUAL_SUMMARY_TOKENS = 20, 20_000
"""Upper ends of the sliders, unless a larger value is set."""

_DEFAULT_SETTINGS = StudySettings()
_RECORDED, _DELAY, _SUMMARY_TOKENS, _SHARES_PREFIX, _CACHE_ANYWHERE = (
    f"{COMMON_OWNER}.{name}" for name in ("keep_recorded", "delay", "summary_tokens", "shares_prefix", "cache_anywhere")
)
_SETTINGS_FIELDS = {_DELAY: "delay", _SUMMARY_TOKENS: "summary_tokens", _SHARES_PREFIX: "shares_prefix"}


def build_common_controls(
    settings: StudySettings, recording: Recording | None, *, has_compactions: bool
) -> list[Parameter]:
    """Return the parameters that all replays share; *recording* is None if it is still being prepared."""
    derived = recording.summary_tokens if recording else None
    max_delay = max(USUAL_DELAY_CALLS, settings.delay)
    max_summary = max(USUAL_SUMMARY_TOKENS, derived or 0, settings.summary_tokens or 0)
    recorded = Parameter(_RECORDED, "switch", "keep recorded compactions, or undo them", "", True)
    delay_about = "calls made while a summary is written in the background"
    delay_range, default_delay = (0, MAX_DELAY_CALLS), _DEFAULT_SETTINGS.delay
    delays = build_scale(*delay_range, default_delay, max_delay, "calls")
    size_about = "summary size (bytes/4); not set: the median of the recorded summaries, else 2,000"
    size_range = 1, MAX_SUMMARY_TOKENS
    sizes = build_scale(*size_range, derived, max_summary, "tokens")
    shares_about = "the summarizer's prompt shares its prefix with the calls and reads it from the prompt cache"
    return [
        *([recorded] if has_compactions else []),
        Parameter(_DELAY, "number", delay_about, "calls", default_delay, *delay_range, scale=delays),
        Parameter(
            _SUMMARY_TOKENS, "number", size_about, "tokens", None, *size_range, True, scale=sizes, implied_value=derived
        ),
        Parameter(_SHARES_PREFIX, "switch", shares_about, "", False),
        Parameter(_CACHE_ANYWHERE, "switch", "a changed prompt is read from the cache up to the change", "", False),
    ]


def get_common_values(settings: StudySettings) -> dict[str, Any]:
    """Return the values of the settings that all replays share, keyed by setting name."""
    switches = {_RECORDED: settings.recorded == "keep", _CACHE_ANYWHERE: settings.reuse == "anywhere"}
    return {**switches, **{name: getattr(settings, key) for name, key in _SETTINGS_FIELDS.items()}}


def replace_common_value(settings: StudySettings, name: str, value: Any) -> StudySettings | None:
    """Return the settings with one value replaced, or None if *name* is not a setting that all replays share."""
    if name == _RECORDED:
        return replace(settings, recorded="keep" if value else "ignore")
    if name == _CACHE_ANYWHERE:
        return replace(settings, reuse="anywhere" if value else "breakpoints")
    return replace(settings, **{_SETTINGS_FIELDS[name]: value}) if name in _SETTINGS_FIELDS else None


TOKEN_GRAIN = 1_000
"""Step in tokens of the values that a threshold is dragged to."""
STEP_TOLERANCE = 1e-6
"""Tolerance for a number of steps, as hundredths are not exact."""
_THRESHOLD_UNITS = ("tokens", "of window", "%")


class ThresholdDrag:
    """The threshold of *view*'s policy that is nearest to *tokens*, which the user drags.

    ``control`` is the parameter that moves the threshold, or None if no parameter does.
    """

    def __init__(self, view: View, controls: list[Parameter], tokens: int) -> None:
        self._view, self._step = view, 0
        self.control: Parameter | None = None
        limits = self._compute_limits(view)
        distances = [(abs(limit - tokens), step) for step, limit in enumerate(limits) if limit is not None]
        if distances:
            self._step = min(distances)[1]  # of a chain
            scaled = [each for each in controls if each.scale and each.unit in _THRESHOLD_UNITS]
            ranks = [(self._rank_control(each), each) for each in scaled]
            (direction_count, *_), control = max(ranks, key=lambda pair: pair[0], default=((0, False, False), None))
            self.control = control if direction_count else None

    def compute_value(self, tokens: int) -> Number:
        """Return the round value of ``control`` that moves the threshold closest to *tokens*."""
        control, scale = self.control, self.control.scale if self.control else None
        if control is None or scale is None:
            raise ValueError("no parameter moves this threshold")
        granularity: Number = TOKEN_GRAIN if control.unit == "tokens" else scale.step
        first = ceil(scale.low / granularity - STEP_TOLERANCE)
        count = max(floor(scale.high / granularity + STEP_TOLERANCE) - first, 0)

        def compute_threshold(place: int) -> int:
            return self._compute_threshold(control, scale.clamp(round((first + place) * granularity, 2)))

        sign = 1 if compute_threshold(count) >= compute_threshold(0) else -1
        place = bisect_left(range(count + 1), sign * tokens, key=lambda place: sign * compute_threshold(place))
        candidates = (each for each in (place - 1, place) if 0 <= each <= count)
        best = min(candidates, key=lambda place: abs(compute_threshold(place) - tokens))
        return scale.clamp(round((first + best) * granularity, 2))

    def _rank_control(self, control: Parameter) -> tuple[int, bool, bool]:
        """Return a sort key: how many directions move the threshold, whether a value is set, whether it is a share."""
        value = get_value(POLICIES[self._view.policy], Lane(self._view).params, control.name)
        threshold, scale = self._compute_threshold(control, value), control.scale
        neighbors = []
        if scale is not None:
            effective_value = control.get_effective_value(value)
            start = scale.low if effective_value is None else effective_value
            neighbors = [scale.step_value(start, direction) for direction in (-1, 1)]
        direction_count = sum(self._compute_threshold(control, each) not in (threshold, -1) for each in neighbors)
        return direction_count, value is not None, control.unit != "tokens"

    def _compute_threshold(self, control: Parameter, value: Number | None) -> int:
        limits = self._compute_limits(self._view.with_param(self._view.policy, control.name, value))
        limit = limits[self._step] if self._step < len(limits) else None
        return -1 if limit is None else limit

    def _compute_limits(self, view: View) -> list[int | None]:
        with suppress(PlanError):
            return compute_step_thresholds(POLICIES[view.policy], Lane(view).params, view.runtime_state)
        return []
