"""Claude Code session files: JSON lines, one content block of an API message on each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import Claim, Format, Found, Lister
from context_tui.formats.claude_code.copy import copy
from context_tui.formats.claude_code.parsing import METADATA_TYPES, parse_line
from context_tui.formats.claude_code.places import is_agents, kept, resume_command, title_of
from context_tui.formats.claude_code.scan import ClaudeCodeScanner
from context_tui.formats.claude_code.siblings import AgentFiles, called_session, list_sessions
from context_tui.formats.claude_code.write import write
from context_tui.formats.kit.branches import branch_of
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo

_OWN_TYPES = METADATA_TYPES - {"system", "summary", "mode", "tag"} | {"file-history-snapshot"}


class ClaudeCodeFormat(Format):
    """Claude Code JSONL."""

    name: ClassVar[str] = "claude-code"
    about: ClassVar[str] = "Claude Code session files (JSONL), with sidechains, compactions and rewinds"
    writable: ClassVar[bool] = True
    copies: ClassVar[bool] = True
    from_source: ClassVar[str] = "edits of the context by the API"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        for line in head.split(b"\n")[:50]:
            if not line.strip():
                continue
            try:
                record = parse_line(line)
            except ValueError:
                continue
            if record.uuid and record.sessionId and record.type:
                return Claim(95, "lines with uuid, parentUuid and sessionId")
            if record.type in _OWN_TYPES and b'"payload"' not in line:
                return Claim(80, f"a line of type {record.type}")
            if record.type == "summary" and record.leafUuid:
                return Claim(80, "a summary line with leafUuid")
        if b'"parentUuid"' in head and b'"sessionId"' in head:
            return Claim(60, "parentUuid and sessionId in a long first line")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        return self.lister()(path)

    def lister(self) -> Lister:
        beside = AgentFiles()
        return lambda path: list_sessions(path, beside)

    def scanner(self, path: Path, info: SessionInfo) -> ClaudeCodeScanner:
        return ClaudeCodeScanner(path, info)

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        return branch_of(main, session_id)

    def called(self, session: Session, call: int) -> SessionInfo | None:
        return called_session(session, call)

    def listed(self, path: Path) -> bool:
        return not is_agents(path)

    def title(self, path: Path) -> str:
        return title_of(path)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        return kept(environ, cwd)

    def write(self, session: Session, path: Path) -> Losses:
        return write(session, path)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        return copy(session, path)

    def resume(self, session: Session, written: Path, out: Path) -> str:
        return resume_command(session, written, out)
