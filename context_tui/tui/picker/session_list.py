"""List of the picker, drawn line by line for any number of sessions."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from context_tui.library.discovery import SessionEntry, SessionKey
from context_tui.text.numbers import format_age, format_bytes, format_percent, format_tokens
from context_tui.text.sanitize import make_visible, sanitize_line
from context_tui.tui.picker.listing import SessionItem, SessionListing, SessionOrder
from context_tui.tui.rendering.columns import ColumnFitter
from context_tui.tui.terminal.cells import clip_to_width, shorten_middle
from context_tui.tui.widgets.bindings import read_bindings

_UUID_PATTERN = re.compile(r"(?:rollout-[\dT-]{19}-)?([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FOLDED_GLYPH, OPEN_GLYPH, CHILD_GLYPH = "▸", "▾", "└"
_STYLE_NAMES = ("name", "title", "muted", "full", "heading", "cursor")
COUNT_WIDTH = 4
"""Cells after a name for the number of its children."""
MAX_MEASURED_NAMES = 1_000
FULL_SHARE = 0.8
"""Used share of the context window at and above which the window is drawn as full."""


@lru_cache(maxsize=16)
def fit_picker_columns(width: int, longest: int) -> ColumnFitter:
    """Return column widths for *width* cells; the title takes the rest. *longest* is the width of the longest name."""
    name_cells = max(longest + COUNT_WIDTH, len("session"))
    fitter = ColumnFitter(width, 3 + 2 + 1)
    for column, cells, from_width in (
        ("age", 7, 0),
        ("context", 6, 0),
        ("name", min(name_cells, 20), 0),
        ("size", 9, 50),
        ("place", 13, 76),
        ("context", 13, 98),
        ("name", min(name_cells, 28), 98),
        ("agent", 13, 98),
        ("place", 15, 98),
        ("name", min(name_cells, 40), 138),
        ("place", 20, 138),
        ("agent", 21, 158),
        ("model", 20, 158),
        ("compactions", 13, 158),
    ):
        fitter.fit(column, cells, from_width=from_width)
    title_cells = max(fitter.room, 0)
    if not fitter["name"]:
        fitter.reserve("name", min(name_cells, 20))
    fitter.reserve("title", title_cells)
    return fitter


def format_heads(columns: ColumnFitter) -> str:
    """Format the line with the column headings."""
    context = "context" if columns["context"] > 7 else "full"
    cells = [
        "   " + clip_to_width("session", columns["name"]),
        "  " + clip_to_width("title", columns["title"]),
        _fit_cell("agent", columns["agent"]),
        _fit_cell("model", columns["model"]),
        _fit_cell("project", columns["place"]),
        f"{'age':>{columns['age']}}",
        f"{'size':>{columns['size']}}" if columns["size"] else "",
        f"{context:>{columns['context']}}",
        f"{'compactions':>{columns['compactions']}}" if columns["compactions"] else "",
    ]
    return "".join(cells)


class PickerList(ScrollView, can_focus=True, inherit_bindings=False):
    """A scrolling list of sessions with a cursor; enter or a double click chooses one."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"picker-list--{part}" for part in _STYLE_NAMES}
    BINDINGS = read_bindings("picker-list")

    class Changed(Message):
        """Posted when other sessions are listed or have come into view."""

    class Moved(Message):
        """Posted when a different session is selected."""

    def __init__(self, listing: SessionListing, now: float, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.listing, self._now = listing, now
        self.measure_names()

    def measure_names(self) -> None:
        """Measure the longest session name, to which the name column is fitted."""
        first = self.listing.items[:MAX_MEASURED_NAMES]
        self._longest = max((cell_len(format_short_name(item.entry)) for item in first), default=0)

    @property
    def columns(self) -> ColumnFitter:
        """The columns that fit into the current width."""
        return fit_picker_columns(self._compute_width(), self._longest)

    def get_visible_sessions(self) -> list[SessionItem]:
        """Return the sessions in view, beginning with the selected one."""
        top = self.scroll_offset.y
        items = [line for line in self.listing.lines[top : top + self.size.height] if isinstance(line, SessionItem)]
        return sorted(items, key=lambda item: item is not self.listing.selected_session)

    # Keys and clicks

    def action_fold(self, is_open: bool | None = None) -> None:
        self.listing.fold(is_open)
        self.refresh_listing()

    def action_sort(self) -> None:
        orders = list(SessionOrder)
        self.listing.sort(orders[(orders.index(self.listing.order) + 1) % len(orders)])
        self.refresh_listing()

    def action_move(self, rows: int) -> None:
        old_line = self.listing.cursor
        self.listing.move(rows)
        self._handle_cursor_moved(old_line)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 1, 1))

    def action_move_to_end(self, last: bool) -> None:
        self.action_move(len(self.listing.lines) if last else -len(self.listing.lines))

    async def on_click(self, event: Click) -> None:
        """Select the clicked session; toggle its fold on a click on its sign, and choose it on a double click."""
        old_line, line = self.listing.cursor, int(event.y + self.scroll_offset.y)
        if not self.listing.select(line):
            return
        self._handle_cursor_moved(old_line)
        item = self.listing.selected_session
        if item and item.children and event.x < 3:
            self.action_fold()
        elif event.chain > 1:
            await self.run_action("screen.choose")

    def _handle_cursor_moved(self, old_line: int) -> None:
        for line in (old_line, self.listing.cursor):
            if line >= 0:
                self.refresh_line(line)
        self._scroll_to_cursor()
        self.post_message(self.Moved())

    # Painting

    def refresh_listing(self) -> None:
        """Redraw the list after its lines have changed."""
        self.virtual_size = Size(self._compute_width(), len(self.listing.lines))
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Changed())

    def refresh_sessions(self, keys: Container[SessionKey]) -> None:
        """Redraw the rows of the given sessions that are in view."""
        top = self.scroll_offset.y
        for number, line in enumerate(self.listing.lines[top : top + self.size.height], top):
            if isinstance(line, SessionItem) and line.key in keys:
                self.refresh_line(number)

    def on_resize(self) -> None:
        self.refresh_listing()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if round(old) != round(new):
            self.post_message(self.Changed())

    def render_line(self, y: int) -> Strip:
        width, index = self._compute_width(), y + self.scroll_offset.y
        if index >= len(self.listing.lines):
            return Strip.blank(width, self._resolve_style(""))
        line = self.listing.lines[index]
        if isinstance(line, str):
            return self._build_strip([(line, "heading")], width)
        columns = fit_picker_columns(width, self._longest)
        return self._build_strip(self._format_cells(line, columns), width, is_current=index == self.listing.cursor)

    def _format_cells(self, item: SessionItem, columns: ColumnFitter) -> list[tuple[str, str]]:
        entry, overview = item.entry, item.summary
        sign = (OPEN_GLYPH if item.shows_children else FOLDED_GLYPH) if item.children else " "
        name, count = format_short_name(entry), f" ({len(item.children):,})" if item.children else ""
        if item.parent:
            name = f"{CHILD_GLYPH} {'#' if entry.info.id else ''}{name}"
        title = item.title or ("cannot be read" if overview and overview.problem else "")
        context = format_tokens(overview.tokens) if overview and overview.tokens else ""
        share = overview.share if overview else None
        if columns["context"] > 7:
            percent = "" if share is None else format_percent(share)
            context = f"{context} {percent:>5}" if context or percent else ""
        elif share is not None:
            context = format_percent(share)
        compactions = str(overview.compactions) if overview and overview.compactions else ""
        return [
            (f" {sign} ", "muted"),
            (clip_to_width(shorten_middle(name, columns["name"] - len(count)) + count, columns["name"]) + "  ", "name"),
            (clip_to_width(sanitize_line(title), columns["title"]), "title"),
            (_fit_cell(make_visible(item.agent), columns["agent"]), "muted"),
            (_fit_cell(sanitize_line(overview.model if overview else ""), columns["model"]), "muted"),
            (_fit_cell(make_visible(item.project_name), columns["place"]), "muted"),
            (f"{format_age(self._now - entry.info.time):>{columns['age']}}", "muted"),
            (f"{format_bytes(item.bytes):>{columns['size']}}" if columns["size"] else "", "muted"),
            (f"{context:>{columns['context']}}", "full" if share is not None and share >= FULL_SHARE else "muted"),
            (f"{compactions:>{columns['compactions']}} " if columns["compactions"] else " ", "muted"),
        ]

    def _build_strip(self, cells: Sequence[tuple[str, str]], width: int, *, is_current: bool = False) -> Strip:
        cursor_style = self._resolve_style("cursor") if is_current else None
        # Few segments, as each of them is filtered and cut when a page is drawn
        groups = groupby(cells, lambda cell: "cursor" if is_current else cell[1])
        segments = [Segment("".join(text for text, _ in each), self._resolve_style(style)) for style, each in groups]
        if is_current:
            segments[0] = Segment(">" + segments[0].text[1:], cursor_style)
        return Strip(segments).adjust_cell_length(width, cursor_style or self._resolve_style(""))

    def _resolve_style(self, style_name: str) -> Style:
        return self.get_component_rich_style(f"picker-list--{style_name}") if style_name else self.rich_style

    def _compute_width(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    def _scroll_to_cursor(self) -> None:
        cursor, lines = self.listing.cursor, self.listing.lines
        if not self.size.height or cursor < 0:
            return
        # The heading above the first session of a group becomes visible with it.
        first = cursor - 1 if cursor and isinstance(lines[cursor - 1], str) else cursor
        top, height = self.scroll_offset.y, self.size.height
        if first < top:
            self.scroll_to(y=first, animate=False, immediate=True)
        elif cursor >= top + height:
            self.scroll_to(y=cursor - height + 1, animate=False, immediate=True)


def format_short_name(entry: SessionEntry) -> str:
    """Format a session's name, shortening a UUID or a Codex rollout to the first eight digits of its id."""
    match = _UUID_PATTERN.fullmatch(entry.name)
    return match.group(1) if match else make_visible(entry.name)


def _fit_cell(text: str, width: int) -> str:
    """Cut a text or pad it with blanks to *width* cells, the first of them blank; return "" if *width* is 0."""
    return " " + clip_to_width(shorten_middle(text, width - 1), width - 1) if width else ""
