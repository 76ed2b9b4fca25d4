"""Where did it go: the context by category and tool, its largest blocks, and what was read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.text.numbers import format_percent
from context_tui.tui import filters
from context_tui.tui.context_sizes import ContextSizes
from context_tui.tui.filters import NO_FILTER, build_part_filter
from context_tui.tui.numbers import format_token_unit
from context_tui.tui.text import MessageReader
from context_tui.tui.widgets.breakdown_rows import SHORT_CATEGORY_LABELS, BreakdownRow, build_breakdown_rows
from context_tui.tui.widgets.composition import CATEGORY_STYLES
from context_tui.tui.widgets.draw import (
    BOLD,
    MUTED,
    PRIMARY,
    Run,
    build_content,
    count_cells,
    format_bar,
    format_safe_line,
    pad_runs,
    set_background,
    shorten_path,
)
from context_tui.tui.wrapping import wrap_text

COUNT_WIDTH = 8
"""Cells of the column of counts."""
RECORDED_WIDTH, SHORT_RECORDED_WIDTH, WIDE_RECORDED_FROM = 19, 12, 70
"""Cells of the column of recorded sizes: from a width of WIDE on, and in less."""
NUMBERS_WIDTH = 17
"""Cells of tokens and share."""
MIN_NAME_WIDTH, MIN_BAR_WIDTH = 16, 3
"""Cells that the name gets before there is a bar, and the shortest bar."""


def _format_row_text(row: BreakdownRow, width: int, call: str) -> str:
    """What a row is about; of a path its end, of a result without one the call that it answers."""
    if row.kind == "path":
        return shorten_path(row.value, width)
    if row.kind == "message" and row.value:
        tool = format_safe_line(row.text, width)
        return f"{tool} {shorten_path(row.value, width - cell_len(tool) - 1)}".rstrip()
    if row.category and cell_len(row.text) > width and not call:
        return format_safe_line(SHORT_CATEGORY_LABELS.get(row.category, CATEGORY_STYLES[row.category].short), width)
    return format_safe_line(call or row.text, width)


def format_row_line(row: BreakdownRow, width: int, is_current: bool, call: str = "", *, chosen: bool = False) -> list[Run]:
    """A row in *width* cells: what it is, how often, tokens, share and a bar; the bar goes first where it is narrow.

    Args:
        call: what a result answers, in a line, where that is known.
        chosen: whether the timeline lists this row's part and nothing else.
    """
    if row.tokens is None:
        return _format_heading(row, width) if row.note else pad_runs([("  ", ""), (format_safe_line(row.text, width - 2), MUTED)], width)
    widths = _BreakdownColumns.fit(row, width)
    look = CATEGORY_STYLES.get(row.category)
    runs: list[Run] = [("▸" if is_current else " ", f"bold {PRIMARY}"), ("●" if chosen else " ", f"bold {PRIMARY}")]
    runs += pad_runs([(_format_row_text(row, widths.name - 1, call), BOLD if is_current or chosen else "")], widths.name)
    runs += [(row.count.rjust(widths.count), MUTED)] if widths.count else []
    runs += [(f"{row.tokens:>10,}", BOLD), (f"{format_percent(row.share):>7}", MUTED)]
    runs += [(row.recorded.rjust(widths.recorded), "")] if widths.recorded else []
    if widths.bar:
        glyph = look.pattern if look else "━"
        filled, rest = format_bar(row.bar, widths.bar, glyph, "·" if look else "─")
        runs += [("  ", ""), (filled, look.style if look else PRIMARY), (rest, MUTED)]
    return pad_runs(runs, width)


@dataclass(frozen=True)
class _BreakdownColumns:
    """Cells of the columns: the name behind two cells for marks, the count, recorded sizes, and the bar behind two."""

    name: int
    count: int
    recorded: int
    bar: int

    @classmethod
    def fit(cls, row: BreakdownRow, width: int) -> _BreakdownColumns:
        """The columns of a row, or of the heading above it, at a width."""
        recorded = (RECORDED_WIDTH if width >= WIDE_RECORDED_FROM else SHORT_RECORDED_WIDTH) if row.recorded else 0
        room = width - 2 - NUMBERS_WIDTH - recorded
        count = COUNT_WIDTH if row.count and room > 2 * COUNT_WIDTH else 0
        name = max(MIN_NAME_WIDTH, (room - count) * 2 // 3)
        size = room - count - name - 2
        return cls(name, count, recorded, size) if size >= MIN_BAR_WIDTH else cls(room - count, count, recorded, 0)


def _format_heading(row: BreakdownRow, width: int) -> list[Run]:
    """A heading with a rule, on which the columns have their names."""
    widths = _BreakdownColumns.fit(row, width)
    recorded = row.recorded if len(row.recorded) < widths.recorded else row.recorded.rpartition(" ")[0]
    tokens = 2 + widths.name + widths.count + 10
    labels = [(tokens, row.note), (tokens + 7, "share")]
    if widths.count:  # the name of the next column may be wider than its numbers
        labels.insert(0, (min(tokens - 10, tokens - len(row.note) - 1), row.count))
    if widths.recorded:
        labels.append((tokens + 7 + widths.recorded, recorded))
    if name := next((each for each in ("of the largest", "of largest", "size") if len(each) <= widths.bar), ""):
        labels.append((width - widths.bar + len(name), name))
    runs: list[Run] = [(f" {format_safe_line(row.text, max(width - 2, 0))}", f"bold {PRIMARY}")]
    for end, text in labels:
        gap = end - len(text) - count_cells(runs)
        if gap > 0:
            runs += [(f" {'─' * (gap - 2)} " if gap > 2 else " " * gap, MUTED), (text, MUTED)]
    rest = width - count_cells(runs)
    return pad_runs([*runs, (f" {'─' * (rest - 1)}" if rest > 1 else "", MUTED)], width)


class BreakdownView(ScrollView, can_focus=True):
    """Rows with shares; choosing one filters the timeline or goes to the message."""

    BINDING_GROUP_TITLE = "Where the context went"
    DEFAULT_CSS = "BreakdownView { overflow-x: hidden; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="parts-up", tooltip="Row above"),
        Binding("down,j", "move(1)", "Down", show=False, id="parts-down", tooltip="Row below"),
        Binding("pageup", "move(-10)", "Page up", show=False, id="parts-page-up", tooltip="Ten rows up"),
        Binding("pagedown", "move(10)", "Page down", show=False, id="parts-page-down", tooltip="Ten rows down"),
        Binding("home,g", "move(-100000)", "First", show=False, id="parts-first", tooltip="First row"),
        Binding("end,G", "move(100000)", "Last", show=False, id="parts-last", tooltip="Last row"),
        Binding(
            "enter",
            "choose",
            "show",
            key_display="enter",
            id="parts-choose",
            tooltip="Show only these rows, or go to the message; again: show all rows",
        ),
        Binding("s", "order", "sort", show=False, id="parts-order", tooltip="Sort by size, or by place in the file"),
    ]
    cursor = reactive(0, repaint=False)

    class FilterRequested(Message):
        """A row was chosen: ``kind`` is category, tool or path, as ``filters.Filter`` names its conditions."""

        def __init__(self, kind: str, value: str) -> None:
            super().__init__()
            self.kind, self.value = kind, value

    class MessageRequested(Message):
        """One of the largest blocks was chosen: its message, and its block row."""

        def __init__(self, message: int, block: int) -> None:
            super().__init__()
            self.message, self.block = message, block

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii
        self.by_size = True
        self._width = 0
        self.rows: list[BreakdownRow] = []
        self.listed = NO_FILTER
        self._context_and_sizes: tuple[Context, ContextSizes] | None = None
        self._reader: MessageReader | None = None

    def show(
        self,
        context: Context,
        sizes: ContextSizes,
        listed: filters.RowFilter = NO_FILTER,
        reader: MessageReader | None = None,
    ) -> None:
        """Show the parts of a context, and which of them is *listed* in the timeline.

        Args:
            reader: of the context's session; it names the calls that the largest results answer.
        """
        self._reader = reader
        if self._context_and_sizes is None or self._context_and_sizes[0] is not context or self._context_and_sizes[1] is not sizes:
            self._context_and_sizes = context, sizes
            self._update_rows()
        if listed != self.listed:
            self.listed = listed
            self.refresh()

    def _update_rows(self) -> None:
        """Make the rows of what is shown, in the order that is chosen."""
        if self._context_and_sizes is None:
            return
        chosen = self.rows[self.cursor].subject if self.rows else None
        self.rows = list(self._wrap_rows(build_breakdown_rows(*self._context_and_sizes, self.by_size)))
        order = "largest first (s)" if self.by_size else "in the order of the file (s)"
        total = sum(self._context_and_sizes[1].breakdown.by_category.values())
        title = f"where the context went: {format_token_unit(self._context_and_sizes[1].token_table)} {total:,} tokens"
        ways = (f"{title}, {order}", f"{title}, s sorts", title)
        self.border_title = Content(next((way for way in ways if len(way) + 4 <= self._width), title))
        self.virtual_size = Size(0, len(self.rows))
        same = (number for number, row in enumerate(self.rows) if row.kind and row.subject == chosen)
        self.cursor = next(same, self._find_choosable_row(min(self.cursor, len(self.rows) - 1), 1))
        self.refresh()

    def _wrap_rows(self, rows: list[BreakdownRow]) -> Iterator[BreakdownRow]:
        """The rows, with a row for each line that words take."""
        for row in rows:
            if row.tokens is None and not row.note:
                yield from (BreakdownRow(text) for text in wrap_text(format_safe_line(row.text), max(self._width - 3, 20)))
            else:
                yield row

    def _find_choosable_row(self, number: int, step: int) -> int:
        """The nearest row that can be chosen, looking in one direction and then in the other."""
        ahead = range(number, len(self.rows)) if step > 0 else range(number, -1, -1)
        back = range(number, -1, -1) if step > 0 else range(number, len(self.rows))
        found = (each for each in (*ahead, *back) if 0 <= each < len(self.rows) and self.rows[each].kind)
        return next(found, 0)

    def on_resize(self) -> None:
        """Rows are as wide as the widget."""
        if self._width != self.scrollable_content_region.width:
            self._width = self.scrollable_content_region.width
            self._update_rows()

    def render_line(self, y: int) -> Strip:
        """One row."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        style = self.visual_style
        if number >= len(self.rows) or not width:
            return Strip.blank(width, style.rich_style)
        here = number == self.cursor and bool(self.rows[number].kind)
        row = self.rows[number]
        chosen = row.kind not in ("", "message") and self.listed == build_part_filter(row.kind, row.value)
        runs = format_row_line(row, width, here, self._format_call(row), chosen=chosen)
        drawn = build_content(set_background(runs) if here else runs, self.ascii)
        strips = Visual.to_strips(self, drawn, width, 1, style, apply_selection=False)
        return strips[0].adjust_cell_length(width, style.rich_style)

    def _format_call(self, row: BreakdownRow) -> str:
        """The call that one of the largest results answers, as the timeline shows it."""
        context, reader = self._context_and_sizes[0] if self._context_and_sizes else None, self._reader
        if row.kind != "message" or row.value or context is None or reader is None:
            return ""
        if reader.session.facts is not context.facts or context.facts.kind[row.block] != Kind.TOOL_RESULT:
            return ""
        return reader.format_preview(row.message, row.block)

    def watch_cursor(self, old: int, new: int) -> None:
        """Repaint two rows, and keep the cursor in sight."""
        self.refresh_line(old)
        self.refresh_line(new)
        self.scroll_to_region(Region(0, new, 1, 1), animate=False)

    def action_move(self, rows: int) -> None:
        """Move to another row that can be chosen."""
        if self.rows:
            target = min(max(self.cursor + rows, 0), len(self.rows) - 1)
            self.cursor = self._find_choosable_row(target, 1 if rows > 0 else -1)
            if self.cursor == self._find_choosable_row(0, 1):
                self.scroll_to(y=0, animate=False)  # with the heading above it

    def action_choose(self) -> None:
        """Filter by the row, or go to its message."""
        row = self.rows[self.cursor] if self.rows else None
        if row and row.kind == "message":
            self.post_message(self.MessageRequested(row.message, row.block))
        elif row and row.kind:
            self.post_message(self.FilterRequested(row.kind, row.value))

    def action_order(self) -> None:
        """Largest first, or in the order of the file."""
        self.by_size = not self.by_size
        self._update_rows()

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        number = event.y - self.gutter.top + self.scroll_offset.y
        if 0 <= number < len(self.rows) and self.rows[number].kind:
            self.cursor = number
            self.action_choose()
