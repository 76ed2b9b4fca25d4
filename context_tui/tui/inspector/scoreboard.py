"""Scoreboard of the policies: whether each would fire now, its effect, and the size of the next request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from textual import events
from textual.geometry import Size

from context_tui.compaction.next_request import NextRequest
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.policies.registry import POLICIES
from context_tui.text.numbers import format_tokens
from context_tui.tokens.measures import TokenTable
from context_tui.tui.inspector.outcome import (
    compute_outcome,
    format_effect,
    format_limit,
    format_planned_effect,
    format_size_change,
)
from context_tui.tui.rendering.columns import ColumnFitter
from context_tui.tui.rendering.formatting import format_estimate_sign
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.bindings import MAX_POLICY_DIGIT, read_bindings
from context_tui.tui.widgets.styled_text import LinesPane, Run, count_cells, format_bar, pad_runs, set_background

SHARE_WIDTH = 7
"""Cells of the saved share, with the gap before it."""
MAX_NAME_WIDTH = 24
MAX_BAR_WIDTH = 30
"""Cells of the bar of the remaining size, with the gap before it."""
MIN_EFFECT_WIDTH = 27


class ScoreRow(NamedTuple):
    """A line on the scoreboard for one policy; if it has no plan, ``plan_error`` gives the reason.

    ``runs`` tells whether the policy would fire now, or is None for a manual plan or no plan. ``limit`` is the size or
    time at which it would fire, and ``changes`` tells whether its plan does anything.
    """

    policy: str
    runs: bool | None = None
    limit: str = ""
    effect: str = "changes nothing"
    changes: bool = False
    request: NextRequest | None = None
    plan_error: str = ""

    @property
    def run_label(self) -> str:
        """Text on whether the policy would fire now, such as ``no (at 112k)``, or "" if it has no plan."""
        if self.runs is None:
            return "by hand" if self.request else ""
        return "yes" if self.runs else f"no ({self.limit})" if self.limit else "no"


def build_score_row(plan: Plan, token_table: TokenTable | None = None) -> ScoreRow:
    """Build a policy's line from its plan; *token_table* or else its own estimator measures the next request."""
    outcome, trigger = compute_outcome(plan, token_table), plan.trigger
    runs = None if trigger.by_hand else trigger.fires
    limit, changes = "" if runs else format_limit(trigger), bool(format_effect(outcome))
    effect = format_planned_effect(plan) if changes else outcome.reason or "changes nothing"
    return ScoreRow(plan.policy, runs, limit, effect, changes, outcome.request)


def build_score_rows(
    policies: Iterable[str], try_plan: Callable[[str], Plan | PlanError], token_table: TokenTable | None = None
) -> list[ScoreRow]:
    """Build a line for each of *policies* from the plan or the error that *try_plan* returns for it."""
    plans = ((policy, try_plan(policy)) for policy in policies)
    return [
        ScoreRow(policy, plan_error=str(plan)) if isinstance(plan, PlanError) else build_score_row(plan, token_table)
        for policy, plan in plans
    ]


def _format_size_before(request: NextRequest | None) -> str:
    return f"{format_estimate_sign(request)}{format_tokens(request.tokens_before)}" if request else ""


def _format_size_after(row: ScoreRow) -> str:
    return f"~{format_tokens(row.request.tokens_after)}" if row.request and row.changes else ""


RUNS_HEADING, EFFECT_HEADING = "would it fire", "what it would do"
REQUEST_HEADING, REMAINING_HEADING = "next request", "what is left"
SIZE_ARROW = " → "
_NOUNS_PATTERN = re.compile(r" (?:results?|messages?)\b")
"""Nouns of an effect that are left out if there is no room."""
SUMMARY_SUFFIX, SHORT_SUMMARY_SUFFIX = " + summary", "+"
"""Suffix of a size to which a summary of unknown size is added."""


