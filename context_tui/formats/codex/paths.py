"""Find Codex's rollouts, including those of sub-agents, and their titles, and build commands to resume them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from context_tui.errors import UnreadableSession
from context_tui.formats.base import SessionFile
from context_tui.formats.codex.reader import CodexShape
from context_tui.formats.codex.rollout import ITEM, META, SessionMeta, parse_rollout_line, parse_session_meta
from context_tui.formats.kit import blocks, heads, line_scanner, message_builder, values, writing
from context_tui.formats.kit.files import find_home_folder, open_regular
from context_tui.session.blocks import body_to_text
from context_tui.session.jsontext import loads, try_loads
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Role

ROLLOUT_FOLDERS = ("sessions", "archived_sessions")
TITLE_HEAD_BYTES = 512 << 10
"""Bytes of a file that are searched for the first prompt. A session begins with some 100 KB of instructions."""
MAX_BASES = 200
"""Maximum number of rollouts that one rollout may continue, directly and indirectly."""
_ROLLOUT = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T.*\.jsonl")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def find_codex_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CODEX_HOME") or find_home_folder(environ) / ".codex")


def find_sessions(environ: Mapping[str, str], cwd: Path) -> Iterator[SessionFile]:
    """Yield every rollout in Codex's folders. Projects stay unknown, as only the first line of a rollout names one."""
    for folder in ROLLOUT_FOLDERS:
        for place, _, names in os.walk(find_codex_home(environ) / folder):
            for name in names:
                if _ROLLOUT.fullmatch(name):
                    yield SessionFile(Path(place, name), "", is_current_project=False)


def read_session_meta(path: Path) -> SessionMeta:
    """Return the session metadata from a file's first line, with "" for each missing value."""
    lines = [parse_rollout_line(value) for value in heads.read_first_values(path)[:2] if isinstance(value, dict)]
    metas = [parse_session_meta(line.payload) for line in lines if line.kind == META]
    if not metas:
        return parse_session_meta({})
    copied = next((other.id for other in metas[1:] if other.id != metas[0].id), "")
    return metas[0]._replace(forked_from=metas[0].forked_from or copied)


def find_title(path: Path) -> str:
    """Return the first typed prompt, or "" if there is none or the file cannot be read."""
    parse = CodexShape().parse
    for line in heads.read_head(path, TITLE_HEAD_BYTES).split(b"\n"):
        if b'"user' not in line:
            continue
        try:
            record = loads(line)
            rollout_line = parse_rollout_line(record)
            message = message_builder.find_message(parse(record)) if rollout_line.kind == ITEM else None
            if message and message.role == Role.USER and not (message.is_injected or message.has_results):
                return values.format_title(blocks.extract_text(message.blocks))
            event = values.as_object(rollout_line.payload)
            if event.get("type") == "user_message" and isinstance(text := event.get("message"), str):
                return values.format_title(text)
        except (ValueError, AttributeError):  # not JSON, cut off at the end of the head, or not a record
            continue
    return ""


def find_bases(path: Path, meta: SessionMeta) -> tuple[list[tuple[Path, int]], str]:
    """Return the rollouts that the rollout at *path* continues, oldest first, and a note for users on this history.

    Codex continues a thread in a new file if the thread is forked or rolled back. Each rollout is returned with the
    number of bytes at its start that belong to the session. A rollout that is missing or does not fit is left out,
    and so are all older ones.
    """
    bases, paths, reason = list[tuple[Path, int]](), {path}, ""
    while meta.continued_from and not reason:
        if (base := find_rollout(path, meta.continued_from)) is None:
            reason = "not in this file"
        elif base in paths:
            reason = f"left out: {base.name} continues itself"
        elif len(bases) == MAX_BASES:
            reason = f"left out: it continues more than {MAX_BASES} files"
        elif not _is_line_end(base, meta.base_bytes):
            reason = f"left out: no line of {base.name} ends at byte {meta.base_bytes:,}"
        else:
            bases.append((base, meta.base_bytes))
            paths.add(base)
            meta = read_session_meta(base)
    if reason:
        note = f"continues session {meta.continued_from}, whose messages are {reason}"
    elif bases:
        note = f"continues {bases[0][0].name}, whose beginning is read too"
    elif meta.forked_from:
        note = f"forked from session {meta.forked_from}, whose messages are repeated here without their usage"
    else:
        note = ""
    return bases[::-1], note


