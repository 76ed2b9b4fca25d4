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
from context_tui.tui.widgets.breakdown_rows import SHORTER, Row, rows_of
from context_tui.tui.widgets.composition import LOOKS
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, bar, cells, content, on, pad, safe, short_path
from context_tui.tui.wrapping import wrap_text

COUNT = 8
"""Cells of the column of counts."""
RECORDED, SHORT, WIDE = 19, 12, 70
"""Cells of the column of recorded sizes: from a width of WIDE on, and in less."""
NUMBERS = 17
"""Cells of tokens and share."""
NAME, BAR = 16, 3
"""Cells that the name gets before there is a bar, and the shortest bar."""


def _words(row: Row, width: int, call: str) -> str:
    """What a row is about; of a path its end, of a result without one the call that it answers."""
    if row.kind == "path":
        return short_path(row.value, width)
    if row.kind == "message" and row.value:
        tool = safe(row.text, width)
        return f"{tool} {short_path(row.value, width - cell_len(tool) - 1)}".rstrip()
    if row.category and cell_len(row.text) > width and not call:
        return safe(SHORTER.get(row.category, LOOKS[row.category].short), width)
    return safe(call or row.text, width)


def row_line(row: Row, width: int, here: bool, call: str = "", *, chosen: bool = False) -> list[Run]:
    """A row in *width* cells: what it is, how often, tokens, share and a bar; the bar goes first where it is narrow.

    Args:
        call: what a result answers, in a line, where that is known.
        chosen: whether the timeline lists this row's part and nothing else.
    """
    if row.tokens is None:
        return _heading(row, width) if row.note else pad([("  ", ""), (safe(row.text, width - 2), MUTED)], width)
    widths = _Widths.of(row, width)
    look = LOOKS.get(row.category)
    runs: list[Run] = [("▸" if here else " ", f"bold {HUE}"), ("●" if chosen else " ", f"bold {HUE}")]
    runs += pad([(_words(row, widths.name - 1, call), BOLD if here or chosen else "")], widths.name)
    runs += [(row.count.rjust(widths.count), MUTED)] if widths.count else []
    runs += [(f"{row.tokens:>10,}", BOLD), (f"{format_percent(row.share):>7}", MUTED)]
    runs += [(row.recorded.rjust(widths.recorded), "")] if widths.recorded else []
    if widths.bar:
        glyph = look.pattern if look else "━"
        filled, rest = bar(row.bar, widths.bar, glyph, "·" if look else "─")
        runs += [("  ", ""), (filled, look.style if look else HUE), (rest, MUTED)]
    return pad(runs, width)


