"""Going through a file of JSON lines once, resumably: budget, torn last line, several values on a line, problems."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from context_tui.formats.lines import LineFile, objects_on
from context_tui.session.facts import Facts, Problem, RecordKind

R = TypeVar("R")
Fast = Callable[[object, int, float | None], tuple[int, int]]
"""Takes in lines from a place on, up to a deadline or an unusual one; gives where that is, and how many it took."""


class LineReader(Generic[R]):
    """Where a pass over a file is. What a line holds is decoded, and then taken, by what is handed in.

    A last line without a newline that cannot be decoded is torn: a problem as long as nothing follows it, and read
    again once the file has grown.
    """

    def __init__(
        self, file: LineFile, facts: Facts, decode: Callable[[bytes], R], take: Callable[[R, int, int], None]
    ) -> None:
        """Begin at the start of *file*.

        Args:
            decode: a record from the bytes of one JSON value; raises ValueError, saying why, for what is none.
            take: takes a record, with the place and length in bytes of its text.
        """
        self.file, self.line = file, 0
        self._facts, self._decode, self._take = facts, decode, take
        self._offset, self._torn = 0, False

    @property
    def progress(self) -> float:
        """Share of the bytes that have been read."""
        return self._offset / self.file.size if self.file.size else 1.0

    def advance(self, deadline: float | None = None, fast: Fast | None = None) -> bool:
        """Read on, at least one line, until the *deadline* of ``time.perf_counter``; whether that was all there is."""
        if self._torn and self._offset < self.file.size:
            self._untear()
        begun = False
        while self._offset < self.file.size:
            if begun and deadline is not None and time.perf_counter() > deadline:
                break
            begun = True
            if fast is not None:
                self._offset, taken = fast(self.file.data, self._offset, deadline)
                self.line += taken
                if taken:
                    continue
            start = self._offset
            end, whole = self.file.line(start)
            self._read(self.file.data[start:end], start, whole)
            self.line += whole
            self._offset = min(end + 1, self.file.size)
        self.file.note_read(self._offset)
        return self._offset >= self.file.size

    def problem(self, place: int, length: int, what: str) -> None:
        """Account for a record that cannot be read or understood."""
        row = self._facts.add_record(place, length, RecordKind.PROBLEM)
        self._facts.problems.append(Problem(f"line {self.line + 1}", what, row))

    def _read(self, line: bytes, start: int, whole: bool) -> None:
        try:
            record = self._decode(line)
        except ValueError as error:
            self._read_odd(line, start, whole, str(error))
        else:
            self._take(record, start, len(line))

    def _read_odd(self, line: bytes, start: int, whole: bool, why: str) -> None:
        """A line that is not one record: blank, several values, torn, or broken."""
        if not line.strip():
            return
        try:
            ranges = objects_on(line)
            several = [self._decode(line[begin:end]) for begin, end in ranges]
        except ValueError:
            self._torn = not whole
            torn = "torn last line (still being written, or cut off)"
            self.problem(start, len(line), torn if self._torn else f"unreadable line: {why[:120]}")
            return
        for record, (begin, end) in zip(several, ranges, strict=True):
            self._take(record, start + begin, end - begin)

    def _untear(self) -> None:
        """Take back the torn last line: the file has grown, so it is read again."""
        problem = self._facts.problems.pop()
        self._offset = self._facts.record_place[problem.raw]
        self._facts.drop_last_record()
        self._torn = False
