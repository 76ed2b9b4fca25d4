"""Session loader that runs in a thread: posts snapshots, yields to the screen, and can be stopped at any time."""

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
"""Seconds of reading between two checks for cancellation."""
YIELD_S = 0.001
"""Seconds to yield to other threads after each step, by default."""
SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_MESSAGES = 0.3, 1.0, 2_000
"""Seconds between snapshots, as each redraws the screen: at first, and from so many messages on."""
FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S = 5_000, 3.0
"""Pace of the snapshots of a followed session: one second per so many messages, and the longest interval.

The screen needs time in proportion for each snapshot. The first change after a pause is shown at once.
"""
MAX_PARTIAL_PROGRESS = 0.999
"""Largest share that is reported while there may be more to read."""


@dataclass
class SessionSnapshot:
    """Session as far as it has been read, with its rows.

    ``progress`` is the share of the file that has been read. ``is_end`` is set when reading has ended; ``progress`` is
    less than 1 then if it was stopped.
    """

    session: Session
    rows: TimelineRows
    progress: float
    is_end: bool


@dataclass
class ReadFailure:
    """Report that the session cannot be read."""

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
        """Read to the end or until *is_stopped* returns true, and post snapshots.

        The last snapshot has ``is_end`` set even if reading was stopped, so that the messages read so far can be used.
        *yield_turn* is called after each step and returns when the next one may start.
        """
        try:
            if self._growing is None:
                from context_tui.library.follow import (
                    GrowingSession,  # imports the readers of all formats: not before the first paint
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
        """Read on whenever the file has changed, until *stop* is set; post each failure once.

        Raises:
            OSError: The folder of the file no longer exists.
        """
        from context_tui.library.follow import SessionWatch

        last_failure, due = "", 0.0

        def hand_on(report: SessionSnapshot | ReadFailure) -> None:
            nonlocal last_failure, due
            if isinstance(report, SessionSnapshot):
                due = time.monotonic() + min(len(report.session) / FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S)
            else:
                self._growing = None  # read from the start once the file can be read again
                if report.reason == last_failure:
                    return
            last_failure = report.reason if isinstance(report, ReadFailure) else ""
            post(report)

        watch = SessionWatch(self._info, stop)
        self.read(hand_on, stop.is_set, yield_turn)  # what was written before the watch began
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
        posted_at, appended, pace = -SNAPSHOT_INTERVAL_S, 0, SNAPSHOT_INTERVAL_S
        while True:
            step = scanner.advance(READ_STEP_S)
            appended += step.appended
            if step.revised_from is not None:
                old = self._revised_from
                self._revised_from = step.revised_from if old is None else min(old, step.revised_from)
            end, now = step.end or is_stopped(), time.monotonic()
            if end or (appended and now - posted_at >= pace):
                session = scanner.session()
                self._rows.grow(session, self._revised_from)
                progress = 1.0 if step.end else min(scanner.progress, MAX_PARTIAL_PROGRESS)
                post(SessionSnapshot(session, self._rows.copy(), progress, end))
                self._revised_from, posted_at = None, now
                if len(session) >= SLOW_SNAPSHOT_MESSAGES:
                    pace = SLOW_SNAPSHOT_INTERVAL_S
            if end:
                return
            yield_turn()
