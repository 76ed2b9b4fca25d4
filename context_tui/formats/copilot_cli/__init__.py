"""GitHub Copilot CLI, a coding agent for the terminal.

Each session has a folder with ``events.jsonl``, a JSON event per line; events of sub-agents are in the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, Format, Scanner, SessionFile
from context_tui.formats.copilot_cli.reader import CopilotShape, Subagent, find_agent_id, find_subagents
from context_tui.formats.kit.branches import BRANCH_PREFIX, find_branch
from context_tui.formats.kit.files import find_program_folder, list_entries, parse_first_values, read_first_objects
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.values import as_object, as_text, format_title, parse_id
from context_tui.session.session import Session, SessionInfo
from context_tui.text.sanitize import truncate_name

__all__ = ["CopilotCliFormat"]

EVENTS_FILE = "events.jsonl"


class CopilotCliFormat(Format):
    """Format of GitHub Copilot CLI's sessions and sub-agents."""

    name: ClassVar[str] = "copilot-cli"
    about: ClassVar[str] = "GitHub Copilot CLI sessions (events.jsonl), with compactions, rewinds and sub-agents"
    from_source: ClassVar[str] = "compactions, rewinds"

    find_unlisted = staticmethod(find_branch)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        first = next(iter(parse_first_values(head)), None)
        if isinstance(first, dict) and first.get("type") == "session.start" and isinstance(first.get("data"), dict):
            return Claim(95, "an event that starts a session of Copilot CLI")
        return None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """List the session, and its sub-agents, whose events are in the same file."""
        main = _read_main_info(path)
        return [main, *(_build_subagent_info(main, agent) for agent in find_subagents(path))]

    def make_scanner(self, path: Path, info: SessionInfo) -> Scanner:
        if not info.id or info.id.startswith(BRANCH_PREFIX):
            return LineScanner(path, info, CopilotShape)
        if all(agent.id != info.id for agent in find_subagents(path)):
            raise UnreadableSession(f"{path}: unknown session {info.id!r}")
        return LineScanner(path, info, lambda: CopilotShape(info.id))

    def subagent_of(self, session: Session, call: int) -> SessionInfo | None:
        """Return the sub-agent whose events name the call that started it."""
        path, own = Path(session.info.path), session.facts.call_id(call)
        started = next((agent for agent in find_subagents(path) if own and agent.call == own), None)
        return _build_subagent_info(_read_main_info(path), started) if started else None

    def read_title(self, path: Path) -> str:
        for record in read_first_objects(path):
            data = record.get("data")
            if record.get("type") == "user.message" and isinstance(data, dict) and not find_agent_id(record):
                return format_title(parse_id(data.get("content")))
        return ""

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the session of each folder; only the file itself names its project."""
        for entry in list_entries(find_program_folder(environ, "COPILOT_HOME", ".copilot") / "session-state"):
            if entry.name.endswith(".jsonl"):
                yield SessionFile(Path(entry.path), "", False)
            elif (events := Path(entry.path, EVENTS_FILE)).is_file():
                yield SessionFile(events, "", False)


def _read_main_info(path: Path) -> SessionInfo:
    """Read the session of a file, with the folder named in its first event."""
    [main] = list_only_session(path, CopilotCliFormat.name)
    data = as_object(next(iter(read_first_objects(path)), {}).get("data"))
    return replace(main, cwd=as_text(as_object(data.get("context")).get("cwd")))


def _build_subagent_info(main: SessionInfo, agent: Subagent) -> SessionInfo:
    return replace(main, id=agent.id, title=truncate_name(agent.name or agent.id), parent=main.path)
