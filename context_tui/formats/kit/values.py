"""Parse recorded values (token counts, times, ids, blocks, call arguments), tolerating malformed ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text, is_nested_deeper, loads
from context_tui.session.validation import MAX_TIME_MS, MAX_TOKENS
from context_tui.text.sanitize import truncate_name

MAX_TITLE_LENGTH = 80
_DATA_URL_PATTERN = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
Block = dict[str, Any]
_TEXT_KEYS = {"text": ("text",), "thinking": ("thinking", "signature")}
"""Per type of block, the members that are text or nothing."""
_ID_KEYS = {"tool_use": ("id", "name"), "tool_result": ("tool_use_id",)}
"""Those that are compared with others: what is no text there becomes its JSON."""


def parse_tokens(value: Any, name: str) -> int:
    """Return a recorded number of tokens; 0 when there is none.

    Raises:
        ValueError: it is none that ever was; the message names the field.
    """
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MAX_TOKENS:
        raise ValueError(
            f"{name} is {_format_unexpected(value)}, not a number of tokens up to {MAX_TOKENS:,}; left out"
        )
    return value


def parse_usage_or_note(parse_usage: Callable[[Any], Usage | None], value: Any) -> tuple[Usage | None, tuple[str, ...]]:
    """Parse recorded usage by *make*; where that raises ValueError the usage is unknown, and the note says why."""
    try:
        usage = parse_usage(value)
        if usage is not None:
            parse_tokens(usage.context, "the sum of input tokens")
    except ValueError as error:
        return None, (str(error),)
    return usage, ()


def _format_unexpected(value: Any) -> str:
    """Return a value that is not what it should be, in a few words."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value) if abs(value) < 1e20 else "too large"
        case str():
            return repr(truncate_name(value, 40))
    return "a list" if isinstance(value, list) else "an object"


def parse_time_ms(value: Any) -> int:
    """Return a time as epoch milliseconds, from seconds, milliseconds or ISO text (UTC if it does not say); -1 if
    unknown.
    """
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
    """Return a time as epoch milliseconds (UTC if it does not say); -1 for one that no clock showed."""
    value = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    return value if 0 < value <= MAX_TIME_MS else -1


def parse_id(value: Any) -> str:
    """Return an id or a name: text, or the JSON of what is none; nothing for nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_text(value)


def format_title(text: str) -> str:
    """Return a session's title from what was said first: its first line that is not blank, cut to a title's length."""
    line = next((line.strip() for line in text[:4_000].splitlines() if line.strip()), "")
    return truncate_name(line, MAX_TITLE_LENGTH)


def extract_text(blocks: Sequence[Any]) -> str:
    """Return the text of blocks, without anything else in them, or among them."""
    texts = (block for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return "\n\n".join(str(block.get("text") or "") for block in texts)


def parse_blocks(content: Any) -> list[Block]:
    """Message content as blocks: a string is a text block, alone or in a list; what is no block stays, unknown."""
    if content is None:
        return []
    return [parse_block(item) for item in (content if isinstance(content, list) else [content])]


def parse_image_url(url: str) -> Block:
    """Return an image block from the address of an image, which may hold the image itself."""
    if data := _DATA_URL_PATTERN.fullmatch(url):
        return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def parse_block(value: Any) -> Block:
    """Return a value as a block whose ``type``, texts, ids and source are what they have to be; else one of type
    unknown.
    """
    if isinstance(value, str):
        return {"type": "text", "text": value}
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return {"type": "unknown", "value": value}
    mended: Block = {}
    for name in _TEXT_KEYS.get(kind, ()):
        if not isinstance(text := value.get(name, ""), str):
            if text is not None:
                return {"type": "unknown", "value": value}
            mended[name] = ""
    for name in _ID_KEYS.get(kind, ()):
        if not isinstance(member := value.get(name, ""), str):
            mended[name] = parse_id(member)
    if kind == "image" and not isinstance(source := value.get("source"), dict):
        if source is not None:
            return {"type": "unknown", "value": value}
        mended["source"] = {}
    return {**value, **mended} if mended else value


RAW_ARGUMENTS_KEY = "_raw"


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return the object that some arguments are."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return {RAW_ARGUMENTS_KEY: compact_text(arguments)}
    try:
        value = loads(arguments)
    except ValueError:
        return {RAW_ARGUMENTS_KEY: arguments}
    fits = isinstance(value, dict) and list(value) != [RAW_ARGUMENTS_KEY] and not is_nested_deeper(value)
    return value if fits else {RAW_ARGUMENTS_KEY: arguments}


def format_arguments(value: Any) -> str:
    """Return the arguments that became an input."""
    if (
        isinstance(value, dict)
        and list(value) == [RAW_ARGUMENTS_KEY]
        and isinstance(text := value[RAW_ARGUMENTS_KEY], str)
    ):
        return text
    return compact_text({} if value is None else value)
