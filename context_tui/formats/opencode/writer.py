"""Write documents that ``opencode import`` accepts, and copy sessions as ``opencode export`` does."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.databases import Database, decode_text
from context_tui.formats.kit.entry_scanner import BATCH_SIZE, EntryContent, format_placeholders
from context_tui.formats.kit.files import open_regular
from context_tui.formats.kit.size_note import build_size_note
from context_tui.formats.kit.values import as_object
from context_tui.formats.kit.writing import (
    convert_arguments,
    convert_body_to_text,
    list_injected,
    note_omitted_request_parts,
    write_json,
)
from context_tui.formats.opencode.parts import COMPACTION_PROMPT
from context_tui.formats.opencode.reader import parse_entry
from context_tui.formats.opencode.sources import ExportSource, TableSource, TreeSource
from context_tui.session.facts import Usage
from context_tui.session.jsontext import loads, try_loads
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_models, collect_usage, find_recording
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag

PROVIDERS = {"claude": "anthropic", "gpt": "openai", "o": "openai", "gemini": "google", "grok": "xai"}
"""Providers by the prefix of their models' names."""
VERSION = "1.2.0"
"""Version of opencode whose schema is written."""
UNSUPPORTED_BLOCKS = "blocks left out that opencode cannot hold"
MEDIA_TYPES = ("image", "document")


@dataclass
class _ExportDocument:
    """A document under construction, in which the ids and times of messages ascend, as opencode's do."""

    session: str
    model: dict[str, str]
    folder: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    open_calls: dict[str, dict[str, Any]] = field(default_factory=dict)  # calls without a result so far
    _newest_prompt: str = ""  # the newest message of the user
    _id_count: int = 0
    _now: int = 1

    def make_id(self, prefix: str) -> str:
        self._id_count += 1
        stamp = (self._now * 0x1000 + self._id_count) & 0xFFFFFFFFFFFF
        return f"{prefix}_{stamp:012x}{uuid.uuid4().hex[:14]}"

    def begin_message(self, role: str, time: int, **members: Any) -> dict[str, Any]:
        self._now = max(self._now, time)
        ids = {"id": self.make_id("msg"), "sessionID": self.session, "role": role}
        info = {**ids, "time": {"created": self._now}, **members}
        if role == "assistant":
            parent, folders = self._newest_prompt or self.make_id("msg"), {"cwd": self.folder, "root": self.folder}
            info |= {"parentID": parent, "mode": "build", "agent": "build", "cost": 0, **self.model, "path": folders}
        else:
            info |= {"agent": "build", "model": self.model}
            self._newest_prompt = info["id"]
        self.messages.append({"info": info, "parts": []})
        return info

    def add_part(self, kind: str, **members: Any) -> dict[str, Any]:
        message = self.messages[-1]
        ids = {"id": self.make_id("prt"), "sessionID": self.session, "messageID": message["info"]["id"], "type": kind}
        message["parts"].append(part := {**ids, **members})
        return part


def write_export(session: Session, path: Path) -> Losses:
    """Write the context at the end of *session*, and return the losses."""
    losses, facts, context = Losses(), session.facts, session.context_at()
    providers = _find_recorded_providers(session)
    model = _parse_model(facts.model, providers)
    document = _ExportDocument(f"ses_{uuid.uuid4().hex[:26]}", model, session.info.cwd or "/")
    usages, models = collect_usage(session), collect_models(session)
    for index, message in zip(context.order, session.to_messages(), strict=True):
        time = max(facts.time[index], 0)
        if message["role"] == "assistant":
            document.model = _parse_model(models.get(index) or facts.model, providers)
            _add_reply(document, message["content"], time, usages.get(index), losses)
            if facts.flags[index] & MessageFlag.SUMMARY and not _mark_summary(document):
                losses.add("summaries written as plain replies")
        else:
            injected = list_injected(facts, context.blocks_of(index))
            _add_user_message(document, message["content"], injected, time, losses)
    for part in document.open_calls.values():
        part["state"] = {"status": "pending", "input": part["state"]["input"], "raw": ""}
    _end_replies(document)
    note_omitted_request_parts(session, losses, "opencode")
    created = [each["info"]["time"]["created"] for each in document.messages] or [1]
    info = {"id": document.session, "slug": f"exported-{document.session[-6:]}", "projectID": "global"}
    title, times = session.info.title or "Exported session", {"created": created[0], "updated": created[-1]}
    info |= {"version": VERSION, "directory": document.folder, "title": title} | build_size_note(facts, losses)
    write_json({"info": {**info, "time": times}, "messages": document.messages}, path)
    return losses


