"""A pane of lines that a pure function makes for the size there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

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
