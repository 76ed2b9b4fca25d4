"""Read memory-mapped files of JSON lines in one pass, in short steps that can be resumed later.

Torn last lines, several values on one line, and lines that are too long are handled.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from context_tui.formats.kit import files
from context_tui.formats.kit.files import FileChanged, make_unreadable_error, open_regular
from context_tui.session.facts import Facts
from context_tui.session.jsontext import OversizedRecord, find_value_ranges
from context_tui.session.problems import Problem
from context_tui.session.values import RecordKind

STEP_BYTES = 8 << 20
"""Bytes that are searched in one step. The end of a longer line is found in several steps, so that reading can stop."""
CHECKED_BYTES = 128 << 10
"""Bytes that are read at once to compare a file with what was read before."""
MAX_LOCAL_RETRY_BYTES = 64 << 20
"""Largest record, in bytes, that is decoded in this process after another process failed to decode it."""
MAX_SEARCHED_BYTES = 32 << 20
"""Bytes at the start of a file that are searched for rare patterns."""
TAIL_BYTES = 256
"""Bytes before the read position that are compared when a file has grown, since it may have been rewritten."""

R = TypeVar("R")
RecordHandler = Callable[[R, int, int], Iterator[bool] | None]
"""Handler of a record, given the place and length of its text in bytes. It may be a generator that works in steps."""
LargeRecordHandler = Callable[[int, int], Iterator[bool]]
"""Generator that handles a large record, given its place and length; raises ValueError if it cannot be decoded."""
FastPath = Callable[[bytes | mmap.mmap, int], tuple[int, int]]
"""Function that reads a few usual lines from an offset; it returns the offset after them, and their number."""
FAST_PATH_LINES = 16
"""Maximum number of lines per call of a fast path. The deadline is checked after each call."""


class LineFile:
    """A file of lines that end with ``\\n``. It is closed when nothing refers to this object any more.

    Only the bytes before *end* are read. A file may continue another one, its *base*: the place of a record is then its
    offset from the first byte of the first file, and ``start`` is the place of this file's first byte. Reading raises
    FileChanged after the file was shortened, rewritten or replaced.
    """

    def __init__(self, path: Path, end: int = sys.maxsize, base: LineFile | None = None) -> None:
        self.path, self.base = path, base
        self.start: int = base.start + base.size if base else 0
        self.size: int = 0
        self._limit = end
        self.data: mmap.mmap | bytes = b""
        self._read = self._checksum = 0  # number of bytes read so far, and their checksum
        self._end = b""  # the last of these bytes
        self._file = open_regular(path)
        self._close = weakref.finalize(self, self._file.close)
        try:
            self.refresh()
        except OSError as error:
            raise make_unreadable_error(path, error) from None

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file, which another process can inherit."""
        return self._file.fileno()

    def refresh(self) -> None:
        """Map the file again if it has grown, or raise FileChanged if it was changed other than by appending."""
        status = os.fstat(self._file.fileno())
        size = min(status.st_size, self._limit)
        if size < self.size:
            raise self._make_shrunk_error()
        with suppress(OSError):
            if not os.path.samestat(os.stat(self.path), status):
                raise FileChanged(f"{self.path}: another file has taken its place; open it again")
        if size != self.size:
            if self._end and os.pread(self._file.fileno(), len(self._end), self._read - len(self._end)) != self._end:
                raise FileChanged(f"{self.path}: was written anew since it was read; open it again")
            self.data = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
            self.size = size

    def format_line(self, start: int, length: int) -> str:
        """Return the text of the line at a place for display, cut after ``MAX_RAW_BYTES``."""
        return files.format_beginning(self.read_range(start, min(length, files.MAX_RAW_BYTES)), length)

    def read_range(self, start: int, length: int) -> bytes:
        """Read bytes at a place with a system call, as touching the map of a truncated file would kill the process."""
        file = self
        while file.base and start < file.start:
            file = file.base
        data = os.pread(file.descriptor, length, start - file.start)
        if len(data) < length:
            raise file._make_shrunk_error()
        return data

    def copy_to(self, end: int, out: BinaryIO) -> None:
        """Write the bytes up to *end*, and any whitespace that was read after them, to *out*."""
        for start in range(0, end, STEP_BYTES):
            out.write(self.read_range(start, min(STEP_BYTES, end - start)))
        tail = self.read_range(end, min(max(self._read - end, 0), STEP_BYTES))
        out.write(tail[: len(tail) - len(tail.lstrip())])

    def save_fingerprint(self, end: int) -> None:
        """Extend the checksum to *end*, the end of the bytes that were just read.

        This must not be done later: a change in place alters the map, too, and the checksum would include that change.
        """
        if end > self._read:
            with memoryview(self.data) as data:
                self._checksum = zlib.crc32(data[self._read : end], self._checksum)
                self._end = bytes(data[max(end - TAIL_BYTES, 0) : end])
            self._read = end

    def is_unchanged(self) -> bool:
        """Read the file and its base again, and return whether both still begin with the bytes read so far."""
        remaining, checksum = self._read, 0
        try:
            with open_regular(self.path) as file:
                while remaining and (data := file.read(min(remaining, CHECKED_BYTES))):
                    checksum = zlib.crc32(data, checksum)
                    remaining -= len(data)
        except OSError as error:
            raise make_unreadable_error(self.path, error) from None
        return not remaining and checksum == self._checksum and (self.base is None or self.base.is_unchanged())

    def _make_shrunk_error(self) -> FileChanged:
        return FileChanged(f"{self.path}: is shorter than when it was read; open it again")

    def close(self) -> None:
        """Close the file. It cannot be read afterwards."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()
        self._close()


def find_matching_lines(
    file: LineFile, pattern: re.Pattern[bytes], already_found: Container[bytes] = ()
) -> Iterator[bytes]:
    """Yield each line that matches *pattern* in the first ``MAX_SEARCHED_BYTES`` of a file.

    Lines of more than ``STEP_BYTES`` are skipped. A match is also skipped if its first group is in *already_found*; the
    caller may add to that collection while iterating.
    """
    data, position = file.data, 0
    while match := pattern.search(data, position, MAX_SEARCHED_BYTES):
        if match.lastindex and match[1] in already_found:
            position = match.end()
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
        position = end + 1


class LineReader(Generic[R]):
    """A resumable pass over a file that decodes each line and passes the record to a handler.

    A last line that has no newline and cannot be decoded is *torn*: it becomes a problem, and is read again when the
    file grows.
    """

    def __init__(self, file: LineFile, facts: Facts, parse: Callable[[bytes], R], prefix: str = "") -> None:
        """Start a pass over *file* that adds problems to *facts*; *prefix* precedes line numbers in messages.

        *parse* parses the bytes of one JSON value to a record, or raises ValueError with the reason.
        """
        self._prefix = prefix
        self._file, self._facts, self._parse = file, facts, parse
        self._offset, self._line = 0, 1
        self.torn = False  # whether the last line is torn
        self._steps: Iterator[bool] | None = None  # remaining steps of a line that is read in several

    @property
    def progress(self) -> float:
        return self._offset / self._file.size if self._file.size else 1.0

    @property
    def place(self) -> int:
        """The place of the next line."""
        return self._file.start + self._offset

    @property
    def line_label(self) -> str:
        """The current line's name in messages, such as ``line 12``."""
        return f"{self._prefix}line {self._line}"

    def advance(
        self,
        handle_record: RecordHandler[R],
        deadline: float | None = None,
        fast_path: FastPath | None = None,
        handle_large_record: LargeRecordHandler | None = None,
    ) -> bool:
        """Read one step, then more until *deadline* (by ``time.perf_counter``); return whether the end is reached.

        *fast_path* reads usual lines more quickly, and *handle_large_record* handles lines of more than ``STEP_BYTES``
        if there is a deadline. Raises FileChanged if the file was changed other than by appending.
        """
        self._file.refresh()
        if self.torn and self._offset < self._file.size:
            self._drop_torn_line()
        has_read = False
        while self._offset < self._file.size:
            if has_read and deadline is not None and time.perf_counter() > deadline:
                break
            has_read = True
            if fast_path is not None and self._steps is None:
                self._offset, line_count = fast_path(self._file.data, self._offset)
                self._line += line_count
                if line_count == FAST_PATH_LINES or self._offset >= self._file.size:
                    continue
            large_record_handler = handle_large_record if deadline is not None else None
            self._steps = self._steps or self._read_steps(self._offset, handle_record, large_record_handler)
            if next(self._steps, None) is None:
                self._steps = None
        self._file.save_fingerprint(self._offset)
        return self._offset >= self._file.size

    def add_problem(self, place: int, length: int, reason: str) -> None:
        """Add a record that cannot be read or understood, with the *reason* shown to users."""
        self.add_note(self._facts.add_record(place, length, RecordKind.PROBLEM), reason)

    def add_note(self, record: int, note: str) -> None:
        """Add a problem with a part of *record*, which was added before."""
        self._facts.problems.append(Problem(self.line_label, note, record))

    def _read_steps(
        self, start: int, handle_record: RecordHandler[R], handle_large_record: LargeRecordHandler | None
    ) -> Iterator[bool]:
        """Process the line at *start*; yield True after each short step."""
        data, size, place = self._file.data, self._file.size, self._file.start + start
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
            self.add_problem(place, end - start, reason)
        elif end - start <= STEP_BYTES:
            yield from self._read_line(data[start:end], place, is_complete, handle_record)
        elif (data[start : start + 4_096].lstrip() or b"{")[:1] != b"{":  # avoids a copy of the line
            self._add_unreadable_line(place, end - start, is_complete, "not a JSON object")
        elif handle_large_record is None:
            yield from self._read_line(data[start:end], place, is_complete, handle_record)
        else:
            try:
                yield from handle_large_record(start, end - start)
            except ValueError as error:
                if end - start > MAX_LOCAL_RETRY_BYTES:
                    self._add_unreadable_line(place, end - start, is_complete, str(error))
                else:
                    yield from self._read_line(data[start:end], place, is_complete, handle_record)
        self._line += is_complete
        self._offset = min(end + 1, size)

    def _read_line(self, line: bytes, place: int, is_complete: bool, handle_record: RecordHandler[R]) -> Iterator[bool]:
        try:
            record = self._parse(line)
        except OversizedRecord as error:
            self._add_unreadable_line(place, len(line), is_complete, str(error))
        except ValueError as error:
            yield from self._read_irregular_line(line, place, is_complete, handle_record, str(error))
        else:
            yield from handle_record(record, place, len(line)) or ()

    def _read_irregular_line(
        self, line: bytes, place: int, is_complete: bool, handle_record: RecordHandler[R], problem: str
    ) -> Iterator[bool]:
        """Process a line that is not a single record: blank, several values, torn, or broken."""
        if not line.strip():
            return
        records: list[tuple[R, int, int]] = []
        try:
            for value_start, value_end in find_value_ranges(line):
                record = self._parse(line[value_start:value_end])
                records.append((record, place + value_start, value_end - value_start))
                yield True
        except ValueError:
            self._add_unreadable_line(place, len(line), is_complete, problem)
            return
        for each in records:
            yield from handle_record(*each) or ()
            yield True

    def _add_unreadable_line(self, place: int, length: int, is_complete: bool, problem: str) -> None:
        self.torn = not is_complete
        torn = "torn last line (still being written, or cut off)"
        self.add_problem(place, length, torn if self.torn else f"unreadable line: {problem[:120]}")

    def _drop_torn_line(self) -> None:
        problem = self._facts.problems.pop()
        self._offset = self._facts.record_place[problem.raw] - self._file.start
        self._facts.remove_last_record()
        self.torn = False


class LineTail:
    """Reads the lines of a growing file. An incomplete last line is left for later."""

    def __init__(self, path: Path) -> None:
        self.path, self.end, self._inode = path, 0, 0

    def is_replaced(self) -> bool:
        """Return whether the file was replaced or shortened. If so, let the next read start at its beginning."""
        status = os.stat(self.path)
        is_replaced = self.end > 0 and (status.st_ino != self._inode or status.st_size < self.end)
        self.end, self._inode = 0 if is_replaced else self.end, status.st_ino
        return is_replaced

    def read_on(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each new line."""
        with open_regular(self.path) as file:
            file.seek(self.end)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.end += len(line)
                if line.strip():
                    yield self.end - len(line), line
