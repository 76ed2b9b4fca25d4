"""The sweep screen: the table of settings, the plot, the setting under the cursor, and the key bindings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from context_tui.errors import PlanError
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT
from context_tui.lab.sweep.grids import SweepSetting, parse_grid
from context_tui.lab.sweep.results import Sweep
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SessionSweep, sweep_settings
from context_tui.policies.agent_settings import format_agent_settings
from context_tui.policies.base import list_nested_policies
from context_tui.policies.parameter_space import find_changed_values
from context_tui.policies.versions import list_version_params
from context_tui.text.numbers import format_cost
from context_tui.tui.command_line import format_sweep_command
from context_tui.tui.comparison import InspectorCommand, Lane, PolicyComparison, format_limits
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.saving import notify_briefly
from context_tui.tui.sweep import formatting, plot, table
from context_tui.tui.sweep.board import SweepBoard, SweepRowCache, build_board, build_partial_sweep
from context_tui.tui.sweep.report import SweepTextScreen, build_project_parts, build_report_parts
from context_tui.tui.sweep.sessions import SessionsScreen
from context_tui.tui.terminal.themes import MUTED
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.styled_text import ClickableLines, LinesPane, Run
from context_tui.tui.widgets.text_screen import HELP_NOTES

UPDATE_INTERVAL_S, UPDATE_COST_FACTOR = 0.1, 8
"""Minimum seconds between two updates while settings are measured, and minimum multiple of the time of an update."""

AdoptSetting = Callable[[SweepSetting], str]


class MeasuringRun(NamedTuple):
    """A run of the sweep: its number, the settings to measure, a sweep of all settings, and the rows so far."""

    number: int
    settings: Sequence[SweepSetting]
    template: Sweep
    rows: dict[str, SweepRow]


class SweepScreen(WorkErrorHandler, Screen[InspectorCommand | None]):
    """A screen that shows a sweep's table and plot, while a thread measures the missing settings."""

    CSS_PATH = "sweep.tcss"
    AUTO_FOCUS = "#sweep-table"
    BINDING_GROUP_TITLE = "Sweep"
    help_notes = (" ".join(REPLAY_LIMITS_TEXT), *HELP_NOTES["sweep"])
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    def __init__(
        self, board: SweepBoard, *, format_command: Callable[[SweepBoard], str], adopt: AdoptSetting | None = None
    ) -> None:
        """Create a screen; *adopt* applies the chosen setting, or is None to list the setting's sessions instead."""
        super().__init__()
        names = ("sweep-first", "sweep-live" if board.is_live else "sweep-sessions", "sweep-other")
        self._bindings = BindingsMap.merge([*(BindingsMap(read_bindings(name)) for name in names), self._bindings])
        self.board, self._format_command, self._adopt = board, format_command, adopt
        self.grid_error = ""
        self.is_measuring = self.is_stopped = False
        self._run_number = 0
        self._replay_lock = Lock()  # replays of one recording add their summaries to the same facts
        self._first_row = 0
        self._table_layout_cache: tuple[Sweep, int, table.TableLayout] | None = None
        self._scatter_cache: tuple[object, tuple[int, int, bool], plot.Scatter] | None = None

    # Drawing

    def compose(self) -> ComposeResult:
        board = self.board
        yield LinesPane(lambda width, _: [formatting.format_header(board, width)], id="sweep-header")
        if board.is_live:
            with Horizontal(id="sweep-line"):
                yield Static(f"{board.current_setting.policy.name} ", id="sweep-prompt", markup=False)
                yield Input(board.grid_text, id="sweep-grid", compact=True, select_on_focus=False)
        yield LinesPane(self._draw_status, id="sweep-status")
        with Container(id="sweep-panes"):
            yield ClickableLines(self._draw_table, self._click_table, self._scroll_table, id="sweep-table")
            yield ClickableLines(self._draw_plot, self._click_plot, is_focusable=False, id="sweep-plot")
        yield LinesPane(lambda width, _: list(formatting.format_setting(board, width)), id="sweep-words")
        yield LinesPane(lambda width, _: [[(format_limits(width), MUTED)]], id="sweep-limits")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="sweep-tiny", markup=False)

    def _draw_status(self, width: int, _: int) -> list[list[Run]]:
        return [formatting.format_status(self.board, self.grid_error, self.is_measuring, width)]

    def _draw_table(self, width: int, height: int) -> list[list[Run]]:
        board, room, layout = self.board, height - 1, self._get_table_layout(width)
        head = table.format_head(board, layout, width)
        if not board.listed_names:
            return [head, [("   measuring…" if self.is_measuring else "   nothing yet", MUTED)]]
        self._first_row = max(min(self._first_row, len(board.listed_names) - room), 0)
        names = board.listed_names[self._first_row : self._first_row + room]
        return [head, *(table.format_setting_line(board, layout, name, width) for name in names)]

    def _get_table_layout(self, width: int) -> table.TableLayout:
        sweep, cache = self.board.sweep, self._table_layout_cache
        if cache is None or cache[0] is not sweep or cache[1] != width:
            cache = self._table_layout_cache = sweep, width, table.compute_layout(self.board, width)
        return cache[2]

    def _draw_plot(self, width: int, height: int) -> list[list[Run]]:
        board, size = self.board, (width - plot.GUTTER, height - 1)
        dominance, current, cache = board.sweep.dominance, board.sweep.current, self._scatter_cache
        if not dominance.points or size[0] < 8 or size[1] < 2:
            return []
        form = *size, board.shows_break_even
        if cache is None or cache[0] is not dominance or cache[1] != form:
            points, has_steps = plot.build_points(board), not board.shows_break_even
            scatter = plot.build_scatter(points, dominance.frontier, current, *size, has_steps=has_steps)
            cache = self._scatter_cache = dominance, form, scatter
        format_saved = partial(format_cost, unit=board.sweep.point_unit, brief=True)
        format_x = partial(table.format_calls if board.shows_break_even else table.format_amount, full=False)
        return plot.draw_plot(cache[2], current, board.cursor, format_saved, format_x, board.sweep.knee)

    def on_mount(self) -> None:
        self.draw()
        self._start_measuring()
        self.call_after_refresh(self._center_cursor)

    def _center_cursor(self) -> None:
        self._first_row = max(self.board.cursor_index - self._visible_rows // 2, 0)
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw every pane on the screen."""
        self._reveal_cursor()
        for pane in self.query(LinesPane):
            pane.refresh()
        self._draw_titles()

    def draw_cursor(self) -> None:
        """Draw all panes whose content depends on the cursor."""
        self._reveal_cursor()
        for name in ("#sweep-table", "#sweep-plot", "#sweep-words"):
            self.query_one(name).refresh()
        self._draw_titles()

    def _draw_titles(self) -> None:
        board, plot_pane = self.board, self.query_one("#sweep-plot")
        first, count, room = self._first_row, len(board.listed_names), self._visible_rows
        title = [(f"{first + 1:,}–{min(first + room, count):,} of {count:,}", MUTED)]
        self._table_pane.border_title = Content.assemble(*title) if count > room else None
        legend = formatting.format_legend(board, max(plot_pane.size.width - 4, 0))
        plot_pane.border_title = Content.assemble(*legend)

    @property
    def _table_pane(self) -> ClickableLines:
        return self.query_one("#sweep-table", ClickableLines)

    @property
    def _visible_rows(self) -> int:
        return max(self._table_pane.content_size.height - 1, 1)

    def _reveal_cursor(self) -> None:
        index = self.board.cursor_index
        self._first_row = min(max(self._first_row, index - self._visible_rows + 1), index)

    # Measuring

    def _start_measuring(self) -> None:
        cache, missing_settings = self.board.row_cache, self.board.missing_settings
        self._run_number += 1
        self.is_measuring = bool(missing_settings) and not self.is_stopped
        if self.is_measuring and cache is not None:
            # The rows are copied, because both the run and the cache add rows.
            run = MeasuringRun(self._run_number, missing_settings, self.board.sweep, dict(cache.rows))
            start_work(self, "sweep", "sweep the settings", partial(self._measure_settings, cache, run))

    def _measure_settings(self, cache: SweepRowCache, run: MeasuringRun, job: ThreadJob) -> None:
        """Measure settings in a thread, with totals and dominance, which take long for thousands of rows."""
        new_rows = list[SweepRow]()

        def post_rows(*, is_done: bool = False, error: str = "") -> None:
            nonlocal new_rows
            run.rows.update((row.setting, row) for row in new_rows)
            sweep = build_partial_sweep(run.template.settings, run.rows, run.template)
            _ = sweep.totals, sweep.dominance
            job.checkpoint()
            self.call_later(self._show_rows, run.number, new_rows, sweep, is_done, error)
            new_rows = []

        with self._replay_lock:
            try:
                if cache.session_sweep is None:
                    cache.session_sweep = SessionSweep(cache.session, cache.session.info.spec, cache.options)
                posted_at, interval = time.monotonic(), UPDATE_INTERVAL_S
                for row in sweep_settings(cache.session_sweep, run.settings, job.checkpoint):
                    new_rows.append(row)
                    if (started_at := time.monotonic()) - posted_at > interval:
                        post_rows()
                        posted_at = time.monotonic()
                        interval = max(UPDATE_INTERVAL_S, UPDATE_COST_FACTOR * (posted_at - started_at))
            except PlanError as error:
                post_rows(is_done=True, error=str(error))
            else:
                post_rows(is_done=True)

    def _show_rows(self, run_number: int, rows: Sequence[SweepRow], sweep: Sweep, is_done: bool, error: str) -> None:
        self.board.update(rows, sweep)
        if run_number == self._run_number and is_done:
            self.is_measuring, self.board.error = False, error
        self.draw()

    def show_work_error(self, message: str, group: str) -> None:
        self.is_measuring, self.board.error = False, message
        self.draw()

    # The grid

    def action_edit(self) -> None:
        line = self.query_one(Input)
        line.focus()
        line.cursor_position = len(line.value)

    @on(Input.Submitted)
    def _submit_grid(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.board.set_grid(event.value)
        except PlanError as error:
            self.grid_error = str(error)
            self.query_one("#sweep-status").refresh()
            return
        self.grid_error, self.is_stopped = "", False
        self._table_pane.focus()
        self.draw()
        self._start_measuring()

    @on(Input.Changed)
    def _clear_grid_error(self, event: Input.Changed) -> None:
        event.stop()
        if self.grid_error:
            self.grid_error = ""
            self.query_one("#sweep-status").refresh()

    # The cursor

    def action_move(self, lines: int) -> None:
        self.board.move_cursor(lines)
        self.draw_cursor()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self._visible_rows - 1, 1))

    def action_move_to_end(self, place: int) -> None:
        self.board.move_to_index(place if place >= 0 else len(self.board.listed_names))
        self.draw_cursor()

    def action_to_current(self) -> None:
        self.board.move_to_setting(self.board.sweep.current)
        self.draw()

    def action_next_best(self) -> None:
        names, index = self.board.listed_names, self.board.cursor_index
        name = next((name for name in [*names[index + 1 :], *names[:index]] if name in self.board.sweep.best), None)
        if name is not None:
            self.board.move_to_setting(name)
            self.draw_cursor()

    def _click_table(self, line: int, x: int, is_double: bool) -> None:
        if line == 0:
            if order := self._get_table_layout(self._table_pane.content_size.width).find_order(x):
                self.board.set_order(order)
                self.draw()
            return
        index = self._first_row + line - 1
        if line > 0 and index < len(self.board.listed_names):
            self.board.move_to_index(index)
            self.draw_cursor()
            if is_double:
                self.action_adopt_setting()

    def _scroll_table(self, lines: int) -> None:
        last = max(len(self.board.listed_names) - self._visible_rows, 0)
        self._first_row = min(max(self._first_row + lines, 0), last)
        self._table_pane.refresh()
        self._draw_titles()

    def _click_plot(self, line: int, x: int, _: bool) -> None:
        scatter = self._scatter_cache[2] if self._scatter_cache else None
        name = scatter.find_nearest(x - plot.GUTTER, line) if scatter else None
        if name is not None:
            self.board.move_to_setting(name)
            self.draw()

    # Order and filter

    def action_sort(self, step: int) -> None:
        self.board.cycle_order(step)
        self.draw()

    def action_reverse(self) -> None:
        self.board.set_order(self.board.order)
        self.draw()

    def action_toggle_saving_unit(self) -> None:
        if self.board.toggle_saving_unit():
            self.draw()
        else:
            notify_briefly(self, "These settings have no prices: savings are counted in tokens")

    def action_break_even(self) -> None:
        if self.board.toggle_break_even():
            self.draw()
        else:
            notify_briefly(self, "These settings have no prices, and so no break-even")

    def action_toggle_best(self) -> None:
        self.board.toggle_only_best()
        self.draw()

    # Other screens, and the way back

    def action_show_report(self) -> None:
        self.app.push_screen(SweepTextScreen("Sweep", build_report_parts(self.board)))

    def action_show_projects(self) -> None:
        self.app.push_screen(SweepTextScreen("Best in each project", build_project_parts(self.board)))

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._format_command(self.board))

    def action_copy_native(self) -> None:
        forms = self.board.list_native(self.board.settings_by_name[self.board.cursor])
        if forms[0][1] and forms[0][1].settings:
            texts = [(f"# {head}\n" if head else "") + format_agent_settings(native) for head, native in forms]
            self.app.copy_to_clipboard("\n".join(texts))
        else:
            notify_briefly(self, "No agent configuration is known for this setting; y copies the command")

    def action_adopt_setting(self) -> None:
        setting = self.board.settings_by_name[self.board.cursor]
        if self._adopt is None:
            self.app.push_screen(SessionsScreen(self.board, setting))
        else:
            self.dismiss(partial(self._adopt, setting))

    def action_go_on(self) -> None:
        if not self.board.missing_settings:
            notify_briefly(self, "Every setting is measured" if not self.board.error else "Change the grid first (=)")
        elif not self.is_measuring:
            self.is_stopped = False
            self._start_measuring()
            self.draw()

    def action_back(self) -> None:
        """Leave the grid's input if it has the focus, else stop a running sweep, else close the screen."""
        line = self.query(Input)
        if line and line.first().has_focus:
            line.first().value, self.grid_error = self.board.grid_text, ""
            self._table_pane.focus()
            self.draw()
        elif self.is_measuring:
            self.workers.cancel_group(self, "sweep")
            self.is_measuring, self.is_stopped = False, True
            self._run_number += 1
            self.draw()
        else:
            self.dismiss(None)


# Building


def build_screen(controller: Controller) -> SweepScreen:
    """Return a sweep screen that applies the chosen setting to the inspector's policy, or raise CommandRefused."""
    comparison = controller.build_comparison()
    try:
        return build_comparison_screen(controller, comparison, partial(_adopt_in_inspector, controller))
    except PlanError as error:
        raise CommandRefused(str(error), warn=True) from None


def build_comparison_screen(
    controller: Controller, comparison: PolicyComparison, adopt: AdoptSetting | None = None
) -> SweepScreen:
    """Return a sweep screen for the policy selected on the replay screen; raises PlanError if it cannot be replayed.

    *adopt* applies the chosen setting, by default to the selected policy.
    """
    board = build_board(comparison, controller.sweep_results)
    controller.sweep_results = board.row_cache

    def format_command(board: SweepBoard) -> str:
        parts = parse_grid(board.grid_text, board.current_setting.policy)
        grids = [(part.policy.name, part.value_texts) for part in parts]
        setting, unit = board.current_setting, board.saving_unit
        return format_sweep_command(comparison.session, grids, setting, comparison.settings, unit)

    adopt = adopt or partial(_adopt_in_comparison, comparison)
    return SweepScreen(board, format_command=format_command, adopt=adopt)


def build_sessions_screen(sweep: Sweep, command: str, handling: str) -> SweepScreen:
    """Return a screen for a sweep over several sessions; *command* is the command line that ran it."""
    return SweepScreen(SweepBoard(sweep, handling=handling), format_command=lambda board: command)


def _adopt_in_inspector(controller: Controller, setting: SweepSetting) -> str:
    params = merge_params(controller.view.params, setting)
    controller.adopt_settings(setting.policy.name, params, None)
    return f"Applied: {setting.name}"


def _adopt_in_comparison(comparison: PolicyComparison, setting: SweepSetting) -> str:
    lane, policy = comparison.selected_lane, setting.policy.name
    view = replace(lane.view, policy=policy, params=merge_params(lane.view.params, setting))
    if lane.policy == policy:
        lane.view = view
    else:
        comparison.lanes[comparison.selected_number] = Lane(view)
    return f"Applied: {setting.name}"


def merge_params(params: Mapping[str, Mapping[str, Any]], setting: SweepSetting) -> dict[str, Mapping[str, Any]]:
    """Return the changed values of every policy, with those of *setting* for its policy and nested policies."""
    policy = setting.policy
    policies = {policy.name, *list_nested_policies(policy, setting.params)}
    other_params = {name: values for name, values in params.items() if name not in policies}
    values = {**other_params, **find_changed_values(policy, setting.params)}
    for name in setting.params.model_fields_set & list_version_params(policy.name):
        values[policy.name] = {**values.get(policy.name, {}), name: getattr(setting.params, name)}
    return values
