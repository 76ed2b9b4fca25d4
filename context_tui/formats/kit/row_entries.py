"""Entries that are rows of a database: asked for many at once, or one by one where some are too large together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.kit import limits
from context_tui.formats.kit.databases import Database, Row, ValueTooLarge, plain, text
from context_tui.formats.kit.entry_scanner import Entry

MOST_READ_FOR_SIZES = 64 << 20
"""Bytes of a database up to which all of it may be read to tell how large its sessions are."""


class RowSource(ABC):
    """The messages of a session that are the rows of ``messages``, with its own in ``sessions``."""

    told: ClassVar[tuple[str, ...]] = ()
    """The columns of the session's row that say something of it."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self.path, self.session_id = database, database.path, session_id
        self.columns = database.columns("messages")

    def stamp(self) -> Hashable:
        """That of the database."""
        return self.database.stamp()

    @abstractmethod
    def ids(self) -> list[str]:
        """The ids of the messages, in their order."""

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """Rows with these ids."""
        return entries_by(ids, self.ask)

    @abstractmethod
    def ask(self, ids: Sequence[str], longest: int) -> dict[str, Entry]:
        """The rows with these ids by these; *longest* is that of the longest value that is read, in bytes."""

    def about(self) -> Mapping[str, Any]:
        """What the session's row tells."""
        columns = self.database.columns("sessions")
        names = [name for name in self.told if name in columns]
        if not names or "id" not in columns:
            return {}
        rows = self.database.query(f"SELECT {', '.join(names)} FROM sessions WHERE id = ?", (self.session_id,))
        return dict(zip(names, map(plain, rows[0]), strict=True)) if rows else {}


def entries_by(ids: Sequence[str], ask: Callable[[Sequence[str], int], dict[str, Entry]]) -> list[Entry]:
    """The entries with these ids that *ask* finds, given ids and the bytes of the longest value that is read."""
    try:
        found = ask(ids, limits.LARGEST)
    except ValueTooLarge:
        if len(ids) == 1:
            return [Entry(ids[0], None)]
        return [entry for each in ids for entry in entries_by([each], ask)]
    return [found[each] for each in ids if each in found]


def marks(ids: Sequence[str]) -> str:
    """Placeholders for so many values of a statement."""
    return ", ".join("?" * len(ids))


def sessions_with_messages(database: Database, table: str, messages: str, names: Sequence[str]) -> list[Row]:
    """The rows of a table with sessions for those that have messages in another.

    Args:
        names: the columns that are wanted, the id first; what is missing is None, as of a session without a row.

    Raises:
        UnreadableSession: there is none.
    """
    columns = database.columns(table)
    wanted = ", ".join(name if name in columns else "NULL" for name in names)
    rows = database.query(f"SELECT {wanted} FROM {table}") if names[0] in columns else []
    having = {row[0] for row in database.query(f"SELECT DISTINCT session_id FROM {messages}")}
    found = [row for row in rows if row[0] in having]
    listed = {row[0] for row in found}
    found += [(name, *[None] * (len(names) - 1)) for name in sorted(having - listed, key=text)]
    if not found:
        raise UnreadableSession(f"{database.path}: holds no session with messages")
    return found


def sizes(database: Database, sql: str) -> dict[bytes | str, int]:
    """What *sql* tells of sessions, by id: their bytes, which takes reading it all; nothing of a large database."""
    if database.path.stat().st_size > MOST_READ_FOR_SIZES:
        return {}
    return {row[0]: row[1] for row in database.query(sql) if isinstance(row[1], int)}