def _is_line_end(path: Path, place: int) -> bool:
    with suppress(OSError, OverflowError, UnreadableSession), open_regular(path) as file:
        return place > 0 and os.pread(file.fileno(), 1, place - 1) == b"\n"
    return False


def find_rollout(path: Path, rollout_id: str) -> Path | None:
    """Return the rollout with an id, or None if it is neither in the folder of *path* nor near the day in its id.

    The first rollout of a session has the session's id, and each later rollout has an id of its own.
    """
    if not _UUID.fullmatch(rollout_id):
        return None
    root = path.parents[3] if len(path.parents) > 3 and path.parent.name.isdecimal() else path.parent
    days = {path.parent, *(root / f"{day:%Y/%m/%d}" for day in _list_days(rollout_id))}
    files = (file for day in sorted(days) for file in day.glob(f"rollout-*[-_]{rollout_id}.jsonl"))
    return next(files, None)


def _list_days(rollout_id: str) -> list[datetime]:
    if rollout_id[14] != "7":
        return []
    created = int(rollout_id[:8] + rollout_id[9:13], 16) // 1000
    return [datetime.fromtimestamp(created + offset * 86_400, UTC) for offset in (-1, 0, 1)]


def build_resume_command(session: Session, written_session: Path, out_path: Path) -> str:
    """Return a shell command that resumes *written_session* once it is at *out_path*, or "" if none can be built.

    Codex finds a session by the id in its file name below Codex's folder, so a file from elsewhere is copied there.
    """
    try:
        meta = read_session_meta(written_session)
        if not _UUID.fullmatch(meta.id):
            return ""
        resume = f"{writing.build_change_folder(meta.cwd)}codex resume {shlex.quote(meta.id)}"
        root = find_codex_home(os.environ) / ROLLOUT_FOLDERS[0]
        is_own_name = _ROLLOUT.fullmatch(out_path.name) and meta.id in out_path.name
        if is_own_name and root.resolve() in out_path.resolve().parents:
            return resume
        now = datetime.now()
        home = root / f"{now:%Y/%m/%d}" / f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{meta.id}.jsonl"
        folder, source, target = (shlex.quote(str(path)) for path in (home.parent, out_path, home))
        return f"mkdir -p {folder} && cp -n {source} {target} && {resume}"
    except (OSError, ValueError, RuntimeError):  # an invalid path, or no home: the written file is still good
        return ""


FORMAT_NAME = "codex"
SPAWN_TOOL = "spawn_agent"
_AGENT_ID_MEMBERS = ("agent_id", "thread_id", "receiver_thread_id")


def read_session_info(path: Path) -> SessionInfo:
    """Return the only session in a file, with its folder, parent (a file, or an id if the file is missing) and note."""
    [info] = line_scanner.list_only_session(path, FORMAT_NAME)
    meta = read_session_meta(path)
    parent = str(find_rollout(path, meta.parent) or meta.parent) if meta.parent else ""
    title, (_, note) = find_title(path) or info.title, find_bases(path, meta)
    return replace(info, title=title, cwd=meta.cwd, parent=parent, note=note)


def find_subagent_session(session: Session, call: int) -> SessionInfo | None:
    """Return the session of the sub-agent that a tool call started, or None, as ``Format.subagent_of`` describes."""
    facts = session.facts
    if facts.tool_name(call).rpartition("__")[2] != SPAWN_TOOL or (row := facts.call_result[facts.call[call]]) < 0:
        return None
    block = session.content.blocks(facts.block_message[row])[facts.ordinal(row)]
    result = values.as_object(try_loads(body_to_text(block.get("content"))))
    agent = next((values.parse_id(result[name]) for name in _AGENT_ID_MEMBERS if result.get(name)), "")
    if not agent:
        return None
    path = Path(session.info.path)
    if file := find_rollout(path, agent):
        return replace(read_session_info(file), parent=str(path))
    raise UnreadableSession(f"{path.name}#{agent}: the file of this sub-agent is not here")
