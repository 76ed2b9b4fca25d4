"""The head of a file: what its first values are, although it ends in the middle of one."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.kit.files import open_regular
from context_tui.session.jsontext import BOM, loads, loads_all

MAX_HEAD_LINES = 50

_TOKEN_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_CLOSING_BRACKETS = {ord("{"): ord("}"), ord("["): ord("]")}


def find_complete_prefix(data: bytes) -> tuple[int, bytes] | None:
    """Where the last whole value of a JSON text ends that was cut off, and what closes everything around it.

    Returns:
        None when it was not cut off: it is one whole value, several, or no JSON.
    """
    open_: list[int] = []
    end = 0
    for token in _TOKEN_PATTERN.finditer(data):
        first = data[token.start()]
        if closer := _CLOSING_BRACKETS.get(first):
            if not open_ and token.start() and data[: token.start()].strip():
                return None
            open_.append(closer)
            end = token.end()
        elif first in b"]}":
            if not open_ or open_.pop() != first or not open_:
                return None
            end = token.end()
        elif first == ord(","):
            end = token.start()
    return (end, bytes(reversed(open_))) if open_ else None


def _parse_truncated(data: bytes) -> Any:
    """As much as can be had of a JSON text that was cut off: with the string it ends in, else the values before.

    Raises:
        ValueError: there is nothing to be had.
    """
    found = find_complete_prefix(data)
    if found is None:
        raise ValueError("not one JSON value that was cut off")
    end, closers = found
    for attempt in (data + closers, re.sub(rb"\\[^\\]{0,4}\Z", b"", data) + b'"' + closers, data[:end] + closers):
        try:
            return loads(attempt)
        except ValueError:
            continue
    raise ValueError("not JSON")


def read_first_values(path: Path) -> list[Any]:
    """The first JSON values of a file (:func:`parse_first_values`); none where it cannot be read."""
    try:
        with open_regular(path) as file:
            return parse_first_values(file.read(HEAD_BYTES))
    except (OSError, UnreadableSession):
        return []


def read_first_objects(path: Path) -> list[dict[str, Any]]:
    """The first objects of a file; none where it cannot be read."""
    return [value for value in read_first_values(path) if isinstance(value, dict)]


@lru_cache(maxsize=2)
def parse_first_values(head: bytes) -> list[Any]:
    """The first JSON values in the head of a file: one document (cut off or not), or those on the first lines.

    Every format asks for those of the same file in turn; none may change them.
    """
    data = head.removeprefix(BOM).decode("utf-8", "ignore").encode().lstrip()
    if data[:1] not in (b"{", b"["):
        data = data[data.find(b"\n") + 1 :]  # a first line that is no JSON does not make a file unreadable
    for decode in (loads, _parse_truncated):
        try:
            return [decode(data)]
        except ValueError:
            continue
    values: list[Any] = []
    for line in data.split(b"\n")[:MAX_HEAD_LINES]:
        try:
            values.extend(loads_all(line))
        except ValueError:
            try:
                values.append(_parse_truncated(line))
            except ValueError:
                continue
    return values
