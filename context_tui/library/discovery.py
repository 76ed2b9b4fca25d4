"""Discovery of sessions: the bundled samples, those in the agents' folders, and those at a path.

Listing opens no file. A title is read from the head of a file when it is displayed.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from logging import getLogger
from pathlib import Path

from context_tui.errors import describe_failure
from context_tui.formats import opening
from context_tui.formats.kit.files import find_working_folder
from context_tui.formats.registry import FORMATS
from context_tui.session.session import SessionInfo

MAX_TITLE_LENGTH = 200
SAMPLES, THIS_PROJECT, OTHER_PROJECTS = "samples", "this project", "other projects"
IN_THIS_FILE, IN_THIS_FOLDER, IN_THESE_FOLDERS = "in this file", "in this folder", "in these folders"
GROUPS = (IN_THIS_FILE, IN_THIS_FOLDER, IN_THESE_FOLDERS, THIS_PROJECT, OTHER_PROJECTS, SAMPLES)
"""Headings, in the order of the list."""
REPORT_INTERVAL_S = 1.0
"""Seconds between two reports of partial results."""
MAX_FILES_READ = 200
"""Largest number of files in a folder that are all opened before they are listed."""
MAX_FILES_SEARCHED = 50
"""Number of files, newest first, among which the newest session of the working folder is searched."""
SAMPLED_FILES = 20
"""Number of files that are opened as a sample of a larger folder."""
DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".db3")
"""Suffixes of files with many sessions, which are listed by a query."""
SessionKey = tuple[str, str]
"""Identity of a session: the path of its file, and its id in the file."""


@dataclass(frozen=True)
class SessionEntry:
    """A session in a list, with the heading above it (``group``) and its project or folder (``place``).

    ``agent`` is the format of the agent in whose folder the session is, and ``about`` describes a session without a
    title. The format of a discovered session is empty, since the format is detected only when the session is opened
    (``formats.opening``).
    """

    info: SessionInfo
    group: str
    place: str = ""
    agent: str = ""
    about: str = ""
    folder: str = ""

    @cached_property
    def name(self) -> str:
        """Id of the session, or else the name of its file, or of the folder if several files have the same name."""
        return self.info.id or self.folder or self.file_name

    @property
    def file_name(self) -> str:
        """Name of the file without its suffix."""
        return os.path.splitext(os.path.basename(self.info.path))[0]

    @cached_property
    def key(self) -> SessionKey:
        """Key that identifies the session among all files."""
        return build_session_key(self.info)


def build_session_key(info: SessionInfo) -> SessionKey:
    """Return a key that identifies a session, and is the same for relative and absolute paths to its file."""
    return os.path.abspath(info.path), info.id


def find_samples() -> list[SessionEntry]:
    """Return the sample sessions in the installed package or, in a checkout, beside it, or [] if there are none."""
    package = Path(__file__).parents[1]
    for folder in (package / "_samples", package.parent / "sample_sessions"):
        if files := sorted(_list_session_files(folder), key=lambda each: each[0].name):
            return [SessionEntry(_build_info(*each), SAMPLES, "sample") for each in files]
    return []


def find_recorded_sessions(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> list[SessionEntry]:
    """Return the sessions that agents recorded on this machine, those in *cwd*'s project first, newest first."""
    return _sort_entries(entry for several in _find_recorded(environ, cwd) for entry in several)


def find_newest_session() -> SessionEntry | None:
    """Return the newest session of the working folder, or None if no recent session belongs to it.

    If the path of a file does not reveal its project, the file is opened.
    """
    cwd = find_working_folder()
    for entry in sorted(find_recorded_sessions(), key=lambda entry: -entry.info.time)[:MAX_FILES_SEARCHED]:
        sessions = list[SessionEntry]()
        if is_database(entry.info.path):
            sessions = [each for each in list_database_sessions(entry) if each.group == THIS_PROJECT]
        else:
            with suppress(Exception):  # empty as yet, or unreadable
                info = opening.choose_session(entry.info.path)
                if entry.group == THIS_PROJECT or info.cwd == str(cwd):
                    sessions = [replace(entry, info=info)]
        if sessions:
            return max(sessions, key=lambda session: session.info.time)
    return None


