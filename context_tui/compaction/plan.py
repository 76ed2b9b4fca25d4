"""The Plan data type: changes, dropped ranges and inserts for a context, and the verdict on each message and block."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from pydantic import BaseModel

from context_tui.compaction.changes import Change, build_new_texts, collect_bodies
from context_tui.compaction.summary_prompt import SummaryPrompt
from context_tui.errors import PlanError
from context_tui.session.blocks import bytes_to_tokens, replace_texts
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import utf8_len
from context_tui.session.session import Message
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role, value_class
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import count_block_tokens


@value_class()
class Trigger:
    """Decision of a runtime whether to act: the value that it considers, the threshold, and the source of the value.

    ``value`` and ``threshold`` are in ``unit``; ``by_hand`` says that no runtime acts on it.
    """

    fires: bool
    reason: str
    value: int | None = None
    threshold: int | None = None
    source: str = ""
    by_hand: bool = False
    unit: str = "tokens"


@dataclass(frozen=True)
class Insert:
    """Message of one text, inserted before ``position``: prefix, the summary where ``holds_summary``, suffix."""

    role: str
    position: int
    prefix: str
    suffix: str = ""
    holds_summary: bool = True

    def format_text(self, summary: str = "") -> str:
        """Return the whole text of the message."""
        return f"{self.prefix}{summary if self.holds_summary else ''}{self.suffix}"


@dataclass(frozen=True)
class Edit:
    """One change: ``block`` is the ordinal within the message, None for the whole message; tokens by ``bytes/4``."""

    action: str
    message: int
    block: int | None
    tool: str
    call_id: str
    tokens_before: int
    tokens_after: int
    source: str


ALREADY_CLEARED_REASONS = {
    "recorded": "already cleared, recorded",
    "inferred": "already cleared, inferred from a drop of the recorded size",
}
"""Why a result is out of the context already, by how that is known."""


def merge_ranges(positions: Iterable[range]) -> tuple[range, ...]:
    """Return ranges of positions in order, with touching and overlapping ones merged."""
    merged: list[range] = []
    for each in sorted((each for each in positions if each), key=lambda each: each.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(range(each.start, each.stop))
    return tuple(merged)


def _find_range(ranges: tuple[range, ...], position: int) -> range | None:
    number = bisect_right(ranges, position, key=lambda each: each.start) - 1
    return ranges[number] if number >= 0 and position in ranges[number] else None


def _list_injected_ordinals(facts: Facts, message: int) -> list[int]:
    """List the ordinals of the injected blocks of a message, except an earlier summary."""
    return [
        ordinal
        for ordinal, row in enumerate(facts.blocks_of(message))
        if facts.block_flags[row] & BlockFlag.INJECTED and (ordinal or not facts.flags[message] & MessageFlag.SUMMARY)
    ]


@value_class(eq=False)
class Plan:
    """A policy's plan for a context. Making a plan changes nothing, and a plan knows no session.

    Positions count from 0 within the context. ``changes`` maps block rows to their changes. The messages of
    ``dropped_ranges`` are removed; those of ``summarised_ranges`` are passed to the summarizer (None: all dropped ones,
    if an insert holds a summary). ``reason`` says why nothing would change. The plan is made whether or not the trigger
    fires. ``tokens_saved`` is set if the policy knows the total from prefix sums, else it is counted; ``tokens_freed``
    is the same by a policy's own ``estimator``. ``steps`` are the plans of the policies that ran one after another.
    """

    policy: str
    params: BaseModel
    context: Context
    trigger: Trigger
    changes: Mapping[int, Change] = field(default_factory=dict)
    dropped_ranges: tuple[range, ...] = ()
    inserts: tuple[Insert, ...] = ()
    summarised_ranges: tuple[range, ...] | None = None
    reason: str = ""
    report: Mapping[str, int] | None = None
    keep_reason: KeepReasonFinder = lambda position, block: KeepReason(VerdictCode.KEPT, "not changed by this policy")
    prompt: SummaryPrompt | None = None
    previous_summary_row: int = -1  # block row of an earlier summary that the new one is to update
    tokens_saved: int | None = None
    estimator: str = "bytes/4"
    tokens_freed: int | None = None
    dropping_policy: str = ""  # the policy that drops, where it is one of several
    steps: tuple[Plan, ...] = ()

    def __post_init__(self) -> None:
        if not (self.dropped_ranges or self.inserts or self.summarised_ranges):
            object.__setattr__(self, "summarised_ranges", ())
            return
        object.__setattr__(self, "dropped_ranges", merge_ranges(self.dropped_ranges))
        object.__setattr__(self, "inserts", tuple(sorted(self.inserts, key=lambda each: each.position)))
        summarised = self.summarised_ranges
        if summarised is None:
            summarised = self.dropped_ranges if self.summary_insert else ()
        object.__setattr__(self, "summarised_ranges", merge_ranges(summarised))
        places = {each.position for each in self.inserts}
        for ranges in (self.dropped_ranges, self.summarised_ranges or ()):
            places.update(end for each in ranges for end in (each.start, each.stop))
        if places and not 0 <= min(places) <= max(places) <= len(self.context):
            raise PlanError(f"{self.policy}: its plan reaches outside the context of {len(self.context):,} messages")

    @cached_property
    def summary_insert(self) -> Insert | None:
        """First insert that holds a summary."""
        return next((each for each in self.inserts if each.holds_summary), None)

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would change anything."""
        return bool(self.changes or self.dropped_ranges or self.inserts)

    @property
    def needs_summary(self) -> bool:
        """Whether applying the plan needs a summary."""
        return bool(self.inserts) and self.summary_insert is not None

    # Text, read on demand

    @property
    def messages_to_summarise(self) -> list[Message]:
        """Messages to summarise, as the summarizer is to see them (vectors' shape, before pair repair)."""
        messages = self._build_messages(self.summarised_message_numbers)
        return self.prompt.prepare_messages(messages) if self.prompt else messages

    @property
    def quotable_messages(self) -> list[Message]:
        """Messages to summarise, unprepared and without injected blocks: the text that may be quoted."""
        return self._build_messages(self.summarised_message_numbers, injected=False)

    def _build_messages(self, numbers: Iterable[int], *, injected: bool = True) -> list[Message]:
        content, context = self.context.content, self.context
        if content is None:
            return []
        messages = []
        for message in numbers:
            texts = build_new_texts(content, context, self.changes, message)
            if not injected:
                texts |= dict.fromkeys(_list_injected_ordinals(context.facts, message))
            role = "assistant" if context.facts.role[message] == Role.ASSISTANT else "user"
            messages.append({"role": role, "content": replace_texts(content.blocks(message), texts)})
        return messages

    def iterate_quotable_blocks(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield the blocks of :attr:`quotable_messages`, with their messages and recorded ordinals."""
        content, context = self.context.content, self.context
        if content is None:
            return
        for message in self.summarised_message_numbers:
            texts = build_new_texts(content, context, self.changes, message)
            texts |= dict.fromkeys(_list_injected_ordinals(context.facts, message))
            for ordinal, block in enumerate(content.blocks(message)):
                for quotable in replace_texts([block], {0: texts[ordinal]} if ordinal in texts else {}):
                    yield message, ordinal, quotable

    @property
    def summarised_message_numbers(self) -> list[int]:
        """Numbers of the messages that it summarises."""
        return [self.context.order[position] for position in chain.from_iterable(self.summarised_ranges or ())]

    @property
    def previous_summary(self) -> str | None:
        """Body of the earlier summary that the new one updates, or None."""
        if self.previous_summary_row < 0 or self.summary_insert is None or self.context.content is None:
            return None
        facts = self.context.facts
        message = facts.block_message[self.previous_summary_row]
        block = self.context.content.blocks(message)[[*facts.blocks_of(message)].index(self.previous_summary_row)]
        return str(block.get("text") or "").removeprefix(self.summary_insert.prefix.rstrip("\n")).lstrip()

    # Totals

    @property
    def messages_dropped(self) -> int:
        """Number of messages dropped."""
        return sum(map(len, self.dropped_ranges))

    @property
    def messages_summarised(self) -> int:
        """Number of messages dropped that the summary stands for; it may cover messages that stay, too."""
        summarised = set(chain.from_iterable(self.summarised_ranges or ()))
        return sum(len(summarised.intersection(each)) for each in self.dropped_ranges)

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the context (``bytes/4``)."""
        return index_context(self.context).total

    @cached_property
    def tokens_after(self) -> int:
        """Estimated tokens of what would be left, without the summary that has yet to be written."""
        sums, facts = index_context(self.context), self.context.facts
        if self.tokens_saved is not None:
            return sums.total - self.tokens_saved
        saved = sum(sums.prefix[each.stop] - sums.prefix[each.start] for each in self.dropped_ranges)
        position_of = sums.position_of if self.dropped_ranges and self.changes else {}
        for block, change in self.changes.items():
            if not self.dropped_ranges or not _find_range(self.dropped_ranges, position_of[facts.block_message[block]]):
                saved += count_block_tokens(self.context, block) - change.body.tokens
        return sums.total - saved + self.tokens_inserted

    @cached_property
    def tokens_inserted(self) -> int:
        """Estimated tokens of the inserted messages, except those that hold a summary."""
        return sum(bytes_to_tokens(utf8_len(each.format_text())) for each in self.inserts if not each.holds_summary)

    @property
    def tokens_removed(self) -> int:
        """Estimated tokens removed, less their replacements, by the estimator of the policy that removes them."""
        if self.steps:
            return sum(step.tokens_removed for step in self.steps)
        if self.tokens_freed is not None:
            return self.tokens_freed
        return self.tokens_before - self.tokens_after + self.tokens_inserted

    @property
    def boundary(self) -> int | None:
        """First message after the first dropped range; None if nothing is dropped.

        It is where the kept messages begin or, if the beginning is kept too, where they continue.
        """
        if not self.dropped_ranges:
            return None
        stop = self.dropped_ranges[0].stop
        return self.context.order[stop] if stop < len(self.context.order) else self.context.at

    # Verdicts

    def find_action(self, position: int) -> str:
        """Return the action on the message at a position as a whole: drop, summarise or nothing."""
        if not self.dropped_ranges or _find_range(self.dropped_ranges, position) is None:
            return ""
        return "summarise" if _find_range(self.summarised_ranges or (), position) is not None else "drop"

    @property
    def edits(self) -> list[Edit]:
        """Every single change, in prompt order; changes within a dropped message come before its drop."""
        return list(self._iterate_edits())

    def _iterate_edits(self) -> Iterator[Edit]:
        facts, sums, by = self.context.facts, index_context(self.context), self.dropping_policy or self.policy
        everywhere = range(len(self.context)) if self.changes else chain.from_iterable(self.dropped_ranges)
        for position in everywhere:
            message = self.context.order[position]
            remaining = sums.tokens[position]
            for ordinal, block in enumerate(facts.blocks_of(message)) if self.changes else ():
                change = self.changes.get(block)
                if change:
                    before, after = count_block_tokens(self.context, block), change.body.tokens
                    remaining -= before - after
                    tool, call_id = facts.tool_name(block), facts.call_id(block)
                    yield Edit(change.action, message, ordinal, tool, call_id, before, after, change.policy)
            if action := self.find_action(position):
                yield Edit(action, message, None, "", "", remaining, 0, by)

    def find_verdict_at(self, position: int, block: int | None = None) -> Verdict:
        """Return the verdict on the message at a position of the context, or on one of its blocks (a row)."""
        change = self.changes.get(block) if block is not None else None
        if action := self.find_action(position):
            first = f", {ACTION_PAST_TENSE[change.action]} first" if change else ""
            return Verdict(ACTION_PAST_TENSE[action], *self._explain_dropped(position, first))
        if change and block is not None:
            became = "nothing" if change.body.removed else f"{change.body.tokens:,}"
            return Verdict(
                ACTION_PAST_TENSE[change.action],
                VerdictCode.SELECTED,
                f"{count_block_tokens(self.context, block):,} tokens become {became}",
            )
        body = self.context.replacements.get(block) if block is not None else None
        if body and body.source:
            return Verdict("kept", VerdictCode.ALREADY_CLEARED, ALREADY_CLEARED_REASONS[body.source])
        return Verdict("kept", *self.keep_reason(position, block))

    def _explain_dropped(self, position: int, first: str) -> tuple[VerdictCode, str]:
        within = _find_range(self.dropped_ranges, position) or range(0)
        if not within.start:
            return VerdictCode.BEFORE_BOUNDARY, f"before the boundary at message {self.boundary:,}{first}"
        order = self.context.order
        return (
            VerdictCode.DROPPED_RANGE,
            f"one of messages {order[within.start]:,} to {order[within.stop - 1]:,}{first}",
        )

    def find_verdict(self, message: int, block: int | None = None) -> Verdict:
        """Return the verdict on a message of the context, or on its block with this ordinal."""
        position = index_context(self.context).position_of.get(message)
        if position is None:
            return Verdict("kept", VerdictCode.NOT_IN_CONTEXT, "not in the context at this point")
        rows = list(self.context.facts.blocks_of(message))
        return self.find_verdict_at(position, None if block is None else rows[block])

    def iterate_verdicts(self) -> Iterator[tuple[int, int | None, Verdict]]:
        """Yield message, block ordinal (None: the message) and verdict of messages, results and changed blocks."""
        facts = self.context.facts
        for position, message in enumerate(self.context.order):
            yield message, None, self.find_verdict_at(position)
            for ordinal, block in enumerate(facts.blocks_of(message)):
                if facts.kind[block] == Kind.TOOL_RESULT or block in self.changes:
                    yield message, ordinal, self.find_verdict_at(position, block)

    def build_context_after(self) -> Context:
        """Return the context with the changed blocks, for the next policy; nothing is dropped."""
        return self.context.with_bodies(collect_bodies(self.changes))


class VerdictCode(StrEnum):
    """Reason code of a verdict. Programs compare these; the explanation beside a code is for people."""

    # Kept, as it is recent or protected by another rule: PROTECTED holds these.
    RECENT_TURN = "recent_turn"
    RECENT_MESSAGE = "recent_message"
    RECENT_RESULT = "recent_result"
    TAIL = "tail"
    NEWEST_TURN = "newest_turn"
    PROTECTED = "protected"
    # Kept, as the policy does not touch it.
    KEPT = "kept"
    PAIR = "pair"
    SMALL = "small"
    NOT_COMPACTABLE = "not_compactable"
    NOT_A_RESULT = "not_a_result"
    NOT_SHORTER = "not_shorter"
    NOT_MARKED = "not_marked"
    ALREADY_CLEARED = "already_cleared"
    NOTHING_TO_DO = "nothing_to_do"
    NOT_IN_CONTEXT = "not_in_context"
    # Changed or gone.
    SELECTED = "selected"
    BEFORE_BOUNDARY = "before_boundary"
    DROPPED_RANGE = "dropped_range"


PROTECTED_CODES = frozenset(
    {
        VerdictCode.RECENT_TURN,
        VerdictCode.RECENT_MESSAGE,
        VerdictCode.RECENT_RESULT,
        VerdictCode.TAIL,
        VerdictCode.NEWEST_TURN,
        VerdictCode.PROTECTED,
    }
)
"""The codes of what a policy keeps because of where it stands."""

ACTION_PAST_TENSE = {"clear": "cleared", "truncate": "truncated", "drop": "dropped", "summarise": "summarised"}
"""What an action makes of a message or block."""


class KeepReason(NamedTuple):
    """Reason why a message or block is kept."""

    code: VerdictCode
    explanation: str


KeepReasonFinder = Callable[[int, int | None], KeepReason]
"""Why something is kept: position in the context, and block row (None for the message)."""


@dataclass(frozen=True)
class Verdict:
    """Result of a plan for a message or block (kept, cleared, truncated, dropped or summarised), and the reason."""

    outcome: str
    code: VerdictCode
    explanation: str

    @property
    def reason(self) -> str:
        """The verdict and its words."""
        return self.explanation if self.code == VerdictCode.NOT_IN_CONTEXT else f"{self.outcome}: {self.explanation}"