def _parse_model(name: str | None, recorded_providers: dict[str, str]) -> dict[str, str]:
    model = name or "unknown"
    guess = next((provider for start, provider in PROVIDERS.items() if model.startswith(start)), "unknown")
    return {"providerID": recorded_providers.get(model, guess), "modelID": model}


def _find_recorded_providers(session: Session) -> dict[str, str]:
    recording = find_recording(session)
    content, providers = recording.content, dict[str, str]()
    if not isinstance(content, EntryContent) or recording.info.format != "opencode":
        return providers
    ids = content.entry_pass.ids
    for start in range(0, len(ids), BATCH_SIZE):
        for entry in content.entry_pass.source.read_entries(ids[start : start + BATCH_SIZE]):
            body = as_object(try_loads(entry.texts[0]) if entry.texts else None)
            model, provider = body.get("modelID"), body.get("providerID")
            if isinstance(model, str) and isinstance(provider, str):
                providers[model] = provider
    return providers


def _mark_summary(document: _ExportDocument) -> bool:
    if len(document.messages) < 2:
        return False
    request, reply = document.messages[-2:]
    if [part.get("text") for part in request["parts"]] != [COMPACTION_PROMPT]:
        return False
    part = request["parts"][0]
    ids = {name: part[name] for name in ("id", "sessionID", "messageID")}
    request["parts"] = [{**ids, "type": "compaction", "auto": False}]
    reply["info"] |= {"summary": True, "mode": "compaction", "agent": "compaction"}
    return True


def _end_replies(document: _ExportDocument) -> None:
    """Mark each reply as ended, unless a call in it has no result, since opencode would treat that call as failed."""
    for message in document.messages:
        info = message["info"]
        states = [part["state"]["status"] for part in message["parts"] if part["type"] == "tool"]
        if info["role"] == "assistant" and "pending" not in states:
            info["time"]["completed"] = info["time"]["created"]
            info["finish"] = "tool-calls" if states else "stop"


def _add_reply(document: _ExportDocument, blocks: list[Block], time: int, usage: Usage | None, losses: Losses) -> None:
    """Add an assistant message, whose calls stay open until their results are added."""
    usage = usage or Usage()
    cache = {"read": usage.cache_read, "write": usage.cache_write_5m + usage.cache_write_1h}
    tokens = {"input": usage.fresh, "output": usage.output, "reasoning": 0, "cache": cache}
    document.begin_message("assistant", time, tokens=tokens)
    for block in blocks:
        match block.get("type"):
            case "text":
                document.add_part("text", text=str(block.get("text") or ""))
            case "thinking":
                signature = block.get("signature")
                metadata = {"metadata": {"anthropic": {"signature": signature}}} if signature else {}
                document.add_part("reasoning", text=str(block.get("thinking") or ""), time={"start": time}, **metadata)
            case "redacted_thinking":
                metadata = {"metadata": {"anthropic": {"redactedData": str(block.get("data") or "")}}}
                document.add_part("reasoning", text="", time={"start": time}, **metadata)
            case "tool_use":
                call_id, name = str(block.get("id") or ""), str(block.get("name") or "")
                state = {"status": "pending", "input": convert_arguments(block, losses)}
                document.open_calls[call_id] = document.add_part("tool", callID=call_id, tool=name, state=state)
            case _:
                losses.omit(UNSUPPORTED_BLOCKS, block)


def _add_user_message(
    document: _ExportDocument, blocks: list[Block], injected: list[bool], time: int, losses: Losses
) -> None:
    pairs = zip(blocks, injected, strict=True)
    prompt_blocks = [(block, is_injected) for block, is_injected in pairs if block.get("type") != "tool_result"]
    newest = document.messages[-1]["info"]["id"] if document.messages else ""
    for block in blocks:
        if block.get("type") == "tool_result":
            part = document.open_calls.pop(str(block.get("tool_use_id") or ""), None)
            if part is None:
                losses.omit("results left out whose call is missing", block)
                continue
            losses.add("results moved to their calls", part["messageID"] != newest)
            part["state"] = _build_call_state(document, part, block, time, losses)
    if not prompt_blocks:
        return
    losses.add("messages with results and text split into two", len(prompt_blocks) < len(blocks))
    document.begin_message("user", time)
    for block, is_injected in prompt_blocks:
        if block.get("type") == "text":
            document.add_part("text", text=str(block.get("text") or ""), **({"synthetic": True} if is_injected else {}))
        elif file := _build_file_members(block):
            document.add_part("file", **file)
        else:
            losses.omit(UNSUPPORTED_BLOCKS, block)


