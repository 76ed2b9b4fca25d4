"""Find Claude Code's session files and their titles, and build commands to resume them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from context_tui.formats.base import HEAD_BYTES, SessionFile
from context_tui.formats.claude_code.parsing import COMMAND_START, is_markup
from context_tui.formats.kit import files, heads, values, writing
from context_tui.session.jsontext import try_loads
from context_tui.session.markers import CLAUDE_CODE_SUMMARY
from context_tui.session.session import Session

MAX_SLUG_LENGTH = 200
"""Maximum length of a project's name. Claude Code truncates longer names and appends an unpredictable suffix."""
_TITLE_MEMBERS = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Member that holds the title, keyed by the type of the record, with the best title first."""
_TITLE_KEYS = [f'"{member}"'.encode() for member in _TITLE_MEMBERS.values()]
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def find_projects_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code has a folder for each project."""
    return Path(environ.get("CLAUDE_CONFIG_DIR") or files.find_home_folder(environ) / ".claude") / "projects"


def format_project_slug(cwd: Path) -> str:
    """Return a project's folder name: its absolute path with ``-`` in place of all but ASCII letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(cwd.absolute()))


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield the sessions in every project, skipping folders that are missing or cannot be read."""
    current_slug = format_project_slug(cwd)
    for folder in files.list_entries(find_projects_folder(environ)):
        # The slug cannot be turned back into a path; its end distinguishes projects.
        project = cwd.name if folder.name == current_slug else folder.name.strip("-").rsplit("-", 2)[-1]
        for file in files.list_entries(folder):
            if file.name.endswith(".jsonl") and not is_agent_file(file.name):
                yield SessionFile(Path(file.path), project, folder.name == current_slug)


def is_agent_file(path: str | Path) -> bool:
    """Return whether a path has the name of a sub-agent's file."""
    name = os.path.basename(path)
    return name.startswith("agent-") and name.endswith(".jsonl")


def find_title(path: Path) -> str:
    """Return the title in a file's head or tail, else the first typed prompt in its head, else "".

    A title by the user takes precedence over one by Claude Code, and a newer title over an older one. A summary counts
    only if the last message that it names is in this file, as most summaries are of other sessions.
    """
    head, titles, prompt = heads.read_head(path), dict[str, str](), ""
    ends = head + heads.read_tail(path)
    for line in ends.split(b"\n"):
        is_prompt = not prompt and b'"user"' in line
        if is_prompt or any(key in line for key in _TITLE_KEYS):
            record = values.as_object(try_loads(line))  # {} if it is cut at the end of the head
            kind, leaf = values.as_text(record.get("type")), values.as_text(record.get("leafUuid"))
            if key := _TITLE_MEMBERS.get(kind):
                is_own = kind != "summary" or (leaf and f'"uuid":"{leaf}"'.encode() in ends)
                titles[kind] = (values.as_text(record.get(key)).strip() if is_own else "") or titles.get(kind, "")
            elif is_prompt:
                prompt = _find_typed_text(record, subagent=is_agent_file(path))
    return next(filter(None, map(titles.get, _TITLE_MEMBERS)), prompt)


def _find_typed_text(record: dict[str, Any], *, subagent: bool = False) -> str:
    """Return the text that a person typed, or that prompted a *subagent*, or "" if the record holds no such text."""
    if record.get("isMeta") or (record.get("isSidechain") and not subagent):
        return ""
    if "user" not in (record.get("type"), record.get("role")) or record.get("isCompactSummary"):
        return ""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else record.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in values.list_objects(blocks):
        text = values.as_text(block.get("text")) if block.get("type") == "text" else ""
        if text.strip() and not is_markup(text) and not text.startswith(CLAUDE_CODE_SUMMARY):
            return COMMAND_START.sub("", text).removesuffix("</command-args>")
    return ""


def build_resume_command(session: Session, written_session: Path, out_path: Path) -> str:
    """Return a shell command that resumes *written_session* once it is at *out_path*, or "" if none can be built.

    Claude Code finds a session by its file name in the project's folder, so a file from elsewhere is copied there.
    """
    try:
        session_id, cwd = _read_session_id_and_cwd(written_session)
        return _format_resume_command(out_path, session_id, cwd or session.info.cwd) if session_id else ""
    except (OSError, ValueError, RuntimeError):  # an invalid path, or no home: the written file is still good
        return ""


def _format_resume_command(out: Path, session_id: str, cwd: str) -> str:
    slug = format_project_slug(Path(cwd) if cwd else files.find_working_folder())
    if len(slug) > MAX_SLUG_LENGTH:
        return ""
    resume = f"{writing.build_change_folder(cwd)}claude --resume {shlex.quote(session_id)}"
    home = find_projects_folder(os.environ) / slug / f"{session_id}.jsonl"
    if out.resolve() == home.resolve():
        return resume
    folder = "" if home.parent.is_dir() else f"mkdir -p {shlex.quote(str(home.parent))} && "
    return f"{folder}cp -n {shlex.quote(str(out))} {shlex.quote(str(home))} && {resume}"


def _read_session_id_and_cwd(path: Path) -> tuple[str, str]:
    session_id = cwd = ""
    with path.open("rb") as file:
        for line in file.read(HEAD_BYTES).split(b"\n"):
            record = values.as_object(try_loads(line))
            session_id = session_id or values.as_text(record.get("sessionId"))
            cwd = cwd or values.as_text(record.get("cwd"))
    return (session_id if _UUID.fullmatch(session_id) else ""), cwd
