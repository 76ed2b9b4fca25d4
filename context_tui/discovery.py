"""Where sessions are on this machine: the bundled samples, and those that agents keep where their formats say.

Listing opens no file; a title is read from the head of a file when it is shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.opening import format_of, session_suffixes
from context_tui.formats.registry import FORMATS
from context_tui.session.session import SessionInfo

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
            return [Entry(_info(path, status), SAMPLES, "sample") for path, status in found]
    return []


def recorded_sessions(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> list[Entry]:
    """The sessions that agents recorded on this machine: those of *cwd*'s project first, newest first in each group."""
    environ, cwd = os.environ if environ is None else environ, Path.cwd() if cwd is None else cwd
    entries = []
    for form in FORMATS.values():
        for found in form.kept(environ, cwd):
            with suppress(OSError):  # it has gone since, or is a link to nowhere
                status = found.path.stat()
                if stat.S_ISREG(status.st_mode):
                    group = HERE if found.here else ELSEWHERE
                    entries.append(Entry(_info(found.path, status), group, found.project))
    return sorted(entries, key=lambda entry: (entry.group != HERE, -entry.info.time))


def entries_of(infos: Iterable[SessionInfo]) -> list[Entry]:
    """Several sessions of one file or folder to choose from; an id stands beside the name of its file."""
    listed = list(infos)
    several = len({info.path for info in listed}) > 1
    folders = len({Path(info.path).parent for info in listed})
    group = (IN_FOLDERS if folders > 1 else IN_FOLDER) if several else IN_FILE
    return [Entry(info, group, Path(info.path).name if several and info.id else info.format) for info in listed]


def title_of(info: SessionInfo) -> str:
    """The session's title: what its reader found, else what the head of its file tells; may be empty."""
    named = info.title in (info.id, Path(info.path).stem)  # a reader that found no title gives the name again
    if not named or info.id:
        return "" if named else info.title
    path = Path(info.path)
    try:
        form = FORMATS[info.format] if info.format else format_of(path)
    except UnreadableSession:
        return ""
    return " ".join(form.title(path).split())[:TITLE_LENGTH]


def _info(path: Path, status: os.stat_result) -> SessionInfo:
    return SessionInfo(str(path), "", time=status.st_mtime, bytes=status.st_size)


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """The session files right in a folder; none when it cannot be read."""
    found, suffixes = [], session_suffixes()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffixes) and os.path.isfile(entry.path):
                    with suppress(OSError):  # gone meanwhile
                        found.append((Path(entry.path), entry.stat()))
    except OSError:
        pass
    return found
