"""Full text of a Claude Code session, read from the file when it is asked for."""

from __future__ import annotations

from typing import Any

from context_tui.formats.claude_code import records
from context_tui.formats.lines import LineFile
from context_tui.session.facts import Facts


class LinesContent:
    """Blocks of a message from the lines that it was put together of."""

    def __init__(self, file: LineFile, facts: Facts) -> None:
        self.file, self.facts = file, facts

    def line(self, record: int) -> bytes:
        """The bytes of a record."""
        return self.file.read(self.facts.record_place[record], self.facts.record_length[record])

    def blocks(self, message: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        shared = self._shared
        for row in self.facts.records_of(message):
            record = records.decode(self.line(row))
            blocks = records.blocks(record)
            if row in shared:
                blocks = records.shown(blocks, record, typed=message in self.facts.shared)
            found.extend(blocks)
        return found

    @property
    def _shared(self) -> frozenset[int]:
        """Records that are part of two messages: results, and what was typed there."""
        return frozenset(self.facts.shared.values())

    def raw(self, record: int) -> str:
        return self.line(record).decode("utf-8", "replace")

    def system(self) -> str:
        return ""

    def tools(self) -> list[dict[str, Any]]:
        return []