def _build_call_state(
    document: _ExportDocument, part: dict[str, Any], block: Block, time: int, losses: Losses
) -> dict[str, Any]:
    times = {"start": time, "end": time}
    body, arguments = block.get("content"), part["state"]["input"]
    if block.get("is_error"):
        return {"status": "error", "input": arguments, "error": convert_body_to_text(block, losses), "time": times}
    blocks = body if isinstance(body, list) and all(isinstance(each, dict) for each in body) else []
    files = [file for each in blocks if each.get("type") in MEDIA_TYPES and (file := _build_file_members(each))]
    texts = [str(each.get("text") or "") for each in blocks if each.get("type") == "text"]
    state = {"status": "completed", "input": arguments, "title": "", "metadata": {}, "time": times}
    if not files or len(texts) > 1 or len(files) + len(texts) < len(blocks):
        return {**state, "output": convert_body_to_text(block, losses)}
    losses.add("results of images alone, written with an empty text", not texts)
    members = {"sessionID": document.session, "messageID": part["messageID"], "type": "file"}
    attachments = [{"id": document.make_id("prt"), **members, **file} for file in files]
    return {**state, "output": "".join(texts), "attachments": attachments}


def _build_file_members(block: Block) -> dict[str, str]:
    source = block.get("source")
    if block.get("type") not in MEDIA_TYPES or not isinstance(source, dict):
        return {}
    mime = str(source.get("media_type") or ("image/*" if block["type"] == "image" else "application/octet-stream"))
    title = {"filename": block["title"]} if isinstance(block.get("title"), str) else {}
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return {"mime": mime, "url": f"data:{mime};base64,{source['data']}", **title}
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return {"mime": mime, "url": source["url"], **title}
    return {}


TEXT_COLUMNS = {"id": "id", "slug": "slug", "project_id": "projectID", "parent_id": "parentID"}
TEXT_COLUMNS |= {name: name for name in ("directory", "path", "title", "version", "agent")}
"""Text columns of ``session``, and their names in an export."""
TIME_COLUMNS = {"time_created": "created", "time_updated": "updated"}


def is_copyable(session: Session) -> bool:
    """Return whether a session was read from opencode's files, is not a branch, and contains only valid JSON."""
    is_branch = bool(session.info.id.rpartition("/")[0])
    return isinstance(session.content, EntryContent) and not is_branch and not session.facts.problems


def copy_session(session: Session, path: Path) -> list[str] | None:
    """Write the messages with all recorded members, and return [], or None if the session is not copyable."""
    content = session.content
    if not isinstance(content, EntryContent) or not is_copyable(session):
        return None
    source = content.entry_pass.source
    if isinstance(source, ExportSource):
        with open_regular(source.path) as file, path.open("xb") as out:
            shutil.copyfileobj(file, out)
        return []
    if isinstance(source, TreeSource):
        info = dict(source.read_metadata())
        entries = (parse_entry(entry) for entry in source.read_entries(content.entry_pass.ids))
        messages = [{"info": body, "parts": parts} for body, parts, _ in entries]
    elif isinstance(source, TableSource):
        info = _read_session_row(source.database, session.info.id)
        messages = [*_read_message_rows(source.database, session.info.id, content.entry_pass.ids)]
    else:
        return None
    write_json({"info": info, "messages": messages}, path)
    return []


def _read_session_row(database: Database, session_id: str) -> dict[str, Any]:
    columns = database.list_columns("session")
    names = [name for name in (*TEXT_COLUMNS, *TIME_COLUMNS, "revert") if name in columns]
    rows = database.query(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (session_id,))
    row = {name: value for name, value in zip(names, rows[0] if rows else (), strict=False) if value is not None}
    texts = {export_name: decode_text(row[name]) for name, export_name in TEXT_COLUMNS.items() if name in row}
    times = {export_name: row[name] for name, export_name in TIME_COLUMNS.items() if name in row}
    return {"id": session_id, **texts, **({"revert": loads(row["revert"])} if "revert" in row else {}), "time": times}


def _read_message_rows(database: Database, session_id: str, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(ids), BATCH_SIZE):
        batch = ids[start : start + BATCH_SIZE]
        messages, marks = dict[str, dict[str, Any]](), format_placeholders(batch)
        for name, data in database.query(f"SELECT id, data FROM message WHERE id IN ({marks})", batch):
            members = {"id": decode_text(name), "sessionID": session_id}
            messages[decode_text(name)] = {"info": {**members, **loads(data)}, "parts": []}
        sql = f"SELECT id, message_id, data FROM part WHERE message_id IN ({marks}) ORDER BY message_id, id"
        for name, message, data in database.query(sql, batch):
            members = {"id": decode_text(name), "sessionID": session_id, "messageID": decode_text(message)}
            messages[decode_text(message)]["parts"].append({**members, **loads(data)})
        yield from (messages[name] for name in batch if name in messages)
