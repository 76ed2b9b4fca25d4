"""Write requests to Chat Completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from context_tui.formats.kit.blocks import Block, format_arguments
from context_tui.formats.kit.values import as_object
from context_tui.formats.kit.writing import convert_arguments, count_injected_losses, split_results, write_json
from context_tui.session.blocks import is_block_list
from context_tui.session.jsontext import compact_text
from context_tui.session.losses import Losses
from context_tui.session.session import Message, Session

OWN_PART_MEMBERS = {"input_audio": ("data", "format"), "file": ("file_data", "file_id", "filename")}
"""Members of content parts other than text and images, in a member named after the part's type."""


def find_unsupported_reason(role: str, block: Block) -> str:
    """Return why the API refuses *block* in a message of *role*, or "" if it accepts it."""
    kind, by_assistant = block.get("type"), role == "assistant"
    match kind:
        case "thinking" | "redacted_thinking":
            return "thinking blocks left out"
        case "text" | "tool_use" | "tool_result":
            return ""
        case "refusal" if by_assistant and isinstance(block.get("refusal"), str):
            return ""
        case "image" if not by_assistant and _format_image_url(block):
            return ""
        case "image":
            return "images left out that Chat Completions cannot hold"
        case "input_audio" | "file" if not by_assistant and isinstance(block.get(kind), dict):
            return ""
    return "blocks left out that Chat Completions cannot hold"


def write_request(session: Session, path: Path) -> Losses:
    """Write a request with the model, the system prompt, the messages and the tools, and return the losses."""
    losses = Losses()
    system = session.content.system()
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for message in session.to_messages():
        write = _build_assistant if message["role"] == "assistant" else _build_user
        messages.extend(write(message["content"], losses))
    schemas = session.content.tools()
    tools = [{"type": "function", "function": _build_function(tool)} for tool in schemas if _is_function(tool)]
    losses.add("tools left out that are not functions", len(schemas) - len(tools))
    model = {"model": session.facts.model} if session.facts.model else {}
    write_json({**model, "messages": messages, **({"tools": tools} if tools else {})}, path)
    count_injected_losses(session, losses)
    return losses


def _build_assistant(blocks: list[Block], losses: Losses) -> list[Message]:
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    texts = [block for block in blocks if block.get("type") != "tool_use"]
    losses.add("replies whose text was moved before their calls", blocks[: len(texts)] != texts)
    content = _build_content(texts)
    message: Message = {"role": "assistant", "content": content or None}
    if content == "" and not calls and texts:
        message["content"] = ""
    if calls:
        message["tool_calls"] = []
        for call in calls:
            arguments = format_arguments(convert_arguments(call, losses))
            function = {"name": str(call.get("name") or ""), "arguments": arguments}
            message["tool_calls"].append({"id": str(call.get("id") or ""), "type": "function", "function": function})
    return [message]


def _build_user(blocks: list[Block], losses: Losses) -> list[Message]:
    results, texts = split_results(blocks)
    messages, images = [], list[Block]()
    for result in results:
        message, result_images = _build_tool_message(result, losses)
        messages.append(message)
        images += result_images
    if texts or images or not results:
        messages.append({"role": "user", "content": _build_content([*images, *texts])})
    losses.add("messages with results and text split into two", bool(results and (texts or images)))
    return messages


def _build_tool_message(result: Block, losses: Losses) -> tuple[Message, list[Block]]:
    body = result.get("content")
    losses.add("results no longer marked as errors", bool(result.get("is_error")))
    content: Any = body or ""
    images: list[Block] = []
    if is_block_list(body):
        texts = [block for block in body if block["type"] == "text"]
        content = [{"type": "text", "text": str(block.get("text") or "")} for block in texts]
        if all_images := [block for block in body if block["type"] == "image"]:
            images = [image for image in all_images if _format_image_url(image)]
            losses.add("images of results moved to a user message after them", len(images))
            losses.add("images left out that Chat Completions cannot hold", len(all_images) - len(images))
            losses.replace(result, {**result, "content": texts})
    elif body is not None and not isinstance(body, str):
        content = compact_text(body)
        losses.add("JSON results turned into text")
    return {"role": "tool", "tool_call_id": str(result.get("tool_use_id") or ""), "content": content}, images


def _build_content(blocks: list[Block]) -> str | list[Block]:
    content = [_build_part(block) for block in blocks]
    return str(content[0]["text"]) if len(content) == 1 and content[0]["type"] == "text" else content


def _build_part(block: Block) -> Block:
    match kind := str(block.get("type")):
        case "image":
            return {"type": "image_url", "image_url": {"url": _format_image_url(block)}}
        case "refusal":
            return {"type": kind, kind: block[kind]}
        case "input_audio" | "file":
            names = OWN_PART_MEMBERS[kind]
            return {"type": kind, kind: {name: block[kind][name] for name in names if name in block[kind]}}
    return {"type": "text", "text": str(block.get("text") or "")}


def _format_image_url(image: Block) -> str:
    source = as_object(image.get("source"))
    if source.get("data") is None:
        return str(source.get("url") or "")
    return f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"


def _is_function(tool: Block) -> bool:
    return bool(tool.get("name")) and (isinstance(tool.get("input_schema"), dict) or "type" not in tool)


def _build_function(tool: Block) -> Block:
    return {
        "name": str(tool.get("name") or ""),
        **({"description": tool["description"]} if isinstance(tool.get("description"), str) else {}),
        **({"parameters": tool["input_schema"]} if isinstance(tool.get("input_schema"), dict) else {}),
    }
