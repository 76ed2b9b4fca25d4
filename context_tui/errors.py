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
    """Base of the errors that this package raises deliberately; the message is one line: what, where, remedy."""

    exit_code = ExitCode.FAILED


class UnreadableSession(Error):
    """Session that is missing, empty, binary, or in an unknown format."""

    exit_code = ExitCode.USAGE


class SeveralSessions(Error):
    """Path that holds several sessions where one is required.

    Attributes:
        ids: the sessions, each as ``PATH#ID`` (or ``PATH``), in the order of the file.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, ids: list[str]) -> None:
        super().__init__(message)
        self.ids = ids


class PlanError(Error):
    """Unknown policy, parameter out of range, or point outside the session."""

    exit_code = ExitCode.USAGE


class MeasureError(Error):
    """Token measure that is not available: its optional dependency is not installed."""

    exit_code = ExitCode.USAGE


class SummarizerError(Error):
    """Failure of a model endpoint, or a reply that is not a usable summary."""

    exit_code = ExitCode.ENDPOINT
