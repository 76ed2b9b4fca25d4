"""What the writers share: JSON that anyone can read, tool schemas, and losses in words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from context_tui.session.facts import BlockFlag, MessageFlag
from context_tui.session.session import Session


def write_json(value: Any, path: Path) -> None:
    """Write *value* to *path* as compact JSON in UTF-8; what UTF-8 cannot hold is escaped."""
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        data = json.dumps(value, separators=(",", ":"), default=str).encode()
    path.write_bytes(data + b"\n")


def tools_of(value: Any) -> list[dict[str, Any]]:
    """The objects in a list of tool schemas."""
    return [tool for tool in value if isinstance(tool, dict)] if isinstance(value, list) else []


def losses_in(counted: Counter[str]) -> list[str]:
    """Losses in words, with how many there are of each."""
    return [f"{what}: {number:,}" for what, number in counted.items()]


def injected_loss(session: Session) -> list[str]:
    """That blocks the runtime had put in are no longer told from what was typed, if there are any."""
    facts = session.facts
    injected = sum(
        1
        for message in session.context_at().order
        if not facts.flags[message] & MessageFlag.SUMMARY  # told by its first words
        for block in facts.blocks_of(message)
        if facts.block_flags[block] & BlockFlag.INJECTED
    )
    return losses_in(Counter({"blocks that the runtime put in, and that look typed now": injected} if injected else {}))
