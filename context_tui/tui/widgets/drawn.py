"""A pane of lines that a pure function makes for the size there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

from context_tui.tui.widgets.draw import Run, build_content, clip_runs

Lines = Sequence[Sequence[Run]]


class LinesPane(Widget):
    """Lines made by a function, which is given a width and a height in cells."""

    DEFAULT_CSS = "LinesPane { text-wrap: nowrap; text-overflow: clip; padding: 0 1; }"

    def __init__(self, build_lines: Callable[[int, int], Lines], *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._build_lines, self.ascii = build_lines, ascii

    def render(self) -> Content:
        """The lines."""
        width, height = self.content_size
        lines = self._build_lines(width, height)[:height] if width and height else []
        return Content("\n").join(build_content(clip_runs(line, width), self.ascii) for line in lines)
