"""SQLite databases, read with their write-ahead log, and without creating a file beside them.

A plain read-only connection to a database in WAL mode leaves a ``-shm`` and a ``-wal`` behind where there were none.
So it is made only where another program has them open; a log that was left or copied is read with its index in memory
(exclusive mode in a VFS without locks), and a database without a log as the immutable file that it is.

One that is to be changed is opened otherwise: :class:`LockedDatabase`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.files import open_regular, read_file_stamp

QUERY_TIMEOUT_S = 20.0
"""How long one question may take; a damaged file can lead in circles."""

MAX_VALUE_BYTES = 1_000_000_000
"""Bytes of the longest value that SQLite reads."""

SQLITE_MAGIC = b"SQLite format 3\0"
DatabaseRow = tuple[Any, ...]


class ValueTooLarge(UnreadableSession):
    """A value is longer than what is read of one."""


class DatabaseLocked(UnreadableSession):
    """Another program keeps a database to itself for now."""


class Database:
    """A database file, opened when first asked, and again when its files have changed. Text comes as bytes."""

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
    ) -> list[DatabaseRow]:
        """Return all rows that a statement gives.

        Args:
            longest: the bytes of the longest value that is read.

        Raises:
            ValueTooLarge: one is longer; it was not read.
            DatabaseLocked: another program does not let it be read now.
            UnreadableSession: the database cannot be read.
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
                self._discard_connections()
                if _is_busy(error):
                    raise DatabaseLocked(
                        f"{self.path}: is locked by another program; try again when that has finished writing"
                    ) from None
                raise UnreadableSession(f"{self.path}: cannot be read as a database: {error}") from None

    def list_columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table (not of a view); nothing when there is no such table."""
        if not self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)):
            return frozenset()
        return frozenset(decode_text(row[0]) for row in self.query("SELECT name FROM pragma_table_info(?)", (table,)))

    def measure_text(self, table: str, column: str, row_id: int) -> int:
        """Bytes of a text, found without reading it; 0 where the row has none there."""
        with self._lock:
            try:
                with self._get_connection().blobopen(table, column, row_id, readonly=True) as value:
                    return len(value)
            except (sqlite3.Error, OSError, ValueError, OverflowError):
                return 0

    def read_stamp(self) -> tuple[Any, ...]:
        """Something that changes whenever the database is written to."""
        return read_file_stamp(self._file), read_file_stamp(self._file + "-wal"), os.path.exists(self._file + "-shm")

    def close(self) -> None:
        """Give the file back; the next question opens it again."""
        with self._lock:
            self._discard_connections()

    def _has_timed_out(self) -> int:
        return time.monotonic() > self._deadline

    def _discard_connections(self) -> None:
        _close_connections(self._open)

    def _get_connection(self) -> sqlite3.Connection:
        stamp = self.read_stamp()
        if not self._open or stamp != self._stamp:
            self._discard_connections()
            self._open.append(self._connect())
            self._stamp = stamp
        return self._open[0]

    def _connect(self) -> sqlite3.Connection:
        failure: sqlite3.Error | None = None
        for options, pragma in _list_connection_options(self._file):
            connection = sqlite3.connect(
                f"{Path(self._file).as_uri()}?mode=ro{options}", uri=True, timeout=2.0, check_same_thread=False
            )
            try:
                connection.text_factory = bytes
                connection.set_progress_handler(self._has_timed_out, 100_000)
                connection.execute("PRAGMA trusted_schema = OFF")
                if pragma:
                    connection.execute(pragma)
                connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            except sqlite3.Error as error:
                connection.close()
                failure = error
            else:
                return connection
        raise failure or sqlite3.OperationalError("it cannot be opened")


class LockedDatabase(Database):
    """A database to be changed, which nobody else has open; it is held until it is closed, in every journal mode.

    A connection in WAL mode, even an idle one, keeps a shared lock on the file, so that the exclusive one is refused.
    While this is open, nothing else in this process may open the file: closing it anywhere would give up the locks.
    """

    def __init__(self, path: Path) -> None:
        """Open and lock it.

        Raises:
            DatabaseLocked: another program has it open.
            UnreadableSession: it cannot be opened for writing.
        """
        super().__init__(path)
        try:
            self._held = sqlite3.connect(
                f"{Path(self._file).as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None
            )
            self._open.append(self._held)
            self._held.text_factory = bytes
            self._held.set_progress_handler(self._has_timed_out, 100_000)
            self._deadline = time.monotonic() + QUERY_TIMEOUT_S
            for statement in ("PRAGMA trusted_schema = OFF", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
                self._held.execute(statement)
            self._held.execute("COMMIT")  # the lock stays
        except (sqlite3.Error, OSError, ValueError) as error:
            self._discard_connections()
            if _is_busy(error):
                raise DatabaseLocked(
                    f"{path}: is in use by another program; quit that and try again; nothing was changed"
                ) from None
            raise UnreadableSession(f"{path}: cannot be opened for writing: {error}; nothing was changed") from None

    def back_up(self, path: Path) -> None:
        """Copy all of it, with what is in its write-ahead log, to the empty file *path*.

        Raises:
            OSError: that cannot be written.
        """
        try:
            with closing(sqlite3.connect(path)) as copy:
                self._deadline = float("inf")
                self._held.backup(copy)
        except sqlite3.Error as error:
            raise OSError(str(error)) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction on its own connection: committed at the end, rolled back by any exception.

        Raises:
            OSError: it cannot be written.
        """
        self._deadline = float("inf")
        try:
            self._held.execute("BEGIN EXCLUSIVE")
            yield self._held
            self._held.execute("COMMIT")
        except BaseException as error:
            self._discard_connections()  # undoes what was not carried out
            if isinstance(error, sqlite3.Error):
                raise OSError(str(error)) from None
            raise

    def _get_connection(self) -> sqlite3.Connection:
        if not self._open:
            raise UnreadableSession(f"{self.path}: is closed")
        return self._held


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database, by its first bytes."""
    try:
        with open_regular(path) as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def read_columns(path: Path, *tables: str) -> list[frozenset[str]]:
    """Return the columns of some tables of a database; nothing of each that is not there, or of what is no database.

    Raises:
        DatabaseLocked: it is a database: that it is in use says more than that nobody knows it.
    """
    with closing(Database(path)) as database:
        try:
            return [database.list_columns(table) for table in tables]
        except DatabaseLocked:
            raise
        except UnreadableSession:
            return [frozenset() for _ in tables]


def compute_checksum(row: Iterable[Any], previous: int = 0) -> int:
    """Return the checksum of rows that end with *row*, from that of those *before* it."""
    for value in row:
        data = value if isinstance(value, bytes) else repr(value).encode()
        previous = zlib.crc32(data, zlib.crc32(b"%s %d " % (type(value).__name__.encode(), len(data)), previous))
    return previous


def decode_value(value: Any) -> Any:
    """Return a column's value, text that was written as bytes as text."""
    return decode_text(value) if isinstance(value, bytes) else value


def decode_text(value: Any) -> str:
    """Return a column's value as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def encode_value(value: Any) -> bytes:
    """Return a column's value as text in UTF-8."""
    return value if isinstance(value, bytes) else decode_text(value).encode()


def _list_connection_options(file: str) -> list[tuple[str, str]]:
    """URI options and a pragma for each way to open a database as it lies there, best first."""
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
