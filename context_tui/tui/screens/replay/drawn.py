"""The panes of the replay screen: lines that a pure function makes for the size there is, and what clicks mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from context_tui.tui.screens.replay.charts import Charts
from context_tui.tui.widgets.draw import Run, clip, content

Lines = Sequence[Sequence[Run]]


class Drawn(Widget):
    """Lines made by a function, which is given a width and a height in cells."""

    DEFAULT_CSS = "Drawn { text-wrap: nowrap; text-overflow: clip; padding: 0 1; }"

    def __init__(self, lines: Callable[[int, int], Lines], *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make, self.ascii = lines, ascii

    def render(self) -> Content:
        """The lines."""
        width, height = self.content_size
        lines = self._make(width, height)[:height] if width and height else []
        return Content("\n").join(content(clip(line, width), self.ascii) for line in lines)


class TableView(Drawn):
    """The table of policies: a click selects the one on a line."""

    @dataclass
    class Clicked(Message):
        """A line of the table, counted from its head, of so many."""

        line: int
        height: int

    def on_click(self, event: events.Click) -> None:
        """Hand on the line."""
        self.post_message(self.Clicked(event.y - self.gutter.top, self.content_size.height))


class ChartsView(Drawn, can_focus=True):
    """The charts: a click or a drag moves the cursor."""

    BINDING_GROUP_TITLE = "Chart"

    @dataclass
    class Pointed(Message):
        """A call was pointed at, in the chart of a policy (None: between two)."""

        call: int
        number: int | None

    def __init__(self, charts: Callable[[int, int], Charts], *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(self._lines, ascii=ascii, id=id)
        self._charts = charts
        self.drawn = Charts([])
        self._dragged = False

    def _lines(self, width: int, height: int) -> Lines:
        self.drawn = self._charts(width, height)
        return self.drawn.lines

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Point, and follow the mouse."""
        if event.button == 1:
            self._point(event, self.drawn.number_at(event.y - self.gutter.top))
            self._dragged = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the cursor."""
        if self._dragged:
            self._point(event, None)

    def on_mouse_up(self) -> None:
        """Let go of the cursor."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def _point(self, event: events.MouseEvent, number: int | None) -> None:
        call = self.drawn.call_at(event.x - self.gutter.left)
        if call is not None:
            self.post_message(self.Pointed(call, number))
