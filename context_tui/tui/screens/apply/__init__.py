"""Carrying out a plan that summarises: the head, the summary as it comes, its checks, and the decision."""

from context_tui.tui.screens.apply.screen import ApplyScreen

__all__ = ["ApplyScreen"]
