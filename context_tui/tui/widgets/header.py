"""The three lines at the top: what is open, what was recorded, and how full the window is."""

from __future__ import annotations

from collections.abc import Mapping

from textual.message import Message
from textual.widget import Widget

from context_tui.session.context import Context
from context_tui.session.session import Session


class HeaderBar(Widget):
    """File and counts, the recorded context over the session, and the gauge of the window."""

    DEFAULT_CSS = "HeaderBar { height: 3; text-wrap: nowrap; text-overflow: clip; }"

    class Jumped(Message):
        """The recorded line was clicked at the request that ended at ``message``."""

        def __init__(self, message: int) -> None:
            super().__init__()
            self.message = message

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii

    def show(
        self, session: Session, context: Context, parts: Mapping[str, int] | None = None, *, live: bool = False
    ) -> None:
        """Show a session as of the point of *context*; *parts* is ``Breakdown.by_category``, None while unknown."""
