"""Values as recorders wrote them, taken for what they are meant to be, and refused without a fuss when they are not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

TITLE_LENGTH = 80


def count(value: Any) -> int:
    """A number of tokens; nothing when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return 0
    return int(value)


def epoch_ms(value: Any) -> int:
    """A time as epoch milliseconds, from seconds, milliseconds or ISO text (UTC if it does not say); -1 if unknown."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value.strip())
            value = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return -1
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**53:
        return -1
    return int(value if value > 1e11 else value * 1000)


def title_of(text: str) -> str:
    """A session's title from what was said first: its first line that is not blank, cut to a title's length."""
    line = next((line.strip() for line in text[:4_000].splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def text_in(blocks: list[dict[str, Any]]) -> str:
    """The text of blocks, without anything else in them."""
    return "\n\n".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")


def as_blocks(content: Any) -> list[dict[str, Any]]:
    """Message content as blocks: a string is a text block, alone or in a list; what is no object stays, unknown."""
    if content is None:
        return []
    blocks: list[dict[str, Any]] = []
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, dict):
            blocks.append(item)
        elif isinstance(item, str):
            blocks.append({"type": "text", "text": item})
        else:
            blocks.append({"type": "unknown", "value": item})
    return blocks


def nested_deeper(value: Any, levels: int) -> bool:
    """Whether arrays and objects in *value* are nested deeper than that; found without recursion."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True
