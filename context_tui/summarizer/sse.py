"""Server-sent events, as the HTML standard defines them, from bytes that may be split anywhere.

Lines end at LF, CRLF or CR and nowhere else (``str.splitlines`` would also split at U+2028, which stands unescaped
inside JSON), so lines are found in bytes and decoded whole. The one leniency: an event that the end of the stream
leaves without its blank line still counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    """One event: its type (``message`` when unnamed) and its data lines joined by LF."""

    event: str
    data: str


class SSEParser:
    """Incremental: ``feed`` bytes as they come, ``finish`` at the end of the stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # no line ends before this, so that a long line is looked at once
        self._first = True
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that *chunk* completes."""
        self._buffer += chunk
        events, start = [], 0
        while (end := _LINE_END.search(self._buffer, max(start, self._searched))) is not None:
            if end.group() == b"\r" and end.end() == len(self._buffer):
                break  # perhaps the first half of a CRLF
            events += self._parse_line(bytes(self._buffer[start : end.start()]))
            start = end.end()
        del self._buffer[:start]
        self._searched = max(0, len(self._buffer) - 1)
        return events

    def finish(self) -> list[ServerSentEvent]:
        """The events that the end of the stream completes."""
        rest = bytes(self._buffer).removesuffix(b"\r")
        self._buffer.clear()
        return (self._parse_line(rest) if rest else []) + self._parse_line(b"")

    def _parse_line(self, line: bytes) -> list[ServerSentEvent]:
        """Take in one line; a blank one dispatches the event, if it has data."""
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            event = ServerSentEvent(self._event or "message", "\n".join(self._data))
            complete = bool(self._data)
            self._event, self._data = "", []
            return [event] if complete else []
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return []  # comments (no name) keep the connection alive; ids and retry times mean nothing here
