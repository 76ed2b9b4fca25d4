"""The inspector's threads: reading, searching, where triggers fire, sizes, curves.

They are given immutable views, keep what they found in :class:`~context_tui.tui.computed.Computed`, and only post
messages; a late answer is told by the view that it names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from textual.message import Message
from textual.screen import Screen

from context_tui.errors import MeasureError
from context_tui.policies.registry import POLICIES
from context_tui.policies.triggers import firing_runs
from context_tui.session.session import Session
from context_tui.tokens.exact import measure_exactly
from context_tui.tokens.measures import TokenMeasure, TokenTable, build_calibrated_table
from context_tui.tui.computed import Computed, Fires, Sized, first_change
from context_tui.tui.context_sizes import context_sizes_of
from context_tui.tui.loading import Failed, Loading, Read
from context_tui.tui.rows import Rows
from context_tui.tui.runtime_sizes import runtime_sizes_of
from context_tui.tui.search import Found, search
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
class Loaded(Message):
    """So much of the session has been read, or why it cannot be."""

    report: Read | Failed


@dataclass
class Matched(Message):
    """The search found more, or has ended."""

    found: Found


@dataclass
class FiresKnown(Message):
    """It is known where the trigger of a view's policy fires."""

    view: View


@dataclass
class SizesKnown(Message):
    """The sizes of a view's context are known."""

    view: View


@dataclass
class RulerKnown(Message):
    """What a view's session measures by its ruler is known, or ``refused`` says why it cannot be."""

    view: View
    refused: str = ""


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


def _calibrated(session: Session, checkpoint: Callable[[], object]) -> TokenTable:
    return build_calibrated_table(session.facts, checkpoint)


class InspectorWorkers:
    """The inspector's threads: each is started where what it computes is not known yet."""

    def __init__(self, screen: Screen[Any], computed: Computed) -> None:
        self._screen, self._computed = screen, computed
        self._counted: Session | None = None  # the last whose runtime sizes were asked for
        self._sizing: object = None  # the last session, point and ruler whose sizes were asked for
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
        """Read a session, or read on; posts ``Loaded``."""
        post = self._screen.post_message

        def work(job: Job) -> None:
            loading.read(lambda report: post(Loaded(report)), lambda: job.cancelled, job.rest)

        self._start("read", "read the session", work, GIVE_WAY)

    def follow(self, loading: Loading) -> None:
        """Read on whenever the file changes, until it is cancelled; posts ``Loaded``."""
        post = self._screen.post_message

        def work(job: Job) -> None:
            loading.follow(lambda report: post(Loaded(report)), job.stop, job.rest)

        self._start("follow", "follow the session", work, GIVE_WAY)

    def read_blocks(self, reader: Reader, location: Location) -> None:
        """Read a large message; posts ``BlocksRead``."""

        def work(job: Job) -> None:
            reader.blocks(location.message)
            self._screen.post_message(BlocksRead(reader, location))

        self._start("blocks", "read a large message", work)

    def search(self, session: Session, text: str, number: int) -> None:
        """Search a session; posts ``Matched``."""
        post = self._screen.post_message

        def work(job: Job) -> None:
            search(session, text, number, lambda found: post(Matched(found)), job.checkpoint)

        self._start("search", "search the session", work)

    def find_sizes(self, view: View, rows: Rows) -> None:
        """Break the context of a view down by its ruler, unless that was done; posts ``SizesKnown``.

        Where the session was not measured by that ruler before, that comes first, and ``RulerKnown`` is posted.

        Args:
            rows: those of the view's session.
        """
        wanted = view.session, view.point, view.ruler
        if self._computed.sizes(view) is not None or self._sizing == wanted:
            return
        sized, copy = self._computed.sized(view), None
        if view.ruler is not TokenMeasure.OWN and sized is None:
            copy = rows.copy()  # they may grow meanwhile

        def work(job: Job) -> None:
            nonlocal sized
            if copy is not None:
                try:
                    measured = measure_exactly if view.ruler is TokenMeasure.EXACT else _calibrated
                    found = measured(view.session, job.checkpoint)
                except MeasureError as error:
                    self._screen.post_message(RulerKnown(view, str(error)))
                    return
                sized = Sized(found, copy.by(found, job.checkpoint))
                self._computed.keep_sized(view, sized)
                self._screen.post_message(RulerKnown(view))
            sizes = context_sizes_of(view, job.checkpoint, sized.sizes if sized else None)
            if not job.cancelled:  # or it would take the place of what is wanted now
                self._computed.keep_sizes(view, sizes)
                self._screen.post_message(SizesKnown(view))

        self._sizing = wanted
        self._start("sizes", "compute the breakdown", work)

    def find_fires(self, view: View) -> None:
        """Find where the trigger of a view's policy fires, unless that was done; posts ``FiresKnown``, maybe twice."""
        if self._computed.fires(view) is not None:
            return

        def work(job: Job) -> None:
            def keep(fires: Fires) -> None:
                if not job.cancelled:
                    self._computed.keep_fires(view, fires)
                    self._screen.post_message(FiresKnown(view))

            runs = firing_runs(view.session, POLICIES[view.policy], view.model, job.checkpoint)
            points = [run[0].at for run in runs]
            keep(Fires(points))
            if points and len(view.session) <= PLANNED_MESSAGES:
                acts = first_change(view, list(chain.from_iterable(runs)), job.checkpoint)
                if acts is not None and acts != points[0]:
                    keep(Fires(points, acts))

        self._start("fires", "find where triggers fire", work, STAND_BACK)

    def find_runtime_sizes(self, session: Session) -> None:
        """Find what each runtime believed all along a session, unless that has begun; posts ``RuntimeSizesKnown``."""
        if self._counted is session:
            return

        def work(job: Job) -> None:
            self._computed.keep_runtime_sizes(runtime_sizes_of(session, job.checkpoint))
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
