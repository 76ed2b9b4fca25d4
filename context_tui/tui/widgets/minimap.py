"""The whole session in one column beside the scroll bar: how much is where, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from context_tui.compaction.plan import PAST, Plan
from context_tui.tui.marks import GLYPHS
from context_tui.tui.rows import Rows

SHADES = " ▏▎▍▌▋▊▉█"
_PARTS = ("kept", "cleared", "truncated", "summarised", "dropped", "outside", "view", "point")


@dataclass(frozen=True)
class Stretch:
    """Some rows in one line: their tokens, and the fate of most of what changes there."""

    tokens: int
    fate: str


def stretches(rows: Rows, plan: Plan | None, first: int, point: int, lines: int) -> list[Stretch]:
    """The rows in *lines* stretches of equal length; the context begins at message *first* and ends before *point*."""
    total = len(rows)
    lines = min(lines, total)
    if lines <= 0:
        return []
    sums = rows.sums
    bounds = [total * line // lines for line in range(lines + 1)]
    changed: dict[int, dict[str, int]] = {}
    if plan is not None:
        facts = plan.context.facts
        for block, change in plan.changes.items():
            message = facts.block_message[block]
            if message < len(rows.first):
                line = rows.first[message] * lines // total
                fates = changed.setdefault(line, {})
                word = PAST[change.action]
                fates[word] = fates.get(word, 0) + facts.size[block]
    boundary = plan.boundary if plan is not None else None
    head = ("summarised" if plan.insert else "dropped") if plan is not None else ""
    found = []
    for line, (start, end) in enumerate(pairwise(bounds)):
        message = rows.message[min((start + end) // 2, total - 1)]
        fates = changed.get(line, {})
        fate = max(fates, key=lambda word: fates[word]) if fates else "kept"
        if message < first or message >= point:
            fate = "before" if message < first else "after"
        elif boundary is not None and message < boundary:
            fate = head
        found.append(Stretch(sums[end] - sums[start], fate))
    return found


class Minimap(Widget):
    """Two cells a line: the mark of what changes there, and how much stands there. A click goes there."""

    COMPONENT_CLASSES = {f"minimap--{part}" for part in _PARTS}

    @dataclass
    class Clicked(Message):
        """A place was clicked: its share of the whole."""

        share: float

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Stretch] = []
        self._make: Callable[[int], list[Stretch]] = lambda lines: []
        self._window = (0.0, 0.0)

    def show(self, make: Callable[[int], list[Stretch]]) -> None:
        """Draw what *make* gives for a number of lines."""
        self._make = make
        self._lines = make(self.size.height)
        self.refresh()

    def show_window(self, start: float, end: float) -> None:
        """Mark the part that is in sight, as shares of the whole."""
        if (start, end) != self._window:
            self._window = (start, end)
            self.refresh()

    def on_resize(self) -> None:
        """Draw for another height."""
        self.show(self._make)

    def render_line(self, y: int) -> Strip:
        """One line."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        stretch, most = self._lines[y], max(each.tokens for each in self._lines) or 1
        fate = "outside" if stretch.fate in ("before", "after") else stretch.fate
        style = self.get_component_rich_style(f"minimap--{fate if fate in _PARTS else 'kept'}")
        height = self.size.height
        if self._window[0] * height < y + 1 and y < self._window[1] * height:
            style += Style(bgcolor=self.get_component_rich_style("minimap--view").bgcolor)
        shade = SHADES[min(-(-stretch.tokens * (len(SHADES) - 1) // most), len(SHADES) - 1)]
        mark = GLYPHS.get(stretch.fate, " ") if fate != "outside" else " "
        return Strip([Segment(mark + shade, style)]).adjust_cell_length(width, style)

    def on_click(self, event: events.Click) -> None:
        """Go there."""
        if self.size.height:
            self.post_message(self.Clicked(event.y / self.size.height))
