"""Replay of policies along the recording: the context size at each call, the firings, and what they removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from context_tui.tui.controller import Controller
    from context_tui.tui.replay.screen import ReplayScreen


def build_screen(controller: Controller) -> ReplayScreen:
    """Return the replay screen; raises CommandRefused while the session is read, or for a compacted copy."""
    from context_tui.tui.replay.screen import ReplayScreen

    return ReplayScreen(controller, controller.build_comparison())
