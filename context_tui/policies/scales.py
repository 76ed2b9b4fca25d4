"""Slider scales for numeric parameters, the steps between values, and the parsing of typed numbers.

Tokens, bytes and seconds have a log scale and steps from one round number to the next; counts step by one and ratios by
a hundredth.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import NamedTuple

Number = int | float

_DECIMAL = (1, 1.5, 2, 3, 4, 5, 6, 8)
_BINARY = (1, 1.5)
_SECONDS = (
    *(0, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1_200, 1_800, 2_700),
    *(3_600, 5_400, 7_200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400, 172_800, 259_200, 604_800),
)
MAX_LINEAR_RANGE = 40
"""Maximum range of whole numbers that is shown on a linear scale."""


class Scale(NamedTuple):
    """The values that a parameter allows, from ``low`` to ``high``; the slider's track ends at ``track_end``.

    A step goes to the next of ``round_values`` or, if there are none, by ``step``. Only typed values can exceed the
    track.
    """

    low: Number
    high: Number
    track_end: Number
    step: Number = 1
    round_values: tuple[int, ...] = ()
    log: bool = False
    log_offset: Number = 1
    """Value below which a log scale is nearly linear."""

    def compute_share(self, value: Number) -> float:
        """Return where a value lies on the track, from 0 at the low end to 1 at or beyond the high end."""
        span = self._compute_place(self.track_end)
        return min(1.0, max(0.0, self._compute_place(value) / span)) if span > 0 else 0.0

    def _compute_place(self, value: Number) -> float:
        return math.log1p(max(value - self.low, 0) / self.log_offset) if self.log else value - self.low

    def find_value(self, share: float) -> Number:
        """Return the value at a share of the track from 0 to 1, rounded to the nearest step."""
        place = min(1.0, share) * self._compute_place(self.track_end)
        value = self.low + (math.expm1(place) * self.log_offset if self.log else place)
        if self.round_values:
            after = bisect_left(self.round_values, value)
            nearest_values = self.round_values[max(after - 1, 0) : after + 1]
            return min(nearest_values, key=lambda value: abs(self._compute_place(value) - place))
        return self.clamp(round(round(value / self.step) * self.step, 2))

    def step_value(self, value: Number, steps: int) -> Number:
        """Return the value *steps* steps away, stopping at the end of the track unless *value* is already beyond it."""
        if not steps:
            return value
        if self.round_values:
            after = bisect_right(self.round_values, value) - 1 if steps > 0 else bisect_left(self.round_values, value)
            index = after + steps
            next_value: Number = self.round_values[min(max(index, 0), len(self.round_values) - 1)]
        else:
            next_value = self.clamp(round(value + steps * self.step, 2))
        return min(next_value, max(value, self.track_end))

    def clamp(self, value: Number) -> Number:
        """Return the nearest allowed value, rounded to a whole number unless the step is a float."""
        value = min(max(value, self.low), self.high)
        return value if isinstance(self.step, float) else round(value)

    def sample_values(self, count: int) -> list[Number]:
        """Return at most *count* distinct values spread over the track, in ascending order."""
        count = max(count, 2)
        if not self.log and not isinstance(self.step, float) and self.track_end - self.low < count:
            return list(range(round(self.low), round(self.track_end) + 1))
        if self.round_values:
            track_values = [value for value in self.round_values if value <= self.track_end]
            if len(track_values) >= count:
                track_values = [track_values[index * (len(track_values) - 1) // (count - 1)] for index in range(count)]
            return list(dict.fromkeys(track_values))
        return sorted({self.find_value(index / (count - 1)) for index in range(count)})


def compute_round_values(low: int, high: int, default: int | None, seconds: bool = False) -> tuple[int, ...]:
    """Return the round numbers from *low* to *high*, in powers of two if the default is one, else in powers of ten."""
    if seconds:
        values = set(_SECONDS)
    else:
        binary = default is not None and default >= 64 and default & (default - 1) == 0
        base, digits = (2, _BINARY) if binary else (10, _DECIMAL)
        powers = range(math.ceil(math.log(max(high, 2), base)) + 1)
        values = {0, *(int(digit * base**power) for power in powers for digit in digits)}
    values |= {low, high} if default is None else {low, high, default}
    return tuple(sorted(value for value in values if low <= value <= high))


def build_scale(low: Number, high: Number, default: Number | None, slider_max: Number, unit: str) -> Scale:
    """Build the scale of a parameter, with a track that reaches to the default or *slider_max*, whichever is larger."""
    if isinstance(low, float) or isinstance(high, float):
        return Scale(low, high, high, 0.01)
    reach = min(high, max(slider_max, default or 0, low + 1))
    if unit in ("tokens", "bytes", "seconds"):
        fixed = None if default is None else int(default)
        track_values = compute_round_values(int(low), int(high), fixed, unit == "seconds")
        reach = track_values[min(bisect_left(track_values, reach), len(track_values) - 1)]
        return Scale(low, high, reach, 1, track_values, True, max(1, (fixed or reach) // 16))
    return Scale(low, high, reach, 1, (), log=unit != "%" and reach - low > MAX_LINEAR_RANGE)


def parse_number(text: str, low: Number, high: Number, optional: bool = False) -> Number | None:
    """Parse a typed number such as ``1,500``, ``1.5k``, ``2m`` or ``60%``.

    Return None for an empty text if *optional*; raise ValueError if the text is no number or out of range.
    """
    clean = text.strip().lower().replace(",", "").replace("_", "").replace(" ", "")
    if optional and clean in ("", "none"):
        return None
    ratio = isinstance(low, float) or isinstance(high, float)
    factor: Number = 1
    if clean.endswith("%"):
        clean, factor = clean[:-1], 0.01 if ratio else 1
    elif clean.endswith(("k", "m")):
        clean, factor = clean[:-1], 1_000 if clean[-1] == "k" else 1_000_000
    try:
        value = float(clean) * factor if len(clean) <= 30 else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number")
    value = round(value, 4)
    if not ratio and not value.is_integer():
        raise ValueError("it must be a whole number")
    number: Number = value if ratio else int(value)
    if number < low:
        raise ValueError(f"it must be at least {format_number(low)}")
    if number > high:
        raise ValueError(f"it must be at most {format_number(high)}")
    return number


def format_number(value: Number) -> str:
    """Format a number with thousands separators, or with two decimals (at most four) if it is a float."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if round(value, 2) == value else f"{value:.4f}"
