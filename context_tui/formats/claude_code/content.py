"""Full text of a Claude Code session, read from the file when it is asked for."""

from __future__ import annotations

from typing import Any

from context_tui.errors import UnreadableSession
from context_tui.formats.claude_code import parsing
from context_tui.formats.kit.lines import LineFile
from context_tui.session.facts import Facts


class ClaudeCodeContent:
    """Blocks of a message from the lines that it was put together of."""

    def __init__(self, file: LineFile, facts: Facts) -> None:
        self.file, self.facts = file, facts

    def read_line(self, record: int) -> bytes:
        """The bytes of a record."""
        return self.file.read_range(self.facts.record_place[record], self.facts.record_length[record])

    def blocks(self, message: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for row in self.facts.records_of(message):
            try:
                record = parsing.parse_line(self.read_line(row))
            except ValueError as error:
                raise UnreadableSession(f"{self.file.path}: message {message:,} cannot be read: {error}") from None
            part = self.select_message_blocks(message, row, record)
            found.extend(parsing.extract_blocks(record) if part is None else part)
        return found

    def select_message_blocks(self, message: int, row: int, record: parsing.Record) -> list[dict[str, Any]] | None:
        """What *message* has of a record that is part of two: its results, or what was typed there; None of others."""
        if row not in self.facts.shared_records:
            return None
        return parsing.select_blocks(parsing.extract_blocks(record), record, typed=message in self.facts.shared_record)

    def raw(self, record: int) -> str:
        return self.file.format_line(self.facts.record_place[record], self.facts.record_length[record])

    def system(self) -> str:
        return ""

    def tools(self) -> list[dict[str, Any]]:
        return []

    def is_unchanged(self) -> bool:
        return self.file.is_unchanged()
