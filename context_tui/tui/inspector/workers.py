"""Background threads of the inspector: reading, searching, measuring and planning.

The threads read immutable views, store results in :class:`~context_tui.tui.analysis.AnalysisCache`, and post messages.
Each message names the view that it belongs to, so that a late result can be dropped.
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
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.session import Session
from context_tui.tokens.exact import measure_exactly
from context_tui.tokens.measures import TokenMeasure, build_calibrated_table
from context_tui.tui.analysis import (
    AnalysisCache,
    MeasuredRows,
    TriggerFirings,
    compute_context_sizes,
    compute_runtime_sizes,
    find_first_effect,
)
from context_tui.tui.loading import ReadFailure, SessionLoader, SessionSnapshot
from context_tui.tui.rendering.formatting import MessageReader
from context_tui.tui.search import SearchReport, search_session
from context_tui.tui.threads import WORK_SLICE_S, ThreadJob, start_work
from context_tui.tui.timeline.rows import Location, TimelineRows
from context_tui.tui.view import View

INPUT_QUIET_S = 0.15
"""Seconds after a key press during which low-priority work yields to the screen."""
SHORT_PAUSE_S, LONG_PAUSE_S = 0.02, 0.3
"""Pause of such work after each slice, in seconds: for reading, and for details that are added later."""
MAX_PLANNED_MESSAGES = 50_000
"""Maximum number of messages for which plans are computed to find the first effect."""


@dataclass
class SessionRead(Message):
    """Another part of the session is read, or reading has failed."""

    report: SessionSnapshot | ReadFailure


@dataclass
class SearchReported(Message):
    """The search has found more, or has ended."""

    report: SearchReport


@dataclass
class FiringsComputed(Message):
    """The firings of a view's policy are computed."""

    view: View


@dataclass
class ContextSizesComputed(Message):
    """The sizes of a view's context are computed."""

    view: View


@dataclass
class MeasureComputed(Message):
    """A view's session is measured by its token measure, or ``error`` is why it cannot be."""

    view: View
    error: str = ""


@dataclass
class RuntimeSizesComputed(Message):
    """The sizes that each runtime assumed at the messages of a session are computed."""

    session: Session


@dataclass
class CurveComputed(Message):
    """The tokens after are computed for each value of a setting."""

    view: View
    name: str
    values: Sequence[Any]
    tokens_after: list[int]


@dataclass
class BlocksRead(Message):
    """The blocks of a large message are read."""

    reader: MessageReader
    location: Location


ComputedMessage = FiringsComputed | ContextSizesComputed | CurveComputed | RuntimeSizesComputed | BlocksRead
"""Result of background work that only needs to be drawn."""


