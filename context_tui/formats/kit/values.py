"""Parse recorded values (token counts, times, ids, blocks), and tolerate malformed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from context_tui.formats.kit.blocks import Block, build_text
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.validation import MAX_TIME_MS, MAX_TOKENS, STRING_MEMBERS
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

MAX_TITLE_LENGTH = 80
SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT}
"""Roles of the messages in most formats, by name."""


def as_object(value: Any) -> dict[str, Any]:
    """Return *value* if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return *value* if it is a list, else []."""
    return value if isinstance(value, list) else []


def list_objects(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in a list, or [] if *value* is not a list."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: Any) -> str:
    """Return *value* if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def parse_tokens(value: Any, name: str) -> int:
    """Return a recorded token count, with None read as 0. An impossible count raises ValueError with its *name*."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MAX_TOKENS:
        expected = f"a number of tokens up to {MAX_TOKENS:,}"
        raise ValueError(f"{name} is {_format_unexpected(value)}, not {expected}; left out")
    return value


def parse_tokens_or_note(members: Mapping[str, Any], name: str) -> tuple[int, tuple[str, ...]]:
    """Return the token count in the member *name* and no notes, or 0 and a note if the count is invalid."""
    try:
        return parse_tokens(members.get(name), name), ()
    except ValueError as error:
        return 0, (str(error),)


def parse_usage_or_note(parse_usage: Callable[[Any], Usage | None], value: Any) -> tuple[Usage | None, tuple[str, ...]]:
    """Return the result of *parse_usage* and no notes, or None and a note if a token count is invalid."""
    try:
        usage = parse_usage(value)
        if usage is not None:
            parse_tokens(usage.context, "the sum of input tokens")
    except ValueError as error:
        return None, (str(error),)
    return usage, ()


def _format_unexpected(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value) if abs(value) < 1e20 else "too large"
        case str():
            return repr(truncate_name(value, 40))
    return "a list" if isinstance(value, list) else "an object"


def parse_time_ms(value: Any) -> int:
    """Return a time (seconds, milliseconds or ISO text, by default in UTC) in epoch milliseconds, or -1 if unknown."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return -1
    if isinstance(value, datetime):
        return compute_epoch_ms(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIME_MS:
        return -1
    value = int(value if value > 1e11 else value * 1000)
    return value if 0 < value <= MAX_TIME_MS else -1


def compute_epoch_ms(time: datetime) -> int:
    """Return a datetime (in UTC unless it has a time zone) as epoch milliseconds, or -1 if it is out of range."""
    value = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    return value if 0 < value <= MAX_TIME_MS else -1


def parse_id(value: Any) -> str:
    """Return an id or a name as text: "" for None, and compact JSON for a value that is not a string."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_text(value)


def format_title(text: str) -> str:
    """Return the first non-blank line of a text, shortened to ``MAX_TITLE_LENGTH`` characters for use as a title."""
    line = next((line.strip() for line in text[:4_000].splitlines() if line.strip()), "")
    return truncate_name(line, MAX_TITLE_LENGTH)


def parse_blocks(content: Any) -> list[Block]:
    """Return message content as blocks. A string becomes a text block, any other value a block of type unknown."""
    if content is None:
        return []
    return [parse_block(item) for item in (content if isinstance(content, list) else [content])]


def parse_role(message: Any, roles: Mapping[str, Role] = SPEAKERS) -> Role:
    """Return the role of a recorded message, looked up in *roles*, or raise ValueError if it has no known role."""
    if not isinstance(message, dict):
        raise ValueError("not a message: not a JSON object")
    name = message.get("role")
    if not isinstance(name, str) or name not in roles:
        raise ValueError(f"not a message: unknown role {str(name)[:40]!r}")
    return roles[name]


def parse_block(value: Any) -> Block:
    """Return a block whose members have the right types. A block that cannot be corrected gets the type unknown."""
    if isinstance(value, str):
        return build_text(value)
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return {"type": "unknown", "value": value}
    repaired: Block = {}
    for name in STRING_MEMBERS.get(kind, ()):
        if not isinstance(member := value.get(name, ""), str):
            if member is not None and kind in ("text", "thinking"):
                return {"type": "unknown", "value": value}
            repaired[name] = parse_id(member)  # ids and names are only compared
    if kind == "image" and not isinstance(source := value.get("source"), dict):
        if source is not None:
            return {"type": "unknown", "value": value}
        repaired["source"] = {}
    return {**value, **repaired} if repaired else value


@lru_cache(maxsize=64)
def parse_version(version: str | None) -> tuple[int, ...]:
    """Return a version such as ``1.12.3`` as a tuple of integers, or () if it has any other form."""
    parts = (version or "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 10 for part in parts) else ()
