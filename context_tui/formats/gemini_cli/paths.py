"""Paths of Gemini CLI's sessions. Sub-agents' files are in a folder named after their parent session."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from context_tui.formats.base import SessionFile
from context_tui.formats.kit.files import find_home_folder, list_entries, list_files
from context_tui.session.session import SessionInfo

CHAT_SUFFIXES = (".json", ".jsonl")
CHAT_PREFIX = "session-"
PROJECT_HASH = re.compile("[0-9a-f]{64}")


def find_projects_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of Gemini CLI's projects."""
    root = environ.get("GEMINI_CLI_HOME")
    return (Path(root) if root else find_home_folder(environ)) / ".gemini" / "tmp"


def compute_project_hash(folder: str) -> str:
    """Compute Gemini CLI's key of a project: the hash of its path, which need not be valid UTF-8."""
    return hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the sessions of all projects. Folder names are hashes of project paths, in newer versions project names.

    Another project may have the same name as the current one; only the content of a file can tell.
    """
    project_hash = compute_project_hash(str(cwd.absolute()))
    slug = re.sub("[^a-z0-9]+", "-", cwd.name.lower()).strip("-")
    for folder in list_entries(find_projects_folder(environ)):
        is_current = folder.name in (project_hash, slug)
        project = cwd.name if is_current else folder.name[:8] if PROJECT_HASH.fullmatch(folder.name) else folder.name
        files = [
            path for path in list_files(Path(folder.path, "chats"), *CHAT_SUFFIXES) if path.name.startswith(CHAT_PREFIX)
        ]
        jsonl_names = {path.name for path in files if path.suffix == ".jsonl"}
        for path in files:
            if f"{path.name}l" not in jsonl_names:  # else continued in a newer version
                yield SessionFile(path, project, is_current)


def find_subagent_files(path: Path, session_id: str) -> list[Path]:
    """List the files of a session's sub-agents."""
    if not session_id or not re.fullmatch(r"[\w-]+", session_id):
        return []
    return sorted(list_files(path.parent / session_id, *CHAT_SUFFIXES))


def build_subagent_info(path: Path, name: str, session_id: str, parent: str) -> SessionInfo:
    """Build the description of a sub-agent's session."""
    status = path.stat()
    return SessionInfo(str(path), name, session_id, path.stem, parent, status.st_mtime, status.st_size)
