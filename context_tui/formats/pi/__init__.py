"""pi, a coding agent for the terminal, and agents built on it, such as OpenClaw.

Sessions are JSON Lines files in a folder for each project: a header, then entries that form a tree since version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.kit.branches import find_branch
from context_tui.formats.kit.files import parse_first_values, read_first_objects
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_whole_file, list_only_session
from context_tui.formats.kit.values import extract_text, format_title, parse_blocks
from context_tui.formats.pi import paths
from context_tui.formats.pi.reader import PiShape
from context_tui.formats.pi.writer import build_resume_command, write_session
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

__all__ = ["PiFormat"]


class PiFormat(Format):
    """Format of pi's sessions, versions 1 to 3, with their branches and compactions."""

    name: ClassVar[str] = "pi"
    about: ClassVar[str] = "pi sessions (JSONL, versions 1 to 3; OpenClaw's too), with branches and compactions"
    request_recording: ClassVar[str] = "claude-tap --tap-client pi"

    from_source: ClassVar[str] = "versions 2 and 3, branches, compactions"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise the first record."""
        first = next(iter(parse_first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("cwd"), str):
            return Claim(95, "a session record of pi")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the session of a file; its branches are found by reading it."""
        cwd = next(iter(read_first_objects(path)), {}).get("cwd")
        return [replace(info, cwd=cwd if isinstance(cwd, str) else "") for info in list_only_session(path, self.name)]

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return an abandoned branch."""
        return find_branch(main, session_id)

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner of the session, or of a branch."""
        return LineScanner(path, info, PiShape)

    def read_title(self, path: Path) -> str:
        """Return the name of the session, else the first typed text."""
        typed = ""
        for record in read_first_objects(path):
            if record.get("type") == "session_info" and isinstance(name := record.get("name"), str) and name.strip():
                return format_title(name)
            typed = typed or _find_typed_text(record)
        return typed

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the sessions of each project in pi's folder; OpenClaw's by agent."""
        return paths.find_sessions(environ, cwd)

    def write(self, session: Session, path: Path) -> Losses:
        """Write a session of version 3."""
        return write_session(session, path)

    def can_copy(self, session: Session) -> bool:
        """Return False for a session that is only a part of the lines."""
        return is_whole_file(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the lines unchanged."""
        return copy_lines(session, path)

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Build the command that opens the session."""
        return build_resume_command(session, written_session, out_path)


def _find_typed_text(record: dict[str, Any]) -> str:
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "user":
        return ""
    return format_title(extract_text(parse_blocks(message.get("content"))))
