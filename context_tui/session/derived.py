"""Sessions made from another one: messages of the recording with some blocks changed, and messages of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from context_tui.session.bodies import with_texts
from context_tui.session.facts import Usage
from context_tui.session.session import Message, Session


@dataclass(frozen=True)
class Origin:
    """Where a message of a derived session is from: a message of the recording with some blocks changed."""

    session: Session
    message: int
    bodies: Mapping[int, str | None] = field(default_factory=dict)  # block ordinal to text; None: removed

    @property
    def left(self) -> list[int]:
        """The recorded ordinals of the blocks that are left, in order."""
        recorded = range(sum(1 for _ in self.session.facts.blocks_of(self.message)))
        return [ordinal for ordinal in recorded if self.bodies.get(ordinal, "") is not None]


class DerivedContent:
    """Content of a derived session: origins, and messages of its own."""

    def __init__(self, parent: Session, entries: list[Origin | Message]) -> None:
        self.parent, self.entries = parent, entries

    def blocks(self, message: int) -> list[dict[str, Any]]:
        entry = self.entries[message]
        if not isinstance(entry, Origin):
            return [dict(block) for block in entry["content"]]
        return with_texts(entry.session.content.blocks(entry.message), entry.bodies)

    def raw(self, record: int) -> str:
        return repr(self.entries[record])

    def system(self) -> str:
        return self.parent.content.system()

    def tools(self) -> list[dict[str, Any]]:
        return self.parent.content.tools()

    def unchanged(self) -> bool:
        return self.parent.content.unchanged()


def origin_of(session: Session, message: int, bodies: Mapping[int, str | None] | None = None) -> Origin | Message:
    """The recorded message behind *message*, through any number of plans carried out, with *bodies* on top."""
    new = dict(bodies or {})
    if isinstance(session.content, DerivedContent):
        entry = session.content.entries[message]
        if isinstance(entry, Origin):
            left = entry.left
            return replace(entry, bodies={**entry.bodies, **{left[at]: text for at, text in new.items()}})
        return {**entry, "content": with_texts(entry["content"], new)}
    return Origin(session, message, new)


def recorded_usage(session: Session) -> dict[int, Usage]:
    """By message of *session*, the usage that was recorded for it, where that still tells of this context.

    It does where nothing was applied, for replies since the context began or was last rewritten.
    """
    if session.origin:
        return {}
    found: dict[int, Usage] = {}
    known: dict[int, Usage] | None = None
    for message in session.context_at().order:
        entry = origin_of(session, message)
        if isinstance(entry, Origin):
            if known is None:
                context, facts = entry.session.context_at(), entry.session.facts
                first = max(context.epoch_start, context.rewritten)
                requests = zip(facts.request_message, facts.requests, strict=True)
                known = {reply: usage for reply, usage in requests if reply >= first}
            if entry.message in known:
                found[message] = known[entry.message]
    return found
