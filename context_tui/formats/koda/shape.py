"""How koda's rows are understood, and what is known once all of a session were read."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.databases import Database, decode_text
from context_tui.formats.kit.message_builder import MessageBuilder, MessagePart
from context_tui.formats.koda.compactions import update_compactions
from context_tui.formats.koda.rows import KodaRow, format_column_list, parse_message_row
from context_tui.session.facts import Usage


class KodaShape:
    """The rows of ``messages``, of any version of the schema."""

    session_column = "session_id"
    id_column = "id"

    def __init__(self, database: Database) -> None:
        self._database, columns = database, database.list_columns("messages")
        self._columns = columns.intersection(KodaRow._fields)
        self.select_sql = f"SELECT {format_column_list(columns)} FROM messages"
        self._has_completion = "completed_at" in columns
        self._archive_times: list[str | None] = []  # by message, when it was

    def parse_row(self, values: tuple[Any, ...]) -> KodaRow:
        """A row of what was selected."""
        return KodaRow(*values)

    def parse(self, row: KodaRow) -> MessagePart:
        """What a row says."""
        return parse_message_row(row, has_completion=self._has_completion)

    def query_row_size(self, row_id: int) -> int:
        """Bytes of a row, found without reading it."""
        return sum(self._database.measure_text("messages", name, row_id) for name in self._columns)

    def format_row(self, row: KodaRow) -> str:
        """A row's texts."""
        return "\n".join(decode_text(value) for value in row.texts)

    def add_facts(self, row: KodaRow, message: int, usage: Usage | None, builder: MessageBuilder) -> None:
        """Note whose prompt tokens include cached ones, rows of the system prompt, and when a row was archived."""
        if usage and usage.fresh != row.prompt_tokens:
            builder.facts.input_includes_cache = True
        if message < 0:
            builder.facts.system_rows += 1
        elif message == len(self._archive_times):
            self._archive_times.append(None if row.compacted_at is None else decode_text(row.compacted_at))

    def finish(self, builder: MessageBuilder) -> None:
        """Tell the compactions from what they archived."""
        update_compactions(builder.facts, self._archive_times)
