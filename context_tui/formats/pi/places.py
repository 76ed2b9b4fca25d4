"""Where pi and OpenClaw keep their sessions, and what these are called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import Found
from context_tui.formats.kit.places import entries, files_in, folder_of


def sessions_folder(environ: Mapping[str, str]) -> Path:
    """The folder of pi's sessions, with one for each project."""
    if environ.get("PI_CODING_AGENT_SESSION_DIR"):
        return folder_of(environ, "PI_CODING_AGENT_SESSION_DIR")
    return folder_of(environ, "PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions"


def project_folder(cwd: Path) -> str:
    """pi's name for the folder of a project: its path without the first slash, others as ``-``."""
    return f"--{re.sub(r'[/:]', '-', re.sub(r'^[/]', '', str(cwd.absolute()).replace(chr(92), '/')))}--"


def kept(environ: Mapping[str, str], cwd: Path) -> Iterator[Found]:
    """The sessions of every project; in a folder of one's own they may stand without one."""
    root, here = sessions_folder(environ), project_folder(cwd)
    for path in files_in(root, ".jsonl"):
        yield Found(path, root.name, False)
    for folder in entries(root):
        if not folder.name.endswith(".jsonl"):
            # The name cannot be turned back into a path; its end is what tells projects apart.
            project = cwd.name if folder.name == here else folder.name.strip("-").rsplit("-", 1)[-1]
            for path in files_in(folder.path, ".jsonl"):
                yield Found(path, project, folder.name == here)
    for agent in entries(folder_of(environ, "OPENCLAW_STATE_DIR", ".openclaw") / "agents"):
        for path in files_in(Path(agent.path, "sessions"), ".jsonl"):
            yield Found(path, agent.name, False)
