"""How many rows a filter would list, for as many filters as are asked for, by going through the rows once. Pure.

Counted in slices, so that nobody waits for the end of a long session.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from math import inf
from typing import NamedTuple

from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import PAST
from context_tui.tui.filters import SIZES, Filter, bit, number_of, traits_of
from context_tui.tui.listing import shown_tokens
from context_tui.tui.marks import LEGEND, Marker
from context_tui.tui.rows import WHOLE, Rows

SLICE = 512
"""Rows that are counted between two looks at the clock."""


class Alike(NamedTuple):
    """What filters tell rows by: what it is and which tools it is of (as ``traits_of`` gives them), the word of its
    mark, which of ``SIZES`` it reaches, whether it reads the path that is asked for.
    """

    kinds: int
    tools: tuple[int, ...]
    word: str
    size: int
    reads: bool

    def meets(self, wanted: Filter, tool: int) -> bool:
        """Whether such rows are listed by a filter, whose tool has the number *tool*."""
        return (
            (not wanted.category or bool(self.kinds & bit(wanted.category)))
            and (not wanted.tool or tool in self.tools)
            and (not wanted.verdict or self.word == wanted.verdict)
            and (not wanted.in_context or self.word not in ("before", "after"))
            and (not wanted.path or self.reads)
            and self.size >= wanted.min_tokens
        )


class FilterCounts:
    """Counts of one view's rows, of which some may be asked to read one path. ``counted`` are how many there are."""

    def __init__(self, rows: Rows, marker: Marker, path: str = "") -> None:
        self.counted = 0
        self._rows, self._marker, self._path = rows, marker, path
        self._at, self._stop = 0, len(rows)
        self._alike = Counter[Alike]()

    def advance(self, seconds: float = inf) -> bool:
        """Count on for about so long; whether all is counted."""
        until = time.perf_counter() + seconds
        while self._at < self._stop:
            self._count(range(self._at, min(self._at + SLICE, self._stop)))
            if time.perf_counter() >= until:
                break
        return self._at >= self._stop

    def of(self, wanted: Filter) -> int:
        """How many of the rows that were counted a filter lists."""
        tool = number_of(self._marker.context.facts, wanted.tool) if wanted.tool else -1
        return sum(count for each, count in self._alike.items() if each.meets(wanted, tool))

    def _count(self, span: range) -> None:
        rows, marker, path, alike = self._rows, self._marker, self._path, self._alike
        facts = marker.context.facts
        for row in span:
            message, block = rows.message[row], rows.block[row]
            if block >= WHOLE:
                kinds, tools = traits_of(facts, message, block, path)
                word, size = marker.mark(message, block).word, bisect_right(SIZES, shown_tokens(rows, marker, row))
                alike[Alike(kinds, tools, word, SIZES[size - 1] if size else 0, bool(tools))] += 1
        self.counted = sum(alike.values())
        self._at = span.stop


def possible_verdicts(marker: Marker, messages: int) -> list[str]:
    """The words of the marks that rows can have in a session of so many messages, in the order in which they are
    explained; found without looking at the rows, so that some may turn out to be of none.
    """
    plan, context = marker.plan, marker.context
    found = {"kept"} | set(marker.done.values())
    if plan is not None:
        found |= {"protected"} | {PAST[action] for action in _actions(marker, plan)}
        found |= {"summarised"} if plan.dropped and plan.summarised else set()
        found |= {"dropped"} if plan.dropped != plan.summarised else set()
        found |= {"gone"} if context.replacements else set()
    found |= {"before"} if len(context.order) < context.at else set()
    found |= {"after"} if context.at < messages else set()
    return [word for word in (*LEGEND, "kept") if word in found]


def _actions(marker: Marker, plan: Plan) -> set[str]:
    """What is done to blocks of messages that stay."""
    if not plan.dropped:
        return {change.action for change in plan.changes.values()}
    owner = marker.context.facts.block_message
    stay = (block for block in plan.changes if not plan.action_at(marker.position(owner[block])))
    return {plan.changes[block].action for block in stay}