def fit_score_columns(rows: Sequence[ScoreRow], width: int) -> ColumnFitter:
    """Return the column widths, gaps included; the bar, the effect and the size before the plan are dropped first."""
    name = min(max(len("policy"), *(len(row.policy) for row in rows)), MAX_NAME_WIDTH) if rows else 0
    fitter = ColumnFitter(width, 3 + SHARE_WIDTH)
    fitter.reserve("name", name)
    has_pending = any(row.request and row.request.summary_pending for row in rows)
    fitter.fit("runs", 5)
    fitter.fit("after", max([6, *(len(_format_size_after(row)) for row in rows)]) + len(SIZE_ARROW))
    fitter.fit("waits", len(SHORT_SUMMARY_SUFFIX) if has_pending else 0)
    fitter.fit("before", max([6, *(len(_format_size_before(row.request)) for row in rows)]) + 2)
    fitter.fit("runs", max([len(RUNS_HEADING), *(len(row.run_label) for row in rows)]) + 2)
    longest = max([len(EFFECT_HEADING), *(len(row.effect) for row in rows)]) + 2
    min_effect = min(longest, MIN_EFFECT_WIDTH)
    has_effect = fitter.fit("would", min_effect)
    fitter.fit("waits", len(SUMMARY_SUFFIX) if has_pending else 0)
    if has_effect:
        fitter.fit("would", min_effect, longest)
        fitter.fit("bar", len(REMAINING_HEADING) + 2, MAX_BAR_WIDTH)
    return fitter


def format_score_heading(columns: ColumnFitter, width: int, measure_label: str = "") -> list[Run]:
    """Format the column headings; *measure_label* names the token measure, or is "" if each policy uses its own."""
    text = "   " + "policy".ljust(columns["name"])
    if columns["runs"]:
        text += f"  {RUNS_HEADING if columns['runs'] >= len(RUNS_HEADING) + 2 else 'now'}".ljust(columns["runs"])
    if columns["would"]:
        text += f"  {EFFECT_HEADING}".ljust(columns["would"])
    room = columns["before"] + columns["after"] + columns["waits"] + SHARE_WIDTH
    headings = [REQUEST_HEADING, "next"]
    if measure_label:
        headings = [f"{REQUEST_HEADING}, {measure_label}", f"next, {measure_label}", f"next {measure_label}", "next"]
    head = choose_form(headings, room - 2)
    text += f"  {head}"
    if columns["bar"]:
        text += f"  {REMAINING_HEADING}".rjust(room - len(head) + len(REMAINING_HEADING))
    return pad_runs([(text, MUTED)], width)


def format_score_line(number: int, row: ScoreRow, is_current: bool, columns: ColumnFitter, width: int) -> list[Run]:
    """Format one line in *width* cells; *number* is the policy's position on the scoreboard, starting at 1."""
    digit = str(number) if number <= MAX_POLICY_DIGIT else ""
    runs: list[Run] = [("▸" if is_current else " ", f"bold {PRIMARY}"), (f"{digit:<2}", BOLD if is_current else MUTED)]
    runs.append((shorten(row.policy, columns["name"]).ljust(columns["name"]), BOLD if is_current else ""))
    if row.plan_error:
        error = shorten_at_word(row.plan_error.removeprefix(f"{row.policy}: "), width - count_cells(runs) - 2)
        return pad_runs([*runs, ("  ", ""), (error, BAD)], width)
    quiet = "" if row.changes else MUTED
    if columns["runs"]:
        text = row.run_label if columns["runs"] > 5 else {True: "yes", False: "no", None: "–"}[row.runs]
        runs.append((f"  {text}".ljust(columns["runs"]), f"bold {GOOD}" if row.runs else MUTED))
    if columns["would"]:
        fits = len(row.effect) + 2 <= columns["would"]
        text = row.effect if fits or not row.changes else _NOUNS_PATTERN.sub("", row.effect)
        text = shorten_at_word(text, columns["would"] - 2)
        runs += pad_runs([("  ", ""), (text, quiet)], columns["would"])
    if columns["before"]:
        runs.append((_format_size_before(row.request).rjust(columns["before"]), quiet))
    if columns["after"]:
        arrow = SIZE_ARROW if columns["before"] and row.changes else " " * len(SIZE_ARROW)
        suffix = SUMMARY_SUFFIX if columns["waits"] > len(SHORT_SUMMARY_SUFFIX) else SHORT_SUMMARY_SUFFIX
        summary = suffix if columns["waits"] and row.request and row.request.summary_pending else ""
        size_width = columns["after"] - len(SIZE_ARROW) + columns["waits"]
        runs += [(arrow, ""), *pad_runs([(_format_size_after(row), BOLD), (summary, MUTED)], size_width)]
    request = row.request
    if request is None or not row.changes:
        return pad_runs([*runs, ("–".rjust(SHARE_WIDTH), MUTED)], width)
    runs.append((format_size_change(request).rjust(SHARE_WIDTH), GOOD if request.saved_share else WARN))
    if columns["bar"] and request.tokens_before:
        remaining, removed = format_bar(1 - request.saved_share, columns["bar"] - 2, "━", "─")
        runs += [("  ", ""), (remaining, PRIMARY if is_current else BOLD), (removed, MUTED)]
    return pad_runs(runs, width)


