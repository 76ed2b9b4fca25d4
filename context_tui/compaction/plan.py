"""Plans: the changes, dropped ranges and inserts for a context, and the verdict on each message and block."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic import BaseModel

from context_tui.compaction.changes import Change, build_new_texts, collect_bodies
from context_tui.errors import PlanError
from context_tui.session.blocks import is_block_list, replace_texts
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import compact_json
from context_tui.session.session import Message
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role, value_class
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import count_block_tokens, estimate_text
from context_tui.tokens.restored_files import Restoration, use_estimate


@dataclass(frozen=True)
class SummaryPrompt:
    """The prompt of a summarizer, and how messages are prepared for it.

    Attributes:
        build_request: builds the request from the prepared messages and the earlier summary to update, or None.
        prepare_messages: truncates long results and replaces images with text, or does nothing, before pair repair.
        sections: headings of a complete reply, in order, or () if none are required.
        sends_messages: whether the summarizer gets the messages themselves, with tool schemas, instead of their text.
        retries_with_session_model: whether the session's own model is tried if the first one fails.
    """

    system: str
    build_request: Callable[[list[Message], str | None], list[Message]]
    prepare_messages: Callable[[list[Message]], list[Message]] = list
    sections: tuple[str, ...] = ()
    max_tokens: int = 8_192
    sends_messages: bool = True
    retries_with_session_model: bool = False


MAX_RESULT_CHARS = 2_000
"""Maximum length of a tool result for the summarizer in characters, or in bytes if the result is JSON."""
TRUNCATION_MARKER = "\n…[truncated for summary]"
IMAGE_OMITTED = "[image omitted from summary]"


def prepare_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with long results truncated and images replaced with text, for the summarizer."""
    return [{**message, "content": [_prepare_block(block) for block in message["content"]]} for message in messages]


def _prepare_block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image":
        return {"type": "text", "text": IMAGE_OMITTED}
    if block.get("type") != "tool_result":
        return block
    body = "" if block.get("content") is None else block["content"]
    if is_block_list(body):
        body = "".join(_format_part(part) for part in body)
    elif not isinstance(body, str):
        encoded = compact_json(body)
        if len(encoded) <= MAX_RESULT_CHARS:
            return block
        body = encoded.decode("utf-8", "surrogatepass")
    return {**block, "content": body if len(body) <= MAX_RESULT_CHARS else body[:MAX_RESULT_CHARS] + TRUNCATION_MARKER}


def _format_part(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return str(part.get("text") or "")
    source = part.get("source")
    media_type = source.get("media_type") if isinstance(source, dict) else None
    return f"\n[image: {media_type or 'image'}]"


@value_class()
class Trigger:
    """A runtime's decision whether to compact, and the reason.

    ``value`` (taken from ``source``) is compared with ``threshold``, both in ``unit``. With ``by_hand``, the user
    decides.
    """

    fires: bool
    reason: str
    value: int | None = None
    threshold: int | None = None
    source: str = ""
    by_hand: bool = False
    unit: str = "tokens"


class Insert(NamedTuple):
    """A message to insert before ``position``. Its text is prefix, summary (if ``holds_summary``), and suffix."""

    role: str
    position: int
    prefix: str
    suffix: str = ""
    holds_summary: bool = True

    def format_text(self, summary: str = "") -> str:
        """Return the message's text, given the summary."""
        return f"{self.prefix}{summary if self.holds_summary else ''}{self.suffix}"


class Edit(NamedTuple):
    """A change to a message, or to its block with the ordinal ``block``. Tokens are estimated (``bytes/4``)."""

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
"""Reason why a result is no longer in the context, by the source of its clearing (``Body.source``)."""


def merge_ranges(positions: Iterable[range]) -> tuple[range, ...]:
    """Return the ranges of positions in ascending order, with overlapping and touching ones merged."""
    merged: list[range] = []
    for start, stop in sorted((span.start, span.stop) for span in positions if span):
        if merged and start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, stop))
        else:
            merged.append(range(start, stop))
    return tuple(merged)


