"""Where sessions are on this machine: the bundled samples, and those that agents keep where their formats say.

Listing opens no file; a title is read from the head of a file when it is shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
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
Key = tuple[str, str]
"""What tells sessions apart: the path of the file, and the id in it."""


@dataclass(frozen=True)
class Entry:
    """A session to choose: ``group`` is the heading it stands under, ``place`` its project or folder.

    ``agent`` is the format that the program it was found with writes, ``about`` what is said of it where it has no
    title. The format of a found session is empty: whoever opens it looks what it is (``formats.opening.choose``).
    """

    info: SessionInfo
    group: str
    place: str = ""
    agent: str = ""
    about: str = ""

    @cached_property
    def name(self) -> str:
        """The file's name without its suffix, or the id."""
        return self.info.id or self.file_name

    @property
    def file_name(self) -> str:
        """The file's name without its suffix."""
        return os.path.splitext(os.path.basename(self.info.path))[0]

    @cached_property
    def key(self) -> Key:
        """What tells it from others."""
        return key_of(self.info)


def key_of(info: SessionInfo) -> Key:
    """What tells a session from others, however its file was named."""
    return os.path.abspath(info.path), info.id


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
                    entries.append(Entry(_info(found.path, status), group, found.project, form.name))
    return sorted(entries, key=lambda entry: (entry.group != HERE, -entry.info.time))


def entries_of(infos: Iterable[SessionInfo]) -> list[Entry]:
    """Several sessions of one file or folder to choose from, with the names of their folders, or of their files."""
    listed = list(infos)
    several = len({info.path for info in listed}) > 1
    folders = len({Path(info.path).parent for info in listed})
    group = (IN_FOLDERS if folders > 1 else IN_FOLDER) if several else IN_FILE
    return [Entry(info, group, _place(info), info.format) for info in listed]


def _place(info: SessionInfo) -> str:
    path = Path(info.path)
    return path.name if info.id and not _has_own_file(info) else path.absolute().parent.name


def choices(given: Sequence[SessionInfo], current: SessionInfo | None = None) -> list[Entry]:
    """The sessions that a picker lists: those *given*, or where none are, the samples and those on this machine.

    On the way back from the session *current* they stand together; where one was given, so do those in its folder.
    """
    if current is None:
        return entries_of(given) if given else [*samples(), *recorded_sessions()]
    near = entries_of(given) if len(given) > 1 else beside(current) if given and current.path else []
    found = {entry.key: entry for entry in (*samples(), *recorded_sessions())}
    for entry in near:
        found[entry.key] = replace(found.pop(entry.key, entry), info=entry.info, group=entry.group)
    if current.path:  # as it was opened: its format is known
        known = found.get(key_of(current), Entry(current, IN_FOLDER, _place(current)))
        found[known.key] = replace(known, info=current, agent=current.format)
    return list(found.values())


def beside(info: SessionInfo) -> list[Entry]:
    """The sessions in the folder of another, by their names; newest first."""
    main = info.parent if os.path.isfile(info.parent) else info.path
    folder = Path(os.path.abspath(main)).parent
    files = [(path, status) for path, status in _files(folder) if all(f.listed(path) for f in FORMATS.values())]
    return [
        Entry(_info(path, status), IN_FOLDER, folder.name)
        for path, status in sorted(files, key=lambda each: (-each[1].st_mtime, each[0].name))
    ]


def _has_own_file(info: SessionInfo) -> bool:
    """Whether a session that belongs to another has a file of its own."""
    return bool(info.parent) and info.parent != info.path


def title_of(info: SessionInfo) -> str:
    """The session's title: what its reader found, else what the head of its file tells; may be empty."""
    named = info.title in (info.id, Path(info.path).stem)  # a reader that found no title gives the name again
    if info.title and not named:
        return info.title
    if info.id and not _has_own_file(info):
        return ""
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
