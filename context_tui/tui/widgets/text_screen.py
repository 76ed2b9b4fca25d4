"""Screen that shows a long text with a title."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Label

from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane


class TextScreen(ModalScreen[ScreenResultType]):
    """Screen that shows a long text; a subclass binds the keys that close the screen."""

    DEFAULT_CSS = """
    TextScreen {
        background: $background;
        #text-title { width: 100%; height: 1; padding: 0 1; background: $panel; text-style: bold; }
        #text-pane { padding: 0 1; }
    }
    """

    def __init__(self, title: str, parts: Iterable[TextPart]) -> None:
        super().__init__()
        self._title, self._parts = title, parts

    def compose(self) -> ComposeResult:
        yield Label(self._title, id="text-title", markup=False)
        yield ReadingPane(self._parts, id="text-pane")
        yield KeyFooter()
