"""Turns of the timeline: their sizes, their shares of the context, and the effects of a plan on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import accumulate, chain, islice
from typing import NamedTuple

from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.session.context import Context, memoize
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, Spans
from context_tui.text.numbers import format_count, format_percent, format_tokens
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import TokenTable
from context_tui.tui.rendering.formatting import format_token_unit
from context_tui.tui.terminal.cells import choose_form
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import TimelineRows

ACTION_VERBS = {"clear": "clears", "truncate": "truncates", "drop": "drops", "summarise": "summarises"}
MAX_EXAMINED_CHANGES = 2_000
"""Maximum number of changes of a turn that are counted by action."""


class TurnEffect(NamedTuple):
    """One effect of a plan on a turn: ``affected`` of ``total`` messages or blocks; a ``total`` of 0 is not shown."""

    verdict: str
    verb: str
    affected: int
    total: int
    noun: str

    def __str__(self) -> str:
        if not self.total:
            return f"{self.verb} {format_count(self.affected, self.noun)}"
        return f"{self.verb} {self.affected:,} of {format_count(self.total, self.noun)}"

    @property
    def short(self) -> str:
        """The effect as a short text, without the noun where possible."""
        if self.noun == "message" and self.affected == self.total:
            return f"{self.verb} all"
        return f"{self.verb} {self.affected:,} of {self.total:,}" if self.total else str(self)


class TurnSummary(NamedTuple):
    """A summary of one turn; ``number`` is 0 for the messages before the first turn.

    ``tokens`` is the turn's size by the token measure that ``unit`` names, and ``share`` is its share of the next
    request. If no message in the turn is in the context, ``share`` is None and ``outside`` is ``before`` or ``after``;
    if only some are, ``inside`` is their size, else None.
    """

    number: int
    messages: range
    tokens: int
    share: float | None = None
    outside: str = ""
    effects: tuple[TurnEffect, ...] = ()
    unit: str = "est."
    inside: int | None = None

    @property
    def place(self) -> str:
        """The turn's share of the context, or the size of its part in the context if that is not all; "" if none is."""
        if self.share is None:
            return ""
        return format_percent(self.share) if self.inside is None else f"{format_tokens(self.inside)} in context"

    @property
    def name(self) -> str:
        """The turn's name on screen: ``turn 3``, or ``before turn 1``."""
        return f"turn {self.number:,}" if self.number else "before turn 1"

    @property
    def verdict(self) -> str:
        """The verdict that marks the turn's heading: ``outside`` if set, else that of the first effect or ``kept``."""
        return self.outside or (self.effects[0].verdict if self.effects else "kept")

    def format_summary(self) -> str:
        """Format the turn's messages, size, share and effects as one line of text."""
        first, last = self.messages[0], self.messages[-1]
        message_text = f"message {first:,}" if first == last else f"messages {first:,} to {last:,}"
        place = "not in this context" if self.share is None else f"{format_percent(self.share)} of the context"
        if self.inside is not None:
            place = f"{self.inside:,} of them in this context ({place})"
        tokens = f"{self.unit} {format_count(self.tokens, 'token')}"
        return ", ".join([f"{self.name}: {message_text}", tokens, place, *map(str, self.effects)])


