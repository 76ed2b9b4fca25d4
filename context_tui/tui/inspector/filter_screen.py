"""Dialog with the filters of the timeline, each with the number of rows that it would list.

The rows are counted in slices, so that long sessions do not block the screen.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from context_tui.compaction.plan import ACTION_PAST_TENSE, Plan
from context_tui.session.facts import Facts
from context_tui.text.numbers import format_count
from context_tui.tui.rendering.formatting import format_line
from context_tui.tui.terminal.cells import shorten, shorten_path
from context_tui.tui.terminal.themes import MUTED
from context_tui.tui.timeline import filters
from context_tui.tui.timeline.marks import VERDICT_GLYPHS, VERDICT_LABELS, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, TimelineRows
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.styled_text import Run, pad_runs

INITIAL_COUNT_S, COUNT_SLICE_S, COUNT_PAUSE_S = 0.02, 0.008, 0.01
"""Seconds of counting before the list is shown; seconds of a later slice, and of the pause after it for keys."""
LINE_WIDTH, COUNT_WIDTH = 48, 9
"""Cells of a choice, and of the number at its end."""
SURROUNDING_LINES = 8
"""Lines of the screen that the list cannot use: other lines of the dialog, and lines around the dialog."""

FilterChoice = tuple[str, str | int]


class FilterLine(NamedTuple):
    """A line in the filter dialog: a condition that can be chosen, or a heading if ``choice`` is None."""

    text: str
    choice: FilterChoice | None = None
    glyph: str = ""


def build_filter_lines(
    facts: Facts, current_filter: filters.RowFilter, verdicts: list[str], policy: str, *, applied: bool = False
) -> Iterator[FilterLine]:
    """Yield the headings and conditions of the dialog; *verdicts* are the verdicts that *policy* may give to rows."""
    yield FilterLine("everything", ("", ""))
    yield FilterLine("kind")
    yield from (FilterLine(filters.get_kind_label(kind), ("category", kind)) for kind in filters.ROW_KINDS)
    yield FilterLine(f"verdict by {policy}{', applied' if applied else ''}")
    for verdict in verdicts:
        yield FilterLine(filters.get_kind_label(verdict), ("verdict", verdict), VERDICT_GLYPHS.get(verdict, " "))
    if current_filter.in_context or not {"before", "after"}.isdisjoint(verdicts):
        yield FilterLine("place")
        yield FilterLine("in this context", ("in_context", True))
    yield FilterLine("size")
    yield from (FilterLine(f"{size:,} tokens or more", ("min_tokens", size)) for size in filters.SIZE_STEPS)
    if current_filter.path:
        yield FilterLine("file")
        yield FilterLine(shorten_path(current_filter.path, LINE_WIDTH - COUNT_WIDTH - 4), ("path", current_filter.path))
    tools = [tool for tool, _ in Counter(facts.tool).most_common() if tool >= 0]
    yield from [FilterLine("tool: calls and results")] if tools else []
    yield from (FilterLine(format_line(facts.tools[tool], 60), ("tool", facts.tools[tool])) for tool in tools)


def draw_filter_line(line: FilterLine, is_active: bool, count: int | None) -> list[Run]:
    """Draw a line in ``LINE_WIDTH`` cells with its row count, or ``…`` while *count* is None."""
    if line.choice is None:
        return [(f"{line.text} {'─' * (LINE_WIDTH - len(line.text) - 6)} rows", MUTED)]
    room = LINE_WIDTH - COUNT_WIDTH - 2
    name = f"{line.glyph} {line.text}" if line.glyph else line.text
    number = "…" if count is None else f"{count:,}"
    style = MUTED if count == 0 else "bold" if is_active else ""
    name_runs = pad_runs([(shorten(name, room), style)], room)
    return [("● " if is_active else "  ", "bold"), *name_runs, (f"{number:>{COUNT_WIDTH}}", style)]


SLICE_ROWS = 512


class FilterCounts:
    """Row counts grouped by the traits that filters test; ``counted_rows`` is the number of rows counted so far."""

    def __init__(self, rows: TimelineRows, marker: RowMarker, path: str = "") -> None:
        self.counted_rows = 0
        self._rows, self._marker, self._path = rows, marker, path
        self._next_row, self._row_count = 0, len(rows)
        self._counts_by_traits = Counter[filters.RowTraits]()

    def advance(self, seconds: float = inf) -> bool:
        """Count rows for about *seconds* seconds, and return whether all rows are counted."""
        until = time.perf_counter() + seconds
        while self._next_row < self._row_count:
            self._count_rows(range(self._next_row, min(self._next_row + SLICE_ROWS, self._row_count)))
            if time.perf_counter() >= until:
                break
        return self._next_row >= self._row_count

    def count_matching(self, row_filter: filters.RowFilter) -> int:
        """Return how many of the rows counted so far match *row_filter*."""
        tool = filters.find_tool_number(self._marker.context.facts, row_filter.tool) if row_filter.tool else -1
        return sum(count for traits, count in self._counts_by_traits.items() if row_filter.matches(traits, tool))

    def _count_rows(self, span: range) -> None:
        rows, marker, path, counts = self._rows, self._marker, self._path, self._counts_by_traits
        facts = marker.context.facts
        for row in span:
            message, block = rows.message[row], rows.block[row]
            if block >= WHOLE_MESSAGE:
                kinds, tools = filters.find_block_traits(facts, message, block, path)
                verdict = marker.find_mark(message, block).verdict
                size = bisect_right(filters.SIZE_STEPS, filters.count_shown_tokens(rows, marker, row))
                counts[filters.RowTraits(kinds, tools, verdict, filters.SIZE_STEPS[size - 1] if size else 0)] += 1
        self.counted_rows = sum(counts.values())
        self._next_row = span.stop


def find_possible_verdicts(marker: RowMarker, messages: int) -> list[str]:
    """Return the verdicts that rows may have under the marker's plan and context, in legend order."""
    plan, context = marker.plan, marker.context
    verdicts = {"kept"} | set(marker.applied_marks.values())
    if plan is not None:
        verdicts |= {"protected"} | {ACTION_PAST_TENSE[action] for action in _find_block_actions(marker, plan)}
        verdicts |= {"summarised"} if plan.dropped_ranges and plan.summarised_ranges else set()
        verdicts |= {"dropped"} if plan.dropped_ranges != plan.summarised_ranges else set()
        verdicts |= {"gone"} if context.replacements else set()
    verdicts |= {"before"} if len(context.order) < context.at else set()
    verdicts |= {"after"} if context.at < messages else set()
    return [verdict for verdict in (*VERDICT_LABELS, "kept") if verdict in verdicts]


