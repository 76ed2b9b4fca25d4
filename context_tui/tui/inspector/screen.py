"""The inspector: one session and one plan as an immutable view, drawn by every widget and replaced by every key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from textual import events, on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingsMap
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static
from textual.worker import Worker

from context_tui.app.config import ConfigError, SavedSettings, save_settings
from context_tui.app.state import InspectorState
from context_tui.errors import Error
from context_tui.library.overview import find_subagent_sessions
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import LISTED_POLICIES, POLICIES, PRESETS
from context_tui.session.session import Session, SessionInfo
from context_tui.text.sanitize import make_visible
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.drafts import Drafts
from context_tui.tui.inspector import notices
from context_tui.tui.inspector.breakdown import BreakdownView
from context_tui.tui.inspector.filter_counts import FilterCounts, find_possible_verdicts
from context_tui.tui.inspector.filter_screen import FilterChoice, FilterScreen, build_filter_lines
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.keys import HELP_NOTES, build_bindings, build_full_screen, format_unknown_keys
from context_tui.tui.inspector.mark_totals import format_mark_totals
from context_tui.tui.inspector.minimap import Minimap, build_map_segments
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.inspector.scoreboard import Scoreboard, build_score_rows, format_policy_title
from context_tui.tui.inspector.search_bar import SearchBar
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads, Legend, StatusLine
from context_tui.tui.inspector.workers import (
    BlocksRead,
    ContextSizesComputed,
    CurveComputed,
    FiringsComputed,
    InspectorWorkers,
    MeasureComputed,
    RuntimeSizesComputed,
    SearchReported,
    SessionRead,
)
from context_tui.tui.loading import ReadFailure
from context_tui.tui.reader.detail import Detail
from context_tui.tui.reader.document import DocumentSource, describe_request
from context_tui.tui.rendering.formatting import (
    format_line,
    format_row_kind,
    format_token_column,
    format_token_unit,
    pluralize,
)
from context_tui.tui.threads import format_worker_error
from context_tui.tui.timeline.context_events import format_event_details
from context_tui.tui.timeline.marks import NO_MARK
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, Location
from context_tui.tui.timeline.turns import TurnSummaries
from context_tui.tui.view import (
    MAX_POLICY_DIGIT,
    View,
    build_inspector_state,
    format_policy_digits,
    format_policy_tooltip,
    format_settings,
)
from context_tui.tui.widgets.dialogs import (
    ChoicePrompt,
    build_message_prompt,
    build_name_prompt,
    build_quit_prompt,
    build_unchanged_prompt,
    build_window_prompt,
    parse_message_number,
    parse_window_tokens,
)
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.help import HelpScreen

if TYPE_CHECKING:
    from context_tui.tui.options import InspectorOptions


Result = TypeVar("Result")

REST_DELAY_S, DETAIL_DELAY_S = 0.04, 0.08
"""Seconds after the last change, and the last move, until the rest is drawn: a held key moves only the timeline."""
NEWS_TIMEOUT_S = 12
"""Seconds for which it is said what happened in a followed session."""


class InspectorScreen(Screen[None]):
    """Shows a session; the keys change the view, and the view is shown."""

    AUTO_FOCUS = "Timeline"
    BINDING_GROUP_TITLE = "Session"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    @dataclass
    class SubagentsRequested(Message):
        """The sub-agents that a message called are to be shown."""

        infos: list[SessionInfo]
        screen: InspectorScreen

    class BackRequested(Message):
        """There is nothing left to close here."""

    def __init__(self, target: Session | SessionInfo, options: InspectorOptions, drafts: Drafts | None = None) -> None:
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(build_bindings(LISTED_POLICIES)), self._bindings])
        self.controller, self.options = Controller(target, options), options
        self.drafts = Drafts() if drafts is None else drafts
        self.jobs = InspectorWorkers(self, self.controller.analysis)
        self._has_notification = False
        self._search_number = 0  # the number of the search that was started last
        self._header: object = None
        self._follow_first = self.options.follow
        self._title = ""
        self._rest_timer: Timer | None = None
        self._detail_timer: Timer | None = None
        self._focus_before: Widget | None = None

    @property
    def view(self) -> View:
        """What is shown."""
        return self.controller.view

    @property
    def saved_state(self) -> InspectorState:
        """What is kept for the next time, also while the screen is being opened."""
        side = self.query(ContentSwitcher)
        breakdown = side.first().current == "breakdown" if side else self.options.last_state.breakdown
        return build_inspector_state(self.view, breakdown=breakdown)

    def compose(self) -> ComposeResult:
        """Header, status, timeline with its map, detail, tuning, footer."""
        plain = self.options.ascii
        yield HeaderBar(ascii=plain, id="header")
        yield StatusLine(id="status")
        with Horizontal(id="middle"):
            with Vertical(id="left"):
                yield ColumnHeads(id="columns")
                with Horizontal(id="lines"):
                    yield Timeline(id="timeline")
                    yield Minimap(id="minimap")
                yield Legend(id="legend")
                yield SearchBar(id="search")
            with ContentSwitcher(initial="breakdown" if self.options.last_state.breakdown else "detail", id="side"):
                yield Detail(id="detail")
                yield BreakdownView(ascii=plain, id="breakdown")
        with Horizontal(id="tuning"):
            yield Scoreboard(self.action_policy, ascii=plain, id="scoreboard")
            yield ParameterPanel(self.change_setting, ascii=plain, id="panel")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="tiny", markup=False)

    def on_mount(self) -> None:
        """Show the session, or start to read it."""
        self.set_class(self.options.last_state.breakdown, "-parts")
        if wrong := format_unknown_keys(self.options.keys):
            self.show_notification(wrong, warn=True)
        loading = self.controller.loader
        if loading is None:
            self.controller.open_session(self.view.session)
            self.draw()
        else:
            self.controller.start_reading()
            self.query_one(ColumnHeads).show("timeline", 0)
            self.query_one(HeaderBar).show(self.view.session, self.view.context, progress=0.0)
            self.set_status(notices.format_reading(self.view.session, 0.0))
            self.call_after_refresh(self.jobs.read_session, loading)  # the first paint comes first

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room; what had the focus gets it back."""
        tiny = event.size.width < 60 or event.size.height < 20
        if tiny and not self.has_class("-tiny"):
            self._focus_before = self.focused  # what is hidden loses it
        self.set_class(tiny, "-tiny")
        if not tiny:
            self.call_after_refresh(self._restore_focus)
        if self.query_one(ParameterPanel).policy:
            self.call_after_refresh(self._draw_title)
        if len(self.view.session) and not self.controller.is_reading:
            self.call_after_refresh(self._draw_sizes)  # in the words that there is room for

    def on_screen_suspend(self) -> None:
        """A dialog is not covered by what was said before."""
        if self.app.screen.is_modal:
            self.dismiss_notification()

    def _restore_focus(self) -> None:
        """What had the focus before has it; the timeline where there is no room for that."""
        wanted, self._focus_before = self._focus_before or self.focused, None
        self.set_focus(wanted if wanted in self.focus_chain else self.query_one(Timeline))

    @property
    def location(self) -> Location:
        """What is selected; where nothing is listed, what was before."""
        timeline = self.query_one(Timeline)
        return timeline.location if timeline.listed_count else self.view.cursor

    def run_command(self, command: Callable[..., Result], *arguments: Any) -> Result | None:
        """Carry out a command on what is on screen, and show what came of it; one that is refused says why.

        Returns:
            What the command returns; None where it was refused.
        """
        controller, timeline = self.controller, self.query_one(Timeline)
        controller.move_cursor(self.location)
        revision, result = controller.revision, None
        try:
            result = command(*arguments)
        except CommandRefused as why:
            self.show_notification(str(why), warn=why.warn)
        if controller.revision != revision:
            self.draw()
        elif self.view.cursor != timeline.location:
            timeline.select_location(self.view.cursor)
        return result

    # Reading

    @on(SessionRead)
    def _show_read(self, event: SessionRead) -> None:
        """Show what has been read so far, or say why there is nothing to show."""
        read, controller, timeline = event.report, self.controller, self.query_one(Timeline)
        if isinstance(read, ReadFailure):
            controller.fail_reading()
            self.set_status(read.reason)
            self.show_notification(read.reason, warn=True)
            return
        controller.move_cursor(self.location)
        fired = bool(self.view.plan and self.view.plan.trigger.fires)
        controller.update_session(read)
        if read.is_end:
            self.draw()
            if controller.is_following:
                self._show_news(fired)
            elif self._follow_first:
                self._follow_first = False
                self.action_follow()
            return
        timeline.update_rows(controller.rows, controller.reader, controller.listed_rows)
        self._draw_frame()
        self.set_status(notices.format_reading(read.session, read.progress))
        self.query_one(HeaderBar).show_progress(read.progress, len(read.session))
        if self.query_one(Detail).location is None:
            self.draw_detail()

    @on(Worker.StateChanged)
    def _handle_worker_state(self, event: Worker.StateChanged) -> None:
        """A defect in a thread is told; the rest goes on."""
        if words := format_worker_error(event):
            self.show_notification(words, warn=True)

    def _show_news(self, has_fired: bool) -> None:
        """Say what happened in the followed session, and that the trigger of the policy fires where it did not."""
        view, happened = self.view, self.controller.collect_news()
        if view.plan and view.plan.trigger.fires and not has_fired and not view.applied:
            happened.append(f"{view.policy} fires now: {view.plan.trigger.reason}")
        for text in happened:  # it stays while more is read
            self.notify(make_visible(text), markup=False, timeout=NEWS_TIMEOUT_S)

    def action_follow(self) -> None:
        """Follow the session as it is written, or do so no longer."""
        loading = self.run_command(self.controller.toggle_following)
        if loading is not None:
            self.jobs.follow(loading)
            self.show_notification("Following the session as it is written; F ends that")
        elif not self.controller.is_following:
            self.jobs.cancel("follow")
        self._header = None
        self._draw_sizes()

    def action_read_on(self) -> None:
        """Go on with reading where it was stopped."""
        if loading := self.run_command(self.controller.resume_reading):
            self.set_status(notices.format_reading(self.view.session, self.controller.progress))
            self._draw_timeline()  # without the marks of what it was planned for
            self.jobs.read_session(loading)

    # Showing the view

    def draw(self) -> None:
        """Draw the view: the timeline and the panel at once, the rest as soon as nothing more urgent comes."""
        self.dismiss_notification()
        if self.controller.search.number != self._search_number:
            self._start_search()
        self._draw_timeline()
        self._draw_panel()
        self._rest_timer = self._restart_timer(self._rest_timer, REST_DELAY_S, self._draw_rest)

    def _restart_timer(self, timer: Timer | None, seconds: float, draw: Callable[[], None]) -> Timer:
        """Draw once nothing has asked for it again for so many seconds."""
        if timer is not None:
            timer.stop()
        return self.set_timer(seconds, draw)

    def _draw_timeline(self) -> None:
        view, controller = self.view, self.controller
        marker = None if controller.is_reading else controller.marker
        nothing = format_line(view.filter.format_no_match(view.policy)) if view.filter else ""
        self.query_one(Timeline).show(
            controller.rows, controller.reader, marker, controller.listed_rows, view.cursor, nothing
        )
        self._draw_frame()

    def _draw_frame(self) -> None:
        """Say above the timeline what of it is listed, where that is not all."""
        view, rows, count = self.view, self.controller.rows, len(self.controller.listed_rows)
        title = format_line(", ".join(filter(None, ["largest first" if view.by_size else "", view.filter.describe()])))
        heads = self.query_one(ColumnHeads)
        heads.show(
            title or "timeline",
            len(rows.first),
            (count, rows.listable_count) if title else None,
            format_token_column(rows.token_table),
        )
        heads.set_class(bool(title), "-filtered")

    def _draw_panel(self) -> None:
        view, fires = self.view, self.controller.analysis.get_firings(self.view)
        first = None if fires is None else fires.points[0] if fires.points else -1
        self.query_one(ParameterPanel).show(
            view.policy,
            view.policy_params,
            view.context,
            view.runtime_state,
            view.plan,
            first=first,
            plan_error=view.plan_error,
            applied=view.applied.summary if view.applied else "",
            token_table=self.controller.token_table,
        )
        self._draw_title()

    def _draw_title(self) -> None:
        """Say which policy it is, in the width there is."""
        view, width = self.view, self.size.width - 4
        title = f"applied: {view.policy}" if view.applied else format_policy_title(view.policy, width)
        if title != self._title:
            self._title = title
            self.query_one("#tuning").border_title = Content(title)

    def _draw_rest(self) -> None:
        view, rows, plan = self.view, self.controller.rows, self.view.plan
        self.draw_detail()
        sizes = self.controller.token_table
        scores = build_score_rows(view.get_plan, view.get_plan_error, sizes, view.policy)
        self.query_one(Scoreboard).show(scores, "" if view.applied else view.policy, sizes.name if sizes else "")
        first = min(view.context.order, default=0)
        self.query_one(Minimap).show(lambda lines: build_map_segments(rows, plan, first, view.point, lines))
        self.query_one(Legend).show_totals(format_mark_totals(rows, self.controller.marker))
        self._show_visible_range()
        self.jobs.compute_context_sizes(view, self.controller.estimated_rows)
        self.jobs.find_firings(view)
        self._request_curve()
        self._draw_sizes()

    @on(Timeline.Scrolled)
    def _show_visible_range(self) -> None:
        """Show on the map what is in sight, and explain its marks."""
        timeline = self.query_one(Timeline)
        self.query_one(Minimap).show_window(*timeline.visible_share)
        self.query_one(Legend).show(timeline.find_visible_styles(), format_token_column(self.controller.token_table))

    def _request_curve(self) -> None:
        panel = self.query_one(ParameterPanel)
        values = panel.curve_values(panel.selected) if panel.selected and not self.view.applied else []
        if values:
            self.jobs.compute_curve(self.view, panel.selected, values)

    def _draw_sizes(self) -> None:
        """Show the sizes of the context wherever they are told: header, breakdown, status."""
        controller, view = self.controller, self.view
        sizes, progress = controller.analysis.get_context_sizes(view), controller.progress
        ruler = controller.token_table
        header = (view.context, sizes, view.session, progress, ruler)
        if header != self._header:
            self._header = header
            parts = sizes.breakdown.by_category if sizes else None
            self.query_one(HeaderBar).show(
                view.session,
                view.context,
                parts,
                progress=progress,
                token_table=ruler,
                following=controller.is_following,
            )
        if sizes is not None:
            self.query_one(BreakdownView).show(view.context, sizes, view.filter, controller.reader)
        fit, width, lines = (
            sizes.estimate_check if sizes else None,
            self.size.width - 2,
            1 if self.has_class("-low") else 2,
        )
        text = notices.format_notice(view, controller.jump_points, fit, width, progress, lines)
        kept = "" if self.options.policy or self.options.settings else format_settings(view.params)
        hint = notices.format_key_hint(
            format_policy_digits(len(LISTED_POLICIES)), demo=self.options.demo, settings=kept, width=width
        )
        hint = hint if controller.is_fresh and not text and not self.has_class("-low") else ""
        self.set_status(text or hint, hint=bool(hint))

    def draw_detail(self) -> None:
        """Show the selected row in full."""
        detail, here, facts = self.query_one(Detail), self.location, self.view.session.facts
        rows, reader = self.controller.rows, self.controller.reader
        marker = None if self.controller.is_reading else self.controller.marker
        location = here._replace(block=max(here.block, WHOLE_MESSAGE))
        if not len(self.view.session):
            detail.show_loading(Content("nothing selected"), "")
            return
        word = format_row_kind(facts, location.message, location.block)
        name = f"result of {reader.format_preview(*location)}" if location.block >= 0 else word
        title = Content(f"{location.message}  {name}")
        if reader.is_huge(location.message) and not reader.is_cached(location.message):
            detail.show_loading(title, "reading the message…")
            self.jobs.read_blocks(reader, location)
            return
        row = rows.find_row(*location)
        tokens = rows.tokens[row] if row < len(rows) and rows.block[row] >= WHOLE_MESSAGE else 0
        mark = marker.find_mark(*location) if marker else NO_MARK
        note = describe_request(self.view.session, location)
        happened = tuple(
            text for event in rows.find_events(location.message) for text in format_event_details(facts, event)
        )
        if here.block == TURN_HEAD:
            turns = TurnSummaries(rows, marker)
            happened = (*happened, turns.get_summary(rows.find_turn_of_message(here.message)).format_summary())
        blocks = reader.read_blocks(location.message)
        belief = self._format_runtime_sizes(location) if location.block < 0 else ""
        subject = DocumentSource(self.view.session, location, blocks, mark, self.view.plan, note, belief, happened)
        subject = replace(subject, token_table=rows.token_table)
        detail.show_document(
            subject, title, Content(f"{format_token_unit(rows.token_table)} {pluralize(tokens, 'token')}")
        )

    def _format_runtime_sizes(self, location: Location) -> str:
        """What the runtimes believed before a message; empty until that is known."""
        sizes = self.controller.analysis.get_runtime_sizes(self.view.session, location.message)
        if sizes is None and not self.controller.is_reading:
            self.jobs.compute_runtime_sizes(self.view.session)
        return sizes.format_sizes(location.message) if sizes else ""

    def set_status(self, text: str, *, hint: bool = False) -> None:
        """Say something in the line above the timeline."""
        self.query_one(StatusLine).show(text, hint=hint)

    def show_notification(self, text: str, *, warn: bool = False) -> None:
        """Notify in passing, in place of what was there before; nothing in it is taken for markup."""
        self.dismiss_notification()
        self._has_notification = True
        self.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    def dismiss_notification(self) -> None:
        """Take back the notification: it was about a view that is not on screen any more."""
        if self._has_notification:
            self._has_notification = False
            self.app.clear_notifications()

    # What was computed

    @on(FiringsComputed)
    def _show_firings(self) -> None:
        self._draw_panel()

    @on(ContextSizesComputed)
    def _show_sizes(self, event: ContextSizesComputed) -> None:
        now = self.view
        if event.view.session is now.session and (event.view.point, event.view.measure) == (now.point, now.measure):
            self._draw_sizes()

    @on(MeasureComputed)
    def _show_measure(self, event: MeasureComputed) -> None:
        if event.view.session is self.view.session and event.view.measure is self.view.measure:
            said = self.run_command(self.controller.finish_measuring, event.error)
            if said:
                self.show_notification(said, warn=bool(event.error))

    @on(CurveComputed)
    def _show_curve(self, event: CurveComputed) -> None:
        if event.view.policy == self.view.policy and event.view.context is self.view.context:
            self.query_one(ParameterPanel).show_curve(event.name, event.values, event.tokens_after)

    @on(RuntimeSizesComputed)
    def _show_runtime_sizes(self, event: RuntimeSizesComputed) -> None:
        if event.session is self.view.session:
            self.draw_detail()

    @on(BlocksRead)
    def _show_blocks(self, event: BlocksRead) -> None:
        if event.reader is self.controller.reader and event.location.message == self.location.message:
            self.draw_detail()

    # The timeline, the map, the detail

    @on(Timeline.Moved)
    def _handle_moved(self, event: Timeline.Moved) -> None:
        self.controller.has_moved_cursor = self.controller.has_moved_cursor or self.query_one(Timeline).has_focus
        self.jobs.last_input_at = time.monotonic()
        self.controller.search.pending_step = 0
        self.controller.move_cursor(event.location)
        self._detail_timer = self._restart_timer(self._detail_timer, DETAIL_DELAY_S, self.draw_detail)

    @on(Timeline.Entered)
    @on(Detail.Entered)
    def _handle_entered(self, event: Timeline.Entered | Detail.Entered) -> None:
        """From a call to its sub-agent, or to its result and back; heads of turns fold or open; other rows are read."""
        if event.location.block == TURN_HEAD:
            self.action_fold()
            return
        if event.location.block < 0 and self._open_subagents(event.location.message):
            return
        other = self.view.find_counterpart(event.location)
        if other is not None:
            self.go_to(other)
        elif isinstance(event, Timeline.Entered):
            self.open_detail()

    def _open_subagents(self, message: int) -> bool:
        """Open the sub-agents that a message called; whether it is known which they are, and they are here."""
        if message >= len(self.view.session):
            return False
        try:
            infos = find_subagent_sessions(self.view.session, message)
        except Error as error:
            self.show_notification(str(error), warn=True)
            return False
        if infos:
            self.post_message(self.SubagentsRequested(infos, self))
        return bool(infos)

    @on(Timeline.Opened)
    def open_detail(self) -> None:
        """Read the selected row in full."""
        self._show_side("detail")
        self.add_class("-reading")
        self.draw_detail()
        self.query_one(Detail).focus()

    @on(Detail.Closed)
    def close_detail(self) -> None:
        """Back to the timeline."""
        self.remove_class("-reading")
        self.query_one(Timeline).focus()

    @on(Minimap.Clicked)
    def _handle_map_click(self, event: Minimap.Clicked) -> None:
        self.query_one(Timeline).select_share(event.share)

    @on(HeaderBar.RequestClicked)
    def _handle_header_click(self, event: HeaderBar.RequestClicked) -> None:
        self.run_command(self.controller.plan_before, event.message)

    def go_to(self, location: Location) -> None:
        """Select a location, and say so where rows are listed for it that were not."""
        if said := self.run_command(self.controller.select_location, location):
            self.show_notification(said)

    def action_turn(self, step: int) -> None:
        """Go to the head of another turn."""
        self.run_command(self.controller.move_to_turn, step)

    def action_fold(self) -> None:
        """Fold the turn of the selected row to its head, or open it."""
        self._show_turn(self.run_command(self.controller.toggle_fold))

    def action_fold_all(self) -> None:
        """Fold all turns to their heads; open all where all are."""
        self._show_turn(self.run_command(self.controller.toggle_all_folds))

    def _show_turn(self, rows: range | None) -> None:
        if rows:
            self.query_one(Timeline).scroll_to_rows(rows)

    @work
    async def action_go_to(self) -> None:
        """Ask for a message to go to."""
        last = len(self.view.session) - 1
        if last < 0:
            self.show_notification("No messages in this session")
            return
        answer = await self.app.push_screen_wait(build_message_prompt(last))
        if answer:
            self.go_to(Location(parse_message_number(answer, last)))

    def action_pane(self, step: int) -> None:
        """Go to another pane."""
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    # The point

    def action_as_of(self) -> None:
        """Plan before the selected message, or at the end again."""
        self.run_command(self.controller.toggle_point)

    def action_jump(self, step: int) -> None:
        """Plan as of the next or previous point of interest."""
        self.run_command(self.controller.move_to_jump_point, step)

    def action_compaction(self, step: int) -> None:
        """Plan as of the next or previous recorded compaction."""
        self.run_command(self.controller.move_to_compaction, step)

    def action_changed(self, step: int) -> None:
        """Go to the next or previous row that the plan changes, or that was changed when it was applied."""
        self.run_command(self.controller.move_to_changed, step)

    # Policies and their settings

    def action_policy(self, name: str) -> None:
        """Choose a policy."""
        self.run_command(self.controller.choose_policy, name)

    def action_next_policy(self) -> None:
        """Choose the policy after the chosen one, around the end."""
        names = LISTED_POLICIES.list_names_with(self.view.policy)
        self.run_command(self.controller.choose_policy, names[(names.index(self.view.policy) + 1) % len(names)])

    def commands(self) -> Iterable[SystemCommand]:
        """The policies that no digit chooses and the sweep, for the command palette."""
        sweep = "Sweep: Sweep settings of the policy along the run: which of them nothing beats"
        yield SystemCommand(sweep, "No key", partial(self.action_full_screen, "sweep"))
        for name in (*islice(LISTED_POLICIES, MAX_POLICY_DIGIT, None), *PRESETS):
            policy = POLICIES[name]
            choose = partial(self.action_policy, name)
            yield SystemCommand(f"Policy: {name}: {format_policy_tooltip(name, policy)}", "No key", choose)

    def change_setting(self, policy: str, name: str, value: Any) -> None:
        """Give a setting of a policy another value."""
        self.run_command(self.controller.set_param, policy, name, value)

    @on(ParameterPanel.Selected)
    def _handle_setting_selected(self) -> None:
        self._request_curve()

    def action_value(self, step: int) -> None:
        """Change the selected setting by steps."""
        if self._require_visible_settings():
            self.query_one(ParameterPanel).rows.action_step(step)

    def action_type(self) -> None:
        """Type a value for the selected setting."""
        if self._require_visible_settings():
            rows = self.query_one(ParameterPanel).rows
            rows.focus()
            rows.action_type()

    def _require_visible_settings(self) -> bool:
        """Whether the settings are on screen; says so where they are not."""
        shown = self.query_one("#tuning").display
        if not shown:
            self.show_notification("The settings are not in sight; press esc first")
        return shown

    @work
    async def action_save_settings(self) -> None:
        """Save the settings of the policy under a name that ``-P`` takes."""
        policy = self.view.policy
        saved = SavedSettings(policy, tuple(format_assignments(self.view.get_settings(policy))))
        name = await self.app.push_screen_wait(build_name_prompt(policy, list(POLICIES)))
        if name is None:
            return
        name = name.strip()
        try:
            path = save_settings(name, saved)
        except ConfigError as error:
            self.show_notification(str(error), warn=True)
        else:
            self.show_notification(f"Saved: -P {name} ({path})")

    def action_ruler(self) -> None:
        """Measure sizes by the next ruler."""
        self.run_command(self.controller.cycle_measure)

    @work
    async def action_window(self) -> None:
        """Ask for the size of the window."""
        answer = await self.app.push_screen_wait(build_window_prompt(self.view.window))
        if answer is not None:
            self.run_command(self.controller.set_window, parse_window_tokens(answer))

    def action_mark(self) -> None:
        """Mark the selected result to be cleared by hand, or no longer."""
        self.run_command(self.controller.toggle_mark)

    def action_cut(self) -> None:
        """Mark a cut before the selected message, or take it away."""
        self.run_command(self.controller.toggle_cut)

    # What is listed, and where it went

    def action_filter(self) -> None:
        """Choose what is listed."""
        view, rows, marker = self.view, self.controller.rows, self.controller.build_filter_marker()
        verdicts = find_possible_verdicts(marker, len(rows.first))
        lines = list(
            build_filter_lines(view.session.facts, view.filter, verdicts, view.policy, applied=bool(view.applied))
        )
        counts = FilterCounts(rows, marker, view.filter.path)
        self.app.push_screen(FilterScreen(lines, counts, view.filter, ascii=self.options.ascii), self._apply_filter)

    def _apply_filter(self, choice: FilterChoice | None) -> None:
        if choice is not None:
            self.run_command(self.controller.toggle_filter, *choice)

    def action_sort(self) -> None:
        """Largest first, or in the order of the file."""
        self.run_command(self.controller.toggle_sort)

    def action_unfilter(self) -> None:
        """List everything again."""
        self.run_command(self.controller.clear_filter)

    def action_breakdown(self) -> None:
        """Show where the context went, or the message again."""
        behind = self.has_class("-narrow") and not self.has_class("-reading")
        if self.query_one(ContentSwitcher).current == "breakdown" and not behind:
            self._show_side("detail")
            self.close_detail()
        else:
            self._show_side("breakdown")
            self.add_class("-reading")
            self.query_one(BreakdownView).focus()

    def _show_side(self, name: str) -> None:
        """Show the detail or the breakdown, whose bars take more room."""
        self.query_one(ContentSwitcher).current = name
        self.set_class(name == "breakdown", "-parts")

    @on(BreakdownView.FilterRequested)
    def _handle_breakdown_filter(self, event: BreakdownView.FilterRequested) -> None:
        self.run_command(self.controller.toggle_part_filter, event.kind, event.value)
        self._close_covering_breakdown()

    @on(BreakdownView.MessageRequested)
    def _handle_breakdown_message(self, event: BreakdownView.MessageRequested) -> None:
        self.go_to(Location(event.message, event.block))
        self._close_covering_breakdown()

    def _close_covering_breakdown(self) -> None:
        """Close the breakdown where the timeline is hidden behind it."""
        if self.has_class("-narrow"):
            self._show_side("detail")
            self.close_detail()

    @on(ColumnHeads.Cleared)
    def _handle_filter_cleared(self) -> None:
        self.action_unfilter()

    # Searching

    def action_search(self) -> None:
        """Ask for a text."""
        self.query_one(SearchBar).open()

    @on(SearchBar.QueryChanged)
    def _handle_query_changed(self, event: SearchBar.QueryChanged) -> None:
        self.query_one(Detail).set_search_text("")
        self.controller.search.start(self.view.session, event.text)
        self._start_search()

    def _start_search(self) -> None:
        """Look for what is wanted now, in place of what was looked for before."""
        search = self.controller.search
        self._search_number = search.number
        self.query_one(Timeline).show_matches(frozenset())
        self.query_one(SearchBar).show_count("")
        self.jobs.cancel("search")
        if search.text:
            self.jobs.search(self.view.session, search.text, search.number)

    @on(SearchReported)
    def _handle_search_report(self, event: SearchReported) -> None:
        search = self.controller.search
        if search.update(event.report):
            self.query_one(Timeline).show_matches(frozenset(search.locations))
            self.query_one(SearchBar).show_count(self.controller.match_count_text)
            if search.pending_step and (search.locations or search.is_finished):
                self.action_match(search.pending_step)

    @on(SearchBar.QuerySubmitted)
    def _handle_query_submitted(self) -> None:
        self.query_one(Timeline).focus()
        self.action_match(1)

    @on(SearchBar.StepRequested)
    def _handle_search_step(self, event: SearchBar.StepRequested) -> None:
        self.action_match(event.step)

    @on(SearchBar.Closed)
    def _handle_search_closed(self) -> None:
        self.query_one(Timeline).focus()

    def action_match(self, step: int) -> None:
        """Go to the next or previous match, or once there is one to the first that is found."""
        if self.run_command(self.controller.move_to_match, step):
            self.query_one(Detail).set_search_text(self.controller.search.text)
            self.query_one(SearchBar).show_count(self.controller.match_count_text)

    # Applying, undoing, exporting

    @work
    async def action_apply(self) -> None:
        """Carry the plan out; its screen shows what it does and takes the summary."""
        await self._apply()

    async def _apply(self) -> None:
        plan = self.run_command(self.controller.get_applicable_plan)
        if plan is None:
            return
        from context_tui.tui.apply import ApplyScreen

        screen = ApplyScreen(self.view.session, plan, drafts=self.drafts)
        after: Session | None = await self.app.push_screen_wait(screen)
        if after is not None and after is not self.view.session:
            self.run_command(self.controller.show_applied_copy, plan, after)
            if not self.query_one("#left").display:
                self.close_detail()  # what was done is told beside the timeline

    def action_undo(self) -> None:
        """Go back to before the last applied plan."""
        if said := self.run_command(self.controller.undo):
            self.show_notification(said)

    def action_redo(self) -> None:
        """Do again what was undone."""
        self.run_command(self.controller.redo)

    @work
    async def action_export(self) -> None:
        """Write the session, or what was made of it, to a file."""
        if self.run_command(self.controller.get_exportable_session):
            await self._export()

    async def _export(self) -> bool:
        from context_tui.tui.export.screen import ExportScreen

        if not self.view.session.origin:
            plan = self.view.plan
            answer = await self.app.push_screen_wait(build_unchanged_prompt(bool(plan and plan.has_changes)))
            if answer == "apply":
                await self._apply()
            if answer is None or (answer == "apply" and not self.view.session.origin):
                return False
        done = await self.app.push_screen_wait(ExportScreen(self.view.session))
        if done is not None:
            self.controller.mark_exported()
        return done is not None

    def action_raw(self) -> None:
        """Show the message as it was written, or rendered."""
        if not self.query_one("#side").display:
            self.show_notification("No message is open; press space to read the selected one")
        else:
            self.query_one(Detail).toggle_raw()

    def action_copy(self) -> None:
        """Copy the selected message, or on the settings the command."""
        on_settings = self.query_one(ParameterPanel).has_focus_within
        text = self.run_command(self.controller.format_command if on_settings else self.controller.format_selected_text)
        if text is not None:
            self.app.copy_to_clipboard(text)

    # Other screens, and the way out

    def action_help(self) -> None:
        """List all keys."""
        panel = self.query_one(ParameterPanel)
        panes = [self, self.query_one(Timeline), panel.rows, self.query_one(BreakdownView)]
        self.app.push_screen(HelpScreen(panes, notes=HELP_NOTES))

    def action_full_screen(self, name: str) -> None:
        """Open a view that takes the whole screen."""
        screen = self.run_command(build_full_screen, name, self.controller)
        if screen is not None:
            self.app.push_screen(screen, self._handle_full_screen_closed)

    def _handle_full_screen_closed(self, command: Callable[[], str] | None) -> None:
        """Carry out what a view that took the whole screen closed with, and say what came of it."""
        if command is not None and (said := self.run_command(command)):
            self.show_notification(said)

    def action_back(self) -> None:
        """Stop what is going on, or close what is open: one thing for each press."""
        bar = self.query_one(SearchBar)
        if self.controller.is_reading:
            self.jobs.cancel("read")
        elif bar.display:
            bar.action_close()
        elif self.controller.is_limited and self.query_one(Timeline).has_focus:
            self.action_unfilter()
        elif self.has_class("-reading") or self.query_one(ContentSwitcher).current == "breakdown":
            self._show_side("detail")
            self.close_detail()
        elif self.controller.is_limited:
            self.action_unfilter()
        elif self.view.at is not None:
            self.run_command(self.controller.toggle_point)
        elif not self.query_one(Timeline).has_focus:
            self.query_one(Timeline).focus()
        else:
            self.post_message(self.BackRequested())

    async def action_sessions(self) -> None:
        """Choose another session."""
        await self.run_action("app.sessions")

    @work
    async def action_leave(self) -> None:
        """Leave; ask when a result or a draft would be lost, here or in a session that this one was opened from."""
        drafts = self.drafts.unaccepted_count
        for screen in reversed(self.app.screen_stack):
            if isinstance(screen, InspectorScreen):
                unexported = screen.view.is_unexported
                prompt = build_quit_prompt(unexported, drafts) if unexported or drafts else None
                if prompt is not None and not await screen.confirm_close(prompt):
                    return
                drafts = 0  # they are the application's, and asked about once
        self.app.exit()

    async def confirm_close(self, prompt: ChoicePrompt) -> bool:
        """Whether the session may be closed, as *prompt* is answered; what is to be exported first is."""
        answer = await self.app.push_screen_wait(prompt)
        return await self._export() if answer == "export" else answer == "quit"
