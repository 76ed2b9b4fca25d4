"""Open regular files, parse their heads, limit record sizes, and locate the folders of programs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.session.jsontext import BOM, loads, loads_all


class FileChanged(UnreadableSession):
    """Raised where a file no longer holds what was read: it is shorter, or another file."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading.

    Opening a pipe waits for who writes to it, and a file may become one between two looks: so what was opened is looked
    at, and opening does not wait.

    Raises:
        UnreadableSession: there is none, it may not be read, or it is a folder, a pipe or a device.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnreadableSession(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise make_unreadable_error(path, error) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return open(handle, "rb")  # whoever asked closes it
    os.close(handle)
    raise UnreadableSession(f"{path}: is not a regular file; copy its content to one")


def read_whole_file(path: str | Path) -> bytes:
    """Return all bytes of a regular file, without a byte order mark.

    Raises:
        UnreadableSession: it cannot be read.
    """
    try:
        with open_regular(path) as file:
            return file.read().removeprefix(BOM)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


def make_unreadable_error(path: str | Path, error: Exception) -> UnreadableSession:
    """That the system does not let a path be read, and why."""
    return UnreadableSession(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_status(path: str | Path) -> os.stat_result:
    """Return the status of a path.

    Raises:
        UnreadableSession: nothing, as it is not there or may not be asked for.
    """
    try:
        return os.stat(path)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


def read_file_stamp(path: str | Path) -> tuple[int, int] | None:
    """Time and size of a file, which change when it is written to; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


MAX_RECORD_BYTES = 256 << 20
"""Bytes of the largest record that is read. A request holds 32 MB at most."""
MAX_RAW_BYTES = 1 << 20
"""Bytes of a record that are shown as they are."""
TOO_LARGE = "too large to read"
"""What is wrong with a record whose size is not known."""


def format_too_large(length: int) -> str:
    """Return why a record of this size cannot be read; empty where it can."""
    return (
        f"too large to read: {length / 1e6:,.0f} MB (at most {MAX_RECORD_BYTES / 1e6:,.0f} MB)"
        if length > MAX_RECORD_BYTES
        else ""
    )


def format_beginning(data: bytes | memoryview, length: int) -> str:
    """Return the text of a record of *length* bytes that begins with *data*, marked where it is cut."""
    text = bytes(data[:MAX_RAW_BYTES]).decode("utf-8", "replace")
    return text if length <= MAX_RAW_BYTES else f"{text}\n[the first {MAX_RAW_BYTES:,} of {length:,} bytes]"


MAX_HEAD_LINES = 50

_TOKEN_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_CLOSING_BRACKETS = {ord("{"): ord("}"), ord("["): ord("]")}


def find_complete_prefix(data: bytes) -> tuple[int, bytes] | None:
    """Return the end of the last complete value in a truncated JSON text, and what closes all open brackets.

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
    prefix = find_complete_prefix(data)
    if prefix is None:
        raise ValueError("not one JSON value that was cut off")
    end, closers = prefix
    for candidate in (data + closers, re.sub(rb"\\[^\\]{0,4}\Z", b"", data) + b'"' + closers, data[:end] + closers):
        try:
            return loads(candidate)
        except ValueError:
            continue
    raise ValueError("not JSON")


def read_first_values(path: Path) -> list[Any]:
    """Return the first JSON values of a file (:func:`parse_first_values`); none where it cannot be read."""
    try:
        with open_regular(path) as file:
            return parse_first_values(file.read(HEAD_BYTES))
    except (OSError, UnreadableSession):
        return []


def read_first_objects(path: Path) -> list[dict[str, Any]]:
    """Return the first objects of a file; none where it cannot be read."""
    return [value for value in read_first_values(path) if isinstance(value, dict)]


@lru_cache(maxsize=2)
def parse_first_values(head: bytes) -> list[Any]:
    """Return the first JSON values in the head of a file: one document (cut off or not), or those on the first lines.

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


ALL_PROJECTS = "all projects"
"""What is said of a database with the sessions of every project."""


def find_home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder, on any system."""
    configured = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(configured) if configured else Path.home()


def find_data_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of programs' data, as those that follow the XDG rules have it on every system."""
    configured = environ.get("XDG_DATA_HOME")
    return Path(configured) if configured else find_home_folder(environ) / ".local" / "share"


def find_program_folder(environ: Mapping[str, str], name: str, *default: str) -> Path:
    """Return the folder that the variable *name* holds, ``~`` being the home folder; else *default* below that."""
    home, value = find_home_folder(environ), environ.get(name)
    if not value:
        return home.joinpath(*default)
    return home / value[2:] if value.startswith(("~/", "~\\")) else home if value == "~" else Path(value)


def list_entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """List the names in a folder; empty where it is missing or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def list_files(folder: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """Return the files in a folder whose names end so, by name; none is opened."""
    return [Path(entry.path) for entry in list_entries(folder) if entry.name.endswith(suffixes)]
