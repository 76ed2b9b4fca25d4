"""The inspector: a Textual application over the model. Only the command line imports it, inside a function."""

from __future__ import annotations

from context_tui.tui.app import ContextTuiApp, run

__all__ = ["ContextTuiApp", "run"]
