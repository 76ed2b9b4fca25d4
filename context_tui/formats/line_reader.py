"""Going through a file of JSON lines once, resumably: in short steps, with a torn last line, several values on a line,
lines that are too long, and problems with their places.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from context_tui.formats.lines import STEP, LineFile, objects_on, too_large
from context_tui.session.facts import Facts, Problem, RecordKind

R = TypeVar("R")
Take = Callable[[R, int, int], Iterator[bool] | None]
"""Takes a record, with the place and length in bytes of its text; in steps, where it takes long."""
TakeLarge = Callable[[int, int], Iterator[bool]]
"""Takes in steps what has that place and length, and would take long to decode; ValueError where it cannot."""
FastPath = Callable[[bytes | mmap.mmap, int], tuple[int, int]]
"""Takes in a few usual lines from a place on; gives where it stopped, and how many it took."""
FEW = 16
"""Lines that a fast path takes at most: then it is looked whether time is up."""


class LineReader(Generic[R]):
    """Where a pass over a file is. What a line holds is decoded, and then taken, by what is handed in.

    A last line without a newline that cannot be decoded is torn: a problem as long as nothing follows it, and read
    again once the file has grown.
    """

    def __init__(self, file: LineFile, facts: Facts, decode: Callable[[bytes], R]) -> None:
        """Begin at the start of *file*.

        Args:
            facts: where records are accounted for that are problems.
            decode: a record from the bytes of one JSON value; raises ValueError, saying why, for what is none.
        """
        self._file, self._facts, self._decode = file, facts, decode
        self._offset, self._line = 0, 1
        self.torn = False  # whether the last line is
        self._rest: Iterator[bool] | None = None  # of a line that is read in several steps

    @property
    def progress(self) -> float:
        """Share of the bytes that have been read."""
        return self._offset / self._file.size if self._file.size else 1.0

    @property
    def where(self) -> str:
        """The line that is read, in words."""
        return f"line {self._line}"

    def advance(
        self,
        take: Take[R],
        deadline: float | None = None,
        fast_path: FastPath | None = None,
        take_large: TakeLarge | None = None,
    ) -> bool:
        """Read on, at least one step, until the *deadline* of ``time.perf_counter``; whether that was all there is.

        Args:
            take_large: takes lines of more than ``STEP`` bytes, where there is a deadline, so that somebody waits.

        Raises:
            UnreadableSession: the file has become shorter.
        """
        self._file.refresh()
        if self.torn and self._offset < self._file.size:
            self._untear()
        begun = False
        while self._offset < self._file.size:
            if begun and deadline is not None and time.perf_counter() > deadline:
                break
            begun = True
            if fast_path is not None and self._rest is None:
                self._offset, taken = fast_path(self._file.data, self._offset)
                self._line += taken
                if taken == FEW or self._offset >= self._file.size:
                    continue
            self._rest = self._rest or self._read(self._offset, take, take_large if deadline is not None else None)
            if next(self._rest, None) is None:
                self._rest = None
        self._file.note_read(self._offset)
        return self._offset >= self._file.size

    def problem(self, place: int, length: int, what: str) -> None:
        """Account for a record that cannot be read or understood."""
        self.note(self._facts.add_record(place, length, RecordKind.PROBLEM), what)

    def note(self, record: int, what: str) -> None:
        """Say what is wrong with a record that is accounted for."""
        self._facts.problems.append(Problem(self.where, what, record))

    def _read(self, start: int, take: Take[R], take_large: TakeLarge | None) -> Iterator[bool]:
        """Take in the line at *start*, whatever it is, in steps of which each is short; True stands between two."""
        data, size = self._file.data, self._file.size
        searched, end = start, -1
        while end < 0 and searched < size:
            end = data.find(b"\n", searched, searched + STEP)
            searched += STEP
            if end < 0 and searched < size:
                self._file.note_read(searched)
                yield True
        whole = end >= 0
        end = end if whole else size
        if what := too_large(end - start):
            self.torn = not whole
            self.problem(start, end - start, what)
        elif take_large is None or end - start <= STEP:
            yield from self._read_line(data[start:end], start, whole, take)
        else:
            try:
                yield from take_large(start, end - start)
            except ValueError:
                yield from self._read_line(data[start:end], start, whole, take)
        self._line += whole
        self._offset = min(end + 1, size)

    def _read_line(self, line: bytes, start: int, whole: bool, take: Take[R]) -> Iterator[bool]:
        try:
            record = self._decode(line)
        except ValueError as error:
            yield from self._read_odd_line(line, start, whole, take, str(error))
        else:
            yield from take(record, start, len(line)) or ()

    def _read_odd_line(self, line: bytes, start: int, whole: bool, take: Take[R], why: str) -> Iterator[bool]:
        """A line that is not one record: blank, several values, torn, or broken."""
        if not line.strip():
            return
        several: list[tuple[R, int, int]] = []
        try:
            for begin, end in objects_on(line):
                several.append((self._decode(line[begin:end]), start + begin, end - begin))
                yield True
        except ValueError:
            self.torn = not whole
            torn = "torn last line (still being written, or cut off)"
            self.problem(start, len(line), torn if self.torn else f"unreadable line: {why[:120]}")
            return
        for each in several:
            yield from take(*each) or ()
            yield True

    def _untear(self) -> None:
        """Take back the torn last line: the file has grown, so it is read again."""
        problem = self._facts.problems.pop()
        self._offset = self._facts.record_place[problem.raw]
        self._facts.drop_last_record()
        self.torn = False
