"""Sessions made from another one: messages of the recording with some bodies replaced, and messages of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from context_tui.session.session import Message, Session


@dataclass(frozen=True)
class Origin:
    """Where a message of a derived session is from: a message of the recording with some bodies replaced."""

    session: Session
    message: int
    bodies: Mapping[int, str] = field(default_factory=dict)  # block ordinal to text


class DerivedContent:
    """Content of a derived session: origins, and messages of its own."""

    def __init__(self, parent: Session, entries: list[Origin | Message]) -> None:
        self.parent, self.entries = parent, entries

    def blocks(self, message: int) -> list[dict[str, Any]]:
        entry = self.entries[message]
        if not isinstance(entry, Origin):
            return [dict(block) for block in entry["content"]]
        blocks = entry.session.content.blocks(entry.message)
        for ordinal, text in entry.bodies.items():
            blocks[ordinal] = {**blocks[ordinal], "content": text}
        return blocks

    def raw(self, record: int) -> str:
        return repr(self.entries[record])

    def system(self) -> str:
        return self.parent.content.system()

    def tools(self) -> list[dict[str, Any]]:
        return self.parent.content.tools()

    def unchanged(self) -> bool:
        return self.parent.content.unchanged()


def origin_of(session: Session, message: int, bodies: Mapping[int, str] | None = None) -> Origin | Message:
    """The recorded message behind *message*, through any number of plans carried out, with *bodies* on top."""
    new = dict(bodies or {})
    if isinstance(session.content, DerivedContent):
        entry = session.content.entries[message]
        if isinstance(entry, Origin):
            return Origin(entry.session, entry.message, {**entry.bodies, **new})
        content = [
            {**block, "content": new[ordinal]} if ordinal in new else block
            for ordinal, block in enumerate(entry["content"])
        ]
        return {**entry, "content": content}
    return Origin(session, message, new)
