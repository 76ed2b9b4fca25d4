"""Find the files of Gemini CLI's sessions and of their sub-agents, which are in a folder named after the session."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import SessionFile
from context_tui.formats.kit.files import find_home_folder, list_entries, list_files
from context_tui.formats.kit.heads import read_first_object
from context_tui.formats.kit.values import parse_id
from context_tui.session.session import SessionInfo

CHAT_SUFFIXES = (".json", ".jsonl")
CHAT_PREFIX = "session-"
PROJECT_HASH = re.compile("[0-9a-f]{64}")


def find_projects_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Gemini CLI has a folder for each project."""
    return Path(environ.get("GEMINI_CLI_HOME") or find_home_folder(environ)) / ".gemini" / "tmp"


def compute_project_hash(folder: str) -> str:
    """Return Gemini CLI's key for a project, the SHA-256 hash of its path. The path need not be valid UTF-8."""
    return hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the sessions in all projects.

    The name of a project's folder is a hash of the project's path, or in newer versions the project's name. A project
    with the same name as the current one is taken for the current one, as only a file's content tells them apart.
    """
    project_hash = compute_project_hash(str(cwd.absolute()))
    slug = re.sub("[^a-z0-9]+", "-", cwd.name.lower()).strip("-")
    for folder in list_entries(find_projects_folder(environ)):
        is_current = folder.name in (project_hash, slug)
        project = cwd.name if is_current else folder.name[:8] if PROJECT_HASH.fullmatch(folder.name) else folder.name
        chats = list_files(Path(folder.path, "chats"), *CHAT_SUFFIXES)
        files = [path for path in chats if path.name.startswith(CHAT_PREFIX)]
        jsonl_names = {path.name for path in files if path.suffix == ".jsonl"}
        for path in files:
            if f"{path.name}l" not in jsonl_names:  # else continued in a newer version
                yield SessionFile(path, project, is_current)


def find_subagent_files(path: Path) -> list[Path]:
    """Return the files of the sub-agents that the session at *path* started, sorted by name."""
    session_id = parse_id(read_first_object(path).get("sessionId"))
    if not re.fullmatch(r"[\w-]+", session_id):
        return []
    return sorted(list_files(path.parent / session_id, *CHAT_SUFFIXES))


def build_subagent_info(path: Path, name: str, parent: str) -> SessionInfo:
    """Return the list entry for the sub-agent session at *path*, in the format *name*."""
    status = path.stat()
    return SessionInfo(str(path), name, path.stem, path.stem, parent, status.st_mtime, status.st_size)
