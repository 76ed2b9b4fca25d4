"""Find the sub-agent sessions of a Claude Code file: sidechains inside it, and separate agent files."""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.claude_code.parsing import MESSAGE_TYPES, Record, extract_blocks, parse_line
from context_tui.formats.claude_code.reader import UNNAMED_SIDECHAIN, ClaudeCodeContent
from context_tui.formats.kit import files, heads, lines, values
from context_tui.session.jsontext import loads
from context_tui.session.session import Session, SessionInfo
from context_tui.text.sanitize import truncate_name

FORMAT_NAME = "claude-code"
HEAD_LINES = 20
"""Lines at the start of an agent's file that are searched for its first message."""
SUBAGENT_TOOLS = frozenset({"Task", "Agent"})
"""Names of the tools that start sub-agents."""
_SIDECHAIN_MARK = re.compile(rb'"isSidechain":true')
"""Mark of a sidechain record; searched at the start of files only, since only old, small files have sidechains."""


class AgentFiles:
    """A cache of the agent files that Claude Code up to 2.0 writes next to sessions. Each file is read only once."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, dict[str | None, list[tuple[Path, Record]]]] = {}

    def find(self, path: Path) -> list[tuple[Path, Record]]:
        """Return the agent files that belong to the session *path*, sorted by path, each with its first message."""
        folder = path.parent
        if folder not in self._by_folder:
            files_by_session = self._by_folder[folder] = {}
            for file in sorted(folder.glob("agent-*.jsonl")):
                if record := _read_first_message(file):
                    files_by_session.setdefault(record.sessionId, []).append((file, record))
        return self._by_folder[folder].get(path.stem, [])


def list_sessions(path: Path, agent_files: AgentFiles) -> list[SessionInfo]:
    """Return a file's main session (id "") and its sub-agents, or only the sub-agent if the file is a sub-agent's."""
    status, record = files.read_status(path), _read_first_message(path)
    if record is not None and record.isSidechain and path.stem.startswith("agent-"):
        return [_build_agent_info(path, record, record.sessionId or "?")]
    cwd = record.cwd or "" if record else ""
    main = SessionInfo(str(path), FORMAT_NAME, title=path.stem, time=status.st_mtime, bytes=status.st_size, cwd=cwd)
    names = _find_inline_agents(path)
    inline = [replace(main, id=name, title=truncate_name(name), parent=str(path)) for name in names]
    folder = path.with_suffix("") / "subagents"
    below = [(file, record) for file in sorted(folder.rglob("agent-*.jsonl")) if (record := _read_first_message(file))]
    agents = (*below, *agent_files.find(path))
    return [main, *inline, *(_build_agent_info(file, record, str(path)) for file, record in agents)]


def _build_agent_info(path: Path, record: Record, parent: str) -> SessionInfo:
    status, agent = path.stat(), record.agentId or UNNAMED_SIDECHAIN
    return SessionInfo(str(path), FORMAT_NAME, agent, path.stem, parent, status.st_mtime, status.st_size)


def _read_first_message(path: Path) -> Record | None:
    with suppress(OSError, UnreadableSession), files.open_regular(path) as file:
        for line in islice(iter(lambda: file.readline(lines.STEP_BYTES), b""), HEAD_LINES):
            with suppress(ValueError):
                record = parse_line(line)
                if record.type in MESSAGE_TYPES:
                    return record
    return None


def find_subagent_session(session: Session, call: int) -> SessionInfo | None:
    """Return the session of the sub-agent that a tool call started, or None, as ``Format.subagent_of`` describes."""
    facts, content = session.facts, session.content
    if not isinstance(content, ClaudeCodeContent) or facts.tools[facts.tool[call]] not in SUBAGENT_TOOLS:
        return None
    call_id, result = facts.calls[facts.call[call]], facts.call_result[facts.call[call]]
    agent = _find_agent_in_result(content, facts.block_message[result], call_id) if result >= 0 else ""
    path = Path(session.info.parent if os.path.isfile(session.info.parent) else session.info.path)
    agent = agent or _find_agent_by_call(path, call_id)
    if not agent:
        return None
    folder = path.with_suffix("") / "subagents"
    name = f"agent-{agent}.jsonl" if agent.isalnum() else ""
    for file in (*folder.rglob(name), path.with_name(name)) if name else ():
        if record := _read_first_message(file):
            return _build_agent_info(file, record, str(path))
    if agent in _find_inline_agents(path):
        return SessionInfo(str(path), FORMAT_NAME, agent, truncate_name(agent), str(path))
    raise UnreadableSession(f"{path.name}#{agent}: the file of this sub-agent is not here")


def _find_agent_in_result(content: ClaudeCodeContent, message: int, call_id: str) -> str:
    for row in content.facts.iterate_records(message):
        line = content.read_line(row)
        if b'"agentId"' not in line or call_id.encode() not in line:
            continue
        with suppress(ValueError):
            agent = values.as_object(values.as_object(loads(line)).get("toolUseResult")).get("agentId")
            answers = [block.get("tool_use_id") for block in extract_blocks(parse_line(line))]
            if isinstance(agent, str) and answers == [call_id]:
                return agent
    return ""


def _find_agent_by_call(path: Path, call_id: str) -> str:
    for file in sorted((path.with_suffix("") / "subagents").glob("agent-*.meta.json")):
        if values.as_object(heads.read_json(file, HEAD_BYTES)).get("toolUseId") == call_id:
            return file.name.removeprefix("agent-").removesuffix(".meta.json")
    return ""


def _find_inline_agents(path: Path) -> list[str]:
    """Return the agents with sidechains in a file, in file order, or [] if the file has no main chain."""
    agents: dict[str, None] = {}
    with closing(lines.LineFile(path)) as file:
        for line in lines.find_matching_lines(file, _SIDECHAIN_MARK):
            with suppress(ValueError):
                record = parse_line(line)
                if record.isSidechain and record.type in MESSAGE_TYPES:
                    agents[record.agentId or UNNAMED_SIDECHAIN] = None
        main = file.data.find(b'"isSidechain":false', 0, lines.MAX_SEARCHED_BYTES)
    return list(agents) if main >= 0 else []
