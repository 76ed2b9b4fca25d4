"""Reading a session in a thread: snapshots as it grows, without holding up the screen, and stopped at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from context_tui.errors import Error
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.timeline.rows import TimelineRows

if TYPE_CHECKING:
    from context_tui.library.follow import GrowingSession

READ_STEP_S = 0.01
"""Seconds of reading between two looks at whether it is still wanted."""
YIELD_S = 0.001
"""Seconds in which others get their turn after each step, where nobody says what to wait for."""
SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_MESSAGES = 0.3, 1.0, 2_000
"""Seconds between snapshots, of which each makes the screen draw anew: at first, and once there are enough messages."""
FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S = 5_000, 3.0
"""Messages of a followed session for which a second goes by between snapshots, and the most seconds: what the screen
works out of each takes time in proportion, and is not to fill the time. What comes after a pause is shown at once.
"""
MAX_PARTIAL_PROGRESS = 0.999
"""The most that is said to have been read while there may be more."""


@dataclass
class SessionSnapshot:
    """Session as read so far, and its rows. ``is_end`` marks the end of reading, also where it was stopped.

    ``progress`` is the share of the file that has been read; less than 1 at the end where it was stopped.
    """

    session: Session
    rows: TimelineRows
    progress: float
    is_end: bool


@dataclass
class ReadFailure:
    """The session cannot be read, and why."""

    reason: str


class SessionLoader:
    """Pass over a session that can be stopped and resumed."""

    def __init__(self, info: SessionInfo) -> None:
        self._info, self._rows = info, TimelineRows()
        self._growing: GrowingSession | None = None
        self._revised_from: int | None = None

    def read(
        self,
        post: Callable[[SessionSnapshot | ReadFailure], object],
        is_stopped: Callable[[], bool],
        yield_turn: Callable[[], object] = lambda: time.sleep(YIELD_S),
    ) -> None:
        """Read to the end or until *stopped*, posting what there is.

        The last post says ``is_end`` also when it was stopped, so that what was read can be used. *rest* is called after
        each step, and returns when there may be another.
        """
        try:
            if self._growing is None:
                from context_tui.library.follow import (
                    GrowingSession,  # every format's reader: not before the first paint
                )

                self._growing = GrowingSession(self._info)
            self._read_steps(self._growing, post, is_stopped, yield_turn)
        except Error as error:
            post(ReadFailure(str(error)))
        except Exception as error:  # a reader's bug must not take the program down
            post(ReadFailure(f"{self._info.path}: cannot be read: {type(error).__name__}: {error}"))

    def follow(
        self, post: Callable[[SessionSnapshot | ReadFailure], object], stop: Event, yield_turn: Callable[[], object]
    ) -> None:
        """Read on whenever the file has changed, until *stop* is set. What is wrong with it is posted once.

        Raises:
            OSError: there is no folder any more to look at.
        """
        from context_tui.library.follow import SessionWatch

        told, due = "", 0.0

        def hand_on(report: SessionSnapshot | ReadFailure) -> None:
            nonlocal told, due
            if isinstance(report, SessionSnapshot):
                due = time.monotonic() + min(len(report.session) / FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S)
            else:
                self._growing = None  # from the start, when there is something again
                if report.reason == told:
                    return
            told = report.reason if isinstance(report, ReadFailure) else ""
            post(report)

        watch = SessionWatch(self._info, stop)
        self.read(hand_on, stop.is_set, yield_turn)  # what came since it was read last
        for _ in watch.wait_for_changes():
            stop.wait(max(due - time.monotonic(), 0))
            self.read(hand_on, stop.is_set, yield_turn)

    def _read_steps(
        self,
        scanner: GrowingSession,
        post: Callable[[SessionSnapshot | ReadFailure], object],
        is_stopped: Callable[[], bool],
        yield_turn: Callable[[], object],
    ) -> None:
        posted, appended, pace = -SNAPSHOT_INTERVAL_S, 0, SNAPSHOT_INTERVAL_S
        while True:
            step = scanner.advance(READ_STEP_S)
            appended += step.appended
            if step.revised_from is not None:
                old = self._revised_from
                self._revised_from = step.revised_from if old is None else min(old, step.revised_from)
            end, now = step.end or is_stopped(), time.monotonic()
            if end or (appended and now - posted >= pace):
                session = scanner.session()
                self._rows.grow(session, self._revised_from)
                progress = 1.0 if step.end else min(scanner.progress, MAX_PARTIAL_PROGRESS)
                post(SessionSnapshot(session, self._rows.copy(), progress, end))
                self._revised_from, posted, pace = (
                    None,
                    now,
                    SNAPSHOT_INTERVAL_S if len(session) < SLOW_SNAPSHOT_MESSAGES else SLOW_SNAPSHOT_INTERVAL_S,
                )
            if end:
                return
            yield_turn()
