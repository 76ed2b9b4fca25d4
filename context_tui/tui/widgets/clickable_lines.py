"""Pane of lines that reports clicks and turns of the wheel to its screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from context_tui.tui.widgets.styled_text import Lines, LinesPane

WHEEL_LINES = 3
"""Lines for one turn of the wheel."""


class ClickableLines(LinesPane, can_focus=True):
    """Pane of lines; its screen decides which lines are visible, and what a click on one of them selects."""

    @dataclass
    class PaneMessage(Message):
        """Message about a pane; handlers can select the pane by its id."""

        pane: ClickableLines

        @property
        def control(self) -> ClickableLines:
            """The pane."""
            return self.pane

    @dataclass
    class Clicked(PaneMessage):
        """A cell was clicked, counted from the upper left of the pane; a double click has ``is_double``."""

        line: int
        x: int
        is_double: bool

    @dataclass
    class Scrolled(PaneMessage):
        """The wheel was turned by a number of lines."""

        lines: int

    def __init__(self, draw: Callable[[int, int], Lines], *, is_focusable: bool = True, id: str | None = None) -> None:
        super().__init__(draw, id=id)
        self.can_focus = is_focusable

    def on_click(self, event: events.Click) -> None:
        """Post the clicked cell."""
        self.post_message(self.Clicked(self, event.y - self.gutter.top, event.x - self.gutter.left, event.chain > 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.post_message(self.Scrolled(self, WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.post_message(self.Scrolled(self, -WHEEL_LINES))
