"""Pane that shows the charts and handles clicks and drags on them."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from context_tui.tui.replay.charts import Charts, ThresholdLine
from context_tui.tui.widgets.styled_text import Lines, LinesPane


class ChartsView(LinesPane, can_focus=True):
    """A pane with the charts: a click or horizontal drag moves the cursor, a vertical drag moves a threshold."""

    BINDING_GROUP_TITLE = "Chart"

    def __init__(
        self,
        draw_charts: Callable[[int, int], Charts],
        point_at: Callable[[int, int | None], object],
        drag_threshold: Callable[[ThresholdLine, int, bool], object],
        *,
        id: str | None = None,
    ) -> None:
        """Create a pane.

        *point_at* receives a call and the clicked policy (None during a drag). *drag_threshold* receives a threshold,
        the tokens that it is dragged to, and whether the drag has just begun.
        """
        super().__init__(self._draw_lines, id=id)
        self._draw_charts, self._point_at, self._drag_threshold = draw_charts, point_at, drag_threshold
        self.charts = Charts([])
        self._is_dragging = self._is_threshold_dragged = False
        self._pressed_threshold: ThresholdLine | None = None  # dragged once the mouse moves up or down
        self._last_y = 0

    def _draw_lines(self, width: int, height: int) -> Lines:
        self.charts = self._draw_charts(width, height)
        return self.charts.lines

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Grab the threshold under the mouse or, if there is none, select the call; then capture the mouse."""
        if event.button == 1:
            self._last_y = event.y - self.gutter.top
            self._pressed_threshold = self.charts.find_threshold(self._last_y)
            if self._pressed_threshold is None:
                self._post_pointed_call(event, self.charts.find_lane_number(self._last_y))
            self._is_dragging, self._is_threshold_dragged = True, False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the grabbed threshold if the mouse moves vertically; otherwise move the cursor."""
        y = event.y - self.gutter.top
        if not self._is_dragging:
            return
        if self._pressed_threshold is not None and (self._is_threshold_dragged or y != self._last_y):
            tokens = self.charts.compute_size(self._pressed_threshold.number, y)
            if tokens is not None and (y != self._last_y or not self._is_threshold_dragged):
                self._drag_threshold(self._pressed_threshold, tokens, not self._is_threshold_dragged)
                self._is_threshold_dragged, self._last_y = True, y
        elif event.delta_x or self._pressed_threshold is None:
            number = self.charts.find_lane_number(self._last_y) if self._pressed_threshold else None
            self._post_pointed_call(event, number)
            self._pressed_threshold = None

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End the drag, selecting the call if a threshold was clicked but not moved."""
        if self._is_dragging:
            self._is_dragging = False
            self.release_mouse()
            if self._pressed_threshold is not None and not self._is_threshold_dragged:
                self._post_pointed_call(event, self.charts.find_lane_number(self._last_y))

    def _post_pointed_call(self, event: events.MouseEvent, number: int | None) -> None:
        if (call := self.charts.find_call(event.x - self.gutter.left)) is not None:
            self._point_at(call, number)
