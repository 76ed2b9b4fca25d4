"""Scan sessions whose records are rows in a database, row by row, and read their full text again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit import files
from context_tui.formats.kit.databases import Database, ValueTooLarge, compute_checksum
from context_tui.formats.kit.message_builder import (
    MessageBuilder,
    MessageRecord,
    ParsedRecord,
    RecordAdder,
    RecordContent,
    UsageRecord,
    list_cases,
)
from context_tui.session.facts import Usage
from context_tui.session.session import Session, SessionInfo

BATCH_ROWS, BATCH_BYTES = 64, 1 << 20
"""Maximum number of rows per read. After a batch of more than ``BATCH_BYTES``, rows are read one by one again."""


class RowLike(Protocol):
    """Interface of a row, with the total size of its texts and an id that ascends within a session."""

    @property
    def id(self) -> Any:
        """The value by which rows are ordered."""

    @property
    def size(self) -> int:
        """Total size of the texts, in bytes."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""


R = TypeVar("R", bound=RowLike)


class OversizedRow(NamedTuple):
    """A row that was not read because one of its values is too large."""

    id: Any
    size: int


class RowShape(Protocol[R]):
    """Interface of a format's row parser. It keeps state between rows, so every scan creates a new one.

    ``select_sql`` selects all columns. Conditions on ``session_column`` and ``id_column`` are appended to it.
    """

    select_sql: str
    session_column: str
    id_column: str

    def parse_row(self, values: tuple[Any, ...]) -> R:
        """Return a row object for the column values selected by ``select_sql``."""

    def parse(self, row: R) -> ParsedRecord:
        """Parse a row into a record. The result must depend on nothing but the row."""

    def query_row_size(self, row_id: int) -> int:
        """Return a row's size in bytes without loading its text, or 0 if it is unknown."""

    def format_row(self, row: R) -> str:
        """Return the text of a row as it is shown to users, for example to explain a problem."""

    def add_facts(self, row: R, message: int, usage: Usage | None, builder: MessageBuilder) -> None:
        """Add facts about a row that became *message* (-1 if none) and recorded the usage *usage* (None if none)."""

    def finish(self, builder: MessageBuilder) -> None:
        """Complete the facts after the last row."""


class RowCursor(Generic[R]):
    """Reads one session's rows in batches. ``read`` counts the rows so far, and ``last`` is the id of the last one."""

    def __init__(self, database: Database, shape: RowShape[R], session_id: str) -> None:
        self.database, self._shape, self.session = database, shape, session_id
        condition = f"WHERE {shape.session_column} = ? AND {shape.id_column} > ? ORDER BY {shape.id_column} LIMIT ?"
        self._select = f"{shape.select_sql} {condition}"
        self._batch = 1
        self.read, self.last, self._checksum = 0, -1, 0

    def count_rows(self) -> int:
        sql = f"SELECT count(*) FROM ({self._shape.select_sql} WHERE {self._shape.session_column} = ?)"
        count: int = self.database.query(sql, (self.session,))[0][0]
        return count

    def read_after(self, last_id: int) -> Sequence[R | OversizedRow]:
        """Return the next rows after *last_id*, or an empty list at the end."""
        id_column, values = self._shape.id_column, (self.session, last_id, self._batch)
        try:
            selected = self.database.query(self._select, values, max_value_bytes=files.MAX_RECORD_BYTES)
        except ValueTooLarge:
            if self._batch == 1:
                remaining = f"{self._shape.select_sql} WHERE {self._shape.session_column} = ? AND {id_column} > ?"
                query = f"SELECT min({id_column}) FROM ({remaining})"
                row_id = self.database.query(query, (self.session, last_id))[0][0]
                return [OversizedRow(row_id, self._shape.query_row_size(row_id))]
            self._batch = 1  # read row by row up to it
            return self.read_after(last_id)
        rows = [self._shape.parse_row(values) for values in selected]
        large = sum(row.size for row in rows) > BATCH_BYTES
        self._batch = 1 if large else min(2 * self._batch, BATCH_ROWS)
        return rows

    def read_row(self, row_id: int) -> R:
        """Return the current state of a row, or raise UnreadableSession if it was deleted."""
        sql = f"{self._shape.select_sql} WHERE {self._shape.id_column} = ?"
        selected = self.database.query(sql, (row_id,), max_value_bytes=files.MAX_RECORD_BYTES)
        if not selected:
            raise UnreadableSession(f"{self.database.path}: row {row_id} was deleted since it was read; open it again")
        return self._shape.parse_row(selected[0])

    def record_row(self, row: R | OversizedRow) -> None:
        """Count the next row as read. Raises UnreadableSession if its id is not greater than the previous one."""
        if not isinstance(row.id, int) or row.id <= self.last:  # or the scan would never end
            raise UnreadableSession(f"{self.database.path}: is damaged: row ids after {self.last} do not ascend")
        self.read, self.last, self._checksum = self.read + 1, row.id, compute_checksum(row, self._checksum)

    def read_remaining(self) -> Iterator[R | OversizedRow]:
        """Yield the rows that follow those read so far, and count each of them as read."""
        while batch := self.read_after(self.last):
            for row in batch:
                self.record_row(row)
                yield row

    @property
    def state(self) -> tuple[int, int, int]:
        """The number of rows read so far, the last id, and a checksum of these rows."""
        return self.read, self.last, self._checksum

    def is_unchanged(self) -> bool:
        """Read the rows again, and return whether they are the same as before, without new ones in between."""
        current = RowCursor(self.database, self._shape, self.session)
        while current.last < self.last and (batch := current.read_after(current.last)):
            for row in batch:
                if current.last < self.last:
                    current.record_row(row)
        return current.state == self.state


