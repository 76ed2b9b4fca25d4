"""Open regular files, limit record sizes, and locate the folders of programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from context_tui.errors import UnreadableSession
from context_tui.session.jsontext import BOM
from context_tui.text.files import NotRegularFile, open_regular_file


class FileChanged(UnreadableSession):
    """Raised when a file no longer holds the data that was read, as it was shortened, rewritten or replaced."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading. Raises UnreadableSession if that fails, or for a folder, pipe or device."""
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


def make_unreadable_error(path: str | Path, error: Exception) -> UnreadableSession:
    """Return an UnreadableSession error that names *path* and includes the operating system's reason."""
    return UnreadableSession(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_status(path: str | Path) -> os.stat_result:
    """Return the result of :func:`os.stat`, or raise UnreadableSession if the path is missing or not accessible."""
    try:
        return os.stat(path)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


FileStamp = tuple[int, int, int]
"""Modification time (ns), size and inode of a file, some of which change when it is written or replaced."""


def read_file_stamp(path: str | Path) -> FileStamp | None:
    """Return the stamp of a file, or None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


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


ALL_PROJECTS = "all projects"
"""Project name for a database that holds the sessions of all projects."""


def find_working_folder() -> Path:
    """Return the working folder. If it was deleted, return its former path (from ``PWD``), or else the root folder."""
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
    """Return the folder in environment variable *name* (with ``~`` expanded), or else *default* in the home folder."""
    home, value = find_home_folder(environ), environ.get(name)
    if not value:
        return home.joinpath(*default)
    return home / value[2:] if value.startswith(("~/", "~\\")) else home if value == "~" else Path(value)


def list_entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """Return a folder's entries, sorted by name, or [] if it is missing or cannot be read."""
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []


def list_files(folder: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """Return the paths in a folder that end with one of *suffixes*, sorted by name, without opening a file."""
    return [Path(entry.path) for entry in list_entries(folder) if entry.name.endswith(suffixes)]
