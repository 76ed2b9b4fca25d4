"""Loader that reads a session in a thread, posts snapshots of it, and can be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from context_tui.errors import Error
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.timeline.rows import TimelineRows

if TYPE_CHECKING:
    from context_tui.library.follow import GrowingSession

READ_STEP_S = 0.01
"""Seconds of reading before each check for a request to stop."""
SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_INTERVAL_S, SLOW_SNAPSHOT_MESSAGES = 0.3, 1.0, 2_000
"""Seconds between snapshots, each of which redraws the screen: at first, and from this number of messages on."""
FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S = 5_000, 3.0
"""Messages per second of interval between two snapshots of a followed session, and the maximum interval in seconds.

The time to draw a snapshot grows with the session. The first change after a pause is shown at once.
"""
MAX_PARTIAL_PROGRESS = 0.999
"""Largest progress that is reported before the end of the file is reached."""


class SessionSnapshot(NamedTuple):
    """The part of a session read so far, with its timeline rows.

    ``progress`` is the share of the file that has been read. ``is_end`` is set in the last snapshot, in which
    ``progress`` is less than 1 if reading was stopped.
    """

    session: Session
    rows: TimelineRows
    progress: float
    is_end: bool


class ReadFailure(NamedTuple):
    """Posted instead of a snapshot when a session cannot be read."""

    reason: str


PostReport = Callable[[SessionSnapshot | ReadFailure], object]


class SessionLoader:
    """Loader for one session; each call to ``read`` or ``follow`` resumes where the previous one stopped."""

    def __init__(self, info: SessionInfo) -> None:
        self._info, self._rows = info, TimelineRows()
        self._growing: GrowingSession | None = None
        self._revised_from: int | None = None

    def read(self, post: PostReport, stop: Event, yield_turn: Callable[[], object]) -> None:
        """Read to the end of the session or until *stop* is set, passing snapshots or a failure to *post*.

        *yield_turn* is called after each short step of reading, and blocks until the next step may begin.
        """
        try:
            if self._growing is None:
                # Imported after the first paint, because it imports the readers of all formats.
                from context_tui.library.follow import GrowingSession

                self._growing = GrowingSession(self._info)
            self._read_steps(self._growing, post, stop, yield_turn)
        except Error as error:
            post(ReadFailure(str(error)))
        except Exception as error:  # a bug in a reader must not end the program
            post(ReadFailure(f"{self._info.path}: cannot be read: {type(error).__name__}: {error}"))

    def follow(self, post: PostReport, stop: Event, yield_turn: Callable[[], object]) -> None:
        """Read on after every file change until *stop* is set, posting repeated failures once; may raise OSError."""
        from context_tui.library.follow import SessionWatch

        last_failure, next_read_at = "", 0.0

        def forward(report: SessionSnapshot | ReadFailure) -> None:
            nonlocal last_failure, next_read_at
            reason = ""
            if isinstance(report, SessionSnapshot):
                interval = min(len(report.session) / FOLLOWED_MESSAGES_PER_S, MAX_FOLLOW_INTERVAL_S)
                next_read_at = time.monotonic() + interval
            else:
                self._growing, reason = None, report.reason  # once it can be read again, read it from the start
            if not reason or reason != last_failure:
                post(report)
            last_failure = reason

        watch = SessionWatch(self._info, stop)
        self.read(forward, stop, yield_turn)  # changes before the watch began
        for _ in watch.wait_for_changes():
            stop.wait(max(next_read_at - time.monotonic(), 0))
            self.read(forward, stop, yield_turn)

    def _read_steps(
        self, scanner: GrowingSession, post: PostReport, stop: Event, yield_turn: Callable[[], object]
    ) -> None:
        posted_at, appended, interval = -SNAPSHOT_INTERVAL_S, 0, SNAPSHOT_INTERVAL_S
        while True:
            step = scanner.advance(READ_STEP_S)
            appended += step.appended
            if step.revised_from is not None:
                old = self._revised_from
                self._revised_from = step.revised_from if old is None else min(old, step.revised_from)
            is_end, now = step.end or stop.is_set(), time.monotonic()
            if is_end or (appended and now - posted_at >= interval):
                session = scanner.session()
                self._rows.grow(session, self._revised_from)
                progress = 1.0 if step.end else min(scanner.progress, MAX_PARTIAL_PROGRESS)
                post(SessionSnapshot(session, self._rows.copy(), progress, is_end))
                self._revised_from, posted_at = None, now
                if len(session) >= SLOW_SNAPSHOT_MESSAGES:
                    interval = SLOW_SNAPSHOT_INTERVAL_S
            if is_end:
                return
            yield_turn()
