"""Totals of each mark over the whole context, with their message numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.session.values import Kind
from context_tui.tui.inspector.outcome import compute_outcome
from context_tui.tui.rendering.formatting import pluralize
from context_tui.tui.timeline.marks import VERDICT_LABELS, VERDICT_PHRASES, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, TimelineRows
from context_tui.tui.timeline.turns import ACTION_VERBS, find_overlaps, subtract_ranges

MAX_MARKED_ROWS = 2_000
"""Maximum number of rows that are each tested for being kept as recent; policies have no totals of these."""
JUMP_KEYS = "< > go there"
OUTSIDE_LABELS = {"before": "outside", "after": "later"}
"""Word for messages that are not in the context."""
VERDICT_BY_VERB = {verb: ACTION_PAST_TENSE[action] for action, verb in ACTION_VERBS.items()}


@dataclass
class MarkTally:
    """Number of marked things, and the first and last message that has one."""

    noun: str
    count: int = 0
    first: int = -1
    last: int = -1

    def add(self, count: int, first: int, last: int) -> None:
        """Count another thing."""
        self.count += count
        self.first, self.last = min(first, self.first if self.first >= 0 else first), max(last, self.last)

    def format_variants(self, name: str, short_name: str, keys: str = "") -> tuple[str, ...]:
        """Format the count after a name, longest variant first."""
        places = f"#{self.first:,} to #{self.last:,}" if self.first != self.last else f"#{self.first:,}"
        long, short = f"{name}: {pluralize(self.count, self.noun)}, {places}", f"{short_name} {self.count:,}"
        return (*([f"{long} ({keys})"] if keys else []), long, f"{short}, {places}", short)


def format_mark_totals(rows: TimelineRows, marker: RowMarker) -> dict[str, tuple[str, ...]]:
    """Format the total of each mark that occurs, by verdict, longest variant first."""
    context, totals = marker.context, dict[str, tuple[str, ...]]()
    for word, tally in _tally_changes(marker).items():
        name = VERDICT_PHRASES[word] if marker.plan else VERDICT_LABELS[word]
        totals[word] = tally.format_variants(name, VERDICT_LABELS[word], "" if totals else JUMP_KEYS)
    if marker.plan and len(rows) <= MAX_MARKED_ROWS:
        places = zip(rows.message, rows.block, strict=True)
        marks = Counter(marker.find_mark(*place).verdict for place in places if place[1] >= WHOLE_MESSAGE)
        for word in ("protected", "gone"):
            if count := marks[word]:
                short = f"{VERDICT_LABELS[word]} {count:,}"
                full = f"{VERDICT_LABELS[word]}: {pluralize(count, 'row')}"
                totals[word] = full, short, short.replace(" as recent", "")
    outside = {"before": context.at - len(context), "after": len(rows.first) - context.at}
    for word, count in outside.items():
        if count > 0:
            full = f"{VERDICT_LABELS[word]}: {pluralize(count, 'message')}"
            totals[word] = full, VERDICT_LABELS[word], OUTSIDE_LABELS[word]
    return totals


def _tally_changes(marker: RowMarker) -> dict[str, MarkTally]:
    """Count the changes of the plan, or those that were made, by mark: removed messages and changed blocks."""
    plan, tallies = marker.plan, dict[str, MarkTally]()
    if plan is None:
        facts = marker.context.facts
        for row, word in marker.applied_marks.items():
            tallies.setdefault(word, MarkTally("result")).add(1, facts.block_message[row], facts.block_message[row])
        return tallies
    for word, positions in _find_removed_positions(plan):
        # Not in ascending order where a recorded compaction inserted its summary.
        messages = [plan.context.order[position] for position in positions]
        tallies.setdefault(word, MarkTally("message")).add(len(messages), min(messages), max(messages))
    for word, rows in _group_changed_blocks(marker, plan).items():
        kind, message = plan.context.facts.kind, plan.context.facts.block_message
        noun = "result" if all(kind[row] == Kind.TOOL_RESULT for row in rows) else "block"
        tally = tallies.setdefault(word, MarkTally(noun))
        tally.noun = noun if tally.noun == noun else "part"
        places = [message[row] for row in rows]
        tally.add(len(rows), min(places), max(places))
    return tallies


def _find_removed_positions(plan: Plan) -> Iterator[tuple[str, range]]:
    for each in plan.dropped_ranges:
        summarised = list(find_overlaps(plan.summarised_ranges or (), each))
        yield from ((ACTION_PAST_TENSE["summarise"], part) for part in summarised)
        yield from ((ACTION_PAST_TENSE["drop"], part) for part in subtract_ranges(each, summarised) if part)


def _group_changed_blocks(marker: RowMarker, plan: Plan) -> dict[str, list[int]]:
    changes, message = plan.changes, plan.context.facts.block_message
    blocks: Iterable[int] = changes
    if plan.dropped_ranges:
        blocks = (row for row in changes if not plan.find_action(marker.find_position(message[row])))
    outcome = compute_outcome(plan)
    # A change may be made when it is asked for: not to ask is fast.
    if len(outcome.changed_results) == 1 and not outcome.other_blocks:
        rows = list(blocks)
        return {VERDICT_BY_VERB[verb]: rows for verb in outcome.changed_results if rows}
    groups: dict[str, list[int]] = {}
    for row in blocks:
        groups.setdefault(ACTION_PAST_TENSE[changes[row].action], []).append(row)
    return groups
