"""agent-sdk's sessions, and the look-alike lines of ``claude -p --output-format stream-json``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.agent_sdk.agents import Agent, agents_in, is_compacted
from context_tui.formats.agent_sdk.shape import NOT_KEPT, AgentSdkShape, is_line, is_own
from context_tui.formats.agent_sdk.write import write
from context_tui.formats.base import WHOLE, Claim, Format, Scanner
from context_tui.formats.kit.heads import first_values, head_values
from context_tui.formats.kit.line_scanner import LineScanner, copy_lines, is_all_lines, only_session
from context_tui.formats.kit.values import text_in, title_of
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import truncate_name
from context_tui.session.values import Role

__all__ = ["AgentSdkFormat"]


class AgentSdkFormat(Format):
    """Sessions of agent-sdk, and streams of events in the same types."""

    name: ClassVar[str] = "agent-sdk"
    about: ClassVar[str] = "agent-sdk sessions, and output of claude -p --output-format stream-json (JSONL)"
    writable: ClassVar[bool] = True
    copies: ClassVar[bool] = True
    from_source: ClassVar[str] = WHOLE

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By Claude Code's types with a ``session_id`` and without its chain of records."""
        if any(is_line(value) for value in first_values(head) if isinstance(value, dict)):
            return Claim(88, "lines of a stream with a session_id")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The session of a file, and the sub-agents whose messages stand among its own."""
        main = self._main(path)
        return [main, *(_info(main, agent) for agent in agents_in(path))]

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for it, or for a sub-agent."""
        if info.id and all(agent.id != info.id for agent in agents_in(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, partial(AgentSdkShape, is_own(head_values(path)), info.id))

    def called(self, session: Session, call: int) -> SessionInfo | None:
        """The sub-agent whose messages name the call."""
        path, own = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in agents_in(path) if own and agent.id == own), None)
        return _info(self._main(path), started) if started else None

    def title(self, path: Path) -> str:
        """The first line of what was typed."""
        custom = ""
        for value in head_values(path):
            given = value.get("custom_title") or value.get("customTitle")
            custom = title_of(given) if isinstance(given, str) else custom
            try:
                part = AgentSdkShape().part(value)
            except ValueError:
                continue
            typed = part.role == Role.USER and not (part.results or part.injected)
            if typed and (title := title_of(text_in(part.blocks))):
                return custom or title
        return custom

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context as agent-sdk does."""
        return write(session, path)

    def can_copy(self, session: Session) -> bool:
        """Not a session that is only some of the lines."""
        return is_all_lines(session)

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the lines as they are."""
        return copy_lines(session, path)

    def _main(self, path: Path) -> SessionInfo:
        [main] = only_session(path, self.name, self.title(path))
        records = head_values(path)
        note = NOT_KEPT if is_own(records) and is_compacted(path) else ""
        begun = next((each for each in records if each.get("subtype") == "init"), {})
        cwd = begun.get("cwd")
        return replace(main, cwd=cwd if isinstance(cwd, str) else "", note=note)


def _info(main: SessionInfo, agent: Agent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.title), parent=main.path)
