"""Reading a session in a thread: snapshots as it grows, without holding up the screen, and stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

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
LESS_THAN_ALL = 0.999
"""The most that is said to have been read while there may be more."""


@dataclass
class Read:
    """So much has been read: the session so far, and its rows. ``end`` says that reading ended, here if it was stopped.

    ``progress`` is the share of the file that has been read; less than 1 at the end where it was stopped.
    """

    session: Session
    rows: Rows
    progress: float
    end: bool


@dataclass
class Failed:
    """The session cannot be read, and why."""

    why: str


class Loading:
    """A pass over a session that can be stopped, and gone on with where it was."""

    def __init__(self, info: SessionInfo) -> None:
        self._info, self._rows = info, Rows()
        self._scanner: Scanner | None = None
        self._revised: int | None = None

    def read(
        self,
        post: Callable[[Read | Failed], object],
        stopped: Callable[[], bool],
        rest: Callable[[], object] = lambda: time.sleep(YIELD),
    ) -> None:
        """Read to the end or until *stopped*, posting what there is.

        The last post says ``end`` also when it was stopped, so that what was read can be used. *rest* is called after
        each step, and returns when there may be another.
        """
        try:
            if self._scanner is None:
                from context_tui.formats.opening import scanner_for  # every format's reader: not before the first paint

                self._scanner = scanner_for(self._info)
            self._read(self._scanner, post, stopped, rest)
        except Error as error:
            post(Failed(str(error)))
        except Exception as error:  # a reader's bug must not take the program down
            post(Failed(f"{self._info.path}: cannot be read: {type(error).__name__}: {error}"))

    def _read(
        self,
        scanner: Scanner,
        post: Callable[[Read | Failed], object],
        stopped: Callable[[], bool],
        rest: Callable[[], object],
    ) -> None:
        posted, appended, pace = -PACE, 0, PACE
        while True:
            step = scanner.advance(STEP)
            appended += step.appended
            if step.revised_from is not None:
                old = self._revised
                self._revised = step.revised_from if old is None else min(old, step.revised_from)
            end, now = step.end or stopped(), time.monotonic()
            if end or (appended and now - posted >= pace):
                session = scanner.session()
                self._rows.grow(session, self._revised)
                progress = 1.0 if step.end else min(scanner.progress, LESS_THAN_ALL)
                post(Read(session, self._rows.copy(), progress, end))
                self._revised, posted, pace = None, now, PACE if len(session) < ENOUGH else SLOW_PACE
            if end:
                return
            rest()
