"""The panes of the replay screen: lines that a pure function makes for the size there is, and what clicks mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from context_tui.tui.screens.replay.charts import Charts, Line
from context_tui.tui.widgets.drawn import Drawn, Lines


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
    """The charts: a click or a drag moves the cursor, and a threshold that is pulled up or down moves that."""

    BINDING_GROUP_TITLE = "Chart"

    @dataclass
    class Pointed(Message):
        """A call was pointed at, in the chart of a policy (None: between two)."""

        call: int
        number: int | None

    @dataclass
    class Pulled(Message):
        """A threshold was pulled to a size in tokens; ``begins`` with the first of several such messages."""

        line: Line
        tokens: int
        begins: bool

    def __init__(self, charts: Callable[[int, int], Charts], *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(self._lines, ascii=ascii, id=id)
        self._charts = charts
        self.drawn = Charts([])
        self._dragged = self._pulled = False
        self._line: Line | None = None  # was pressed, and is pulled once the mouse goes up or down
        self._y = 0

    def _lines(self, width: int, height: int) -> Lines:
        self.drawn = self._charts(width, height)
        return self.drawn.lines

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a threshold, or point; and follow the mouse."""
        if event.button == 1:
            self._y = event.y - self.gutter.top
            self._line = self.drawn.threshold_at(self._y)
            if self._line is None:
                self._point(event, self.drawn.number_at(self._y))
            self._dragged, self._pulled = True, False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Pull the threshold where the mouse goes up or down on it; drag the cursor where it does not."""
        y = event.y - self.gutter.top
        if not self._dragged:
            return
        if self._line is not None and (self._pulled or y != self._y):
            tokens = self.drawn.size_at(self._line.number, y)
            if tokens is not None and (y != self._y or not self._pulled):
                self.post_message(self.Pulled(self._line, tokens, not self._pulled))
                self._pulled, self._y = True, y
        elif event.delta_x or self._line is None:
            self._point(event, self.drawn.number_at(self._y) if self._line else None)
            self._line = None

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go; a click on a threshold that did not move it points."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()
            if self._line is not None and not self._pulled:
                self._point(event, self.drawn.number_at(self._y))

    def _point(self, event: events.MouseEvent, number: int | None) -> None:
        call = self.drawn.call_at(event.x - self.gutter.left)
        if call is not None:
            self.post_message(self.Pointed(call, number))
