"""Opening what is to be read: a regular file, never one that would have to be waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from context_tui.errors import UnreadableSession
from context_tui.session.jsontext import BOM


class FileChanged(UnreadableSession):
    """What was read of a file is not what stands there now: it has become shorter, or is another file."""


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
    """All bytes of a regular file, without a byte order mark.

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
    """What the system says of a path.

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