def format_policy_title(name: str, number: int, width: int) -> str:
    """Format a policy's title in *width* cells: the number key that chooses it, its name and its description."""
    policy = POLICIES[name]
    digit = f"{number} " if number <= MAX_POLICY_DIGIT else ""
    origin, _, effect = policy.about.partition(": ")
    forms = [f"{digit}{name}   {policy.about}", f"{digit}{name}   {origin}"]
    if policy.runtime:
        rule = name.removeprefix(f"{policy.runtime}-")
        longest = f'{digit}{name}   {rule} as in the runtime "{policy.runtime}": {effect}'
        forms = [longest, f"{digit}{policy.runtime}'s {rule}: {effect}"]
    return shorten_at_word(choose_form(forms, width), width)


class Scoreboard(LinesPane, can_focus=True):
    """A table of policies with what each would do now; a digit, an arrow or a click chooses one."""

    DEFAULT_CSS = "Scoreboard { height: auto; padding: 0; }"
    BINDINGS = read_bindings("scoreboard")

    def __init__(self, choose: Callable[[str], object], *, id: str | None = None) -> None:
        """Create a scoreboard; *choose* receives a policy's name as soon as the user chooses that policy."""
        super().__init__(self._draw_rows, id=id)
        self._choose_policy = choose
        self.rows: Sequence[ScoreRow] = ()
        self.current = self.measure_label = ""

    def show(self, rows: Sequence[ScoreRow], current: str, measure_label: str = "") -> None:
        """Show *rows*, with the policy named *current* marked; *measure_label* goes into the heading."""
        if rows != self.rows or current != self.current or measure_label != self.measure_label:
            layout = len(rows) != len(self.rows)
            self.rows, self.current, self.measure_label = list(rows), current, measure_label
            self.refresh(layout=layout)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows) + 2

    @property
    def _visible_row_count(self) -> int:
        return max(self.content_size.height - 1, 1)

    @property
    def _first_visible_row(self) -> int:
        current = next((number for number, row in enumerate(self.rows) if row.policy == self.current), 0)
        return max(current - self._visible_row_count + 1, 0)

    def _draw_rows(self, width: int, height: int) -> list[list[Run]]:
        columns = fit_score_columns(self.rows, width)
        lines = [format_score_heading(columns, width, self.measure_label)]
        first = self._first_visible_row
        for number, row in enumerate(self.rows[first : first + self._visible_row_count], first):
            current = row.policy == self.current
            runs = format_score_line(number + 1, row, current, columns, width)
            lines.append(set_background(runs) if current else runs)
        if len(lines) < height:
            lines.append([(f"   P: all {len(POLICIES)} policies", MUTED)])
        return lines

    def action_choose(self, rows: int) -> None:
        if names := [row.policy for row in self.rows]:
            at = names.index(self.current) if self.current in names else 0
            self._choose_number(min(max(at + rows, 0), len(names) - 1))

    def on_key(self, event: events.Key) -> None:
        digit = int(event.character) if event.character and event.character.isdecimal() else 0
        if 1 <= digit <= min(len(self.rows), MAX_POLICY_DIGIT):
            event.stop()
            self._choose_number(digit - 1)

    def on_click(self, event: events.Click) -> None:
        number = event.y - self.gutter.top - 1 + self._first_visible_row
        if self._first_visible_row <= number < len(self.rows):
            self._choose_number(number)

    def _choose_number(self, number: int) -> None:
        if self.rows[number].policy != self.current:
            self.current = self.rows[number].policy
            self.refresh()
            self._choose_policy(self.current)
