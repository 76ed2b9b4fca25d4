"""OpenAI Codex CLI: rollouts, the files that it keeps its sessions in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.codex.agents import NAME, called_session, session_in
from context_tui.formats.codex.places import kept, resume_command, title_in
from context_tui.formats.codex.records import META, TYPES, line_of
from context_tui.formats.codex.shape import CodexShape
from context_tui.formats.codex.write import write
from context_tui.formats.kit.branches import branch_of
from context_tui.formats.kit.heads import first_values
from context_tui.formats.kit.items_writing import refused
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_all_lines
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

__all__ = ["CodexFormat"]


class CodexFormat(Format):
    """Codex CLI rollouts."""

    name: ClassVar[str] = NAME
    about: ClassVar[str] = "OpenAI Codex CLI rollouts (JSONL), old ones too, with compactions, forks and rollbacks"
    writable: ClassVar[bool] = True
    copies: ClassVar[bool] = True
    is_request: ClassVar[bool] = True  # its items are sent as they are

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By the envelopes of its lines; older ones by their first line, or lines of state between items."""
        values = first_values(head)
        for value in values:
            if isinstance(value, dict) and "payload" in value and _text(value.get("type")) in TYPES:
                return Claim(92, f"lines of type {value['type']} with a payload")
        first = values[0] if values else None
        if isinstance(first, dict) and "type" not in first and "git" in first and line_of(first).kind == META:
            return Claim(92, "a first line with id, timestamp, instructions and git")
        if any(isinstance(value, dict) and value.get("record_type") == "state" for value in values):
            return Claim(92, "lines with record_type")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The one session of a file; its folder, and what it goes on with."""
        return [session_in(path)]

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for it, or for a branch that a rollback left."""
        return LineScanner(path, info, CodexShape, input_includes_cache=True)

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """A branch that a rollback left."""
        return branch_of(main, session_id)

    def called(self, session: Session, call: int) -> SessionInfo | None:
        """The rollout of the sub-agent that a call started."""
        return called_session(session, call)

    def title(self, path: Path) -> str:
        """The first prompt."""
        return title_in(path)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """The rollouts below ``CODEX_HOME``, archived ones too."""
        return kept(environ, cwd)

    def refuses(self, role: str, block: dict[str, Any]) -> str:
        """What no item holds."""
        return refused(role, block)

    def write(self, session: Session, path: Path) -> Losses:
        """Write a rollout of its own that ``codex resume`` takes."""
        return write(session, path)

    def can_copy(self, session: Session) -> bool:
        """Not a session that is only some of the lines."""
        return is_all_lines(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the lines that were read."""
        return copy_lines(session, path)

    def resume(self, session: Session, written: Path, out: Path) -> str:
        """``codex resume``."""
        return resume_command(session, written, out)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