def _find_recorded(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[list[SessionEntry]]:
    environ, cwd = os.environ if environ is None else environ, find_working_folder() if cwd is None else cwd
    for form in FORMATS.values():
        entries = []
        try:
            for session in form.find_sessions(environ, cwd):
                with suppress(OSError):  # deleted meanwhile, or a broken link
                    status = os.stat(session.path)
                    if stat.S_ISREG(status.st_mode):
                        group = THIS_PROJECT if session.is_current_project else OTHER_PROJECTS
                        info = _build_info(session.path, status)
                        entries.append(SessionEntry(info, group, session.project, form.name))
        except Exception as error:  # a defect of one format does not end the list
            getLogger(__name__).warning("%s: sessions cannot be listed: %s", form.name, describe_failure(error))
        yield entries


def _sort_entries(entries: Iterable[SessionEntry]) -> list[SessionEntry]:
    sections = _distinguish_by_folder(list(entries))
    return sorted(sections, key=lambda entry: (entry.group != THIS_PROJECT, -entry.info.time))


def _distinguish_by_folder(entries: Sequence[SessionEntry]) -> Iterator[SessionEntry]:
    names = Counter(os.path.basename(entry.info.path) for entry in entries)
    folders = Counter(tuple(entry.info.path.rsplit(os.sep, 2)[-2:]) for entry in entries)
    for entry in entries:
        if names[os.path.basename(entry.info.path)] == 1 or is_database(entry.info.path):
            yield entry
            continue
        parts = entry.info.path.split(os.sep)
        shared = folders[tuple(parts[-2:])] > 1 and len(parts) > 2
        yield replace(entry, folder=parts[-3 if shared else -2])


def find_project_name(entry: SessionEntry, cwd: str) -> str:
    """Return the name of a session's project: its working directory's name or, if unknown, the place of the entry."""
    folder = os.path.basename(cwd.rstrip("/\\")) if entry.group != SAMPLES else ""
    return folder or entry.place


def is_database(path: str) -> bool:
    """Return whether a file is a database of many sessions, judged by its name."""
    return path.endswith(DATABASE_SUFFIXES)


def list_database_sessions(entry: SessionEntry) -> list[SessionEntry]:
    """Return the sessions in a database, found with a single query, or only *entry* if it cannot be read.

    A session without a time gets that of the file. The project of a session is its working directory.
    """
    path, cwd = Path(entry.info.path), str(find_working_folder())
    try:
        form = FORMATS[entry.agent] if entry.agent else opening.detect_format(path)
        infos = form.list_sessions(path)
    except Exception:  # the overview tells the reason
        return [entry]
    entries = []
    for info in infos:
        group, place = THIS_PROJECT if info.cwd == cwd else entry.group, os.path.basename(info.cwd.rstrip("/\\"))
        info = replace(info, time=info.time or entry.info.time)
        entries.append(SessionEntry(info, group, place or entry.place, form.name))
    return entries


def find_session_infos(spec: str) -> list[SessionInfo]:
    """Return the sessions at a path, or raise UnreadableSession if there are none.

    In a large folder, files are listed by name alone, newest first, without detecting their format.
    """
    infos = opening.search_folders(Path(spec), _find_named_sessions) if os.path.isdir(spec) else []
    if len(infos) > MAX_FILES_READ and _are_sessions(infos):
        return sorted(infos, key=lambda info: -info.time)
    return opening.sessions_in(spec)


def _are_sessions(infos: Sequence[SessionInfo]) -> bool:
    sample = infos[:: max(len(infos) // SAMPLED_FILES, 1)]
    session_count = 0
    for info in sample:
        with suppress(Exception):
            session_count += bool(info.format or opening.detect_format(Path(info.path)))
    return session_count > len(sample) // 2


def _find_named_sessions(folder: Path) -> list[SessionInfo]:
    return opening.list_folder_sessions(folder) or [_build_info(*each) for each in _list_standalone_files(folder)]


def build_entries(sessions: Iterable[SessionInfo]) -> list[SessionEntry]:
    """Build the picker entries for sessions in a file or folder."""
    infos = list(sessions)
    several = len({info.path for info in infos}) > 1
    folders = len({Path(info.path).parent for info in infos})
    group = (IN_THESE_FOLDERS if folders > 1 else IN_THIS_FOLDER) if several else IN_THIS_FILE
    return [SessionEntry(info, group, _find_place(info), info.format) for info in infos]


def _find_place(info: SessionInfo) -> str:
    if project := os.path.basename(info.cwd.rstrip("/\\")):
        return project
    path = Path(info.path)
    return path.name if info.id and not _has_own_file(info) else path.absolute().parent.name


def find_choices(
    chosen_infos: Sequence[SessionInfo], current: SessionInfo | None = None
) -> Iterator[list[SessionEntry]]:
    """Yield lists of sessions for a picker: *chosen_infos* or, without these, the samples and those on this machine.

    If the session *current* is open, all sessions are listed, including those in its folder if it alone was chosen.
    The first list needs no search; longer lists follow at intervals, and the last one is complete.
    """
    nearby_entries = build_entries(chosen_infos) if current is None or len(chosen_infos) > 1 else []
    yield _merge_entries(nearby_entries, current, ())
    if chosen_infos and current is None:
        return
    if chosen_infos and current and current.path and not nearby_entries:
        nearby_entries = find_sibling_sessions(current)
        yield _merge_entries(nearby_entries, current, ())
    recorded, report_time, has_news = list[SessionEntry](), -REPORT_INTERVAL_S, False
    for entries in _find_recorded():
        recorded += entries
        has_news = has_news or bool(entries)
        if has_news and time.monotonic() - report_time > REPORT_INTERVAL_S:
            yield _merge_entries(nearby_entries, current, _sort_entries(recorded))
            report_time, has_news = time.monotonic(), False
    # The samples come last: listing them loads all formats.
    yield _merge_entries(nearby_entries, current, [*find_samples(), *_sort_entries(recorded)])


def _merge_entries(
    nearby_entries: Iterable[SessionEntry], current: SessionInfo | None, entries: Iterable[SessionEntry]
) -> list[SessionEntry]:
    merged = {entry.key: entry for entry in entries}
    for entry in nearby_entries:
        merged[entry.key] = replace(merged.pop(entry.key, entry), info=entry.info, group=entry.group)
    if current and current.path:  # use the format with which the session was opened
        current_entry = SessionEntry(current, IN_THIS_FOLDER, _find_place(current))
        current_entry = merged.get(build_session_key(current), current_entry)
        merged[current_entry.key] = replace(current_entry, info=current, agent=current.format)
    return list(merged.values())


def find_sibling_sessions(info: SessionInfo) -> list[SessionEntry]:
    """Return the sessions in the folder of another session, judged by file name, newest first."""
    main = info.parent if os.path.isfile(info.parent) else info.path
    folder = Path(os.path.abspath(main)).parent
    files = sorted(_list_standalone_files(folder), key=lambda each: (-each[1].st_mtime, each[0].name))
    return [SessionEntry(_build_info(*each), IN_THIS_FOLDER, folder.name) for each in files]


def _has_own_file(info: SessionInfo) -> bool:
    return bool(info.parent) and info.parent != info.path and not info.parent.startswith(f"{info.path}#")


def find_title(info: SessionInfo) -> str:
    """Return the title of a session from its reader, or else from the head of its file, or "" if it has none."""
    is_name = info.title in (info.id, Path(info.path).stem)  # readers use the name if there is no title
    if info.title and not is_name:
        return info.title
    if info.id and not _has_own_file(info):
        return ""
    path = Path(info.path)
    try:
        form = FORMATS[info.format] if info.format else opening.detect_format(path)
        return " ".join(form.read_title(path).split())[:MAX_TITLE_LENGTH]
    except Exception:  # the overview tells the reason
        return ""


def _build_info(path: Path, status: os.stat_result) -> SessionInfo:
    return SessionInfo(str(path), "", time=status.st_mtime, bytes=status.st_size)


def _list_standalone_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    forms = FORMATS.values()
    return [each for each in _list_session_files(folder) if all(form.is_standalone(each[0]) for form in forms)]


def _list_session_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    files, suffixes = [], opening.list_session_suffixes()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffixes) and os.path.isfile(entry.path):
                with suppress(OSError):  # deleted meanwhile
                    files.append((Path(entry.path), entry.stat()))
    return files
