"""Write sessions that pi can resume, in version 3, with each entry as the child of the previous one.

A summary at the start of the context is written as a compaction that keeps no earlier entries.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context_tui.formats.kit import files, heads, writing
from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.size_note import SIZE_NOTE, build_size_note
from context_tui.session.blocks import is_block_list
from context_tui.session.facts import Usage
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_models, collect_usage
from context_tui.session.session import Message, Session
from context_tui.session.values import MessageFlag

EntryObject = dict[str, Any]
MODEL_APIS = (
    ("claude", "anthropic-messages", "anthropic"),
    ("gemini", "google-generative-ai", "google"),
    ("gpt", "openai-responses", "openai"),
)
"""Prefixes of models' names, with the API and the provider that pi uses for these models."""
DEFAULT_API = ("openai-completions", "openai")


def write_session(session: Session, path: Path) -> Losses:
    """Write the header and an entry for each message or result, and return the losses."""
    losses = Losses()
    writing.write_lines(_build_entries(session, losses), path)
    writing.note_omitted_request_parts(session, losses, "pi")
    return losses


def build_resume_command(session: Session, written_session: Path, out_path: Path) -> str:
    """Return a shell command that opens the session by its path, in its project's folder."""
    header = heads.read_first_object(written_session)
    return f"{writing.build_change_folder(header.get('cwd'))}pi --session {shlex.quote(str(out_path.absolute()))}"


def _build_entries(session: Session, losses: Losses) -> Iterator[EntryObject]:
    start_time = max((time for time in session.facts.time[:1] if time >= 0), default=-1)
    cwd = session.info.cwd or str(files.find_working_folder())
    header = {"type": "session", "version": 3, "id": str(uuid.uuid4())}
    yield {**header, "timestamp": writing.format_iso_time(start_time), "cwd": cwd}
    for number, (entry, time) in enumerate(_build_entry_bodies(session, losses), 1):
        if entry["type"] == "compaction":
            entry["firstKeptEntryId"] = f"{number + 1:08x}"  # it keeps no earlier entries
        ids = {"id": f"{number:08x}", "parentId": f"{number - 1:08x}" if number > 1 else None}
        yield {"type": entry.pop("type"), **ids, "timestamp": writing.format_iso_time(time), **entry}


def _build_entry_bodies(session: Session, losses: Losses) -> Iterator[tuple[EntryObject, int]]:
    facts, context = session.facts, session.context_at()
    usages, models = collect_usage(session), collect_models(session)
    tools: dict[str, str] = {}
    messages = zip(context.order, session.messages_in(context), strict=True)
    for place, (index, message) in enumerate(messages):
        time, blocks = facts.time[index], message["content"]
        if message["role"] == "assistant":
            tools |= {str(block.get("id")): str(block.get("name")) for block in blocks if block["type"] == "tool_use"}
            model = models.get(index) or facts.model or ""
            yield _build_message_entry(_build_reply(message, model, usages.get(index), losses), time), time
            continue
        texts = [block for block in blocks if block.get("type") == "text"]
        if not place and facts.flags[index] & MessageFlag.SUMMARY and len(texts) == len(blocks) == 1:
            yield {"type": "compaction", "summary": texts[0].get("text") or "", "tokensBefore": 0}, time
            continue
        results, prompt_blocks = writing.split_results(blocks)
        for result in results:
            yield _build_message_entry(_build_result(result, tools, losses), time), time
        if prompt_blocks:
            losses.add("messages with results and text split into two", bool(results))
            injected = writing.list_injected(facts, context.blocks_of(index))
            content = writing.convert_blocks(prompt_blocks, _build_part, losses, "pi")
            if all(injected) and injected:
                members = {"customType": "context-tui", "content": content, "display": True}
                yield {"type": "custom_message", **members}, time
                continue
            losses.add(writing.INJECTED_LOSS, sum(injected))
            yield _build_message_entry({"role": "user", "content": content}, time), time
        elif not results:
            yield _build_message_entry({"role": "user", "content": []}, time), time
    if note := build_size_note(facts, losses):
        yield {"type": "custom", "customType": SIZE_NOTE, "data": note}, max(facts.time, default=-1)


def _build_message_entry(message: Message, time: int) -> EntryObject:
    return {"type": "message", "message": {**message, "timestamp": max(time, 0)}}


def _build_reply(message: Message, model: str, usage: Usage | None, losses: Losses) -> Message:
    content: list[Block] = []
    for block in message["content"]:
        match block.get("type"):
            case "text":
                content.append({"type": "text", "text": block.get("text") or ""})
            case "thinking":
                signature = block.get("signature")
                signature_member = {"thinkingSignature": signature} if signature else {}
                content.append({"type": "thinking", "thinking": block.get("thinking") or "", **signature_member})
            case "redacted_thinking" if isinstance(block.get("data"), str):
                hidden = {"thinking": "", "thinkingSignature": block["data"], "redacted": True}
                content.append({"type": "thinking", **hidden})
            case "tool_use":
                names = {"id": str(block.get("id") or ""), "name": str(block.get("name") or "")}
                arguments = writing.convert_arguments(block, losses)
                content.append({"type": "toolCall", **names, "arguments": arguments})
            case other:
                losses.omit(f"blocks of type {other} left out, which pi cannot hold", block)
    model_api = next((api for api in MODEL_APIS if model.startswith(api[0])), ("", *DEFAULT_API))
    calls = any(block["type"] == "toolCall" for block in content)
    return {
        "role": "assistant",
        "content": content,
        "api": model_api[1],
        "provider": model_api[2],
        "model": model,
        "usage": _format_usage(usage or Usage()),
        "stopReason": "toolUse" if calls else "stop",
    }


def _format_usage(usage: Usage) -> dict[str, Any]:
    written = usage.cache_write_5m + usage.cache_write_1h
    sizes = {"input": usage.fresh, "output": usage.output, "cacheRead": usage.cache_read, "cacheWrite": written}
    return {**sizes, "totalTokens": sum(sizes.values()), "cost": dict.fromkeys((*sizes, "total"), 0)}


def _build_result(result: Block, tools: dict[str, str], losses: Losses) -> Message:
    body = result.get("content")
    if is_block_list(body):
        content = writing.convert_body_blocks(result, _build_part, losses, "results whose images pi cannot hold")
    else:
        content = [{"type": "text", "text": writing.convert_body_to_text(result, losses)}]
    call_id = str(result.get("tool_use_id") or "")
    members = {"toolCallId": call_id, "toolName": tools.get(call_id, "unknown"), "content": content}
    return {"role": "toolResult", **members, "isError": bool(result.get("is_error"))}


def _build_part(block: Block) -> Block | None:
    source = block.get("source")
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text") or ""}
    if block.get("type") == "image" and isinstance(source, dict) and isinstance(source.get("data"), str):
        return {"type": "image", "data": source["data"], "mimeType": source.get("media_type") or "image/png"}
    return None
