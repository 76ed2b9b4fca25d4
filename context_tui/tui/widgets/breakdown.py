"""Where did it go: the context by category and tool, its largest blocks, and what was read more than once."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from context_tui.session.context import Context
from context_tui.session.facts import Kind
from context_tui.tui.context_sizes import ContextSizes
from context_tui.tui.text import Reader
from context_tui.tui.widgets.breakdown_rows import Row, rows_of
from context_tui.tui.widgets.composition import LOOKS
from context_tui.tui.widgets.draw import BOLD, HUE, MUTED, Run, bar, cells, content, on, pad, percent, safe, short_path

COUNT = 22
RECORDED, SHORT, WIDE = 19, 12, 70
"""Cells of the column of recorded sizes: from a width of WIDE on, and in less."""


def _words(row: Row, width: int, call: str) -> str:
    """What a row is about; of a path its end, of a result without one the call that it answers."""
    if row.kind == "path":
        return short_path(row.value, width)
    if row.kind == "message" and row.value:
        tool = safe(row.text, width)
        return f"{tool} {short_path(row.value, width - cell_len(tool) - 1)}".rstrip()
    if row.category and cell_len(row.text) > width and not call:
        look = LOOKS[row.category]
        return look.name if cell_len(look.name) <= width else safe(look.short, width)
    return safe(call or row.text, width)


def row_line(row: Row, width: int, here: bool, call: str = "") -> list[Run]:
    """A row in *width* cells: what it is, how often, tokens, share and a bar; counts and bar go when it is narrow.

    *call* is what a result answers, in a line, where that is known.
    """
    if row.tokens is None:
        return _heading(row, width)
    ends: list[Run] = [(f"{row.tokens:>10,}", BOLD), (f"{percent(row.share):>7}", MUTED)]
    if row.recorded:
        ends.append((row.recorded.rjust(_recorded(width)), ""))
    name, count, size = _widths(width, cells(ends), counts=not row.recorded)
    often = row.count if len(row.count) <= count else row.count.partition(", ")[0] if count else ""
    name += count - len(often)  # what a count leaves is the name's
    fit = name - 2 if often else name
    look = LOOKS.get(row.category)
    text = _words(row, fit, call)
    runs: list[Run] = [("▸ " if here else "  ", f"bold {HUE}"), *pad([(text, BOLD if here else "")], name)]
    runs += [(often, MUTED), *ends]
    if size:
        glyph = look.pattern if look else "━"
        filled, rest = bar(row.bar, size, glyph, "·" if look else "─")
        runs += [("  ", ""), (filled, look.style if look else HUE), (rest, MUTED)]
    return pad(runs, width)


def _recorded(width: int) -> int:
    """Cells of the column of recorded sizes."""
    return RECORDED if width >= WIDE else SHORT


def _widths(width: int, ends: int, counts: bool = True) -> tuple[int, int, int]:
    """Cells for the name, the count and the bar, beside the numbers, which take *ends*."""
    room = width - 2 - ends
    count = 0 if not counts else COUNT if room >= COUNT + 20 else 10 if room >= 30 else 0
    name = max(26, (room - count) * 9 // 20)
    size = room - count - name - 2
    return (name, count, size) if size >= 8 else (room - count, count, 0)


def _heading(row: Row, width: int) -> list[Run]:
    """A heading with a rule, or a line of words; over two columns of numbers it names them."""
    if not row.note:
        return pad([("  ", ""), (safe(row.text, width - 2), MUTED)], width)
    title: list[Run] = [(f" {safe(row.text, width - 2)}", f"bold {HUE}")]
    if not row.recorded:
        title.append((f"  {row.note}", MUTED))
        return pad([*title, (" " + "─" * max(width - cells(title) - 2, 0), MUTED)], width)
    size = _recorded(width)
    name, count, _ = _widths(width, 17 + size, counts=False)
    label = row.recorded if len(row.recorded) < size else row.recorded.rpartition(" ")[0]
    columns: list[Run] = [(f" {row.note}", MUTED), ("share".rjust(7), MUTED), (label.rjust(size), MUTED)]
    rule = max(2 + name + count + 10 - cells(title) - 1 - len(row.note) - 1, 0)
    title = [*title, (" " + "─" * rule, MUTED), *columns]
    left = width - cells(title) - 2
    return pad([*title, (" " + "─" * left if left > 0 else "", MUTED)], width)


class BreakdownView(ScrollView, can_focus=True):
    """Rows with shares; choosing one filters the timeline or goes to the message."""

    DEFAULT_CSS = "BreakdownView { overflow-x: hidden; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="parts-up", tooltip="Row above"),
        Binding("down,j", "move(1)", "Down", show=False, id="parts-down", tooltip="Row below"),
        Binding("pageup", "move(-10)", "Page up", show=False, id="parts-page-up", tooltip="Ten rows up"),
        Binding("pagedown", "move(10)", "Page down", show=False, id="parts-page-down", tooltip="Ten rows down"),
        Binding("home,g", "move(-100000)", "First", show=False, id="parts-first", tooltip="First row"),
        Binding("end,G", "move(100000)", "Last", show=False, id="parts-last", tooltip="Last row"),
        Binding(
            "enter", "choose", "Show these", id="parts-choose", tooltip="Show only these rows, or go to the message"
        ),
        Binding("s", "order", "Size / file order", id="parts-order", tooltip="Sort by size, or by place in the file"),
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
        self.rows: list[Row] = []
        self._shown: tuple[Context, ContextSizes] | None = None

    def show(self, context: Context, sizes: ContextSizes) -> None:
        """Show the parts of a context."""
        if self._shown is None or self._shown[0] is not context or self._shown[1] is not sizes:
            self._shown = context, sizes
            self._list()

    def _list(self) -> None:
        """Make the rows of what is shown, in the order that is chosen."""
        if self._shown is None:
            return
        self.rows = rows_of(*self._shown, self.by_size)
        self.virtual_size = Size(0, len(self.rows))
        self.cursor = self._near(min(self.cursor, len(self.rows) - 1), 1)
        self.refresh()

    def _near(self, number: int, step: int) -> int:
        """The nearest row that can be chosen, looking in one direction and then in the other."""
        ahead = range(number, len(self.rows)) if step > 0 else range(number, -1, -1)
        back = range(number, -1, -1) if step > 0 else range(number, len(self.rows))
        found = (each for each in (*ahead, *back) if 0 <= each < len(self.rows) and self.rows[each].kind)
        return next(found, 0)

    def on_resize(self) -> None:
        """Rows are as wide as the widget."""
        self.virtual_size = Size(0, len(self.rows))

    def render_line(self, y: int) -> Strip:
        """One row."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        style = self.visual_style
        if number >= len(self.rows) or not width:
            return Strip.blank(width, style.rich_style)
        here = number == self.cursor and bool(self.rows[number].kind)
        runs = row_line(self.rows[number], width, here, self._call(self.rows[number]))
        drawn = content(on(runs) if here else runs, self.ascii)
        strips = Visual.to_strips(self, drawn, width, 1, style, apply_selection=False)
        return strips[0].adjust_cell_length(width, style.rich_style)

    def _call(self, row: Row) -> str:
        """The call that one of the largest results answers, as the timeline shows it."""
        context, reader = self._shown[0] if self._shown else None, getattr(self.screen, "reader", None)
        if row.kind != "message" or row.value or not context or not isinstance(reader, Reader):
            return ""
        if reader.session.facts is not context.facts or context.facts.kind[row.block] != Kind.TOOL_RESULT:
            return ""
        return reader.preview(row.message, row.block)

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
