"""Apply screen: the messages to summarise, the summary while it is written, its checks, and the decision."""

from context_tui.tui.apply.screen import ApplyScreen

__all__ = ["ApplyScreen"]
