"""pi, a coding agent for the terminal, and agents built on it, such as OpenClaw.

Sessions are JSON Lines files in a folder for each project: a header, then entries that form a tree since version 2.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.kit.branches import find_branch
from context_tui.formats.kit.files import parse_first_values, read_first_objects
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_whole_file, list_only_session
from context_tui.formats.kit.values import extract_text, format_title, parse_blocks
from context_tui.formats.pi import paths, writer
from context_tui.formats.pi.reader import PiShape
from context_tui.formats.pi.writer import write_session
from context_tui.session.session import SessionInfo

__all__ = ["PiFormat"]


class PiFormat(Format):
    """Format of pi's sessions, versions 1 to 3, with their branches and compactions."""

    name: ClassVar[str] = "pi"
    about: ClassVar[str] = "pi sessions (JSONL, versions 1 to 3; OpenClaw's too), with branches and compactions"

    from_source: ClassVar[str] = "versions 2 and 3, branches, compactions"

    find_unlisted = staticmethod(find_branch)
    find_sessions = staticmethod(paths.find_sessions)
    write = staticmethod(write_session)
    can_copy = staticmethod(is_whole_file)
    copy = staticmethod(copy_lines)
    build_resume_command = staticmethod(writer.build_resume_command)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        first = next(iter(parse_first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("cwd"), str):
            return Claim(95, "a session record of pi")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the session of a file; its branches are found by reading it."""
        cwd = next(iter(read_first_objects(path)), {}).get("cwd")
        return [replace(info, cwd=cwd if isinstance(cwd, str) else "") for info in list_only_session(path, self.name)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        return LineScanner(path, info, PiShape)

    def read_title(self, path: Path) -> str:
        """Return the name of the session, else the first typed text."""
        typed = ""
        for record in read_first_objects(path):
            if record.get("type") == "session_info" and isinstance(name := record.get("name"), str) and name.strip():
                return format_title(name)
            typed = typed or _find_typed_text(record)
        return typed


def _find_typed_text(record: dict[str, Any]) -> str:
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "user":
        return ""
    return format_title(extract_text(parse_blocks(message.get("content"))))
