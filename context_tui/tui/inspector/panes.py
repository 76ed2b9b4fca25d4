"""Helper that draws the inspector's panes from the state of its controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer

from context_tui.text.numbers import format_count
from context_tui.tui.controller import Controller
from context_tui.tui.inspector import notices
from context_tui.tui.inspector.breakdown import BreakdownView
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.mark_totals import format_mark_totals
from context_tui.tui.inspector.minimap import Minimap, build_map_segments
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.inspector.scoreboard import Scoreboard, build_score_rows, format_policy_title
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads, Legend, StatusLine
from context_tui.tui.inspector.workers import InspectorWorkers
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import DocumentSource, describe_request
from context_tui.tui.rendering import formatting
from context_tui.tui.timeline.context_events import format_event_details
from context_tui.tui.timeline.marks import NO_MARK
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, Location
from context_tui.tui.timeline.turns import TurnSummaries
from context_tui.tui.view import View, format_settings

REST_DELAY_S, DETAIL_DELAY_S = 0.04, 0.1
"""Seconds after the last change until the other panes are drawn, and after the last move until the message is drawn.

The latter is longer than the pause between keys pressed in quick succession, so that drawing delays none of them.
"""


class InspectorPanes:
    """A helper that draws the inspector's panes: each method shows the current view in one or more widgets."""

    def __init__(self, screen: Screen[Any], controller: Controller, jobs: InspectorWorkers) -> None:
        self._screen, self._controller, self._jobs = screen, controller, jobs
        self._header: object = None
        self._title = ""
        self._rest_timer: Timer | None = None
        self._detail_timer: Timer | None = None

    @property
    def location(self) -> Location:
        """The selected location, or the last selected one if no row is listed."""
        timeline = self._screen.query_one(Timeline)
        return timeline.location if timeline.listed_count else self._controller.view.cursor

    def draw(self) -> None:
        """Draw the timeline and settings at once, and slower panes when nothing has changed for ``REST_DELAY_S``."""
        self.draw_timeline()
        self.draw_panel()
        self._rest_timer = self._restart_timer(self._rest_timer, REST_DELAY_S, self._draw_rest)

    def draw_detail_soon(self) -> None:
        """Draw the selected message as soon as the cursor has rested for ``DETAIL_DELAY_S`` seconds."""
        self._detail_timer = self._restart_timer(self._detail_timer, DETAIL_DELAY_S, self.draw_detail)

    def _restart_timer(self, timer: Timer | None, seconds: float, draw: Callable[[], None]) -> Timer:
        if timer is not None:
            timer.stop()
        return self._screen.set_timer(seconds, draw)

    def draw_timeline(self) -> None:
        """Draw the timeline's rows, or a text if the filter matches none, and the line above them."""
        controller = self._controller
        view = controller.view
        marker = None if controller.is_reading else controller.marker
        empty_text = formatting.format_line(view.filter.format_no_match(view.policy)) if view.filter else ""
        timeline, rows, listed_rows = self._screen.query_one(Timeline), controller.rows, controller.listed_rows
        timeline.show(rows, controller.reader, marker, listed_rows, view.cursor, empty_text)
        self.draw_column_heads()

    def draw_column_heads(self) -> None:
        """Draw the line above the timeline, with the filter, the sort order and the number of listed rows."""
        view, rows, count = self._controller.view, self._controller.rows, len(self._controller.listed_rows)
        parts = ["largest first" if view.by_size else "", view.filter.describe()]
        title = formatting.format_line(", ".join(filter(None, parts)))
        heads = self._screen.query_one(ColumnHeads)
        counts = (count, rows.listable_count) if title else None
        heads.show(title or "timeline", len(rows.first), counts, formatting.format_token_column(rows.token_table))
        heads.set_class(bool(title), "-filtered")

    def draw_panel(self) -> None:
        """Draw the policy's settings with the plan's outcome, trigger and first firing."""
        view, at = self._controller.view, self._controller.next_firing
        self._screen.query_one(ParameterPanel).show(view, next_firing=at, token_table=self._controller.token_table)
        self.draw_title()

    def draw_title(self) -> None:
        """Draw the title of the settings: the policy's name and as much of its description as fits."""
        view, width = self._controller.view, self._screen.size.width - 4
        number = view.listed_policies.index(view.policy) + 1
        title = f"applied: {view.policy}" if view.applied else format_policy_title(view.policy, number, width)
        if title != self._title:
            self._title = title
            self._screen.query_one("#tuning").border_title = Content(title)

    def _draw_rest(self) -> None:
        controller = self._controller
        view, rows = controller.view, controller.rows
        plan = view.plan
        self.draw_detail()
        token_table = controller.token_table
        scores = build_score_rows(view.listed_policies, view.try_plan, token_table)
        current = "" if view.applied else view.policy
        self._screen.query_one(Scoreboard).show(scores, current, token_table.name if token_table else "")
        first = min(view.context.order, default=0)
        self._screen.query_one(Minimap).show(lambda lines: build_map_segments(rows, plan, first, view.point, lines))
        self._screen.query_one(Legend).show_totals(format_mark_totals(rows, controller.marker))
        self.draw_visible_range()
        self._jobs.compute_context_sizes(view, controller.estimated_rows, partial(self._draw_sizes_of, view))
        self._jobs.find_firings(view, self._draw_firings)
        self.request_curve()
        self.draw_sizes()

    def _draw_firings(self) -> None:
        self.draw_panel()
        self.draw_status()

    def draw_visible_range(self) -> None:
        """Highlight the visible rows on the map, and explain their marks in the legend."""
        timeline = self._screen.query_one(Timeline)
        self._screen.query_one(Minimap).show_window(*timeline.visible_share)
        unit = formatting.format_token_column(self._controller.token_table)
        self._screen.query_one(Legend).show(timeline.find_visible_styles(), unit)

    def request_curve(self) -> None:
        """Start computing the curve for the selected setting in a thread, unless a plan is applied."""
        panel, view = self._screen.query_one(ParameterPanel), self._controller.view
        values = panel.curve_values
        if values and not view.applied:
            draw = partial(self._draw_curve, view, panel.selected_name, values)
            self._jobs.compute_curve(view, panel.selected_name, values, self._controller.token_table, draw)

    def _draw_curve(self, view: View, name: str, values: Sequence[Any], sizes: Sequence[int]) -> None:
        current = self._controller.view
        if (view.policy, view.context) == (current.policy, current.context):
            self._screen.query_one(ParameterPanel).show_curve(name, values, sizes)

    def _draw_sizes_of(self, view: View) -> None:
        current = self._controller.view
        if (view.session, view.point, view.measure) == (current.session, current.point, current.measure):
            self.draw_sizes()

    def draw_sizes(self) -> None:
        """Draw the sizes in the header, the breakdown and the status line."""
        controller, view, screen = self._controller, self._controller.view, self._screen
        sizes, progress = controller.analysis.get_context_sizes(view), controller.progress
        header = (view.context, sizes, view.session, progress, controller.token_table, controller.is_following)
        if header != self._header:
            self._header = header
            screen.query_one(HeaderBar).show(
                view.session,
                view.context,
                sizes.fullness if sizes else None,
                progress=progress,
                token_table=controller.token_table,
                following=controller.is_following,
            )
        if sizes and sizes.fullness and (warning := controller.collect_compaction_warning(sizes.fullness)):
            screen.notify(warning, markup=False, severity="warning", timeout=notices.NEWS_TIMEOUT_S)
            screen.app.bell()
        if sizes is not None:
            screen.query_one(BreakdownView).show(view.context, sizes, view.filter, controller.reader)
        self.draw_status()

    def draw_status(self) -> None:
        """Draw the status line: the notice and, until the view is changed, the next step and first keys to press."""
        controller, view, screen = self._controller, self._controller.view, self._screen
        width, is_low = screen.size.width - 2, screen.has_class("-low")
        step = keys = ""
        if controller.is_fresh and not is_low:
            options = controller.options
            settings = "" if options.policy or options.settings else format_settings(view.params)
            if not controller.is_following:
                step = notices.format_next_step(view, controller.next_firing, width // 2 if settings else width)
            keys = notices.format_key_hint(demo=options.demo, settings=settings, width=width - len(step) - 3)
        lines = 1 if is_low or keys else 2
        points = [] if view.at is None else controller.jump_points  # costly, and named only before a point
        text = notices.format_notice(view, points, width, controller.progress, lines)
        self.set_status(text, step, keys)

    def draw_detail(self) -> None:
        """Draw the selected row in full, or start a thread that reads it if its message is very large."""
        controller, selected_location = self._controller, self.location
        session, rows, reader = controller.view.session, controller.rows, controller.reader
        detail = self._screen.query_one(Detail)
        if not len(session):
            detail.show_loading(Content("nothing selected"), "")
            return
        location = selected_location._replace(block=max(selected_location.block, WHOLE_MESSAGE))
        kind = formatting.format_row_kind(session.facts, location.message, location.block)
        name = f"result of {reader.format_preview(*location)}" if location.block >= 0 else kind
        title = Content(f"{location.message}  {name}")
        if reader.is_huge(location.message) and not reader.is_cached(location.message):
            detail.show_loading(title, "reading the message…")
            self._jobs.read_blocks(reader, location.message, partial(self._draw_detail_of, reader, location.message))
            return
        row = rows.find_row(*location)
        tokens = rows.tokens[row] if row < len(rows) and rows.block[row] >= WHOLE_MESSAGE else 0
        source = self._build_document_source(selected_location, location)
        subtitle = Content(f"{formatting.format_token_unit(rows.token_table)} {format_count(tokens, 'token')}")
        detail.show_document(source, title, subtitle)

    def _draw_detail_of(self, reader: formatting.MessageReader, message: int) -> None:
        if reader is self._controller.reader and message == self.location.message:
            self.draw_detail()

    def _build_document_source(self, selected_location: Location, location: Location) -> DocumentSource:
        controller, rows = self._controller, self._controller.rows
        view, session = controller.view, controller.view.session
        marker = None if controller.is_reading else controller.marker
        details = (format_event_details(session.facts, event) for event in rows.find_events(location.message))
        events = tuple(chain.from_iterable(details))
        if selected_location.block == TURN_HEAD:
            turns = TurnSummaries(rows, marker)
            events = (*events, turns.get_summary(rows.find_turn_of_message(selected_location.message)).format_summary())
        return DocumentSource(
            session,
            location,
            controller.reader.read_blocks(location.message),
            marker.find_mark(*location) if marker else NO_MARK,
            view.plan,
            describe_request(session, location),
            self._format_runtime_sizes(location) if location.block < 0 else "",
            events,
            token_table=rows.token_table,
        )

    def _format_runtime_sizes(self, location: Location) -> str:
        """Format the size that the runtime assumed before a message, or start computing it and return ""."""
        session, sizes = self._controller.view.session, self._controller.analysis.runtime_sizes
        if sizes is not None and sizes.covers(session, location.message):
            return sizes.format_size(location.message)
        if not self._controller.is_reading:
            self._jobs.compute_runtime_sizes(session, self.draw_detail)
        return ""

    def set_status(self, text: str, step: str = "", keys: str = "") -> None:
        """Show *text* in the status line above the timeline, below the next *step* and the first *keys* if given."""
        self._screen.query_one(StatusLine).show(text, step, keys)
