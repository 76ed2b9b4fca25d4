"""All policies at their settings, one row each: does it fire, what would it do, what would be left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from context_tui.compaction.plan import Plan
from context_tui.policies.registry import POLICIES
from context_tui.tui.widgets.draw import BAD, BOLD, GOOD, HUE, MUTED, Run, bar, content, on, pad, percent, short
from context_tui.tui.widgets.outcome import does, outcome_of

SHARE = 5
MOST_NAME = 24
"""Cells that a name has at most."""
DIGITS = 9
"""How many policies a digit chooses; those beyond are chosen by arrows, clicks or in the command palette."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A policy's line: ``does`` in words, tokens by estimate; ``trouble`` says why there is no plan.

    ``fires`` is None where firing means nothing (by hand) or is not known yet.
    """

    policy: str
    fires: bool | None = None
    does: str = ""
    before: int = 0
    after: int = 0
    waits: bool = False
    trouble: str = ""

    @property
    def share(self) -> float:
        """The part of the context that would be gone."""
        return (self.before - self.after) / self.before if self.before else 0.0


def score_row(plan: Plan) -> ScoreRow:
    """The line of a plan; what it counts is kept with the plan."""
    outcome = outcome_of(plan)
    fires = None if plan.trigger.by_hand else outcome.fires
    return ScoreRow(plan.policy, fires, does(outcome), outcome.before, outcome.after, plan.summarises, "")


def score_rows(
    plan_of: Callable[[str], Plan | None], trouble_of: Callable[[str], str] = lambda policy: "no plan"
) -> list[ScoreRow]:
    """A line for every policy from what *plan_of* has for its name.

    ``View.plan_of`` keeps the plans of policies that were not changed, so that a new setting costs one plan.
    """
    rows = []
    for policy in POLICIES:
        plan = plan_of(policy)
        rows.append(score_row(plan) if plan else ScoreRow(policy, trouble=trouble_of(policy)))
    return rows


@dataclass(frozen=True)
class Columns:
    """Cells of the columns; those that are 0 are left out."""

    name: int
    fires: int
    does: int
    after: int
    waits: int
    bar: int


def columns_for(rows: Sequence[ScoreRow], width: int) -> Columns:
    """Columns for *width* cells; where it is narrow, what it does goes first, then tokens, then whether it fires."""
    name = min(max(len("policy"), *(len(row.policy) for row in rows)), MOST_NAME) if rows else 0
    room = width - 3 - name - 2 - SHARE
    fires = 7 if room >= 7 else 0
    after = max(11, *(len(f"{row.after:,}") + 2 for row in rows)) if rows else 11
    after = after if room - fires >= after else 0
    room -= fires + after
    waits = 11 if room >= 11 + 40 else 3 if after and room >= 3 else 0
    room -= waits
    longest = max((len(row.does) for row in rows), default=0) + 2
    words = min(max(longest, 16), room) if room >= 16 else 0
    room -= words
    return Columns(name, fires, words, after, waits, min(room - 2, 30) if room >= 12 else 0)


def heading(columns: Columns, width: int) -> list[Run]:
    """What stands in the columns."""
    words = "   " + "policy".ljust(columns.name)
    words += "  fires"[: columns.fires].ljust(columns.fires) + "  effect"[: columns.does].ljust(columns.does)
    words += "est. after".rjust(columns.after) if columns.after else ""
    return pad([(words + " " * columns.waits + "less".rjust(SHARE + 2), MUTED)], width)


def score_line(number: int, row: ScoreRow, current: bool, columns: Columns, width: int) -> list[Run]:
    """The line of the *number*-th policy in *width* cells; a digit stands before those that one chooses."""
    digit = str(number) if number <= DIGITS else ""
    runs: list[Run] = [("▸" if current else " ", f"bold {HUE}"), (f"{digit:<2}", BOLD if current else MUTED)]
    runs.append((short(row.policy, columns.name).ljust(columns.name), BOLD if current else ""))
    if row.trouble:
        return pad([*runs, ("  ", ""), (row.trouble, BAD)], width)
    acts = bool(row.does)
    if columns.fires:
        fires = {True: "  fires", False: "  –", None: ""}[row.fires]
        runs.append((fires.ljust(columns.fires), f"bold {GOOD}" if row.fires else MUTED))
    if columns.does:
        runs += pad([("  ", ""), (row.does or "changes nothing", "" if acts else MUTED)], columns.does)
    if columns.after:
        runs.append((f"{row.after:>{columns.after},}", BOLD if acts else MUTED))
    if columns.waits:
        words = " + summary" if columns.waits > 3 else " +s"
        runs.append(((words if row.waits else "").ljust(columns.waits), MUTED))
    runs.append(((f"−{percent(row.share)}" if acts else "–").rjust(SHARE + 2), GOOD if acts else MUTED))
    if columns.bar and row.before:
        left, gone = bar(1 - row.share, columns.bar, "━", "─")
        runs += [("  ", ""), (left, HUE if current else BOLD), (gone, MUTED)]
    return pad(runs, width)


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
        self.current = ""

    def show(self, rows: Sequence[ScoreRow], current: str) -> None:
        """Show these lines, with the policy *current* marked."""
        if rows != self.rows or current != self.current:
            layout = len(rows) != len(self.rows)
            self.rows, self.current = list(rows), current
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
        lines = [content(heading(columns, width), self.ascii)]
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
