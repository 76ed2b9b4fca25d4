"""Where Cline, Roo Code and their forks keep tasks and sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import Found
from context_tui.formats.cline.beside import CONVERSATIONS
from context_tui.formats.kit.places import entries, files_in, home_folder

EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")
SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".vscodium-server", ".windsurf-server")
EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")


def data_folder(environ: Mapping[str, str]) -> Path:
    """Where Cline's command line keeps its data."""
    if told := environ.get("CLINE_DATA_DIR"):
        return Path(told)
    return Path(environ.get("CLINE_DIR") or home_folder(environ) / ".cline") / "data"


def session_folder(environ: Mapping[str, str]) -> Path:
    """Where its SDK keeps sessions."""
    return Path(environ.get("CLINE_SESSION_DATA_DIR") or data_folder(environ) / "sessions")


def storages(environ: Mapping[str, str]) -> Iterator[Path]:
    """The folders in which editors keep what belongs to extensions, on Linux, macOS and Windows."""
    home = home_folder(environ)
    roots = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config"), home / "Library" / "Application Support"]
    if roaming := environ.get("APPDATA"):
        roots.append(Path(roaming))
    yield from (root / editor / "User" / "globalStorage" for root in roots for editor in EDITORS)
    yield from (home / server / "data" / "User" / "globalStorage" for server in SERVERS)


def kept_tasks(environ: Mapping[str, str]) -> Iterator[Found]:
    """The conversations of all tasks."""
    folders = [storage / name / "tasks" for storage in storages(environ) for name in EXTENSIONS]
    for folder in [*folders, data_folder(environ) / "tasks"]:
        for task in entries(folder):
            for name in CONVERSATIONS:
                if os.path.isfile(path := os.path.join(task.path, name)):
                    yield Found(Path(path), "", False)
                    break


def kept_sessions(environ: Mapping[str, str]) -> Iterator[Found]:
    """The sessions of the SDK."""
    for folder in entries(session_folder(environ)):
        for path in files_in(folder.path, ".messages.json"):
            yield Found(path, "", False)
