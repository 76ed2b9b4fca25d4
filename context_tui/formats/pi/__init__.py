"""pi, a coding agent for the terminal, and agents built on it, such as OpenClaw.

Sessions are JSON Lines files in a folder per project: a header, then entries, which form a tree since version 2.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner
from context_tui.formats.kit import blocks, branches, heads, line_scanner, values
from context_tui.formats.pi import writer
from context_tui.formats.pi.paths import find_sessions
from context_tui.formats.pi.reader import PiShape
from context_tui.session.session import SessionInfo


class PiFormat(Format):
    """The format of pi's sessions, versions 1 to 3, with their branches and compactions."""

    name: ClassVar[str] = "pi"
    about: ClassVar[str] = "pi sessions (JSONL, versions 1 to 3; OpenClaw's too), with branches and compactions"
    request_recording: ClassVar[str] = "claude-tap --tap-client pi"

    from_source: ClassVar[str] = "version 2"
    checked_with: ClassVar[str] = "0.73.1"
    unrecorded: ClassVar[tuple[str, ...]] = ("system prompt", "instruction files", "tool schemas", "frame of a summary")

    find_unlisted = staticmethod(branches.find_branch)
    find_sessions = staticmethod(find_sessions)
    write = staticmethod(writer.write_session)
    can_copy = staticmethod(line_scanner.is_whole_file)
    copy = staticmethod(line_scanner.copy_lines)
    build_resume_command = staticmethod(writer.build_resume_command)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        first = next(iter(heads.parse_first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session" and isinstance(first.get("cwd"), str):
            return Claim(95, "a session record of pi")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        cwd = values.as_text(heads.read_first_object(path).get("cwd"))
        return [replace(info, cwd=cwd) for info in line_scanner.list_only_session(path, self.name)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        return line_scanner.LineScanner(path, info, PiShape)

    def read_title(self, path: Path) -> str:
        """Return the name given to the session, or else its first typed text."""
        typed = ""
        for record in heads.read_first_objects(path):
            if record.get("type") == "session_info" and isinstance(name := record.get("name"), str) and name.strip():
                return values.format_title(name)
            typed = typed or _find_typed_text(record)
        return typed


def _find_typed_text(record: dict[str, Any]) -> str:
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "user":
        return ""
    return values.format_title(blocks.extract_text(values.parse_blocks(message.get("content"))))
