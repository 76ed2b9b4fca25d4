"""What Codex says as a user without a person having typed it: instructions, surroundings, notices."""

from __future__ import annotations

import re
from typing import Any

SUMMARY_PREFIX = "Another language model started to solve this problem and produced a summary of its thinking process"
"""The first words of the user message that holds the summary of a compaction."""
INSTRUCTIONS_START = "# AGENTS.md instructions"
_ELEMENT_NAME = re.compile(r"[a-z][a-z0-9]*[_ ][a-z0-9_ ]*")
"""Names of several words, as the elements of Codex have and those of HTML have not."""
_SINGLE_WORD_ELEMENTS = ("skill", "hook", "recommended")
MAX_TAG_LENGTH = 200


def is_scaffolding(text: str) -> bool:
    """Whether a text of a user message was put in by Codex: its instructions, or one element of its own."""
    text = text.strip()
    if text.startswith(INSTRUCTIONS_START):
        return True
    end = text.find(">", 0, MAX_TAG_LENGTH) if text.startswith("<") else -1
    tag = text[1:end] if end > 0 else ""
    names = (tag, tag.partition(" ")[0])  # it may have attributes
    return any(
        (name in _SINGLE_WORD_ELEMENTS or _ELEMENT_NAME.fullmatch(name)) and text.endswith(f"</{name}>")
        for name in names
    )


def is_injected_message(blocks: list[dict[str, Any]]) -> bool:
    """Whether a user message is nothing but scaffolding."""
    return bool(blocks) and all(map(_is_scaffolding_block, blocks))


def is_summary_message(blocks: list[dict[str, Any]]) -> bool:
    """Whether a user message is the summary of a compaction."""
    return bool(blocks) and blocks[0].get("type") == "text" and _get_text(blocks[0]).startswith(SUMMARY_PREFIX)


def _is_scaffolding_block(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and is_scaffolding(_get_text(block))


def _get_text(block: dict[str, Any]) -> str:
    return str(block.get("text") or "")
