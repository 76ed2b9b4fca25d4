"""Files: data of the package, opening without blocking, private folders, atomic writes, and removal of leftovers."""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

MAX_SETTINGS_BYTES = 4 << 20
"""Size limit of a file written by hand: a configuration, a policy, or a gate."""


def read_text(package: str, name: str) -> str:
    """Return the content of a text file in a package, without the newline at its end."""
    return Path(import_module(package).__path__[0], name).read_text("utf-8").removesuffix("\n")


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file in a package."""
    import tomllib  # 10 ms, not needed for the first paint

    return tomllib.loads(read_text(package, name))


class NotRegularFile(OSError):
    """Raised for a path that is a folder, a pipe or a device where a regular file is needed."""


def open_regular_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, or raise OSError; opening a pipe would wait for a writer.

    Raises NotRegularFile if the path is a folder, a pipe or a device.
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
    """Return a settings file's bytes (none for ``/dev/null``); raise OSError beyond ``MAX_SETTINGS_BYTES``."""
    if str(path) == os.devnull:  # the convention for "no file"
        return b""
    with open_regular_file(path) as file:
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_SETTINGS_BYTES >> 20} MB", str(path))
    return data


MARKER = ".context-tui"
"""Name of the file that marks a folder as created by this program."""
_MARKER_TEXT = (
    b"a folder of context-tui for a file that is being written; safe to remove when nothing has this file locked\n"
)
_NAME = re.compile(r"\..*\.[a-z0-9_]{8}\.tmp", re.DOTALL)
_NAME_BYTES = 80
LOCK_SECONDS = 5.0
"""Seconds to wait for a program that has locked a folder."""

_open_folders: set[Path] = set()


@contextmanager
def private_folder(parent: Path, name: str) -> Iterator[Path]:
    """Create a folder in *parent* that only its owner can open, and remove it at the end of the block.

    The folder is named after *name*. Raises OSError if it cannot be created.
    """
    prefix = f".{os.fsdecode(os.fsencode(name)[:_NAME_BYTES])}."
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=parent))
    _open_folders.add(folder)
    lock = -1
    try:
        lock = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # a file system without locks: the folder is never taken for a leftover
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, _MARKER_TEXT)
        inner_path = folder / "new"  # apart from the marker, whose name a file may have
        inner_path.mkdir(0o700)
        yield inner_path
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _open_folders.discard(folder)
        if lock >= 0:
            os.close(lock)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file with *text* in one step, keeping its mode and creating its folder if needed, or raise OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_folder(path.parent, path.name) as folder:
        new = folder / path.name
        new.write_text(text, encoding="utf-8")
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, creating it if needed, so that several programs change its files one after the other.

    Raises OSError if the folder cannot be opened, or another program holds the lock for ``LOCK_SECONDS``. On a file
    system without locks, several programs proceed at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise OSError(error.errno, "another program has locked it", str(folder)) from None
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


def move_to_free_name(source: Path, target: Path, suffix: str = "") -> Path:
    """Move a file to *target*, or to the first free name with ``-2``, ``-3`` and so on, and return the path.

    The number is inserted before *suffix*, the end of the name. The file is flushed to the disk first. Raises OSError
    if it cannot be moved.
    """
    sync(source)
    number, place = 1, target
    while True:
        try:
            move_new(source, place)
            return place
        except FileExistsError:
            number += 1
            place = target.with_name(f"{target.name.removesuffix(suffix)}-{number}{suffix}")


def move_new(source: Path, target: Path) -> None:
    """Move a file to *target* in one step, raising FileExistsError if *target* exists, or OSError if moving fails."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk if the file system supports that."""
    with suppress(OSError):
        sync(folder)


def sync(path: Path) -> None:
    """Flush a file's data, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(path: Path) -> bool:
    """Return whether a path is in a private folder, which will be removed."""
    return any(map(_NAME.fullmatch, path.parts[:-1]))


@atexit.register
def remove_open_folders() -> None:
    """Remove the private folders of threads still running at exit, because such threads cannot clean up."""
    for folder in tuple(_open_folders):
        for _ in range(5):  # a thread may still be writing to it
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


def find_leftovers(folder: Path) -> list[Path]:
    """Return the private folders that this user's killed runs left in *folder*, sorted, or none if it is unreadable."""
    names, leftovers = list[str](), list[Path]()
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
    for name in names:
        with _lock_abandoned(folder / name) as is_leftover:
            if is_leftover:
                leftovers.append(folder / name)
    return leftovers


def remove_leftover(leftover: Path) -> bool:
    """Remove a folder that :func:`find_leftovers` returned unless it is in use, and return whether it is gone."""
    with _lock_abandoned(leftover) as is_leftover:
        if is_leftover:
            shutil.rmtree(leftover, ignore_errors=True)
    return not os.path.lexists(leftover)


@contextmanager
def _lock_abandoned(folder: Path) -> Iterator[bool]:
    """Yield whether a folder was left by a run of this program that has ended; the folder is locked meanwhile."""
    lock, is_leftover = -1, False
    with suppress(OSError):
        status = os.lstat(folder)
        if _NAME.fullmatch(folder.name) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            lock = os.open(folder / MARKER, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_leftover = os.read(lock, len(_MARKER_TEXT) + 1) == _MARKER_TEXT
    try:
        yield is_leftover
    finally:
        if lock >= 0:
            os.close(lock)
