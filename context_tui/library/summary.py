"""What reading a session tells whoever chooses one: how full its context was, and which other sessions belong to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Format, Lister
from context_tui.formats.guarded import GuardedFormat
from context_tui.formats.opening import format_of, scanner_for
from context_tui.formats.registry import FORMATS
from context_tui.library.cache import Details, Stamp, stamp_of
from context_tui.library.discover import IN_FILE, Entry, is_database, key_of, title_of
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Kind
from context_tui.session.window import model_at
from context_tui.tokens.accounting import find_last_usage

SUB_AGENT, BRANCH, BESIDE = "sub-agent", "branch", "session"
"""What a session is to the one that it stands below: the third is one of several in the same file."""
LARGEST_READ = 32 << 20
"""Bytes of the largest file that is read to say how full its context was: a tenth of a second or so."""
STEP = 0.008
"""Seconds of reading between two looks at whether it is still wanted."""


@dataclass(frozen=True)
class Look:
    """What reading a session told: its format, and how full its context was at the last recorded request.

    ``tokens`` is recorded, ``window`` how many the model takes, ``compactions`` how many are recorded; None: not known.
    ``cwd`` is the folder that it was in, ``problem`` why it cannot be read. ``below`` are the sessions that belong to
    it: sub-agents, branches that a rewind left, others of its file. ``parent`` is the file that it belongs to itself,
    where only its head told that, ``bytes`` are those of all its files where there are several.
    """

    agent: str = ""
    tokens: int | None = None
    window: int | None = None
    below: tuple[Entry, ...] = ()
    model: str = ""
    compactions: int | None = None
    cwd: str = ""
    problem: str = ""
    parent: str = ""
    bytes: int = 0


class _Told(NamedTuple):
    """What is kept of a look: all but what is below, of which only the branches are found by reading."""

    agent: str
    tokens: int | None
    window: int | None
    model: str
    compactions: int
    branches: list[tuple[str, int]]


class Reader:
    """Looks into the files of sessions; what it takes to know of their folders is looked up once.

    Args:
        details: what was read another time; nothing of it is used where it is not true any more.
    """

    def __init__(self, details: Details | None = None) -> None:
        self._listers: dict[str, Lister] = {}
        self._lock = Lock()  # a thread that is not wanted any more may still be at it
        self._details = details or Details(None)

    def title(self, info: SessionInfo) -> str:
        """The session's title, as :func:`discovery.title_of` finds it."""
        if info.title:
            return title_of(info)
        kept = self._details.get(info.path, info.id, "title")
        if isinstance(kept, str):
            return kept
        try:
            form, stamp = self._before(info)
        except (Error, OSError):
            return ""
        title = title_of(replace(info, format=form.name))
        self._details.keep(info.path, info.id, "title", title, stamp)
        return title

    def placed(self, entry: Entry) -> Entry:
        """The same with its format and its project, where only the head of its file tells them."""
        info = entry.info
        if entry.place and entry.agent:
            return entry
        kept = self._details.get(info.path, info.id, "place")
        if not (isinstance(kept, list) and len(kept) == 2 and all(isinstance(each, str) for each in kept)):
            kept = [entry.agent, info.cwd]
            try:
                form, stamp = self._before(replace(info, format=entry.agent))
                own = _main_of(self._listed(form, Path(info.path)), info)
                kept = [form.name, own.cwd if own else info.cwd]
                self._details.keep(info.path, info.id, "place", kept, stamp)
            except (Error, OSError):
                pass
        agent, cwd = kept
        return replace(
            entry, info=replace(info, cwd=cwd), agent=agent, place=entry.place or os.path.basename(cwd.rstrip("/\\"))
        )

    def keep(self) -> None:
        """Keep what was read for another time."""
        self._details.flush()

    def look(self, entry: Entry, checkpoint: Callable[[], object] = lambda: None) -> Look:
        """What reading a session tells; why it cannot be read, and no size where the file is too large.

        Args:
            checkpoint: called often; what it raises ends the reading.
        """
        info, agent = entry.info, entry.agent
        below: list[Entry] = []
        try:
            kept, stamp = _told(self._details.get(info.path, info.id, "look")), None
            if kept:
                form = FORMATS[kept.agent]
            else:
                form, stamp = self._before(info)
            agent = form.name
            own: SessionInfo | None = info
            if not info.id:
                listed = self._listed(form, Path(info.path))
                own = _main_of(listed, info)
                below = [_below(entry, each) for each in listed if own is None or key_of(each) != key_of(own)]
            if own is None or (not kept and _bytes_to_read(own) > LARGEST_READ):
                return Look(agent, below=tuple(below), cwd=own.cwd if own else "", parent=_parent(own))
            if kept:
                told = kept
            else:
                told = _read(own, checkpoint)
                self._details.keep(info.path, info.id, "look", told, stamp)
        except (Error, OSError) as error:
            return Look(agent, below=tuple(below), problem=str(error))
        below += _branches_of(replace(own, format=agent), told.branches)
        return Look(
            agent,
            told.tokens,
            told.window,
            tuple(below),
            told.model,
            told.compactions,
            own.cwd,
            parent=_parent(own),
            bytes=own.bytes if own.bytes > info.bytes else 0,
        )

    def _before(self, info: SessionInfo) -> tuple[Format, Stamp | None]:
        """The format of a session, and how all is that tells of it, to be asked for before any of that is read.

        Where another package reads it, that may be what nobody here knows of.
        """
        path = Path(info.path)
        before = stamp_of([path])
        form = FORMATS[info.format] if info.format else format_of(path)
        if before is None or isinstance(form, GuardedFormat):
            return form, None
        stamp = stamp_of(dict.fromkeys([path, *form.beside(path)]))
        return form, stamp if stamp and stamp[: len(before)] == before else None

    def _listed(self, form: Format, path: Path) -> list[SessionInfo]:
        with self._lock:
            return self._listers.setdefault(form.name, form.lister())(path)


