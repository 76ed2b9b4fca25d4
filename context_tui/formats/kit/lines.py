"""Files of JSON lines: read-only, memory-mapped, and read once, resumably.

That goes in short steps, whatever is there: a torn last line, several values on a line, lines that are too long.
"""

from __future__ import annotations

import mmap
import os
import re
import time
import weakref
import zlib
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from context_tui.formats.kit import files
from context_tui.formats.kit.files import FileChanged, make_unreadable_error, open_regular
from context_tui.session.facts import Facts, Problem
from context_tui.session.jsontext import find_value_ranges
from context_tui.session.values import RecordKind

STEP_BYTES = 8 << 20
"""Bytes that are looked through in one go: a longer line is searched for its end step by step, so that reading can be
stopped.
"""
MAX_LOCAL_RETRY_BYTES = 64 << 20
"""Bytes of the largest record that is tried in this process where another one that was given it could not decode it."""

MAX_SEARCHED_BYTES = 32 << 20
"""Bytes at the start of a file that are searched for what only a few of its lines hold."""

TAIL_BYTES = 256
"""Bytes before where reading went on that are looked at again when a file has grown: it may have been written anew."""

R = TypeVar("R")
RecordHandler = Callable[[R, int, int], Iterator[bool] | None]
"""Takes a record, with the place and length in bytes of its text; in steps, where it takes long."""
LargeRecordHandler = Callable[[int, int], Iterator[bool]]
"""Takes in steps what has that place and length, and would take long to decode; ValueError where it cannot."""
FastPath = Callable[[bytes | mmap.mmap, int], tuple[int, int]]
"""Takes in a few usual lines from a place on; gives where it stopped, and how many it took."""
FAST_PATH_LINES = 16
"""Lines that a fast path takes at most: then it is looked whether time is up."""


class LineFile:
    """Bytes of a file. Only ``\\n`` ends a line; :meth:`refresh` maps a file that has grown.

    It is closed with the last reader that holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.data: mmap.mmap | bytes = b""
        self._read = self._checksum = 0  # how much has been read for good, and its checksum
        self._end = b""  # the last bytes of that
        self._file = open_regular(path)
        self._close = weakref.finalize(self, self._file.close)
        try:
            self.refresh()
        except OSError as error:
            raise make_unreadable_error(path, error) from None

    @property
    def descriptor(self) -> int:
        """Descriptor of the open file, for another process to read it by."""
        return self._file.fileno()

    def refresh(self) -> None:
        """Take in what has been appended since.

        Raises:
            FileChanged: the file has become shorter, was written anew, or another one has taken its place.
        """
        status = os.fstat(self._file.fileno())
        size = status.st_size
        if size < self.size:
            raise self._make_shrunk_error()
        if self._is_replaced(status):
            raise FileChanged(f"{self.path}: another file has taken its place; open it again")
        if size != self.size:
            if self._end and os.pread(self._file.fileno(), len(self._end), self._read - len(self._end)) != self._end:
                raise FileChanged(f"{self.path}: was written anew since it was read; open it again")
            self.data = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
            self.size = size

    def _is_replaced(self, status: os.stat_result) -> bool:
        """Return whether another file stands at the path; where none does, this one can still be read."""
        try:
            return not os.path.samestat(os.stat(self.path), status)
        except OSError:
            return False

    def format_line(self, start: int, length: int) -> str:
        """Return the text of a line, or the beginning of a long one."""
        return files.format_beginning(self.read_range(start, min(length, files.MAX_RAW_BYTES)), length)

    def read_range(self, start: int, length: int) -> bytes:
        """Read bytes again through the file: touching a truncated map would end the process.

        Raises:
            FileChanged: they are no longer there.
        """
        data = os.pread(self._file.fileno(), length, start)
        if len(data) < length:
            raise self._make_shrunk_error()
        return data

    def copy_to(self, end: int, out: BinaryIO) -> None:
        """Append what was read up to *end* to another file, with the blank space behind it.

        Raises:
            FileChanged: it is no longer there.
        """
        for start in range(0, end, STEP_BYTES):
            out.write(self.read_range(start, min(STEP_BYTES, end - start)))
        following = self.read_range(end, min(max(self._read - end, 0), STEP_BYTES))
        out.write(following[: len(following) - len(following.lstrip())])

    def save_fingerprint(self, end: int) -> None:
        """Remember what the file held up to *end*, as it was just read; what was remembered before stays.

        To compare the map with the file later would compare the file with itself, as a change in place changes both.
        """
        if end > self._read:
            with memoryview(self.data) as data:
                self._checksum = zlib.crc32(data[self._read : end], self._checksum)
                self._end = bytes(data[max(end - TAIL_BYTES, 0) : end])
            self._read = end

    def is_unchanged(self) -> bool:
        """Return whether the file at this path still begins with what was read; that it has grown is fine.

        Raises:
            UnreadableSession: there is no file that can be read any more.
        """
        remaining, checksum = self._read, 0
        try:
            with open_regular(self.path) as file:
                while remaining and (data := file.read(min(remaining, STEP_BYTES))):
                    checksum = zlib.crc32(data, checksum)
                    remaining -= len(data)
        except OSError as error:
            raise make_unreadable_error(self.path, error) from None
        return not remaining and checksum == self._checksum

    def _make_shrunk_error(self) -> FileChanged:
        return FileChanged(f"{self.path}: is shorter than when it was read; open it again")

    def close(self) -> None:
        """Give the file back; reading it afterwards is an error."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()
        self._close()


