"""Screen of the recorded compactions, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from context_tui.tui.controller import CommandRefused, Controller

if TYPE_CHECKING:
    from context_tui.tui.compactions.screen import CompactionsScreen


def build_screen(controller: Controller) -> CompactionsScreen:
    """Build the screen of the compactions read so far; raises CommandRefused if there is none."""
    from context_tui.tui.compactions.screen import CompactionsScreen

    session = controller.recorded_session
    if not session.facts.compactions and not any(drop.cleared_blocks for drop in session.drops):
        raise CommandRefused("This recording holds no compaction")
    return CompactionsScreen(controller, session)
