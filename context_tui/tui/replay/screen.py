"""The replay screen: charts of the compared policies, the firings, and the settings."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.study import Lab, StudySettings
from context_tui.policies.parameter_space import get_value, list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.text.numbers import format_percent
from context_tui.tui.command_line import format_replay_command
from context_tui.tui.comparison import (
    MAX_POLICIES,
    InspectorCommand,
    LaneResult,
    PolicyComparison,
    ReplayTask,
    format_limits,
    run_replay,
)
from context_tui.tui.controller import Controller
from context_tui.tui.replay import formatting, setting_controls
from context_tui.tui.replay.charts import Charts, ThresholdLine, draw_charts
from context_tui.tui.replay.panes import ChartsView
from context_tui.tui.replay.regrets import RegretsScreen
from context_tui.tui.replay.setting_controls import ThresholdDrag
from context_tui.tui.replay.texts import ConfigurationScreen, FiringsScreen
from context_tui.tui.saving import notify_briefly
from context_tui.tui.terminal.cells import shorten_at_word
from context_tui.tui.terminal.themes import MUTED
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.view import format_policy_tooltip
from context_tui.tui.widgets.bindings import MAX_POLICY_DIGIT, KeyFooter, build_policy_bindings, read_bindings
from context_tui.tui.widgets.guarded_screens import WaitingScreen, when_ready
from context_tui.tui.widgets.parameter_lines import list_parameter_lines
from context_tui.tui.widgets.parameter_rows import ParameterRows
from context_tui.tui.widgets.styled_text import ClickableLines, LinesPane, Run
from context_tui.tui.widgets.text_screen import HELP_NOTES

OUTDATED_GRACE_S = 0.25
"""Seconds that an outdated replay may continue; its result is shown until that of the current settings is ready."""
FIRST_SLICE_S = 0.03
"""Seconds for which a replay runs before it yields to the screen: most are done by then."""
STUDY_DELAY_S = 0.15
"""Seconds after the last change until prices and regrets are computed: they are not needed while a value is dragged."""
PROGRESS_INTERVAL_S = 0.2
SETTING_NOTE_LINES, MAX_BOTTOM_LINES = 2, 12
"""Lines about the selected setting, below the settings; maximum height of settings and table side by side."""


class ReplayScreen(WorkErrorHandler, WaitingScreen[InspectorCommand | None]):
    """A screen that compares replays; threads compute missing results, and settings can be changed meanwhile."""

    CSS_PATH = "replay.tcss"
    AUTO_FOCUS = "ChartsView"
    BINDING_GROUP_TITLE = "Replay"
    help_notes = HELP_NOTES["replay"]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    def __init__(self, controller: Controller, comparison: PolicyComparison) -> None:
        super().__init__()
        policy_bindings = build_policy_bindings("Replay", "replay-", f"1–{MAX_POLICY_DIGIT}")
        bindings = [*read_bindings("replay-footer"), *policy_bindings, *read_bindings("replay-other")]
        self._bindings = BindingsMap.merge([BindingsMap(bindings), self._bindings])
        self.controller, self.comparison = controller, comparison
        self.zoom = 0
        self._running_task: ReplayTask | None = None
        self._is_preparing = self._is_indexing = False
        self._study_timer: Timer | None = None
        self._started_at = 0.0
        self._progress = 0.0
        self._fit_key: object = None
        self._legend: list[Run] = []
        self._drag: ThresholdDrag | None = None

    @property
    def is_ready(self) -> bool:
        return self.comparison.replay is not None

    @property
    def is_failed(self) -> bool:
        comparison = self.comparison
        has_no_calls = comparison.recording is not None and not comparison.call_count
        return bool(comparison.selected_lane.error) or has_no_calls

    # Drawing

    def compose(self) -> ComposeResult:
        yield LinesPane(self._draw_header, id="replay-header")
        yield ChartsView(self._draw_charts, self._point_at_call, self._drag_threshold, id="replay-charts")
        yield LinesPane(self._draw_call, id="replay-words")
        with Vertical(id="replay-bottom"):
            draw_table = partial(formatting.format_policy_table, self.comparison)
            yield ClickableLines(draw_table, self._click_table, is_focusable=False, id="replay-table")
            with Vertical(id="replay-settings"):
                yield ParameterRows(self._set_param, id="replay-rows")
        yield LinesPane(lambda width, _: [[(format_limits(width), MUTED)]], id="replay-limits")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="replay-tiny", markup=False)

    def _draw_header(self, width: int, _: int) -> list[list[Run]]:
        return [formatting.format_header(self.comparison, self.controller.progress, width)]

    def _draw_charts(self, width: int, height: int) -> Charts:
        comparison = self.comparison
        reason, remedy = formatting.explain_missing_chart(comparison)
        if reason:
            share = f" {format_percent(self._progress)}" if self._progress and comparison.recording else ""
            runs = [(shorten_at_word(reason + share, width), ""), (remedy, MUTED)]
            return Charts([*([[]] * (height // 2 - 1)), *([run] for run in runs)])
        charts = draw_charts(comparison, self.zoom, width, height)
        if (legend := formatting.format_legend(charts.signs, width - 4)) != self._legend:
            self._legend = legend
            self.query_one(ChartsView).border_title = Content.assemble(*legend)
        return charts

    def _draw_call(self, width: int, height: int) -> list[list[Run]]:
        comparison = self.comparison
        if formatting.explain_missing_chart(comparison)[0]:
            return []
        lines = [formatting.format_call_line(comparison, width)]
        preview = self.controller.reader.format_preview
        firings = comparison.get_firings(comparison.call)
        if not firings:
            lines += formatting.format_nearest_firings(comparison, width)
        for firing in firings:
            firing_lines = list(formatting.format_firing_lines(comparison, firing, width, preview))
            lines += firing_lines[:2] if len(firings) > 1 else firing_lines
        lines[2:2] = formatting.format_event_lines(comparison, width)
        return lines[:height]

    def on_mount(self) -> None:
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self.call_after_refresh(self._fit_bottom)

    def draw(self) -> None:
        """Draw the whole screen, and start to compute missing results."""
        self._draw_settings()
        self.query_one("#replay-header").refresh()
        self.draw_results()
        self._start_next_task()

    def draw_results(self) -> None:
        """Draw all panes that show replay results, and the regrets screen if it is open."""
        for screen in self.app.screen_stack:
            if isinstance(screen, RegretsScreen) and screen.is_mounted:
                screen.update_regrets()
        self.query_one(ClickableLines).refresh()
        self.draw_cursor()
        self._fit_bottom()

    def _fit_bottom(self) -> None:
        lines, is_wide = len(self.comparison.lanes) + 2, self.has_class("-wide")
        settings = len(list_parameter_lines(self.query_one(ParameterRows).parameters)) + SETTING_NOTE_LINES
        fit_key = is_wide, lines, settings, self.size.height
        if fit_key != self._fit_key:
            self._fit_key = fit_key
            self.query_one(ClickableLines).styles.height = None if is_wide else lines
            max_height = max(min(self.size.height // 4, MAX_BOTTOM_LINES), lines + 1)
            bottom_height = min(max(lines, settings) + 1, max_height) if is_wide else None
            self.query_one("#replay-bottom").styles.height = bottom_height

    def draw_cursor(self) -> None:
        """Draw all panes whose content depends on the cursor."""
        self.query_one(ChartsView).refresh()
        self.query_one("#replay-words").refresh()

    def _draw_settings(self) -> None:
        lane = self.comparison.selected_lane
        rows, policy = self.query_one(ParameterRows), POLICIES[lane.policy]
        try:
            params = lane.params
        except PlanError:
            params = policy.Params()
        controls = list_parameters_in_context(policy, params, self.comparison.full_context, lane.view.runtime_state)
        values = {control.name: get_value(policy, params, control.name) for control in controls}
        comparison = self.comparison
        common = setting_controls.build_common_controls(
            comparison.settings, comparison.recording, has_compactions=bool(comparison.context_events)
        )
        rows.show([*controls, *common], {**values, **setting_controls.get_common_values(comparison.settings)})
        self.query_one("#replay-settings").border_title = Content(f"settings of {lane.policy}   tab")

    # Computing

    def _start_next_task(self) -> None:
        """Start the most urgent task, unless a task is running whose result is still needed."""
        comparison, running = self.comparison, self._running_task
        if comparison.recording is None:
            if not self._is_preparing:
                self._is_preparing = True
                start_work(self, "replay", "prepare the recording", self._prepare_recording, self._show_recording)
            return
        if running is not None:
            has_grace = time.monotonic() - self._started_at <= OUTDATED_GRACE_S
            if running.result is None and (has_grace or comparison.build_key(running.lane) == running.key):
                return
        task = self._running_task = comparison.choose_replay_task()
        if task is not None:
            self._started_at, self._progress = time.monotonic(), 0.0
            work = partial(self._run_replay, comparison.recording, task)
            start_work(self, "replay", "replay the policy", work, partial(self._show_result, task))
            return
        if self._study_timer is not None:
            self._study_timer.stop()
        self._study_timer = self.set_timer(STUDY_DELAY_S, self._start_next_study)

    def _start_next_study(self) -> None:
        comparison = self.comparison
        recording, lab = comparison.recording, comparison.lab
        if lab is None and recording is not None and recording.calls and not self._is_indexing:
            self._is_indexing = True
            start_work(self, "index", "read the session", partial(self._prepare_lab, recording), self._show_lab)
        if self._running_task is None and comparison.choose_replay_task() is None:
            task = self._running_task = comparison.choose_study_task()
            if task is not None and task.result is not None and lab is not None:
                work = partial(self._add_study, lab, task.result, task.key.settings)
                start_work(self, "replay", "price the policy", work, partial(self._show_result, task))

    def _add_study(self, lab: Lab, result: LaneResult, settings: StudySettings, _: ThreadJob) -> LaneResult:
        with self.comparison.replay_lock:
            return replace(result, study=lab.study_replay(result.replay, settings))

    def _prepare_lab(self, recording: Recording, job: ThreadJob) -> Lab:
        _list_replayable_policies()  # so that they are loaded before one is added
        lab = Lab(recording.session, recording, job.checkpoint)
        _ = lab.uses, lab.backtests, lab.cache_history
        return lab

    def _show_lab(self, lab: Lab) -> None:
        self.comparison.lab = lab
        self.query_one("#replay-header").refresh()
        self.draw_cursor()
        self._start_next_task()

    def _prepare_recording(self, job: ThreadJob) -> Recording:
        with self.comparison.replay_lock:
            recording = Recording(self.comparison.session)
            _ = recording.sizes
        return recording

    def _run_replay(self, recording: Recording, task: ReplayTask, job: ThreadJob) -> LaneResult | str:
        calls, started_at = 0, time.monotonic()
        posted_at = started_at

        def checkpoint() -> None:
            nonlocal posted_at, calls
            calls += 1
            now = time.monotonic()
            if now - posted_at > PROGRESS_INTERVAL_S:
                posted_at = now
                self.call_later(self._show_progress, calls / len(recording.calls))
            if now - started_at > FIRST_SLICE_S:
                job.checkpoint()

        with self.comparison.replay_lock:
            try:
                return run_replay(recording, task, checkpoint)
            except PlanError as error:
                return str(error)

    def _show_recording(self, recording: Recording) -> None:
        self._is_preparing = False
        self.comparison.recording = recording
        self.comparison.move_to_message(self.controller.view.point)
        self.draw()

    def _show_result(self, task: ReplayTask, result: LaneResult | str) -> None:
        if task is not self._running_task:
            return
        self._running_task = None
        if self.comparison.update(task, result):
            self.draw_results()
        self.run_waiting_actions()
        self._start_next_task()

    def _show_progress(self, share: float) -> None:
        self._progress = share
        self.query_one(ChartsView).refresh()

    def show_work_error(self, message: str, group: str) -> None:
        super().show_work_error(message, group)
        task, self._running_task = self._running_task, None
        if task is not None and task.result is None:
            self.comparison.update(task, message)
            self.draw_results()
            self._start_next_task()

    # The cursor

    @when_ready
    def action_move(self, calls: int) -> None:
        self.comparison.move_cursor(calls)
        self.draw_cursor()

    @when_ready
    def action_go(self, call: int) -> None:
        self.comparison.move_to_call(call if call >= 0 else self.comparison.call_count)
        self.draw_cursor()

    @when_ready
    def action_move_to_firing(self, step: int) -> None:
        if self.comparison.move_to_firing(step):
            self.draw_cursor()
        else:
            notify_briefly(self, formatting.format_never_fires(self.comparison))

    def action_zoom(self, step: int) -> None:
        max_zoom = max((self.comparison.call_count // 8).bit_length() - 1, 0)
        self.zoom = min(max(self.zoom + step, 0), max_zoom)
        self.draw_cursor()

    def _point_at_call(self, call: int, number: int | None) -> None:
        self.comparison.move_to_call(call)
        if number is not None and number != self.comparison.selected_number:
            self.comparison.select_lane(number)
            self.draw()
        else:
            self.draw_cursor()

    def _drag_threshold(self, threshold: ThresholdLine, tokens: int, is_first: bool) -> None:
        if is_first:
            if threshold.number != self.comparison.selected_number:
                self.comparison.select_lane(threshold.number)
                self.draw()
            self._grab_threshold(threshold.tokens)
        if self._drag and self._drag.control and threshold.number == self.comparison.selected_number:
            value, name, rows = self._drag.compute_value(tokens), self._drag.control.name, self.query_one(ParameterRows)
            rows.choose_row(next((n for n, each in enumerate(rows.parameters) if each.name == name), rows.row))
            if value != rows.values[name]:
                self._set_param(name, value)

    def _grab_threshold(self, tokens: int) -> None:
        lane, rows = self.comparison.selected_lane, self.query_one(ParameterRows)
        controls = [each for each in rows.parameters if each.owner != setting_controls.COMMON_OWNER]
        self._drag = ThresholdDrag(lane.view, controls, tokens)
        if self._drag.control is None:
            notify_briefly(self, f"No parameter of {lane.policy} sets this threshold")

    # Policies and their settings

    def action_select(self, step: int) -> None:
        self.comparison.select_lane(self.comparison.selected_number + step)
        self.draw()

    def _click_table(self, line: int, _: int, is_double: bool) -> None:
        count, height = len(self.comparison.lanes), self.query_one(ClickableLines).content_size.height
        first = formatting.compute_first_visible(count, self.comparison.selected_number, height)
        number = first + line - 1
        if line >= 1 and number < min(count, first + height - 2):
            self.comparison.select_lane(number)
            self.draw()

    def action_policy_number(self, number: int) -> None:
        names = self.controller.view.listed_policies
        if number <= len(names):
            self.comparison.choose_policy(names[number - 1])
            self.draw()

    def action_add(self) -> None:
        if len(self.comparison.lanes) >= MAX_POLICIES:
            notify_briefly(self, f"{MAX_POLICIES} policies are compared; press d to remove one", warn=True)
            return
        commands = [
            (name, partial(self._add_policy, name), format_policy_tooltip(name, policy))
            for name, policy in _list_replayable_policies().items()
        ]
        self.app.search_commands(commands, placeholder="Compare with which policy?")

    def _add_policy(self, name: str) -> None:
        self.comparison.add_policy(name)
        self.draw()

    def action_remove(self) -> None:
        if self.comparison.remove_selected():
            self.draw()
        else:
            notify_briefly(self, "It is the only policy; press a to add another one, or a digit to choose another")

    def _set_param(self, name: str, value: Any) -> None:
        settings = setting_controls.replace_common_value(self.comparison.settings, name, value)
        if settings is None:
            self.comparison.set_param(self.comparison.selected_lane.policy, name, value)
        else:
            self.comparison.settings = settings
            self.query_one("#replay-header").refresh()
        self._draw_settings()
        self._start_next_task()  # the results are drawn when they are ready

    def action_change_value(self, step: int) -> None:
        self.query_one(ParameterRows).action_change_value(step)

    def action_type(self) -> None:
        self.query_one(ParameterRows).action_type()

    def action_reset_value(self) -> None:
        self.query_one(ParameterRows).action_default()

    def action_recorded(self) -> None:
        if not self.comparison.context_events:
            notify_briefly(self, "This recording holds no compaction to undo")
            return
        self.comparison.toggle_recorded_compactions()
        self.draw()

    # Other screens, and the way back

    def action_sweep(self) -> None:
        from context_tui.tui.sweep.screen import build_comparison_screen

        try:
            screen = build_comparison_screen(self.controller, self.comparison)
        except PlanError as error:
            notify_briefly(self, str(error), warn=True)
        else:
            self.app.push_screen(screen, self._adopt_swept_setting)

    def _adopt_swept_setting(self, command: InspectorCommand | None) -> None:
        if command is not None:
            notify_briefly(self, command())
            self.draw()

    def action_show_firings(self) -> None:
        self.app.push_screen(FiringsScreen(self.controller, self.comparison), self._dismiss_with)

    def action_regrets(self) -> None:
        self.app.push_screen(RegretsScreen(self.controller, self.comparison), self._dismiss_with)

    def action_configuration(self) -> None:
        self.app.push_screen(ConfigurationScreen(self.comparison.selected_lane))

    def _dismiss_with(self, command: InspectorCommand | None) -> None:
        if command is not None:
            self.dismiss(command)

    def action_copy(self) -> None:
        views = [lane.view for lane in self.comparison.lanes]
        self.app.copy_to_clipboard(format_replay_command(views, self.comparison.settings))

    @when_ready
    def action_inspect(self) -> None:
        self._dismiss_to_inspector(self.comparison.inspector_point)

    def action_back(self) -> None:
        self._dismiss_to_inspector(None)

    def _dismiss_to_inspector(self, point: int | None) -> None:
        comparison = self.comparison
        policy, params = comparison.selected_lane.policy, comparison.policy_params
        self.dismiss(partial(self.controller.adopt_settings, policy, params, point))


def _list_replayable_policies() -> dict[str, Any]:
    return {name: policy for name, policy in POLICIES.items() if policy.phases}


def build_screen(controller: Controller) -> ReplayScreen:
    """Return the replay screen; raises CommandRefused for a compacted copy, or while the session is being read."""
    return ReplayScreen(controller, controller.build_comparison())
