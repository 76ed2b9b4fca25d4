"""Timeline: a line for each turn, message and tool result, drawn only while visible."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from context_tui.session.facts import Facts
from context_tui.session.values import MessageFlag
from context_tui.tui.inspector.timeline_strips import RowCells, TimelineColumns, paint_head, paint_row, paint_rule
from context_tui.tui.rendering.formatting import MessageReader, format_row_kind, has_unknown_size
from context_tui.tui.terminal.cells import clip_to_width
from context_tui.tui.timeline.context_events import format_event_labels
from context_tui.tui.timeline.filters import count_shown_tokens, find_line
from context_tui.tui.timeline.marks import NO_MARK, RowMarker
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, Location, TimelineRows
from context_tui.tui.timeline.turns import TurnSummaries
from context_tui.tui.widgets.bindings import read_bindings

_STYLE_NAMES = (
    *("text", "quiet", "turn", "head", "about", "outside", "bar", "cursor", "shadow", "match", "rule"),
    *("user", "asst", "result", "error", "inject", "summary", "system"),
    *("cleared", "truncated", "summarised", "dropped", "protected", "gone", "before", "after"),
)
FOLD_SIGN_WIDTH = 5
"""Cells at the left of a turn's head in which a click folds or opens the turn."""
UNSETTLED_ROWS = 64
"""Rows at the end of a session that is being read, which may still change as results arrive one by one."""


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """A list of a session's turns, messages and tool results, with the plan's marks; only visible lines are drawn."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{part}" for part in _STYLE_NAMES}
    BINDINGS = read_bindings("timeline")

    # Overridden, so that a change updates the scroll bar without a new layout of the whole screen.
    virtual_size = Reactive(Size(0, 0), repaint=False)
    cursor = reactive(0, repaint=False, init=False)

    @dataclass
    class Moved(Message):
        """Posted when a different row is selected."""

        location: Location

    def __init__(self, show_range: Callable[[], object] = lambda: None, *, id: str | None = None) -> None:
        """Create a timeline; *show_range* is called when other rows have come into view."""
        super().__init__(id=id)
        self._show_range = show_range
        self._rows = TimelineRows()
        self._reader: MessageReader | None = None
        self._marker: RowMarker | None = None
        self._turns = TurnSummaries(self._rows, None)
        self._listed: Sequence[int] = range(0)
        self._matches: frozenset[Location] = frozenset()
        self._matching_turns: frozenset[int] = frozenset()
        self._empty_text = ""
        self._generation = 0
        self._strips: LRUCache[tuple[object, ...], Strip] = LRUCache(2048)
        self._styles: dict[str, Style] = {}

    # Content

    def show(
        self,
        rows: TimelineRows,
        reader: MessageReader,
        marker: RowMarker | None,
        listed_rows: Sequence[int],
        cursor: Location | None = None,
        empty_text: str = "",
    ) -> None:
        """List *listed_rows* in the order given, with marks from *marker*; show *empty_text* if there are no rows."""
        self._empty_text = empty_text
        is_same = rows is self._rows and listed_rows is self._listed
        self._rows, self._reader, self._marker, self._listed = rows, reader, marker, listed_rows
        self._turns = TurnSummaries(rows, marker)
        self._generation += 1
        self._update_virtual_size()
        if cursor is not None and (not is_same or cursor != self.location):
            self.select_location(cursor)
        self.refresh()

    def update_rows(self, rows: TimelineRows, reader: MessageReader, listed_rows: Sequence[int]) -> None:
        """Show more of a session while it is being read; redraw only if visible rows may have changed."""
        old = self._rows
        settled_rows = min(len(old) - UNSETTLED_ROWS, old.heads[-1] if old.heads else 0)
        old_scale, scale = ((each.largest, each.largest_turn, self._build_columns(each)) for each in (old, rows))
        bottom = self.scroll_offset.y + self.scrollable_content_region.height
        is_settled = bottom < len(self._listed) and self._listed[bottom] < settled_rows
        self._rows, self._reader, self._listed, self._turns = rows, reader, listed_rows, TurnSummaries(rows, None)
        self._update_virtual_size()
        if old_scale != scale or not is_settled:
            self._generation += 1
            self.refresh()

    def _update_virtual_size(self) -> None:
        size = Size(self.scrollable_content_region.width, self.listed_count)
        if size != self.virtual_size:
            self.virtual_size = size

    def _build_columns(self, rows: TimelineRows) -> TimelineColumns:
        return TimelineColumns.fit(self.scrollable_content_region.width, len(rows.first))

    def show_matches(self, matches: frozenset[Location]) -> None:
        """Mark the rows at *matches*, and the headings of folded turns that contain a match."""
        self._matches = matches
        self._matching_turns = frozenset(self._rows.find_turn_of_message(match.message) for match in matches)
        self._generation += 1
        self.refresh()

    @property
    def listed_count(self) -> int:
        """The number of listed rows."""
        return len(self._listed)

    @property
    def location(self) -> Location:
        """The location of the selected line, or the first message if no row is listed."""
        return self._rows.get_location(self._listed[self.cursor]) if self.cursor < self.listed_count else Location(0)

    # Visible rows

    def _get_visible_lines(self) -> range:
        top = self.scroll_offset.y
        return range(min(top, self.listed_count), min(top + self.scrollable_content_region.height, self.listed_count))

    @property
    def visible_share(self) -> tuple[float, float]:
        """Start and end of the visible range, as shares of all rows, or of the listed rows if filtered or sorted."""
        lines, total = self._get_visible_lines(), max(len(self._rows), 1)
        if isinstance(self._listed, array):
            return lines.start / max(self.listed_count, 1), lines.stop / max(self.listed_count, 1)
        first = self._listed[lines.start] if lines else 0
        return first / total, (self._listed[lines.stop] if lines.stop < self.listed_count else total) / total

    def select_share(self, share: float) -> None:
        """Select the row at *share*, a position from 0 to 1 on the scale of ``visible_share``."""
        if isinstance(self._listed, array):
            self.cursor = int(share * self.listed_count)
        else:
            self.cursor = find_line(self._listed, int(share * len(self._rows)))

    def find_visible_styles(self) -> set[str]:
        """Return the style names for the marks and signs in view, which the legend explains."""
        names = {"bar"} if self._build_columns(self._rows).bar and self.listed_count else set()
        for line in self._get_visible_lines():
            row = self._listed[line]
            block = self._rows.block[row]
            if block >= WHOLE_MESSAGE and self._marker:
                names.add(self._marker.find_mark(self._rows.message[row], block).verdict)
            elif block == TURN_HEAD:
                turn = self._turns.get_summary(self._rows.find_turn_of_row(row))
                names |= {"folded", turn.verdict} if self._is_folded(row) else {"open"}
        return names

    def _is_folded(self, row: int) -> bool:
        """Return whether the turn with the heading *row* is folded, so that the row after the heading is not listed."""
        next_line = find_line(self._listed, row) + 1
        return (self._listed[next_line] if next_line < self.listed_count else len(self._rows)) != row + 1

    def select_location(self, location: Location) -> None:
        """Select the line for *location*, or the nearest one if it is not listed, scrolling if it is not in view."""
        line = find_line(self._listed, self._rows.find_row(*location))
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if height > 0 and not top <= line < top + height:
            self.scroll_to(y=max(line - height * 2 // 3, 0), animate=False, immediate=True)
        self.cursor = line

    def scroll_to_rows(self, rows: range) -> None:
        """Scroll down just far enough to show all of *rows*, or until the first of them is at the top."""
        first, stop = find_line(self._listed, rows.start), find_line(self._listed, rows.stop - 1) + 1
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if height > 0 and stop > top + height:
            self.scroll_to(y=min(first, stop - height), animate=False, immediate=True)

    def watch_virtual_size(self, size: Size) -> None:
        self._scroll_update(size)

    # Painting

    def notify_style_update(self) -> None:
        self._strips.clear()
        self._styles.clear()
        super().notify_style_update()

    def on_resize(self, event: events.Resize) -> None:
        self._update_virtual_size()
        self._scroll_to_line(self.cursor)

    def render_line(self, y: int) -> Strip:
        line, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if not self.listed_count and y == 1 and width and self._empty_text:
            style = self.get_component_rich_style("timeline--text")
            return Strip([Segment("  " + clip_to_width(self._empty_text, width - 2), style)])
        if line >= self.listed_count or self._reader is None:
            return Strip.blank(width, self.rich_style)
        row = self._listed[line]
        here = line == self.cursor
        key = (row, width, here, here and self.has_focus, self._generation)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._paint_row(self._reader, row, width, here)
        return strip

    def _paint_row(self, reader: MessageReader, row: int, width: int, is_current: bool) -> Strip:
        if not self._styles:
            self._styles = {part: self.get_component_rich_style(f"timeline--{part}") for part in _STYLE_NAMES}
        rows, facts = self._rows, reader.session.facts
        message, block = rows.message[row], rows.block[row]
        overlay = Style()
        if is_current:
            style = self._styles["cursor" if self.has_focus else "shadow"]
            overlay = Style(bgcolor=style.bgcolor, reverse=style.reverse, underline=style.underline)
            if style.reverse:  # reversed colours of the segments would differ
                overlay += Style(color="default", bgcolor="default")
        elif self._matches and self._is_match(row):
            style = self._styles["match"]
            overlay = Style(bgcolor=style.bgcolor, underline=style.underline)
        columns = self._build_columns(rows)
        if block == TURN_HEAD:
            turn, preview = self._turns.get_summary(rows.find_turn_of_row(row)), None
            if self._is_folded(row):
                preview = reader.format_preview(message)
            return paint_head(turn, preview, columns, rows.largest_turn, self._styles, overlay)
        if event := rows.get_event(row):
            return paint_rule(format_event_labels(facts, event), width, self._styles["rule"] + overlay)
        starts_turn = block == WHOLE_MESSAGE and bool(facts.flags[message] & MessageFlag.TURN_START)
        first = rows.first[message] == row
        mark = self._marker.find_mark(message, block) if self._marker else NO_MARK
        cells = RowCells(
            index=str(message) if first else "",
            starts_turn=starts_turn,
            kind=format_row_kind(facts, message, block),
            preview=reader.format_preview(message, block),
            tokens=self._get_row_tokens(facts, row),
            mark=mark,
        )
        return paint_row(cells, columns, rows.largest, self._styles, overlay)

    def _is_match(self, row: int) -> bool:
        rows = self._rows
        if rows.block[row] == TURN_HEAD:
            return rows.find_turn_of_row(row) in self._matching_turns and self._is_folded(row)
        return Location(rows.message[row], rows.block[row]) in self._matches

    def _get_row_tokens(self, facts: Facts, row: int) -> int | None:
        """Return a row's tokens in the context or, if the row is outside it, as recorded; None if unknown."""
        rows = self._rows
        tokens = count_shown_tokens(rows, self._marker, row) if self._marker else rows.tokens[row]
        is_empty_message = rows.block[row] == WHOLE_MESSAGE and not tokens
        return None if is_empty_message and has_unknown_size(facts, rows.message[row]) else tokens

    # Moving

    def validate_cursor(self, line: int) -> int:
        return min(max(line, 0), max(self.listed_count - 1, 0))

    def watch_cursor(self, old: int, new: int) -> None:
        self.refresh_line(old)
        self.refresh_line(new)
        self._scroll_to_line(new)
        if self.listed_count:
            self.post_message(self.Moved(self.location))

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.call_later(self._show_range)

    def _scroll_to_line(self, line: int) -> None:
        if self.scrollable_content_region.height > 0:
            self.scroll_to_region(Region(0, line, 1, 1), animate=False, immediate=True)

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_page(self, step: int) -> None:
        self.cursor += step * max(self.scrollable_content_region.height - 1, 1)

    def action_go(self, line: int) -> None:
        """Select the line numbered *line* from 0, or the last line if *line* is negative."""
        self.cursor = self.listed_count - 1 if line < 0 else line

    async def on_click(self, event: events.Click) -> None:
        """Select the clicked row; open it on a double click, and toggle the fold of a turn on a click on its sign."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if (line := offset.y + self.scroll_offset.y) < self.listed_count:
            is_double, self.cursor = line == self.cursor and event.chain > 1, line
            if self.location.block == TURN_HEAD:
                if is_double or offset.x < FOLD_SIGN_WIDTH:
                    await self.run_action("screen.enter")
            elif is_double:
                await self.run_action("screen.open_detail")
