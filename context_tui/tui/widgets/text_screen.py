"""Screen of a title and a text below it."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane


class TextScreen(ModalScreen[None]):
    """Screen of a title and a text below it, which subclasses build."""

    CSS = """
    TextScreen { background: $background; }
    #text-title { width: 100%; height: 1; padding: 0 1; background: $panel; text-style: bold; }
    #text { padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        """Yield the title, the text and the footer."""
        yield Label(self.format_title(), id="text-title", markup=False)
        yield ReadingPane(self.build_parts(), id="text")
        yield KeyFooter()

    def format_title(self) -> str:
        """Format the title."""
        raise NotImplementedError

    def build_parts(self) -> Iterable[TextPart]:
        """Build the parts of the text."""
        raise NotImplementedError
