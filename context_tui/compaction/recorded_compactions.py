"""Find the compactions in a recording, with the contexts before and after, and the removed blocks.

There are three kinds: full, with a summary; micro, announced by a record; and silent, visible only as a drop of the
recorded size (:class:`context_tui.session.facts.Drop`), from which the cleared results are inferred.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Literal

from context_tui.session.context import CLEARED_BODIES, Context, context_at
from context_tui.session.facts import Compaction, Drop, Facts, epoch_at, find_last_rewrite
from context_tui.session.session import Session
from context_tui.session.values import Explanation, MessageFlag, Role
from context_tui.tokens.accounting import find_request_before
from context_tui.tokens.breakdown import CATEGORIES, categorize_block
from context_tui.tokens.context_size import ContextSize, measure_context
from context_tui.tokens.estimators import count_block_tokens
from context_tui.tokens.measures import TokenTable
from context_tui.tokens.running_sizes import RunningSizes

SUMMARY_FRAME_TOKENS = {"pi": 20}
"""Tokens, by format, that the agent adds around a summary in a request and that its files lack (docs/agents.md)."""

COMPACTION_SIZE_HEADS = ("before, recorded + estimate", "before, by the agent", "after, recorded")
"""Headings for the size that is computed before a compaction, the one that its record states, and the one after it."""

CompactionKind = Literal["full", "micro", "silent"]


@dataclass(frozen=True, eq=False)
class RecordedCompaction:
    """A compaction in a recording. The contexts before and after it are built on demand.

    Attributes:
        message: the summary of a full compaction, the message after a micro one, or the reply that shows a silent one.
        kind: full, micro or silent.
        believed_tokens_before: the size in tokens that the runtime believed before it, or None for an empty context.
        believed_is_recorded: whether the believed size includes a recorded one.
        recorded_tokens_after: recorded size of the next request, or None if a new context begins before that.
    """

    session: Session
    message: int
    kind: CompactionKind
    event: Compaction | Drop
    believed_tokens_before: int | None
    believed_is_recorded: bool
    recorded_tokens_after: int | None

    @cached_property
    def context_before(self) -> Context:
        """The context just before the compaction."""
        if self.kind == "silent":
            return self.session.context_at(self.message)
        return context_at(self.session.facts, self.message, after_micro=False, content=self.session.content)

    @cached_property
    def context_after(self) -> Context:
        """The context of the first request after the compaction, including messages added until then."""
        if isinstance(self.event, Drop):
            return self.context_before.with_bodies(dict.fromkeys(self.event.cleared_blocks, CLEARED_BODIES["inferred"]))
        at = _find_first_reply(self.session, self.message) if self.kind == "full" else self.message
        return self.session.context_at(at)

    @cached_property
    def removed_blocks(self) -> Sequence[int]:
        """The rows of blocks whose content the compaction removed, in prompt order."""
        before, after, remaining = self.context_before, self.context_after, set(self.context_after.order)
        pairs = ((message, row) for message in before.order for row in before.blocks_of(message))
        known = ((message, row) for message, row in pairs if row not in before.replacements)
        return [row for message, row in known if message not in remaining or row in after.replacements]

    @cached_property
    def added_messages(self) -> Sequence[int]:
        """The messages that only the context after the compaction has, such as the summary, in prompt order."""
        earlier = set(self.context_before.order)
        return [message for message in self.context_after.order if message not in earlier]

    @cached_property
    def remaining_messages(self) -> Sequence[int]:
        """The messages that are in both contexts, before and after the compaction, in prompt order."""
        later = set(self.context_after.order)
        return [message for message in self.context_before.order if message in later]

    @property
    def summary_message(self) -> int | None:
        """The message that holds the summary, or None."""
        flags = self.session.facts.flags
        return next((message for message in self.added_messages if flags[message] & MessageFlag.SUMMARY), None)

    def count_block_tokens(self, row: int) -> int:
        """Estimate the tokens (``bytes/4``) that a block had before the compaction."""
        return count_block_tokens(self.context_before, row)


def predict_size_after(compaction: RecordedCompaction, table: TokenTable) -> ContextSize | None:
    """Predict the size of the first request after a full compaction, from the contexts before and after it.

    Returns None for other kinds, or if no size was recorded earlier in the same context.
    """
    if compaction.kind != "full" or measure_context(compaction.context_before, table).recorded is None:
        return None
    frame_tokens = SUMMARY_FRAME_TOKENS.get(compaction.session.info.format, 0)
    return measure_context(compaction.context_after, table).size.add(frame_tokens, frame_tokens)


def count_tokens_by_category(context: Context) -> dict[str, int]:
    """Estimate the tokens (``bytes/4``) of a context's messages by category. Categories without tokens are left out."""
    by_category = dict.fromkeys(CATEGORIES, 0)
    for message in context.order:
        for row in context.blocks_of(message):
            by_category[categorize_block(context.facts, message, row)] += count_block_tokens(context, row)
    return {name: tokens for name, tokens in by_category.items() if tokens}