class TurnSummaries:
    """Summaries of turns by their index in ``TimelineRows.heads``, computed on demand; without a marker, sizes only."""

    def __init__(self, rows: TimelineRows, marker: RowMarker | None) -> None:
        self._rows, self._marker = rows, marker
        self.get_summary = cache(self._build_summary)

    @cached_property
    def _request_tokens(self) -> int:
        """Tokens of the next request, or the estimate for all messages of the context if that is larger."""
        if self._marker is None:
            return 0
        context, token_table = self._marker.context, self._rows.token_table
        estimate = token_table.compute_prefix_sums(context)[-1] if token_table else index_context(context).total
        return max(measure_context(context, token_table).tokens, estimate)

    def _build_summary(self, turn: int) -> TurnSummary:
        rows, messages, span = self._rows, self._rows.get_turn_messages(turn), self._rows.get_turn_rows(turn)
        tokens, number = rows.sums[span.stop] - rows.sums[span.start], rows.get_turn_number(turn)
        token_table, unit = rows.token_table, format_token_unit(rows.token_table)
        if self._marker is None:
            return TurnSummary(number, messages, tokens, unit=unit)
        context = self._marker.context
        positions = _find_positions(context, messages)
        if not positions:
            outside = "after" if messages.start >= context.at else "before"
            return TurnSummary(number, messages, tokens, outside=outside, unit=unit)
        sums = token_table.compute_prefix_sums(context) if token_table else index_context(context).prefix
        context_tokens = sum(sums[span.stop] - sums[span.start] for span in positions)
        cleared, saved = _compute_cleared_tokens(context, token_table)
        tokens -= saved[bisect_left(cleared, messages.stop)] - saved[bisect_left(cleared, messages.start)]
        share = context_tokens / self._request_tokens if self._request_tokens else 0.0
        plan = self._marker.plan
        effects = self._find_applied_effects(span)
        if plan and plan.has_changes:
            effects = self._find_effects(plan, messages, positions)
        inside = context_tokens if sum(map(len, positions)) < len(messages) else None
        return TurnSummary(number, messages, tokens, share, effects=tuple(effects), unit=unit, inside=inside)

    def _find_applied_effects(self, span: range) -> Iterator[TurnEffect]:
        marks = self._marker.applied_marks if self._marker else {}
        if marks:
            rows = [block for block in self._rows.block[span.start : span.stop] if block >= 0]
            for verdict, count in Counter(marks[row] for row in rows if row in marks).most_common():
                yield TurnEffect(verdict, verdict, count, len(rows), "result")

    def _find_effects(self, plan: Plan, messages: range, positions: list[range]) -> Iterator[TurnEffect]:
        total, summarised_ranges = sum(map(len, positions)), plan.summarised_ranges or ()
        dropped = [overlap for span in positions for overlap in find_overlaps(plan.dropped_ranges, span)]
        summarised = sum(len(overlap) for span in dropped for overlap in find_overlaps(summarised_ranges, span))
        for action, count in (("summarise", summarised), ("drop", sum(map(len, dropped)) - summarised)):
            if count:
                yield TurnEffect(ACTION_PAST_TENSE[action], ACTION_VERBS[action], count, total, "message")
        if not plan.changes:
            return
        results, rows = index_context(plan.context).results, list[int]()
        for span in chain.from_iterable(subtract_ranges(each, dropped) for each in positions):
            first, stop = bisect_left(results.position, span.start), bisect_left(results.position, span.stop)
            rows += results.block[first:stop]
        yield from _count_effects(plan, [row for row in rows if row in plan.changes], len(rows), "result")
        yield from _count_effects(plan, self._other_changes.get(messages.start, []), 0, "other block")

    @cached_property
    def _other_changes(self) -> dict[int, list[int]]:
        marker, rows, blocks = self._marker, self._rows, dict[int, list[int]]()
        if marker is not None and marker.plan is not None:
            facts, plan, result = marker.context.facts, marker.plan, int(Kind.TOOL_RESULT)
            for block in plan.changes:
                message = facts.block_message[block]
                if facts.kind[block] != result and not plan.find_action(marker.find_position(message)):
                    turn = rows.get_turn_messages(rows.find_turn_of_message(message))
                    blocks.setdefault(turn.start, []).append(block)
        return blocks


def count_actions(plan: Plan, blocks: Sequence[int]) -> Counter[str]:
    """Return how many of *blocks* each action of a plan changes; the plan must change all of them."""
    if isinstance(plan.changes, UniformChanges):
        return Counter({plan.changes.change.action: len(blocks)} if blocks else {})
    return Counter(plan.changes[row].action for row in blocks)


def _count_effects(plan: Plan, blocks: list[int], total: int, noun: str) -> list[TurnEffect]:
    if len(blocks) > MAX_EXAMINED_CHANGES and not isinstance(plan.changes, UniformChanges):
        return [TurnEffect(ACTION_PAST_TENSE[plan.changes[blocks[0]].action], "changes", len(blocks), total, noun)]
    return [
        TurnEffect(ACTION_PAST_TENSE[action], ACTION_VERBS[action], count, total, noun)
        for action, count in count_actions(plan, blocks).most_common()
    ]


