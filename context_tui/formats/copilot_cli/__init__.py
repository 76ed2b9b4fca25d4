"""GitHub Copilot CLI's sessions: ``events.jsonl`` in a folder for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.copilot_cli.agents import Agent, agents_in
from context_tui.formats.copilot_cli.shape import CopilotShape, owner_of
from context_tui.formats.kit.branches import BRANCH, branch_of
from context_tui.formats.kit.heads import first_values, head_values
from context_tui.formats.kit.line_scanner import LineScanner, only_session
from context_tui.formats.kit.places import entries, folder_of
from context_tui.formats.kit.values import as_id, title_of
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import truncate_name

__all__ = ["CopilotCliFormat"]

EVENTS_FILE = "events.jsonl"


class CopilotCliFormat(Format):
    """Sessions of GitHub Copilot CLI, with its sub-agents."""

    name: ClassVar[str] = "copilot-cli"
    about: ClassVar[str] = "GitHub Copilot CLI sessions (events.jsonl), with compactions, rewinds and sub-agents"
    from_source: ClassVar[str] = "compactions, rewinds"

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By the first event."""
        first = next(iter(first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session.start" and isinstance(first.get("data"), dict):
            return Claim(95, "an event that starts a session of Copilot CLI")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The session, and its sub-agents, whose events are in the same file."""
        main = _main(path)
        return [main, *(_info(main, agent) for agent in agents_in(path))]

    def unlisted(self, main: SessionInfo, session_id: str) -> SessionInfo | None:
        """A branch that a rewind left."""
        return branch_of(main, session_id)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for the session, a branch of it, or a sub-agent."""
        if not info.id or info.id.startswith(BRANCH):
            return LineScanner(path, info, CopilotShape)
        if all(agent.id != info.id for agent in agents_in(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, lambda: CopilotShape(info.id))

    def called(self, session: Session, call: int) -> SessionInfo | None:
        """The sub-agent that names the call that started it."""
        path, own = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in agents_in(path) if own and agent.call == own), None)
        return _info(_main(path), started) if started else None

    def title(self, path: Path) -> str:
        """What was typed first."""
        for record in head_values(path):
            data = record.get("data")
            if record.get("type") == "user.message" and isinstance(data, dict) and not owner_of(record):
                return title_of(as_id(data.get("content")))
        return ""

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """In a folder for each session; what project it is of stands only inside."""
        for entry in entries(folder_of(environ, "COPILOT_HOME", ".copilot") / "session-state"):
            if entry.name.endswith(".jsonl"):
                yield Found(Path(entry.path), "", False)
            elif (events := Path(entry.path, EVENTS_FILE)).is_file():
                yield Found(events, "", False)


def _main(path: Path) -> SessionInfo:
    """The session of a file, with the folder that its first event names."""
    [main] = only_session(path, CopilotCliFormat.name)
    data = next(iter(head_values(path)), {}).get("data")
    context = data.get("context") if isinstance(data, dict) else None
    cwd = context.get("cwd") if isinstance(context, dict) else None
    return replace(main, cwd=cwd if isinstance(cwd, str) else "")


def _info(main: SessionInfo, agent: Agent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.name or agent.id), parent=main.path)
