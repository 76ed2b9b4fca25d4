"""Being told to end: SIGTERM and SIGHUP clean up as ctrl+c does, and the exit code names the signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

GRACE_S = 2.0
"""Signals that follow the first within this time do not interrupt the cleaning up; several often come together."""


class Ended(KeyboardInterrupt):
    """The process was told to end by a signal. It is handled wherever an interrupt is."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_code = exit_code(signum)


def ended_by(error: BaseException | None) -> Ended | None:
    """The signal behind an error: where it comes in the middle of things, others may wrap it up."""
    while error is not None and not isinstance(error, Ended):
        error = error.__cause__ or error.__context__
    return error


def exit_code(signum: int) -> int:
    """What a process exits with that *signum* ended, as shells have it."""
    return 128 + signum


_asked = -GRACE_S


def _raise(signum: int, _frame: object) -> None:
    global _asked
    if time.monotonic() - _asked >= GRACE_S:
        _asked = time.monotonic()
        raise Ended(signum)


@contextmanager
def ending(by: Callable[[int, object], None] = _raise) -> Iterator[None]:
    """Let the signals that end a process call *by*, or raise :class:`Ended`; one that is ignored (nohup) stays so."""
    taken = {}
    with suppress(ValueError):  # only the main thread can ask for signals
        for each in ENDING:
            if (handler := signal.getsignal(each)) not in (signal.SIG_IGN, None):
                signal.signal(each, by)
                taken[each] = handler
    try:
        yield
    finally:
        for each, handler in taken.items():
            signal.signal(each, handler)
