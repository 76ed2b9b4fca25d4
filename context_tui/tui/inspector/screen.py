"""Inspector screen: an immutable view of one session and its plan, which the user's commands replace."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingsMap, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from context_tui.app.state import InspectorState
from context_tui.session.session import Session, SessionInfo
from context_tui.text.sanitize import make_visible, sanitize
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.drafts import Drafts
from context_tui.tui.early_answer import EarlyAnswer
from context_tui.tui.inspector import dialogs, notices
from context_tui.tui.inspector.breakdown import BreakdownView
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.minimap import Minimap
from context_tui.tui.inspector.panes import InspectorPanes
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.inspector.scoreboard import Scoreboard
from context_tui.tui.inspector.search_bar import SearchBar
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads, Legend, StatusLine
from context_tui.tui.inspector.workers import InspectorWorkers
from context_tui.tui.loading import ReadFailure, SessionSnapshot
from context_tui.tui.options import InspectorOptions
from context_tui.tui.reader.detail import Detail
from context_tui.tui.threads import WorkErrorHandler
from context_tui.tui.timeline.rows import TURN_HEAD, Location
from context_tui.tui.view import View, build_inspector_state
from context_tui.tui.widgets.bindings import KeyFooter, build_policy_bindings, read_bindings
from context_tui.tui.widgets.text_screen import HELP_NOTES

Result = TypeVar("Result")

FULL_SCREENS = {
    "replay": ("replay.screen", "build_screen"),
    "sweep": ("sweep.screen", "build_screen"),
    "compactions": ("compactions.screen", "build_screen"),
    "calibration": ("inspector.calibration", "build_screen"),
    "problems": ("inspector.records", "build_problems_screen"),
    "request": ("inspector.records", "build_request_screen"),
}
"""Module and builder function of each full screen for the session, keyed by its name in ``keys.toml``."""


class InspectorScreen(WorkErrorHandler, Screen[None]):
    """The main screen for one session: keys replace the controller's view, and the panes draw that view."""

    AUTO_FOCUS = "Timeline"
    BINDING_GROUP_TITLE = "Session"
    help_notes = HELP_NOTES["inspector"]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    @dataclass
    class SubagentsRequested(Message):
        """Posted to open the sessions of subagents that a message started."""

        infos: list[SessionInfo]
        screen: InspectorScreen

    class BackRequested(Message):
        """Posted when the user presses esc and nothing is left to close on this screen."""

    def __init__(self, target: Session | SessionInfo, options: InspectorOptions, drafts: Drafts | None = None) -> None:
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(build_bindings()), self._bindings])
        self.controller, self.options = Controller(target, options), options
        self.drafts = Drafts() if drafts is None else drafts
        self.jobs = InspectorWorkers(self, self.controller.analysis, self._show_measure)
        self._has_notification = False
        self.panes = InspectorPanes(self, self.controller, self.jobs)
        self._follow_first = self.options.follow
        self._focus_before: Widget | None = None
        self._early_answer: EarlyAnswer | None = None

    @property
    def view(self) -> View:
        """The controller's current view."""
        return self.controller.view

    @property
    def saved_state(self) -> InspectorState:
        """The state to save for the next run; available even while the screen is still being opened."""
        side = self.query(ContentSwitcher)
        breakdown = side.first().current == "breakdown" if side else self.options.last_state.breakdown
        return build_inspector_state(self.view, self.options.last_state.policies, breakdown=breakdown)

    def compose(self) -> ComposeResult:
        timeline = Timeline(self.panes.draw_visible_range, id="timeline")
        yield HeaderBar(partial(self.run_command, self.controller.plan_before), id="header")
        yield StatusLine(id="status")
        with Horizontal(id="middle"):
            with Vertical(id="left"):
                yield ColumnHeads(self.action_unfilter, id="columns")
                with Horizontal(id="lines"):
                    yield timeline
                    yield Minimap(timeline.select_share, id="minimap")
                yield Legend(id="legend")
                yield SearchBar(self.controller, self.jobs, self.action_match)
            with ContentSwitcher(initial="breakdown" if self.options.last_state.breakdown else "detail", id="side"):
                yield Detail(id="detail")
                yield BreakdownView(self._filter_by_part, self._go_to_block)
        with Horizontal(id="tuning"):
            yield Scoreboard(self.action_policy, id="scoreboard")
            set_param = partial(self.run_command, self.controller.set_param)
            yield ParameterPanel(set_param, self.panes.request_curve)
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="tiny", markup=False)

    def on_mount(self) -> None:
        self.set_class(self.options.last_state.breakdown, "-parts")
        if (loader := self.controller.loader) is None:
            self.controller.open_session(self.view.session)
            self.draw()
        else:
            self.controller.is_reading = True
            self.query_one(ColumnHeads).show("timeline", 0)
            self.query_one(HeaderBar).show(self.view.session, self.view.context, progress=0.0)
            if self._early_answer:
                self.show_early_answer(self._early_answer)
            self.panes.set_status(notices.format_reading(self.view.session, 0.0))
            self.call_after_refresh(self.jobs.read_session, loader, self._show_read)  # after the first paint

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice while the terminal is too small, and restore the focus once it is large enough."""
        is_tiny = event.size.width < 60 or event.size.height < 20
        if is_tiny and not self.has_class("-tiny"):
            self._focus_before = self.focused  # hidden widgets lose the focus
        self.set_class(is_tiny, "-tiny")
        if not is_tiny:
            self.call_after_refresh(self._restore_focus)
        if self.query_one(ParameterPanel).policy:
            self.call_after_refresh(self.panes.draw_title)
        if len(self.view.session) and not self.controller.is_reading:
            self.call_after_refresh(self.panes.draw_sizes)  # its texts depend on the width

    def on_screen_suspend(self) -> None:
        """Dismiss the notification if a dialog opens, because it would cover the dialog."""
        if self.app.screen.is_modal:
            self.dismiss_notification()

    def _restore_focus(self) -> None:
        widget, self._focus_before = self._focus_before or self.focused, None
        self.set_focus(widget if widget in self.focus_chain else self.query_one(Timeline))

    @property
    def location(self) -> Location:
        """The selected location, or the last selected one if no row is listed."""
        return self.panes.location

    def run_command(self, command: Callable[..., Result], *arguments: Any) -> Result | None:
        """Run a controller command, draw what changed, and return the result, or None if it was refused."""
        controller, timeline = self.controller, self.query_one(Timeline)
        controller.move_cursor(self.location)
        revision, result = controller.revision, None
        try:
            result = command(*arguments)
        except CommandRefused as refusal:
            self.show_notification(str(refusal), warn=refusal.warn)
        if controller.revision != revision:
            self.draw()
        elif self.view.cursor != timeline.location:
            timeline.select_location(self.view.cursor)
        return result

    def run_and_show(self, command: Callable[..., object], *arguments: Any) -> None:
        """Run a controller command, then show the text that it returns in a notification, or scroll to the rows."""
        if isinstance(result := self.run_command(command, *arguments), str) and result:
            self.show_notification(result)
        elif isinstance(result, range) and result:
            self.query_one(Timeline).scroll_to_rows(result)

    def action_run(self, name: str, *arguments: Any) -> None:
        self.run_and_show(getattr(self.controller, name), *arguments)

    @work
    async def action_dialog(self, name: str) -> None:
        await getattr(dialogs, name)(self)

    # Reading

    def show_early_answer(self, answer: EarlyAnswer) -> None:
        """Show how full the context is until the screen has computed it itself."""
        self._early_answer = answer
        for header in self.query(HeaderBar):
            header.show_early_answer(answer.at, answer.load_fullness())

    def _show_read(self, report: SessionSnapshot | ReadFailure) -> None:
        controller = self.controller
        if isinstance(report, ReadFailure):
            controller.is_reading = False
            self.panes.set_status(report.reason)
            self.show_notification(report.reason, warn=True)
            return
        controller.move_cursor(self.location)
        has_fired = bool(self.view.plan and self.view.plan.trigger.fires)
        controller.update_session(report)
        if report.is_end:
            self.draw()
            if controller.is_following:
                self._show_news(has_fired)
            elif self._follow_first:
                self._follow_first = False
                self.action_follow(notices.format_followed(report.session))
            return
        self.query_one(Timeline).update_rows(controller.rows, controller.reader, controller.listed_rows)
        self.panes.draw_column_heads()
        self.panes.set_status(notices.format_reading(report.session, report.progress))
        self.query_one(HeaderBar).show_progress(report.progress, len(report.session))
        if self.query_one(Detail).location is None:
            self.panes.draw_detail()

    def show_work_error(self, message: str, group: str) -> None:
        self.show_notification(message, warn=True)

    def _show_news(self, has_fired: bool) -> None:
        view, news = self.view, self.controller.collect_news()
        if view.plan and view.plan.trigger.fires and not has_fired and not view.applied:
            news.append(f"{view.policy} fires now: {view.plan.trigger.reason}")
        for text in news:  # unlike other notifications, these stay while more is read
            self.notify(make_visible(text), markup=False, timeout=notices.NEWS_TIMEOUT_S)

    def action_follow(self, news: str = "Following the session as it is written; F stops") -> None:
        if (loader := self.run_command(self.controller.toggle_following)) is not None:
            self.jobs.follow(loader, self._show_read)
            self.notify(news, markup=False, timeout=notices.NEWS_TIMEOUT_S)
        elif not self.controller.is_following:
            self.jobs.cancel("follow")
        self.panes.draw_sizes()

    def action_read_on(self) -> None:
        if loader := self.run_command(self.controller.resume_reading):
            self.panes.set_status(notices.format_reading(self.view.session, self.controller.progress))
            self.panes.draw_timeline()  # without the marks of the last plan
            self.jobs.read_session(loader, self._show_read)

    # Showing the view

    def draw(self) -> None:
        """Draw the view, and start a search that the controller has requested."""
        self.dismiss_notification()
        self.query_one(SearchBar).start_if_changed()
        self.panes.draw()

    def show_notification(self, text: str, *, warn: bool = False) -> None:
        """Show *text*, never parsed as markup, in a notification that replaces earlier ones."""
        self.dismiss_notification()
        self._has_notification = True
        self.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    def dismiss_notification(self) -> None:
        """Remove the notification, if there is one, when the view it refers to is replaced."""
        if self._has_notification:
            self._has_notification = False
            self.app.clear_notifications()

    # Computed results

    def _show_measure(self, view: View, error: str) -> None:
        if (view.session, view.measure) == (self.view.session, self.view.measure):
            is_requested = self.controller.is_measure_requested
            message = self.run_command(self.controller.finish_measuring, error)
            if message and (is_requested or error):
                self.show_notification(message, warn=bool(error))

    # Timeline, map and detail

    @on(Timeline.Moved)
    def _handle_moved(self, event: Timeline.Moved) -> None:
        self.controller.has_moved_cursor = self.controller.has_moved_cursor or self.query_one(Timeline).has_focus
        self.jobs.last_input_at = time.monotonic()
        self.controller.search.pending_step = 0
        self.controller.move_cursor(event.location)
        self.panes.draw_detail_soon()

    def action_enter(self) -> None:
        """Fold or unfold the selected turn, follow the selected call, or else open the row's full text."""
        if not self.query_one(Timeline).listed_count:
            return
        if self.location.block == TURN_HEAD:
            self.action_run("toggle_fold")
        elif not self._follow_call(self.location):
            self.action_open_detail()

    def action_follow_call(self) -> None:
        if location := self.query_one(Detail).location:
            self._follow_call(location)

    def _follow_call(self, location: Location) -> bool:
        """Go from a call to its subagent, or between a call and its result; return False if there is no such place."""
        if location.block < 0 and dialogs.request_subagents(self, location.message):
            return True
        if (counterpart := self.view.find_counterpart(location)) is not None:
            self.go_to(counterpart)
        return counterpart is not None

    def action_open_detail(self) -> None:
        """Open the pane with the full text of the selected row, and focus it."""
        if self.query_one(Timeline).listed_count:
            self._show_side("detail")
            self.add_class("-reading")
            self.panes.draw_detail()
            self.query_one(Detail).focus()

    def action_close_detail(self) -> None:
        """Close the open message and focus the timeline."""
        self.remove_class("-reading")
        self.query_one(Timeline).focus()

    def go_to(self, location: Location) -> None:
        """Select *location*, notifying the user if all rows had to be listed to show it."""
        self.run_and_show(self.controller.select_location, location)

    def action_move_focus(self, step: int) -> None:
        (self.focus_next if step > 0 else self.focus_previous)()

    # Policies and their settings

    def action_policy(self, name: str) -> None:
        self.run_command(self.controller.choose_policy, name)

    def action_policy_number(self, number: int) -> None:
        names = self.view.listed_policies
        if number <= len(names):
            self.action_policy(names[number - 1])

    def action_policies(self) -> None:
        self.app.search_commands([*dialogs.list_policy_commands(self)], placeholder="Plan with which policy?")

    def action_change_value(self, step: int) -> None:
        if self._require_visible_settings():
            self.query_one(ParameterPanel).rows.action_change_value(step)

    def action_reset_value(self) -> None:
        if self._require_visible_settings():
            self.query_one(ParameterPanel).rows.action_default()

    def action_type(self) -> None:
        if self._require_visible_settings():
            self.query_one(ParameterPanel).rows.action_type()

    def _require_visible_settings(self) -> bool:
        is_visible = self.query_one("#tuning").display
        if not is_visible:
            self.show_notification("The settings are hidden; press esc first")
        return is_visible

    # Listed rows and breakdown

    def action_filter(self) -> None:
        dialogs.choose_filter(self)

    def action_unfilter(self) -> None:
        self.run_command(self.controller.clear_filter)

    def action_breakdown(self) -> None:
        is_covered = self.has_class("-narrow") and not self.has_class("-reading")
        if self.query_one(ContentSwitcher).current == "breakdown" and not is_covered:
            self._show_side("detail")
            self.action_close_detail()
        else:
            self._show_side("breakdown")
            self.add_class("-reading")
            self.query_one(BreakdownView).focus()

    def _show_side(self, name: str) -> None:
        """Show the detail or the breakdown in the side pane, which is wider for the bars of the breakdown."""
        self.query_one(ContentSwitcher).current = name
        self.set_class(name == "breakdown", "-parts")

    def _filter_by_part(self, kind: str, value: str) -> None:
        self.run_command(self.controller.toggle_part_filter, kind, value)
        self._close_covering_breakdown()

    def _go_to_block(self, message: int, block: int) -> None:
        self.go_to(Location(message, block))
        self._close_covering_breakdown()

    def _close_covering_breakdown(self) -> None:
        if self.has_class("-narrow"):
            self._show_side("detail")
            self.action_close_detail()

    # Searching

    def action_search(self) -> None:
        self.query_one(SearchBar).open()

    def action_match(self, step: int) -> None:
        """Go to the next (+1) or previous (-1) match, or wait for the first if the search has found none yet."""
        if self.run_command(self.controller.move_to_match, step):
            self.query_one(SearchBar).show_selected_match()

    # Applying, undoing, exporting

    @work
    async def action_export(self) -> None:
        if self.run_command(self.controller.get_exportable_session):
            await dialogs.export_session(self)

    def action_raw(self) -> None:
        if not self.query_one("#side").display:
            self.show_notification("No message is open; press space to read the selected one")
        else:
            self.query_one(Detail).toggle_raw()

    def action_copy(self, is_raw: bool = False) -> None:
        """Copy the selected message, or the command if the settings have the focus; *is_raw* skips sanitizing."""
        on_settings = self.query_one(ParameterPanel).has_focus_within
        text = self.run_command(self.controller.format_command if on_settings else self.controller.format_selected_text)
        if text is not None:
            self.app.copy_to_clipboard(text if is_raw else sanitize(text, tab_width=0))

    # Other screens

    def action_full_screen(self, name: str) -> None:
        if (screen := self.run_command(build_full_screen, name, self.controller)) is not None:
            self.app.push_screen(screen, lambda command: self.run_and_show(command) if command else None)

    def action_back(self) -> None:
        """End the first of these that is active: reading, search, an open message, the filter, the planning point."""
        bar, timeline = self.query_one(SearchBar), self.query_one(Timeline)
        if self.controller.is_reading:
            self.jobs.cancel("read")
        elif bar.display:
            bar.action_close()
        elif self.controller.is_limited and timeline.has_focus:
            self.action_unfilter()
        elif self.has_class("-reading") or self.query_one(ContentSwitcher).current == "breakdown":
            self._show_side("detail")
            self.action_close_detail()
        elif self.controller.is_limited:
            self.action_unfilter()
        elif self.view.at is not None:
            self.run_command(self.controller.toggle_point)
        elif not timeline.has_focus:
            timeline.focus()
        else:
            self.post_message(self.BackRequested())


def build_full_screen(name: str, controller: Controller) -> Screen[Any]:
    """Build the named full screen, importing it on first use; raise CommandRefused if it has nothing to show."""
    module, builder = FULL_SCREENS[name]
    screen: Screen[Any] = getattr(import_module(f"context_tui.tui.{module}"), builder)(controller)
    return screen


def build_bindings() -> list[BindingType]:
    """Return all key bindings of the inspector screen, in the order in which the footer lists them."""
    return [*read_bindings("inspector-first"), *build_policy_bindings("Plan with"), *read_bindings("inspector-other")]
