"""Exceptions that callers may catch, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the process."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ENDPOINT = 3
    INTERRUPTED = 130


class Error(Exception):
    """Base of every error this package raises on purpose; its text is one line: what, where, remedy."""

    exit_code = ExitCode.FAILED


class UnreadableSession(Error):
    """A session that is missing, empty, binary, or of no format that can be read."""

    exit_code = ExitCode.USAGE


class SeveralSessions(Error):
    """A place that holds several sessions, where one was asked for.

    Attributes:
        ids: each as ``PATH#ID`` (or ``PATH``), which names one of them, in the order of the file.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, ids: list[str]) -> None:
        super().__init__(message)
        self.ids = ids


class PlanError(Error):
    """An unknown policy, a parameter that is out of range, or a point outside the session."""

    exit_code = ExitCode.USAGE


class MeasureError(Error):
    """A token measure that cannot be used here: the extra that it needs is not installed."""

    exit_code = ExitCode.USAGE


class SummarizerError(Error):
    """The model endpoint failed, or its reply cannot be used as a summary."""

    exit_code = ExitCode.ENDPOINT
