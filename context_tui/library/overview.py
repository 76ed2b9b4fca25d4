"""Overviews of sessions: how full the context of each was, and which other sessions belong to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from context_tui.errors import UnreadableSession, WorkStopped, describe_failure
from context_tui.formats.base import Format, Lister
from context_tui.formats.opening import detect_format, find_main_session, make_scanner
from context_tui.formats.registry import FORMATS, GuardedFormat
from context_tui.library.cache import FileStamps, SessionCache, read_stamps
from context_tui.library.discovery import IN_THIS_FILE, SessionEntry, build_session_key, find_title, is_database
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Checkpoint, Kind
from context_tui.session.window import model_at
from context_tui.text.numbers import format_count
from context_tui.tokens.accounting import find_last_usage

SUB_AGENT, BRANCH, SAME_FILE = "sub-agent", "branch", "session"
"""Relations of a session to the one above it in a list. ``SAME_FILE`` means another session of the same file."""
MAX_READ_BYTES = 32 << 20
"""Largest file, in bytes, that is read for its overview; reading it takes about a tenth of a second."""
READ_STEP_S = 0.008
"""Seconds of reading between two checkpoints."""


@dataclass(frozen=True)
class SessionOverview:
    """A session at a glance: its format, and how full its context was at the last recorded request.

    ``tokens`` is the recorded context size, ``window`` the model's context window in tokens, ``compactions`` the number
    of recorded compactions; None means unknown. ``cwd`` is the working directory. ``problem`` is the reason why the
    session cannot be read. ``children`` are sub-agents, branches abandoned by a rewind, and other sessions of its file.
    ``parent`` is the parent session's file if only the head of the session's own file names it. ``bytes`` is the
    size of all files of the session, if there are several.
    """

    agent: str = ""
    tokens: int | None = None
    window: int | None = None
    children: tuple[SessionEntry, ...] = ()
    model: str = ""
    compactions: int | None = None
    cwd: str = ""
    problem: str = ""
    parent: str = ""
    bytes: int = 0

    @property
    def share(self) -> float | None:
        """The share of the context window that the last recorded request used, or None if it is unknown."""
        return self.tokens / self.window if self.tokens is not None and self.window else None


class _CachedOverview(NamedTuple):
    """Cached part of an overview. Of the children, only branches are cached."""

    agent: str
    tokens: int | None
    window: int | None
    model: str
    compactions: int
    branches: list[tuple[str, int, bool]]


class OverviewReader:
    """Reader of titles and overviews that looks up related folders only once and caches its results in *details*."""

    def __init__(self, details: SessionCache | None = None) -> None:
        self._listers: dict[str, Lister] = {}
        self._lock = Lock()  # an abandoned thread may still be reading
        self._cache = details or SessionCache(None)

    def read_title(self, info: SessionInfo) -> str:
        """Return the title of a session from the cache, or else from :func:`discovery.find_title` ("" if none)."""
        if info.title:
            return find_title(info)
        if isinstance(cached_title := self._cache.get(info.path, info.id, "title"), str):
            return cached_title
        try:
            form, stamp = self._find_format_and_stamps(info)
        except Exception:  # the overview tells the reason
            return ""
        title = find_title(replace(info, format=form.name))
        self._cache.put(info.path, info.id, "title", title, stamp)
        return title

    def read_place(self, entry: SessionEntry) -> SessionEntry:
        """Return *entry* with its format and project, which are read from the head of the file if it lacks them."""
        info = entry.info
        if entry.place and entry.agent:
            return entry
        cached = self._cache.get(info.path, info.id, "place")
        if not (isinstance(cached, list) and len(cached) == 2 and all(isinstance(each, str) for each in cached)):
            cached = [entry.agent, info.cwd]
            with suppress(Exception):  # the overview tells the reason
                form, stamp = self._find_format_and_stamps(replace(info, format=entry.agent))
                main = _find_main(self._list_sessions(form, Path(info.path)), info)
                cached = [form.name, main.cwd if main else info.cwd]
                self._cache.put(info.path, info.id, "place", cached, stamp)
        agent, cwd = cached
        place = entry.place or os.path.basename(cwd.rstrip("/\\"))
        return replace(entry, info=replace(info, cwd=cwd), agent=agent, place=place)

    def flush(self) -> None:
        """Write new results to the cache."""
        self._cache.flush()

    def read_overview(self, entry: SessionEntry, checkpoint: Checkpoint = lambda: None) -> SessionOverview:
        """Return a session's overview, with a problem if it is unreadable, or without tokens if it is too large."""
        info, agent = entry.info, entry.agent
        children: list[SessionEntry] = []
        try:
            cached = _parse_cached(self._cache.get(info.path, info.id, "look"))
            form, stamp = (FORMATS[cached.agent], None) if cached else self._find_format_and_stamps(info)
            agent = form.name
            main: SessionInfo | None = info
            if not info.id:
                infos = self._list_sessions(form, Path(info.path))
                main = _find_main(infos, info)
                main_key = build_session_key(main) if main else None
                others = ((each, SUB_AGENT if each.parent else SAME_FILE) for each in infos)
                children = [SessionEntry(each, entry.group, place, each.format) for each, place in others]
                children = [each for each in children if each.key != main_key]
            if main is None or (not cached and _count_bytes_to_read(main) > MAX_READ_BYTES):
                cwd = main.cwd if main else ""
                return SessionOverview(agent, children=tuple(children), cwd=cwd, parent=_find_parent(main))
            measurements = cached or _read_session(main, checkpoint)
            if not cached:
                self._cache.put(info.path, info.id, "look", measurements, stamp)
        except WorkStopped:
            raise
        except Exception as error:  # a defect costs one session, not the list
            return SessionOverview(agent, children=tuple(children), problem=describe_failure(error))
        overview = _complete_overview(measurements, replace(main, format=agent), children)
        return replace(overview, parent=_find_parent(main), bytes=main.bytes if main.bytes > info.bytes else 0)

    def _find_format_and_stamps(self, info: SessionInfo) -> tuple[Format, FileStamps | None]:
        """Return the format of a session and the stamps of its files, taken before any of them is read.

        The stamps are None if the format is from another package, since it may read further files.
        """
        path = Path(info.path)
        path_stamps = read_stamps([path])
        form = FORMATS[info.format] if info.format else detect_format(path)
        if path_stamps is None or isinstance(form, GuardedFormat):
            return form, None
        stamps = read_stamps(dict.fromkeys([path, *form.related_files(path)]))
        return form, stamps if stamps and stamps[: len(path_stamps)] == path_stamps else None

    def _list_sessions(self, form: Format, path: Path) -> list[SessionInfo]:
        with self._lock:
            return self._listers.setdefault(form.name, form.make_lister())(path)


