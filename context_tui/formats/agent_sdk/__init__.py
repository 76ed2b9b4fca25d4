"""agent-sdk, and the similar output of ``claude -p --output-format stream-json``.

A session is a JSON Lines file with messages, events of the system and results, each with a ``session_id``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.agent_sdk import writer
from context_tui.formats.agent_sdk.reader import (
    MISSING_SUMMARY_NOTE,
    AgentSdkShape,
    Subagent,
    find_subagents,
    is_agent_sdk,
    is_compacted,
    is_stream_record,
)
from context_tui.formats.base import ALL_FROM_SOURCE, Claim, Format, Scanner
from context_tui.formats.kit.files import parse_first_values, read_first_objects
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_whole_file, list_only_session
from context_tui.formats.kit.message_builder import MessageRecord
from context_tui.formats.kit.values import as_text, extract_text, format_title
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

__all__ = ["AgentSdkFormat"]


class AgentSdkFormat(Format):
    """Format of agent-sdk's sessions, and of streams of events of the same types."""

    name: ClassVar[str] = "agent-sdk"
    about: ClassVar[str] = "agent-sdk sessions, and output of claude -p --output-format stream-json (JSONL)"
    from_source: ClassVar[str] = ALL_FROM_SOURCE

    write = staticmethod(writer.write)
    can_copy = staticmethod(is_whole_file)
    copy = staticmethod(copy_lines)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise Claude Code's record types with a ``session_id`` and without its chain of uuids."""
        if any(is_stream_record(value) for value in parse_first_values(head) if isinstance(value, dict)):
            return Claim(88, "lines of a stream with a session_id")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the session of a file, and the sub-agents whose messages are in the same file."""
        main = self._read_main_info(path)
        return [main, *(_build_subagent_info(main, agent) for agent in find_subagents(path))]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        if info.id and all(agent.id != info.id for agent in find_subagents(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, partial(AgentSdkShape, is_agent_sdk(read_first_objects(path)), info.id))

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the sub-agent whose messages name the call."""
        path, own = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in find_subagents(path) if own and agent.id == own), None)
        return _build_subagent_info(self._read_main_info(path), started) if started else None

    def read_title(self, path: Path) -> str:
        custom = ""
        for value in read_first_objects(path):
            name = value.get("custom_title") or value.get("customTitle")
            custom = format_title(name) if isinstance(name, str) else custom
            try:
                part = AgentSdkShape().parse(value)
            except ValueError:
                continue
            if not isinstance(part, MessageRecord):
                continue
            typed = part.role == Role.USER and not (part.has_results or part.is_injected)
            if typed and (title := format_title(extract_text(part.blocks))):
                return custom or title
        return custom

    def _read_main_info(self, path: Path) -> SessionInfo:
        [main] = list_only_session(path, self.name, self.read_title(path))
        records = read_first_objects(path)
        note = MISSING_SUMMARY_NOTE if is_agent_sdk(records) and is_compacted(path) else ""
        init = next((each for each in records if each.get("subtype") == "init"), {})
        return replace(main, cwd=as_text(init.get("cwd")), note=note)


def _build_subagent_info(main: SessionInfo, agent: Subagent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.title), parent=main.path)