def _find_range(ranges: tuple[range, ...], position: int) -> range | None:
    number = bisect_right(ranges, position, key=attrgetter("start")) - 1
    return ranges[number] if number >= 0 and position in ranges[number] else None


def _list_injected_ordinals(facts: Facts, message: int) -> list[int]:
    rows, is_summary = enumerate(facts.blocks_of(message)), bool(facts.flags[message] & MessageFlag.SUMMARY)
    injected = (ordinal for ordinal, row in rows if facts.block_flags[row] & BlockFlag.INJECTED)
    return [ordinal for ordinal in injected if ordinal or not is_summary]


@value_class(eq=False)
class Plan:
    """A policy's plan for a context, made whether or not its trigger fires. Positions count from 0 within the context.

    Attributes:
        changes: changes keyed by block row.
        dropped_ranges: positions of messages to remove.
        summarised_ranges: positions of messages for the summarizer, or None for all dropped ones if an insert holds a
            summary.
        reason: why nothing would change, or "".
        previous_summary_row: block row of an earlier summary that the new one updates, or -1.
        tokens_saved: tokens (``bytes/4``) that the plan saves, or None to count them on demand.
        tokens_freed: tokens that the plan saves by the policy's own ``estimator``, or None to count them on demand.
        dropping_policy: the policy that drops messages, if several ran one after another.
        steps: the plans of policies that ran one after another.
        restoration: rule for what the agent puts back after the summary, or None.
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
    previous_summary_row: int = -1
    tokens_saved: int | None = None
    estimator: str = "bytes/4"
    tokens_freed: int | None = None
    dropping_policy: str = ""
    steps: tuple[Plan, ...] = ()
    restoration: Restoration | None = None

    def __post_init__(self) -> None:
        if not (self.dropped_ranges or self.inserts or self.summarised_ranges):
            object.__setattr__(self, "summarised_ranges", ())
            return
        object.__setattr__(self, "dropped_ranges", merge_ranges(self.dropped_ranges))
        object.__setattr__(self, "inserts", tuple(sorted(self.inserts, key=attrgetter("position"))))
        summarised = self.summarised_ranges
        if summarised is None:
            summarised = self.dropped_ranges if self.summary_insert else ()
        object.__setattr__(self, "summarised_ranges", merge_ranges(summarised))
        positions = {insert.position for insert in self.inserts}
        for span in chain(self.dropped_ranges, self.summarised_ranges or ()):
            positions.update((span.start, span.stop))
        if positions and not 0 <= min(positions) <= max(positions) <= len(self.context):
            raise PlanError(f"{self.policy}: its plan reaches outside the context of {len(self.context):,} messages")

    @cached_property
    def summary_insert(self) -> Insert | None:
        """The first insert that holds a summary, or None."""
        return next((insert for insert in self.inserts if insert.holds_summary), None)

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would change anything."""
        return bool(self.changes or self.dropped_ranges or self.inserts)

    @property
    def verdict(self) -> str:
        """The verdict on the trigger, in words: a policy would fire if its trigger is met and the plan has changes."""
        if self.trigger.fires:
            return "would fire" if self.has_changes else "its trigger is met, but it changes nothing"
        return "would not fire"

    @property
    def needs_summary(self) -> bool:
        """Whether a summary is needed to apply the plan."""
        return bool(self.inserts) and self.summary_insert is not None

    # Text, read on demand

    @property
    def messages_to_summarise(self) -> list[Message]:
        """The messages to summarise, prepared for the summarizer. Calls and results may still be unpaired."""
        messages = self._build_messages(self.summarised_message_numbers)
        return self.prompt.prepare_messages(messages) if self.prompt else messages

    @property
    def quotable_messages(self) -> list[Message]:
        """The messages from which a summary may quote: those to summarise, without their injected blocks."""
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
        """Yield the message number, the recorded ordinal and the block for each block to quote from."""
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
        """The numbers of the messages to summarise."""
        return [self.context.order[position] for position in chain.from_iterable(self.summarised_ranges or ())]

    @property
    def previous_summary(self) -> str | None:
        """The text of the earlier summary that the new one updates, or None."""
        if self.previous_summary_row < 0 or self.summary_insert is None or self.context.content is None:
            return None
        facts = self.context.facts
        message = facts.block_message[self.previous_summary_row]
        block = self.context.content.blocks(message)[facts.ordinal(self.previous_summary_row)]
        return str(block.get("text") or "").removeprefix(self.summary_insert.prefix.rstrip("\n")).lstrip()

    # Totals

    @property
    def messages_dropped(self) -> int:
        """The number of messages to remove."""
        return sum(map(len, self.dropped_ranges))

    @property
    def messages_summarised(self) -> int:
        """The number of messages that are summarised and removed."""
        summarised = set(chain.from_iterable(self.summarised_ranges or ()))
        return len(summarised.intersection(chain.from_iterable(self.dropped_ranges)))

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the context (``bytes/4``)."""
        return index_context(self.context).total

    @cached_property
    def tokens_after(self) -> int:
        """Estimated tokens of the context after the plan, excluding the summary."""
        index, facts = index_context(self.context), self.context.facts
        if self.tokens_saved is not None:
            return index.total - self.tokens_saved
        saved = sum(index.prefix[span.stop] - index.prefix[span.start] for span in self.dropped_ranges)
        position_of = index.position_of if self.dropped_ranges and self.changes else {}
        for block, change in self.changes.items():
            if not self.dropped_ranges or not _find_range(self.dropped_ranges, position_of[facts.block_message[block]]):
                saved += count_block_tokens(self.context, block) - change.body.tokens
        return index.total - saved + self.tokens_inserted

    @cached_property
    def tokens_inserted(self) -> int:
        """Estimated tokens of inserted messages, excluding those that hold a summary."""
        return sum(estimate_text(insert.format_text()) for insert in self.inserts if not insert.holds_summary)

    def estimate_restored(self, convert: Callable[[int, Kind], float] = use_estimate) -> int:
        """Estimate the tokens that the agent puts back after the summary; see :meth:`Restoration.estimate`."""
        if self.restoration is None or not self.needs_summary:
            return 0
        dropped = set(chain.from_iterable(self.dropped_ranges))
        kept = {message for position, message in enumerate(self.context.order) if position not in dropped}
        return self.restoration.estimate(self.context, convert, kept)

    @property
    def tokens_removed(self) -> int:
        """Tokens of removed content minus the tokens of replacements, by the policy's own estimator."""
        if self.steps:
            return sum(step.tokens_removed for step in self.steps)
        if self.tokens_freed is not None:
            return self.tokens_freed
        return self.tokens_before - self.tokens_after + self.tokens_inserted

    @property
    def boundary(self) -> int | None:
        """The first message after the first dropped range, or None if no message is dropped."""
        if not self.dropped_ranges:
            return None
        stop = self.dropped_ranges[0].stop
        return self.context.order[stop] if stop < len(self.context.order) else self.context.at

    # Verdicts

    def find_action(self, position: int) -> str:
        """Return the action on the message at *position*: drop, summarise, or ""."""
        if not self.dropped_ranges or _find_range(self.dropped_ranges, position) is None:
            return ""
        return "summarise" if _find_range(self.summarised_ranges or (), position) is not None else "drop"

    @property
    def edits(self) -> list[Edit]:
        """All single changes in prompt order. Changes to blocks of a dropped message come before its drop."""
        return list(self._iterate_edits())

    def _iterate_edits(self) -> Iterator[Edit]:
        facts, index, policy = self.context.facts, index_context(self.context), self.dropping_policy or self.policy
        positions = range(len(self.context)) if self.changes else chain.from_iterable(self.dropped_ranges)
        for position in positions:
            message = self.context.order[position]
            unchanged_tokens = index.tokens[position]
            for ordinal, block in enumerate(facts.blocks_of(message)) if self.changes else ():
                if change := self.changes.get(block):
                    tokens_before, tokens_after = count_block_tokens(self.context, block), change.body.tokens
                    unchanged_tokens -= tokens_before - tokens_after
                    tool, call_id = facts.tool_name(block), facts.call_id(block)
                    yield Edit(
                        change.action, message, ordinal, tool, call_id, tokens_before, tokens_after, change.policy
                    )
            if action := self.find_action(position):
                yield Edit(action, message, None, "", "", unchanged_tokens, 0, policy)

    def find_verdict_at(self, position: int, block: int | None = None) -> Verdict:
        """Return the verdict on the message at *position* in the context, or on its block in row *block*."""
        change = self.changes.get(block) if block is not None else None
        if action := self.find_action(position):
            addition = f", {ACTION_PAST_TENSE[change.action]} first" if change else ""
            code, explanation = self._explain_dropped(position)
            return Verdict(ACTION_PAST_TENSE[action], code, explanation + addition)
        if change and block is not None:
            tokens_after = "nothing" if change.body.removed else f"{change.body.tokens:,}"
            explanation = f"{count_block_tokens(self.context, block):,} tokens become {tokens_after}"
            return Verdict(ACTION_PAST_TENSE[change.action], VerdictCode.SELECTED, explanation)
        body = self.context.replacements.get(block) if block is not None else None
        if body and body.source:
            return Verdict("kept", VerdictCode.ALREADY_CLEARED, ALREADY_CLEARED_REASONS[body.source])
        return Verdict("kept", *self.keep_reason(position, block))

    def _explain_dropped(self, position: int) -> tuple[VerdictCode, str]:
        span = _find_range(self.dropped_ranges, position) or range(0)
        if not span.start:
            return VerdictCode.BEFORE_BOUNDARY, f"before the boundary at message {self.boundary:,}"
        first, last = self.context.order[span.start], self.context.order[span.stop - 1]
        messages = f"one of messages {first:,} to {last:,}" if first < last else "not among the kept messages"
        return VerdictCode.DROPPED_RANGE, messages

    def find_verdict(self, message: int, block: int | None = None) -> Verdict:
        """Return the verdict on a message, given by its number, or on its block with the ordinal *block*."""
        position = index_context(self.context).position_of.get(message)
        if position is None:
            return Verdict("kept", VerdictCode.NOT_IN_CONTEXT, "not in the context at this point")
        rows = list(self.context.facts.blocks_of(message))
        return self.find_verdict_at(position, None if block is None else rows[block])

    def iterate_verdicts(self) -> Iterator[tuple[int, int | None, Verdict]]:
        """Yield the message number, block ordinal (or None) and verdict for each message, result and changed block."""
        facts = self.context.facts
        for position, message in enumerate(self.context.order):
            yield message, None, self.find_verdict_at(position)
            for ordinal, block in enumerate(facts.blocks_of(message)):
                if facts.kind[block] == Kind.TOOL_RESULT or block in self.changes:
                    yield message, ordinal, self.find_verdict_at(position, block)

    def build_context_after(self) -> Context:
        """Return the context for the next policy, with the changed blocks but without dropping any message."""
        return self.context.with_bodies(collect_bodies(self.changes))


