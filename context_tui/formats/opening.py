"""Open a session named by its path, ``PATH#ID``, or a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from logging import getLogger
from pathlib import Path

from context_tui.errors import NoSessionFile, SeveralSessions, UnreadableSession, describe_failure
from context_tui.formats.base import HEAD_BYTES, LONG_HEAD_BYTES, Claim, Format, Scanner, scan
from context_tui.formats.kit.files import list_entries, make_unreadable_error, open_regular
from context_tui.formats.registry import FORMATS
from context_tui.session.jsontext import try_loads
from context_tui.session.session import Session, SessionInfo
from context_tui.text.sanitize import make_visible

MAX_FOLDERS = 20_000
"""Maximum number of subfolders that are searched."""
IGNORED_FOLDERS = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules", "venv"})
"""Names of folders of version control and package managers, which hold no sessions."""


def split_spec(spec: str | Path) -> tuple[Path, str | None]:
    """Split a specification into the path and the id after ``#`` (or None). An existing path is never split."""
    name, session_id = str(spec), None
    if "#" in name and not os.path.exists(spec):
        name, _, session_id = name.rpartition("#")
    if not name:  # it would be the current folder
        raise UnreadableSession(f"{str(spec)!r} names no file; give a path, PATH#ID, or - for standard input")
    return Path(name), session_id


