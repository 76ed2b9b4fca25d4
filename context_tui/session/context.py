"""The context at a point in a session: the messages that a request at this point contains, in prompt order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.drops import find_cleared_at, find_drops
from context_tui.session.facts import Facts, find_last_rewrite, order_at
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import RESULT_STUB
from context_tui.session.values import BlockFlag, Kind, value_class

if TYPE_CHECKING:
    from context_tui.session.session import Content

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """New content for a block: the content of a ``tool_result``, the input of a ``tool_use``, or another block's text.

    Attributes:
        text: compact JSON for a ``tool_use``, or None if the text is rendered later or the block is removed.
        size: size in bytes as estimators count it, including the tool's name for a ``tool_use``.
        source: how the replacement is known (recorded or inferred), or "" if a policy made it.
    """

    text: str | None
    size: int
    source: str = ""
    removed: bool = False

    @property
    def tokens(self) -> int:
        """Estimated tokens (``bytes/4``) in the body."""
        return self.size // BYTES_PER_TOKEN

    @classmethod
    def from_text(cls, text: str, source: str = "") -> Body:
        """Create a body with the given text, measuring its size."""
        return cls(text, utf8_len(text), source)


REMOVED_BODY = Body(None, 0, removed=True)
CLEARED_BODIES = {source: Body.from_text(RESULT_STUB, source) for source in ("recorded", "inferred")}
"""Placeholders of results that were cleared in the recording, as Claude Code writes them."""


@value_class(eq=False)
class Context:
    """The messages that a request at message ``at`` would contain, in prompt order.

    Attributes:
        order: numbers of the messages.
        epoch_start: first message that was appended after the epoch began.
        replacements: replaced bodies keyed by block row.
        base: context from which this one was derived by replacing bodies.
        memo: results of :func:`memoize`.
        last_rewrite: message before which a recorded microcompaction last cleared results, or 0. Sizes recorded before
            it are outdated.
        content: reader of the full text, which policies do not use.
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
        """Return whether a result is exactly *text*, a bracketed placeholder; *in_blocks* also accepts a block list."""
        if body := self.replacements.get(block):
            return body.text == text
        facts = self.facts
        return facts.bracket_starts.get(block) == text and (
            in_blocks or not facts.block_flags[block] & BlockFlag.BODY_LIST
        )

    def blocks_of(self, message: int) -> Iterator[int]:
        """Iterate over the rows of a message's blocks, in order and without removed ones."""
        rows, removed = self.facts.blocks_of(message), find_removed_blocks(self)
        return (row for row in rows if row not in removed) if removed else rows

    def has_kind(self, message: int, kind: Kind) -> bool:
        """Return whether a message has a block of the given kind that was not removed."""
        return any(self.facts.kind[row] == kind for row in self.blocks_of(message))

    def with_bodies(self, bodies: Mapping[int, Body]) -> Context:
        """Return a copy of the context in which *bodies*, keyed by block row, replace the content of further blocks."""
        return replace(self, replacements={**self.replacements, **bodies}, base=self, memo={})


def memoize(compute: Callable[[Context], T]) -> Callable[[Context], T]:
    """Wrap *compute* so that its result is computed once for each context and stored in the context's ``memo``."""

    @wraps(compute)
    def get_cached(context: Context) -> T:
        try:
            result: T = context.memo[compute]
        except KeyError:
            result = context.memo[compute] = compute(context)
        return result

    return get_cached


@memoize
def find_removed_blocks(context: Context) -> frozenset[int]:
    """Return the rows of the blocks that were removed from the context, or an empty set if there are none."""
    return frozenset(row for row, body in context.replacements.items() if body.removed)


def restore_inferred(context: Context) -> Context:
    """Return the context without the placeholders of results whose clearing is only inferred."""
    recorded = {row: body for row, body in context.replacements.items() if body.source != "inferred"}
    return replace(context, replacements=recorded, memo={}) if len(recorded) < len(context.replacements) else context


def context_at(facts: Facts, at: int, *, after_micro: bool = True, content: Content | None = None) -> Context:
    """Return the context before message *at*: the messages with which its epoch began, and those appended since.

    Cleared results have placeholders, whether their clearing is recorded or inferred. Without *after_micro*, a
    microcompaction that is recorded at message *at* itself is ignored.
    """
    micro_until = at if after_micro else at - 1
    find_drops(facts)
    epoch, order = order_at(facts, at)
    prefix, owner = frozenset(epoch.prefix), facts.block_message
    cleared = find_cleared_at(facts, at, micro_until).items()
    in_context = ((row, source) for row, source in cleared if epoch.start <= owner[row] < at or owner[row] in prefix)
    replacements = {row: CLEARED_BODIES[source] for row, source in in_context}
    last_rewrite = find_last_rewrite(facts, micro_until)
    return Context(facts, at, order, epoch.start, replacements, last_rewrite=last_rewrite, content=content)
