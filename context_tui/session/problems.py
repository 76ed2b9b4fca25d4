"""Problems of a file: records that cannot be read or understood."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload


class Problem(NamedTuple):
    """A record, or a part of one, that cannot be read or is unknown: where it is, and what is wrong."""

    where: str
    what: str
    raw: int = -1  # record number, to display its text


class ProblemList(Sequence[Problem]):
    """A list of problems, stored in columns to save memory, because a broken file may have one on each line."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._texts: list[str] = []
        self._text_ids: dict[str, int] = {}
        self._places, self._numbers, self._reasons, self._records = (array("i") for _ in range(4))
        self.extend(problems)

    def append(self, problem: Problem) -> None:
        """Append a problem; a number at the end of its place is stored separately, so that equal texts are shared."""
        place, _, number = problem.where.rpartition(" ")
        if not (number.isascii() and number.isdecimal() and len(number) < 10 and str(int(number)) == number):
            place, number = problem.where, "-1"
        self._places.append(self._intern(place))
        self._numbers.append(int(number))
        self._reasons.append(self._intern(problem.what))
        self._records.append(problem.raw)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Append each of *problems*."""
        for problem in problems:
            self.append(problem)

    def pop(self) -> Problem:
        """Remove and return the last problem."""
        problem = self[-1]
        for column in (self._places, self._numbers, self._reasons, self._records):
            column.pop()
        return problem

    def _intern(self, text: str) -> int:
        number = self._text_ids.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, place: int) -> Problem: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Problem]: ...

    def __getitem__(self, place: int | slice) -> Problem | Sequence[Problem]:
        if isinstance(place, slice):
            return [self[row] for row in range(len(self))[place]]
        where, number = self._texts[self._places[place]], self._numbers[place]
        where = where if number < 0 else f"{where} {number}"
        return Problem(where, self._texts[self._reasons[place]], self._records[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
