"""Lists of tuples of integers, for data that a replay holds for each message or call."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

T = TypeVar("T", bound=tuple[int, ...])


class TupleList(Sequence[T]):
    """A list of tuples of *width* integers in one array, which takes an eighth of the memory of a list of tuples."""

    def __init__(self, make: Callable[[Iterable[int]], T], width: int, typecode: Literal["i", "q"] = "q") -> None:
        self._make, self._width, self._numbers = make, width, array(typecode)

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        numbers = self._numbers[row * self._width : (row + 1) * self._width or None]
        if not numbers:
            raise IndexError(row)
        return self._make(numbers)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, zip(*[iter(self._numbers)] * self._width, strict=True))

    def append(self, item: Iterable[int]) -> None:
        """Append the integers of a tuple."""
        self._numbers.extend(item)
