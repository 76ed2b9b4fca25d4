"""All policies at their settings, one row each: does it fire, what would it do, what would be left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message
from textual.widget import Widget

from context_tui.compaction.plan import Plan


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A policy's line: ``does`` in words, tokens by estimate; ``trouble`` says why there is no plan."""

    policy: str
    fires: bool = False
    does: str = ""
    before: int = 0
    after: int = 0
    trouble: str = ""


def score_row(plan: Plan) -> ScoreRow:
    """The line of a plan; kept with the plan."""
    raise NotImplementedError


def score_rows(plan_of: Callable[[str], Plan | None]) -> list[ScoreRow]:
    """A line for every policy, from what *plan_of* has for its name (``View.plan_of`` keeps plans that did not change)."""
    return []


class Scoreboard(Widget):
    """The policies to choose from, by digit, arrow or click."""

    class Chosen(Message):
        """A policy was chosen."""

        def __init__(self, policy: str) -> None:
            super().__init__()
            self.policy = policy

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii

    def show(self, rows: list[ScoreRow], current: str) -> None:
        """Show these lines, with the policy *current* marked."""
