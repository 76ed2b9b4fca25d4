"""pi's sessions (JSON lines), and those of agents that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.kit.branches import branch_of
from context_tui.formats.kit.heads import first_values, head_values
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_all_lines, only_session
from context_tui.formats.kit.values import as_blocks, text_in, title_of
from context_tui.formats.pi import places
from context_tui.formats.pi.shape import PiShape
from context_tui.formats.pi.write import resume_command, write_session
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

__all__ = ["PiFormat"]


class PiFormat(Format):
    """Sessions of pi, versions 1 to 3, with their branches and compactions."""

    name: ClassVar[str] = "pi"
    about: ClassVar[str] = "pi sessions (JSONL, versions 1 to 3; OpenClaw's too), with branches and compactions"

    writable: ClassVar[bool] = True
    copies: ClassVar[bool] = True
    from_source: ClassVar[str] = "versions 2 and 3, branches, compactions"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By the first record."""
        first = next(iter(first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("cwd"), str):
            return Claim(95, "a session record of pi")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """One to a file; its branches are found by reading it."""
        cwd = next(iter(head_values(path)), {}).get("cwd")
        return [replace(info, cwd=cwd if isinstance(cwd, str) else "") for info in only_session(path, self.name)]

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """A branch that was left."""
        return branch_of(main, session_id)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for the session, or for a branch of it."""
        return LineScanner(path, info, PiShape)

    def title(self, path: Path) -> str:
        """The name that the session was given, else what was typed first."""
        typed = ""
        for record in head_values(path):
            if record.get("type") == "session_info" and isinstance(name := record.get("name"), str) and name.strip():
                return title_of(name)
            typed = typed or _typed(record)
        return typed

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """In pi's folder of sessions, one for each project; OpenClaw's by agent."""
        return places.kept(environ, cwd)

    def write(self, session: Session, path: Path) -> Losses:
        """Write a session of version 3."""
        return write_session(session, path)

    def can_copy(self, session: Session) -> bool:
        """Not a session that is only some of the lines."""
        return is_all_lines(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the lines as they are."""
        return copy_lines(session, path)

    def resume(self, session: Session, written: Path, out: Path) -> str:
        """The command that opens it."""
        return resume_command(session, written, out)


def _typed(record: dict[str, Any]) -> str:
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "user":
        return ""
    return title_of(text_in(as_blocks(message.get("content"))))
