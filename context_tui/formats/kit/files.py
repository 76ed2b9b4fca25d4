"""Open regular files, parse their heads, limit record sizes, and locate the folders of programs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.session.jsontext import BOM, loads, loads_all, try_loads
from context_tui.text.files import NotRegularFile, open_regular_file


class FileChanged(UnreadableSession):
    """Raised when a file no longer holds the data that was read, as it was shortened, rewritten or replaced."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, or raise UnreadableSession, also for a folder, a pipe or a device."""
    try:
        return open_regular_file(path)
    except FileNotFoundError:
        raise UnreadableSession(f"{path}: no such file") from None
    except NotRegularFile:
        raise UnreadableSession(f"{path}: is not a regular file; copy its content to one") from None
    except (OSError, ValueError) as error:
        raise make_unreadable_error(path, error) from None


def read_whole_file(path: str | Path) -> bytes:
    """Return the content of a regular file without its byte order mark, or raise UnreadableSession."""
    try:
        with open_regular(path) as file:
            return file.read().removeprefix(BOM)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


def read_json(path: Path, max_bytes: int = -1) -> Any:
    """Return the value in a JSON file (or in its first *max_bytes*), or None if it cannot be read or parsed."""
    return try_loads(read_head(path, max_bytes).removeprefix(BOM))


def make_unreadable_error(path: str | Path, error: Exception) -> UnreadableSession:
    """Return an UnreadableSession error that names *path* and includes the operating system's reason."""
    return UnreadableSession(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_status(path: str | Path) -> os.stat_result:
    """Return the result of :func:`os.stat`, or raise UnreadableSession if the path is missing or not accessible."""
    try:
        return os.stat(path)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


def read_file_stamp(path: str | Path) -> tuple[int, int] | None:
    """Return a file's modification time and size, which show whether it was written to, or None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


MAX_RECORD_BYTES = 256 << 20
"""Largest record that is read, in bytes. A request holds 32 MB at most."""
MAX_RAW_BYTES = 1 << 20
"""Bytes of a record that are displayed as raw text."""
TOO_LARGE = "too large to read"
"""Reason for a problem: the record is too large, and its size is unknown."""


def format_too_large(length: int) -> str:
    """Return the reason why a record of *length* bytes is not read, or "" if it is small enough."""
    if length <= MAX_RECORD_BYTES:
        return ""
    return f"{TOO_LARGE}: {length / 1e6:,.0f} MB (at most {MAX_RECORD_BYTES / 1e6:,.0f} MB)"


def format_beginning(data: bytes | memoryview, length: int) -> str:
    """Return a record of *length* bytes as text for display, cut after ``MAX_RAW_BYTES`` with a note at its end."""
    text = bytes(data[:MAX_RAW_BYTES]).decode("utf-8", "replace")
    return text if length <= MAX_RAW_BYTES else f"{text}\n[the first {MAX_RAW_BYTES:,} of {length:,} bytes]"


MAX_HEAD_LINES = 50

_TOKEN_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_CLOSING_BRACKETS = {ord("{"): ord("}"), ord("["): ord("]")}


def find_complete_prefix(data: bytes) -> tuple[int, bytes] | None:
    """Find where the last complete value ends in JSON text that was cut off, and the brackets that then close the text.

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
    """Parse a truncated JSON text as far as possible: with its unfinished string, or without its last value."""
    prefix = find_complete_prefix(data)
    if prefix is None:
        raise ValueError("not one JSON value that was cut off")
    end, closers = prefix
    for candidate in (data + closers, re.sub(rb"\\[^\\]{0,4}\Z", b"", data) + b'"' + closers, data[:end] + closers):
        with suppress(ValueError):
            return loads(candidate)
    raise ValueError("not JSON")


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first *size* bytes of a file, or none if it is unreadable."""
    try:
        with open_regular(path) as file:
            return file.read(size)
    except (OSError, UnreadableSession):
        return b""


def read_tail(path: Path) -> bytes:
    """Return the last ``HEAD_BYTES`` bytes of a file without those of its head, or none if it is unreadable."""
    try:
        with open_regular(path) as file:
            file.seek(max(os.fstat(file.fileno()).st_size - HEAD_BYTES, HEAD_BYTES))
            return file.read(HEAD_BYTES)
    except (OSError, UnreadableSession):
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


@lru_cache(maxsize=2)
def parse_first_values(head: bytes) -> list[Any]:
    """Return the JSON values in the head of a file: one document (perhaps cut off), or those on its first lines.

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


ALL_PROJECTS = "all projects"
"""Project name for a database that holds the sessions of all projects."""


def find_working_folder() -> Path:
    """Return the working folder, or its former path (from ``PWD``) or the root folder if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD") or os.sep)


def find_home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder from ``HOME`` or ``USERPROFILE``, or else as Python finds it."""
    configured = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(configured) if configured else Path.home()


def find_data_home(environ: Mapping[str, str]) -> Path:
    """Return ``XDG_DATA_HOME`` or its default, ``~/.local/share``, on every operating system."""
    return Path(environ.get("XDG_DATA_HOME") or find_home_folder(environ) / ".local" / "share")


def find_program_folder(environ: Mapping[str, str], name: str, *default: str) -> Path:
    """Return the folder in the variable *name* (with ``~`` expanded), or else *default* below the home folder."""
    home, value = find_home_folder(environ), environ.get(name)
    if not value:
        return home.joinpath(*default)
    return home / value[2:] if value.startswith(("~/", "~\\")) else home if value == "~" else Path(value)


def list_entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """Return a folder's entries, sorted by name, or [] if it is missing or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def list_files(folder: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """Return the paths in a folder that end with one of *suffixes*, sorted by name. No file is opened."""
    return [Path(entry.path) for entry in list_entries(folder) if entry.name.endswith(suffixes)]
