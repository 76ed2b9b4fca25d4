"""The answer to why a context is full, computed in a child process while Textual and the inspector are imported."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from context_tui.session.session import SessionInfo

if TYPE_CHECKING:
    from context_tui.lab.fullness import Fullness

MAX_BYTES = 256_000_000
"""Size of the largest session file that a child process reads, which holds a second copy of its columns."""
PIPE_BYTES = 65_536
"""Maximum number of bytes read at once."""


class EarlyAnswer(NamedTuple):
    """Fullness of the context before message ``at``, as sentences and pickled, as its class is slow to import."""

    at: int
    sentences: list[str]
    pickled_fullness: bytes

    def load_fullness(self) -> Fullness:
        """Return the fullness; this imports the policies."""
        fullness: Fullness = pickle.loads(self.pickled_fullness)
        return fullness


class EarlyAnswerProcess:
    """A child process that reads a session and writes an early answer to a pipe; one that fails writes nothing."""

    def __init__(self, info: SessionInfo, at: int | None, window: int | None) -> None:
        """Start the process; *at* and *window* are the options of the command line. May raise OSError."""
        self.pipe, writer = os.pipe()
        self._received = bytearray()
        self._pid = os.fork()
        if not self._pid:
            _run_child(info, at, window, writer)
        os.close(writer)

    def receive(self) -> bool:
        """Read from the pipe, which must have data or be at its end; return whether it is at its end."""
        data = os.read(self.pipe, PIPE_BYTES)
        self._received += data
        return not data

    @property
    def answer(self) -> EarlyAnswer | None:
        """The answer, or None if it is not complete."""
        try:
            return EarlyAnswer(*pickle.loads(self._received))
        except (EOFError, pickle.UnpicklingError):
            return None

    def close(self) -> None:
        """End the process if it still runs, and close the pipe."""
        if self._pid:
            os.close(self.pipe)
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0


def start_early_answer(info: SessionInfo, at: int | None, window: int | None) -> EarlyAnswerProcess | None:
    """Start to compute an early answer; return None if the session is too large, or if no process can be forked."""
    if not hasattr(os, "fork") or threading.active_count() > 1:  # a lock of another thread would never be released
        return None
    with suppress(OSError):
        if os.path.getsize(info.path) <= MAX_BYTES:
            return EarlyAnswerProcess(info, at, window)
    return None


def compute_early_answer(info: SessionInfo, at: int | None, window: int | None) -> EarlyAnswer:
    """Read a session and compute how full its context is, by the calibrated token measure.

    Raises:
        UnreadableSession: the session cannot be read.
    """
    from context_tui.formats.base import scan
    from context_tui.formats.opening import make_scanner
    from context_tui.lab.fullness import compute_calibrated_fullness

    session = scan(make_scanner(info)).with_window(window)
    context = session.context_at(None if at is None else min(max(at, 0), len(session)))
    fullness = compute_calibrated_fullness(session, context)
    return EarlyAnswer(context.at, fullness.sentences, pickle.dumps(fullness))


def _run_child(info: SessionInfo, at: int | None, window: int | None, writer: int) -> None:
    """Write the answer to the pipe, silently, and exit without the parent's handlers."""
    try:
        gc.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        with open(writer, "wb") as pipe:
            pipe.write(pickle.dumps(tuple(compute_early_answer(info, at, window))))
    finally:
        os._exit(0)