def find_overlaps(ranges: Sequence[range], span: range) -> Iterator[range]:
    """Yield the parts of *span* that lie in one of *ranges*, which must be sorted."""
    first = bisect_right(ranges, span.start, key=lambda other: other.stop)
    for other in islice(ranges, first, None):
        if other.start >= span.stop:
            return
        yield range(max(other.start, span.start), min(other.stop, span.stop))


def subtract_ranges(span: range, removed: Sequence[range]) -> Iterator[range]:
    """Yield the ranges of *span* between the sorted *removed* ranges; some may be empty."""
    start = span.start
    for overlap in find_overlaps(removed, span):
        yield range(start, overlap.start)
        start = overlap.stop
    yield range(start, span.stop)


@memoize
def compute_message_spans(context: Context) -> Spans:
    """Return the numbers of the messages in a context as ranges, in prompt order."""
    return Spans(context.order) if isinstance(context.order, range) else Spans.from_numbers(context.order)


def _find_positions(context: Context, messages: range) -> list[range]:
    positions, offset = [], 0
    for span in compute_message_spans(context).ranges:
        start, stop = max(span.start, messages.start), min(span.stop, messages.stop)
        if start < stop:
            positions.append(range(offset + start - span.start, offset + stop - span.start))
        offset += len(span)
    return positions


def _compute_cleared_tokens(context: Context, token_table: TokenTable | None) -> tuple[list[int], list[int]]:
    """Return the numbers of messages with results that were cleared earlier, and running sums of the tokens saved."""
    key = _compute_cleared_tokens, token_table
    if key not in context.memo:
        facts, tokens = context.facts, Counter[int]()
        for row, body in context.replacements.items():
            if facts.kind[row] == Kind.TOOL_RESULT:
                old, new = bytes4(facts, row), body.tokens
                if token_table:
                    old, new = token_table.blocks[row], token_table.count_body(row, body)
                tokens[facts.block_message[row]] += old - new
        messages = sorted(tokens)
        context.memo[key] = messages, list(accumulate((tokens[message] for message in messages), initial=0))
    result: tuple[list[int], list[int]] = context.memo[key]
    return result


class ContextCounts(NamedTuple):
    """The number of messages in a context, the number of turns that begin in it, and the turns held only in part."""

    messages: int
    turns: int
    partial_turns: tuple[int, ...] = ()


def format_context_counts(counts: ContextCounts, messages: int, turns: int, width: int) -> str:
    """Format how many of the session's *messages* and *turns* are in the context, in *width* cells if possible."""
    in_context = f"in context: {format_fraction(counts.messages, messages, 'message')}"
    forms = [f"{in_context}, {format_fraction(counts.turns, turns, 'turn')}", in_context]
    forms.append(format_count(counts.messages, "message"))
    if partial_count := len(counts.partial_turns):
        if not counts.turns and partial_count == 1:
            forms[0] = f"{in_context}, end of turn {counts.partial_turns[0]:,} only"
        else:
            partial = f"turn {counts.partial_turns[0]:,}" if partial_count == 1 else f"{partial_count:,} more"
            forms.insert(0, f"{forms[0]} + part of {partial}")
    return choose_form(forms, width)


def format_fraction(count: int, total: int, noun: str) -> str:
    """Format a count as ``2 of 3 messages``, or as ``3 messages`` if it equals *total*."""
    return format_count(count, noun) if count == total else f"{count:,} of {format_count(total, noun)}"


def find_turn_starts(session: Session) -> list[int]:
    """Return the numbers of the messages that begin a turn, in order."""
    flags, start = session.facts.flags, int(MessageFlag.TURN_START)
    return [message for message in range(session.length) if flags[message] & start]


def count_context(context: Context, starts: Sequence[int]) -> ContextCounts:
    """Count the messages and turns of a context; *starts* are the first messages of all turns of the session."""
    first_messages = {context.order[position] for position in index_context(context).turn_starts}
    turns = (bisect_right(starts, span.start) for span in compute_message_spans(context).ranges)
    partial_turns = dict.fromkeys(turn for turn in turns if turn and starts[turn - 1] not in first_messages)
    return ContextCounts(len(context), len(first_messages), tuple(partial_turns))
