"""Key bindings of the inspector, and the full-screen views that some of them open."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from textual.binding import BindingType
from textual.screen import Screen

from context_tui.tui.controller import Controller
from context_tui.tui.widgets.bindings import build_policy_bindings, read_bindings


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """Build the named view of the session, importing it on first use; CommandRefused if it has nothing to show."""
    module = f"inspector.{name}" if name in ("problems", "calibration", "request") else f"{name}.screen"
    screen: Screen[Any] = import_module(f"context_tui.tui.{module}").build_screen(controller)
    return screen


def build_bindings() -> list[BindingType]:
    """Return all key bindings of the inspector screen, in the order in which the footer lists them."""
    return [*read_bindings("inspector-first"), *build_policy_bindings("Plan with"), *read_bindings("inspector-other")]
