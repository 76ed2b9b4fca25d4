"""What was computed about a session off the paint path, kept by what it depends on until that is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_tui.errors import PlanError
from context_tui.policies.parameters import params_for
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import context_at
from context_tui.session.session import Session
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.context_sizes import ContextSizes
from context_tui.tui.rows import Rows
from context_tui.tui.runtime_sizes import RuntimeSizes
from context_tui.tui.view import View

KEPT = 4
"""Tables of sizes that are kept: going back to a ruler, or undoing, makes none anew."""


@dataclass(frozen=True)
class Fires:
    """Where a trigger begins to fire, and the first point at which it changes something if not at the first of these.

    ``acts`` is None where such a point was not found, or not looked for.
    """

    points: list[int]
    acts: int | None = None


class Sized(NamedTuple):
    """What a session measures by a ruler, and the rows of the timeline with these tokens."""

    sizes: TokenTable
    rows: Rows


class Computed:
    """Sizes of a session by a ruler and of a view's context, where its policy's trigger fires, what runtimes believed:
    each None until known.
    """

    def __init__(self) -> None:
        self._sized: list[tuple[object, Sized]] = []  # of the sessions and rulers that were used last
        self._sizes: tuple[object, ContextSizes] | None = None
        self._fires: tuple[object, Fires] | None = None
        self._runtime_sizes: RuntimeSizes | None = None

    def sized(self, view: View) -> Sized | None:
        """What a view's session measures by its ruler; None by ``bytes/4`` too, which needs no table."""
        if view.ruler is TokenMeasure.OWN:
            return None
        key = _ruler_key(view)
        return next((sized for known, sized in self._sized if known == key), None)

    def keep_sized(self, view: View, sized: Sized) -> None:
        """It is known."""
        self._sized = [*self._sized, (_ruler_key(view), sized)][-KEPT:]

    def sizes(self, view: View) -> ContextSizes | None:
        """The sizes of a view's context."""
        return self._sizes[1] if self._sizes and self._sizes[0] == _context_key(view) else None

    def keep_sizes(self, view: View, sizes: ContextSizes) -> None:
        """They are known."""
        self._sizes = _context_key(view), sizes

    def fires(self, view: View) -> Fires | None:
        """Where the trigger of a view's policy fires."""
        return self._fires[1] if self._fires and self._fires[0] == _trigger_key(view) else None

    def keep_fires(self, view: View, fires: Fires) -> None:
        """It is known."""
        self._fires = _trigger_key(view), fires

    def runtime_sizes(self, session: Session, message: int) -> RuntimeSizes | None:
        """What each runtime believed before a message of a session."""
        known = self._runtime_sizes
        return known if known is not None and known.knows(session, message) else None

    def keep_runtime_sizes(self, sizes: RuntimeSizes) -> None:
        """It is known."""
        self._runtime_sizes = sizes


def first_change(view: View, fired: Sequence[RuntimeState], checkpoint: Callable[[], object]) -> int | None:
    """Of the moments at which the trigger fires, the first whose plan changes something, if the later ones do as well.

    What can be cleared grows with the context, so that steps that double are taken to one, and halved on the way back.
    """
    policy = POLICIES[view.policy]
    try:
        params = params_for(policy, view.settings(view.policy))
    except PlanError:
        return None

    def changes(row: int) -> bool:
        checkpoint()
        # Not by the session: it keeps few contexts, and those on screen would go.
        context = context_at(view.session.facts, fired[row].at)
        try:
            return policy.plan(context, params, replace(fired[row], firing_only=True)).changed
        except PlanError:
            return False

    low, high = -1, 0
    while not changes(high):
        if high == len(fired) - 1:
            return None
        low, high = high, min(2 * high + 1, len(fired) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle) else (middle, high)
    return fired[high].at


def _context_key(view: View) -> object:
    return view.session, view.point, view.ruler


def _ruler_key(view: View) -> object:
    return view.session.facts, len(view.session), view.ruler


def _trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.settings(view.policy))
