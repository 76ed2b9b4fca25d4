"""Choosing a session: the samples, those found on this machine, or the several of one file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Input, Label

from context_tui.discovery import GROUPS, Entry, entries_of, title_of
from context_tui.errors import Error, SeveralSessions
from context_tui.sanitize import visible
from context_tui.session.session import SessionInfo
from context_tui.tui.screens.picker_list import PickerList, Row
from context_tui.tui.threads import Job, start_work

TITLES = 2_000
"""How many files are looked into for their titles."""

EMPTY = """\
No sessions found on this machine.

To open one by its path:  context-tui SESSION
To open a sample:         context-tui demo"""
NOTHING = "No session matches. Press esc to clear the filter."


class PickerScreen(Screen[SessionInfo | None]):
    """Lists sessions; closes with the one that was chosen (its format known), or None.

    Args:
        entries: what there is to choose; plain ``SessionInfo`` for the sessions of one file.
        heading: the title line.
        titles: how a title is found when the session has none.
        now: the time that ages are counted from.
    """

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the filter's own key, so that the footer tells it there too.
        Binding("enter", "open", "open", priority=True, id="picker-open", tooltip="Open the selected session"),
        Binding(
            "slash", "filter", "filter", key_display="/", id="picker-filter", tooltip="Filter by name, title or project"
        ),
        Binding("escape", "leave", "clear", show=False, id="picker-leave", tooltip="Clear the filter; again to quit"),
        Binding("q", "dismiss", "quit", id="picker-quit", tooltip="Quit without opening a session"),
    ]

    class Titles(Message):
        """Titles that were read, by path."""

        def __init__(self, found: dict[str, str]) -> None:
            super().__init__()
            self.found = found

    def __init__(
        self,
        entries: Sequence[Entry | SessionInfo],
        *,
        heading: str = "Open a session",
        titles: Callable[[SessionInfo], str] = title_of,
        now: float | None = None,
    ) -> None:
        super().__init__()
        self._heading, self._read_title = heading, titles
        self._now = time.time() if now is None else now
        self._known: dict[str, str] = {}
        self._take(entries)

    def _take(self, entries: Sequence[Entry | SessionInfo]) -> None:
        plain = [each for each in entries if isinstance(each, SessionInfo)]
        found = [*(each for each in entries if isinstance(each, Entry)), *entries_of(plain)]
        self.entries = sorted(found, key=lambda entry: GROUPS.index(entry.group))

    def compose(self) -> ComposeResult:
        """The filter, the list, and a line for what is wrong."""
        yield Label(self._heading, id="picker-heading", markup=False)
        yield Input(placeholder="filter by name, title or project", id="picker-words", compact=True)
        yield PickerList(self._title, self._now, id="picker-list")
        yield Label(EMPTY, id="picker-empty", markup=False)
        yield Label("", id="picker-status", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List everything, and read the titles beside."""
        self._list()
        self.query_one(PickerList).focus()
        start_work(self, "titles", "read the titles", self._read_titles)

    def _title(self, entry: Entry) -> str:
        title = entry.info.title
        if title and title != entry.name:
            return title
        return "" if entry.info.id else self._known.get(entry.info.path, "")  # titles are read of whole files

    def _list(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        rows: list[Row] = []
        group = None
        shown = 0
        for entry in self.entries:
            text = f"{entry.name} {self._title(entry)} {entry.place} {entry.info.path}".casefold()
            if all(word in text for word in words):
                if entry.group != group:
                    rows.append(entry.group)
                    group = entry.group
                rows.append(entry)
                shown += 1
        self.query_one(PickerList).show(rows)
        empty = self.query_one("#picker-empty", Label)
        empty.update(NOTHING if self.entries else EMPTY)
        empty.display = not rows
        self.query_one(PickerList).display = bool(rows)
        count = f"{shown:,} of {len(self.entries):,}" if words else f"{len(self.entries):,}"
        noun = "session" if len(self.entries) == 1 else "sessions"
        self.query_one("#picker-heading", Label).update(f"{self._heading} · {count} {noun}")

    def _read_titles(self, job: Job) -> None:
        found, told = dict[str, str](), time.monotonic()
        for entry in self.entries[:TITLES]:
            job.checkpoint()
            if not entry.info.id and (title := self._read_title(entry.info)):
                found[entry.info.path] = title
            if found and time.monotonic() - told > 0.1:
                self.post_message(self.Titles(found))
                found, told = {}, time.monotonic()
        if found:
            self.post_message(self.Titles(found))

    def on_picker_screen_titles(self, message: Titles) -> None:
        """Show the titles that were read."""
        self._known.update(message.found)
        if self.query_one(Input).value:
            self._list()
        else:
            self.query_one(PickerList).refresh()

    @on(Input.Changed)
    def filtered(self) -> None:
        """List what matches."""
        self._list()

    def action_open(self) -> None:
        """Open what the cursor is on."""
        self.query_one(PickerList).action_choose()

    def key_down(self) -> None:
        """From the filter into the list."""
        self.query_one(PickerList).focus()

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Clear the filter; without one, leave."""
        words = self.query_one(Input)
        if words.value or words.has_focus:
            words.value = ""
            self.query_one(PickerList).focus()
        else:
            self.dismiss(None)

    def on_picker_list_chosen(self, message: PickerList.Chosen) -> None:
        """Look what the file is, and close with it; list its sessions when it holds several."""
        from context_tui.formats.opening import choose, sessions_in  # all the readers: not before one is needed

        info, status = message.entry.info, self.query_one("#picker-status", Label)
        try:
            self.dismiss(info if info.format else choose(info.path))
        except SeveralSessions:
            self._heading = visible(f"Sessions in {message.entry.name}")
            self._take(sessions_in(info.path))
            self._list()
        except Error as error:
            status.update(visible(str(error)))
