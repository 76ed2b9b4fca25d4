"""Policies at their settings, one row each: would it run, what would it do, what would the next request be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from context_tui.compaction.next_request import NextRequest
from context_tui.compaction.plan import Plan
from context_tui.policies.registry import LISTED_POLICIES, POLICIES
from context_tui.text.numbers import format_tokens
from context_tui.tokens.measures import TokenTable
from context_tui.tui.numbers import format_estimate_sign
from context_tui.tui.widgets.draw import (
    BAD,
    BOLD,
    GOOD,
    HUE,
    MUTED,
    WARN,
    Run,
    bar,
    cells,
    content,
    on,
    pad,
    short,
    short_words,
)
from context_tui.tui.widgets.outcome import does, less, limit_words, outcome_of, would_do

SHARE = 7
"""Cells of the share that would be gone, with the gap before it."""
MOST_NAME = 24
"""Cells that a name has at most."""
LEAST_WORDS = 27
"""Cells from which on there is room to say what a policy would do."""
DIGITS = 9
"""How many policies a digit chooses; those beyond are chosen by arrows, clicks or in the command palette."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A policy's line; ``trouble`` says why there is no plan.

    ``runs`` is None where that means nothing (by hand) or is not known yet; ``limit`` is, in words, at what a policy
    would run that does not, ``would`` what it would do; ``changes`` says whether that is anything.
    """

    policy: str
    runs: bool | None = None
    limit: str = ""
    would: str = "changes nothing"
    changes: bool = False
    request: NextRequest | None = None
    trouble: str = ""

    @property
    def run_words(self) -> str:
        """Whether its runtime would run it here."""
        if self.runs is None:
            return "by hand" if self.request else ""
        return "yes" if self.runs else f"no ({self.limit})" if self.limit else "no"


def score_row(plan: Plan, sizes: TokenTable | None = None) -> ScoreRow:
    """The line of a plan, the next request by a ruler or the policy's own; what it counts is kept with the plan."""
    outcome, trigger = outcome_of(plan, sizes), plan.trigger
    runs = None if trigger.by_hand else trigger.fires
    limit, changes = "" if runs else limit_words(trigger), bool(does(outcome))
    would = would_do(plan) if changes else outcome.reason or "changes nothing"
    return ScoreRow(plan.policy, runs, limit, would, changes, outcome.request)


def score_rows(
    plan_of: Callable[[str], Plan | None],
    trouble_of: Callable[[str], str] = lambda policy: "no plan",
    sizes: TokenTable | None = None,
    chosen: str = "",
) -> list[ScoreRow]:
    """A line for every policy that is shown, and for the *chosen* one, from what *plan_of* has for its name.

    ``View.plan_of`` keeps the plans of policies that were not changed, so that a new setting costs one plan.
    """
    rows = []
    for policy in LISTED_POLICIES.list_names_with(chosen):
        plan = plan_of(policy)
        rows.append(score_row(plan, sizes) if plan else ScoreRow(policy, trouble=trouble_of(policy)))
    return rows


def _before(request: NextRequest | None) -> str:
    return f"{format_estimate_sign(request)}{format_tokens(request.tokens_before)}" if request else ""


def _after(row: ScoreRow) -> str:
    return f"~{format_tokens(row.request.tokens_after)}" if row.request and row.changes else ""


@dataclass(frozen=True)
class Columns:
    """Cells of the columns, each with the gap before it; those that are 0 are left out."""

    name: int
    runs: int
    would: int
    before: int
    after: int
    waits: int
    bar: int


RUNS, WOULD, NEXT, LEFT = "would it run", "what it would do", "next request", "what is left"
ARROW = " → "
_NOUNS = re.compile(r" (?:results?|messages?)\b")
"""What is left out where it is narrow: each verb has one of them."""
SUMMARY, SUMMARY_SHORT = " + summary", "+"
"""What follows a size to which a summary of unknown size comes."""


