"""mini-swe-agent, a minimal research agent that runs shell commands.

A session is a trajectory, a JSON file ``NAME.traj.json`` with the messages and the configuration: of version 1 (texts),
of version 2 (tool calls or Responses items), or a bare list of messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, SessionFile
from context_tui.formats.kit.document_scanner import DocumentFormat, copy_document, read_document_title
from context_tui.formats.kit.documents import Element, Run
from context_tui.formats.kit.files import find_home_folder, parse_first_values
from context_tui.formats.mini_swe_agent.reader import MiniSweAgentShape

__all__ = ["MiniSweAgentFormat"]

LAST_TRAJECTORY = "last_mini_run.traj.json"


class MiniSweAgentFormat(DocumentFormat):
    """Format of mini-swe-agent's ``.traj.json``."""

    name: ClassVar[str] = "mini-swe-agent"
    about: ClassVar[str] = "mini-swe-agent trajectory (.traj.json, versions 1 and 2, and bare lists of messages)"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    shape = MiniSweAgentShape

    copy = staticmethod(copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise the members next to the messages, or the observations in a bare list."""
        values = parse_first_values(head)
        if len(values) != 1:
            return None
        value = values[0]
        if isinstance(value, dict):
            info, version = value.get("info"), value.get("trajectory_format")
            if isinstance(version, str) and version.startswith("mini"):
                return Claim(95, f"trajectory_format {version[:40]}")
            if isinstance(info, dict) and "mini_version" in info:
                return Claim(92, "info with a mini_version")
            return None
        if isinstance(value, list) and _is_bare_trajectory(value):
            return Claim(90, "commands in texts of the assistant, and their return codes in those of the user")
        return None

    def find_runs(self, values: list[Element]) -> list[Run]:
        return super().find_runs(values)[:1]

    def read_title(self, path: Path) -> str:
        return read_document_title(path, MiniSweAgentShape())

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the last trajectory, the only one that is kept by default."""
        home = find_home_folder(environ)
        folders = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config"), home / "Library" / "Application Support"]
        if local := environ.get("LOCALAPPDATA"):
            folders.append(Path(local) / "mini-swe-agent")
        places = [folder / "mini-swe-agent" for folder in folders]
        if configured := environ.get("MSWEA_GLOBAL_CONFIG_DIR"):
            places = [Path(configured)]
        return [SessionFile(path, "", False) for place in places if os.path.isfile(path := place / LAST_TRAJECTORY)]


def _is_bare_trajectory(messages: list[Any]) -> bool:
    """Return whether a list of messages is a trajectory: texts only, with a command or its output."""
    texts = [message for message in messages if isinstance(message, dict)]
    if not all(
        message.get("role") in ("system", "user", "assistant") and isinstance(message.get("content", ""), str)
        for message in texts
    ):
        return False
    has_output = any(
        message["role"] == "user" and message.get("content", "").startswith("<returncode>") for message in texts
    )
    has_command = any(
        message["role"] == "assistant" and "```mswea_bash_command" in message.get("content", "") for message in texts
    )
    return has_output or has_command
