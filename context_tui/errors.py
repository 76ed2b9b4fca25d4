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
    """Shorten a long message in its middle, since it starts with the place and ends with the remedy."""
    half = MAX_MESSAGE_LENGTH // 2 - 2
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:half]} … {text[-half:]}"


class Error(Exception):
    """Base of the errors that this package raises deliberately; the message is one line: what, where, remedy."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten_message(message))


class WorkStopped(Exception):
    """Raised at a checkpoint to stop work that is no longer needed; no failure."""


def describe_failure(error: Exception) -> str:
    """Return the message of an error; an unexpected error is described as a defect to be reported."""
    if isinstance(error, Error | OSError):
        return shorten_message(str(error))
    return shorten_message(f"internal error ({type(error).__name__}: {error}); please report it")


class UnreadableSession(Error):
    """Session that is missing, empty, binary, or in an unknown format."""

    exit_code = ExitCode.USAGE


class UsageError(Error):
    """Command line that cannot be understood."""

    exit_code = ExitCode.USAGE


class NoSessionFile(UnreadableSession):
    """File that is not a session: an agent's side file, or content that no session format recognizes."""


class SeveralSessions(Error):
    """Path that holds several sessions although one is required.

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
