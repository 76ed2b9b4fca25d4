"""Reading a session in a thread: snapshots as it grows, without holding up the screen, and stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from context_tui.errors import Error
from context_tui.formats.base import Scanner
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.rows import Rows

STEP = 0.01
"""Seconds of reading between two looks at whether it is still wanted."""
YIELD = 0.001
"""Seconds in which others get their turn after each step, where nobody says what to wait for."""
PACE, SLOW_PACE, ENOUGH = 0.3, 1.0, 2_000
"""Seconds between snapshots, of which each makes the screen draw anew: at first, and once there are enough messages."""


@dataclass
class Read(Message):
    """So much has been read: the session so far, and its rows."""

    session: Session
    rows: Rows
    progress: float
    end: bool


@dataclass
class Failed(Message):
    """The session cannot be read, and why."""

    why: str


def read(
    info: SessionInfo,
    post: Callable[[Message], object],
    stopped: Callable[[], bool],
    rest: Callable[[], object] = lambda: time.sleep(YIELD),
) -> None:
    """Read a session to its end or until *stopped*, posting what there is.

    The last post says ``end`` also when it was stopped, so that what was read can be used. *rest* is called after each
    step, and returns when there may be another.
    """
    try:
        from context_tui.formats.opening import scanner_for  # every format's reader: not before the first paint

        _read(scanner_for(info), post, stopped, rest)
    except Error as error:
        post(Failed(str(error)))
    except Exception as error:  # a reader's bug must not take the program down
        post(Failed(f"{info.path}: cannot be read: {type(error).__name__}: {error}"))


def _read(
    scanner: Scanner, post: Callable[[Message], object], stopped: Callable[[], bool], rest: Callable[[], object]
) -> None:
    rows, posted, appended, pace = Rows(), -PACE, 0, PACE
    revised: int | None = None
    while True:
        step = scanner.advance(STEP)
        appended += step.appended
        if step.revised_from is not None:
            revised = step.revised_from if revised is None else min(revised, step.revised_from)
        end, now = step.end or stopped(), time.monotonic()
        if end or (appended and now - posted >= pace):
            session = scanner.session()
            rows.grow(session, revised)
            post(Read(session, rows.copy(), scanner.progress, end))
            revised, posted, pace = None, now, PACE if len(session) < ENOUGH else SLOW_PACE
        if end:
            return
        rest()
