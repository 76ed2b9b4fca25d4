"""Sums on either side of a value, for the curve of a parameter: sorted once, then two bisections for each value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate


class PrefixSums:
    """Amounts, each at a level."""

    def __init__(self, levels: Iterable[int], amounts: Iterable[int]) -> None:
        pairs = sorted(zip(levels, amounts, strict=True))
        self._levels = [level for level, _ in pairs]
        self._sums = list(accumulate((amount for _, amount in pairs), initial=0))

    def sum_below(self, value: float) -> int:
        """The sum of the amounts at levels below *value*."""
        return self._sums[bisect_left(self._levels, value)]

    def sum_at_least(self, value: float) -> int:
        """The sum of the amounts at *value* and above."""
        return self._sums[-1] - self.sum_below(value)

    def sum_above(self, value: float) -> int:
        """The sum of the amounts at levels above *value*."""
        return self._sums[-1] - self._sums[bisect_right(self._levels, value)]
