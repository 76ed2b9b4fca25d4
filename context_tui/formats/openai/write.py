"""Writing a session as a Chat Completions request."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from context_tui.formats.arguments import arguments_of
from context_tui.formats.base import Export
from context_tui.formats.writing import injected_loss, losses_in, write_json
from context_tui.session.facts import is_block_list
from context_tui.session.jsontext import compact_json
from context_tui.session.session import Message

OWN_PARTS = ("refusal", "input_audio", "file")
Block = dict[str, Any]


def write_request(export: Export, path: Path) -> list[str]:
    """Write model, system message, messages and tools; returns what had to be left out or changed."""
    session, lost = export.session, Counter[str]()
    system = session.content.system()
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for message in export.messages:
        write = _assistant if message["role"] == "assistant" else _user
        messages.extend(write(message["content"], lost))
    tools = [{"type": "function", "function": _function(tool)} for tool in session.content.tools()]
    request = {
        **({"model": session.facts.model} if session.facts.model else {}),
        "messages": messages,
        **({"tools": tools} if tools else {}),
    }
    write_json(request, path)
    return losses_in(lost) + injected_loss(session)


def _assistant(blocks: list[Block], lost: Counter[str]) -> list[Message]:
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    rest = [block for block in blocks if block.get("type") != "tool_use"]
    if blocks[: len(rest)] != rest:
        lost["replies whose text stood behind calls, and now before them"] += 1
    content = _content(rest, lost)
    message: Message = {"role": "assistant", "content": content or None}
    if content == "" and not calls and rest:
        message["content"] = ""
    if calls:
        message["tool_calls"] = [
            {
                "id": str(call.get("id") or ""),
                "type": "function",
                "function": {"name": str(call.get("name") or ""), "arguments": arguments_of(call.get("input"))},
            }
            for call in calls
        ]
    return [message]


def _user(blocks: list[Block], lost: Counter[str]) -> list[Message]:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    messages = [_tool(result, lost) for result in results]
    if rest or not results:
        messages.append({"role": "user", "content": _content(rest, lost)})
    if rest and results:
        lost["messages with results and text that became two"] += 1
    return messages


def _tool(result: Block, lost: Counter[str]) -> Message:
    body = result.get("content")
    if result.get("is_error"):
        lost["results no longer marked as errors"] += 1
    content: Any = body or ""
    if isinstance(body, list) and is_block_list(body):
        if images := sum(1 for block in body if block["type"] == "image"):
            lost["images inside results, which OpenAI's own endpoint refuses"] += images
        content = _content(body, lost, parts=True)
    elif body is None or isinstance(body, str):
        pass
    else:
        content = compact_json(body).decode("utf-8", "surrogatepass")
        lost["results that were JSON and are text now"] += 1
    return {"role": "tool", "tool_call_id": str(result.get("tool_use_id") or ""), "content": content}


def _content(blocks: list[Block], lost: Counter[str], *, parts: bool = False) -> str | list[Block]:
    """Text as one string where there is one, else content parts."""
    content: list[Block] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                content.append({"type": "text", "text": str(block.get("text") or "")})
            case "image":
                content.append({"type": "image_url", "image_url": {"url": _url(block)}})
            case "thinking" | "redacted_thinking":
                lost["thinking blocks left out"] += 1
            case kind if kind in OWN_PARTS:
                content.append(block)
            case _:
                lost["blocks left out that Chat Completions has no place for"] += 1
    return str(content[0]["text"]) if not parts and len(content) == 1 and content[0]["type"] == "text" else content


def _url(image: Block) -> str:
    source = image.get("source")
    source = source if isinstance(source, dict) else {}
    if source.get("data") is None:
        return str(source.get("url") or "")
    return f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"


def _function(tool: Block) -> Block:
    return {
        "name": str(tool.get("name") or ""),
        **({"description": tool["description"]} if "description" in tool else {}),
        **({"parameters": tool["input_schema"]} if "input_schema" in tool else {}),
    }
