"""See where the context of a recorded agent session went, and what a compaction policy would drop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from context_tui import tokens
    from context_tui.compaction.apply import apply
    from context_tui.compaction.next_request import measure
    from context_tui.errors import Error, PlanError, SeveralSessions, SummarizerError, UnreadableSession
    from context_tui.formats.opening import open_session, sessions_in
    from context_tui.lab import replay, sweep
    from context_tui.policies.planning import plan
    from context_tui.session.memory import from_messages

__version__ = "0.1.0"

__all__ = [
    "Error",
    "PlanError",
    "SeveralSessions",
    "SummarizerError",
    "UnreadableSession",
    "apply",
    "from_messages",
    "measure",
    "open_session",
    "plan",
    "replay",
    "sessions_in",
    "sweep",
    "tokens",
]

_MODULE_OF_NAME = {
    **dict.fromkeys(("Error", "PlanError", "SeveralSessions", "SummarizerError", "UnreadableSession"), "errors"),
    "apply": "compaction.apply",
    "from_messages": "session.memory",
    "measure": "compaction.next_request",
    "open_session": "formats.opening",
    "plan": "policies.planning",
    "sessions_in": "formats.opening",
}
_SUBMODULES = {"replay": "lab.replay", "sweep": "lab.sweep", "tokens": "tokens"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562), so that importing the package is cheap."""
    if name in _SUBMODULES:
        return import_module(f"context_tui.{_SUBMODULES[name]}")
    if name in _MODULE_OF_NAME:
        return getattr(import_module(f"context_tui.{_MODULE_OF_NAME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
