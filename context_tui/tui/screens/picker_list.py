"""The rows of the picker: sessions under headings, drawn line by line, so that any number of them is fine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from context_tui.discovery import Entry
from context_tui.sanitize import sanitize_line, visible
from context_tui.tui.widgets.row_paint import clip

Row = Entry | str
"""A session, or the heading of a group."""

_UUID = re.compile(r"([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAME, PLACE, SIZE, AGE = 26, 18, 9, 7
WIDE = 76
"""Cells from which on the project has a column."""


class PickerList(ScrollView, can_focus=True):
    """Sessions with a cursor; a second click chooses, as Enter does on its screen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "picker-list--name",
        "picker-list--title",
        "picker-list--muted",
        "picker-list--heading",
        "picker-list--cursor",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False, id="picker-down", tooltip="Next session"),
        Binding("up,k", "move(-1)", "up", show=False, id="picker-up", tooltip="Previous session"),
        Binding("pagedown", "page(1)", "page down", show=False, id="picker-page-down", tooltip="One page down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="picker-page-up", tooltip="One page up"),
        Binding("home,g", "ends(False)", "first", show=False, id="picker-first", tooltip="First session"),
        Binding("end,G", "ends(True)", "last", show=False, id="picker-last", tooltip="Last session"),
    ]

    cursor = reactive(-1, repaint=False)

    @dataclass
    class Chosen(Message):
        """A session was chosen."""

        entry: Entry

    def __init__(self, title: Callable[[Entry], str], now: float, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title_of, self._now = title, now
        self.rows: Sequence[Row] = ()
        self._name_width = NAME
        self._styles: dict[str, Style] = {}

    @property
    def chosen(self) -> Entry | None:
        """The session under the cursor."""
        row = self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else ""
        return row if isinstance(row, Entry) else None

    def show(self, rows: Sequence[Row]) -> None:
        """List other rows; the cursor stays on its session if that is still there."""
        before, self.rows = self.chosen, rows
        names = [len(short_name(row)) for row in rows if isinstance(row, Entry)]
        self._name_width = min(NAME, max(names, default=0))
        self.virtual_size = Size(self._width(), len(rows))
        sessions = [n for n, row in enumerate(rows) if isinstance(row, Entry)]
        same = [n for n in sessions if rows[n] == before]
        self.cursor = (same or sessions or [-1])[0]
        self._into_view()
        self.refresh()

    def watch_cursor(self, old: int, new: int) -> None:
        """Repaint the two rows, and keep the cursor in sight."""
        for row in (old, new):
            if row >= 0:
                self.refresh_line(row)
        self._into_view()

    def notify_style_update(self) -> None:
        """Forget the colours of the old theme."""
        super().notify_style_update()
        self._styles.clear()

    def on_resize(self) -> None:
        """Rows are as wide as the list."""
        self.virtual_size = Size(self._width(), len(self.rows))
        self._into_view()

    def on_click(self, event: Click) -> None:
        """Move the cursor to the row; on the row that has it, choose."""
        row = int(event.y + self.scroll_offset.y)
        if row < len(self.rows) and isinstance(self.rows[row], Entry):
            if row == self.cursor:
                self.action_choose()
            self.cursor = row

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        width, index = self._width(), y + self.scroll_offset.y
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        row = self.rows[index]
        if isinstance(row, str):
            return self._strip([(row, "heading")], width)
        return self._strip(self._cells(row, width), width, cursor=index == self.cursor)

    def _cells(self, entry: Entry, width: int) -> list[tuple[str, str]]:
        place = PLACE if width >= WIDE else 0
        title = max(width - self._name_width - place - SIZE - AGE - 5, 0)
        cells = [
            ("  " + clip(short_name(entry), self._name_width) + "  ", "name"),
            (clip(sanitize_line(self._title_of(entry)), title), "title"),
        ]
        if place:
            cells.append((" " + clip(visible(entry.place), place - 1), "muted"))
        cells.append((f"{size(entry.info.bytes):>{SIZE}}{age(self._now - entry.info.time):>{AGE}} ", "muted"))
        return cells

    def _strip(self, cells: list[tuple[str, str]], width: int, *, cursor: bool = False) -> Strip:
        under = self._style("cursor") if cursor else None
        segments = [Segment(text, under or self._style(look)) for text, look in cells]
        if cursor:
            segments[0] = Segment(">" + segments[0].text[1:], under)
        return Strip(segments).adjust_cell_length(width, under or self.rich_style)

    def _style(self, look: str) -> Style:
        style = self._styles.get(look)
        if style is None:
            # Not partial: colours with an opacity are blended with the background here.
            style = self._styles[look] = self.get_component_rich_style(f"picker-list--{look}")
        return style

    def _width(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    def _into_view(self) -> None:
        if not self.size.height or self.cursor < 0:
            return
        # The heading above the first session is shown with it.
        first = self.cursor - 1 if self.cursor and isinstance(self.rows[self.cursor - 1], str) else self.cursor
        top, height = self.scroll_offset.y, self.size.height
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def action_choose(self) -> None:
        """Choose the session under the cursor."""
        if self.chosen:
            self.post_message(self.Chosen(self.chosen))

    def action_move(self, rows: int) -> None:
        """Move the cursor over the sessions, passing headings."""
        if not self.rows:
            return
        target = min(max(self.cursor + rows, 0), len(self.rows) - 1)
        onward = range(target, len(self.rows)) if rows > 0 else range(target, -1, -1)
        back = range(target, self.cursor, -1 if rows > 0 else 1)
        for row in (*onward, *back):
            if isinstance(self.rows[row], Entry):
                self.cursor = row
                return

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(self.size.height - 1, 1))

    def action_ends(self, last: bool) -> None:
        """Move the cursor to the first or last session."""
        self.action_move(len(self.rows) if last else -len(self.rows))


def short_name(entry: Entry) -> str:
    """The name, of ids only the first eight digits."""
    found = _UUID.fullmatch(entry.name)
    return found.group(1) if found else visible(entry.name)


def size(count: int) -> str:
    """A file size in words; empty when unknown."""
    if count <= 0:
        return ""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def age(seconds: float) -> str:
    """How long ago in one unit; empty for times that are unknown."""
    if seconds < 0 or seconds > 50 * 365 * 86_400:
        return "" if seconds > 0 else "now"
    for unit, length in (("y", 365 * 86_400), ("mo", 30 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"