class InspectorWorkers:
    """Threads of the inspector; each starts work unless its result is known."""

    def __init__(self, screen: Screen[Any], analysis: AnalysisCache) -> None:
        self._screen, self._analysis = screen, analysis
        self._runtime_sizes_session: Session | None = None  # the last one requested
        self._context_sizes_key: object = None  # session, point and token measure of the last request
        self.last_input_at = 0.0

    def _start(self, group: str, description: str, work: Callable[[ThreadJob], None], pause_s: float = 0.0) -> None:
        """Start work that pauses for at most so many seconds after each slice while keys are pressed."""

        def pause() -> None:
            until = time.monotonic() + pause_s
            while time.monotonic() < min(until, self.last_input_at + INPUT_QUIET_S):
                time.sleep(SHORT_PAUSE_S)

        start_work(self._screen, group, description, work, pause)

    def cancel(self, group: str) -> None:
        """Stop the work of a group."""
        self._screen.workers.cancel_group(self._screen, group)

    def read_session(self, loading: SessionLoader) -> None:
        """Read a session, or continue to read it; posts ``SessionRead``."""

        def work(job: ThreadJob) -> None:
            loading.read(self._post_read, lambda: job.is_cancelled, job.yield_to_screen)

        self._start("read", "read the session", work, SHORT_PAUSE_S)

    def _post_read(self, report: SessionSnapshot | ReadFailure) -> None:
        self._screen.post_message(SessionRead(report))

    def follow(self, loading: SessionLoader) -> None:
        """Read the session whenever the file changes, until cancelled; posts ``SessionRead``."""

        def work(job: ThreadJob) -> None:
            loading.follow(self._post_read, job.stop_event, job.yield_to_screen)

        self._start("follow", "follow the session", work, SHORT_PAUSE_S)

    def read_blocks(self, reader: MessageReader, location: Location) -> None:
        """Read a large message; posts ``BlocksRead``."""

        def work(job: ThreadJob) -> None:
            reader.read_blocks(location.message)
            self._screen.post_message(BlocksRead(reader, location))

        self._start("blocks", "read a large message", work)

    def search(self, session: Session, text: str, number: int) -> None:
        """Search a session; posts ``SearchReported``."""
        post = self._screen.post_message

        def work(job: ThreadJob) -> None:
            search_session(session, text, number, lambda report: post(SearchReported(report)), job.checkpoint)

        self._start("search", "search the session", work)

    def compute_context_sizes(self, view: View, rows: TimelineRows) -> None:
        """Break the context of a view down by its token measure, unless that is done; posts ``ContextSizesComputed``.

        A session that is not measured yet is measured first, and ``MeasureComputed`` is posted.

        Args:
            rows: rows of the view's session.
        """
        key = view.session, view.point, view.measure
        if self._analysis.get_context_sizes(view) is not None or self._context_sizes_key == key:
            return
        sized, copy = self._analysis.get_measured_rows(view), None
        if view.measure is not TokenMeasure.OWN and sized is None:
            copy = rows.copy()  # the rows may grow meanwhile

        def work(job: ThreadJob) -> None:
            nonlocal sized
            if copy is not None:
                try:
                    if view.measure is TokenMeasure.EXACT:
                        token_table = measure_exactly(view.session, job.checkpoint)
                    else:
                        token_table = build_calibrated_table(view.session.facts, job.checkpoint)
                except MeasureError as error:
                    self._screen.post_message(MeasureComputed(view, str(error)))
                    return
                sized = MeasuredRows(token_table, copy.with_table(token_table, job.checkpoint))
                self._analysis.store_measured_rows(view, sized)
                self._screen.post_message(MeasureComputed(view))
            sizes = compute_context_sizes(view, job.checkpoint, sized.token_table if sized else None)
            if not job.is_cancelled:  # a late result must not replace a newer one
                self._analysis.store_context_sizes(view, sizes)
                self._screen.post_message(ContextSizesComputed(view))

        self._context_sizes_key = key
        self._start("sizes", "compute the breakdown", work)

    def find_firings(self, view: View) -> None:
        """Find the firings of a view's policy, unless that is done; posts ``FiringsComputed`` once or twice."""
        if self._analysis.get_firings(view) is not None:
            return

        def work(job: ThreadJob) -> None:
            def keep(fires: TriggerFirings) -> None:
                if not job.is_cancelled:
                    self._analysis.store_firings(view, fires)
                    self._screen.post_message(FiringsComputed(view))

            runs = find_firing_runs(view.session, POLICIES[view.policy], view.policy_params, job.checkpoint)
            points = [run[0].at for run in runs]
            keep(TriggerFirings(points))
            if points and len(view.session) <= MAX_PLANNED_MESSAGES:
                acts = find_first_effect(view, list(chain.from_iterable(runs)), job.checkpoint)
                if acts is not None and acts != points[0]:
                    keep(TriggerFirings(points, acts))

        self._start("fires", "find where triggers fire", work, LONG_PAUSE_S)

    def compute_runtime_sizes(self, session: Session) -> None:
        """Compute the sizes that each runtime assumed, unless that has begun; posts ``RuntimeSizesComputed``."""
        if self._runtime_sizes_session is session:
            return

        def work(job: ThreadJob) -> None:
            self._analysis.store_runtime_sizes(compute_runtime_sizes(session, job.checkpoint))
            self._screen.post_message(RuntimeSizesComputed(session))

        self._runtime_sizes_session = session
        self._start("runtime-sizes", "compute the believed sizes", work, LONG_PAUSE_S)

    def compute_curve(self, view: View, name: str, values: Sequence[Any]) -> None:
        """Compute plans for many values of a setting; posts ``CurveComputed``."""

        def work(job: ThreadJob) -> None:
            after: list[int] = []
            step = 1
            while len(after) < len(values):
                started = time.monotonic()
                after += view.compute_curve(name, values[len(after) : len(after) + step])
                if time.monotonic() - started < WORK_SLICE_S / 2:  # as many at once as keep within a turn
                    step *= 2
                job.checkpoint()
            self._screen.post_message(CurveComputed(view, name, values, after))

        self._start("curve", "compute the curve", work)
