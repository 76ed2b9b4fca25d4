"""SQLite databases, read with their write-ahead log and without creating files next to them.

A database in WAL mode gets a plain read-only connection, which creates missing ``-shm`` and ``-wal`` files, only while
another program has it open. Otherwise a write-ahead log is read with its index in memory (exclusive mode in a VFS
without locks), and a database without a log is read as an immutable file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.files import open_regular, read_file_stamp

QUERY_TIMEOUT_S = 20.0
"""Seconds that one query may take; a damaged file can cause an endless loop."""

MAX_VALUE_BYTES = 1_000_000_000
"""Length of the longest value that SQLite can read, in bytes."""

BACKUP_SUFFIX = ".backup"
"""Suffix of the backup of a database; further backups have a number after it."""

SQLITE_MAGIC = b"SQLite format 3\0"


class ValueTooLarge(UnreadableSession):
    """Raised when a value in a query's result is longer than the query allows."""


class DatabaseLocked(UnreadableSession):
    """Raised when another program has locked the database."""


class UnfinishedChange(UnreadableSession):
    """Raised when a program ended while it changed the database, and the change has not been undone yet."""


class Database:
    """An SQLite database that is opened for reading at the first query, and reopened when its files have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.path.realpath(path)
        self._open: list[sqlite3.Connection] = []
        self._stamp: tuple[Any, ...] = ()
        self._lock = threading.Lock()
        self._deadline = 0.0
        weakref.finalize(self, _close_connections, self._open)

    def query(
        self, sql: str, values: Sequence[Any] = (), *, max_value_bytes: int = MAX_VALUE_BYTES
    ) -> list[tuple[Any, ...]]:
        """Run an SQL statement and return all rows of its result, with text as bytes.

        Raises:
            ValueTooLarge: a value is longer than *max_value_bytes*.
            DatabaseLocked: another program has locked the database.
            UnfinishedChange: a program ended while it changed the database.
            UnreadableSession: the database cannot be read, or the query takes longer than ``QUERY_TIMEOUT_S``.
        """
        with self._lock:
            self._deadline = time.monotonic() + QUERY_TIMEOUT_S
            try:
                connection = self._get_connection()
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_value_bytes)
                return connection.execute(sql, values).fetchall()
            except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG:
                    raise ValueTooLarge(f"{self.path}: holds a value that is too large to read") from None
                _close_connections(self._open)
                if _is_busy(error):
                    remedy = "try again when that has finished writing"
                    raise DatabaseLocked(f"{self.path}: is locked by another program; {remedy}") from None
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise UnfinishedChange(self._describe_unfinished_change()) from None
                raise UnreadableSession(f"{self.path}: cannot be read as a database: {error}") from None

    def _describe_unfinished_change(self) -> str:
        backups = self.path.parent.glob(f"{escape(self.path.name)}{BACKUP_SUFFIX}*")
        newest = max(backups, key=lambda path: path.stat().st_mtime_ns, default=None)
        backup = f"; the backup from before the change is {newest}" if newest else ""
        remedy = "open it with the agent that it belongs to (such as koda), which undoes the change"
        return f"{self.path}: a program was ended while it changed this database{backup}; {remedy}"

    def list_columns(self, table: str) -> frozenset[str]:
        """Return the column names of a table, or an empty set if it does not exist or is a view."""
        if not self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)):
            return frozenset()
        return frozenset(decode_text(row[0]) for row in self.query("SELECT name FROM pragma_table_info(?)", (table,)))

    def measure_text(self, table: str, column: str, row_id: int) -> int:
        """Return the size of one stored text in bytes without loading it, or 0 if the row or its value is missing."""
        with self._lock:
            try:
                with self._get_connection().blobopen(table, column, row_id, readonly=True) as value:
                    return len(value)
            except (sqlite3.Error, OSError, ValueError, OverflowError):
                return 0

    def read_stamp(self) -> tuple[Any, ...]:
        """Return a value that differs after each write to the database, for comparison with an earlier stamp."""
        return read_file_stamp(self._file), read_file_stamp(self._file + "-wal"), os.path.exists(self._file + "-shm")

    def close(self) -> None:
        """Close the connection, if there is one. The next query opens a new one."""
        with self._lock:
            _close_connections(self._open)

    def _has_timed_out(self) -> int:
        return time.monotonic() > self._deadline

    def _get_connection(self) -> sqlite3.Connection:
        stamp = self.read_stamp()
        if not self._open or stamp != self._stamp:
            _close_connections(self._open)
            self._open.append(self._connect())
            self._stamp = stamp
        return self._open[0]

    def _connect(self) -> sqlite3.Connection:
        failure: sqlite3.Error | None = None
        for options, pragma in _list_connection_options(self._file):
            uri = f"{Path(self._file).as_uri()}?mode=ro{options}"
            connection = sqlite3.connect(uri, uri=True, timeout=2.0, check_same_thread=False)
            try:
                connection.text_factory = bytes
                connection.set_progress_handler(self._has_timed_out, 100_000)
                connection.execute("PRAGMA trusted_schema = OFF")
                if pragma:
                    connection.execute(pragma)
                connection.execute("PRAGMA cache_size = -64")  # in KB; the operating system keeps the file at hand
                connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            except sqlite3.Error as error:
                connection.close()
                failure = error
            else:
                return connection
        raise failure or sqlite3.OperationalError("it cannot be opened")


class LockedDatabase(Database):
    """A database that is locked exclusively until it is closed, so that it can be changed safely.

    The lock fails if another program has the database open, even idly. While the lock is held, nothing else in this
    process may open the file: closing any of its descriptors would release the lock.
    """

    def __init__(self, path: Path) -> None:
        """Open and lock the database, or raise DatabaseLocked if it is in use, else UnreadableSession."""
        super().__init__(path)
        try:
            uri = f"{Path(self._file).as_uri()}?mode=rw"
            self._connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
            self._open.append(self._connection)
            self._connection.text_factory = bytes
            self._connection.set_progress_handler(self._has_timed_out, 100_000)
            self._deadline = time.monotonic() + QUERY_TIMEOUT_S
            for statement in ("PRAGMA trusted_schema = OFF", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
                self._connection.execute(statement)
            self._connection.execute("COMMIT")  # the lock stays
        except (sqlite3.Error, OSError, ValueError) as error:
            _close_connections(self._open)
            if _is_busy(error):
                remedy = "quit that and try again; nothing was changed"
                raise DatabaseLocked(f"{path}: is in use by another program; {remedy}") from None
            raise UnreadableSession(f"{path}: cannot be opened for writing: {error}; nothing was changed") from None

    def back_up(self, path: Path) -> None:
        """Copy the database and its write-ahead log to the empty file *path*, or raise OSError if that fails."""
        try:
            with closing(sqlite3.connect(path)) as copy:
                self._deadline = float("inf")
                self._connection.backup(copy)
        except sqlite3.Error as error:
            raise OSError(str(error)) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a ``with`` block in a transaction, which any exception rolls back. SQLite errors become OSError."""
        self._deadline = float("inf")
        try:
            self._connection.execute("BEGIN EXCLUSIVE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            _close_connections(self._open)  # rolls back
            if isinstance(error, sqlite3.Error):
                raise OSError(str(error)) from None
            raise

    def _get_connection(self) -> sqlite3.Connection:
        if not self._open:
            raise UnreadableSession(f"{self.path}: is closed")
        return self._connection


def is_database(path: Path) -> bool:
    """Return whether a file begins with the signature of an SQLite database."""
    with suppress(OSError), open_regular(path) as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    return False


def read_columns(path: Path, *tables: str) -> list[frozenset[str]]:
    """Return the column names of each table, empty for a missing table or if the database is unreadable.

    Raises DatabaseLocked or UnfinishedChange if the database can be read only later.
    """
    with closing(Database(path)) as database:
        try:
            return [database.list_columns(table) for table in tables]
        except (DatabaseLocked, UnfinishedChange):
            raise
        except UnreadableSession:
            return [frozenset() for _ in tables]


def compute_checksum(row: Iterable[Any]) -> int:
    """Return a checksum of the values in a row."""
    checksum = 0
    for value in row:
        data = value if isinstance(value, bytes) else repr(value).encode()
        checksum = zlib.crc32(data, zlib.crc32(b"%s %d " % (type(value).__name__.encode(), len(data)), checksum))
    return checksum


def decode_value(value: Any) -> Any:
    """Return a value from a query, with bytes decoded to text and any other type unchanged."""
    return decode_text(value) if isinstance(value, bytes) else value


def decode_text(value: Any) -> str:
    """Return a value from a query as text, with "" for NULL and invalid UTF-8 replaced."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def encode_value(value: Any) -> bytes:
    """Return a value from a query as UTF-8 text, with bytes unchanged and b"" for NULL."""
    return value if isinstance(value, bytes) else decode_text(value).encode()


def _list_connection_options(file: str) -> list[tuple[str, str]]:
    """Return the URI options and the pragma for each way to open a database for reading, best first."""
    with open_regular(file) as stream:
        in_wal_mode = stream.read(20)[18:20] == b"\2\2"
    if not in_wal_mode:
        return [("", "")]
    log = read_file_stamp(file + "-wal")
    if log is None or log[1] == 0:
        return [("&immutable=1", "")]
    exclusive = ("&vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE")
    return [("", ""), exclusive] if os.path.exists(file + "-shm") else [exclusive]


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _close_connections(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()
