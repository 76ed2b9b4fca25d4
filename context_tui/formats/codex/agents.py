"""The rollouts of sub-agents: each has a file of its own, which the result of the call that started it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.codex.places import find_rollout, find_title, read_session_meta
from context_tui.formats.codex.records import as_object
from context_tui.formats.kit.line_scanner import list_only_session
from context_tui.formats.kit.values import parse_id
from context_tui.session.blocks import body_to_text
from context_tui.session.jsontext import loads
from context_tui.session.session import Session, SessionInfo

FORMAT_NAME = "codex"
SPAWN_TOOL = "spawn_agent"
_AGENT_ID_MEMBERS = ("agent_id", "thread_id", "receiver_thread_id")


def read_session_info(path: Path) -> SessionInfo:
    """The one session of a file: its folder, what started it (by its file, where that is here), what it goes on with.

    Raises:
        UnreadableSession: the file cannot be read.
    """
    [info] = list_only_session(path, FORMAT_NAME)
    meta = read_session_meta(path)
    parent = str(find_rollout(path, meta.parent) or meta.parent) if meta.parent else ""
    return replace(info, title=find_title(path) or info.title, cwd=meta.cwd, parent=parent, note=meta.note)


def find_subagent_session(session: Session, call: int) -> SessionInfo | None:
    """The session of the sub-agent that the call in a block row started; None where no record says which.

    Raises:
        UnreadableSession: it is not here.
    """
    facts = session.facts
    if facts.tool_name(call).rpartition("__")[2] != SPAWN_TOOL or (row := facts.call_result[facts.call[call]]) < 0:
        return None
    message = facts.block_message[row]
    blocks = session.content.blocks(message)
    try:
        told = as_object(loads(body_to_text(blocks[[*facts.blocks_of(message)].index(row)].get("content"))))
    except ValueError:
        return None
    agent = next((parse_id(told[name]) for name in _AGENT_ID_MEMBERS if told.get(name)), "")
    if not agent:
        return None
    path = Path(session.info.path)
    if file := find_rollout(path, agent):
        return replace(read_session_info(file), parent=str(path))
    raise UnreadableSession(f"{path.name}#{agent}: the file of this sub-agent is not here")
