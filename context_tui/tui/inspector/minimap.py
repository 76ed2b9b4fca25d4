"""Map of the whole session beside the timeline: its tokens, the changes of the plan, and the visible part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.tokens.context_index import index_context
from context_tui.tui.timeline.marks import VERDICT_GLYPHS
from context_tui.tui.timeline.rows import TimelineRows
from context_tui.tui.widgets.canvas import Canvas, count_eighths
from context_tui.tui.widgets.styled_text import Run

MAX_SAMPLED_CHANGES = 4_000
"""Maximum number of changes of a plan that are examined."""
MAP_WIDTH = 2
_STYLE_NAMES = ("kept", "cleared", "truncated", "summarised", "dropped", "outside", "view")


class MapSegment(NamedTuple):
    """One line of the map: the tokens of its rows, and the verdict on most of their changed bytes."""

    tokens: int
    verdict: str


def build_map_segments(rows: TimelineRows, plan: Plan | None, first: int, point: int, lines: int) -> list[MapSegment]:
    """Divide *rows* into up to *lines* equal segments; messages before *first*, or at or after *point*, are outside."""
    total = len(rows)
    lines = min(lines, total)
    if lines <= 0:
        return []
    sums = rows.sums
    bounds = [total * line // lines for line in range(lines + 1)]
    sizes_by_line = defaultdict[int, Counter[str]](Counter)
    if plan is not None:
        facts = plan.context.facts
        for block in islice(plan.changes, None, None, len(plan.changes) // MAX_SAMPLED_CHANGES + 1):
            message = facts.block_message[block]
            if message < len(rows.first):
                verdict = ACTION_PAST_TENSE[plan.changes[block].action]
                sizes_by_line[rows.first[message] * lines // total][verdict] += facts.size[block]
    position_of = index_context(plan.context).position_of if plan is not None and plan.dropped_ranges else {}
    segments = []
    for line, (start, end) in enumerate(pairwise(bounds)):
        message = rows.message[min((start + end) // 2, total - 1)]
        sizes = sizes_by_line[line]
        verdict = max(sizes, key=sizes.__getitem__, default="kept")
        if message < first or message >= point:
            verdict = "before" if message < first else "after"
        elif plan is not None and message in position_of and (action := plan.find_action(position_of[message])):
            verdict = ACTION_PAST_TENSE[action]
        segments.append(MapSegment(sums[end] - sums[start], verdict))
    return segments


def draw_map(segments: Sequence[MapSegment]) -> list[list[Run]]:
    """Draw each segment as one line of two cells: the glyph for its verdict, and a bar for its tokens."""
    largest = max((segment.tokens for segment in segments), default=0)
    canvas = Canvas(MAP_WIDTH, len(segments))
    for y, segment in enumerate(segments):
        style = "outside" if segment.verdict in ("before", "after") else segment.verdict
        canvas.write(0, y, (" " if style == "outside" else VERDICT_GLYPHS[style]).ljust(MAP_WIDTH), style)
        canvas.draw_bar(MAP_WIDTH - 1, y, count_eighths(segment.tokens, largest), style)
    return canvas.get_lines()


class Minimap(Widget):
    """A map of the whole session, one segment per line; a click or drag goes to the place under the mouse."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {f"minimap--{part}" for part in _STYLE_NAMES}

    def __init__(self, select_share: Callable[[float], object], *, id: str | None = None) -> None:
        """Create a map; *select_share* receives the place of a click or drag, from 0 (top) to 1 (bottom)."""
        super().__init__(id=id)
        self._select_share = select_share
        self._segments: list[MapSegment] = []
        self._lines: list[list[Run]] = []
        self._build_segments: Callable[[int], list[MapSegment]] = lambda lines: []
        self._window = range(0)

    def show(self, build_segments: Callable[[int], list[MapSegment]]) -> None:
        """Draw the segments that *build_segments* returns for the map's number of lines, now and after each resize."""
        self._build_segments = build_segments
        if (segments := build_segments(self.size.height)) != self._segments:
            self._segments, self._lines = segments, draw_map(segments)
            self.refresh()

    def show_window(self, start: float, end: float) -> None:
        """Highlight the visible part of the session, from *start* to *end* as shares of its rows."""
        lines = len(self._lines)
        first = min(int(start * lines), max(lines - 1, 0))
        window = range(first, max(round(end * lines), first + 1))
        for line in set(window) ^ set(self._window):
            self.refresh(Region(0, line, self.size.width, 1))
        self._window = window

    def on_resize(self) -> None:
        self.show(self._build_segments)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        view = self.get_component_rich_style("minimap--view")
        overlay = Style(bgcolor=view.bgcolor, reverse=view.reverse) if y in self._window else Style.null()
        styles = [self.get_component_rich_style(f"minimap--{part}") + overlay for _, part in self._lines[y]]
        return Strip([Segment(text, style) for (text, _), style in zip(self._lines[y], styles, strict=True)], MAP_WIDTH)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._post_click(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._post_click(event.y)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _post_click(self, y: int) -> None:
        if self._lines:
            self._select_share(min(max(y, 0), len(self._lines) - 1) / len(self._lines))
