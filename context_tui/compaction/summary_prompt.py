"""Prompts with which a runtime asks a model for a summary of older messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from context_tui.session.blocks import is_block_list
from context_tui.session.jsontext import compact_json
from context_tui.session.session import Message


def return_unchanged(messages: list[Message]) -> list[Message]:
    """Return the messages as they are."""
    return messages


@dataclass(frozen=True)
class SummaryPrompt:
    """Prompt of a summarizer, and the preparation of messages for it.

    Attributes:
        build_request: builds the request from the prepared messages and the earlier summary to update, or None.
        prepare_messages: truncates long results and replaces images by text, before pairs are repaired.
        sections: headings of a complete reply, in order; empty if none are required.
        sends_messages: whether the summarizer gets the messages as messages, with tool schemas, instead of as text.
        retries_with_session_model: whether the session's own model is tried if the first one fails.
    """

    system: str
    build_request: Callable[[list[Message], str | None], list[Message]]
    prepare_messages: Callable[[list[Message]], list[Message]] = return_unchanged
    sections: tuple[str, ...] = ()
    max_tokens: int = 8_192
    sends_messages: bool = True
    retries_with_session_model: bool = False


MAX_RESULT_CHARS = 2_000
"""Maximum length of a tool result for the summarizer in characters, or in bytes if the result is JSON."""
TRUNCATION_MARKER = "\n…[truncated for summary]"
IMAGE_OMITTED = "[image omitted from summary]"


def prepare_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Truncate long results, and replace images by text, for the summarizer."""
    return [{**message, "content": [_prepare_block(block) for block in message["content"]]} for message in messages]


def _prepare_block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image":
        return {"type": "text", "text": IMAGE_OMITTED}
    if block.get("type") != "tool_result":
        return block
    body = "" if block.get("content") is None else block["content"]
    if is_block_list(body):
        body = "".join(_format_part(part) for part in body)
    elif not isinstance(body, str):
        encoded = compact_json(body)
        if len(encoded) <= MAX_RESULT_CHARS:
            return block
        body = encoded.decode("utf-8", "surrogatepass")
    return {**block, "content": body if len(body) <= MAX_RESULT_CHARS else body[:MAX_RESULT_CHARS] + TRUNCATION_MARKER}


def _format_part(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return str(part.get("text") or "")
    source = part.get("source")
    media_type = source.get("media_type") if isinstance(source, dict) else None
    return f"\n[image: {media_type or 'image'}]"
