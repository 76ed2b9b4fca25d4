"""Screen whose actions wait for a result that is being computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from textual.screen import Screen, ScreenResultType


class WaitingScreen(Screen[ScreenResultType]):
    """Screen whose actions may wait for a result that is being computed (``when_ready``)."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_actions: list[Callable[[], object]] = []

    @property
    def is_ready(self) -> bool:
        """Whether the result is ready."""
        raise NotImplementedError

    @property
    def is_failed(self) -> bool:
        """Whether the result cannot be computed."""
        return False

    def run_waiting_actions(self) -> None:
        """Run the waiting actions if the result is ready; discard them if it cannot be computed."""
        if self.is_ready or self.is_failed:
            actions, self.waiting_actions = self.waiting_actions, []
            for action in actions:
                action()


ScreenT = TypeVar("ScreenT", bound=WaitingScreen[Any])
Arguments = ParamSpec("Arguments")


def when_ready(
    action: Callable[Concatenate[ScreenT, Arguments], None],
) -> Callable[Concatenate[ScreenT, Arguments], None]:
    """Decorate an action to wait until the result of its screen is ready."""

    @wraps(action)
    def run(screen: ScreenT, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if screen.is_ready:
            action(screen, *args, **kwargs)
        elif not screen.is_failed:
            screen.waiting_actions.append(partial(run, screen, *args, **kwargs))

    return run
