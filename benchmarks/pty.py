"""A program in a pseudo-terminal, driven by keys and timed by what it prints.

The terminal answers no queries and draws nothing: what is measured is the program. Times end at the first byte that
arrives, as a person's wait does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

DOWN, PAGE_DOWN, PAGE_UP, END, HOME = "\x1b[B", "\x1b[6~", "\x1b[5~", "\x1b[F", "\x1b[H"


COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""What is installed has been compiled; a checkout is when it is run, where nothing forbids it."""


class Terminal:
    """A running program and the terminal it runs in; a context manager, so that it ends whatever happens."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 120, rows: int = 40, env: Mapping[str, str] | None = None
    ) -> None:
        self.output = b""
        self.status: int | None = None
        self.begun = time.perf_counter()
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        variables = {**environ, **terminal, **COMPILED, "CONTEXT_TUI_STATE": "", "CONTEXT_TUI_CACHE": "", **(env or {})}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # the child, until it becomes the program
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            try:
                os.execvpe(argv[0], list(argv), variables)
            finally:
                os._exit(127)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def read(self, timeout: float) -> bytes:
        """What the program printed, waiting at most ``timeout`` seconds for it; nothing at its end, too."""
        if not self._poll.poll(max(0.0, timeout) * 1000):
            return b""
        try:
            got = os.read(self.fd, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            got = b""
        self.output += got
        return got

    def wait_for(self, text: str, timeout: float = 60.0) -> float:
        """Seconds from the start of the program until ``text`` had been printed."""
        expected, deadline = text.encode(), time.perf_counter() + timeout
        while expected not in self.output:
            if not self.read(deadline - time.perf_counter()):
                ending = "" if self.alive() else f", and the program ended with {self.status}"
                raise TimeoutError(f"{text!r} did not appear{ending}; the end of what did: {self.output[-500:]!r}")
        return time.perf_counter() - self.begun

    def settle(self, quiet: float = 0.3, timeout: float = 60.0) -> None:
        """Read on until nothing is printed for ``quiet`` seconds."""
        deadline = time.perf_counter() + timeout
        while self.read(quiet) and time.perf_counter() < deadline:
            pass

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self.fd, keys.encode())

    def key(self, keys: str, timeout: float = 5.0) -> float:
        """Press keys; return the seconds until the program printed something."""
        while self.read(0):  # what was printed before is no answer
            pass
        start = time.perf_counter()
        self.send(keys)
        if not self.read(timeout):
            raise TimeoutError(f"no answer to {keys!r} within {timeout} s")
        return time.perf_counter() - start

    def alive(self) -> bool:
        """Whether the program still runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is None

    def quit(self, keys: str, timeout: float = 10.0) -> float:
        """Press keys that end the program; return the seconds until it has ended."""
        start = time.perf_counter()
        self.send(keys)
        while self.alive():
            if time.perf_counter() - start > timeout:
                raise TimeoutError(f"still running {timeout} s after {keys!r}")
            self.read(0.005)
        return time.perf_counter() - start
