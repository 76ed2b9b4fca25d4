"""What reading a session tells whoever chooses one: how full its context was, and which other sessions belong to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from context_tui.discovery import IN_FILE, Entry, key_of
from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import Format, Lister
from context_tui.formats.opening import format_of, scanner_for
from context_tui.formats.registry import FORMATS
from context_tui.session.facts import Branch, Kind
from context_tui.session.session import Session, SessionInfo
from context_tui.tokens.recorded import recorded_usage

SUB_AGENT, BRANCH, BESIDE = "sub-agent", "branch", "session"
"""What a session is to the one that it stands below: the third is one of several in the same file."""
LARGEST_READ = 32 << 20
"""Bytes of the largest file that is read to say how full its context was: a tenth of a second or so."""
STEP = 0.008
"""Seconds of reading between two looks at whether it is still wanted."""


@dataclass(frozen=True)
class Look:
    """What reading a session told: its format, and how full its context was at the last recorded request.

    ``tokens`` is recorded, ``window`` how many the model takes; None: not known. ``below`` are the sessions that belong
    to it: sub-agents, branches that a rewind left, others of its file.
    """

    agent: str = ""
    tokens: int | None = None
    window: int | None = None
    below: tuple[Entry, ...] = ()


class Reader:
    """Looks into the files of sessions; what it takes to know of their folders is looked up once."""

    def __init__(self) -> None:
        self._listers: dict[str, Lister] = {}
        self._lock = Lock()  # a thread that is not wanted any more may still be at it

    def look(self, entry: Entry, checkpoint: Callable[[], object] = lambda: None) -> Look:
        """What reading a session tells; nothing where it cannot be read, no size where the file is too large.

        Args:
            checkpoint: called often; what it raises ends the reading.
        """
        info, agent = entry.info, entry.agent
        below: list[Entry] = []
        try:
            form = FORMATS[info.format] if info.format else format_of(Path(info.path))
            agent = form.name
            own: SessionInfo | None = info
            if not info.id:
                listed = self._listed(form, Path(info.path))
                own = _main_of(listed, info)
                below = [_below(entry, each) for each in listed if own is None or key_of(each) != key_of(own)]
            if own is None or os.stat(info.path).st_size > LARGEST_READ:
                return Look(agent, below=tuple(below))
            session = _read(own, checkpoint)
        except (Error, OSError):
            return Look(agent, below=tuple(below))
        return look_at(session, below)

    def _listed(self, form: Format, path: Path) -> list[SessionInfo]:
        with self._lock:
            return self._listers.setdefault(form.name, form.lister())(path)


def look_at(session: Session, below: Iterable[Entry] = ()) -> Look:
    """What is known of a session that has been read, and of those *below* it; the branches that were left are too."""
    usage, window, info = recorded_usage(session.context_at()), session.window, session.info
    return Look(
        info.format,
        usage.context if usage and usage.context else None,
        window.tokens if window.known else None,
        (*below, *(_branches_of(info, session.facts.branches) if info.format in FORMATS else ())),
    )


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


def _branches_of(main: SessionInfo, branches: Iterable[Branch]) -> Iterator[Entry]:
    """The branches of a session that a rewind left."""
    for branch in branches:
        if info := FORMATS[main.format].unlisted(main, branch.id):
            noun = "message" if branch.messages == 1 else "messages"
            about = f"left by a rewind: {branch.messages:,} {noun}"
            yield Entry(info, IN_FILE, BRANCH, main.format, about)


def _main_of(listed: Sequence[SessionInfo], info: SessionInfo) -> SessionInfo | None:
    """The session that the name of a file means, if it means one."""
    mains = [each for each in listed if not each.parent]
    if len(mains) == 1 or len(listed) == 1:
        return (mains or listed)[0]
    return next((each for each in mains if each.id == info.id), None)


def _below(entry: Entry, info: SessionInfo) -> Entry:
    return Entry(info, entry.group, SUB_AGENT if info.parent else BESIDE, info.format)


def _read(info: SessionInfo, checkpoint: Callable[[], object]) -> Session:
    scanner = scanner_for(info)
    while not scanner.advance(STEP).end:
        checkpoint()
    return scanner.session()
