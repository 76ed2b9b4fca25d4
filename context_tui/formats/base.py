"""The interface that every format implements, and opens files by."""

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
"""How much of a file is looked at to tell its format."""
LONG_HEAD_BYTES = 4 << 20
"""How much of a JSON file is, where that does not tell."""


@dataclass(frozen=True)
class Claim:
    """That a file is of a format: ``strength`` 1 (could be) to 100 (certain), and the evidence in words."""

    strength: int
    evidence: str


@dataclass(frozen=True)
class Advance:
    """What one step of a scan did.

    ``appended`` new messages; ``revised_from`` the first earlier message that changed, if any; ``end`` whether
    everything there is has been read (a file that grows can be advanced again).
    """

    appended: int
    revised_from: int | None
    end: bool


@dataclass(frozen=True)
class SessionFile:
    """A session file where its program keeps it: the name of its project, and whether that is the current one."""

    path: Path
    project: str
    is_current_project: bool


SessionCheck = Callable[[Session], None]
"""Looks at a session that was read again, and raises an Error where it is not what it has to be."""

Lister = Callable[[Path], list[SessionInfo]]
"""The sessions in a file, as :meth:`Format.list_sessions` tells them."""


class Scanner(Protocol):
    """A resumable pass over one session. Line by line it gives the same facts as in one go."""

    @property
    def progress(self) -> float:
        """Share of the file that has been read, 0 to 1."""

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read on for about *budget_s* seconds, or to the end when None.

        Raises:
            UnreadableSession: the file cannot be read, or nothing in it is a known record (told at the end).
        """

    def session(self) -> Session:
        """An immutable view of what has been read so far."""


class Format(Protocol):
    """An on-disk format; base class of built-in formats and of those of other packages.

    A format defines ``name``, ``about``, ``sniff``, ``list_sessions`` and ``make_scanner``. Every other member has a default.
    Capabilities follow from the methods that it defines: with :meth:`write` it is a target of exports, with :meth:`copy`
    records are copied, with :meth:`edit_in_place` files are changed in place, with :meth:`unsupported_reason` what is
    written is a request to a provider.

    Attributes:
        name: its name on the command line.
        about: one line about it.
        suffixes: suffixes of its files, which folders are searched for; new files get the first.
        from_source: the part of the reader that was written from the source of a program, without a real file to
            compare with: :data:`ALL_FROM_SOURCE`, or a few words.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    from_source: ClassVar[str] = ""

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
        """Whether :meth:`unsupported_reason` is defined: a provider gets what is written, which needs pairs mended."""
        return type(self).unsupported_reason is not Format.unsupported_reason

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Whether a file that begins with *head* (up to ``HEAD_BYTES``) is of this format."""

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """The sessions in a file, in its order; cheap. ``id`` is empty for the only or the main one.

        Raises:
            UnreadableSession: the file cannot be read.
        """

    def make_lister(self) -> Lister:
        """:meth:`list_sessions` for one file after the other: what it takes to know of their folder is looked up once."""
        return self.list_sessions

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for one of :meth:`list_sessions`.

        Raises:
            UnreadableSession: there is no such session in the file.
        """

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """A session of a file that is not listed, as it is only found by reading: None where no id is like that.

        Args:
            main: the main session of the file.
        """
        return None

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """The session of the sub-agent that the call in a block row started; None where no record says which.

        Raises:
            UnreadableSession: a record says which, and there is no such session.
        """
        return None

    def is_standalone(self, path: Path) -> bool:
        """Whether a file stands for itself, as far as its name tells; not what belongs to the session of another."""
        return True

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """The sessions that a folder stands for, where it is the folder, not a file, that is of this format."""
        return []

    def reads_all_siblings(self, path: Path) -> bool:
        """Whether its program takes every file beside *path* for a session, so that nothing else may be put there."""
        return False

    def read_title(self, path: Path) -> str:
        """What the main session of a file is about, from its head; empty where that does not tell."""
        return ""

    def related_files(self, path: Path) -> Iterable[Path]:
        """Files and folders that tell of the sessions in a file besides it, be they there or not.

        Of a folder it is the files right in it. What was read of a session counts while none of them changes.
        """
        return ()

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """The session files that its program keeps on this machine; none of them is opened.

        Args:
            environ: environment variables, which may say where.
            cwd: the current folder, which is of the current project.
        """
        return ()

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Why the provider of a request takes no *block* in a message of *role*, in words; empty where it does.

        It is left out before pairs are mended, so that no message is written with nothing in it.
        """
        return ""

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context at the end of *session* to the new file *path*, which the caller checks and moves.

        Returns:
            What the format cannot hold.

        Raises:
            Error: this format cannot be written.
        """
        raise Error(f"format {self.name!r} cannot be written")

    def can_copy(self, session: Session) -> bool:
        """Return whether :meth:`copy` writes *session*, as read by this format; cheap."""
        return self.copies

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the records that *session* was read from to the new file *path*, each as it is, with what was recorded.

        Args:
            session: as it was read, by this format.

        Returns:
            What is to be known about the copy, in words; None for a session that it cannot copy, which ``write`` has
            to write.
        """
        return None

    def edit_in_place(self, session: Session, texts: Mapping[int, str], check: SessionCheck) -> Path:
        """Put other texts in the place of results in the file itself, as its own program would: all of them or none.

        Args:
            session: as it was read, by this format, to its end.
            texts: the new text of a result by its block row.
            check: is given the session as it would be read from the changed file; what it raises undoes the change.

        Returns:
            Where the file was copied to before, for its owner only.

        Raises:
            Error: it was not changed: another program has it open, it is no longer what was read, or it cannot hold
                these texts.
            OSError: it could not be written.
        """
        raise Error(f"format {self.name!r} cannot be changed in place")

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """The shell command that goes on with *session* as it was *written*, once that is at *out*; empty for none."""
        return ""


def scan(scanner: Scanner) -> Session:
    """Read a session to its end."""
    while not scanner.advance().end:
        pass
    return scanner.session()
