"""Requests for a summary, and the cleaning of messages that all wire formats need.

:func:`clean_messages` returns Anthropic-shaped messages with text, image, tool_use and tool_result blocks only, with
the fields that the strictest server accepts. The caller must have paired calls and results.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

from context_tui.compaction.tool_pairing import get_content_blocks
from context_tui.session.blocks import is_block_list
from context_tui.session.jsontext import compact_text
from context_tui.summarizer.secrets import find_secrets

Message = dict[str, Any]
"""``{"role": "user" | "assistant", "content": text or list of Anthropic-shaped blocks}``."""


class SummaryRequest(NamedTuple):
    """A request for a summary, independent of the API that it is sent to.

    Attributes:
        messages: the history, followed by the user message that asks for the summary.
        tools: Anthropic-shaped schemas (``name``, ``description``, ``input_schema``) of the session's tools. They are
            declared so that the tool history is valid; the model may call none of them.
        sections: headings that a complete reply has, in order; empty if none are requested.
    """

    system: str | None
    messages: list[Message]
    tools: list[dict[str, Any]]
    max_tokens: int
    sections: tuple[str, ...] = ()
    mask_secrets: bool = False


MAX_TOOL_NAME_LENGTH = 64
"""OpenAI's limit on the length of a tool's name; Anthropic allows more."""

_UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9_-]")


def format_json(value: Any) -> str:
    """Format a value as compact JSON, or as a placeholder if it is nested too deeply to encode."""
    try:
        return compact_text(value)
    except RecursionError:
        return "[nested too deeply]"


def clean_messages(messages: list[Message]) -> list[Message]:
    """Return cleaned copies of messages, which every provider accepts.

    Roles alternate, tool results come first in a message, and thinking and blank texts are removed.

    Thinking is removed because the request disables it: a provider would ignore it, or refuse a foreign signature.
    """
    merged: list[Message] = []
    for message in messages:
        role = "assistant" if message.get("role") == "assistant" else "user"
        blocks = [new for block in list_message_blocks(message) if (new := _clean_block(block)) is not None]
        if not blocks:
            continue
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        else:
            merged.append({"role": role, "content": blocks})
    for message in merged:
        message["content"].sort(key=lambda block: block["type"] != "tool_result")  # stable
    return merged


def list_message_blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks in a message; content that is a plain string becomes one text block."""
    return [block for block in get_content_blocks(message) if isinstance(block, dict)]


def _clean_block(block: dict[str, Any]) -> dict[str, Any] | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text} if text.strip() else None
        case {"type": "text" | "thinking" | "redacted_thinking"}:
            return None
        case {"type": "image", "source": dict(source)}:
            return {"type": "image", "source": source}
        case {"type": "tool_use"}:
            call = {"id": sanitize_id(block.get("id")), "name": sanitize_name(block.get("name"))}
            arguments = block.get("input")
            if not isinstance(arguments, dict):
                arguments = {"input": arguments}
            return {"type": "tool_use", **call, "input": arguments}
        case {"type": "tool_result"}:
            body = _clean_result_body(block.get("content", ""))
            result = {"tool_use_id": sanitize_id(block.get("tool_use_id")), "content": body}
            return {"type": "tool_result", **result, **({"is_error": True} if block.get("is_error") else {})}
    # Provider-specific and future blocks: sent as text, since other servers do not know them.
    data = format_json({key: value for key, value in block.items() if key != "type"})
    return {"type": "text", "text": f"[{block.get('type', 'block')}] {data[:500]}"}


def _clean_result_body(content: Any) -> str | list[dict[str, Any]]:
    """Return the body of a tool_result as text or a list of text and image blocks; other JSON becomes compact text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if is_block_list(content):
        return [new for block in content if (new := _clean_block(block)) is not None]
    return format_json(content)


def flatten_result_body(content: str | list[dict[str, Any]]) -> str:
    """Convert a cleaned result to plain text with placeholders for images, for formats in which results are text."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] if block["type"] == "text" else "[image]" for block in content)


def sanitize_id(value: object) -> str:
    """Return a tool call id that every provider accepts; equal ids give equal results."""
    text = str(value or "")
    if text and not _UNSAFE_CHARS.search(text) and len(text) <= MAX_TOOL_NAME_LENGTH:
        return text
    return "call_" + hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def sanitize_name(value: object) -> str:
    """Return a tool name that every provider accepts, made from the recorded one."""
    text = str(value or "")
    safe = _UNSAFE_CHARS.sub("_", text)[:MAX_TOOL_NAME_LENGTH]
    if safe != text and find_secrets(text):  # the changed name would hide the secret from masking
        return sanitize_id(text)
    return safe or "unnamed"


def declare_tools(request: SummaryRequest) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the tool schemas to declare in the request, and notes to the user about them.

    Providers refuse a history with calls to undeclared tools, so tools without a schema are declared with a minimal
    one.
    """
    any_schema = {"type": "object", "properties": {}}
    declared: dict[str, dict[str, Any]] = {}
    for tool in request.tools:
        schema = tool.get("input_schema")
        base = {"name": sanitize_name(tool.get("name")), "description": str(tool.get("description") or "")}
        declared[base["name"]] = {**base, "input_schema": schema if isinstance(schema, dict) else any_schema}
    calls = [b for message in request.messages for b in list_message_blocks(message) if b.get("type") == "tool_use"]
    missing = sorted({sanitize_name(block.get("name")) for block in calls} - declared.keys())
    for name in missing:
        description = "A tool of the recorded session."
        declared[name] = {"name": name, "description": description, "input_schema": any_schema}
    suffix = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    notes = [f"no schema in the session for {', '.join(missing[:5])}{suffix}: declared by name only"] if missing else []
    return list(declared.values()), notes
