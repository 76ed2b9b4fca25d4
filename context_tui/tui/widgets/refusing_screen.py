"""Screen that gives the reason if a key does nothing at the moment."""

from __future__ import annotations

from textual.events import Key
from textual.screen import Screen, ScreenResultType

from context_tui.tui.saving import notify_briefly


class RefusingScreen(Screen[ScreenResultType]):
    """A screen whose keys may be disabled; the footer omits such a key, and pressing it shows the reason."""

    def find_refusal(self, action: str) -> str:
        """Return the reason why an action is disabled, or "" if it is enabled; subclasses implement this."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.find_refusal(action)

    def on_key(self, event: Key) -> None:
        """Show why the first binding of a key is disabled, if none of them is enabled."""
        bindings = () if event.key in self.active_bindings else self._bindings.key_to_bindings.get(event.key, ())
        reason = next(filter(None, (self.find_refusal(binding.action.partition("(")[0]) for binding in bindings)), "")
        if reason:
            notify_briefly(self, reason)
