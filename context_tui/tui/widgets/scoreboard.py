"""All policies at their settings, one row each: does it fire, what would it do, what would be left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from context_tui.compaction.plan import Plan
from context_tui.policies.registry import POLICIES
from context_tui.tui.widgets.draw import BAD, BOLD, GOOD, HUE, MUTED, WARN, Run, bar, cells, content, on, pad, percent
from context_tui.tui.widgets.outcome import does, outcome_of

NAME = max(map(len, POLICIES))


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
    fires = None if plan.trigger.source == "you" else outcome.fires
    return ScoreRow(plan.policy, fires, does(outcome), outcome.before, outcome.after, plan.cut > 0, "")


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


def score_line(digit: int, row: ScoreRow, current: bool, width: int, after: int) -> list[Run]:
    """A policy's line in *width* cells: bar, words and tokens go, in this order, where it is narrow.

    *after* is how many cells the numbers of tokens take in all lines.
    """
    runs: list[Run] = [("▸" if current else " ", f"bold {HUE}"), (f"{digit} ", BOLD if current else MUTED)]
    runs.append((row.policy.ljust(NAME), BOLD if current else ""))
    if row.trouble:
        return pad([*runs, ("  ", ""), (row.trouble, BAD)], width)
    fires = {True: "fires", False: "–", None: ""}[row.fires].ljust(5)
    runs += [("  ", ""), (fires, f"bold {GOOD}" if row.fires else MUTED)]
    ends: list[Run] = [("  ", ""), (f"{f'−{percent(row.share)}' if row.does else '–':>6}", GOOD if row.does else MUTED)]
    tokens: list[Run] = [("  ", ""), (f"{row.after:>{after},}", BOLD if row.does else MUTED)]
    tokens.append((" +s" if row.waits else "   ", MUTED))
    room = width - cells(runs) - cells(ends)
    if room >= cells(tokens):
        ends, room = [*tokens, *ends], room - cells(tokens)
    words = 48 if room >= 50 + 12 else max(room - 2, 0)
    if words >= 12:
        runs += [("  ", ""), *pad([(row.does or "nothing to do", "" if row.does else MUTED)], words)]
        room -= words + 2
    else:
        runs.append((" " * room, ""))
        room = 0
    if room >= 10:
        left, gone = bar(1 - row.share, min(room - 2, 24)) if row.before else ("", "")
        ends += [("  ", ""), (left, HUE if current else MUTED), (gone, MUTED)]
    return pad([*runs, *ends], width)


class Scoreboard(Widget, can_focus=True):
    """The policies to choose from, by digit, arrow or click."""

    DEFAULT_CSS = "Scoreboard { height: auto; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "choose(-1)", "Policy above", show=False, id="score-up", tooltip="The policy above"),
        Binding("down,j", "choose(1)", "Policy below", show=False, id="score-down", tooltip="The policy below"),
    ]

    class Chosen(Message):
        """A policy was chosen."""

        def __init__(self, policy: str) -> None:
            super().__init__()
            self.policy = policy

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
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
        """A line for each policy."""
        return len(self.rows)

    def render(self) -> Content:
        """The lines, the current one on a ground of its own."""
        width = self.content_size.width
        after = max((len(f"{row.after:,}") for row in self.rows), default=0)
        lines = []
        for number, row in enumerate(self.rows):
            current = row.policy == self.current
            runs = score_line(number + 1, row, current, width, after)
            lines.append(content(on(runs, "$boost") if current else runs, self.ascii))
        return Content("\n").join(lines)

    def action_choose(self, rows: int) -> None:
        """Choose a policy further up or down."""
        names = [row.policy for row in self.rows]
        if names:
            at = names.index(self.current) if self.current in names else 0
            self._choose(min(max(at + rows, 0), len(names) - 1))

    def on_key(self, event: events.Key) -> None:
        """Digits choose."""
        if (event.character or "").isdecimal() and 1 <= int(event.character or "0") <= len(self.rows):
            event.stop()
            self._choose(int(event.character or "0") - 1)

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        number = event.y - self.gutter.top
        if 0 <= number < len(self.rows):
            self._choose(number)

    def _choose(self, number: int) -> None:
        if self.rows[number].policy != self.current:
            self.current = self.rows[number].policy
            self.refresh()
            self.post_message(self.Chosen(self.current))
