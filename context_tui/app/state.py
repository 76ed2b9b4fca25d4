"""State of the inspector between runs: the policy for each format, changed settings, and the layout."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from context_tui.text.files import read_settings_file, write_atomically


class InspectorState(NamedTuple):
    """Saved state: each format's policy, each policy's ``KEY=VALUE`` settings, and whether the breakdown was open."""

    policies: Mapping[str, str] = {}
    settings: Mapping[str, tuple[str, ...]] = {}
    breakdown: bool = False


EMPTY_STATE = InspectorState()


def find_state_path(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the path of the state file, or None if ``$CONTEXT_TUI_STATE`` is empty, so that no state is saved."""
    path = (os.environ if environ is None else environ).get("CONTEXT_TUI_STATE")
    if path is not None:
        return Path(path) if path else None
    from platformdirs import user_state_path  # slow to import, and not needed with a named file

    return user_state_path("context-tui", appauthor=False) / "state.json"


def read_state(path: Path | None) -> InspectorState:
    """Return the saved state, or an empty state if the file is missing or invalid."""
    try:
        document = json.loads(read_settings_file(path)) if path else {}
    except (OSError, ValueError, RecursionError):
        return EMPTY_STATE
    if not isinstance(document, dict):
        return EMPTY_STATE
    members = (document.get("policies"), document.get("settings"))
    raw_policies, raw_settings = (member if isinstance(member, dict) else {} for member in members)
    policies = {agent: policy for agent, policy in raw_policies.items() if isinstance(policy, str)}
    lists = {name: texts for name, texts in raw_settings.items() if isinstance(texts, list)}
    settings = {name: tuple(texts) for name, texts in lists.items() if all(isinstance(text, str) for text in texts)}
    return InspectorState(policies, settings, document.get("breakdown") is True)


def write_state(state: InspectorState, path: Path | None) -> None:
    """Save the state for the next run; if several programs run, the state of the last one to exit is kept."""
    if path is None:
        return
    text = json.dumps(state._asdict(), indent=1)
    with suppress(OSError):
        write_atomically(path, text + "\n")