def _read_session(info: SessionInfo, checkpoint: Checkpoint) -> _CachedOverview:
    scanner = make_scanner(info)
    while not scanner.advance(READ_STEP_S).end:
        checkpoint()
    return _build_cached(scanner.session())


def build_overview(session: Session) -> SessionOverview:
    """Build the overview of a session that has been read, with the branches that it abandoned as children."""
    return _complete_overview(_build_cached(session), session.info, ())


def _complete_overview(cached: _CachedOverview, info: SessionInfo, children: Iterable[SessionEntry]) -> SessionOverview:
    _, tokens, window, model, compactions, branches = cached
    branch_entries = _find_branches(info, branches) if info.format in FORMATS else ()
    children = (*children, *branch_entries)
    return SessionOverview(info.format, tokens, window, children, model, compactions, info.cwd)


def _build_cached(session: Session) -> _CachedOverview:
    usage, window, facts = find_last_usage(session.context_at()), session.window, session.facts
    return _CachedOverview(
        session.info.format,
        usage.context if usage and usage.context else None,
        window.tokens if window.is_known else None,
        model_at(facts, len(session)) or "",
        len(facts.compactions),
        [(branch.id, branch.messages, branch.is_at_summary) for branch in facts.branches],
    )


def _parse_cached(value: object) -> _CachedOverview | None:
    if not isinstance(value, list) or len(value) != len(_CachedOverview._fields):
        return None
    overview = _CachedOverview(*value)
    return overview if overview.agent in FORMATS else None


def _count_bytes_to_read(info: SessionInfo) -> int:
    return info.bytes if info.id and is_database(info.path) else os.stat(info.path).st_size


def find_subagent_sessions(session: Session, message: int) -> list[SessionInfo]:
    """Return the sub-agent sessions that calls in *message* started, or raise UnreadableSession if none is found."""
    if session.info.format not in FORMATS:
        return []
    facts, form = session.facts, FORMATS[session.info.format]
    sessions, errors = list[SessionInfo](), list[UnreadableSession]()
    for block in facts.blocks_of(message):
        if facts.kind[block] == Kind.TOOL_USE:
            try:
                info = form.subagent_of(session, block)
            except UnreadableSession as error:
                errors.append(error)
                continue
            sessions += [info] if info else []
    if errors and not sessions:
        raise errors[0]
    return sessions


def _find_branches(main: SessionInfo, branches: Iterable[tuple[str, int, bool]]) -> Iterator[SessionEntry]:
    for branch, messages, is_at_summary in branches:
        if info := FORMATS[main.format].find_unlisted(main, branch):
            origin = "at a request for a summary" if is_at_summary else "left by a rewind"
            about = f"{origin}: {format_count(messages, 'message')}"
            yield SessionEntry(info, IN_THIS_FILE, BRANCH, main.format, about)


def _find_parent(info: SessionInfo | None) -> str:
    return info.parent if info and info.parent != info.path and os.path.isfile(info.parent) else ""


def _find_main(infos: Sequence[SessionInfo], info: SessionInfo) -> SessionInfo | None:
    same = (each for each in infos if not each.parent and each.id == info.id)
    return find_main_session(infos) or next(same, None)
