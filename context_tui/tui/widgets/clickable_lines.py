"""Pane of lines that reports clicks and turns of the wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from context_tui.tui.widgets.styled_text import Lines, LinesPane

WHEEL_LINES = 3


class ClickableLines(LinesPane, can_focus=True):
    """A pane that shows lines supplied by its screen, and posts messages when it is clicked or scrolled."""

    @dataclass
    class PaneMessage(Message):
        """Base class for messages from a pane; a handler can select the pane by id, as in ``@on(…, "#id")``."""

        pane: ClickableLines

        @property
        def control(self) -> ClickableLines:
            """The pane that sent this message."""
            return self.pane

    @dataclass
    class Clicked(PaneMessage):
        """Posted when a cell is clicked; ``line`` and ``x`` count from 0 at the upper left of the pane's content."""

        line: int
        x: int
        is_double: bool

    @dataclass
    class Scrolled(PaneMessage):
        """Posted when the mouse wheel is turned; ``lines`` is positive for scrolling down."""

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