def columns_for(rows: Sequence[ScoreRow], width: int) -> Columns:
    """Columns for *width* cells; where it is narrow, first the bars go, then what a policy would do, then how large the
    request is without it. Name, whether it would run and what the next request would be stay longest.
    """
    name = min(max(len("policy"), *(len(row.policy) for row in rows)), MOST_NAME) if rows else 0
    room = width - 3 - name - SHARE
    taken: dict[str, int] = {}

    def take(column: str, cells: int) -> None:
        """Give a column so many cells, where there is that much more room."""
        nonlocal room
        if cells and room >= cells - taken.get(column, 0):
            room -= cells - taken.get(column, 0)
            taken[column] = cells

    waits = any(row.request and row.request.summary_pending for row in rows)
    take("runs", 5)
    take("after", max([6, *(len(_after(row)) for row in rows)]) + len(ARROW))
    take("waits", len(SUMMARY_SHORT) if waits else 0)
    take("before", max([6, *(len(_before(row.request)) for row in rows)]) + 2)
    take("runs", max([len(RUNS), *(len(row.run_words) for row in rows)]) + 2)
    longest = max([len(WOULD), *(len(row.would) for row in rows)]) + 2
    words = room >= min(longest, LEAST_WORDS)
    if not words or room >= min(longest, LEAST_WORDS) + len(SUMMARY) - 1:
        take("waits", len(SUMMARY) if waits else 0)
    take("would", min(longest, room) if words else 0)
    take("bar", min(room, 30) if words and room >= len(LEFT) + 2 else 0)
    return Columns(name, **{each: taken.get(each, 0) for each in ("runs", "would", "before", "after", "waits", "bar")})


def heading(columns: Columns, width: int, by: str = "") -> list[Run]:
    """What stands in the columns; *by* is the ruler of the next request, where it is not the policies' own."""
    words = "   " + "policy".ljust(columns.name)
    if columns.runs:
        words += f"  {RUNS if columns.runs >= len(RUNS) + 2 else 'run'}".ljust(columns.runs)
    if columns.would:
        words += f"  {WOULD}".ljust(columns.would)
    room = columns.before + columns.after + columns.waits + SHARE
    named = (f"{NEXT}, {by}", f"next, {by}", f"next {by}") if by else (NEXT,)
    head = next((each for each in named if room >= len(each) + 2), "next")
    words += f"  {head}"
    return pad([(words + f"  {LEFT}".rjust(room - len(head) + len(LEFT)) if columns.bar else words, MUTED)], width)


def score_line(number: int, row: ScoreRow, current: bool, columns: Columns, width: int) -> list[Run]:
    """The line of the *number*-th policy in *width* cells; a digit stands before those that one chooses."""
    digit = str(number) if number <= DIGITS else ""
    runs: list[Run] = [("▸" if current else " ", f"bold {HUE}"), (f"{digit:<2}", BOLD if current else MUTED)]
    runs.append((short(row.policy, columns.name).ljust(columns.name), BOLD if current else ""))
    if row.trouble:
        return pad(
            [
                *runs,
                ("  ", ""),
                (short_words(row.trouble.removeprefix(f"{row.policy}: "), width - cells(runs) - 2), BAD),
            ],
            width,
        )
    quiet = "" if row.changes else MUTED
    if columns.runs:
        words = row.run_words if columns.runs > 5 else {True: "yes", False: "no", None: "–"}[row.runs]
        runs.append((f"  {words}".ljust(columns.runs), f"bold {GOOD}" if row.runs else MUTED))
    if columns.would:
        fits = len(row.would) + 2 <= columns.would
        words = row.would if fits or not row.changes else _NOUNS.sub("", row.would)
        words = short_words(words, columns.would - 2)
        runs += pad([("  ", ""), (words, quiet)], columns.would)
    if columns.before:
        runs.append((_before(row.request).rjust(columns.before), quiet))
    if columns.after:
        arrow = ARROW if columns.before and row.changes else " " * len(ARROW)
        runs += [(arrow, ""), (_after(row).ljust(columns.after - len(ARROW)), BOLD)]
    request = row.request
    if columns.waits:
        mark = SUMMARY if columns.waits > len(SUMMARY_SHORT) else SUMMARY_SHORT
        runs.append(((mark if request and request.summary_pending else "").ljust(columns.waits), MUTED))
    if request is None or not row.changes:
        return pad([*runs, ("–".rjust(SHARE), MUTED)], width)
    runs.append((less(request).rjust(SHARE), GOOD if request.saved_share else WARN))
    if columns.bar and request.tokens_before:
        left, gone = bar(1 - request.saved_share, columns.bar - 2, "━", "─")
        runs += [("  ", ""), (left, HUE if current else BOLD), (gone, MUTED)]
    return pad(runs, width)


