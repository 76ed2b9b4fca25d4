"""Find opencode's databases, and the session files of its storage tree before 1.2."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import SessionFile
from context_tui.formats.kit.files import ALL_PROJECTS, find_data_home, list_entries


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield opencode's databases or, if there are none, the session files that opencode would migrate to one."""
    folder = find_data_home(environ) / "opencode"
    configured = environ.get("OPENCODE_DB") or ""
    configured_paths = [folder / configured] if configured and configured != ":memory:" else []
    names = re.compile(r"opencode(-.*)?\.db")  # of the release, or of a channel
    databases = [Path(entry.path) for entry in list_entries(folder) if names.fullmatch(entry.name)]
    paths = [path for path in dict.fromkeys([*configured_paths, *databases]) if os.path.isfile(path)]
    yield from (SessionFile(path, ALL_PROJECTS, False) for path in paths)
    for path in () if paths else list_session_files(folder / "storage"):
        yield SessionFile(path, path.parent.name[:8], False)


def list_session_files(storage: Path) -> Iterator[Path]:
    """Yield the session files in a storage tree, in all projects."""
    for project in list_entries(storage / "session"):
        for entry in list_entries(project.path):
            if entry.name.startswith("ses_") and entry.name.endswith(".json"):
                yield Path(entry.path)


def find_folder_files(folder: Path) -> list[Path]:
    """Return the session files for *folder*: a storage tree, the data folder above it, or a session's messages."""
    if folder.parent.name == "message" and folder.name.startswith("ses_"):
        root = folder.parent.parent
        session_files = [path for path in list_session_files(root) if path.stem == folder.name]
        old_file = root / "info" / f"{folder.name}.json"
        return session_files or [path for path in [old_file] if os.path.isfile(path)]
    for root in (folder, folder / "storage"):
        if os.path.isdir(root / "session") and os.path.isdir(root / "message"):
            return [*list_session_files(root)]
    return []


def find_session_file(path: Path, session_id: str) -> Path | None:
    """Return the file of a session in the storage tree that contains *path*, or None if it is missing."""
    files = (file for root in path.parents[:4] for file in list_session_files(root))
    return next((file for file in files if file.stem == session_id), None)