class VerdictCode(StrEnum):
    """A code for the reason of a verdict, for use by programs. People read the explanation instead."""

    # Kept because of its place: PROTECTED_CODES.
    RECENT_TURN = "recent_turn"
    RECENT_MESSAGE = "recent_message"
    RECENT_RESULT = "recent_result"
    TAIL = "tail"
    NEWEST_TURN = "newest_turn"
    PROTECTED = "protected"
    # Kept for another reason.
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
    # Changed or removed.
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
"""Codes of messages and blocks that a policy keeps because of their place."""

ACTION_PAST_TENSE = {"clear": "cleared", "truncate": "truncated", "drop": "dropped", "summarise": "summarised"}


class KeepReason(NamedTuple):
    """The reason why a message or block is kept, as a code and as an explanation."""

    code: VerdictCode
    explanation: str


KeepReasonFinder = Callable[[int, int | None], KeepReason]
"""Function that returns why a message (by position) or one of its blocks (by row) is kept."""


class Verdict(NamedTuple):
    """A plan's decision on a message or block (kept, cleared, truncated, dropped or summarised), and the reason."""

    outcome: str
    code: VerdictCode
    explanation: str

    @property
    def reason(self) -> str:
        """The outcome and its explanation, as shown to users."""
        return self.explanation if self.code == VerdictCode.NOT_IN_CONTEXT else f"{self.outcome}: {self.explanation}"
