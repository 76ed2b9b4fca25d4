"""Pane of lines that reports clicks and turns of the wheel."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from context_tui.tui.widgets.styled_text import Lines, LinesPane

WHEEL_LINES = 3


class ClickableLines(LinesPane, can_focus=True):
    """A pane that shows lines supplied by its screen, and tells it of clicks and of turns of the wheel."""

    def __init__(
        self,
        draw: Callable[[int, int], Lines],
        click: Callable[[int, int, bool], object],
        scroll: Callable[[int], object] = lambda lines: None,
        *,
        is_focusable: bool = True,
        id: str | None = None,
    ) -> None:
        """Create a pane; *click* receives the line and cell of a click in its content and whether it is double."""
        super().__init__(draw, id=id)
        self._click, self._scroll, self.can_focus = click, scroll, is_focusable

    def on_click(self, event: events.Click) -> None:
        self._click(event.y - self.gutter.top, event.x - self.gutter.left, event.chain > 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-WHEEL_LINES)