def _find_block_actions(marker: RowMarker, plan: Plan) -> set[str]:
    if not plan.dropped_ranges:
        return {change.action for change in plan.changes.values()}
    owner = marker.context.facts.block_message
    blocks = (block for block in plan.changes if not plan.find_action(marker.find_position(owner[block])))
    return {plan.changes[block].action for block in blocks}


class FilterScreen(ModalScreen[FilterChoice | None]):
    """A dialog that returns the chosen condition as (kind, value), ("", "") to clear the filter, or None."""

    BINDINGS = read_bindings("filter")

    def __init__(self, lines: list[FilterLine], counts: FilterCounts, current_filter: filters.RowFilter) -> None:
        super().__init__()
        self._lines, self._counts, self._current_filter = lines, counts, current_filter
        self._is_counted = counts.advance(INITIAL_COUNT_S)

    def compose(self) -> ComposeResult:
        with Vertical(id="filters"):
            yield Label(self._build_title(), id="filters-title", markup=False)
            options = (Option(self._build_prompt(line), disabled=line.choice is None) for line in self._lines)
            yield OptionList(*options, id="filters-list", markup=False)
            yield Label("", id="filters-more", markup=False)
            yield Label("enter adds or takes away   esc closes", id="filters-keys", markup=False)

    def on_mount(self) -> None:
        self.watch(self.query_one(OptionList), "scroll_y", self._show_hidden_count, init=False)
        self._continue_counting()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(OptionList).styles.max_height = max(event.size.height - SURROUNDING_LINES, 3)
        self.call_after_refresh(self._show_hidden_count)

    def _continue_counting(self) -> None:
        if self._is_counted:
            return
        self._is_counted = self._counts.advance(COUNT_SLICE_S)
        if self._is_counted:
            listing = self.query_one(OptionList)
            for number, line in enumerate(self._lines):
                listing.replace_option_prompt_at_index(number, self._build_prompt(line))
            self.query_one("#filters-title", Label).update(self._build_title())
        else:
            self.set_timer(COUNT_PAUSE_S, self._continue_counting)

    def _build_title(self) -> Content:
        if not self._is_counted:
            return Content("Show only")
        total, count = self._counts.counted_rows, self._counts.count_matching(self._current_filter)
        share = f"{count:,} of" if self._current_filter else "all"
        text = f"{share} {format_count(total, 'row')} shown"
        return Content.assemble(("Show only", "bold"), (f"   {text}", MUTED))

    def _build_prompt(self, line: FilterLine) -> Content:
        return Content.assemble(*draw_filter_line(line, self._is_active(line.choice), self._count_rows(line.choice)))

    def _is_active(self, choice: FilterChoice | None) -> bool:
        if choice is None:
            return False
        kind, value = choice
        return getattr(self._current_filter, kind) == value if kind else not self._current_filter

    def _count_rows(self, choice: FilterChoice | None) -> int | None:
        if not self._is_counted or choice is None:
            return None
        if not choice[0]:
            return self._counts.count_matching(filters.NO_FILTER)
        if self._is_active(choice):
            return self._counts.count_matching(self._current_filter)
        return self._counts.count_matching(self._current_filter.toggle_condition(*choice))

    def _show_hidden_count(self) -> None:
        listing = self.query_one(OptionList)
        top, height = round(listing.scroll_offset.y), listing.scrollable_content_region.height
        above = sum(line.choice is not None for line in self._lines[:top])
        below = sum(line.choice is not None for line in self._lines[top + height :])
        parts = [f"↑ {above} more"] if above else []
        parts += [f"↓ {below} more"] if below else []
        self.query_one("#filters-more", Label).update(Content("   ".join(parts)))

    def action_move_in_list(self, action: str) -> None:
        getattr(self.query_one(OptionList), f"action_{action}")()

    @on(OptionList.OptionSelected)
    def handle_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the dialog with the chosen condition, or show a message if the filter would then list no row."""
        choice = self._lines[event.option_index].choice
        if choice and choice[0] and not self._is_active(choice) and self._count_rows(choice) == 0:
            suffix = " besides what is chosen" if self._current_filter else ""
            self.query_one("#filters-more", Label).update(Content(f"no row is that{suffix}"))
        else:
            self.dismiss(choice)
