"""Reading a session in a thread: snapshots as it grows, without holding up the screen, and stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from context_tui.errors import Error
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.rows import Rows

if TYPE_CHECKING:
    from context_tui.library.follow import Growing

STEP = 0.01
"""Seconds of reading between two looks at whether it is still wanted."""
YIELD = 0.001
"""Seconds in which others get their turn after each step, where nobody says what to wait for."""
PACE, SLOW_PACE, ENOUGH = 0.3, 1.0, 2_000
"""Seconds between snapshots, of which each makes the screen draw anew: at first, and once there are enough messages."""
FOLLOWED, LONGEST_PACE = 5_000, 3.0
"""Messages of a followed session for which a second goes by between snapshots, and the most seconds: what the screen
works out of each takes time in proportion, and is not to fill the time. What comes after a pause is shown at once.
"""
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
        self._growing: Growing | None = None
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
            if self._growing is None:
                from context_tui.library.follow import Growing  # every format's reader: not before the first paint

                self._growing = Growing(self._info)
            self._read(self._growing, post, stopped, rest)
        except Error as error:
            post(Failed(str(error)))
        except Exception as error:  # a reader's bug must not take the program down
            post(Failed(f"{self._info.path}: cannot be read: {type(error).__name__}: {error}"))

    def follow(self, post: Callable[[Read | Failed], object], stop: Event, rest: Callable[[], object]) -> None:
        """Read on whenever the file has changed, until *stop* is set. What is wrong with it is posted once.

        Raises:
            OSError: there is no folder any more to look at.
        """
        from context_tui.library.follow import Watch

        told, due = "", 0.0

        def hand_on(report: Read | Failed) -> None:
            nonlocal told, due
            if isinstance(report, Read):
                due = time.monotonic() + min(len(report.session) / FOLLOWED, LONGEST_PACE)
            else:
                self._growing = None  # from the start, when there is something again
                if report.why == told:
                    return
            told = report.why if isinstance(report, Failed) else ""
            post(report)

        watch = Watch(self._info, stop)
        self.read(hand_on, stop.is_set, rest)  # what came since it was read last
        for _ in watch.changes():
            stop.wait(max(due - time.monotonic(), 0))
            self.read(hand_on, stop.is_set, rest)

    def _read(
        self,
        scanner: Growing,
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
