"""Options of the inspector, as given on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from context_tui.app.state import EMPTY_STATE, InspectorState


@dataclass(frozen=True)
class InspectorOptions:
    """Options for the inspector; ``window`` is the size of the context window in tokens, or None for the session's own.

    The policy and settings of ``last_state`` are restored if neither is given.
    """

    at: int | None = None
    policy: str | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    window: int | None = None
    ascii: bool = False
    demo: bool = False
    follow: bool = False
    last_state: InspectorState = EMPTY_STATE
