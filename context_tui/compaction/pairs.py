"""Pairs of tool calls and results: what is wrong with a history, and what of that a policy did.

Consecutive messages of one role count as one, as providers combine them. Within that, every call of an assistant is
answered in the user message right behind it, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

Message = dict[str, Any]
Block = dict[str, Any]


class Orphan(NamedTuple):
    """A call without its result, or a result without its call; indexes count messages and the blocks in them."""

    kind: str
    message: int
    block: int
    call_id: str


@dataclass(frozen=True)
class Pairs:
    """What is unpaired in a history."""

    orphan_calls: tuple[Orphan, ...] = ()
    orphan_results: tuple[Orphan, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.orphan_calls or self.orphan_results)


def problems(messages: list[Message]) -> Pairs:
    """The calls and results without their counterpart. Calls of the very last message are pending, which is fine."""
    calls: list[Orphan] = []
    results: list[Orphan] = []
    open_calls: list[Orphan] = []  # of the assistant turn before
    for role, places in groupby(places_of(messages), key=lambda place: place[0]):
        turn = [Orphan(kind, message, block, call_id) for _, kind, message, block, call_id in places if kind]
        if role == "assistant":
            open_calls = [orphan for orphan in turn if orphan.kind == "call"]
            results += [orphan for orphan in turn if orphan.kind == "result"]
            continue
        for result in turn:
            match = next((call for call in open_calls if call.call_id == result.call_id), None)
            if result.kind == "call" or match is None:
                (calls if result.kind == "call" else results).append(result)
            else:
                open_calls.remove(match)
        calls += open_calls
        open_calls = []
    last = max((message for message, entry in enumerate(messages) if blocks_of(entry)), default=0)
    calls += [call for call in open_calls if call.message != last]
    return Pairs(tuple(calls), tuple(results))


def compare(
    before: list[Message], after: list[Message], renamed: Mapping[str, str] | None = None
) -> tuple[list[Orphan], list[Orphan]]:
    """The orphans of *after*: those inherited from *before* (same kind and id there), and those introduced.

    Args:
        renamed: ids that calls of *after* have now, with those that they had before.
    """
    had, has = problems(before), problems(after)
    known = Counter((orphan.kind, orphan.call_id) for orphan in (*had.orphan_calls, *had.orphan_results))
    inherited: list[Orphan] = []
    introduced: list[Orphan] = []
    for orphan in (*has.orphan_calls, *has.orphan_results):
        key = (orphan.kind, (renamed or {}).get(orphan.call_id, orphan.call_id))
        (inherited if known[key] > 0 else introduced).append(orphan)
        known[key] -= 1
    return inherited, introduced


def places_of(messages: list[Message]) -> list[tuple[str, str, int, int, str]]:
    """Role, kind, message, block and call id of every block that is not blank; what is blank is as good as absent."""
    kinds = {"tool_use": ("call", "id"), "tool_result": ("result", "tool_use_id")}
    places = []
    for index, message in enumerate(messages):
        for number, block in enumerate(content_of(message)):
            if isinstance(block, dict) and not _blank(block):
                kind, key = kinds.get(block.get("type", ""), ("", ""))
                places.append((role_of(message), kind, index, number, str(block.get(key) or "")))
    return places


def role_of(message: Message) -> str:
    """Whose message it is: what is no assistant's is a user's."""
    return "assistant" if message.get("role") == "assistant" else "user"


def content_of(message: Message) -> list[Any]:
    """The blocks as they stand; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def blocks_of(message: Message) -> list[Block]:
    """The blocks that are not blank."""
    return [block for block in content_of(message) if isinstance(block, dict) and not _blank(block)]


def _blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()
