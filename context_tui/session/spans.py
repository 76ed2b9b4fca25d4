"""Message numbers in an order of their own, kept as ranges: what a compaction left takes no more room than that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import overload


class Spans(Sequence[int]):
    """Ranges of message numbers, one behind the other. It equals any sequence of the same numbers."""

    __slots__ = ("_ends", "ranges")

    def __init__(self, *ranges: range) -> None:
        self.ranges = tuple(filter(None, ranges))
        self._ends = list(accumulate(map(len, self.ranges)))

    @classmethod
    def from_numbers(cls, numbers: Iterable[int]) -> Spans:
        """The numbers as they come, with what follows one by one in one range."""
        ranges: list[range] = []
        for number in numbers:
            if ranges and ranges[-1].stop == number:
                ranges[-1] = range(ranges[-1].start, number + 1)
            else:
                ranges.append(range(number, number + 1))
        return cls(*ranges)

    @property
    def end(self) -> int:
        """The number behind the highest; 0 where there is none."""
        return max((each.stop for each in self.ranges), default=0)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)

    def __contains__(self, number: object) -> bool:
        return any(number in each for each in self.ranges)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...

    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return list(self)[place]
        at = range(len(self))[place]
        which = bisect_right(self._ends, at)
        return self.ranges[which][at - self._ends[which]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(int.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Spans({', '.join(map(repr, self.ranges))})"


NO_MESSAGES = Spans()
"""No messages."""
