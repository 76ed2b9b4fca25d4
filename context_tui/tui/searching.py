"""Full-text search over a session: every block's text, in order, until it is no longer wanted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from textual.message import Message

from context_tui.session.facts import Kind
from context_tui.session.session import Session
from context_tui.tui.text import result_text
from context_tui.tui.view import Spot

WORK, REST = 0.008, 0.002
"""Seconds of searching, and of letting the screen have its turn."""
PACE = 0.2
"""Seconds between two reports."""


@dataclass
class Found(Message):
    """Spots that were found since the last report of the search with this number."""

    number: int
    spots: list[Spot]
    progress: float
    end: bool


def searchable(block: dict[str, Any]) -> str:
    """The text of a block that a search looks at."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "thinking":
        return str(block.get("thinking") or "")
    if kind == "tool_use":
        try:
            return f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False, default=str)}"
        except (ValueError, RecursionError):
            return str(block.get("name"))
    return result_text(block.get("content")) if kind == "tool_result" else ""


def matches(session: Session, text: str) -> Iterator[Spot | None]:
    """Each spot that holds *text*, and None after every message; capitals count when *text* has any."""
    facts, exact = session.facts, text != text.lower()
    for message in range(session.length):
        whole = False
        try:
            blocks = session.content.blocks(message)
        except Exception:  # what cannot be read holds nothing
            blocks = []
        for row, block in zip(facts.blocks_of(message), blocks, strict=False):
            of_result = facts.kind[row] == Kind.TOOL_RESULT
            if whole and not of_result:
                continue
            held = searchable(block)
            if text in (held if exact else held.lower()):
                if of_result:
                    yield Spot(message, row)
                else:
                    whole = True
                    yield Spot(message)
        yield None


def search(
    session: Session, text: str, number: int, post: Callable[[Message], object], stopped: Callable[[], bool]
) -> None:
    """Report every match, now and then, until the end or until *stopped*."""
    spots: list[Spot] = []
    done, began, told = 0, time.monotonic(), time.monotonic()
    for spot in matches(session, text):
        if spot is not None:
            spots.append(spot)
            continue
        done += 1
        now = time.monotonic()
        if now - began < WORK:
            continue
        if stopped():
            return
        if now - told >= PACE:
            post(Found(number, spots, done / session.length, False))
            spots, told = [], now
        time.sleep(REST)
        began = time.monotonic()
    post(Found(number, spots, 1.0, True))
