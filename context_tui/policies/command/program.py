"""A program that answers each line of JSON with another one, with limits on its time and its output."""

from __future__ import annotations

import os
import shlex
import signal
import weakref
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from subprocess import PIPE, Popen, TimeoutExpired
from time import monotonic
from typing import Any

from context_tui.session.jsontext import compact_json, try_loads
from context_tui.text.sanitize import sanitize_line, truncate_name

MAX_ANSWER_BYTES = 64_000_000
"""Limit of one answer."""
MAX_NOTES_BYTES = 2_000
"""Bytes kept of the end of what the program writes to standard error."""
GRACE_S = 1.0
"""Seconds that a program has to end after its input is closed."""
_CHUNK = 65_536
_running: weakref.WeakSet[Program] = weakref.WeakSet()


class ProgramError(Exception):
    """Raised if the program cannot be started, ends, gives no answer in time, or writes an invalid answer."""


class Program:
    """A program that the first question starts, without a shell, and that ends with this process at the latest.

    After an error it is ended, and the next question starts it again. In *command*, the arguments are
    quoted as in a shell; *timeout* is in seconds for one answer.
    """

    def __init__(self, command: str, timeout: float) -> None:
        self.command, self.timeout = command, timeout
        self._process: Popen[bytes] | None = None
        self._selector = DefaultSelector()
        self._notes = b""
        _running.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the program was started and has not been ended."""
        return self._process is not None

    def ask(self, question: object) -> dict[str, Any]:
        """Send a question and return the answer, a JSON object, raising ProgramError if there is none."""
        process = self._process or self._start()
        try:
            line = self._exchange(process, compact_json(question) + b"\n")
            answer = try_loads(line)
            if not isinstance(answer, dict):
                shown = truncate_name(line.decode("utf-8", "replace").strip()) or "an empty line"
                raise ProgramError(f"it writes what is no JSON object: {sanitize_line(shown)}")
        except BaseException as error:  # what it writes next could belong to this question
            self.end(grace_s=0.0)
            if isinstance(error, ProgramError) and (notes := self._format_notes()):
                raise ProgramError(f"{error} (it reports: {notes})") from None
            raise
        return answer

    def end(self, grace_s: float = GRACE_S) -> None:
        """Close the program's pipes and, if it still runs after *grace_s* seconds, kill its process group."""
        process, self._process = self._process, None
        if process is not None:
            self._selector.close()
            self._finalizer.detach()
            _end_process(process, grace_s)

    def _start(self) -> Popen[bytes]:
        try:
            arguments = shlex.split(self.command)
        except ValueError:
            raise ProgramError("a quote is not closed") from None
        if not arguments or not hasattr(os, "killpg"):
            raise ProgramError("it names no program" if not arguments else "programs need macOS, Linux or WSL")
        try:
            process = Popen(arguments, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)
        except (OSError, ValueError) as error:
            raise ProgramError(f"cannot be started: {getattr(error, 'strerror', None) or error}") from None
        self._process, self._selector, self._notes = process, DefaultSelector(), b""
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            if pipe is not process.stdin:
                self._selector.register(pipe, EVENT_READ)
        self._finalizer = weakref.finalize(self, _end_process, process, GRACE_S)
        return process

    def _exchange(self, process: Popen[bytes], question: bytes) -> bytes:
        """Write the question and read the answer at the same time, so that neither side waits for the other."""
        assert process.stdin is not None and process.stdout is not None
        selector, remaining, answer = self._selector, memoryview(question), bytearray()
        if any(key.fileobj is process.stdout for key, _ in selector.select(0)):
            if os.read(process.stdout.fileno(), 1):
                raise ProgramError("it wrote to standard output before it was asked")
            raise ProgramError(self._describe_end(process))
        deadline, is_waiting = monotonic() + self.timeout, False
        while (seconds := deadline - monotonic()) > 0:
            if remaining:
                remaining = remaining[_write_some(process.stdin.fileno(), remaining) :]
                if remaining and not is_waiting:  # a short question fits into the pipe
                    selector.register(process.stdin, EVENT_WRITE)
                elif is_waiting and not remaining:
                    selector.unregister(process.stdin)
                is_waiting = bool(remaining)
            for key, _ in selector.select(seconds):
                if key.fileobj is process.stdin:
                    continue
                if key.fileobj is process.stderr:
                    self._read_notes(key.fd)
                else:
                    chunk = os.read(key.fd, _CHUNK)
                    answer += chunk
                    if not chunk:
                        raise ProgramError(self._describe_end(process))
                    if b"\n" in chunk:
                        if remaining or answer.index(b"\n") < len(answer) - 1:
                            raise ProgramError("it writes more than one line, or before it has read the question")
                        return bytes(answer)
                    if len(answer) > MAX_ANSWER_BYTES:
                        raise ProgramError(f"its answer is longer than {MAX_ANSWER_BYTES:,} bytes")
        raise ProgramError(f"it gives no answer within {self.timeout:g} s; --policy-timeout sets the limit")

    def _read_notes(self, descriptor: int) -> None:
        chunk = os.read(descriptor, _CHUNK)
        self._notes = (self._notes + chunk)[-MAX_NOTES_BYTES:]
        if not chunk:
            self._selector.unregister(descriptor)

    def _describe_end(self, process: Popen[bytes]) -> str:
        with suppress(TimeoutExpired):
            process.wait(GRACE_S)
        with suppress(OSError, ValueError, AttributeError):
            self._notes += os.read(process.stderr.fileno(), _CHUNK)  # type: ignore[union-attr]
        code = process.returncode
        if code is None:
            return "it closed its standard output"
        return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"

    def _format_notes(self) -> str:
        lines = self._notes.decode("utf-8", "replace").strip().splitlines()
        return truncate_name(sanitize_line(lines[-1])) if lines else ""


def _write_some(descriptor: int, data: memoryview) -> int:
    """Write as much as the pipe takes and return the number of bytes, or all of them if the other end is closed."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:  # the program may still answer; otherwise, its output ends
        return len(data)


def end_programs() -> None:
    """End all programs at once, for exits of this process that skip its cleanup."""
    for program in list(_running):
        program.end(grace_s=0.0)


def _end_process(process: Popen[bytes], grace_s: float) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(grace_s)
    except TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
