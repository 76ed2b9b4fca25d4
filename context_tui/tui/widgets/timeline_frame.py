"""What stands around the timeline: the heads of its columns, and a line that explains the marks in sight."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from context_tui.tui.marks import GLYPHS, LEGEND
from context_tui.tui.widgets.row_paint import FILLED, FOLDED, HEAVY, OPEN, RULE, Columns, paint_column_heads

SIGNS = {
    "open": (OPEN, "turn, z folds it"),
    "folded": (FOLDED, "folded turn, z opens it"),
    "bar": (FILLED, "est. tokens"),
}
"""What else than marks is explained, by the look that it has: its sign and its name."""


class ColumnHeads(Widget):
    """One line above the timeline: its title, and what its columns are; heavy where keys go to what is below."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"column-heads--{part}" for part in ("edge", "label", "title")}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.title = ""
        self._messages = 0

    def on_mount(self) -> None:
        """Follow the focus."""
        self.watch(self.screen, "focused", self._draw_again, init=False)

    def _draw_again(self) -> None:
        self.refresh()

    def show(self, title: str, messages: int) -> None:
        """Show a title, above the columns that so many messages have."""
        if (title, messages) != (self.title, self._messages):
            self.title, self._messages = title, messages
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line."""
        styles = {name.partition("--")[2]: self.get_component_rich_style(name) for name in self.COMPONENT_CLASSES}
        rule = HEAVY if isinstance(self.parent, Widget) and self.parent.has_focus_within else RULE
        return paint_column_heads(Columns.of(self.size.width, self._messages), self.title, styles, rule)


class Legend(Widget):
    """One line below the timeline: the marks and signs that are in sight in it, each with its name."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{look}" for look in ("about", *LEGEND, "head", "bar")}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown: tuple[str, ...] = ()

    def show(self, looks: Collection[str]) -> None:
        """Explain these looks."""
        shown = tuple(look for look in (*LEGEND, *SIGNS) if look in looks)
        if shown != self.shown:
            self.shown = shown
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line, as far as there is room for whole names."""
        about, width, used = self._style("about"), self.size.width, 0
        segments: list[Segment] = []
        for look in self.shown:
            glyph, name = SIGNS.get(look) or (GLYPHS[look], LEGEND[look])
            if used + len(name) + 4 > width:
                break
            style = self._style("head" if look in ("open", "folded") else look)
            segments += [Segment(f" {glyph}", style), Segment(f" {name} ", about)]
            used += len(name) + 4
        return Strip(segments).adjust_cell_length(width, about)

    def _style(self, look: str) -> Style:
        return self.get_component_rich_style(f"timeline--{look}")
