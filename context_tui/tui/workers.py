"""What the inspector has computed off the paint path: reading, searching, where triggers fire, sizes, curves.

Threads are given immutable views and only post messages; a late answer is told by the view that it names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from textual.message import Message
from textual.screen import Screen

from context_tui.errors import PlanError
from context_tui.policies.parameters import params_for
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.triggers import firing_runs
from context_tui.session.context import context_at
from context_tui.session.session import Session
from context_tui.tui.context_sizes import ContextSizes, context_sizes_of
from context_tui.tui.loading import Loading
from context_tui.tui.runtime_sizes import RuntimeSizes, runtime_sizes_of
from context_tui.tui.search import search
from context_tui.tui.text import Reader
from context_tui.tui.threads import WORK, Job, start_work
from context_tui.tui.view import Location, View

BUSY = 0.15
"""Seconds after something was pressed for which work that nobody waits for gives way to the screen."""
GIVE_WAY, STAND_BACK = 0.02, 0.3
"""Seconds for which it pauses meanwhile, after each turn: reading, and what only adds to what is on screen."""
PLANNED_MESSAGES = 50_000
"""Messages up to which plans are made to find where one changes something."""


@dataclass
class FiresKnown(Message):
    """It is known where the trigger of a view's policy fires."""

    view: View


@dataclass
class SizesKnown(Message):
    """The sizes of a view's context are known."""

    view: View


@dataclass
class RuntimeSizesKnown(Message):
    """What each runtime believed in the messages of a session is known."""

    session: Session


@dataclass
class CurveKnown(Message):
    """Tokens after for each value of a setting are known."""

    view: View
    name: str
    values: Sequence[Any]
    after: list[int]


@dataclass
class BlocksRead(Message):
    """The blocks of a message that took a while have been read."""

    reader: Reader
    location: Location


@dataclass(frozen=True)
class Fires:
    """Where a trigger begins to fire, and the first point at which it changes something if not at the first of these.

    ``acts`` is None where such a point was not found, or not looked for.
    """

    points: list[int]
    acts: int | None = None


class InspectorWorkers:
    """The inspector's threads, and what they found out: kept by what it depends on, until that is another."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen
        self._sizes: tuple[object, ContextSizes] | None = None
        self._fires: tuple[object, Fires] | None = None
        self._runtime_sizes: RuntimeSizes | None = None
        self._counted: Session | None = None  # the last whose runtime sizes were asked for
        self.touched_at = 0.0

    def _start(self, group: str, description: str, work: Callable[[Job], None], gives_way: float = 0.0) -> None:
        """Start work that pauses at most so many seconds after each turn while something is pressed."""

        def pause() -> None:
            until = time.monotonic() + gives_way
            while time.monotonic() < min(until, self.touched_at + BUSY):
                time.sleep(GIVE_WAY)

        start_work(self._screen, group, description, work, pause)

    def cancel(self, group: str) -> None:
        """Stop the work of a group."""
        self._screen.workers.cancel_group(self._screen, group)

    def read_session(self, loading: Loading) -> None:
        """Read a session, or read on; posts ``loading.Read`` and ``loading.Failed``."""

        def work(job: Job) -> None:
            loading.read(self._screen.post_message, lambda: job.cancelled, job.rest)

        self._start("read", "read the session", work, GIVE_WAY)

    def read_blocks(self, reader: Reader, location: Location) -> None:
        """Read a large message; posts ``BlocksRead``."""

        def work(job: Job) -> None:
            reader.blocks(location.message)
            self._screen.post_message(BlocksRead(reader, location))

        self._start("blocks", "read a large message", work)

    def search(self, session: Session, text: str, number: int) -> None:
        """Search a session; posts ``search.Found``."""
        post = self._screen.post_message
        self._start("search", "search the session", lambda job: search(session, text, number, post, job.checkpoint))

    def sizes(self, view: View) -> ContextSizes | None:
        """The sizes of a view's context, once they are known."""
        return self._sizes[1] if self._sizes and self._sizes[0] == _context_key(view) else None

    def find_sizes(self, view: View) -> None:
        """Break the context of a view down, unless that was done; posts ``SizesKnown``."""
        if self.sizes(view) is not None:
            return

        def work(job: Job) -> None:
            sizes = context_sizes_of(view, job.checkpoint)
            if not job.cancelled:  # or it would take the place of what is wanted now
                self._sizes = _context_key(view), sizes
                self._screen.post_message(SizesKnown(view))

        self._start("sizes", "compute the breakdown", work)

    def fires(self, view: View) -> Fires | None:
        """Where the trigger of a view's policy fires, once that is known."""
        return self._fires[1] if self._fires and self._fires[0] == _trigger_key(view) else None

    def find_fires(self, view: View) -> None:
        """Find where the trigger of a view's policy fires, unless that was done; posts ``FiresKnown``, maybe twice."""
        if self.fires(view) is not None:
            return

        def work(job: Job) -> None:
            def keep(fires: Fires) -> None:
                if not job.cancelled:
                    self._fires = _trigger_key(view), fires
                    self._screen.post_message(FiresKnown(view))

            runs = firing_runs(view.session, POLICIES[view.policy], view.model, job.checkpoint)
            points = [run[0].at for run in runs]
            keep(Fires(points))
            if points and len(view.session) <= PLANNED_MESSAGES:
                acts = first_change(view, list(chain.from_iterable(runs)), job.checkpoint)
                if acts is not None and acts != points[0]:
                    keep(Fires(points, acts))

        self._start("fires", "find where triggers fire", work, STAND_BACK)

    def runtime_sizes(self, session: Session, message: int) -> RuntimeSizes | None:
        """What each runtime believed before a message of a session, once that is known."""
        known = self._runtime_sizes
        return known if known is not None and known.knows(session, message) else None

    def find_runtime_sizes(self, session: Session) -> None:
        """Find what each runtime believed all along a session, unless that has begun; posts ``RuntimeSizesKnown``."""
        if self._counted is session:
            return

        def work(job: Job) -> None:
            self._runtime_sizes = runtime_sizes_of(session, job.checkpoint)
            self._screen.post_message(RuntimeSizesKnown(session))

        self._counted = session
        self._start("runtime-sizes", "compute the believed sizes", work, STAND_BACK)

    def draw_curve(self, view: View, name: str, values: Sequence[Any]) -> None:
        """Plan for many values of a setting; posts ``CurveKnown``."""

        def work(job: Job) -> None:
            after: list[int] = []
            step = 1
            while len(after) < len(values):
                begun = time.monotonic()
                after += view.curve(name, values[len(after) : len(after) + step])
                if time.monotonic() - begun < WORK / 2:  # as many at once as keep within a turn
                    step *= 2
                job.checkpoint()
            self._screen.post_message(CurveKnown(view, name, values, after))

        self._start("curve", "compute the curve", work)


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
    return view.session, view.point


def _trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.settings(view.policy))
