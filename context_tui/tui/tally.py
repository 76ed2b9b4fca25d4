"""How many rows of a whole context have each mark, and where: what is told of those out of sight. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from context_tui.compaction.plan import Plan
from context_tui.compaction.verdicts import PAST
from context_tui.session.values import Kind
from context_tui.tui.marks import ABOUT, LEGEND, Marker
from context_tui.tui.rows import WHOLE, Rows
from context_tui.tui.text import plural
from context_tui.tui.turns import VERBS, left_of, overlaps
from context_tui.tui.widgets.outcome import outcome_of

FEW = 2_000
"""Rows up to which each is asked whether it is kept as recent: what policies keep, they have no sums of."""
KEYS = "< > go there"
OUTSIDE = {"before": "outside", "after": "later"}
"""What is not in the context, in a word."""
DONE = {verb: PAST[action] for action, verb in VERBS.items()}


@dataclass
class Tally:
    """So many of something, between two messages."""

    what: str
    number: int = 0
    first: int = -1
    last: int = -1

    def add(self, number: int, first: int, last: int) -> None:
        """Count more of it."""
        self.number += number
        self.first, self.last = min(first, self.first if self.first >= 0 else first), max(last, self.last)

    def words(self, name: str, brief: str, keys: str = "") -> tuple[str, ...]:
        """It behind a name, in fewer and fewer words."""
        where = f"#{self.first:,} to #{self.last:,}" if self.first != self.last else f"#{self.first:,}"
        long, short = f"{name}: {plural(self.number, self.what)}, {where}", f"{brief} {self.number:,}"
        return (*([f"{long} ({keys})"] if keys else []), long, f"{short}, {where}", short)


def totals(rows: Rows, marker: Marker) -> dict[str, tuple[str, ...]]:
    """What is told of each mark that occurs, by its word, from more words to fewer."""
    context, found = marker.context, dict[str, tuple[str, ...]]()
    for word, tally in _changed(marker).items():
        name = ABOUT[word] if marker.plan else LEGEND[word]
        found[word] = tally.words(name, LEGEND[word], "" if found else KEYS)
    if marker.plan and len(rows) <= FEW:
        marks = Counter(marker.mark(m, b).word for m, b in zip(rows.message, rows.block, strict=True) if b >= WHOLE)
        for word in ("protected", "gone"):
            if count := marks[word]:
                brief = f"{LEGEND[word]} {count:,}"
                found[word] = (f"{LEGEND[word]}: {plural(count, 'row')}", brief, brief.replace(" as recent", ""))
    outside = {"before": context.at - len(context), "after": len(rows.first) - context.at}
    for word, count in outside.items():
        if count > 0:
            found[word] = (f"{LEGEND[word]}: {plural(count, 'message')}", LEGEND[word], OUTSIDE[word])
    return found


def _changed(marker: Marker) -> dict[str, Tally]:
    """What the plan changes, or what was done, by mark: messages that go, blocks of those that stay."""
    plan, found = marker.plan, dict[str, Tally]()
    if plan is None:
        facts = marker.context.facts
        for row, word in marker.done.items():
            found.setdefault(word, Tally("result")).add(1, facts.block_message[row], facts.block_message[row])
        return found
    for word, positions in _gone(plan):
        gone = [plan.context.order[position] for position in positions]  # a recorded compaction may have put in behind
        found.setdefault(word, Tally("message")).add(len(gone), min(gone), max(gone))
    for word, rows in _blocks(marker, plan).items():
        kind, message = plan.context.facts.kind, plan.context.facts.block_message
        what = "result" if all(kind[row] == Kind.TOOL_RESULT for row in rows) else "block"
        tally = found.setdefault(word, Tally(what))
        tally.what = what if tally.what == what else "part"
        places = [message[row] for row in rows]
        tally.add(len(rows), min(places), max(places))
    return found


def _gone(plan: Plan) -> Iterator[tuple[str, range]]:
    """The positions of the messages that go, and what becomes of them."""
    for each in plan.dropped:
        summarised = list(overlaps(plan.summarised or (), each))
        yield from ((PAST["summarise"], part) for part in summarised)
        yield from ((PAST["drop"], part) for part in left_of(each, summarised) if part)


def _blocks(marker: Marker, plan: Plan) -> dict[str, list[int]]:
    """The changed blocks of messages that stay."""
    changes, message = plan.changes, plan.context.facts.block_message
    stay: Iterable[int] = changes
    if plan.dropped:
        stay = (row for row in changes if not plan.action_at(marker.position(message[row])))
    outcome = outcome_of(plan)
    # A change may be made when it is asked for: not to ask is fast.
    if len(outcome.results) == 1 and not outcome.others:
        rows = list(stay)
        return {DONE[verb]: rows for verb in outcome.results if rows}
    found: dict[str, list[int]] = {}
    for row in stay:
        found.setdefault(PAST[changes[row].action], []).append(row)
    return found