def find_matching_lines(
    file: LineFile, pattern: re.Pattern[bytes], already_found: Container[bytes] = ()
) -> Iterator[bytes]:
    """Yield the lines at the start of a file in which a pattern is found, each once; none of more than ``STEP_BYTES``
    bytes.

    Args:
        file: of which ``MAX_SEARCHED_BYTES`` bytes are searched.
        pattern: what a line holds.
        already_found: values of the first group whose lines are skipped; it may grow meanwhile.
    """
    data, at = file.data, 0
    while match := pattern.search(data, at, MAX_SEARCHED_BYTES):
        if match.lastindex and match[1] in already_found:
            at = match.end()
            continue
        start = data.rfind(b"\n", 0, match.start()) + 1
        end = data.find(b"\n", match.end(), start + STEP_BYTES + 1)
        if end < 0 and file.size - start <= STEP_BYTES:
            end = file.size
        if end >= 0:
            yield data[start:end]
        else:
            end = data.find(b"\n", match.end(), MAX_SEARCHED_BYTES)
        if end < 0:
            return
        at = end + 1


class LineReader(Generic[R]):
    """State of a pass over a file; the given functions decode and process each line.

    A last line without a newline that cannot be decoded is torn: a problem as long as nothing follows it, and read
    again once the file has grown.
    """

    def __init__(self, file: LineFile, facts: Facts, parse: Callable[[bytes], R]) -> None:
        """Begin at the start of *file*.

        Args:
            facts: where records are accounted for that are problems.
            parse: a record from the bytes of one JSON value; raises ValueError, saying why, for what is none.
        """
        self._file, self._facts, self._parse = file, facts, parse
        self._offset, self._line = 0, 1
        self.torn = False  # whether the last line is
        self._rest: Iterator[bool] | None = None  # of a line that is read in several steps

    @property
    def progress(self) -> float:
        """Share of the bytes that have been read."""
        return self._offset / self._file.size if self._file.size else 1.0

    @property
    def line_label(self) -> str:
        """The line that is read, in words."""
        return f"line {self._line}"

    def advance(
        self,
        handle_record: RecordHandler[R],
        deadline: float | None = None,
        fast_path: FastPath | None = None,
        handle_large_record: LargeRecordHandler | None = None,
    ) -> bool:
        """Read on, at least one step, until the *deadline* of ``time.perf_counter``; whether that was all there is.

        Args:
            handle_large_record: handles lines of more than ``STEP_BYTES`` bytes where there is a deadline.

        Raises:
            FileChanged: the file is no longer what was read.
        """
        self._file.refresh()
        if self.torn and self._offset < self._file.size:
            self._drop_torn_line()
        has_read = False
        while self._offset < self._file.size:
            if has_read and deadline is not None and time.perf_counter() > deadline:
                break
            has_read = True
            if fast_path is not None and self._rest is None:
                self._offset, line_count = fast_path(self._file.data, self._offset)
                self._line += line_count
                if line_count == FAST_PATH_LINES or self._offset >= self._file.size:
                    continue
            self._rest = self._rest or self._read_steps(
                self._offset, handle_record, handle_large_record if deadline is not None else None
            )
            if next(self._rest, None) is None:
                self._rest = None
        self._file.save_fingerprint(self._offset)
        return self._offset >= self._file.size

    def add_problem(self, place: int, length: int, reason: str) -> None:
        """Account for a record that cannot be read or understood."""
        self.add_note(self._facts.add_record(place, length, RecordKind.PROBLEM), reason)

    def add_note(self, record: int, note: str) -> None:
        """Say what is wrong with a record that is accounted for."""
        self._facts.problems.append(Problem(self.line_label, note, record))

    def _read_steps(
        self, start: int, handle_record: RecordHandler[R], handle_large_record: LargeRecordHandler | None
    ) -> Iterator[bool]:
        """Process the line at *start* in short steps; yields True between two."""
        data, size = self._file.data, self._file.size
        searched, end = start, -1
        while end < 0 and searched < size:
            end = data.find(b"\n", searched, searched + STEP_BYTES)
            searched += STEP_BYTES
            if end < 0 and searched < size:
                self._file.save_fingerprint(searched)
                yield True
        is_complete = end >= 0
        end = end if is_complete else size
        if reason := files.format_too_large(end - start):
            self.torn = not is_complete
            self.add_problem(start, end - start, reason)
        elif end - start <= STEP_BYTES:
            yield from self._read_line(data[start:end], start, is_complete, handle_record)
        elif (data[start : start + 4_096].lstrip() or b"{")[:1] != b"{":  # garbage is not copied
            self._add_unreadable_line(start, end - start, is_complete, "not a JSON object")
        elif handle_large_record is None:
            yield from self._read_line(data[start:end], start, is_complete, handle_record)
        else:
            try:
                yield from handle_large_record(start, end - start)
            except ValueError as error:
                if end - start > MAX_LOCAL_RETRY_BYTES:
                    self._add_unreadable_line(start, end - start, is_complete, str(error))
                else:
                    yield from self._read_line(data[start:end], start, is_complete, handle_record)
        self._line += is_complete
        self._offset = min(end + 1, size)

    def _read_line(self, line: bytes, start: int, is_complete: bool, handle_record: RecordHandler[R]) -> Iterator[bool]:
        try:
            record = self._parse(line)
        except ValueError as error:
            yield from self._read_irregular_line(line, start, is_complete, handle_record, str(error))
        else:
            yield from handle_record(record, start, len(line)) or ()

    def _read_irregular_line(
        self, line: bytes, start: int, is_complete: bool, handle_record: RecordHandler[R], problem: str
    ) -> Iterator[bool]:
        """Yield a line that is not one record: blank, several values, torn, or broken."""
        if not line.strip():
            return
        records: list[tuple[R, int, int]] = []
        try:
            for begin, end in find_value_ranges(line):
                records.append((self._parse(line[begin:end]), start + begin, end - begin))
                yield True
        except ValueError:
            self._add_unreadable_line(start, len(line), is_complete, problem)
            return
        for each in records:
            yield from handle_record(*each) or ()
            yield True

    def _add_unreadable_line(self, start: int, length: int, is_complete: bool, problem: str) -> None:
        """A line that holds no record; the last one may only be torn."""
        self.torn = not is_complete
        torn = "torn last line (still being written, or cut off)"
        self.add_problem(start, length, torn if self.torn else f"unreadable line: {problem[:120]}")

    def _drop_torn_line(self) -> None:
        """Take back the torn last line: the file has grown, so it is read again."""
        problem = self._facts.problems.pop()
        self._offset = self._facts.record_place[problem.raw]
        self._facts.remove_last_record()
        self.torn = False
