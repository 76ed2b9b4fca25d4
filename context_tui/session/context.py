"""The context at a point: the messages that the model had there, in prompt order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from context_tui.session.drops import cleared_at, find_drops
from context_tui.session.epochs import last_rewrite, order_at
from context_tui.session.facts import BlockFlag, Facts
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import KODA_STUB

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A tool_result body in place of the recorded one: its bytes, and its text unless it has to be cut when needed.

    ``known`` says how the recording tells of it: recorded or inferred; nothing where a policy put it there.
    """

    text: str | None
    size: int
    known: str = ""

    @classmethod
    def of(cls, text: str, known: str = "") -> Body:
        """The body with this text."""
        return cls(text, utf8_len(text), known)


STUBS = {known: Body.of(KODA_STUB, known) for known in ("recorded", "inferred")}
"""What stands in place of a result that was cleared before, as Claude Code writes it."""


@dataclass(frozen=True, eq=False)
class Context:
    """Messages of a session in prompt order, as of just before message ``at``.

    ``order`` holds message indexes; ``epoch_start`` is the first message that was appended after the epoch began;
    ``rewritten`` the message before which results were last cleared by a recorded microcompaction (0: never): sizes
    recorded before it no longer hold. ``replaced`` maps rows of tool_results to the bodies that stand in their place.
    ``base`` is the context that this one was made of by replacing bodies; ``memo`` keeps what :func:`once` computed.
    """

    facts: Facts
    at: int
    order: Sequence[int]
    epoch_start: int = 0
    replaced: Mapping[int, Body] = field(default_factory=dict)
    base: Context | None = field(default=None, repr=False)
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
    rewritten: int = 0

    def __len__(self) -> int:
        return len(self.order)

    def is_text(self, block: int, text: str, *, in_blocks: bool) -> bool:
        """Whether the body of a tool_result is exactly *text*, a short one in brackets.

        Args:
            in_blocks: whether a list of text blocks that make it up counts too.
        """
        if body := self.replaced.get(block):
            return body.text == text
        facts = self.facts
        return facts.starts.get(block) == text and (in_blocks or not facts.block_flags[block] & BlockFlag.BODY_LIST)

    def replacing(self, bodies: Mapping[int, Body]) -> Context:
        """The same messages with more bodies replaced."""
        replaced = {**self.replaced, **bodies}
        return Context(self.facts, self.at, self.order, self.epoch_start, replaced, self, rewritten=self.rewritten)


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


def context_at(facts: Facts, at: int, *, cleared: bool = True) -> Context:
    """The context before message *at*: what its epoch began with and what was appended since, without what is known
    to be cleared by then, be it recorded or inferred from a silent drop.

    Args:
        cleared: False for how it was before a microcompaction that is recorded right there.
    """
    until = at if cleared else at - 1
    find_drops(facts)
    epoch, order = order_at(facts, at)
    begins, owner = frozenset(epoch.prefix), facts.block_message
    replaced = {
        row: STUBS[how]
        for row, how in cleared_at(facts, at, until).items()
        if epoch.start <= owner[row] < at or owner[row] in begins
    }
    return Context(facts, at, order, epoch.start, replaced, rewritten=last_rewrite(facts, until))
