"""The smallest application with something to move in: one list. What any paint, key and quit is compared to."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import OptionList

ROWS = 2_000
TITLE = "the first of all rows"


class Bare(App[None]):
    """One list and nothing else."""

    BINDINGS = [("q", "quit")]

    def compose(self) -> ComposeResult:
        """The list."""
        yield OptionList(TITLE, *(f"row {number} and what it says" for number in range(ROWS)))


if __name__ == "__main__":
    Bare().run()
