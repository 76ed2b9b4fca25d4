"""Codex CLI, OpenAI's coding agent for the terminal.

Sessions are rollouts, JSON Lines files ``~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``, with one item of the
Responses API or one event per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.codex.paths import (
    FORMAT_NAME,
    build_resume_command,
    find_sessions,
    find_subagent_session,
    find_title,
    read_session_info,
)
from context_tui.formats.codex.reader import CodexShape
from context_tui.formats.codex.rollout import META, RECORD_TYPES, parse_rollout_line
from context_tui.formats.codex.writer import write
from context_tui.formats.kit.branches import find_branch
from context_tui.formats.kit.files import parse_first_values
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_whole_file
from context_tui.formats.kit.response_items import unsupported_reason
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

__all__ = ["CodexFormat"]


class CodexFormat(Format):
    """Format of Codex CLI's rollouts."""

    name: ClassVar[str] = FORMAT_NAME
    about: ClassVar[str] = "OpenAI Codex CLI rollouts (JSONL), old ones too, with compactions, forks and rollbacks"
    request_recording: ClassVar[str] = "claude-tap --tap-client codex"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise the envelopes of lines; older files by their first line, or by lines of state between items."""
        values = parse_first_values(head)
        for value in values:
            if isinstance(value, dict) and "payload" in value and _get_text(value.get("type")) in RECORD_TYPES:
                return Claim(92, f"lines of type {value['type']} with a payload")
        first = values[0] if values else None
        if (
            isinstance(first, dict)
            and "type" not in first
            and "git" in first
            and parse_rollout_line(first).kind == META
        ):
            return Claim(92, "a first line with id, timestamp, instructions and git")
        if any(isinstance(value, dict) and value.get("record_type") == "state" for value in values):
            return Claim(92, "lines with record_type")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the only session of a file, with its folder and the session that it continues."""
        return [read_session_info(path)]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """Return a scanner of the session, or of a branch abandoned by a rollback."""
        return LineScanner(path, info, CodexShape, input_includes_cache=True)

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """Return a branch abandoned by a rollback."""
        return find_branch(main, session_id)

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the rollout of the sub-agent that a call started."""
        return find_subagent_session(session, call)

    def read_title(self, path: Path) -> str:
        """Return the first prompt."""
        return find_title(path)

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the rollouts below ``CODEX_HOME``, including archived ones."""
        return find_sessions(environ, cwd)

    def unsupported_reason(self, role: str, block: dict[str, Any]) -> str:
        """Return why no item can hold a block."""
        return unsupported_reason(role, block)

    def write(self, session: Session, path: Path) -> Losses:
        """Write a new rollout for ``codex resume``."""
        return write(session, path)

    def can_copy(self, session: Session) -> bool:
        """Return False for a session that is only some of the lines."""
        return is_whole_file(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the lines that were read."""
        return copy_lines(session, path)

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Build the ``codex resume`` command."""
        return build_resume_command(session, written_session, out_path)


def _get_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
