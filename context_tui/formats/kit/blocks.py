"""Build message blocks in the form of the Messages API, and convert their texts and arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from context_tui.session.jsontext import compact_text, is_nested_deeper, try_loads

Block = dict[str, Any]
MISSING_SUMMARY: Block = {"type": "compaction", "note": "the summary is not in this file"}
"""Placeholder of a summary that is not in the file; its size is unknown."""
_DATA_URL_PATTERN = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


def extract_text(blocks: Sequence[Any]) -> str:
    """Return the text of the text blocks among *blocks*, separated by blank lines."""
    texts = (block for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return "\n\n".join(str(block.get("text") or "") for block in texts)


def are_results(blocks: Sequence[Block]) -> bool:
    """Return whether *blocks* contains only tool results, and at least one."""
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


def parse_image_url(url: str) -> Block:
    """Return an image block for a URL, with base64 data if it is a base64 data URL."""
    if data := _DATA_URL_PATTERN.fullmatch(url):
        return build_image(data[1], data[2])
    return {"type": "image", "source": {"type": "url", "url": url}}


def build_text(text: Any) -> Block:
    """Return a text block in Anthropic's form."""
    return {"type": "text", "text": text}


def build_image(media_type: str, data: Any) -> Block:
    """Return an image block with base64 *data*, in Anthropic's form."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def build_tool_use(call_id: Any, name: Any, arguments: Any) -> Block:
    """Return a tool call as a ``tool_use`` block."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def build_tool_result(call_id: Any, content: Any, *, is_error: bool = False) -> Block:
    """Return the result of the tool call *call_id* as a ``tool_result`` block."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if is_error else block


RAW_ARGUMENTS_KEY = "_raw"
"""Only member of a call's input if its arguments are free text, or not a JSON object."""


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return a tool call's arguments as an object, with any other value as text in :data:`RAW_ARGUMENTS_KEY`."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return {RAW_ARGUMENTS_KEY: compact_text(arguments)}
    value = try_loads(arguments)
    is_valid = isinstance(value, dict) and list(value) != [RAW_ARGUMENTS_KEY] and not is_nested_deeper(value)
    return value if is_valid else {RAW_ARGUMENTS_KEY: arguments}


def format_arguments(value: Any) -> str:
    """Return the input of a tool call as text. This is the inverse of :func:`parse_arguments`."""
    text = get_raw_arguments(value)
    return compact_text({} if value is None else value) if text is None else text


def get_raw_arguments(value: Any) -> str | None:
    """Return the free text that a tool was called with, or None if its arguments are an object."""
    text = value[RAW_ARGUMENTS_KEY] if isinstance(value, dict) and list(value) == [RAW_ARGUMENTS_KEY] else None
    return text if isinstance(text, str) else None