class RowContent(RecordContent, Generic[R]):
    """The full text of a session, read again from the database on demand."""

    def __init__(self, builder: MessageBuilder, shape: RowShape[R], adder: RecordAdder, rows: RowCursor[R]) -> None:
        super().__init__(builder, builder.facts)
        self._shape, self._adder, self.rows = shape, adder, rows

    def parse_record(self, row: int) -> ParsedRecord:
        return self._adder.parse(self._read_row(row))

    def raw(self, record: int) -> str:
        try:
            data = self._shape.format_row(self._read_row(record)).encode("utf-8", "replace")
        except ValueTooLarge:
            return f"[{files.TOO_LARGE}]"
        return files.format_beginning(data, len(data))

    def is_unchanged(self) -> bool:
        return self.rows.is_unchanged()

    def _read_row(self, record: int) -> R:
        return self.rows.read_row(self.facts.record_place[record])


class RowScanner(Generic[R]):
    """A resumable scan of one session: if rows were only appended, it reads just those, and else it starts over.

    ``count`` is the number of rows when the scan began.
    """

    def __init__(self, database: Database, info: SessionInfo, shape: Callable[[Database], RowShape[R]]) -> None:
        self._database, self._info, self._new_shape = database, info, shape
        self._stamp: tuple[Any, ...] = ()
        self._is_finished = False
        self._restart()
        self.count = self._rows.count_rows()

    @property
    def progress(self) -> float:
        return min(self._rows.read / self.count, 1.0) if self.count else 1.0

    def advance(self, budget_s: float | None = None) -> Advance:
        deadline = None if budget_s is None else time.monotonic() + budget_s
        restarted = False
        if self._is_finished:
            stamp = self._database.read_stamp()
            if stamp == self._stamp:
                return Advance(0, None, True)
            self._is_finished, self._stamp = False, stamp
            if restarted := not self._rows.is_unchanged():
                self._restart()
        facts = self._builder.facts
        old_count = 0 if restarted else len(facts)
        while self._scan_row() and (deadline is None or time.monotonic() < deadline):
            pass
        if self._is_finished:
            self._shape.finish(self._builder)
        changed = self._builder.pop_first_changed(old_count)
        return Advance(len(facts) - old_count, 0 if restarted else changed, self._is_finished)

    def session(self) -> Session:
        content = RowContent(self._builder, self._shape, self._adder, self._rows)
        return Session(content.facts, content, self._info, len(content.facts))

    def _restart(self) -> None:
        self._builder = MessageBuilder()
        self._shape = self._new_shape(self._database)
        self._adder = RecordAdder(self._shape, self._builder)
        self._rows = RowCursor(self._database, self._shape, self._info.id)
        self._pending_rows: list[R | OversizedRow] = []
        self._is_finished = False
        self._stamp = self._stamp or self._database.read_stamp()

    def _scan_row(self) -> bool:
        if not self._pending_rows:
            self._pending_rows = [*reversed(self._rows.read_after(self._rows.last))]
        if not self._pending_rows:
            self._is_finished = True
            return False
        row = self._pending_rows.pop()
        self._rows.record_row(row)
        location = f"row {row.id}"
        if isinstance(row, OversizedRow) or files.format_too_large(row.size):
            self._builder.add_problem(row.id, row.size, location, files.format_too_large(row.size) or files.TOO_LARGE)
            return True
        if added := self._adder.add(row, location, row.id, row.size):
            cases = (each for each in list_cases(added[0]) if isinstance(each, MessageRecord | UsageRecord))
            self._shape.add_facts(row, added[1], next((each.usage for each in cases), None), self._builder)
        return True
