"""Reading again what records say, when the text of a message is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from context_tui.formats.kit.message_builder import MessagePart
from context_tui.session.facts import Facts


class BlockReader:
    """The text of messages from the records that they were put together from.

    What the newest record says is kept where it holds several messages: these are asked for one after the other.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._newest = (-1, MessagePart())

    def read_blocks(self, message: int, read: Callable[[int], MessagePart]) -> list[dict[str, Any]]:
        """Blocks of a message, from every record that it was put together from.

        Args:
            message: its number.
            read: what a record says, by its row.
        """
        facts = self._facts
        parts = ((self._parse_record(row, read), row) for row in facts.records_of(message))
        return [
            dict(block)
            for part, row in parts
            for block in part.get_message(facts.ordinal_in_record(message, row)).blocks
        ]

    def _parse_record(self, row: int, read: Callable[[int], MessagePart]) -> MessagePart:
        if self._newest[0] == row:
            return self._newest[1]
        part = read(row)
        if part.further_parts:
            self._newest = row, part
        return part
