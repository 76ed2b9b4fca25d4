"""Where did it go: the context by category and tool, its largest blocks, and what was read more than once."""

from __future__ import annotations

from textual.message import Message
from textual.scroll_view import ScrollView

from context_tui.session.context import Context
from context_tui.tokens.breakdown import Breakdown


class BreakdownView(ScrollView, can_focus=True):
    """Rows with shares; choosing one filters the timeline or goes to the message."""

    class Filter(Message):
        """A row was chosen: ``kind`` is category, tool or path, as ``filters.Filter`` names its conditions."""

        def __init__(self, kind: str, value: str) -> None:
            super().__init__()
            self.kind, self.value = kind, value

    class Goto(Message):
        """One of the largest blocks was chosen: its message, and its block row."""

        def __init__(self, message: int, block: int) -> None:
            super().__init__()
            self.message, self.block = message, block

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii

    def show(self, context: Context, parts: Breakdown) -> None:
        """Show the parts of a context."""
