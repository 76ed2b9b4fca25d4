"""The views that take the whole screen: one line here, and a module of this folder that has ``build_full_screen``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from textual.binding import Binding
from textual.screen import Screen

from context_tui.tui.controller import Controller


@dataclass(frozen=True)
class FullScreen:
    """One of them: the name of its module, and of its key in the configuration file; its keys, title and content.

    ``is_in_footer`` says whether the footer has its key. What the screen closes with is carried out on the inspector.
    """

    name: str
    keys: str
    title: str
    about: str
    is_in_footer: bool = False

    @property
    def binding(self) -> Binding:
        """The inspector's key that opens it."""
        action = f"full_screen('{self.name}')"
        return Binding(self.keys, action, self.title, show=self.is_in_footer, id=self.name, tooltip=self.about)


FULL_SCREENS = [
    FullScreen("replay", "l", "along the run", "Replay the policy along the run, beside others", is_in_footer=True),
    FullScreen("compactions", "B", "Before and after", "Show what each recorded compaction left, and what was lost"),
    FullScreen("problems", "p", "Problems", "List the records that could not be read"),
    FullScreen(
        "calibration", "C", "Calibration", "Show what a token is to each model by recorded sizes, and the error"
    ),
]


class _ScreenModule(Protocol):
    def build_screen(self, controller: Controller) -> Screen[Any]: ...


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """The view of that name on what is on screen; its module is imported now.

    Raises:
        Refused: it has nothing to show.
    """
    module = cast("_ScreenModule", import_module(f"{__package__}.{name}"))
    return module.build_screen(controller)
