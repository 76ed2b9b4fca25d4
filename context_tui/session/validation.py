"""Limits for plausible recorded values, and validation of messages that a caller provides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from context_tui.errors import UnreadableSession

MAX_TOKENS = 10**9
"""Maximum plausible tokens of a request or window."""
MAX_DEPTH = 200
"""Maximum depth of nested arrays and objects in a value."""
MAX_TIME_MS = 32_503_680_000_000
"""Latest plausible time, the year 3000, in epoch milliseconds."""
ROLES = ("user", "assistant")
MAX_DIGITS = 4_000
"""Maximum number of digits of an integer; Python refuses to format longer ones."""
STRING_MEMBERS = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}
"""Members that must be text or missing, keyed by block type."""
_SCALARS = (str, float, bool, type(None))


def validate_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the messages as a list. Raises UnreadableSession, with message and block number, if one is malformed."""
    if isinstance(messages, str | bytes | dict) or not isinstance(messages, Iterable):
        found = _describe_type(messages)
        raise UnreadableSession(f"messages: {found}, not a list; give a list of messages with role and content")
    valid_messages = list(messages)
    for number, message in enumerate(valid_messages):
        if problem := _find_message_error(message):
            raise UnreadableSession(f"message {number}: {problem}")
    return valid_messages


def _find_message_error(message: Any) -> str:
    if not isinstance(message, dict):
        return f"{_describe_type(message)}, not an object; give role and content"
    role, content = message.get("role"), message.get("content")
    if not (isinstance(role, str) and role in ROLES):
        return f"its role is {_describe_value(role)}; give user or assistant"
    if not isinstance(content, str | list | None):
        return f"its content is {_describe_type(content)}; give a string or a list of blocks"
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if problem := _find_block_error(block):
            return f"block {number}: {problem}"
    return _find_json_error(message)


def _find_block_error(block: Any) -> str:
    if not isinstance(block, dict):
        return f"{_describe_type(block)}, not an object; give a block with a type"
    kind = block.get("type")
    if not isinstance(kind, str):
        return f"its type is {_describe_value(kind)}; give a string"
    for name in STRING_MEMBERS.get(kind, ()):
        if not isinstance(block.get(name), str | None):
            return f"its {name} is {_describe_type(block[name])}; give a string"
    return ""


def _find_json_error(value: Any, depth: int = 0) -> str:
    if isinstance(value, _SCALARS):
        return ""
    if isinstance(value, int):
        return f"holds an integer of over {MAX_DIGITS:,} digits; shorten it" if abs(value) >= 10**MAX_DIGITS else ""
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels; flatten it"
    if not isinstance(value, list | dict):
        return f"holds {_describe_type(value)}, which JSON cannot hold; convert it"
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return "has a key that is not a string; JSON allows only strings"
    items = value.values() if isinstance(value, dict) else value
    return next((problem for item in items if (problem := _find_json_error(item, depth + 1))), "")


def _describe_type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _describe_value(value: Any) -> str:
    return repr(value[:40]) if isinstance(value, str) else "missing" if value is None else _describe_type(value)
