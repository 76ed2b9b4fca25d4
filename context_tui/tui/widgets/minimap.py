"""The whole session in place of a scroll bar: how much is where, what becomes of it, and what is in sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import ACTION_PAST_TENSE
from context_tui.tokens.context_index import index_context
from context_tui.tui.marks import VERDICT_GLYPHS
from context_tui.tui.rows import TimelineRows
from context_tui.tui.widgets.canvas import Canvas, eighths
from context_tui.tui.widgets.draw import Run

SAMPLE = 4_000
"""Changes that are looked at: enough for a picture."""
WIDTH = 2
"""Cells of a line; the widget is as wide."""
_PARTS = ("kept", "cleared", "truncated", "summarised", "dropped", "outside", "view")


@dataclass(frozen=True)
class Stretch:
    """Some rows in one line: their tokens, and the fate of most of what changes there."""

    tokens: int
    fate: str


def stretches(rows: TimelineRows, plan: Plan | None, first: int, point: int, lines: int) -> list[Stretch]:
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
        for block in islice(plan.changes, None, None, len(plan.changes) // SAMPLE + 1):
            message = facts.block_message[block]
            if message < len(rows.first):
                line = rows.first[message] * lines // total
                fates = changed.setdefault(line, {})
                word = ACTION_PAST_TENSE[plan.changes[block].action]
                fates[word] = fates.get(word, 0) + facts.size[block]
    position_of = index_context(plan.context).position_of if plan is not None and plan.dropped_ranges else {}
    found = []
    for line, (start, end) in enumerate(pairwise(bounds)):
        message = rows.message[min((start + end) // 2, total - 1)]
        fates = changed.get(line, {})
        fate = max(fates, key=lambda word: fates[word]) if fates else "kept"
        if message < first or message >= point:
            fate = "before" if message < first else "after"
        elif plan is not None and message in position_of and (action := plan.find_action(position_of[message])):
            fate = ACTION_PAST_TENSE[action]
        found.append(Stretch(sums[end] - sums[start], fate))
    return found


def map_lines(found: Sequence[Stretch]) -> list[list[Run]]:
    """Each stretch in two cells: the mark of what changes there, and how much stands there; styles are fates."""
    most = max((stretch.tokens for stretch in found), default=0)
    canvas = Canvas(WIDTH, len(found))
    for y, stretch in enumerate(found):
        look = "outside" if stretch.fate in ("before", "after") else stretch.fate
        canvas.write(0, y, (" " if look == "outside" else VERDICT_GLYPHS[look]).ljust(WIDTH), look)
        canvas.row(WIDTH - 1, y, eighths(stretch.tokens, most), look)
    return canvas.lines()


class Minimap(Widget):
    """Two cells a line: the mark of what changes there, and how much stands there. Clicks and drags go there."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {f"minimap--{part}" for part in _PARTS}

    @dataclass
    class Clicked(Message):
        """A place was clicked: its share of the whole."""

        share: float

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._stretches: list[Stretch] = []
        self._lines: list[list[Run]] = []
        self._make: Callable[[int], list[Stretch]] = lambda lines: []
        self._window = range(0)
        self._styles: dict[str, Style] = {}

    def show(self, make: Callable[[int], list[Stretch]]) -> None:
        """Draw what *make* gives for a number of lines."""
        self._make = make
        found = make(self.size.height)
        if found != self._stretches:
            self._stretches, self._lines = found, map_lines(found)
            self.refresh()

    def show_window(self, start: float, end: float) -> None:
        """Mark the part that is in sight, as shares of the whole; only lines that change are drawn again."""
        lines = len(self._lines)
        first = min(int(start * lines), max(lines - 1, 0))
        window = range(first, max(round(end * lines), first + 1))
        for line in set(window) ^ set(self._window):
            self.refresh(Region(0, line, self.size.width, 1))
        self._window = window

    def on_resize(self) -> None:
        """Draw for another height."""
        self.show(self._make)

    def notify_style_update(self) -> None:
        """Forget the old colours."""
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        if not self._styles:
            self._styles = {part: self.get_component_rich_style(f"minimap--{part}") for part in _PARTS}
        view = self._styles["view"]
        over = Style(bgcolor=view.bgcolor, reverse=view.reverse) if y in self._window else Style.null()
        return Strip([Segment(text, self._styles[part] + over) for text, part in self._lines[y]], WIDTH)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go there, and follow the mouse while it is held."""
        self.capture_mouse()
        self._go(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self.app.mouse_captured is self:
            self._go(event.y)

    def on_mouse_up(self) -> None:
        """Follow it no more."""
        self.release_mouse()

    def _go(self, y: int) -> None:
        if self._lines:
            self.post_message(self.Clicked(min(max(y, 0), len(self._lines) - 1) / len(self._lines)))
