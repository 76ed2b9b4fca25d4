"""Picker of a session among the samples, the sessions found on this machine, or the sessions in one file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Paste
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Label

from context_tui.errors import Error, SeveralSessions
from context_tui.library import discovery
from context_tui.library.cache import SessionCache, find_cache_path
from context_tui.library.discovery import SessionEntry, SessionKey
from context_tui.library.overview import SAME_FILE, OverviewReader, SessionOverview
from context_tui.session.session import SessionInfo
from context_tui.text.sanitize import make_visible, sanitize_line
from context_tui.tui.picker.listing import SessionItem, SessionListing, SessionOrder
from context_tui.tui.picker.session_list import PickerList, format_heads
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings

LOCAL_GROUPS = (discovery.THIS_PROJECT, discovery.OTHER_PROJECTS)
MAX_READ_TITLES = 2_000
UPDATE_INTERVAL_S = 0.1
EARLY_S = 1.0
"""Seconds after its opening in which esc does not leave the first picker."""
OVERVIEW_DELAY_S = 0.1
"""Seconds after the last change of the list until the overviews of the visible sessions are read.

Longer than the pause between keys pressed in quick succession, so that reading delays none of them.
"""

EMPTY_TEXT = """\
No sessions found on this machine.

To open one by its path:  context-tui SESSION
To open a sample:         context-tui demo"""
NO_MATCH_TEXT = "No session matches. Press esc to clear the filter."


class FilterInput(Input):
    """The input for the filter, in which some keys move the cursor in the list of sessions instead."""

    BINDINGS = read_bindings("picker-filter")


class PickerScreen(WorkErrorHandler, Screen[SessionInfo | str]):
    """A screen that lists sessions; returns the chosen session with its format, or else ``back`` or ``quit``.

    *find* is iterated in a thread after the first paint; each list that it yields holds all sessions found so far.
    ``esc`` returns to the *current* session, which is initially under the cursor.
    """

    AUTO_FOCUS = "PickerList"
    CSS_PATH = "picker.tcss"
    BINDINGS = read_bindings("picker")

    class AllFound(Message):
        """Posted when the search for sessions has finished, so that slower work may begin."""

    def __init__(
        self,
        entries: Sequence[SessionEntry],
        *,
        find: Iterable[list[SessionEntry]] | None = None,
        heading: str = "Open a session",
        current: SessionInfo | None = None,
        overview: SessionOverview | None = None,
        read_title: Callable[[SessionInfo], str] | None = None,
        now: float | None = None,
    ) -> None:
        super().__init__()
        self._reader = OverviewReader(SessionCache(find_cache_path()))
        self._heading, self._read_title, self._current = heading, read_title or self._reader.read_title, current
        self._now = time.time() if now is None else now
        self._find = find
        home = discovery.build_session_key(current) if current else None
        self.listing = SessionListing([*entries, *(overview.children if overview else ())], home)
        if home and overview:
            self.listing.update_summaries({home: overview})
        self._read_keys: set[SessionKey] = set()
        self._label_texts: dict[str, str] = {}
        self._worker_error = ""
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Label(self._heading, id="picker-heading", markup=False)
        with Horizontal(id="picker-filter"):
            yield Label("/ ", id="picker-prompt", markup=False)
            about = "filters by name, title, project or agent"
            yield FilterInput(placeholder=about, compact=True, select_on_focus=False)
        yield Label("", id="picker-heads", markup=False)
        yield PickerList(self.listing, self._now, id="picker-list")
        yield Label(EMPTY_TEXT, id="picker-empty", markup=False)
        yield Label("", id="picker-status", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self._opened_at = time.monotonic()
        self._show()
        if self.is_finding:
            self.call_after_refresh(start_work, self, "titles", "find the sessions", self._find_all)
        else:
            self.post_message(self.AllFound())
            start_work(self, "titles", "read the titles", self._read_titles)

    @property
    def is_finding(self) -> bool:
        """Whether the search for sessions is still running."""
        return self._find is not None

    @property
    def rows(self) -> PickerList:
        """The widget that lists the sessions."""
        return self.query_one(PickerList)

    @on(PickerList.Changed)
    def _show(self) -> None:
        """Show the number and order of the listed sessions; after a pause, read overviews of the visible ones."""
        listing, rows = self.listing, self.rows
        count, noun = len(listing.items), "session" if len(listing.items) == 1 else "sessions"
        counts = f"{listing.session_count:,} of {count:,}" if listing.filter_text.strip() else f"{count:,}"
        order = "" if listing.order is SessionOrder.AS_FOUND else f", {listing.order.value}"
        order += ", looking for more…" if self.is_finding and listing.items else ""
        total = f" · {counts} {noun}{order}" if listing.items or not self.is_finding else ""
        self._update_label("heading", self._heading + total)
        self._update_label("heads", format_heads(rows.columns))
        reason = NO_MATCH_TEXT if listing.items else "Looking for sessions…" if self.is_finding else EMPTY_TEXT
        self._update_label("empty", reason).display = not listing.lines
        # An empty list takes no room; it stays displayed, because it has the focus.
        rows.set_class(not listing.lines, "-empty")
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(OVERVIEW_DELAY_S, self._read_overviews)

    def _update_label(self, name: str, text: str) -> Label:
        label = self.query_one(f"#picker-{name}", Label)
        if self._label_texts.get(name) != text:
            self._label_texts[name] = text
            label.update(Content(text))
        return label

    # Background reading

    def _find_all(self, job: ThreadJob) -> None:
        for entries in self._find or ():
            if job.is_cancelled:
                return
            self.call_later(self._change_listing, partial(self.listing.set_entries, entries))
        self.call_later(self._finish_finding)

    def _change_listing(self, change: Callable[[], None]) -> None:
        change()
        self.rows.measure_names()
        self.rows.refresh_listing()

    def _finish_finding(self) -> None:
        self._find = None
        self.post_message(self.AllFound())
        start_work(self, "titles", "read the titles", self._read_titles)
        self.rows.refresh_listing()

    def _read_titles(self, job: ThreadJob) -> None:
        entries = (item.entry for item in self.listing.items if item.entry.group in LOCAL_GROUPS)
        databases = (each for each in entries if discovery.is_database(each.info.path) and not each.info.id)
        if sessions := {each.key: discovery.list_database_sessions(each) for each in databases}:
            self.call_later(self._change_listing, partial(self.listing.replace_files, sessions))
        for item in self.listing.items:
            item.get_search_text()
            job.checkpoint()
        self._read_titles_of(self.listing.items[:MAX_READ_TITLES], job)
        self._reader.flush()

    def _read_titles_of(self, items: Iterable[SessionItem], job: ThreadJob) -> None:
        titles, posted_at = dict[SessionKey, str](), time.monotonic()
        for item in items:
            job.checkpoint()
            if not item.title and (title := self._read_title(item.entry.info)):
                titles[item.key] = title
            if titles and time.monotonic() - posted_at > UPDATE_INTERVAL_S:
                self.call_later(self._show_titles, titles)
                titles, posted_at = {}, time.monotonic()
        if titles:
            self.call_later(self._show_titles, titles)

    def _read_overviews(self) -> None:
        items = [item for item in self.rows.get_visible_sessions() if item.key not in self._read_keys]
        if not items:
            return

        def work(job: ThreadJob) -> None:
            self._read_titles_of(items, job)
            overviews, posted_at = dict[SessionKey, SessionOverview](), time.monotonic()
            try:
                for item in items:
                    overviews[item.key] = self._reader.read_overview(item.entry, job.checkpoint)
                    if time.monotonic() - posted_at > UPDATE_INTERVAL_S:
                        self.call_later(self._show_overviews, overviews)
                        overviews, posted_at = {}, time.monotonic()
                    job.checkpoint()
            finally:  # also if the work is cancelled
                self.call_later(self._show_overviews, overviews)
            self._reader.flush()

        start_work(self, "overviews", "read the visible sessions", work)

    def show_work_error(self, message: str, group: str) -> None:
        """Show an error from a background thread, and end the search for sessions if the error was raised there."""
        self._worker_error = message
        self._show_problem()
        if self.is_finding and group == "titles":
            self._finish_finding()

    @on(PickerList.Moved)
    def _show_problem(self) -> None:
        item = self.listing.selected_session
        problem = item.summary.problem if item and item.summary else ""
        self._update_label("status", make_visible(problem or self._worker_error))

    def _show_titles(self, titles: Mapping[SessionKey, str]) -> None:
        self.listing.update_titles(titles)
        if self.listing.filter_text:
            self.rows.refresh_listing()
        else:
            self.rows.refresh_sessions(titles)

    def _show_overviews(self, overviews: Mapping[SessionKey, SessionOverview]) -> None:
        self._read_keys |= overviews.keys()
        line_count = len(self.listing.lines)
        self.listing.update_summaries(overviews)
        if len(self.listing.lines) != line_count:
            self.rows.refresh_listing()
        else:
            self.rows.refresh_sessions(overviews)
        if self.listing.selected_session and self.listing.selected_session.key in overviews:
            self._show_problem()

    # Keys

    @on(Input.Changed)
    def _filter_sessions(self, event: Input.Changed) -> None:
        event.stop()
        self.listing.filter(event.value)
        self.rows.refresh_listing()

    @on(Input.Submitted)
    def _open_selected(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def on_paste(self, event: Paste) -> None:
        """Append pasted text to the filter, wherever the focus is."""
        event.stop()
        self.query_one(Input).value += sanitize_line(" ".join(event.text.split()))
        self.action_filter()

    def action_filter(self) -> None:
        filter_input = self.query_one(Input)
        self.set_focus(filter_input)
        filter_input.cursor_position = len(filter_input.value)

    def action_move(self, rows: int) -> None:
        self.rows.action_move(rows)

    def action_page(self, pages: int) -> None:
        self.rows.action_page(pages)

    def action_leave(self) -> None:
        """Clear the filter and focus the list; without a filter, leave the picker unless the program just started."""
        filter_input = self.query_one(Input)
        if not filter_input.value and not filter_input.has_focus:
            if self._current is not None or time.monotonic() - self._opened_at > EARLY_S:
                self.dismiss("back")
        else:
            filter_input.value = ""
            self.set_focus(self.rows)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the action that goes back if the picker was not opened from a session."""
        return parameters != ("back",) or self._current is not None

    def action_tune(self) -> None:
        if selected := self.listing.selected_session:
            from context_tui.tui.picker.tune import TuneScreen

            items = [line for line in self.listing.lines if isinstance(line, SessionItem) and line.parent is None]
            agent = (selected.parent or selected).agent
            self.app.push_screen(TuneScreen(agent, [item.entry for item in items if item.agent == agent]))

    def action_choose(self) -> None:
        """Close with the chosen session once its format is detected, or list the sessions that its file holds."""
        # Imported when needed, because it imports the readers of all formats.
        from context_tui.formats.opening import choose_session, sessions_in

        if self.listing.selected_session is None:
            return
        entry, info = self.listing.selected_session.entry, self.listing.selected_session.entry.info
        try:
            self.dismiss(info if info.format else choose_session(info.path))
        except SeveralSessions:
            entries = [SessionEntry(child, entry.group, SAME_FILE, child.format) for child in sessions_in(info.path)]
            self.listing.unfold_sessions(entry.key, entries)
            self.rows.refresh_listing()
        except Error as error:
            self._update_label("status", make_visible(str(error)))
