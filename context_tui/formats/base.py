"""The interface that every session format implements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from context_tui.errors import Error
from context_tui.session.facts import Facts
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

ALL_FROM_SOURCE = "all of it"

KINDS_AFTER_COMPACTION = ("frame of a summary", "files put back by a compaction")
"""Kinds of text that only requests after a compaction hold."""

HEAD_BYTES = 65_536
"""Bytes at the start of a file from which its format is detected."""
LONG_HEAD_BYTES = 4 << 20
"""Bytes of a JSON file that are read if no format claims it by its first ``HEAD_BYTES``."""


class Claim(NamedTuple):
    """A format's claim to a file: its ``strength`` from 1 (possible) to 100 (certain), and the evidence in words."""

    strength: int
    evidence: str


class Advance(NamedTuple):
    """The result of one step of a scan.

    Attributes:
        appended: number of new messages.
        revised_from: the first earlier message that changed, or None.
        end: whether the file was read to its end. If it grows, the scan can be advanced again.
    """

    appended: int
    revised_from: int | None
    end: bool


class SessionFile(NamedTuple):
    """A session file that a program keeps, its project's name ("" if unknown), and whether that project is current."""

    path: Path
    project: str
    is_current_project: bool


SessionCheck = Callable[[Session], None]
"""Check of a reread session; raises Error if the session is not as expected."""

Lister = Callable[[Path], list[SessionInfo]]
"""Function that lists the sessions in a file, like :meth:`Format.list_sessions`."""


class Scanner(Protocol):
    """A scan of one session in steps. The facts that it collects do not depend on the size of the steps."""

    @property
    def progress(self) -> float:
        """The share of the file that has been read, from 0 to 1."""

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read for about *budget_s* seconds, or to the end if it is None, and return what has changed.

        Raises UnreadableSession if the file cannot be read, or contains no known record.
        """

    def session(self) -> Session:
        """Return the part read so far as a session, which later steps do not change."""


class Format(Protocol):
    """Interface and base class of session formats, including those in other packages.

    A format defines ``name``, ``about``, ``sniff``, ``list_sessions`` and ``make_scanner``. Every other member has a
    default. The properties ``writable``, ``copies``, ``in_place`` and ``is_request`` depend on the optional methods
    that the format overrides.

    Attributes:
        name: name of the format on the command line.
        about: description in one line.
        suffixes: suffixes of the files to search for in folders. New files get the first one.
        from_source: the part of the reader that was checked only against the program's source, not against a real file:
            :data:`ALL_FROM_SOURCE`, or a few words.
        checked_with: the program's version whose requests were compared with its session files (``make agents``).
        unrecorded: kinds of text that the agent's requests hold and its session files lack, as seen with that version;
            the system prompt and tool schemas count only for files without them.
        request_recording: command or setting that records the agent's complete requests, which its session files lack.
        requests_id: id of the session made from complete requests, if session files may also contain these.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    from_source: ClassVar[str] = ""
    checked_with: ClassVar[str] = ""
    unrecorded: ClassVar[tuple[str, ...]] = ("system prompt", "instructions", "tool schemas")
    request_recording: ClassVar[str] = ""
    requests_id: ClassVar[str] = ""

    @property
    def writable(self) -> bool:
        """Whether the format overrides :meth:`write`."""
        return type(self).write is not Format.write

    @property
    def copies(self) -> bool:
        """Whether the format overrides :meth:`copy`."""
        return type(self).copy is not Format.copy

    @property
    def in_place(self) -> bool:
        """Whether the format overrides :meth:`edit_in_place`."""
        return type(self).edit_in_place is not Format.edit_in_place

    @property
    def is_request(self) -> bool:
        """Whether files in this format are requests to a provider: the format overrides :meth:`unsupported_reason`."""
        return type(self).unsupported_reason is not Format.unsupported_reason

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Return a claim to the file if its first bytes (normally ``HEAD_BYTES``) suit this format, else None."""

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions in a file, in file order. This must be quick.

        The only or main session has the id "", but in a database every session has an id of its own. Raises
        UnreadableSession if the file cannot be read.
        """

    def make_lister(self) -> Lister:
        """Return a function like :meth:`list_sessions` that caches data shared by the files in a folder."""
        return self.list_sessions

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner for a session in the file. Raises UnreadableSession if there is no such session."""

    def list_unrecorded(self, facts: Facts, at: int) -> tuple[str, ...]:
        """Return the kinds in ``unrecorded`` that the context before message *at* lacks."""
        is_compacted = any(each.kind == "full" and each.message < at for each in facts.compactions)
        is_recorded = {"system prompt": bool(facts.system_bytes), "tool schemas": bool(facts.tools_bytes)}
        is_recorded |= dict.fromkeys(KINDS_AFTER_COMPACTION, not is_compacted) | {"instructions": not facts.size_basis}
        return tuple(kind for kind in self.unrecorded if not is_recorded.get(kind))

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return the session *session_id* if it is one that only a full read finds, such as a branch, else None."""
        return None

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the sub-agent session that the tool call in block row *call* started, or None if no record names it.

        Raises UnreadableSession if a record names the session, but it is missing.
        """
        return None

    def is_standalone(self, path: Path) -> bool:
        """Return False if the file's name shows that it belongs to a session in another file."""
        return True

    def list_folder_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the sessions in a folder if the format stores sessions as folders, else []."""
        return []

    def reads_all_siblings(self, path: Path) -> bool:
        """Return whether the program would load every other file in the folder of *path* as a session too."""
        return False

    def read_title(self, path: Path) -> str:
        """Return a title for a file's main session, or "" if the head of the file contains none."""
        return ""

    def related_files(self, path: Path) -> Iterable[Path]:
        """Return other files and folders that contribute to the sessions in a file, whether they exist or not.

        A folder stands for the files directly in it. Cached data about a session stays valid until a related file
        changes.
        """
        return ()

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the session files that the program keeps on this machine, without opening them.

        Variables in *environ* may name the program's folder; *cwd* determines the current project.
        """
        return ()

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Return why a provider would refuse *block* in a message of *role*, or "" if it accepts the block.

        Refused blocks are removed before calls are paired with results, so that no message is left empty.
        """
        return ""

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context at the end of *session* to the new file *path*, which the caller then checks and moves.

        Returns the losses: everything that the format cannot store. Raises an Error if the format cannot be written.
        """
        raise Error(f"format {self.name!r} cannot be written")

    def can_copy(self, session: Session) -> bool:
        """Return whether :meth:`copy` can write *session*, which is of this format. This must be quick."""
        return self.copies

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Copy the records of *session*, an unedited session of this format, unchanged to the new file *path*.

        Returns notes on the copy, or None if the session can only be written with :meth:`write`.
        """
        return None

    def edit_in_place(self, session: Session, texts: Mapping[int, str], check: SessionCheck) -> Path:
        """Replace the text of tool results in the session's own file, either all of them or none.

        Args:
            session: a session of this format, read to its end.
            texts: the new texts of results, keyed by block row.
            check: called with the session as read from the changed file. If it raises an exception, the change is
                undone.

        Returns:
            Path of the backup, which only its owner can read.

        Raises:
            Error: the file was not changed, as another program has it open, it has changed since it was read, or it
                cannot store these texts.
            OSError: the file could not be written.
        """
        raise Error(f"format {self.name!r} cannot be changed in place")

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Return a shell command that continues *written_session* once it is at *out_path*, or "" if there is none."""
        return ""


def scan(scanner: Scanner) -> Session:
    """Read a session to its end and return it."""
    while not scanner.advance().end:
        pass
    return scanner.session()
