"""Where sessions are on this machine: the bundled samples, and those that Claude Code keeps.

Listing opens no file; a title is read from the head of a file when it is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_tui.session.markers import CLAUDE_CODE_SUMMARY
from context_tui.session.session import SessionInfo

SUFFIXES = (".jsonl", ".json", ".db")
TITLE_BYTES = 65_536
"""How much of a file is searched for the first prompt."""
TITLE_LENGTH = 200
SAMPLES, HERE, ELSEWHERE = "samples", "this project", "other projects"
IN_FILE, IN_FOLDER, IN_FOLDERS = "in this file", "in this folder", "in these folders"
GROUPS = (IN_FILE, IN_FOLDER, IN_FOLDERS, HERE, ELSEWHERE, SAMPLES)
"""The headings, in the order in which they are listed."""


@dataclass(frozen=True)
class Entry:
    """A session to choose: ``group`` is the heading it stands under, ``place`` its project, or its id in a file.

    The format of a found session is empty: whoever opens it looks what it is (``formats.opening.choose``).
    """

    info: SessionInfo
    group: str
    place: str = ""

    @property
    def name(self) -> str:
        """The file's name without its suffix, or the id."""
        return self.info.id or Path(self.info.path).stem


def samples() -> list[Entry]:
    """The bundled sample sessions: in the package when it was installed, beside it in a checkout."""
    package = Path(__file__).parent
    for folder in (package / "_samples", package.parent / "sample_sessions"):
        if found := sorted(_files(folder), key=lambda each: each[0].name):
            return [Entry(_info(path, stat), SAMPLES, "sample") for path, stat in found]
    return []


def claude_code_sessions(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> list[Entry]:
    """The sessions that Claude Code recorded here: those of *cwd*'s project first, newest first in each group.

    Folders that are missing or cannot be read hold none.
    """
    root = claude_code_root(os.environ if environ is None else environ)
    here = project_slug(Path.cwd() if cwd is None else cwd)
    found: list[tuple[bool, float, Entry]] = []
    for folder in _folders(root):
        current = folder.name == here
        # The slug cannot be turned back into a path; its end is what tells projects apart.
        place = folder.name.strip("-").rsplit("-", 2)[-1] if not current else Path(cwd or Path.cwd()).name
        for path, stat in _files(folder):
            if path.suffix == ".jsonl" and not path.name.startswith("agent-"):
                info = _info(path, stat)
                found.append((not current, -stat.st_mtime, Entry(info, HERE if current else ELSEWHERE, place)))
    return [entry for _, _, entry in sorted(found, key=lambda each: each[:2])]


def claude_code_root(environ: Mapping[str, str]) -> Path:
    """The folder of Claude Code's projects."""
    if configured := environ.get("CLAUDE_CONFIG_DIR"):
        return Path(configured) / "projects"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".claude" / "projects"


def project_slug(cwd: Path) -> str:
    """Claude Code's name for a project: its absolute path with everything but letters and digits as ``-``."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(cwd.absolute()))


def entries_of(infos: Iterable[SessionInfo]) -> list[Entry]:
    """Several sessions of one file or folder to choose from; an id stands beside the name of its file."""
    listed = list(infos)
    several = len({info.path for info in listed}) > 1
    folders = len({Path(info.path).parent for info in listed})
    group = (IN_FOLDERS if folders > 1 else IN_FOLDER) if several else IN_FILE
    return [Entry(info, group, Path(info.path).name if several and info.id else info.format) for info in listed]


def title_of(info: SessionInfo) -> str:
    """The session's title: what its reader found, else the first typed prompt in the head of the file; may be empty."""
    named = info.title in (info.id, Path(info.path).stem)  # a reader that found no title gives the name again
    if not named or info.id or not info.path.endswith(".jsonl"):
        return "" if named else info.title
    from context_tui.session.jsontext import loads  # msgspec: 15 ms

    try:
        with open(info.path, "rb") as file:
            lines = file.read(TITLE_BYTES).split(b"\n")
    except OSError:
        return ""
    for line in lines:
        if b'"user"' in line:
            try:
                prompt = _typed(loads(line))
            except ValueError:  # not JSON, or cut at the end of the head
                continue
            if prompt:
                return " ".join(prompt.split())[:TITLE_LENGTH]
    return ""


def _typed(record: Any) -> str:
    """The text of a record if a person typed it."""
    from context_tui.formats.claude_code.records import is_markup  # not before a title is read

    if not isinstance(record, dict) or record.get("isMeta") or record.get("isSidechain"):
        return ""
    if "user" not in (record.get("type"), record.get("role")) or record.get("isCompactSummary"):
        return ""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else record.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            text = str(block.get("text") or "").lstrip()
            if text and not is_markup(text) and not text.startswith(CLAUDE_CODE_SUMMARY):
                return text
    return ""


def _info(path: Path, stat: os.stat_result) -> SessionInfo:
    return SessionInfo(str(path), "", time=stat.st_mtime, bytes=stat.st_size)


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """The session files right in a folder; none when it cannot be read."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIXES) and entry.is_file():
                    found.append((Path(entry.path), entry.stat()))
    except OSError:
        pass
    return found
