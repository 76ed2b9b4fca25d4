"""Search bar of the inspector."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from context_tui.tui.controller import Controller
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.workers import InspectorWorkers
from context_tui.tui.reader.detail import Detail
from context_tui.tui.search import SearchReport
from context_tui.tui.widgets.bindings import read_bindings


class SearchBar(Horizontal):
    """A bar with an input for the search text and the number of matches; hidden until ``open`` is called."""

    BINDINGS = read_bindings("search")

    def __init__(self, controller: Controller, jobs: InspectorWorkers, step: Callable[[int], object]) -> None:
        """Create a search bar; *step* is called with 1 or -1 to go to the next or previous match."""
        super().__init__(id="search")
        self._controller, self._jobs, self._step = controller, jobs, step
        self._started_number = 0  # number of the last started search

    def compose(self) -> ComposeResult:
        yield Static(Content("/"), id="search-prompt")
        yield Input(id="search-text", placeholder="search the whole session", compact=True)
        yield Static(Content(""), id="search-count")

    def open(self) -> None:
        """Show the bar and focus its input."""
        self.display = True
        self.query_one(Input).focus()

    def start_if_changed(self) -> None:
        """Start a thread for the controller's search, unless that search was already started."""
        search = self._controller.search
        if search.number == self._started_number:
            return
        self._started_number = search.number
        self.screen.query_one(Timeline).show_matches(frozenset())
        self._show_count("")
        self._jobs.cancel("search")
        if search.text:
            self._jobs.search(self._controller.view.session, search.text, search.number, self._show_report)

    def _show_report(self, report: SearchReport) -> None:
        search = self._controller.search
        if search.update(report):
            self.screen.query_one(Timeline).show_matches(frozenset(search.locations))
            self._show_count(self._controller.match_count_text)
            if search.pending_step and (search.locations or search.is_finished):
                self._step(search.pending_step)

    def show_selected_match(self) -> None:
        """Highlight the search text in the selected message, and update the match count."""
        self.screen.query_one(Detail).set_search_text(self._controller.search.text)
        self._show_count(self._controller.match_count_text)

    def _show_count(self, text: str) -> None:
        self.query_one("#search-count", Static).update(Content(text))

    @on(Input.Changed)
    def _handle_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.screen.query_one(Detail).set_search_text("")
        self._controller.search.start(self._controller.view.session, event.value)
        self.start_if_changed()

    @on(Input.Submitted)
    def _handle_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.query_one(Timeline).focus()
        self._step(1)

    def action_close(self) -> None:
        self.query_one(Input).value = ""
        self.display = False
        self.screen.query_one(Timeline).focus()
