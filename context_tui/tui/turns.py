"""What the head of a turn tells: its messages, tokens and share of the context, and what a plan does to it. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from context_tui.compaction.changes import AlikeChanges
from context_tui.compaction.next_request import size_now
from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import PAST
from context_tui.session.context import Context, memoize
from context_tui.session.values import Kind, Spans
from context_tui.text.numbers import format_percent
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import TokenTable
from context_tui.tui.marks import Marker
from context_tui.tui.numbers import unit_of
from context_tui.tui.rows import Rows
from context_tui.tui.text import plural

VERBS = {"clear": "clears", "truncate": "truncates", "drop": "drops", "summarise": "summarises"}
EACH = 2_000
"""Changes of a turn up to which each is looked at for what it does; of more it is only told how many there are."""


class Fate(NamedTuple):
    """What a plan does to a part of a turn: to ``number`` ``of`` its results, messages or other blocks.

    ``word`` is the verdict, for its mark and colour.
    """

    word: str
    does: str
    number: int
    of: int
    what: str

    def __str__(self) -> str:
        what = f"{self.number:,} of {plural(self.of, self.what)}" if self.of else plural(self.number, self.what)
        return f"{self.does} {what}"

    @property
    def short(self) -> str:
        """The same without saying of what, where that is understood."""
        if self.what == "message" and self.number == self.of:
            return f"{self.does} all"
        return f"{self.does} {self.number:,} of {self.of:,}" if self.of else str(self)


@dataclass(frozen=True)
class Turn:
    """A turn, or with ``number`` 0 what comes before the first.

    ``tokens`` are of all that its rows show, by the ruler that ``unit`` names; ``share`` is the part that what it has
    in the context is of the next request, None where it has nothing there; ``outside`` says where it is then: before
    or after.
    """

    number: int
    messages: range
    tokens: int
    share: float | None = None
    outside: str = ""
    fates: tuple[Fate, ...] = ()
    unit: str = "est."

    @property
    def name(self) -> str:
        """What it is called."""
        return f"turn {self.number:,}" if self.number else "before turn 1"

    @property
    def word(self) -> str:
        """What becomes of it, in the word of a mark."""
        return self.outside or (self.fates[0].word if self.fates else "kept")

    def about(self) -> str:
        """All of it in words."""
        first, last = self.messages[0], self.messages[-1]
        which = f"message {first:,}" if first == last else f"messages {first:,} to {last:,}"
        where = "not in this context" if self.share is None else f"{format_percent(self.share)} of the context"
        return ", ".join(
            [f"{self.name}: {which}", f"{self.unit} {plural(self.tokens, 'token')}", where, *map(str, self.fates)]
        )


class Turns:
    """The turns of some rows, for those that are looked at; without a marker only their sizes are known."""

    def __init__(self, rows: Rows, marker: Marker | None) -> None:
        self._rows, self._marker = rows, marker
        self._known: dict[int, Turn] = {}

    @cached_property
    def _request(self) -> int:
        """Tokens of the next request; those of all messages, where the estimates say that these are more."""
        if self._marker is None:
            return 0
        context, sizes = self._marker.context, self._rows.sizes
        return max(
            size_now(context, sizes).tokens,
            sizes.prefix_sums_in(context)[-1] if sizes else index_context(context).total,
        )

    def turn(self, turn: int) -> Turn:
        """The turn at this place in ``Rows.heads``."""
        found = self._known.get(turn)
        if found is None:
            found = self._known[turn] = self._turn(turn)
        return found

    def _turn(self, turn: int) -> Turn:
        rows, messages, span = self._rows, self._rows.messages(turn), self._rows.span(turn)
        tokens, number = rows.sums[span.stop] - rows.sums[span.start], rows.number(turn)
        if self._marker is None:
            return Turn(number, messages, tokens, unit=unit_of(rows.sizes))
        context = self._marker.context
        positions = _positions(context, messages)
        if not positions:
            outside = "after" if messages.start >= context.at else "before"
            return Turn(number, messages, tokens, outside=outside, unit=unit_of(rows.sizes))
        sizes = rows.sizes
        sums = sizes.prefix_sums_in(context) if sizes else index_context(context).prefix
        inside = sum(sums[each.stop] - sums[each.start] for each in positions)
        tokens -= _less(context, messages, sizes)
        share = inside / self._request if self._request else 0.0
        plan = self._marker.plan
        fates = self._fates(plan, messages, positions) if plan and plan.changed else self._done(span)
        return Turn(number, messages, tokens, share, fates=tuple(fates), unit=unit_of(sizes))

    def _done(self, span: range) -> Iterator[Fate]:
        """What was done to the results of a turn when a plan was applied."""
        done = self._marker.done if self._marker else {}
        if done:
            rows = [block for block in self._rows.block[span.start : span.stop] if block >= 0]
            for word, count in Counter(done[row] for row in rows if row in done).most_common():
                yield Fate(word, word, count, len(rows), "result")

    def _fates(self, plan: Plan, messages: range, positions: list[range]) -> Iterator[Fate]:
        """What becomes of a turn: of its messages, then of the results and other blocks in those that stay."""
        of, asked = sum(map(len, positions)), plan.summarised or ()
        gone = [part for each in positions for part in overlaps(plan.dropped, each)]
        summarised = sum(len(part) for each in gone for part in overlaps(asked, each))
        for action, count in (("summarise", summarised), ("drop", sum(map(len, gone)) - summarised)):
            if count:
                yield Fate(PAST[action], VERBS[action], count, of, "message")
        if not plan.changes:
            return
        results, rows = index_context(plan.context).results, list[int]()
        for position in (each for every in positions for each in left_of(every, gone)):
            first, stop = (bisect_left(results.position, end) for end in (position.start, position.stop))
            rows += results.block[first:stop]
        yield from _counted(plan, [row for row in rows if row in plan.changes], len(rows), "result")
        yield from _counted(plan, self._others.get(messages.start, []), 0, "other block")

    @cached_property
    def _others(self) -> dict[int, list[int]]:
        """By the message that a turn begins with, the changed blocks of messages that stay, without results."""
        marker, rows, found = self._marker, self._rows, dict[int, list[int]]()
        if marker is not None and marker.plan is not None:
            facts, plan, result = marker.context.facts, marker.plan, int(Kind.TOOL_RESULT)
            for block in plan.changes:
                message = facts.block_message[block]
                if facts.kind[block] != result and not plan.action_at(marker.position(message)):
                    turn = rows.messages(rows.turn_of(message))
                    found.setdefault(turn.start, []).append(block)
        return found


def _counted(plan: Plan, changed: list[int], of: int, what: str) -> list[Fate]:
    """What is done to some changed blocks, most often first."""
    if isinstance(plan.changes, AlikeChanges):
        actions = Counter({plan.changes.change.action: len(changed)} if changed else {})
    elif len(changed) > EACH:
        return [Fate(PAST[plan.changes[changed[0]].action], "changes", len(changed), of, what)]
    else:
        actions = Counter(plan.changes[row].action for row in changed)
    return [Fate(PAST[action], VERBS[action], count, of, what) for action, count in actions.most_common()]


def overlaps(ranges: Sequence[range], of: range) -> Iterator[range]:
    """The parts of a range that lie in ranges, which are in order."""
    first = bisect_right(ranges, of.start, key=lambda each: each.stop)
    for each in islice(ranges, first, None):
        if each.start >= of.stop:
            return
        yield range(max(each.start, of.start), min(each.stop, of.stop))


def left_of(of: range, gone: Sequence[range]) -> Iterator[range]:
    """What is left of a range without parts of it, which are in order."""
    start = of.start
    for each in overlaps(gone, of):
        yield range(start, each.start)
        start = each.stop
    yield range(start, of.stop)


@memoize
def spans_of(context: Context) -> Spans:
    """The messages of a context as ranges."""
    return Spans(context.order) if isinstance(context.order, range) else Spans.from_numbers(context.order)


def _positions(context: Context, messages: range) -> list[range]:
    """Where some messages that follow each other stand in a context."""
    found, before = [], 0
    for each in spans_of(context).ranges:
        start, stop = max(each.start, messages.start), min(each.stop, messages.stop)
        if start < stop:
            found.append(range(before + start - each.start, before + stop - each.start))
        before += len(each)
    return found


def _replaced(context: Context, sizes: TokenTable | None) -> tuple[list[int], list[int]]:
    """The messages with results that were cleared before, and how many tokens less that are, summed up to each."""
    key = _replaced, sizes
    if key not in context.memo:
        facts, tokens = context.facts, Counter[int]()
        for row, body in context.replacements.items():
            if facts.kind[row] == Kind.TOOL_RESULT:
                less = sizes.blocks[row] - sizes.count_body(row, body) if sizes else bytes4(facts, row) - body.tokens
                tokens[facts.block_message[row]] += less
        messages = sorted(tokens)
        context.memo[key] = messages, list(accumulate((tokens[message] for message in messages), initial=0))
    found: tuple[list[int], list[int]] = context.memo[key]
    return found


def _less(context: Context, messages: range, sizes: TokenTable | None) -> int:
    """By how many tokens some messages are less in a context than they were recorded."""
    changed, sums = _replaced(context, sizes)
    return sums[bisect_left(changed, messages.stop)] - sums[bisect_left(changed, messages.start)]
