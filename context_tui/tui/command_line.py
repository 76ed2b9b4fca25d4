"""The command that does on the command line what is on screen."""

from __future__ import annotations

import shlex
from typing import Any

from context_tui.tui.view import View


def command_line(view: View) -> str:
    """``context-tui plan SESSION -P POLICY …`` for a view."""
    info = view.session.info
    name = f"{info.path}#{info.id}" if info.id else info.path or "SESSION"
    parts = ["context-tui", "plan", name, "-P", view.policy]
    settings = view.settings(view.policy)
    for owner, options in settings.pop("options", {}).items():
        settings.update({f"{owner}.{key}": value for key, value in options.items()})
    for key, value in settings.items():
        parts += ["-p", f"{key}={_text(value)}"]
    if view.at is not None:
        parts += ["--at", str(view.at)]
    if view.session.window_given:
        parts += ["--window", str(view.session.window_given)]
    return shlex.join(parts)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(":".join(map(str, each)) if isinstance(each, tuple | list) else str(each) for each in value)
    return str(value)
