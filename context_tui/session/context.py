"""The context at a point: the messages that the model had there, in prompt order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.drops import find_cleared_at, find_drops
from context_tui.session.facts import Facts, find_last_rewrite, order_at
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import KODA_STUB
from context_tui.session.values import BlockFlag, value_class

if TYPE_CHECKING:
    from context_tui.session.session import Content

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """Replacement for the recorded body of a block: the content of a tool_result, the input of a tool_use as compact
    JSON, or the text of any other block.

    ``size`` are bytes as estimators count them: for a tool_use those of the tool's name too. ``text`` is None where it
    has to be made when needed, or where the block is ``removed``. ``known`` says how the recording tells of it:
    recorded or inferred; nothing where a policy put it there.
    """

    text: str | None
    size: int
    source: str = ""
    removed: bool = False

    @property
    def tokens(self) -> int:
        """Estimated tokens (``bytes/4``)."""
        return self.size // BYTES_PER_TOKEN

    @classmethod
    def from_text(cls, text: str, source: str = "") -> Body:
        """The body with this text."""
        return cls(text, utf8_len(text), source)


REMOVED_BODY = Body(None, 0, removed=True)
"""A block that is not there any more."""
CLEARED_BODIES = {known: Body.from_text(KODA_STUB, known) for known in ("recorded", "inferred")}
"""What stands in place of a result that was cleared before, as Claude Code writes it."""


@value_class(eq=False)
class Context:
    """Messages of a session in prompt order, as of just before message ``at``.

    ``order`` holds message indexes; ``epoch_start`` is the first message that was appended after the epoch began;
    ``rewritten`` the message before which results were last cleared by a recorded microcompaction (0: never): sizes
    recorded before it no longer hold. ``replaced`` maps rows of blocks to the bodies that stand in their place.
    ``base`` is the context that this one was made of by replacing bodies; ``memo`` keeps what :func:`former_settings` computed;
    ``content`` reads the full text, for what is shown and carried out: no policy looks at it.
    """

    facts: Facts
    at: int
    order: Sequence[int]
    epoch_start: int = 0
    replacements: Mapping[int, Body] = field(default_factory=dict)
    base: Context | None = field(default=None, repr=False)
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
    last_rewrite: int = 0
    content: Content | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.order)

    def has_exact_text(self, block: int, text: str, *, in_blocks: bool) -> bool:
        """Return whether the body of a tool_result is exactly *text*, a short one in brackets.

        Args:
            in_blocks: whether a list of text blocks that make it up counts too.
        """
        if body := self.replacements.get(block):
            return body.text == text
        facts = self.facts
        return facts.bracket_starts.get(block) == text and (
            in_blocks or not facts.block_flags[block] & BlockFlag.BODY_LIST
        )

    def blocks_of(self, message: int) -> Iterator[int]:
        """Rows of the blocks of *message* that are still there, in order."""
        rows, removed = self.facts.blocks_of(message), find_removed_blocks(self)
        return (row for row in rows if row not in removed) if removed else rows

    def with_bodies(self, bodies: Mapping[int, Body]) -> Context:
        """The same messages with more bodies replaced."""
        replacements = {**self.replacements, **bodies}
        return replace(self, replacements=replacements, base=self, memo={})


def memoize(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """Cache the result of *compute* for as long as the context lives."""

    @wraps(compute)
    def kept(context: Context) -> T:
        try:
            found: T = context.memo[compute]
        except KeyError:
            found = context.memo[compute] = compute(context)
        return found

    return kept


@memoize
def find_removed_blocks(context: Context) -> frozenset[int]:
    """Rows of the blocks that are not there any more."""
    return frozenset(row for row, body in context.replacements.items() if body.removed)


def restore_inferred(context: Context) -> Context:
    """Return the same messages with every body restored that is only inferred to be cleared."""
    recorded = {row: body for row, body in context.replacements.items() if body.source != "inferred"}
    return replace(context, replacements=recorded, memo={}) if len(recorded) < len(context.replacements) else context


def context_at(facts: Facts, at: int, *, after_micro: bool = True, content: Content | None = None) -> Context:
    """The context before message *at*: what its epoch began with and what was appended since, without what is known
    to be cleared by then, be it recorded or inferred from a silent drop.

    Args:
        cleared: False for how it was before a microcompaction that is recorded right there.
        content: the reader of the full text.
    """
    until = at if after_micro else at - 1
    find_drops(facts)
    epoch, order = order_at(facts, at)
    prefix, owner = frozenset(epoch.prefix), facts.block_message
    replacements = {
        row: CLEARED_BODIES[source]
        for row, source in find_cleared_at(facts, at, until).items()
        if epoch.start <= owner[row] < at or owner[row] in prefix
    }
    return Context(
        facts, at, order, epoch.start, replacements, last_rewrite=find_last_rewrite(facts, until), content=content
    )
