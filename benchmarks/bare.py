"""The smallest application that Textual can show: what any first paint is compared to."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class Bare(App[None]):
    """One line of text."""

    def compose(self) -> ComposeResult:
        """The line."""
        yield Static("nothing but this")


if __name__ == "__main__":
    Bare().run()
