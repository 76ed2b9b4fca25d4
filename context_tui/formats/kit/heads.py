"""Read the head or the tail of a file, and parse JSON text that may be cut off."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.kit.files import open_regular
from context_tui.session.jsontext import BOM, loads, loads_all, try_loads


def read_json(path: Path, max_bytes: int = -1) -> Any:
    """Return the value in a JSON file (or in its first *max_bytes*), or None if it cannot be read or parsed."""
    return try_loads(read_head(path, max_bytes).removeprefix(BOM))


MAX_HEAD_LINES = 50
_TOKEN_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_CLOSING_BRACKETS = {ord("{"): ord("}"), ord("["): ord("]")}


def find_complete_prefix(data: bytes) -> tuple[int, bytes] | None:
    """Return the end of the last complete value in JSON text that was cut off, and the brackets that close it there.

    Returns None if the text is not cut off or is not JSON.
    """
    closers: list[int] = []
    end = 0
    for token in _TOKEN_PATTERN.finditer(data):
        byte = data[token.start()]
        if closer := _CLOSING_BRACKETS.get(byte):
            if not closers and token.start() and data[: token.start()].strip():
                return None
            closers.append(closer)
            end = token.end()
        elif byte in b"]}":
            if not closers or closers.pop() != byte or not closers:
                return None
            end = token.end()
        elif byte == ord(","):
            end = token.start()
    return (end, bytes(reversed(closers))) if closers else None


def _parse_truncated(data: bytes) -> Any:
    """Parse truncated JSON text as far as possible, with its unfinished string or else without its last value."""
    prefix = find_complete_prefix(data)
    if prefix is None:
        raise ValueError("not one JSON value that was cut off")
    end, closers = prefix
    for candidate in (data + closers, re.sub(rb"\\[^\\]{0,4}\Z", b"", data) + b'"' + closers, data[:end] + closers):
        with suppress(ValueError):
            return loads(candidate)
    raise ValueError("not JSON")


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first *size* bytes of a file, or b"" if it is unreadable."""
    with suppress(OSError, UnreadableSession), open_regular(path) as file:
        return file.read(size)
    return b""


def read_tail(path: Path) -> bytes:
    """Return the last ``HEAD_BYTES`` bytes of a file that are not in its head, or b"" if it is unreadable."""
    with suppress(OSError, UnreadableSession), open_regular(path) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - HEAD_BYTES, HEAD_BYTES))
        return file.read(HEAD_BYTES)
    return b""


def read_first_values(path: Path) -> list[Any]:
    """Return the first JSON values in a file (see :func:`parse_first_values`), or [] if it is unreadable."""
    return parse_first_values(read_head(path))


def read_first_objects(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects at the start of a file, or [] if it cannot be read."""
    return [value for value in read_first_values(path) if isinstance(value, dict)]


def read_first_object(path: Path) -> dict[str, Any]:
    """Return the first JSON object in a file, or {} if there is none."""
    return next(iter(read_first_objects(path)), {})


def parse_only_value(head: bytes) -> Any:
    """Return the JSON value in the head of a file, which may be cut off, or None if it holds several values."""
    values = parse_first_values(head)
    return values[0] if len(values) == 1 else None


@lru_cache(maxsize=2)
def parse_first_values(head: bytes) -> list[Any]:
    """Return the JSON values in the head of a file: one document (perhaps cut off), or the values on its first lines.

    The result is cached, as every format inspects the same head, so callers must not modify it.
    """
    data = head.removeprefix(BOM).decode("utf-8", "ignore").encode().lstrip()
    if data[:1] not in (b"{", b"["):
        data = data[data.find(b"\n") + 1 :]  # a first line that is no JSON does not make a file unreadable
    for decode in (loads, _parse_truncated):
        with suppress(ValueError):
            return [decode(data)]
    values: list[Any] = []
    for line in data.split(b"\n")[:MAX_HEAD_LINES]:
        try:
            values.extend(loads_all(line))
        except ValueError:
            with suppress(ValueError):
                values.append(_parse_truncated(line))
    return values
