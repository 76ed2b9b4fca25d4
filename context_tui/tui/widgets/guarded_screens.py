"""Screens that refuse some keys with a reason, or wait for a result that is being computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from textual.events import Key
from textual.screen import Screen, ScreenResultType

from context_tui.tui.saving import notify_briefly


class RefusingScreen(Screen[ScreenResultType]):
    """A screen with keys that may be disabled; the footer omits a disabled key, and pressing it shows the reason."""

    def find_refusal(self, action: str) -> str:
        """Return the reason why an action is disabled, or "" if it is enabled; subclasses implement this."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.find_refusal(action)

    def on_key(self, event: Key) -> None:
        """Show the reason why a key is disabled, if none of its bindings is enabled."""
        bindings = () if event.key in self.active_bindings else self._bindings.key_to_bindings.get(event.key, ())
        reason = next(filter(None, (self.find_refusal(binding.action.partition("(")[0]) for binding in bindings)), "")
        if reason:
            notify_briefly(self, reason)


class WaitingScreen(Screen[ScreenResultType]):
    """A screen that computes a result in the background; actions decorated with ``when_ready`` wait for the result."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_actions: list[Callable[[], object]] = []

    @property
    def is_ready(self) -> bool:
        """Whether the result is ready, so that actions run at once; subclasses implement this."""
        raise NotImplementedError

    @property
    def is_failed(self) -> bool:
        """Whether computing the result has failed, so that waiting actions are discarded; False by default."""
        return False

    def run_waiting_actions(self) -> None:
        """Run and remove all waiting actions if the result is ready or has failed, else do nothing."""
        if self.is_ready or self.is_failed:
            actions, self.waiting_actions = self.waiting_actions, []
            for action in actions:
                action()


ScreenT = TypeVar("ScreenT", bound=WaitingScreen[Any])
Arguments = ParamSpec("Arguments")


def when_ready(
    action: Callable[Concatenate[ScreenT, Arguments], None],
) -> Callable[Concatenate[ScreenT, Arguments], None]:
    """Wrap an action so that it waits until its screen's result is ready, and is discarded if that fails."""

    @wraps(action)
    def run(screen: ScreenT, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if screen.is_ready:
            action(screen, *args, **kwargs)
        elif not screen.is_failed:
            screen.waiting_actions.append(partial(run, screen, *args, **kwargs))

    return run
