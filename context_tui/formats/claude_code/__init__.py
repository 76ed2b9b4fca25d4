"""Read and write sessions of Claude Code, Anthropic's coding agent for the terminal.

Sessions are JSON Lines files, ``~/.claude/projects/PROJECT/SESSION.jsonl``, with one content block of an API message
per line. Sub-agents are sidechains in the same file (older versions), or have their own files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import Claim, Format, Lister
from context_tui.formats.claude_code import paths, writer
from context_tui.formats.claude_code.parsing import METADATA_TYPES, parse_line
from context_tui.formats.claude_code.paths import find_title, is_agent_file
from context_tui.formats.claude_code.reader import ClaudeCodeScanner
from context_tui.formats.claude_code.subagents import AgentFiles, find_subagent_session, list_sessions
from context_tui.formats.kit.branches import find_branch
from context_tui.session.facts import Facts
from context_tui.session.session import SessionInfo

_OWN_TYPES = METADATA_TYPES - {"system", "summary", "mode", "tag"} | {"file-history-snapshot"}


class ClaudeCodeFormat(Format):
    """The format of Claude Code's session files."""

    name: ClassVar[str] = "claude-code"
    about: ClassVar[str] = "Claude Code session files (JSONL), with sidechains, compactions and rewinds"
    from_source: ClassVar[str] = "edits of the context by the API"
    checked_with: ClassVar[str] = "2.1.330"
    unrecorded: ClassVar[tuple[str, ...]] = (
        *("system prompt", "instruction files", "reminders", "tool schemas", "files put back by a compaction"),
    )
    request_recording: ClassVar[str] = (
        "CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_LOG_RAW_API_BODIES=file:DIR claude"
    )

    requests_id: ClassVar[str] = "requests"

    subagent_of = staticmethod(find_subagent_session)
    read_title = staticmethod(find_title)
    find_sessions = staticmethod(paths.find_sessions)
    write = staticmethod(writer.write)
    copy = staticmethod(writer.copy)
    build_resume_command = staticmethod(paths.build_resume_command)

    def list_unrecorded(self, facts: Facts, at: int) -> tuple[str, ...]:
        """Return the unrecorded kinds of 2.1.215, or the few of newer versions, which record each request's prompt."""
        return ("billing header", "output of a command") if facts.prompts else super().list_unrecorded(facts, at)

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

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        return self.make_lister()(path)

    def make_lister(self) -> Lister:
        agent_files = AgentFiles()
        return lambda path: list_sessions(path, agent_files)

    def make_scanner(self, path: Path, info: SessionInfo) -> ClaudeCodeScanner:
        return ClaudeCodeScanner(path, info)

    def find_unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        if session_id.partition("/")[0] == self.requests_id:
            return replace(main, format="claude-requests", id=session_id, parent=main.path)
        return find_branch(main, session_id)

    def is_standalone(self, path: Path) -> bool:
        return not is_agent_file(path)
