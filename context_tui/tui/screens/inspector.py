"""The inspector: one session, one plan, one immutable view that every widget draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer

from context_tui.session.session import Session, SessionInfo
from context_tui.tui.marks import Marker
from context_tui.tui.rows import Rows
from context_tui.tui.text import Reader
from context_tui.tui.view import Spot, View
from context_tui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from context_tui.tui.app import Asked


class InspectorScreen(Screen[None]):
    """Shows a session; the keys change the view, and the view is shown."""

    AUTO_FOCUS = "Timeline"

    def __init__(self, what: Session | SessionInfo, asked: Asked) -> None:
        super().__init__()
        self.what, self.asked = what, asked
        self.rows = Rows()

    def compose(self) -> ComposeResult:
        with Horizontal(id="middle"):
            yield Timeline(id="timeline")
        yield Footer()

    def on_mount(self) -> None:
        assert isinstance(self.what, Session)
        self.rows.grow(self.what)
        self.show(View(self.what, at=self.asked.at, policy=self.asked.policy or "defect-microcompact"))

    def show(self, view: View) -> None:
        """Draw a view."""
        self.view = view
        timeline = self.query_one(Timeline)
        timeline.show(self.rows, Reader(view.session), Marker(view.context, view.plan), None, Spot(len(view.session)))
