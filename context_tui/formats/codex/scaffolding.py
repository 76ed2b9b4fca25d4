"""What Codex says as a user without a person having typed it: instructions, surroundings, notices."""

from __future__ import annotations

import re
from typing import Any

SUMMARY_PREFIX = "Another language model started to solve this problem and produced a summary of its thinking process"
"""The first words of the user message that holds the summary of a compaction."""
INSTRUCTIONS = "# AGENTS.md instructions"
_NAME = re.compile(r"[a-z][a-z0-9]*[_ ][a-z0-9_ ]*")
"""Names of several words, as the elements of Codex have and those of HTML have not."""
_SINGLE = ("skill", "hook", "recommended")
LONGEST_TAG = 200


def is_scaffolding(text: str) -> bool:
    """Whether a text of a user message was put in by Codex: its instructions, or one element of its own."""
    text = text.strip()
    if text.startswith(INSTRUCTIONS):
        return True
    end = text.find(">", 0, LONGEST_TAG) if text.startswith("<") else -1
    tag = text[1:end] if end > 0 else ""
    names = (tag, tag.partition(" ")[0])  # it may have attributes
    return any((name in _SINGLE or _NAME.fullmatch(name)) and text.endswith(f"</{name}>") for name in names)


def is_injected(blocks: list[dict[str, Any]]) -> bool:
    """Whether a user message is nothing but scaffolding."""
    return bool(blocks) and all(map(_is_scaffolding, blocks))


def is_summary(blocks: list[dict[str, Any]]) -> bool:
    """Whether a user message is the summary of a compaction."""
    return bool(blocks) and blocks[0].get("type") == "text" and _text(blocks[0]).startswith(SUMMARY_PREFIX)


def _is_scaffolding(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and is_scaffolding(_text(block))


def _text(block: dict[str, Any]) -> str:
    return str(block.get("text") or "")