@dataclass(frozen=True)
class _Widths:
    """Cells of the columns: the name behind two cells for marks, the count, recorded sizes, and the bar behind two."""

    name: int
    count: int
    recorded: int
    bar: int

    @classmethod
    def of(cls, row: Row, width: int) -> _Widths:
        """The columns of a row, or of the heading above it, at a width."""
        recorded = (RECORDED if width >= WIDE else SHORT) if row.recorded else 0
        room = width - 2 - NUMBERS - recorded
        count = COUNT if row.count and room > 2 * COUNT else 0
        name = max(NAME, (room - count) * 2 // 3)
        size = room - count - name - 2
        return cls(name, count, recorded, size) if size >= BAR else cls(room - count, count, recorded, 0)


def _heading(row: Row, width: int) -> list[Run]:
    """A heading with a rule, on which the columns have their names."""
    widths = _Widths.of(row, width)
    recorded = row.recorded if len(row.recorded) < widths.recorded else row.recorded.rpartition(" ")[0]
    tokens = 2 + widths.name + widths.count + 10
    labels = [(tokens, row.note), (tokens + 7, "share")]
    if widths.count:  # the name of the next column may be wider than its numbers
        labels.insert(0, (min(tokens - 10, tokens - len(row.note) - 1), row.count))
    if widths.recorded:
        labels.append((tokens + 7 + widths.recorded, recorded))
    if name := next((each for each in ("of the largest", "of largest", "size") if len(each) <= widths.bar), ""):
        labels.append((width - widths.bar + len(name), name))
    runs: list[Run] = [(f" {safe(row.text, max(width - 2, 0))}", f"bold {HUE}")]
    for end, text in labels:
        gap = end - len(text) - cells(runs)
        if gap > 0:
            runs += [(f" {'─' * (gap - 2)} " if gap > 2 else " " * gap, MUTED), (text, MUTED)]
    rest = width - cells(runs)
    return pad([*runs, (f" {'─' * (rest - 1)}" if rest > 1 else "", MUTED)], width)


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

    class Filter(Message):
        """A row was chosen: ``kind`` is category, tool or path, as ``filters.Filter`` names its conditions."""

        def __init__(self, kind: str, value: str) -> None:
            super().__init__()
            self.kind, self.value = kind, value

    class Goto(Message):
        """One of the largest blocks was chosen: its message, and its block row."""

        def __init__(self, message: int, block: int) -> None:
            super().__init__()
            self.message, self.block = message, block

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii
        self.by_size = True
        self._width = 0
        self.rows: list[Row] = []
        self.listed = NO_FILTER
        self._shown: tuple[Context, ContextSizes] | None = None
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
        if self._shown is None or self._shown[0] is not context or self._shown[1] is not sizes:
            self._shown = context, sizes
            self._list()
        if listed != self.listed:
            self.listed = listed
            self.refresh()

    def _list(self) -> None:
        """Make the rows of what is shown, in the order that is chosen."""
        if self._shown is None:
            return
        chosen = self.rows[self.cursor].subject if self.rows else None
        self.rows = list(self._wrapped(rows_of(*self._shown, self.by_size)))
        order = "largest first (s)" if self.by_size else "in the order of the file (s)"
        total = sum(self._shown[1].breakdown.by_category.values())
        title = f"where the context went: {format_token_unit(self._shown[1].token_table)} {total:,} tokens"
        ways = (f"{title}, {order}", f"{title}, s sorts", title)
        self.border_title = Content(next((way for way in ways if len(way) + 4 <= self._width), title))
        self.virtual_size = Size(0, len(self.rows))
        same = (number for number, row in enumerate(self.rows) if row.kind and row.subject == chosen)
        self.cursor = next(same, self._near(min(self.cursor, len(self.rows) - 1), 1))
        self.refresh()

    def _wrapped(self, rows: list[Row]) -> Iterator[Row]:
        """The rows, with a row for each line that words take."""
        for row in rows:
            if row.tokens is None and not row.note:
                yield from (Row(text) for text in wrap_text(safe(row.text), max(self._width - 3, 20)))
            else:
                yield row

    def _near(self, number: int, step: int) -> int:
        """The nearest row that can be chosen, looking in one direction and then in the other."""
        ahead = range(number, len(self.rows)) if step > 0 else range(number, -1, -1)
        back = range(number, -1, -1) if step > 0 else range(number, len(self.rows))
        found = (each for each in (*ahead, *back) if 0 <= each < len(self.rows) and self.rows[each].kind)
        return next(found, 0)

    def on_resize(self) -> None:
        """Rows are as wide as the widget."""
        if self._width != self.scrollable_content_region.width:
            self._width = self.scrollable_content_region.width
            self._list()

    def render_line(self, y: int) -> Strip:
        """One row."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        style = self.visual_style
        if number >= len(self.rows) or not width:
            return Strip.blank(width, style.rich_style)
        here = number == self.cursor and bool(self.rows[number].kind)
        row = self.rows[number]
        chosen = row.kind not in ("", "message") and self.listed == build_part_filter(row.kind, row.value)
        runs = row_line(row, width, here, self._call(row), chosen=chosen)
        drawn = content(on(runs) if here else runs, self.ascii)
        strips = Visual.to_strips(self, drawn, width, 1, style, apply_selection=False)
        return strips[0].adjust_cell_length(width, style.rich_style)

    def _call(self, row: Row) -> str:
        """The call that one of the largest results answers, as the timeline shows it."""
        context, reader = self._shown[0] if self._shown else None, self._reader
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
            self.cursor = self._near(target, 1 if rows > 0 else -1)
            if self.cursor == self._near(0, 1):
                self.scroll_to(y=0, animate=False)  # with the heading above it

    def action_choose(self) -> None:
        """Filter by the row, or go to its message."""
        row = self.rows[self.cursor] if self.rows else None
        if row and row.kind == "message":
            self.post_message(self.Goto(row.message, row.block))
        elif row and row.kind:
            self.post_message(self.Filter(row.kind, row.value))

    def action_order(self) -> None:
        """Largest first, or in the order of the file."""
        self.by_size = not self.by_size
        self._list()

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        number = event.y - self.gutter.top + self.scroll_offset.y
        if 0 <= number < len(self.rows) and self.rows[number].kind:
            self.cursor = number
            self.action_choose()