def detect_format(path: Path) -> Format:
    """Return the format with the strongest claim to a file. Raises UnreadableSession if no format claims it."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UnreadableSession(f"{path}: is not a regular file; pipe it in: `context-tui inspect - < {path}`")
    try:
        with open_regular(path) as file:
            head = file.read(HEAD_BYTES)
            claims, side_file = _collect_claims(head, path)
            if not claims and side_file is None and head.lstrip()[:1] in (b"{", b"["):  # a long prompt may come first
                head += file.read(LONG_HEAD_BYTES - HEAD_BYTES)
                claims, side_file = _collect_claims(head, path)
    except OSError as error:
        raise make_unreadable_error(path, error) from None
    if not head.strip():
        raise UnreadableSession(f"{path}: the file {'holds only blank lines' if head else 'is empty'}")
    if side_file and side_file.strength >= max((strength for strength, _ in claims), default=0):
        raise NoSessionFile(f"{path}: is {side_file.evidence}")
    if not claims:
        document = try_loads(head) if len(head) < HEAD_BYTES else None
        if document == [] or (isinstance(document, dict) and document.get("messages") == []):
            raise UnreadableSession(f"{path}: an empty list, without any messages")
        description = "binary data, not a session" if b"\0" in head else "unknown session format"
        raise NoSessionFile(f"{path}: {description}; `context-tui formats` lists those that can be read")
    return max(claims, key=lambda claim: claim[0])[1]


def _collect_claims(head: bytes, path: Path) -> tuple[list[tuple[int, Format]], Claim | None]:
    claims = [(claim.strength, each) for each in FORMATS.values() if (claim := each.sniff(head, path))]
    from context_tui.formats.unsupported import detect_side_file  # only now: it imports Cline's format

    return claims, detect_side_file(head, path)


def list_session_suffixes() -> tuple[str, ...]:
    """Return the file suffixes of all formats, without duplicates."""
    return tuple(dict.fromkeys(suffix for form in FORMATS.values() for suffix in form.suffixes))


def sessions_in(spec: str | Path) -> list[SessionInfo]:
    """Return the sessions that *spec* names, in a file or a folder. Raises UnreadableSession if there are none."""
    path, session_id = split_spec(spec)
    sessions = _list_sessions_in_directory(path) if os.path.isdir(path) else detect_format(path).list_sessions(path)
    if session_id is not None:
        ids = [info.id for info in sessions if info.id]
        main = next((info for info in sessions if not info.parent), None)
        is_one_file = not os.path.isdir(path) or len({info.path for info in sessions}) == 1
        sessions = [info for info in sessions if info.id == session_id]
        if not sessions and main and is_one_file:
            unlisted = FORMATS[main.format].find_unlisted(main, session_id)
            sessions = [unlisted] if unlisted else []
        if not sessions:
            available = f"; available: {', '.join(ids[:10])}{', …' if len(ids) > 10 else ''}" if ids else ""
            raise UnreadableSession(f"{path}: unknown session {session_id!r}{available}")
    if not sessions:
        raise UnreadableSession(f"{path}: holds no session")
    return sessions


def _list_sessions_in_directory(path: Path) -> list[SessionInfo]:
    unreadable_folders = 0

    def list_sessions_of(folder: Path) -> list[SessionInfo]:
        nonlocal unreadable_folders
        unreadable_folders += not os.access(folder, os.R_OK | os.X_OK)
        files = (Path(entry.path) for entry in list_entries(folder))
        return list_folder_sessions(folder) or _list_sessions_of_files(files)

    try:
        os.listdir(path)
        os.stat(os.path.join(path, "."))  # a folder that may be listed but not searched yields names without files
    except OSError as error:
        raise make_unreadable_error(path, error) from None
    sessions = search_folders(path, list_sessions_of)
    if unreadable_folders and not sessions:
        count = f"unreadable folders in it: {unreadable_folders:,}"
        raise UnreadableSession(f"{path}: holds no session that can be read; {count}")
    return sessions


def search_folders(path: Path, list_sessions_of: Callable[[Path], list[SessionInfo]]) -> list[SessionInfo]:
    """Return the sessions in a folder, or else in its subfolders. Raises UnreadableSession if there are too many."""
    sessions: list[SessionInfo] = []
    searched, queue = set[str](), [path]
    while queue:
        folder = queue.pop()
        if (real_path := os.path.realpath(folder)) in searched:
            continue
        searched.add(real_path)
        if len(searched) > MAX_FOLDERS:
            raise UnreadableSession(f"{path}: has more than {MAX_FOLDERS:,} folders in it; name one of them")
        folder_sessions = list_sessions_of(folder)
        sessions += folder_sessions
        if not folder_sessions:
            entries = (each for each in reversed(list_entries(folder)) if each.name not in IGNORED_FOLDERS)
            queue += [Path(each.path) for each in entries if os.path.isdir(each)]
    return sessions


def list_folder_sessions(path: Path) -> list[SessionInfo]:
    """Return the sessions in a folder that has the layout of some format, or [] for an ordinary folder."""
    return next((sessions for form in FORMATS.values() if (sessions := form.list_folder_sessions(path))), [])


def _list_sessions_of_files(files: Iterable[Path]) -> list[SessionInfo]:
    sessions: list[SessionInfo] = []
    suffixes = list_session_suffixes()
    listers = {name: form.make_lister() for name, form in FORMATS.items()}
    for file in sorted(files):
        if file.suffix in suffixes and os.path.isfile(file):
            try:
                sessions.extend(listers[detect_format(file).name](file))
            except (UnreadableSession, OSError):
                continue
            except Exception as error:  # a failure affects one file, not the list
                getLogger(__name__).warning("%s: %s", make_visible(file), describe_failure(error))
    return sessions


def choose_session(spec: str | Path) -> SessionInfo:
    """Return the only or main session that *spec* names, or raise SeveralSessions or UnreadableSession."""
    sessions = sessions_in(spec)
    if session := find_main_session(sessions):
        return session
    main = [info for info in sessions if not info.parent]
    path, _ = split_spec(spec)
    ids = [info.spec for info in (main or sessions)]
    raise SeveralSessions(f"{path}: holds {len(ids):,} sessions; name one", ids)


def find_main_session(sessions: Sequence[SessionInfo]) -> SessionInfo | None:
    """Return the only session without a parent, or the only session at all, or None if there are several or none."""
    main = [info for info in sessions if not info.parent]
    return (main or sessions)[0] if len(main) == 1 or len(sessions) == 1 else None


def make_scanner(info: SessionInfo) -> Scanner:
    """Return a scanner for a session that :func:`sessions_in` returned."""
    return FORMATS[info.format].make_scanner(Path(info.path), info)


def open_session(spec: str | Path, *, window: int | None = None) -> Session:
    """Read the session that *spec* names (``PATH`` or ``PATH#ID``) to its end.

    Args:
        window: the context window in tokens, in place of the one in the file.

    Raises:
        UnreadableSession: the file is missing, empty, binary, or has an unknown format.
        SeveralSessions: *spec* has no id, and names several sessions.
        PlanError: the window is not a positive number.
    """
    return scan(make_scanner(choose_session(spec))).with_window(window)


def list_unrecorded(session: Session, at: int | None = None) -> tuple[str, ...]:
    """Return the kinds of text that were in the request before message *at* (default: the end) but are not in the file.

    Returns () if the kinds are unknown, or if the file holds complete requests.
    """
    form = FORMATS.get(session.info.format)
    if form is None or session.facts.holds_requests:
        return ()
    return form.list_unrecorded(session.facts, len(session) if at is None else at)


def describe_request_source(session: Session) -> str:
    """Describe where a session's complete requests are or how to record them, or return "" if that is unknown."""
    form = FORMATS.get(session.info.format)
    if form and form.requests_id and session.facts.prompts and not session.info.id:
        return f"this file holds the whole requests: {make_visible(session.info.path)}#{form.requests_id}"
    if form and form.request_recording:
        return f"to see whole requests, start the agent with: {form.request_recording}  (see docs/exact-requests.md)"
    return ""
