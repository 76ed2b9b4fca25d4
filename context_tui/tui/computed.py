"""What was computed about a session off the paint path, kept by what it depends on until that is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.policies.parameters import build_params
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import context_at
from context_tui.session.session import Session
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.context_sizes import ContextSizes
from context_tui.tui.rows import TimelineRows
from context_tui.tui.runtime_sizes import RuntimeSizes
from context_tui.tui.view import View

MAX_MEASURED_ROWS = 4
"""Tables of sizes that are kept: going back to a ruler, or undoing, makes none anew."""


@dataclass(frozen=True)
class TriggerFirings:
    """Where a trigger begins to fire, and the first point at which it changes something if not at the first of these.

    ``first_effect`` is None where such a point was not found, or not looked for.
    """

    points: list[int]
    first_effect: int | None = None


class MeasuredRows(NamedTuple):
    """What a session measures by a ruler, and the rows of the timeline with these tokens."""

    token_table: TokenTable
    rows: TimelineRows


class AnalysisCache:
    """Sizes of a session by a ruler and of a view's context, where its policy's trigger fires, what runtimes believed:
    each None until known.
    """

    def __init__(self) -> None:
        self._measured_rows: list[tuple[object, MeasuredRows]] = []  # of the sessions and rulers that were used last
        self._context_sizes: tuple[object, ContextSizes] | None = None
        self._firings: tuple[object, TriggerFirings] | None = None
        self._runtime_sizes: RuntimeSizes | None = None

    def get_measured_rows(self, view: View) -> MeasuredRows | None:
        """What a view's session measures by its ruler; None by ``bytes/4`` too, which needs no table."""
        if view.measure is TokenMeasure.OWN:
            return None
        key = _get_measure_key(view)
        return next((sized for known, sized in self._measured_rows if known == key), None)

    def store_measured_rows(self, view: View, measured_rows: MeasuredRows) -> None:
        """It is known."""
        self._measured_rows = [*self._measured_rows, (_get_measure_key(view), measured_rows)][-MAX_MEASURED_ROWS:]

    def get_context_sizes(self, view: View) -> ContextSizes | None:
        """The sizes of a view's context."""
        return (
            self._context_sizes[1] if self._context_sizes and self._context_sizes[0] == _get_context_key(view) else None
        )

    def store_context_sizes(self, view: View, sizes: ContextSizes) -> None:
        """They are known."""
        self._context_sizes = _get_context_key(view), sizes

    def get_firings(self, view: View) -> TriggerFirings | None:
        """Where the trigger of a view's policy fires."""
        return self._firings[1] if self._firings and self._firings[0] == _get_trigger_key(view) else None

    def store_firings(self, view: View, firings: TriggerFirings) -> None:
        """It is known."""
        self._firings = _get_trigger_key(view), firings

    def get_runtime_sizes(self, session: Session, message: int) -> RuntimeSizes | None:
        """What each runtime believed before a message of a session."""
        known = self._runtime_sizes
        return known if known is not None and known.covers(session, message) else None

    def store_runtime_sizes(self, sizes: RuntimeSizes) -> None:
        """It is known."""
        self._runtime_sizes = sizes


def find_first_effect(view: View, states: Sequence[RuntimeState], checkpoint: Callable[[], object]) -> int | None:
    """Of the moments at which the trigger fires, the first whose plan changes something, if the later ones do as well.

    What can be cleared grows with the context, so that steps that double are taken to one, and halved on the way back.
    """
    policy = POLICIES[view.policy]
    try:
        params = build_params(policy, view.get_settings(view.policy))
    except PlanError:
        return None

    def changes(row: int) -> bool:
        checkpoint()
        # Not by the session: it keeps few contexts, and those on screen would go.
        context = context_at(view.session.facts, states[row].at)
        try:
            return policy.plan(context, params, replace(states[row], firing_only=True)).has_changes
        except PlanError:
            return False

    low, high = -1, 0
    while not changes(high):
        if high == len(states) - 1:
            return None
        low, high = high, min(2 * high + 1, len(states) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle) else (middle, high)
    return states[high].at


def _get_context_key(view: View) -> object:
    return view.session, view.point, view.measure


def _get_measure_key(view: View) -> object:
    return view.session.facts, len(view.session), view.measure


def _get_trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.get_settings(view.policy))
