"""Builder of key bindings, and a footer that shows as many of them as fit."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


def build_binding(
    keys: str,
    action: str,
    description: str,
    name: str,
    tooltip: str,
    display: str | None = None,
    *,
    prefix: str = "",
    show: bool | None = None,
) -> Binding:
    """Build a binding, whose id is *prefix* followed by *name*.

    Args:
        keys: keys, separated by commas; characters such as ``?`` stand for themselves.
        display: keys as the footer shows them.
        show: whether to show the binding in the footer; by default, if it has a *display*.
    """
    in_footer = display is not None if show is None else show
    return Binding(keys, action, description, show=in_footer, key_display=display, id=prefix + name, tooltip=tooltip)


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
