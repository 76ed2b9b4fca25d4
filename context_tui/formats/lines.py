"""Files of lines: read-only, mapped into memory, and growing while they are read."""

from __future__ import annotations

import json
import mmap
import os
import re
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.files import open_regular, unreadable

STEP = 8 << 20
"""Bytes that are looked through in one go: a longer line is searched for its end step by step, so that reading can be
stopped.
"""
LARGEST = 64 << 20
"""Bytes of the largest record that is read. A request holds half of that at most, and decoding more would hold up
everything else for seconds."""
MOST_RAW = 1 << 20
"""Bytes of a record that are shown as they are."""

_SPACE = re.compile(r"[ \t\r\n]*")


def too_large(length: int) -> str:
    """What is wrong with a record of so many bytes; nothing where it can be read."""
    return f"too large to read: {length / 1e6:,.0f} MB (at most {LARGEST / 1e6:,.0f} MB)" if length > LARGEST else ""


def beginning(data: bytes, length: int) -> str:
    """The text of a record of *length* bytes of which *data* are the first, saying so where there are more."""
    text = data[:MOST_RAW].decode("utf-8", "replace")
    return text if length <= MOST_RAW else f"{text}\n[the first {MOST_RAW:,} of {length:,} bytes]"


class LineFile:
    """The bytes of a file. Only ``\\n`` ends a line; a file that grows is mapped anew by :meth:`refresh`.

    It is closed with the last reader that holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.data: mmap.mmap | bytes = b""
        self._read = self._checksum = 0  # how much has been read for good, and its checksum
        self._file = open_regular(path)
        self._close = weakref.finalize(self, self._file.close)
        try:
            self.refresh()
        except OSError as error:
            raise unreadable(path, error) from None

    @property
    def descriptor(self) -> int:
        """Of the open file, for another process to read the same one by."""
        return self._file.fileno()

    def refresh(self) -> None:
        """Take in what has been appended since.

        Raises:
            UnreadableSession: the file has become shorter, so that what was read is no longer there.
        """
        size = os.fstat(self._file.fileno()).st_size
        if size < self.size:
            raise self._shorter()
        if size != self.size:
            self.data = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
            self.size = size

    def shown(self, start: int, length: int) -> str:
        """The text of a line, or the beginning of a long one."""
        return beginning(self.read(start, min(length, MOST_RAW)), length)

    def read(self, start: int, length: int) -> bytes:
        """Bytes that were seen before, read anew: to touch what a map has lost would end the process.

        Raises:
            UnreadableSession: they are no longer there.
        """
        found = os.pread(self._file.fileno(), length, start)
        if len(found) < length:
            raise self._shorter()
        return found

    def note_read(self, end: int) -> None:
        """Remember what the file held up to *end*, as it was just read; what was remembered before stays.

        To compare the map with the file later would compare the file with itself, as a change in place changes both.
        """
        if end > self._read:
            with memoryview(self.data) as data:
                self._checksum = zlib.crc32(data[self._read : end], self._checksum)
            self._read = end

    def unchanged(self) -> bool:
        """Whether the file at this path still begins with what was read; that it has grown is fine.

        Raises:
            UnreadableSession: there is no file that can be read any more.
        """
        left, checksum = self._read, 0
        try:
            with open_regular(self.path) as file:
                while left and (data := file.read(min(left, STEP))):
                    checksum = zlib.crc32(data, checksum)
                    left -= len(data)
        except OSError as error:
            raise unreadable(self.path, error) from None
        return not left and checksum == self._checksum

    def _shorter(self) -> UnreadableSession:
        return UnreadableSession(f"{self.path}: has become shorter since it was read; open it again")

    def close(self) -> None:
        """Give the file back; reading it afterwards is an error."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()
        self._close()


def objects_on(line: bytes) -> Iterator[tuple[int, int]]:
    """Byte ranges of the JSON values on a line that holds several, one after the other.

    Raises:
        ValueError: what stands between or behind them is not JSON.
    """
    text = line.decode("utf-8", "surrogateescape")
    decoder, at, offset = json.JSONDecoder(), 0, 0
    while True:
        begin = _end_of_space(text, at)
        offset += begin - at
        if begin >= len(text):
            return
        try:
            _, at = decoder.raw_decode(text, begin)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        width = len(text[begin:at].encode("utf-8", "surrogateescape"))
        yield offset, offset + width
        offset += width


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
