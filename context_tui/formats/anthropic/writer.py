"""Write requests to the Messages API, with only the blocks and members that the API defines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.writing import convert_arguments, count_injected_losses, write_json
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from context_tui.text.files import read_toml

_MEMBERS: dict[str, dict[str, list[str]]] = read_toml("context_tui.formats.anthropic", "blocks.toml")
REQUIRED_MEMBERS, OPTIONAL_MEMBERS = _MEMBERS["required"], _MEMBERS["optional"]
"""Required and optional members of a block, keyed by its type."""
TOOL_MEMBERS = ("name", "description", "input_schema", "cache_control", "type", "strict", "defer_loading")
"""Members that a tool with a schema may have. A tool that the provider hosts is written unchanged."""

RESULT_BLOCK_TYPES = ("text", "image", "document", "search_result", "tool_reference")
ASSISTANT_BLOCK_TYPES = ("thinking", "redacted_thinking", "server_tool_use")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
UNSUPPORTED_BLOCKS = "blocks left out that a Messages request cannot hold"


def find_unsupported_reason(role: str, block: Block) -> str:
    """Return why the API refuses *block* in a message of *role*, or "" if it accepts the block."""
    kind = str(block.get("type"))
    if kind in ("thinking", "redacted_thinking") and not block.get("signature" if kind == "thinking" else "data"):
        return "unsigned thinking blocks left out, which Anthropic refuses"
    if kind in ("tool_use", "tool_result"):
        return ""
    if kind == "tool_reference" or (kind in ASSISTANT_BLOCK_TYPES and role != "assistant"):
        return UNSUPPORTED_BLOCKS
    if kind == "image" and _build_image_source(block) is None:
        return "images left out that Anthropic cannot read"
    return "" if _is_complete(block) else UNSUPPORTED_BLOCKS


def write_request(session: Session, path: Path) -> Losses:
    """Write a request with the model, system prompt, tools and messages, and return the losses."""
    losses = Losses()
    system, tools = session.content.system(), [_build_tool(tool, losses) for tool in session.content.tools()]
    request = {
        **({"model": session.facts.model} if session.facts.model else {}),
        **({"system": system} if system else {}),
        **({"tools": tools} if tools else {}),
        "messages": [
            {"role": message["role"], "content": [_build_block(block, losses) for block in message["content"]]}
            for message in session.to_messages()
        ],
    }
    write_json(request, path)
    count_injected_losses(session, losses)
    return losses


def _is_complete(block: Block) -> bool:
    kind = str(block.get("type"))
    texts = ("text", "thinking", "signature", "data", "tool_name", "file_id")
    return kind in REQUIRED_MEMBERS and all(
        isinstance(block.get(name), str) if name in texts else block.get(name) is not None
        for name in REQUIRED_MEMBERS[kind]
    )


def _build_image_source(image: Block) -> Block | None:
    source = image.get("source")
    if not isinstance(source, dict):
        return None
    match source.get("type"):
        case "base64" if source.get("media_type") in IMAGE_TYPES and isinstance(source.get("data"), str):
            return {name: source[name] for name in ("type", "media_type", "data")}
        case "url" if source.get("url") and isinstance(source["url"], str):
            return {name: source[name] for name in ("type", "url")}
        case "file" if isinstance(source.get("file_id"), str):
            return {name: source[name] for name in ("type", "file_id")}
    return None


def _build_block(block: Block, losses: Losses) -> Block:
    kind = str(block.get("type"))
    allowed = ("type", *REQUIRED_MEMBERS[kind], *OPTIONAL_MEMBERS.get(kind, ("cache_control",)))
    for name in block:
        losses.add(f"block fields left out that Anthropic refuses ({name})", name not in allowed)
    request_block = {name: value for name, value in block.items() if name in allowed and value is not None}
    match kind:
        case "image":
            request_block["source"] = _build_image_source(block)
        case "tool_use":
            request_block |= {"id": str(block.get("id") or ""), "name": str(block.get("name") or "")}
            request_block["input"] = convert_arguments(block, losses)
        case "tool_result":
            request_block["tool_use_id"] = str(block.get("tool_use_id") or "")
            if "is_error" in request_block:
                request_block["is_error"] = bool(request_block["is_error"])
            if "content" in request_block:
                request_block["content"] = _build_result_body(block["content"], losses)
                losses.replace(block, request_block)
    return request_block


def _build_result_body(body: Any, losses: Losses) -> Any:
    if isinstance(body, str):
        return body
    if not isinstance(body, list):
        losses.add("JSON results turned into text")
        return compact_text(body)
    parts = []
    for part in body:
        is_valid = isinstance(part, dict) and part.get("type") in RESULT_BLOCK_TYPES and _is_complete(part)
        if is_valid and (part["type"] != "image" or _build_image_source(part)):
            parts.append(_build_block(part, losses))
        else:
            losses.add("parts of results turned into text, as Anthropic cannot hold them")
            parts.append({"type": "text", "text": part if isinstance(part, str) else compact_text(part)})
    return parts


def _build_tool(tool: Block, losses: Losses) -> Block:
    if not isinstance(tool.get("input_schema"), dict):
        return tool
    for name in tool:
        losses.add(f"tool fields left out that Anthropic refuses ({name})", name not in TOOL_MEMBERS)
    return {name: tool[name] for name in TOOL_MEMBERS if tool.get(name) is not None}
