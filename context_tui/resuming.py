"""How to go on with an exported session in the program that it is for."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

from context_tui.session.jsontext import loads
from context_tui.session.session import Session

LONGEST_SLUG = 200
"""Longer names of projects Claude Code cuts, and adds what only it can tell."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def resume_command(session: Session, written: Path, out: Path, format_name: str) -> str:
    """The shell command that resumes what was *written*, once it is at *out*; empty where there is none to be had.

    Claude Code finds a session by its file's name in the folder of its project, so a file elsewhere is copied there.
    """
    if format_name != "claude-code":
        return ""
    try:
        session_id, cwd = _recorded(written)
        return _command(out, session_id, cwd or session.info.cwd) if session_id else ""
    except (OSError, ValueError, RuntimeError):  # a path that no system takes, no home: what was written is good still
        return ""


def _command(out: Path, session_id: str, cwd: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9]", "-", cwd or str(Path.cwd()))
    if len(slug) > LONGEST_SLUG:
        return ""
    resume = f"claude --resume {shlex.quote(session_id)}"
    if cwd:
        resume = f"cd {shlex.quote(cwd)} && {resume}"
    projects = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
    home = projects / slug / f"{session_id}.jsonl"
    if out.resolve() == home.resolve():
        return resume
    folder = "" if home.parent.is_dir() else f"mkdir -p {shlex.quote(str(home.parent))} && "
    return f"{folder}cp -n {shlex.quote(str(out))} {shlex.quote(str(home))} && {resume}"


def _recorded(path: Path) -> tuple[str, str]:
    """The session id and the folder that the first records name."""
    session_id = cwd = ""
    with path.open("rb") as file:
        for line in file.read(65_536).split(b"\n"):
            try:
                record = loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                session_id, cwd = session_id or _text(record, "sessionId"), cwd or _text(record, "cwd")
    return (session_id if _UUID.fullmatch(session_id) else ""), cwd


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
