"""Open files that a user names, without waiting for a pipe or reading a device."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_SETTINGS_BYTES = 4 << 20
"""Size limit of a file written by hand: a configuration, a policy, or a gate."""


class NotRegularFile(OSError):
    """The path is a folder, a pipe or a device."""


def open_regular_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, without blocking: opening a pipe would wait for its writer.

    Raises:
        NotRegularFile: the path is a folder, a pipe or a device.
        OSError: the file is missing or may not be read.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "the name contains NUL", str(path))
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return open(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise NotRegularFile(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotRegularFile(errno.EINVAL, "not a regular file", str(path))


def read_settings_file(path: Path) -> bytes:
    """Return the bytes of a regular file, none of ``/dev/null``; OSError if it is above ``MAX_SETTINGS_BYTES``."""
    if str(path) == os.devnull:  # the convention for "no file"
        return b""
    with open_regular_file(path) as file:
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_SETTINGS_BYTES >> 20} MB", str(path))
    return data
