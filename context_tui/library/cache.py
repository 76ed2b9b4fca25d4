"""Cache of session overviews: safe to delete and never wrong.

It is a database in the folder that the system has for caches (on Linux ``~/.cache/context-tui``), or the file that
``$CONTEXT_TUI_CACHE`` names; nothing is kept where that is empty. What is kept counts only while every file that it was
read from is as it was. The program works without it: what cannot be read or written is nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from context_tui import __version__

MAX_ENTRIES = 50_000
"""How many entries are kept; the oldest go first."""
MAX_ENTRY_CHARS = 20_000
"""Characters of the largest entry that is kept."""
MAX_FOLDER_FILES = 500
"""Files in a folder up to which what was read from them is kept."""
SETTLE_SECONDS = 2.0
"""Seconds after which a change of a file shows in its times: what changes within one tick of a clock does not."""
_CREATE_TABLE = "CREATE TABLE IF NOT EXISTS details (key BLOB UNIQUE NOT NULL, told TEXT NOT NULL)"
_ENTRY_VERSION = 1
"""Of what is kept: another number is another kind of entry."""

FileStamps = list[list[str | int | None]]
"""Per file or folder: path, size, when its content and its entry changed (ns), number and device; None: not there."""


def find_cache_path(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the path of the cache; None where nothing is to be saved."""
    named = (os.environ if environ is None else environ).get("CONTEXT_TUI_CACHE")
    if named is not None:
        return Path(named) if named else None
    from platformdirs import user_cache_path  # not where a file is named

    return user_cache_path("context-tui", appauthor=False) / "sessions.db"


def read_stamps(files: Iterable[str | os.PathLike[str]]) -> FileStamps | None:
    """Return the stamps of files and folders, a database's log included; None where a folder holds too many files."""
    found: FileStamps = []
    for file in map(os.path.abspath, files):
        found += [_read_file_stamp(file), _read_file_stamp(f"{file}-wal")]
        if os.path.isdir(file):
            with suppress(OSError), os.scandir(file) as entries:
                found += sorted((_read_file_stamp(each.path) for each in entries), key=lambda each: str(each[0]))
            if len(found) > MAX_FOLDER_FILES:
                return None
    return found


def _read_file_stamp(file: str) -> list[str | int | None]:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return [file, None]
    return [file, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _is_settled(stamp: FileStamps) -> bool:
    limit = (time.time() - SETTLE_SECONDS) * 1e9
    return all(len(each) < 4 or (isinstance(each[3], int) and each[3] < limit) for each in stamp)


class SessionCache:
    """Cached values of sessions, by file, id and topic; usable by several threads.

    What is handed to :meth:`put` is written by :meth:`flush`.

    Args:
        path: the file; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._pending: dict[bytes, str] = {}
        self._lock = Lock()

    def get(self, path: str, session_id: str, topic: str) -> Any:
        """Return a cached value, if each file that it was read from is unchanged; else None."""
        with self._lock:
            key = _build_key(path, session_id, topic)
            told = self._pending.get(key) or self._load(key)
        try:
            program, stamp, value = json.loads(told)
            current = bool(stamp) and program == _identify_program() and stamp[0][0] == os.path.abspath(path)
            return value if current and read_stamps(_list_stamped_files(stamp)) == stamp else None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # not as it was written
            return None

    def put(self, path: str, session_id: str, topic: str, value: Any, stamp: FileStamps | None) -> None:
        """Keep a value that was read from files as they were by their *stamp*; not where that may still change."""
        if self._path is None or not stamp or not _is_settled(stamp):
            return
        told = json.dumps([_identify_program(), stamp, value])
        if len(told) <= MAX_ENTRY_CHARS + 200 * len(stamp):
            with self._lock:
                self._pending[_build_key(path, session_id, topic)] = told

    def flush(self) -> None:
        """Write what has to be saved, all of it or nothing."""
        with self._lock:
            pending, self._pending = self._pending, {}
            if not pending or not (database := self._open(create=True)):
                return
            try:
                with database:
                    database.execute(_CREATE_TABLE)
                    database.executemany("INSERT OR REPLACE INTO details VALUES (?, ?)", pending.items())
                    last = "SELECT max(rowid) - ? FROM details"
                    database.execute(f"DELETE FROM details WHERE rowid <= ({last})", (MAX_ENTRIES,))
            except sqlite3.Error as error:
                self._handle_failure(error)

    def close(self) -> None:
        """Write what has to be saved, and close the file."""
        self.flush()
        with self._lock:
            if self._database:
                self._database.close()
                self._database = None

    def _load(self, key: bytes) -> str:
        if database := self._open():
            try:
                row = database.execute("SELECT told FROM details WHERE key = ?", (key,)).fetchone()
                return str(row[0]) if row else ""
            except sqlite3.Error as error:
                self._handle_failure(error)
        return ""

    def _open(self, *, create: bool = False) -> sqlite3.Connection | None:
        """The database, if it is ours; None where there is none."""
        if self._path is None or self._database:
            return self._database
        try:
            if create:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            status = os.lstat(self._path)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                self._path = None
                return None
            if status.st_mode & 0o077:
                os.chmod(self._path, 0o600)
            if not status.st_size and not create:
                return None
            database = sqlite3.connect(self._path, timeout=0.2, check_same_thread=False)
        except (OSError, sqlite3.Error):
            if create:
                self._path = None
            return None
        self._database = database
        return database

    def _handle_failure(self, error: sqlite3.Error) -> None:
        """Go on without the cache. A locked one is tried again; a file that is no database is removed, to be created
        another time.
        """
        if self._database:
            self._database.close()
            self._database = None
        if not isinstance(error, sqlite3.OperationalError) and self._path:
            with suppress(OSError):
                self._path.unlink()
            self._path = None


def _list_stamped_files(stamp: FileStamps) -> list[str]:
    """List the files of a stamp: those that it was made for, followed by their logs."""
    paths = [str(each[0]) for each in stamp]
    return [path for path, after in pairwise(paths) if after == f"{path}-wal"]


def _build_key(path: str, session_id: str, topic: str) -> bytes:
    return "\0".join((os.path.abspath(path), session_id, topic)).encode(errors="surrogatepass")


def _identify_program() -> list[Any]:
    """Identify the program that writes an entry: another version, or one with other formats, may read a file
    differently.
    """
    from context_tui.formats.registry import FORMATS

    return [_ENTRY_VERSION, __version__, *FORMATS]
