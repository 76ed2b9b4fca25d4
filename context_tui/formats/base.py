"""Interface of formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from context_tui.errors import Error
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

ALL_FROM_SOURCE = "all of it"

HEAD_BYTES = 65_536
"""Bytes at the start of a file from which its format is detected."""
LONG_HEAD_BYTES = 4 << 20
"""Bytes of a JSON file that are read if no format claims it by its first ``HEAD_BYTES``."""


@dataclass(frozen=True)
class Claim:
    """Claim that a file has a format: ``strength`` from 1 (possible) to 100 (certain), and the evidence in words."""

    strength: int
    evidence: str


@dataclass(frozen=True)
class Advance:
    """Result of one step of a scan.

    ``appended`` is the number of new messages, and ``revised_from`` the first earlier message that changed, if any.
    ``end`` is True if the whole file has been read; if the file grows, the scan can be advanced again.
    """

    appended: int
    revised_from: int | None
    end: bool


@dataclass(frozen=True)
class SessionFile:
    """Session file in the folders of its program, with the name of its project."""

    path: Path
    project: str
    is_current_project: bool


SessionCheck = Callable[[Session], None]
"""Check of a reread session; raises Error if the session is not as expected."""

Lister = Callable[[Path], list[SessionInfo]]
"""Function that lists the sessions in a file, like :meth:`Format.list_sessions`."""


class Scanner(Protocol):
    """Resumable pass over one session; the size of the steps does not affect the facts."""

    @property
    def progress(self) -> float:
        """Share of the file that has been read, 0 to 1."""

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read for about *budget_s* seconds, or to the end if None.

        Raises:
            UnreadableSession: the file cannot be read, or (at its end) holds no known record.
        """

    def session(self) -> Session:
        """Return an immutable view of the part that was read so far."""


class Format(Protocol):
    """On-disk format; base class of the formats of this and other packages.

    A format defines ``name``, ``about``, ``sniff``, ``list_sessions`` and ``make_scanner``. Every other member has a
    default. The optional methods that it defines determine ``writable``, ``copies``, ``in_place`` and ``is_request``.

    Attributes:
        name: Name of the format on the command line.
        about: Description in one line.
        suffixes: Suffixes of files that are searched for in folders; new files get the first.
        from_source: The part of the reader that was checked only against the program's source, not against a real file:
            :data:`ALL_FROM_SOURCE`, or a few words.
        checked_with: The version of the program whose requests were compared with its session files (``make agents``).
        request_recording: A command or a setting that records the agent's whole requests, which its session files lack.
        requests_id: Id of the session of whole requests in the same file, if the files also hold such requests.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    from_source: ClassVar[str] = ""
    checked_with: ClassVar[str] = ""
    request_recording: ClassVar[str] = ""
    requests_id: ClassVar[str] = ""

    @property
    def writable(self) -> bool:
        """Whether :meth:`write` is defined."""
        return type(self).write is not Format.write

    @property
    def copies(self) -> bool:
        """Whether :meth:`copy` is defined."""
        return type(self).copy is not Format.copy

    @property
    def in_place(self) -> bool:
        """Whether :meth:`edit_in_place` is defined."""
        return type(self).edit_in_place is not Format.edit_in_place

    @property
    def is_request(self) -> bool:
        """Whether the output is a request to a provider, with paired results: :meth:`unsupported_reason` is defined."""
        return type(self).unsupported_reason is not Format.unsupported_reason

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim to a file that begins with *head* (up to ``HEAD_BYTES``), or None."""

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions in a file, in file order; cheap. The ``id`` of the only or main session is empty.

        Raises:
            UnreadableSession: the file cannot be read.
        """

    def make_lister(self) -> Lister:
        """Return a lister for the files of one folder; data about the folder is looked up once."""
        return self.list_sessions

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner of a listed session; raises UnreadableSession if the file has no such session."""

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return a session that is not listed since only a full read finds it, such as a branch; None for other ids."""
        return None

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the session of the subagent that the call in block row *call* started; None if no record names it.

        Raises:
            UnreadableSession: a record names the session, but it is missing.
        """
        return None

    def is_standalone(self, path: Path) -> bool:
        """Return False if a file, judged by its name, belongs to the session of another file."""
        return True

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions of a folder, for formats whose sessions are folders."""
        return []

    def reads_all_siblings(self, path: Path) -> bool:
        """Return whether the program reads every file in the folder of *path* as a session."""
        return False

    def read_title(self, path: Path) -> str:
        """Return a title of a file's main session, read from the head of the file; empty if there is none."""
        return ""

    def related_files(self, path: Path) -> Iterable[Path]:
        """Return other files and folders that describe the sessions in a file, existing or not.

        A folder stands for the files directly in it. Cached data of a session is valid while none of these changes.
        """
        return ()

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the session files that the program keeps on this machine, without opening them.

        Args:
            environ: Environment variables, which may name the folder.
            cwd: The current folder, part of the current project.
        """
        return ()

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Return the reason why a provider refuses *block* in a message of *role*; empty if it is accepted.

        Refused blocks are removed before calls and results are paired, so that no message is written empty.
        """
        return ""

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context at the end of *session* to the new file *path*, which the caller checks and moves.

        Returns:
            The losses: everything that the format cannot hold.

        Raises:
            Error: this format cannot be written.
        """
        raise Error(f"format {self.name!r} cannot be written")

    def can_copy(self, session: Session) -> bool:
        """Return whether :meth:`copy` can write *session*, a session of this format; cheap."""
        return self.copies

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Copy the records that *session* was read from, unchanged, to the new file *path*.

        Args:
            session: an unchanged session of this format.

        Returns:
            Notes on the copy; None for a session that has to be written by :meth:`write`.
        """
        return None

    def edit_in_place(self, session: Session, texts: Mapping[int, str], check: SessionCheck) -> Path:
        """Replace the texts of results in the file itself, all of them or none.

        Args:
            session: a session of this format, read to its end.
            texts: new texts of results, by block row.
            check: called with the session as read from the changed file; an exception undoes the change.

        Returns:
            Path of the backup, readable by its owner only.

        Raises:
            Error: the file was not changed, since another program has it open, it has changed since it was read, or it
                cannot hold these texts.
            OSError: the file could not be written.
        """
        raise Error(f"format {self.name!r} cannot be changed in place")

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Return the shell command that continues *written_session* once it is at *out_path*; empty for none."""
        return ""


def scan(scanner: Scanner) -> Session:
    """Read a session to its end."""
    while not scanner.advance().end:
        pass
    return scanner.session()
