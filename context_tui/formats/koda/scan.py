"""Scanning a session of koda's database row by row, and reading its rows again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.assembly import Assembly
from context_tui.formats.base import Advance
from context_tui.formats.databases import Database, checksum, text
from context_tui.formats.koda.compactions import begin_epochs
from context_tui.formats.koda.rows import Row, column_list, part_of
from context_tui.session.session import Session, SessionInfo

BATCH, BATCH_BYTES = 64, 1 << 20
"""Rows that are asked for at once, and bytes of these from which on it is one at a time again."""


class Rows:
    """The rows of one session, in batches by id; and whether those that were read are still what they were."""

    def __init__(self, database: Database, columns: frozenset[str], session_id: str) -> None:
        self._database, self._columns, self._id = database, columns, session_id
        listed = column_list(columns)
        self._select = f"SELECT {listed} FROM messages WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?"
        self._batch = 1
        self.read, self.last, self._checksum = 0, -1, 0

    def behind(self, last: int) -> list[Row]:
        """The next rows behind the one with the id *last*; none at the end."""
        rows = [Row(*row) for row in self._database.query(self._select, (self._id, last, self._batch))]
        large = sum(row.size for row in rows) > BATCH_BYTES
        self._batch = 1 if large else min(2 * self._batch, BATCH)
        return rows

    def note(self, row: Row) -> None:
        """Remember a row, which has to be the next one, as it was read.

        Raises:
            UnreadableSession: its id is not behind the last one's.
        """
        if not isinstance(row.id, int) or row.id <= self.last:  # or the scan would never end
            raise UnreadableSession(f"{self._database.path}: is damaged: row ids behind {self.last} do not ascend")
        self.read, self.last, self._checksum = self.read + 1, row.id, checksum(row, self._checksum)

    def unchanged(self) -> bool:
        """Whether the rows that were read are still there, the same and without others between them."""
        now = Rows(self._database, self._columns, self._id)
        while now.last < self.last and (batch := now.behind(now.last)):
            for row in batch:
                if now.last < self.last:
                    now.note(row)
        return (now.read, now.last, now._checksum) == (self.read, self.last, self._checksum)


class KodaContent:
    """Full text of a session from the database."""

    def __init__(self, database: Database, columns: frozenset[str], assembly: Assembly, rows: Rows) -> None:
        self._database, self._assembly, self._rows = database, assembly, rows
        self._has_completion = "completed_at" in columns
        self._select = f"SELECT {column_list(columns)} FROM messages WHERE id = ?"

    def blocks(self, message: int) -> list[dict[str, Any]]:
        """Blocks of a message, from its rows as they are now.

        Raises:
            UnreadableSession: rows are no longer there.
        """
        facts = self._assembly.facts
        rows = [self._row(record) for record in facts.records_of(message)]
        parts = [part_of(row, has_completion=self._has_completion) for row in rows]
        return [block for part in parts for block in part.blocks]

    def raw(self, record: int) -> str:
        """A row's texts."""
        row = self._row(record)
        return "\n".join(text(value) for value in (row.content, row.tool_calls) if value is not None)

    def system(self) -> str:
        """The system prompt, where a row holds it."""
        return self._assembly.system

    def tools(self) -> list[dict[str, Any]]:
        """Nothing: koda does not store them."""
        return []

    def unchanged(self) -> bool:
        """Whether the rows that were read are still what they were."""
        return self._rows.unchanged()

    def _row(self, record: int) -> Row:
        place = self._assembly.facts.record_place[record]
        rows = self._database.query(self._select, (place,))
        if not rows:
            raise UnreadableSession(f"{self._database.path}: row {place} has gone since it was read; open it again")
        return Row(*rows[0])


class KodaScanner:
    """A resumable scan of one session. Appended rows are read on; after any other change it starts again.

    ``rows`` is how many there were at first.
    """

    def __init__(self, path: Path, info: SessionInfo) -> None:
        self._info, self._database = info, Database(path)
        self._columns = self._database.columns("messages")
        self.rows: int = self._database.query("SELECT count(*) FROM messages WHERE session_id = ?", (info.id,))[0][0]
        self._stamp: tuple[Any, ...] = ()
        self._ended = False
        self._begin()

    @property
    def progress(self) -> float:
        """Share of the rows that have been read."""
        return min(self._rows.read / self.rows, 1.0) if self.rows else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on for about *budget_s* seconds, or to the end when None."""
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted = False
        if self._ended:
            stamp = self._database.stamp()
            if stamp == self._stamp:
                return Advance(0, None, True)
            self._ended, self._stamp = False, stamp
            if restarted := not self._rows.unchanged():
                self._begin()
        facts = self._assembly.facts
        before = 0 if restarted else len(facts)
        while self._take() and (deadline is None or time.monotonic() < deadline):
            pass
        if self._ended:
            begin_epochs(facts, self._archived)
        changed = self._assembly.first_changed(before)
        return Advance(len(facts) - before, 0 if restarted else changed, self._ended)

    def session(self) -> Session:
        """A view of what has been read so far."""
        content = KodaContent(self._database, self._columns, self._assembly, self._rows)
        return Session(self._assembly.facts, content, self._info, len(self._assembly.facts))

    def _begin(self) -> None:
        self._assembly = Assembly()
        self._archived: list[str | None] = []
        self._rows = Rows(self._database, self._columns, self._info.id)
        self._waiting: list[Row] = []
        self._ended = False
        self._stamp = self._stamp or self._database.stamp()

    def _take(self) -> bool:
        """Take one row; whether there was one."""
        if not self._waiting:
            self._waiting = self._rows.behind(self._rows.last)
            self._waiting.reverse()
        if not self._waiting:
            self._ended = True
            return False
        row = self._waiting.pop()
        self._rows.note(row)
        part = part_of(row, has_completion="completed_at" in self._columns)
        message = self._assembly.add(part, row.id, row.size, f"row {row.id}")
        if part.usage and part.usage.fresh != row.prompt_tokens:
            self._assembly.facts.input_includes_cache = True
        if message < 0:
            self._assembly.facts.system_rows += 1
        elif message == len(self._archived):
            self._archived.append(None if row.compacted_at is None else text(row.compacted_at))
        return True
