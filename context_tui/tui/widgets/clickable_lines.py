"""Pane of lines that reports clicks and turns of the wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from context_tui.tui.widgets.styled_text import Lines, LinesPane

WHEEL_LINES = 3


class ClickableLines(LinesPane, can_focus=True):
    """Pane of lines; the screen supplies the lines, and handles clicks and the wheel."""

    @dataclass
    class PaneMessage(Message):
        """Message about a pane; its handlers may select the pane by id."""

        pane: ClickableLines

        @property
        def control(self) -> ClickableLines:
            """The pane that sent this message."""
            return self.pane

    @dataclass
    class Clicked(PaneMessage):
        """Posted when a cell was clicked, counted from the upper left; ``is_double`` for a double click."""

        line: int
        x: int
        is_double: bool

    @dataclass
    class Scrolled(PaneMessage):
        """Posted when the wheel was turned; ``lines`` is positive downwards."""

        lines: int

    def __init__(self, draw: Callable[[int, int], Lines], *, is_focusable: bool = True, id: str | None = None) -> None:
        super().__init__(draw, id=id)
        self.can_focus = is_focusable

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self, event.y - self.gutter.top, event.x - self.gutter.left, event.chain > 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Scrolled(self, WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Scrolled(self, -WHEEL_LINES))
