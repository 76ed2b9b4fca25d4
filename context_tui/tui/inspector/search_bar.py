"""Input line for the text to search, with the count of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class SearchBar(Horizontal):
    """Asks for a text; hidden until it is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False, id="search-close", tooltip="Stop the search and close"),
        Binding("down", "step(1)", "Next", show=False, id="search-next", tooltip="Go to the next match"),
        Binding("up", "step(-1)", "Previous", show=False, id="search-previous", tooltip="Go to the previous match"),
    ]

    @dataclass
    class QueryChanged(Message):
        """A text to find was typed; empty when it was taken back."""

        text: str

    @dataclass
    class StepRequested(Message):
        """Another match is wanted: 1 the next, -1 the previous."""

        step: int

    class QuerySubmitted(Message):
        """The text was entered: the matches are to be gone through."""

    class Closed(Message):
        """Nothing is to be found any more."""

    def compose(self) -> ComposeResult:
        """The prompt, the text, the count."""
        yield Static(Content("/"), id="search-prompt")
        yield Input(id="search-text", placeholder="search the whole session", compact=True)
        yield Static(Content(""), id="search-count")

    def open(self) -> None:
        """Show it, and take what is typed."""
        self.display = True
        self.query_one(Input).focus()

    def show_count(self, text: str) -> None:
        """Say how many were found."""
        self.query_one("#search-count", Static).update(Content(text))

    @on(Input.Changed)
    def _handle_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.QueryChanged(event.value))

    @on(Input.Submitted)
    def _handle_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.QuerySubmitted())

    def action_step(self, step: int) -> None:
        """Ask for another match."""
        self.post_message(self.StepRequested(step))

    def action_close(self) -> None:
        """Forget the text and hide."""
        self.query_one(Input).value = ""
        self.display = False
        self.post_message(self.Closed())
