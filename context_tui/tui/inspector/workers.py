"""Background threads of the inspector: reading, searching, measuring and planning.

The threads read immutable views. Results that other views can use are stored in
:class:`~context_tui.tui.analysis.AnalysisCache`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from textual.screen import Screen

from context_tui.errors import MeasureError
from context_tui.policies.registry import POLICIES
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.session import Session
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.analysis import (
    AnalysisCache,
    TriggerFirings,
    compute_context_sizes,
    compute_runtime_sizes,
    find_first_effect,
)
from context_tui.tui.loading import PostReport, SessionLoader
from context_tui.tui.rendering.formatting import MessageReader
from context_tui.tui.search import SearchReport, search_session
from context_tui.tui.threads import ThreadJob, start_work
from context_tui.tui.timeline.rows import TimelineRows
from context_tui.tui.view import View

INPUT_QUIET_S = 0.15
"""Seconds after a key press during which low-priority work yields to the screen."""
SHORT_PAUSE_S, LONG_PAUSE_S = 0.02, 0.3
"""Seconds of a pause after each slice of such work: for reading, and for details that are added later."""
MAX_PLANNED_MESSAGES = 50_000
"""Maximum number of messages for which plans are computed to find the first effect."""


class InspectorWorkers:
    """The inspector's background threads, each of which passes its result to a callback in the event loop."""

    def __init__(
        self, screen: Screen[Any], analysis: AnalysisCache, show_measure: Callable[[View, str], object]
    ) -> None:
        """Create a helper; *show_measure* receives a view and an error, "" once the view's session is measured."""
        self._screen, self._analysis, self._show_measure = screen, analysis, show_measure
        self._runtime_sizes_session: Session | None = None  # the last one requested
        self._context_sizes_key: object = None  # session, point and token measure of the last request
        self.last_input_at = 0.0

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < min(until, self.last_input_at + INPUT_QUIET_S):
            time.sleep(SHORT_PAUSE_S)

    def cancel(self, group: str) -> None:
        """Stop the running work in a worker group, if there is any."""
        self._screen.workers.cancel_group(self._screen, group)

    def read_session(self, loader: SessionLoader, draw: PostReport) -> None:
        """Read a session in a thread, from where *loader* stopped; *draw* receives snapshots or a failure."""

        def work(job: ThreadJob) -> None:
            loader.read(partial(self._screen.call_later, draw), job.stop_event, job.yield_to_screen)

        start_work(self._screen, "read", "read the session", work, pause=partial(self._pause, SHORT_PAUSE_S))

    def follow(self, loader: SessionLoader, draw: PostReport) -> None:
        """Read in a thread whenever the session file changes, until cancelled; *draw* receives the reports."""

        def work(job: ThreadJob) -> None:
            loader.follow(partial(self._screen.call_later, draw), job.stop_event, job.yield_to_screen)

        start_work(self._screen, "follow", "follow the session", work, pause=partial(self._pause, SHORT_PAUSE_S))

    def read_blocks(self, reader: MessageReader, message: int, draw: Callable[[], object]) -> None:
        """Read a very large message into the cache of *reader*, then call *draw*."""
        read = partial(reader.read_blocks, message)
        start_work(self._screen, "blocks", "read a large message", lambda _: read(), lambda _: draw())

    def search(self, session: Session, text: str, number: int, draw: Callable[[SearchReport], object]) -> None:
        """Search a session for *text*; *draw* receives the matches in reports that carry the search's *number*."""

        def work(job: ThreadJob) -> None:
            search_session(session, text, number, partial(self._screen.call_later, draw), job.checkpoint)

        start_work(self._screen, "search", "search the session", work)

    def compute_context_sizes(self, view: View, rows: TimelineRows, draw: Callable[[], object]) -> None:
        """Compute and cache the view's context sizes, unless that was done or requested; *rows* is the timeline.

        If the session is not measured by the view's token measure yet, it is measured and shown first.
        """
        key = view.session, view.point, view.measure
        if self._analysis.get_context_sizes(view) is not None or self._context_sizes_key == key:
            return
        measured, copy = self._analysis.get_measured_rows(view), None
        if view.measure is not TokenMeasure.OWN and (measured is None or measured.is_provisional):
            copy = rows.copy()  # the rows may grow meanwhile

        def work(job: ThreadJob) -> None:
            nonlocal measured
            if copy is not None:
                try:
                    measured = self._analysis.measure_session(view, copy, job.checkpoint)
                except MeasureError as error:
                    self._screen.call_later(self._show_measure, view, str(error))
                    return
                self._screen.call_later(self._show_measure, view, "")
            sizes = compute_context_sizes(view, job.checkpoint, measured.token_table if measured else None)
            if not job.is_cancelled:  # a late result must not replace a newer one
                self._analysis.store_context_sizes(view, sizes)
                self._screen.call_later(draw)

        self._context_sizes_key = key
        start_work(self._screen, "sizes", "compute the breakdown", work)

    def find_firings(self, view: View, draw: Callable[[], object]) -> None:
        """Find where the view's policy would have fired, then where it first acts, calling *draw* for each result."""
        if self._analysis.get_firings(view) is not None:
            return

        def work(job: ThreadJob) -> None:
            def store(firings: TriggerFirings) -> None:
                if not job.is_cancelled:
                    self._analysis.store_firings(view, firings)
                    self._screen.call_later(draw)

            runs = find_firing_runs(view.session, POLICIES[view.policy], view.policy_params, job.checkpoint)
            points = [run[0].at for run in runs]
            store(TriggerFirings(points))
            if points and len(view.session) <= MAX_PLANNED_MESSAGES:
                first_effect = find_first_effect(view, list(chain.from_iterable(runs)), job.checkpoint)
                if first_effect is not None and first_effect != points[0]:
                    store(TriggerFirings(points, first_effect))

        start_work(self._screen, "fires", "find where triggers fire", work, pause=partial(self._pause, LONG_PAUSE_S))

    def compute_runtime_sizes(self, session: Session, draw: Callable[[], object]) -> None:
        """Compute the context sizes that the session's runtime assumed before its messages."""
        if self._runtime_sizes_session is session:
            return

        def work(job: ThreadJob) -> None:
            self._analysis.runtime_sizes = compute_runtime_sizes(session, job.checkpoint)
            self._screen.call_later(draw)

        self._runtime_sizes_session, pause = session, partial(self._pause, LONG_PAUSE_S)
        start_work(self._screen, "runtime-sizes", "compute the believed sizes", work, pause=pause)

    def compute_curve(
        self, view: View, name: str, values: list[Any], table: TokenTable | None, draw: Callable[[list[int]], object]
    ) -> None:
        """Compute the size of the next request with the plan for each of *values*, and pass the list to *draw*."""
        compute = partial(view.compute_curve, name, values, table)
        start_work(self._screen, "curve", "compute the curve", lambda job: compute(job.checkpoint), draw)
