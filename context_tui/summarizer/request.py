"""Request of a summarizer, and its cleaning for every wire format: unusable parts are left out, the rest is made valid.

What :func:`clean_messages` makes is Anthropic-shaped and holds text, image, tool_use and tool_result blocks only, with the
fields that the strictest server accepts. Pairs of calls and results are the caller's (they are repaired before).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from context_tui.session.blocks import is_block_list
from context_tui.session.jsontext import compact_text
from context_tui.summarizer.secrets import find_secrets

Message = dict[str, Any]
"""``{"role": "user" | "assistant", "content": text or list of Anthropic-shaped blocks}``."""


@dataclass(frozen=True)
class SummaryRequest:
    """Request for a summary.

    Attributes:
        system: the system prompt, or nothing.
        messages: the history, and last the user message that asks for the summary.
        tools: Anthropic-shaped schemas (``name``, ``description``, ``input_schema``) of the session's tools. They are
            declared so that the tool history is valid; the model may call none of them.
        max_tokens: the most the reply may use.
        sections: headings that a complete reply holds, in order; empty when none are asked for.
        mask_secrets: whether what looks like a secret is masked in what is sent.
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


def format_json(value: Any, *, sort_keys: bool = False) -> str:
    """Format *value* as compact JSON; one that is nested too deeply is named as such."""
    try:
        return compact_text(value, sort_keys=sort_keys)
    except RecursionError:
        return "[nested too deeply]"


def clean_messages(messages: list[Message]) -> list[Message]:
    """Clean the messages for a provider: roles alternate, results come first, thinking and blanks are removed.

    Thinking is left out because the request turns it off: a provider would ignore it, or refuse a foreign signature.
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
    """The message's blocks; a plain string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


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
            given = block.get("input")
            return {"type": "tool_use", **call, "input": given if isinstance(given, dict) else {"input": given}}
        case {"type": "tool_result"}:
            result = {
                "tool_use_id": sanitize_id(block.get("tool_use_id")),
                "content": _clean_result_body(block.get("content", "")),
            }
            return {"type": "tool_result", **result, **({"is_error": True} if block.get("is_error") else {})}
    # Provider activity and whatever comes next: shown to the model as text, since no other server knows the block.
    data = format_json({key: value for key, value in block.items() if key != "type"})
    return {"type": "text", "text": f"[{block.get('type', 'block')}] {data[:500]}"}


def _clean_result_body(content: Any) -> str | list[dict[str, Any]]:
    """A tool_result's body as text, or as a list of text and image blocks; JSON becomes its compact text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if is_block_list(content):
        return [new for block in content if (new := _clean_block(block)) is not None]
    return format_json(content)


def flatten_result_body(content: str | list[dict[str, Any]]) -> str:
    """A cleaned body as plain text with its images named, for formats whose results are text."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] if block["type"] == "text" else "[image]" for block in content)


def sanitize_id(value: object) -> str:
    """A call id that every provider accepts; the same id always becomes the same one."""
    text = str(value or "")
    if text and not _UNSAFE_CHARS.search(text) and len(text) <= MAX_TOOL_NAME_LENGTH:
        return text
    return "call_" + hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def sanitize_name(value: object) -> str:
    """A tool name that every provider accepts."""
    text = str(value or "")
    safe = _UNSAFE_CHARS.sub("_", text)[:MAX_TOOL_NAME_LENGTH]
    if safe != text and find_secrets(text):  # changed, it would no longer be seen to hold a secret
        return sanitize_id(text)
    return safe or "unnamed"


def declare_tools(request: SummaryRequest) -> tuple[list[dict[str, Any]], list[str]]:
    """The tools to declare, and what to tell the user about it.

    A history with tool calls is refused when no tools are declared, so calls of tools without a schema get a minimal
    one of that name.
    """
    declared: dict[str, dict[str, Any]] = {}
    for tool in request.tools:
        schema = tool.get("input_schema")
        known = {"name": sanitize_name(tool.get("name")), "description": str(tool.get("description") or "")}
        declared[known["name"]] = {**known, "input_schema": schema if isinstance(schema, dict) else _build_any_schema()}
    called = [b for message in request.messages for b in list_message_blocks(message) if b.get("type") == "tool_use"]
    missing = sorted({sanitize_name(block.get("name")) for block in called} - declared.keys())
    for name in missing:
        declared[name] = {
            "name": name,
            "description": "A tool of the recorded session.",
            "input_schema": _build_any_schema(),
        }
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    notes = [f"no schema in the session for {', '.join(missing[:5])}{more}: declared by name only"] if missing else []
    return list(declared.values()), notes


def _build_any_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {}}
