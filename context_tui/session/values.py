"""Values used in facts: kinds, flags, ranges of messages, and fast dataclasses that must not be modified."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from itertools import accumulate, chain
from typing import TypeVar, dataclass_transform, overload

T = TypeVar("T")

Checkpoint = Callable[[], object]
"""Function that slow work calls at every message, request or call; it may raise an exception to stop the work."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Decorate a class as a dataclass that must not be modified. Without *eq*, instances are compared by identity.

    ``frozen=True`` would enforce this, but creating instances would be slower: a replay would take a seventh longer.
    """
    return dataclass(eq=eq, unsafe_hash=eq)


class Role(IntEnum):
    """The role of a message. SYSTEM is for messages inside a history, not for the system prompt."""

    USER = 0
    ASSISTANT = 1
    SYSTEM = 2


class Kind(IntEnum):
    """The type of a block. OTHER is for activity of hosted tools and unknown blocks, which estimators ignore."""

    TEXT = 0
    THINKING = 1
    TOOL_USE = 2
    TOOL_RESULT = 3
    IMAGE = 4
    OTHER = 5


class RecordKind(IntEnum):
    """The kind of a record: part of a message, metadata, or a problem."""

    MESSAGE = 0
    METADATA = 1
    PROBLEM = 2


class Explanation(StrEnum):
    """The explanation of a drop, as shown to users."""

    COMPACTION = "full compaction"
    MICROCOMPACTION = "microcompaction"
    CLEARED = "cleared results"
    THINKING = "dropped thinking"
    MODEL = "change of model"


class BlockFlag:
    """Properties of a block, as bits of a plain integer, which is faster than IntFlag."""

    INJECTED = 1  # inserted by the runtime
    ERROR = 2  # is_error
    BODY_JSON = 4  # a tool_result body that is neither text nor a list of blocks
    BODY_LIST = 8  # a tool_result body that is a list of only text and image objects
    UNKNOWN_SIZE = 16  # invisible to estimators: hidden thinking, encrypted or binary parts
    HAS_IMAGE = 32  # a tool_result with an image in it


class MessageFlag:
    """Properties of a message other than its role, as bits of a plain integer."""

    TURN_START = 1  # a user message with a block that is neither a tool_result nor injected
    SUMMARY = 2  # the summary of an earlier compaction
    SYNTHETIC = 4  # written by the client, not by a model
    NOT_SENT = 8  # in the file, but never in the context


class Spans(Sequence[int]):
    """A sequence of message numbers that is stored as ranges. It equals any sequence with the same numbers."""

    __slots__ = ("_ends", "ranges")

    def __init__(self, *ranges: range) -> None:
        self.ranges = tuple(filter(None, ranges))
        # Computed when needed where there are few ranges, because there may be spans for every compaction.
        self._ends = list(accumulate(map(len, self.ranges))) if len(self.ranges) > 8 else None

    @classmethod
    def from_numbers(cls, numbers: Iterable[int]) -> Spans:
        """Create spans from message numbers, with one range for each run of consecutive numbers."""
        ranges: list[range] = []
        for number in numbers:
            if ranges and ranges[-1].stop == number:
                ranges[-1] = range(ranges[-1].start, number + 1)
            else:
                ranges.append(range(number, number + 1))
        return cls(*ranges)

    @property
    def end(self) -> int:
        """The highest number plus one, or 0 if there are no numbers."""
        return max((span.stop for span in self.ranges), default=0)

    def without(self, other: Spans) -> Spans:
        """Return the numbers that are not in *other*, in the same order."""
        removed = sorted(other.ranges, key=lambda span: span.start)
        starts, ends = [span.start for span in removed], list(accumulate((span.stop for span in removed), max))
        pieces: list[range] = []
        for span in self.ranges:
            start = span.start
            for each in removed[bisect_right(ends, span.start) : bisect_left(starts, span.stop)]:
                pieces.append(range(start, each.start))
                start = max(start, each.stop)
            pieces.append(range(start, span.stop))
        return Spans(*pieces)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else sum(map(len, self.ranges))

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)

    def __contains__(self, number: object) -> bool:
        return any(number in span for span in self.ranges)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...

    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return list(self)[place]
        at = range(len(self))[place]
        ends = self._ends or list(accumulate(map(len, self.ranges)))
        span = bisect_right(ends, at)
        return self.ranges[span][at - ends[span]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(int.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Spans({', '.join(map(repr, self.ranges))})"


NO_MESSAGES = Spans()
