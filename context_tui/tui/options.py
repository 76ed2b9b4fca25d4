"""Options of the inspector from the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from context_tui.app.state import EMPTY_STATE, InspectorState


@dataclass(frozen=True)
class InspectorOptions:
    """A point, a policy with its settings, a window in tokens, how to draw, and whether the session is followed.

    ``keys`` are the names of keys that the configuration file sets; ``last_state`` is what counts where no policy is named.
    """

    at: int | None = None
    policy: str | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    window: int | None = None
    ascii: bool = False
    demo: bool = False
    follow: bool = False
    keys: Collection[str] = ()
    last_state: InspectorState = EMPTY_STATE