def _read(own: SessionInfo, checkpoint: Callable[[], object]) -> _Told:
    scanner = scanner_for(own)
    while not scanner.advance(STEP).end:
        checkpoint()
    return _told_by(scanner.session())


def look_at(session: Session, below: Iterable[Entry] = ()) -> Look:
    """What is known of a session that has been read, and of those *below* it; the branches that were left are too."""
    told, info = _told_by(session), session.info
    branches = _branches_of(info, told.branches) if info.format in FORMATS else ()
    return Look(info.format, told.tokens, told.window, (*below, *branches), told.model, told.compactions, info.cwd)


def _told_by(session: Session) -> _Told:
    usage, window, facts = find_last_usage(session.context_at()), session.window, session.facts
    return _Told(
        session.info.format,
        usage.context if usage and usage.context else None,
        window.tokens if window.is_known else None,
        model_at(facts, len(session)) or "",
        len(facts.compactions),
        [(branch.id, branch.messages) for branch in facts.branches],
    )


def _told(kept: object) -> _Told | None:
    """What was kept, if it is of this kind and of a format that there is."""
    if not isinstance(kept, list) or len(kept) != len(_Told._fields):
        return None
    told = _Told(*kept)
    return told if told.agent in FORMATS else None


def _bytes_to_read(info: SessionInfo) -> int:
    """Bytes that reading a session takes, as far as it is known: of one in a database not all of that."""
    return info.bytes if info.id and is_database(info.path) else os.stat(info.path).st_size


def called_by(session: Session, message: int) -> list[SessionInfo]:
    """The sessions of the sub-agents that the calls of a message started, as far as records say which.

    Raises:
        UnreadableSession: records say which, and none of these sessions is here.
    """
    if session.info.format not in FORMATS:
        return []
    facts, form = session.facts, FORMATS[session.info.format]
    found, missing = list[SessionInfo](), list[UnreadableSession]()
    for block in facts.blocks_of(message):
        if facts.kind[block] == Kind.TOOL_USE:
            try:
                info = form.called(session, block)
            except UnreadableSession as error:
                missing.append(error)
                continue
            found += [info] if info else []
    if missing and not found:
        raise missing[0]
    return found


def _branches_of(main: SessionInfo, branches: Iterable[tuple[str, int]]) -> Iterator[Entry]:
    """The branches of a session that a rewind left, by their ids and numbers of messages."""
    for branch, messages in branches:
        if info := FORMATS[main.format].unlisted(main, branch):
            noun = "message" if messages == 1 else "messages"
            yield Entry(info, IN_FILE, BRANCH, main.format, f"left by a rewind: {messages:,} {noun}")


def _parent(own: SessionInfo | None) -> str:
    """The file of another session that one belongs to."""
    return own.parent if own and own.parent != own.path and os.path.isfile(own.parent) else ""


def _main_of(listed: Sequence[SessionInfo], info: SessionInfo) -> SessionInfo | None:
    """The session that the name of a file means, if it means one."""
    mains = [each for each in listed if not each.parent]
    if len(mains) == 1 or len(listed) == 1:
        return (mains or listed)[0]
    return next((each for each in mains if each.id == info.id), None)


def _below(entry: Entry, info: SessionInfo) -> Entry:
    return Entry(info, entry.group, SUB_AGENT if info.parent else BESIDE, info.format)
