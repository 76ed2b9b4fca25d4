"""Selection of the rows that the timeline lists, by filter, folded turns and order."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_tui.compaction.plan import ACTION_PAST_TENSE
from context_tui.session.facts import Facts
from context_tui.session.values import BlockFlag, Kind, Spans
from context_tui.text.files import read_toml
from context_tui.tokens.breakdown import categorize_block
from context_tui.tui.timeline.marks import VERDICT_LABELS, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, TimelineRows

ROW_KINDS = ("user", "assistant", "thinking", "tool_use", "tool_result", "error", "injected", "summary", "image")
"""Kinds of rows: categories of the breakdown, and ``error`` for results that are errors."""
KIND_LABELS: dict[str, str] = read_toml("context_tui.tui.timeline", "labels.toml")["kinds"]
"""Labels of kinds that differ from their names."""
SIZE_STEPS = (500, 1_000, 5_000, 20_000)
_KIND_BITS = {kind: 1 << number for number, kind in enumerate(ROW_KINDS)}


class RowTraits(NamedTuple):
    """The properties of a row that a filter tests; many rows have equal ones.

    ``kinds`` has a bit for each kind. ``tools`` holds the numbers of the tools that the row calls or is a result of, if
    the calls read the filter's path. ``tokens`` is the row's size, or the largest of ``SIZE_STEPS`` that it reaches.
    """

    kinds: int
    tools: tuple[int, ...]
    verdict: str
    tokens: int

    @property
    def in_context(self) -> bool:
        """Whether the row is in the context at the planning point."""
        return self.verdict not in ("before", "after")


@dataclass(frozen=True)
class RowFilter:
    """A set of conditions that a row must meet to be listed; empty values set no condition.

    ``category`` is one of ``ROW_KINDS``, ``verdict`` one of a row mark's verdicts, and ``path`` a file that was read.
    With ``in_context``, the row must be in the context.
    """

    category: str = ""
    tool: str = ""
    path: str = ""
    verdict: str = ""
    min_tokens: int = 0
    in_context: bool = False

    def __bool__(self) -> bool:
        return self != NO_FILTER

    def matches(self, row: RowTraits, tool_number: int) -> bool:
        """Return whether a row meets every condition; *tool_number* is the number of the tool named in the filter."""
        return (
            row.tokens >= self.min_tokens
            and (not self.in_context or row.in_context)
            and (not self.category or bool(row.kinds & _KIND_BITS.get(self.category, 0)))
            and (not self.path or bool(row.tools))
            and (not self.tool or tool_number in row.tools)
            and (not self.verdict or row.verdict == self.verdict)
        )

    def toggle_condition(self, kind: str, value: str | int) -> RowFilter:
        """Return a filter whose condition *kind* is set to *value*, or is unset if it was *value* before."""
        empty = getattr(NO_FILTER, kind)
        return replace(self, **{kind: empty if getattr(self, kind) == value else value})  # type: ignore[arg-type]

    def toggle_part(self, kind: str, value: str) -> RowFilter:
        """Return a filter for one part of the context, or the empty filter if this filter is that one already."""
        part_filter = build_part_filter(kind, value)
        return NO_FILTER if self == part_filter else part_filter

    def describe(self) -> str:
        """Return the conditions as text, separated by commas, or "" if no condition is set."""
        conditions = [get_kind_label(self.category)] if self.category else []
        conditions += [self.tool] if self.tool else []
        conditions += [self.path] if self.path else []
        conditions += [get_kind_label(self.verdict)] if self.verdict else []
        conditions += [f"{self.min_tokens:,} tokens or more"] if self.min_tokens else []
        conditions += ["in context"] if self.in_context else []
        return ", ".join(conditions)

    def format_no_match(self, policy: str) -> str:
        """Format the message that no row matches; it names *policy* if the filter tests a verdict."""
        suffix = f" by {policy}" if self.verdict else ""
        return f"No rows match: {self.describe()}{suffix}; f changes it, esc shows all"


NO_FILTER = RowFilter()


def build_part_filter(kind: str, value: str) -> RowFilter:
    """Return a filter for the rows in context whose *kind* (``category``, ``tool`` or ``path``) is *value*."""
    return NO_FILTER.toggle_condition(kind, value).toggle_condition("in_context", True)


def get_kind_label(name: str) -> str:
    """Return the label of a row kind or verdict; by default, its name with spaces for underscores."""
    return KIND_LABELS.get(name) or VERDICT_LABELS.get(name) or name.replace("_", " ")


def find_tool_number(facts: Facts, tool: str) -> int:
    """Return the number of a tool in the session, or -2, which no row has, if the session has no such tool."""
    return facts.tools.index(tool) if tool in facts.tools else -2


def find_row_traits(rows: TimelineRows, marker: RowMarker, row: int, row_filter: RowFilter) -> RowTraits:
    """Return the traits of a row that *row_filter* tests, except its place in the context; other traits are empty."""
    message, block = rows.message[row], rows.block[row]
    tests_blocks = row_filter.category or row_filter.tool or row_filter.path
    traits = find_block_traits(marker.context.facts, message, block, row_filter.path) if tests_blocks else (0, ())
    verdict = marker.find_mark(message, block).verdict if row_filter.verdict else ""
    return RowTraits(*traits, verdict, count_shown_tokens(rows, marker, row) if row_filter.min_tokens else 0)


def find_block_traits(facts: Facts, message: int, block: int, path: str = "") -> tuple[int, tuple[int, ...]]:
    """Return a row's kinds, as bits, and the tools of its calls or of its result, if the calls read *path*.

    A negative *block* stands for the message without its results.
    """
    if block >= 0:
        kinds = _KIND_BITS[categorize_block(facts, message, block)]
        if facts.block_flags[block] & BlockFlag.ERROR and facts.kind[block] == Kind.TOOL_RESULT:
            kinds |= _KIND_BITS["error"]
        return kinds, (facts.tool[block],) if facts.call[block] >= 0 and _reads_path(facts, block, path) else ()
    kinds, tools, kind = 0, list[int](), facts.kind
    for row in facts.blocks_of(message):
        if kind[row] != Kind.TOOL_RESULT:
            kinds |= _KIND_BITS[categorize_block(facts, message, row)]
            if kind[row] == Kind.TOOL_USE and facts.call[row] >= 0 and _reads_path(facts, row, path):
                tools.append(facts.tool[row])
    return kinds, tuple(tools)


def _reads_path(facts: Facts, block: int, path: str) -> bool:
    if not path:
        return True
    call = facts.find_tool_use(block) if facts.kind[block] == Kind.TOOL_RESULT else block
    return call >= 0 and facts.path[call] >= 0 and facts.paths[facts.path[call]] == path


@dataclass(frozen=True)
class TurnFolds:
    """The folded turns: those in ``turns`` or, if ``inverted``, all but those, including turns that are read later."""

    turns: frozenset[int] = frozenset()
    inverted: bool = False

    def __bool__(self) -> bool:
        return bool(self.turns) or self.inverted

    def __contains__(self, turn: int) -> bool:
        return (turn in self.turns) != self.inverted

    def toggle(self, turn: int) -> TurnFolds:
        """Return folds in which the turn is open if it was folded, and folded if it was open."""
        return replace(self, turns=self.turns ^ {turn})

    def unfold(self, turn: int) -> TurnFolds:
        """Return folds in which the turn is open."""
        return self.toggle(turn) if turn in self else self


NO_FOLDS, ALL_FOLDED = TurnFolds(), TurnFolds(inverted=True)


def list_rows(
    rows: TimelineRows, marker: RowMarker, row_filter: RowFilter, by_size: bool, folds: TurnFolds = NO_FOLDS
) -> Sequence[int]:
    """Return the numbers of the rows to list, in list order.

    A filter or sorting by size leaves out turn headings and ignores folds; sorting also leaves out rows not in context.
    """
    if not row_filter and not by_size:
        return fold_rows(rows, folds) if folds else range(len(rows))
    tool = find_tool_number(marker.context.facts, row_filter.tool) if row_filter.tool else -1
    candidates = (row for row in _find_candidates(rows, marker, row_filter) if rows.block[row] >= WHOLE_MESSAGE)
    if by_size or row_filter.in_context:
        candidates = (row for row in candidates if marker.find_position(rows.message[row]) >= 0)
    traits = ((row, find_row_traits(rows, marker, row, row_filter)) for row in candidates)
    listed_rows = [row for row, each in traits if row_filter.matches(each, tool)]
    if by_size:
        listed_rows.sort(key=lambda row: (-count_shown_tokens(rows, marker, row), row))
    return array("l", listed_rows)


def is_listed(listed_rows: Sequence[int], row: int) -> bool:
    """Return whether a row is in the list, or would be if its turn were not folded."""
    return not isinstance(listed_rows, array) or row in listed_rows


def fold_rows(rows: TimelineRows, folds: TurnFolds) -> Spans:
    """Return the visible rows; of a folded turn, the heading and the events that begin a new context."""
    context_starts = [row for row, event in rows.iterate_event_rows() if event.begins_context]
    spans: list[range] = [range(rows.heads[0])] if rows.heads else []
    for turn in range(len(rows.heads)):
        span = rows.get_turn_rows(turn)
        if rows.get_turn_number(turn) in folds:
            first, stop = bisect_left(context_starts, span.start), bisect_left(context_starts, span.stop)
            event_rows = context_starts[first:stop]
            spans += [range(row, row + 1) for row in (span.start, *event_rows)]
        elif spans and spans[-1].stop == span.start:
            spans[-1] = range(spans[-1].start, span.stop)
        else:
            spans.append(span)
    return Spans(*spans)


def find_line(listed_rows: Sequence[int], row: int) -> int:
    """Return the line of *row* or, if it is not listed, of the nearest row; in a folded turn, of the row above."""
    if not isinstance(listed_rows, array):
        return max(bisect_right(listed_rows, row) - 1, 0)
    if row in listed_rows:
        return listed_rows.index(row)
    # The rows may be sorted by size; of two that are equally near, the later one belongs to the head of a turn.
    lines = range(len(listed_rows))
    return min(lines, key=lambda line: (abs(listed_rows[line] - row), listed_rows[line] < row), default=0)


def _find_candidates(rows: TimelineRows, marker: RowMarker, row_filter: RowFilter) -> list[int] | range:
    """Return the rows that can match: all, or only the changed ones if the filter tests for a kind of change."""
    plan = marker.plan
    if plan and row_filter.verdict in ACTION_PAST_TENSE.values() and not plan.dropped_ranges:
        facts = plan.context.facts
        blocks = [b for b, change in plan.changes.items() if ACTION_PAST_TENSE[change.action] == row_filter.verdict]
        places = ((facts.block_message[b], b if facts.kind[b] == Kind.TOOL_RESULT else WHOLE_MESSAGE) for b in blocks)
        return sorted({rows.find_row(message, block) for message, block in places})
    return range(len(rows))


def count_shown_tokens(rows: TimelineRows, marker: RowMarker, row: int) -> int:
    """Return the tokens of a row as it is in the context or, outside of it, as it was recorded."""
    block, context, table = rows.block[row], marker.context, rows.token_table
    if block >= 0 and block in context.replacements and marker.find_position(rows.message[row]) >= 0:
        return table.count_block_tokens(context, block) if table else context.replacements[block].tokens
    return rows.tokens[row]
