"""Footer with as many keys as fit."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class KeyFooter(Footer):
    """Footer of every screen; keys that do not fit are omitted, not cut."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._fitted_width = 0

    def compose(self) -> ComposeResult:
        """Compose the keys that fit."""
        room = self._fitted_width = self.app.size.width
        for child in super().compose():
            if isinstance(child, FooterKey):
                room -= cell_len(child.key_display) + 1 + cell_len(child.description)
                if room < 0:
                    return
                room -= 1  # gap between two keys
            yield child

    def on_resize(self, event: Resize) -> None:
        """Compose the keys for the new width."""
        if event.size.width != self._fitted_width:
            self.call_after_refresh(self.recompose)
