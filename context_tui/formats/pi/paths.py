"""Find the session files of pi and OpenClaw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import SessionFile
from context_tui.formats.kit.files import find_program_folder, list_entries, list_files


def format_project_folder(cwd: Path) -> str:
    """Return pi's name for a project's folder, such as ``--home-user-project--`` for ``/home/user/project``."""
    return f"--{re.sub(r'[/:]', '-', re.sub(r'^[/]', '', str(cwd.absolute()).replace(chr(92), '/')))}--"


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the sessions in every project, and those directly in a configured folder."""
    root = find_program_folder(environ, "PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions"
    if environ.get("PI_CODING_AGENT_SESSION_DIR"):
        root = find_program_folder(environ, "PI_CODING_AGENT_SESSION_DIR")
    current_folder = format_project_folder(cwd)
    for path in list_files(root, ".jsonl"):
        yield SessionFile(path, root.name, False)
    for folder in list_entries(root):
        if not folder.name.endswith(".jsonl"):
            # The name cannot be turned back into a path; its end distinguishes projects.
            project = cwd.name if folder.name == current_folder else folder.name.strip("-").rsplit("-", 1)[-1]
            for path in list_files(folder.path, ".jsonl"):
                yield SessionFile(path, project, folder.name == current_folder)
    for agent in list_entries(find_program_folder(environ, "OPENCLAW_STATE_DIR", ".openclaw") / "agents"):
        for path in list_files(Path(agent.path, "sessions"), ".jsonl"):
            yield SessionFile(path, agent.name, False)
