"""Cache for titles and overviews of sessions. The cache may be deleted at any time.

The cache is a database in the cache folder of the system (on Linux ``~/.cache/context-tui``), or the file named by
``$CONTEXT_TUI_CACHE``. If that variable is empty, nothing is cached. An entry is valid only while every file from which
it was read is unchanged. Failures to read or write the cache are ignored. A file whose content is not that of a cache
is neither changed nor removed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from logging import getLogger
from pathlib import Path
from threading import Lock
from typing import Any

from context_tui import __version__
from context_tui.text.sanitize import make_visible

MAX_ENTRIES = 50_000
"""Limit of the number of entries. The oldest are removed first."""
MAX_ENTRY_CHARS = 20_000
"""Limit of the size of an entry, in characters."""
MAX_FOLDER_FILES = 500
"""Limit of the files in a folder whose data is cached."""
SETTLE_SECONDS = 2.0
"""Minimum age of a file whose data is cached: two changes within one clock tick have the same time."""
_TABLE = "details (key BLOB UNIQUE NOT NULL, told TEXT NOT NULL)"
_PAGE_BYTES = 65_536
"""Largest page of a database, in bytes. The first page holds the definition of the table."""
_ENTRY_VERSION = 2
"""Version of the entries; other versions are ignored."""
_NOT_A_CACHE = (
    "%s: is not a cache of context-tui, so it is left as it is and nothing is cached;"
    " name another file in CONTEXT_TUI_CACHE"
)

FileStamps = list[list[str | int | None]]
"""For each file or folder: path, size, mtime and ctime (ns), inode, device; or path and None if it is missing."""


def find_cache_path(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the path of the cache, or None if caching is disabled."""
    path = (os.environ if environ is None else environ).get("CONTEXT_TUI_CACHE")
    if path is not None:
        return Path(path) if path else None
    from platformdirs import user_cache_path  # slow to import, and not needed with a named file

    return user_cache_path("context-tui", appauthor=False) / "sessions.db"


def read_stamps(files: Iterable[str | os.PathLike[str]]) -> FileStamps | None:
    """Return stamps that change when files or their write-ahead logs do, or None if a folder has too many files."""
    stamps: FileStamps = []
    for file in map(os.path.abspath, files):
        stamps += [_read_file_stamp(file), _read_file_stamp(f"{file}-wal")]
        if os.path.isdir(file):
            with suppress(OSError), os.scandir(file) as entries:
                stamps += sorted((_read_file_stamp(each.path) for each in entries), key=lambda each: str(each[0]))
            if len(stamps) > MAX_FOLDER_FILES:
                return None
    return stamps


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
    """Cache of values about sessions, keyed by file, session id and topic, which several threads can use at once.

    Values passed to :meth:`put` are written by :meth:`flush`. Without a path, nothing is cached.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._pending: dict[bytes, str] = {}
        self._lock = Lock()

    def get(self, path: str, session_id: str, topic: str) -> Any:
        """Return a cached value, or None if there is none or a file from which it was read has changed."""
        with self._lock:
            key = _build_key(path, session_id, topic)
            entry = self._pending.get(key) or self._load(key)
        try:
            program, stamp, value = json.loads(entry)
            current = bool(stamp) and program == _identify_program() and stamp[0][0] == os.path.abspath(path)
            return value if current and read_stamps(_list_stamped_files(stamp)) == stamp else None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # damaged entry
            return None

    def put(self, path: str, session_id: str, topic: str, value: Any, stamp: FileStamps | None) -> None:
        """Cache a value read from the files with stamps *stamp*, unless one of the files may still be changing."""
        if self._path is None or not stamp or not _is_settled(stamp):
            return
        entry = json.dumps([_identify_program(), stamp, value])
        if len(entry) <= MAX_ENTRY_CHARS + 200 * len(stamp):
            with self._lock:
                self._pending[_build_key(path, session_id, topic)] = entry

    def flush(self) -> None:
        """Write, in one transaction, the values that were added since the last flush."""
        with self._lock:
            pending, self._pending = self._pending, {}
            if not pending or not (database := self._open(create=True)):
                return
            try:
                with database:
                    database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
                    database.executemany("INSERT OR REPLACE INTO details VALUES (?, ?)", pending.items())
                    last_expired = "SELECT max(rowid) - ? FROM details"
                    database.execute(f"DELETE FROM details WHERE rowid <= ({last_expired})", (MAX_ENTRIES,))
            except sqlite3.Error as error:
                self._handle_failure(error)

    def close(self) -> None:
        """Write the values that were added since the last flush, and close the database."""
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
        """Open the database and return it, or return None if it is missing or not a cache of this user."""
        if self._path is None or self._database:
            return self._database
        try:
            if create:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            status = os.lstat(self._path)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if is_own and not _is_cache(self._path):
                getLogger(__name__).warning(_NOT_A_CACHE, make_visible(self._path))
                is_own = False
            if not is_own:
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
        weakref.finalize(self, database.close)  # else Python 3.13 and newer warn
        return database

    def _handle_failure(self, error: sqlite3.Error) -> None:
        """Close the database after an error. A locked one is opened again later, a damaged cache is removed."""
        if self._database:
            self._database.close()
            self._database = None
        if not isinstance(error, sqlite3.OperationalError) and self._path:
            with suppress(OSError):
                if _is_cache(self._path):
                    self._path.unlink()
            self._path = None


def _is_cache(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_PAGE_BYTES)
    return not head or (head.startswith(b"SQLite format 3\0") and f"CREATE TABLE {_TABLE}".encode() in head)


def _list_stamped_files(stamp: FileStamps) -> list[str]:
    paths = [str(each[0]) for each in stamp]
    return [path for path, after in pairwise(paths) if after == f"{path}-wal"]


def _build_key(path: str, session_id: str, topic: str) -> bytes:
    return "\0".join((os.path.abspath(path), session_id, topic)).encode(errors="surrogatepass")


def _identify_program() -> list[Any]:
    """Return the program's version and formats. Cached values are valid only as long as these are the same."""
    from context_tui.formats.registry import FORMATS

    return [_ENTRY_VERSION, __version__, *FORMATS]
