"""The context at a point: the messages that the model had there, in prompt order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from context_tui.session.facts import Compaction, Facts, MessageFlag
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import KODA_STUB

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A tool_result body in place of the recorded one: its bytes, and its text unless it has to be cut when needed."""

    text: str | None
    size: int

    @classmethod
    def of(cls, text: str) -> Body:
        """The body with this text."""
        return cls(text, utf8_len(text))


@dataclass(frozen=True, eq=False)
class Context:
    """Messages of a session in prompt order, as of just before message ``at``.

    ``order`` holds message indexes; ``epoch_start`` is the first message that came after the compaction which began
    the epoch (0 when there was none); ``replaced`` maps rows of tool_results to the bodies that stand in their place.
    ``base`` is the context that this one was made of by replacing bodies; ``memo`` keeps what :func:`once` computed.
    """

    facts: Facts
    at: int
    order: Sequence[int]
    epoch_start: int = 0
    replaced: Mapping[int, Body] = field(default_factory=dict)
    base: Context | None = field(default=None, repr=False)
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.order)

    def is_text(self, block: int, text: str, flag: int) -> bool:
        """Whether the body of a tool_result is exactly *text*, of which the facts keep *flag*."""
        body = self.replaced.get(block)
        return body.text == text if body else bool(self.facts.block_flags[block] & flag)

    def replacing(self, bodies: Mapping[int, Body]) -> Context:
        """The same messages with more bodies replaced."""
        replaced = {**self.replaced, **bodies}
        return Context(self.facts, self.at, self.order, self.epoch_start, replaced, self)


def once(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """*compute* with its answer kept, for as long as the context is."""

    @wraps(compute)
    def kept(context: Context) -> T:
        if compute not in context.memo:
            context.memo[compute] = compute(context)
        found: T = context.memo[compute]
        return found

    return kept


def once_for_messages(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """*compute*, where it looks at no body: one answer for a context and all that were made of it by replacing some."""
    kept = once(compute)

    @wraps(compute)
    def shared(context: Context) -> T:
        while context.base is not None:
            context = context.base
        return kept(context)

    return shared


def epoch_at(facts: Facts, at: int) -> Compaction | None:
    """The last recorded full compaction before message *at*, or None."""
    found = None
    for compaction in facts.compactions:
        if compaction.kind == "full" and epoch_start(compaction) <= at and compaction.message < at:
            found = compaction
    return found


def epoch_start(compaction: Compaction) -> int:
    """The first message that was appended after a full compaction."""
    return max((m for m in (*compaction.prefix, compaction.message - 1)), default=-1) + 1


def context_at(facts: Facts, at: int) -> Context:
    """The context before message *at*: after the last compaction, with its summary and any preserved tail."""
    epoch = epoch_at(facts, at)
    start = epoch_start(epoch) if epoch else 0
    order: Sequence[int] = range(start, at)
    if epoch and epoch.prefix:
        order = [*epoch.prefix, *order]
    flags = facts.flags
    unsent = MessageFlag.NOT_SENT
    if any(flags[m] & unsent for m in order):
        order = [m for m in order if not flags[m] & unsent]

    replaced: dict[int, Body] = {}
    for compaction in facts.compactions:
        if compaction.kind == "micro" and compaction.message <= at:
            for call_id in compaction.cleared:
                call = facts.call_row(call_id)
                row = facts.call_result[call] if call >= 0 else -1
                if row >= 0 and facts.block_message[row] < compaction.message:
                    replaced[row] = Body.of(KODA_STUB)
    return Context(facts, at, order, start, replaced)
