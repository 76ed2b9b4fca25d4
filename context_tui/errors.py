"""Exceptions that callers may catch, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the process."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ENDPOINT = 3
    NO_EVIDENCE = 4
    INTERRUPTED = 130


MAX_MESSAGE_LENGTH = 2_000
"""Limit of a message, in characters."""


def shorten_message(text: str) -> str:
    """Shorten a long message in its middle, because it begins with the place and ends with the remedy."""
    half_length = MAX_MESSAGE_LENGTH // 2 - 2
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:half_length]} … {text[-half_length:]}"


class Error(Exception):
    """Base class for the errors that this package raises on purpose. A message is one line: place, problem, remedy."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten_message(message))


class WorkStopped(Exception):
    """Raised at a checkpoint to stop work that is no longer needed. This is not a failure."""


def describe_failure(error: Exception) -> str:
    """Return an error's message or, for an unexpected error, a request to report it as an internal error."""
    if isinstance(error, Error | OSError):
        return shorten_message(str(error))
    return shorten_message(f"internal error ({type(error).__name__}: {error}); please report it")


class UnreadableSession(Error):
    """Raised for a session that is missing, empty, binary, or in an unknown format."""

    exit_code = ExitCode.USAGE


class UsageError(Error):
    """Raised for a command line that cannot be understood."""

    exit_code = ExitCode.USAGE


class NoSessionFile(UnreadableSession):
    """Raised for a file that is no session: an agent's side file, or content that no format recognizes."""


class SeveralSessions(Error):
    """Raised for a path that holds several sessions if only one is wanted.

    Attributes:
        ids: names of the sessions, each as ``PATH#ID`` (or ``PATH``), in file order.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, ids: list[str]) -> None:
        super().__init__(message)
        self.ids = ids


class PlanError(Error):
    """Raised for an unknown policy, a parameter out of range, or a point outside the session."""

    exit_code = ExitCode.USAGE


class ExportError(Error):
    """Raised if an export fails; it leaves no file behind."""


class MeasureError(Error):
    """Raised for a token measure whose optional dependency is not installed."""

    exit_code = ExitCode.USAGE


class SummarizerError(Error):
    """Raised if a model endpoint fails, or if its reply is not a usable summary."""

    exit_code = ExitCode.ENDPOINT