def policy_title(name: str, width: int) -> str:
    """A policy in *width* cells: its number, its name, whose rule it is and what that does."""
    policy, number = POLICIES[name], LISTED_POLICIES.list_names_with(name).index(name) + 1
    digit = f"{number} " if number <= DIGITS else ""
    whose, _, what = policy.about.partition(": ")
    forms = [f"{digit}{name}   {policy.about}", f"{digit}{name}   {whose}"]
    if policy.runtime:
        rule = name.removeprefix(f"{policy.runtime}-")
        whole = f'{digit}{name}   {rule} as in the runtime "{policy.runtime}": {what}'
        forms = [whole, f"{digit}{policy.runtime}'s {rule}: {what}"]
    return next((form for form in forms if len(form) <= width), short_words(forms[-1], width))


class Scoreboard(Widget, can_focus=True):
    """The policies to choose from, by digit, arrow or click."""

    DEFAULT_CSS = "Scoreboard { height: auto; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "choose(-1)", "Policy above", show=False, id="score-up", tooltip="Policy above"),
        Binding("down,j", "choose(1)", "Policy below", show=False, id="score-down", tooltip="Policy below"),
    ]

    def __init__(self, choose: Callable[[str], object], *, ascii: bool = False, id: str | None = None) -> None:
        """A scoreboard that hands on the name of the policy that is chosen, before the key press ends."""
        super().__init__(id=id)
        self._choose_policy = choose
        self.ascii = ascii
        self.rows: Sequence[ScoreRow] = ()
        self.current = self.by = ""

    def show(self, rows: Sequence[ScoreRow], current: str, by: str = "") -> None:
        """Show these lines, with the policy *current* marked; *by* is the ruler, where it is not the policies' own."""
        if rows != self.rows or current != self.current or by != self.by:
            layout = len(rows) != len(self.rows)
            self.rows, self.current, self.by = list(rows), current, by
            self.refresh(layout=layout)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The heading, and a line for each policy."""
        return len(self.rows) + 1

    @property
    def _room(self) -> int:
        """How many lines there is room for below the heading."""
        return max(self.content_size.height - 1, 1)

    @property
    def _first(self) -> int:
        """The first line in sight, so that the current one is."""
        current = next((number for number, row in enumerate(self.rows) if row.policy == self.current), 0)
        return max(current - self._room + 1, 0)

    def render(self) -> Content:
        """The lines, the current one on a ground of its own."""
        width = self.content_size.width
        columns = columns_for(self.rows, width)
        lines = [content(heading(columns, width, self.by), self.ascii)]
        first = self._first
        for number, row in enumerate(self.rows[first : first + self._room], first):
            current = row.policy == self.current
            runs = score_line(number + 1, row, current, columns, width)
            lines.append(content(on(runs) if current else runs, self.ascii))
        return Content("\n").join(lines)

    def action_choose(self, rows: int) -> None:
        """Choose a policy further up or down."""
        names = [row.policy for row in self.rows]
        if names:
            at = names.index(self.current) if self.current in names else 0
            self._choose(min(max(at + rows, 0), len(names) - 1))

    def on_key(self, event: events.Key) -> None:
        """Digits choose the first nine."""
        if (event.character or "").isdecimal() and 1 <= int(event.character or "0") <= min(len(self.rows), DIGITS):
            event.stop()
            self._choose(int(event.character or "0") - 1)

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        number = event.y - self.gutter.top - 1 + self._first
        if self._first <= number < len(self.rows):
            self._choose(number)

    def _choose(self, number: int) -> None:
        if self.rows[number].policy != self.current:
            self.current = self.rows[number].policy
            self.refresh()
            self._choose_policy(self.current)
