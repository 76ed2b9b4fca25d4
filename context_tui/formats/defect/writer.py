"""Write journals that defect can resume.

On resuming, defect discards everything after the last turn that has ended, so every turn is written with its end. A
summary is an ordinary message that defect recognises by its first words.
"""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context_tui.formats.defect.paths import JOURNAL_FILE, META_FILE
from context_tui.formats.kit import writing
from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.files import find_working_folder
from context_tui.session.blocks import is_block_list
from context_tui.session.facts import Usage
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_usage
from context_tui.session.session import Session

VERSION = 1
"""Version of the schema that is written."""
SESSIONS_FOLDER = "${XDG_STATE_HOME:-$HOME/.local/state}/defect/sessions"
Record = dict[str, Any]


def write(session: Session, path: Path) -> Losses:
    """Write the messages in the context, with the usage of each turn, and return the losses."""
    losses = Losses()
    records = enumerate(_build_records(session, losses))
    lines = ({"schema_version": VERSION, "seq": seq, "record": record} for seq, record in records)
    writing.write_lines(lines, path)
    writing.count_injected_losses(session, losses)
    writing.note_omitted_request_parts(session, losses, "defect")
    return losses


def build_resume_command(session: Session, written_session: Path, out_path: Path) -> str:
    """Return a shell command that copies the journal into a new session folder of defect and resumes it."""
    session_id = str(uuid.uuid4())
    cwd = session.info.cwd or str(find_working_folder())
    meta = json.dumps({"schema_version": VERSION, "session_id": session_id, "cwd": cwd, "mcp_servers": []})
    folder = f'd="{SESSIONS_FOLDER}/{session_id}" && mkdir -p "$d"'
    copy = f'cp {shlex.quote(str(out_path.absolute()))} "$d/{JOURNAL_FILE}"'
    files = f'{copy} && printf %s {shlex.quote(meta)} > "$d/{META_FILE}"'
    return f"{folder} && {files} && cd {shlex.quote(cwd)} && defect --repl --resume {session_id}"


def _build_records(session: Session, losses: Losses) -> Iterator[Record]:
    """Yield the records. A turn begins after typed text, ends before the next typed text, and records its usage."""
    context, usage_by_message = session.context_at(), collect_usage(session)
    is_open, usages = False, list[Usage]()
    for index, message in zip(context.order, session.messages_in(context), strict=True):
        content = [new_block for block in message["content"] if (new_block := _build_block(block, losses))]
        typed = message["role"] == "user" and any(each["type"] != "tool_result" for each in content)
        if typed and is_open:
            yield _build_turn_end(usages)
            is_open, usages = False, []
        yield {"type": "message", "message": {"role": message["role"], "content": content}}
        if not is_open:
            yield {"type": "turn_started"}
            is_open = True
        if usage := usage_by_message.get(index):
            usages.append(usage)
    if is_open:
        yield _build_turn_end(usages)


def _build_turn_end(usages: list[Usage]) -> Record:
    sizes: dict[str, int | None] = {
        "input_tokens": sum(usage.fresh for usage in usages),
        "output_tokens": sum(usage.output for usage in usages),
        "cache_read_input_tokens": sum(usage.cache_read for usage in usages),
        "cache_creation_input_tokens": sum(usage.cache_write_5m + usage.cache_write_1h for usage in usages),
    }
    return {"type": "turn_ended", "reason": "end_turn", "usage": sizes if usages else dict.fromkeys(sizes)}


def _build_block(block: Block, losses: Losses) -> Block | None:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": block.get("text") or ""}
        case "thinking":
            text, signature = block.get("thinking") or "", block.get("signature")
            return {"type": "thinking", "text": text, "signature": signature}
        case "tool_use":
            call_id, name = str(block.get("id") or ""), str(block.get("name") or "")
            return {"type": "tool_use", "id": call_id, "name": name, "args": block.get("input")}
        case "tool_result":
            members = {"tool_use_id": str(block.get("tool_use_id") or ""), "output": _build_output(block, losses)}
            return {"type": "tool_result", **members, "is_error": block.get("is_error") is True}
        case "image" if image := _build_image(block):
            return {"type": "image", **image}
    losses.omit(f"blocks of type {block.get('type')} left out, which defect cannot hold", block)
    return None


def _build_output(result: Block, losses: Losses) -> Record:
    body = result.get("content")
    if body is None or isinstance(body, str):
        return {"kind": "text", "text": body or ""}
    if not is_block_list(body) or not body:
        return {"kind": "json", "value": body}
    if not any(map(_build_output_block, body)):
        losses.replace(result, {**result, "content": ""}, "results whose images defect cannot hold")
        return {"kind": "text", "text": ""}
    blocks = writing.convert_body_blocks(result, _build_output_block, losses, "results whose images defect cannot hold")
    return {"kind": "content", "blocks": blocks}


def _build_output_block(block: Block) -> Record | None:
    if block.get("type") == "text":
        return {"kind": "text", "text": block.get("text") or ""}
    image = _build_image(block)
    return {"kind": "image", **image} if image else None


def _build_image(block: Block) -> Record | None:
    match block.get("source"):
        case {"type": "base64", "data": str() as data, **more}:
            return {"mime": str(more.get("media_type") or "image/png"), "data": {"kind": "base64", "encoded": data}}
        case {"type": "url", "url": str() as url}:
            return {"mime": "image/png", "data": {"kind": "url", "url": url}}
    return None
