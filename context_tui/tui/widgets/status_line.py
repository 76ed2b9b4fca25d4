"""The line above the timeline: what is unusual about what is on screen, or what to press first."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from context_tui.text.sanitize import sanitize_line


class StatusLine(Static):
    """One text at a time, hidden while there is none; nothing in it is taken for markup."""

    DEFAULT_CSS = "StatusLine { display: none; &.-said { display: block; } }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.text = ""

    def show(self, text: str, *, hint: bool = False) -> None:
        """Show a text; a *hint* is drawn less loudly."""
        if text != self.text:  # a line that comes or goes moves everything below it
            one_line = self.text and text and max(len(self.text), len(text)) < self.size.width
            self.update(Content(sanitize_line(text)), layout=not one_line)
            self.text = text
            self.set_class(bool(text), "-said")
        self.set_class(hint, "-hint")
