"""Find the folders in which Cline, Roo Code and their forks keep tasks and sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import SessionFile
from context_tui.formats.cline.task_files import CONVERSATION_FILES
from context_tui.formats.kit.files import find_home_folder, list_entries, list_files

EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")
REMOTE_SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".vscodium-server", ".windsurf-server")
EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")


def find_data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Cline's command line keeps its data."""
    if configured := environ.get("CLINE_DATA_DIR"):
        return Path(configured)
    return Path(environ.get("CLINE_DIR") or find_home_folder(environ) / ".cline") / "data"


def find_extension_storages(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders in which editors store the data of extensions on Linux, macOS and Windows."""
    home = find_home_folder(environ)
    roots = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config"), home / "Library" / "Application Support"]
    if app_data := environ.get("APPDATA"):
        roots.append(Path(app_data))
    yield from (root / editor / "User" / "globalStorage" for root in roots for editor in EDITORS)
    yield from (home / server / "data" / "User" / "globalStorage" for server in REMOTE_SERVERS)


def find_tasks(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the conversation file of each task that an extension or Cline's command line keeps."""
    folders = [storage / name / "tasks" for storage in find_extension_storages(environ) for name in EXTENSIONS]
    for folder in [*folders, find_data_folder(environ) / "tasks"]:
        for task in list_entries(folder):
            for name in CONVERSATION_FILES:
                if os.path.isfile(path := os.path.join(task.path, name)):
                    yield SessionFile(Path(path), "", False)
                    break


def find_sdk_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the session files that Cline's SDK keeps."""
    for folder in list_entries(environ.get("CLINE_SESSION_DATA_DIR") or find_data_folder(environ) / "sessions"):
        for path in list_files(folder.path, ".messages.json"):
            yield SessionFile(path, "", False)
