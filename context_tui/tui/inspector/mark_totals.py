"""Totals of the marks in the whole context, each with the first and last message that has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.session.values import Kind
from context_tui.text.numbers import format_count
from context_tui.tui.inspector.outcome import compute_outcome
from context_tui.tui.timeline.marks import VERDICT_LABELS, VERDICT_PHRASES, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, TimelineRows
from context_tui.tui.timeline.turns import ACTION_VERBS, find_overlaps, subtract_ranges

MAX_MARKED_ROWS = 2_000
"""Maximum number of rows in a session whose protected rows are counted one by one."""
JUMP_KEYS = "< > go there"
OUTSIDE_LABELS = {"before": "outside", "after": "later"}
VERDICT_BY_VERB = {verb: ACTION_PAST_TENSE[action] for action, verb in ACTION_VERBS.items()}


@dataclass
class MarkTally:
    """A count of messages or blocks with the same mark, with the first and last message that has it."""

    noun: str
    count: int = 0
    first: int = -1
    last: int = -1

    def add(self, count: int, first: int, last: int) -> None:
        """Add *count* marks in the messages from *first* to *last*, inclusive."""
        self.count += count
        self.first, self.last = min(first, self.first if self.first >= 0 else first), max(last, self.last)

    def format_variants(self, name: str, short_name: str, keys: str = "") -> tuple[str, ...]:
        """Format the count with its message range, longest variant first; *keys* names keys that go to the marks."""
        places = f"#{self.first:,} to #{self.last:,}" if self.first != self.last else f"#{self.first:,}"
        long, short = f"{name}: {format_count(self.count, self.noun)}, {places}", f"{short_name} {self.count:,}"
        return (*([f"{long} ({keys})"] if keys else []), long, f"{short}, {places}", short)


def format_mark_totals(rows: TimelineRows, marker: RowMarker) -> dict[str, tuple[str, ...]]:
    """Return, keyed by verdict, variants of a text with the total of each mark that occurs, longest variant first."""
    context, totals = marker.context, dict[str, tuple[str, ...]]()
    for verdict, tally in _tally_changes(marker).items():
        name = VERDICT_PHRASES[verdict] if marker.plan else VERDICT_LABELS[verdict]
        totals[verdict] = tally.format_variants(name, VERDICT_LABELS[verdict], "" if totals else JUMP_KEYS)
    if marker.plan and len(rows) <= MAX_MARKED_ROWS:
        places = zip(rows.message, rows.block, strict=True)
        marks = Counter(marker.find_mark(*place).verdict for place in places if place[1] >= WHOLE_MESSAGE)
        for verdict in ("protected", "gone"):
            if count := marks[verdict]:
                label = VERDICT_LABELS[verdict]
                shortest = f"kept {count:,}" if verdict == "protected" else f"{label} {count:,}"
                totals[verdict] = f"{label}: {format_count(count, 'row')}", f"{label} {count:,}", shortest
    outside_counts = {"before": context.at - len(context), "after": len(rows.first) - context.at}
    for verdict, count in outside_counts.items():
        if count > 0:
            full = f"{VERDICT_LABELS[verdict]}: {format_count(count, 'message')}"
            totals[verdict] = full, VERDICT_LABELS[verdict], OUTSIDE_LABELS[verdict]
    return totals


def _tally_changes(marker: RowMarker) -> dict[str, MarkTally]:
    """Return, keyed by verdict, the counts of messages and blocks that the plan, or else the applied plan, changes."""
    plan, tallies, block_message = marker.plan, dict[str, MarkTally](), marker.context.facts.block_message
    if plan is None:
        for row, verdict in marker.applied_marks.items():
            tallies.setdefault(verdict, MarkTally("result")).add(1, block_message[row], block_message[row])
        return tallies
    for verdict, positions in _find_removed_positions(plan):
        # The messages do not ascend if a recorded compaction has inserted its summary before them.
        messages = [plan.context.order[position] for position in positions]
        tallies.setdefault(verdict, MarkTally("message")).add(len(messages), min(messages), max(messages))
    for verdict, rows in _group_changed_blocks(marker, plan).items():
        noun = "result" if all(plan.context.facts.kind[row] == Kind.TOOL_RESULT for row in rows) else "block"
        tally = tallies.setdefault(verdict, MarkTally(noun))
        tally.noun = noun if tally.noun == noun else "part"
        messages = [block_message[row] for row in rows]
        tally.add(len(rows), min(messages), max(messages))
    return tallies


def _find_removed_positions(plan: Plan) -> Iterator[tuple[str, range]]:
    for dropped in plan.dropped_ranges:
        summarised = list(find_overlaps(plan.summarised_ranges or (), dropped))
        yield from ((ACTION_PAST_TENSE["summarise"], positions) for positions in summarised)
        dropped_only = filter(None, subtract_ranges(dropped, summarised))
        yield from ((ACTION_PAST_TENSE["drop"], positions) for positions in dropped_only)


def _group_changed_blocks(marker: RowMarker, plan: Plan) -> dict[str, list[int]]:
    changes, message = plan.changes, plan.context.facts.block_message
    blocks: Iterable[int] = changes
    if plan.dropped_ranges:
        blocks = (row for row in changes if not plan.find_action(marker.find_position(message[row])))
    outcome = compute_outcome(plan)
    # Changes may be computed on access, which is not needed if all have the same action.
    if len(outcome.changed_results) == 1 and not outcome.other_blocks:
        rows = list(blocks)
        return {VERDICT_BY_VERB[verb]: rows for verb in outcome.changed_results if rows}
    groups: dict[str, list[int]] = {}
    for row in blocks:
        groups.setdefault(ACTION_PAST_TENSE[changes[row].action], []).append(row)
    return groups
