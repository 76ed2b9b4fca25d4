"""The rollouts of sub-agents: each has a file of its own, which the result of the call that started it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.codex.places import beside, first_meta, title_in
from context_tui.formats.codex.records import members
from context_tui.formats.kit.line_scanner import only_session
from context_tui.formats.kit.values import as_id
from context_tui.session.blocks import body_to_text
from context_tui.session.jsontext import loads
from context_tui.session.session import Session, SessionInfo

NAME = "codex"
CALLER = "spawn_agent"
_NAMED = ("agent_id", "thread_id", "receiver_thread_id")


def session_in(path: Path) -> SessionInfo:
    """The one session of a file: its folder, what started it (by its file, where that is here), what it goes on with.

    Raises:
        UnreadableSession: the file cannot be read.
    """
    [info] = only_session(path, NAME)
    meta = first_meta(path)
    parent = str(beside(path, meta.parent) or meta.parent) if meta.parent else ""
    return replace(info, title=title_in(path) or info.title, cwd=meta.cwd, parent=parent, note=meta.note)


def called_session(session: Session, call: int) -> SessionInfo | None:
    """The session of the sub-agent that the call in a block row started; None where no record says which.

    Raises:
        UnreadableSession: it is not here.
    """
    facts = session.facts
    if facts.tool_name(call).rpartition("__")[2] != CALLER or (row := facts.call_result[facts.call[call]]) < 0:
        return None
    message = facts.block_message[row]
    blocks = session.content.blocks(message)
    try:
        told = members(loads(body_to_text(blocks[[*facts.blocks_of(message)].index(row)].get("content"))))
    except ValueError:
        return None
    agent = next((as_id(told[name]) for name in _NAMED if told.get(name)), "")
    if not agent:
        return None
    path = Path(session.info.path)
    if file := beside(path, agent):
        return replace(session_in(file), parent=str(path))
    raise UnreadableSession(f"{path.name}#{agent}: the file of this sub-agent is not here")
