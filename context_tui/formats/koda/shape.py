"""How koda's rows are understood, and what is known once all of a session were read."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.databases import Database, text
from context_tui.formats.kit.message_builder import MessageBuilder, Part
from context_tui.formats.koda.compactions import begin_epochs
from context_tui.formats.koda.rows import Row, column_list, part_of
from context_tui.session.facts import Usage


class KodaShape:
    """The rows of ``messages``, of any version of the schema."""

    session_column = "session_id"
    id_column = "id"

    def __init__(self, database: Database) -> None:
        self._database, columns = database, database.columns("messages")
        self._columns = columns.intersection(Row._fields)
        self.rows = f"SELECT {column_list(columns)} FROM messages"
        self._has_completion = "completed_at" in columns
        self._archived: list[str | None] = []  # by message, when it was

    def row(self, values: tuple[Any, ...]) -> Row:
        """A row of what was selected."""
        return Row(*values)

    def part(self, row: Row) -> Part:
        """What a row says."""
        return part_of(row, has_completion=self._has_completion)

    def size(self, row_id: int) -> int:
        """Bytes of a row, found without reading it."""
        return sum(self._database.length("messages", name, row_id) for name in self._columns)

    def text(self, row: Row) -> str:
        """A row's texts."""
        return "\n".join(text(value) for value in row.texts)

    def take(self, row: Row, message: int, usage: Usage | None, builder: MessageBuilder) -> None:
        """Note whose prompt tokens include cached ones, rows of the system prompt, and when a row was archived."""
        if usage and usage.fresh != row.prompt_tokens:
            builder.facts.input_includes_cache = True
        if message < 0:
            builder.facts.system_rows += 1
        elif message == len(self._archived):
            self._archived.append(None if row.compacted_at is None else text(row.compacted_at))

    def end(self, builder: MessageBuilder) -> None:
        """Tell the compactions from what they archived."""
        begin_epochs(builder.facts, self._archived)
