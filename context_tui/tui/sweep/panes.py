"""Panes of the sweep screens: the list and the plot, and the clicks and scrolls on them."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message

from context_tui.tui.widgets.styled_text import LinesPane


class ListView(LinesPane, can_focus=True):
    """A head and the lines in sight: a click points at one, the wheel moves what is in sight."""

    BINDING_GROUP_TITLE = "Table"

    @dataclass
    class Clicked(Message):
        """A line was clicked, counted from the head, at a cell; a double click has ``is_double``."""

        line: int
        x: int
        is_double: bool

    @dataclass
    class Scrolled(Message):
        """Posted to scroll by a number of lines."""

        lines: int

    @property
    def visible_rows(self) -> int:
        """Lines below the head."""
        return max(self.content_size.height - 1, 1)

    def on_click(self, event: events.Click) -> None:
        """Hand on where it was."""
        place = event.y - self.gutter.top, event.x - self.gutter.left
        self.post_message(self.Clicked(*place, event.chain > 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Down."""
        event.stop()
        self.post_message(self.Scrolled(3))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Up."""
        event.stop()
        self.post_message(self.Scrolled(-3))


class PlotView(LinesPane):
    """The plot: a click picks the nearest point."""

    @dataclass
    class Pointed(Message):
        """A cell was pointed at."""

        x: int
        y: int

    def on_click(self, event: events.Click) -> None:
        """Hand on the cell."""
        self.post_message(self.Pointed(event.x - self.gutter.left, event.y - self.gutter.top))
