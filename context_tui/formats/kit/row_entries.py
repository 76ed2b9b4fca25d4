"""Entries that are rows of a database: asked for many at once, or one by one where some are too large together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.kit import limits
from context_tui.formats.kit.databases import Database, DatabaseRow, ValueTooLarge, decode_text, decode_value
from context_tui.formats.kit.entry_scanner import Entry

MAX_SIZED_DATABASE_BYTES = 64 << 20
"""Bytes of a database up to which all of it may be read to tell how large its sessions are."""


class RowSource(ABC):
    """The messages of a session that are the rows of ``messages``, with its own in ``sessions``."""

    metadata_columns: ClassVar[tuple[str, ...]] = ()
    """The columns of the session's row that say something of it."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self.path, self.session_id = database, database.path, session_id
        self.columns = database.list_columns("messages")

    def read_stamp(self) -> Hashable:
        """That of the database."""
        return self.database.read_stamp()

    @abstractmethod
    def list_ids(self) -> list[str]:
        """The ids of the messages, in their order."""

    def read_entries(self, ids: Sequence[str]) -> list[Entry]:
        """Rows with these ids."""
        return query_in_batches(ids, self.query_entries)

    @abstractmethod
    def query_entries(self, ids: Sequence[str], max_value_bytes: int) -> dict[str, Entry]:
        """The rows with these ids by these; *longest* is that of the longest value that is read, in bytes."""

    def read_metadata(self) -> Mapping[str, Any]:
        """What the session's row tells."""
        columns = self.database.list_columns("sessions")
        names = [name for name in self.metadata_columns if name in columns]
        if not names or "id" not in columns:
            return {}
        rows = self.database.query(f"SELECT {', '.join(names)} FROM sessions WHERE id = ?", (self.session_id,))
        return dict(zip(names, map(decode_value, rows[0]), strict=True)) if rows else {}


def query_in_batches(
    ids: Sequence[str], query_entries: Callable[[Sequence[str], int], dict[str, Entry]]
) -> list[Entry]:
    """The entries with these ids that *ask* finds, given ids and the bytes of the longest value that is read."""
    try:
        found = query_entries(ids, limits.MAX_RECORD_BYTES)
    except ValueTooLarge:
        if len(ids) == 1:
            return [Entry(ids[0], None)]
        return [entry for each in ids for entry in query_in_batches([each], query_entries)]
    return [found[each] for each in ids if each in found]


def format_placeholders(ids: Sequence[str]) -> str:
    """Placeholders for so many values of a statement."""
    return ", ".join("?" * len(ids))


def query_sessions_with_messages(
    database: Database, table: str, messages: str, names: Sequence[str]
) -> list[DatabaseRow]:
    """The rows of a table with sessions for those that have messages in another.

    Args:
        names: the columns that are wanted, the id first; what is missing is None, as of a session without a row.

    Raises:
        UnreadableSession: there is none.
    """
    columns = database.list_columns(table)
    wanted = ", ".join(name if name in columns else "NULL" for name in names)
    rows = database.query(f"SELECT {wanted} FROM {table}") if names[0] in columns else []
    having = {row[0] for row in database.query(f"SELECT DISTINCT session_id FROM {messages}")}
    found = [row for row in rows if row[0] in having]
    listed = {row[0] for row in found}
    found += [(name, *[None] * (len(names) - 1)) for name in sorted(having - listed, key=decode_text)]
    if not found:
        raise UnreadableSession(f"{database.path}: holds no session with messages")
    return found


def query_session_sizes(database: Database, sql: str) -> dict[bytes | str, int]:
    """What *sql* tells of sessions, by id: their bytes, which takes reading it all; nothing of a large database."""
    if database.path.stat().st_size > MAX_SIZED_DATABASE_BYTES:
        return {}
    return {row[0]: row[1] for row in database.query(sql) if isinstance(row[1], int)}
