"""What was chosen when the inspector was left last: a policy, settings that are not the defaults, and the layout.

It is kept as JSON: in the file that ``$CONTEXT_TUI_STATE`` names, nowhere where that is empty, else in ``state.json``
in the folder that the system has for the program's state (on Linux ``~/.local/state/context-tui``). The program works
without it, so that what cannot be read or written is nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from context_tui.text.private_files import private_folder


class Last(NamedTuple):
    """The policy; by policy the ``KEY=VALUE`` texts of its settings; whether the breakdown was open."""

    policy: str = ""
    settings: Mapping[str, tuple[str, ...]] = {}
    breakdown: bool = False


NOTHING = Last()


def state_path(environ: Mapping[str, str] | None = None) -> Path | None:
    """The file; None where nothing is to be kept."""
    named = (os.environ if environ is None else environ).get("CONTEXT_TUI_STATE")
    if named is not None:
        return Path(named) if named else None
    from platformdirs import user_state_path  # not where a file is named

    return user_state_path("context-tui", appauthor=False) / "state.json"


def read_last(path: Path | None) -> Last:
    """What was kept; nothing of what is not as :func:`keep_last` writes it."""
    try:
        found = json.loads(path.read_bytes()) if path else {}
    except (OSError, ValueError, RecursionError):
        return NOTHING
    if not isinstance(found, dict) or not isinstance(policy := found.get("policy"), str):
        return NOTHING
    given = found.get("settings")
    settings = {
        name: tuple(texts)
        for name, texts in (given.items() if isinstance(given, dict) else ())
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    }
    return Last(policy, settings, found.get("breakdown") is True)


def keep_last(last: Last, path: Path | None) -> None:
    """Keep it for the next time, in place of what was kept before; of two programs the one that is left last has it."""
    if path is None:
        return
    text = json.dumps(last._asdict(), indent=1)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with private_folder(path.parent, path.name) as folder:
            (folder / path.name).write_text(text + "\n", encoding="utf-8")
            (folder / path.name).replace(path)
