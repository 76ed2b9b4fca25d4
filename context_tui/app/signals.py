"""Conversion of SIGTERM and SIGHUP to an exception, and of a signal to an exit code."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

TERMINATION_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

GRACE_S = 2.0
"""Seconds after a signal during which further ones, which often follow, do not interrupt the cleanup."""


class Terminated(KeyboardInterrupt):
    """Raised when a signal ends the process; handlers of ``KeyboardInterrupt`` catch it, too."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_code = get_exit_code(signum)


def find_termination(error: BaseException | None) -> Terminated | None:
    """Return the :class:`Terminated` among the causes of an error, or None if there is none."""
    while error is not None and not isinstance(error, Terminated):
        error = error.__cause__ or error.__context__
    return error


def get_exit_code(signum: int) -> int:
    """Return the exit code that shells report for a process ended by signal *signum*."""
    return 128 + signum


_last_raised = -GRACE_S


def _raise_terminated(signum: int, _frame: object) -> None:
    global _last_raised
    if time.monotonic() - _last_raised >= GRACE_S:
        _last_raised = time.monotonic()
        raise Terminated(signum)


@contextmanager
def handle_termination(on_signal: Callable[[int, object], None] = _raise_terminated) -> Iterator[None]:
    """Call *on_signal* for termination signals while the block runs; by default, it raises :class:`Terminated`.

    Signals that were ignored before, as under nohup, stay ignored.
    """
    replaced_handlers = {}
    with suppress(ValueError):  # only the main thread can set handlers
        for each in TERMINATION_SIGNALS:
            if (handler := signal.getsignal(each)) not in (signal.SIG_IGN, None):
                signal.signal(each, on_signal)
                replaced_handlers[each] = handler
    try:
        yield
    finally:
        for each, handler in replaced_handlers.items():
            signal.signal(each, handler)
