"""The sessions that belong to one Claude Code file: itself, sidechains inside it, and agent files beside it."""

from __future__ import annotations

from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.claude_code.records import decode
from context_tui.formats.lines import LineFile
from context_tui.session.session import SessionInfo

NAME = "claude-code"
SEARCHED = 32 << 20
"""Bytes at the start of a file that are searched for sidechains: only old, small files have them inside."""


def list_sessions(path: Path) -> list[SessionInfo]:
    """The main session first (its id is empty), then its agents (their id is the agent's, their parent the file)."""
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableSession(f"{path}: cannot be read: {error.strerror or error}") from None
    agent_file = path.stem.startswith("agent-") and _is_sidechain(path)
    main = SessionInfo(
        str(path),
        NAME,
        title=path.stem,
        parent=_session_of(path) if agent_file else "",
        time=status.st_mtime,
        bytes=status.st_size,
    )
    if agent_file:
        return [main]
    inline = [SessionInfo(str(path), NAME, agent, agent, str(path), status.st_mtime) for agent in _inline_agents(path)]
    beside = [
        SessionInfo(str(file), NAME, file.stem, file.stem, str(path), file.stat().st_mtime, file.stat().st_size)
        for file in _agent_files(path)
    ]
    return [main, *inline, *beside]


def _agent_files(path: Path) -> list[Path]:
    own = path.with_suffix("") / "subagents"
    nested = sorted(own.glob("agent-*.jsonl")) if own.is_dir() else []
    older = [file for file in sorted(path.parent.glob("agent-*.jsonl")) if _session_of(file) == path.stem]
    return nested + older


def _is_sidechain(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return decode(file.readline()).isSidechain
    except (OSError, ValueError):
        return False


def _session_of(path: Path) -> str:
    """The session that an agent file belongs to, from its first line."""
    try:
        with path.open("rb") as file:
            return decode(file.readline()).sessionId or "?"
    except (OSError, ValueError):
        return "?"


def _inline_agents(path: Path) -> list[str]:
    """Agents whose sidechains are inside the file, in file order. A file of one sidechain only is no parent."""
    file = LineFile(path)
    found: dict[str, None] = {}
    main = at = 0
    try:
        while True:
            at = file.data.find(b'"isSidechain":true', at, SEARCHED)
            if at < 0:
                break
            start = file.data.rfind(b"\n", 0, at) + 1
            end, _ = file.line(at)
            try:
                record = decode(file.data[start:end])
                if record.isSidechain and record.type in ("user", "assistant"):
                    found[record.agentId or "sidechain"] = None
            except ValueError:
                pass
            at = end
        main = file.data.find(b'"isSidechain":false', 0, SEARCHED)
    finally:
        file.close()
    return list(found) if main >= 0 else []