def find_recorded_compactions(session: Session) -> list[RecordedCompaction]:
    """Return all compactions in a recording, in order."""
    facts, sizes = session.facts, RunningSizes(session.facts)
    events: list[Compaction | Drop] = [event for event in facts.compactions if event.message <= session.length]
    events += (drop for drop in session.drops if drop.cleared_blocks)
    events.sort(key=lambda event: event.message)
    return [_build_recorded_compaction(session, event, sizes) for event in events]


def _build_recorded_compaction(session: Session, event: Compaction | Drop, sizes: RunningSizes) -> RecordedCompaction:
    facts = session.facts
    at = min(event.message, len(session))
    if isinstance(event, Drop):
        after = facts.requests[bisect_left(facts.request_message, at)].context
        return RecordedCompaction(session, at, "silent", event, after + event.tokens, True, after)
    sizes.move_to(at, until=at - 1)
    epoch = epoch_at(facts, at)
    request = find_request_before(facts, at, max(epoch.start, find_last_rewrite(facts, at - 1)))
    tokens = sizes.believed_size(epoch, at, request).tokens if sizes.count_messages(epoch, at) else None
    kind: CompactionKind = "full" if event.kind == "full" else "micro"
    return RecordedCompaction(session, at, kind, event, tokens, request >= 0, _find_recorded_tokens_after(facts, event))


def _find_recorded_tokens_after(facts: Facts, compaction: Compaction) -> int | None:
    """Return the recorded size of the first request after a compaction, or None if a new context begins earlier."""
    row = bisect_left(facts.request_message, compaction.message)
    if compaction.kind == "full":  # its summary may be recorded before messages that it kept
        first = bisect_left(facts.drops, compaction.message, key=lambda drop: drop.message)
        drops = takewhile(lambda drop: epoch_at(facts, drop.message).message == compaction.message, facts.drops[first:])
        late = (drop.message for drop in drops if drop.explained_by == Explanation.COMPACTION)
        row = bisect_left(facts.request_message, next(late, compaction.message))
    if row >= len(facts.requests):
        return None
    if compaction.kind == "micro":
        next_epoch = bisect_left(facts.epochs, compaction.message, key=lambda epoch: epoch.message)
        end = facts.epochs[next_epoch].message if next_epoch < len(facts.epochs) else -1
        if compaction.message <= end <= facts.request_message[row]:
            return None
    return facts.requests[row].context


def _find_first_reply(session: Session, summary: int) -> int:
    facts = session.facts
    next_epoch = bisect_left(facts.epochs, summary + 1, key=lambda epoch: epoch.message)
    start = max(summary + 1, facts.epochs[next_epoch - 1].start)  # after other insertions, such as a hint to continue
    end = min(facts.epochs[next_epoch].message, len(session)) if next_epoch < len(facts.epochs) else len(session)
    by_assistant = (message for message in range(start, end) if facts.role[message] == Role.ASSISTANT)
    replies = (message for message in by_assistant if not facts.flags[message] & _NOT_FROM_MODEL)
    return next(replies, end)


_NOT_FROM_MODEL = MessageFlag.SYNTHETIC | MessageFlag.NOT_SENT
