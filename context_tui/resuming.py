"""How to go on with an exported session in the program that it is for."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from context_tui.session.jsontext import loads
from context_tui.session.session import Session

LONGEST = 200
"""Characters of a project's folder, whose whole path becomes the name of one."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def resume_command(session: Session, written: Path, out: Path, format_name: str) -> str:
    """The shell command that resumes the exported session; empty where there is none.

    Claude Code finds a session by its file's name in the folder of its project, so a file elsewhere is copied there.

    Args:
        written: what was written, where it is now.
        out: where it is to be.
    """
    if format_name != "claude-code":
        return ""
    session_id, cwd = _recorded(written)
    cwd = cwd or session.info.cwd
    if not session_id or len(cwd) > LONGEST or "\0" in cwd:
        return ""
    resume = f"claude --resume {shlex.quote(session_id)}"
    if cwd:
        resume = f"cd {shlex.quote(cwd)} && {resume}"
    projects = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
    home = projects / re.sub(r"[^A-Za-z0-9]", "-", cwd or str(Path.cwd())) / f"{session_id}.jsonl"
    if os.path.realpath(out) == os.path.realpath(home):
        return resume
    folder = "" if os.path.isdir(home.parent) else f"mkdir -p {shlex.quote(str(home.parent))} && "
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
                session_id = session_id or str(record.get("sessionId") or "")
                cwd = cwd or str(record.get("cwd") or "")
    return (session_id if _UUID.fullmatch(session_id) else ""), cwd
