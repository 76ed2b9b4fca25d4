"""The sweep screen: the table of settings, the plot, the setting under the cursor, and the key bindings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from threading import Lock

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap
from textual.containers import Container, Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from context_tui.errors import PlanError
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT
from context_tui.lab.sweep.results import Sweep
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SessionSweep, sweep_settings
from context_tui.lab.sweep.settings import SweepSetting
from context_tui.text.sanitize import make_visible
from context_tui.tui.comparison import InspectorCommand, format_limits
from context_tui.tui.saving import save_new_file
from context_tui.tui.sweep import formatting, plot, table
from context_tui.tui.sweep.board import SweepBoard, SweepRowCache, build_partial_sweep
from context_tui.tui.sweep.panes import ListView, PlotView
from context_tui.tui.sweep.report import TextScreen, build_project_parts, build_report_parts
from context_tui.tui.sweep.sessions import SessionsScreen
from context_tui.tui.threads import ThreadJob, WorkErrorHandler, start_work
from context_tui.tui.widgets.bindings import build_binding
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.help import HelpScreen
from context_tui.tui.widgets.styled_text import MUTED, LinesPane, Run, build_content

UPDATE_INTERVAL_S, UPDATE_COST_FACTOR = 0.1, 8
"""Seconds between two looks at rows that come in, at least; and how many times longer than such a look takes."""

AdoptSetting = Callable[[SweepSetting], str]
"""Takes a setting over, and returns what to say."""


@dataclass
class RowsMeasured(Message):
    """Settings were measured, and ``sweep`` is all that is known by now.

    ``run_number`` is the number of the work, ``is_done`` says that it is done, ``error`` it is not.
    """

    rows: Sequence[SweepRow]
    sweep: Sweep
    run_number: int
    is_done: bool = False
    error: str = ""


class SweepScreen(WorkErrorHandler, Screen[InspectorCommand | None]):
    """Shows a board; keys change it, what is missing is measured in a thread, and it is drawn."""

    CSS_PATH = "sweep.tcss"
    AUTO_FOCUS = "ListView"
    BINDING_GROUP_TITLE = "Sweep"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    def __init__(
        self, board: SweepBoard, *, command: Callable[[SweepBoard], str], adopt: AdoptSetting | None = None, ascii: bool
    ) -> None:
        """Show a board.

        Args:
            command: the command line that makes the same sweep.
            take: takes the chosen setting over; None: its sessions are listed instead.
            ascii: draw with plain characters.
        """
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(build_bindings(live=board.is_live)), self._bindings])
        self.board, self._command, self._adopt, self._ascii = board, command, adopt, ascii
        self.grid_error = ""
        self.is_measuring = self.is_stopped = False
        self._run_number = 0
        self._replay_lock = Lock()  # replays of one recording put their summaries into the same facts
        self._first_row = 0
        self._table_layout_cache: tuple[Sweep, int, table.TableLayout] | None = None
        self._scatter_cache: tuple[object, tuple[int, int], plot.Scatter] | None = None

    # What is seen

    def compose(self) -> ComposeResult:
        """Header, grid, status, table and plot, the setting under the cursor, limits, footer."""
        board, plain = self.board, self._ascii
        yield LinesPane(lambda width, _: [formatting.format_header(board, width)], ascii=plain, id="sweep-header")
        if board.is_live:
            with Horizontal(id="sweep-line"):
                yield Static(f"{board.current_setting.policy.name} ", id="sweep-prompt", markup=False)
                yield Input(board.grid_text, id="sweep-grid", compact=True, select_on_focus=False)
        yield LinesPane(self._draw_status, ascii=plain, id="sweep-status")
        with Container(id="sweep-panes"):
            yield ListView(self._draw_table, ascii=plain, id="sweep-table")
            yield PlotView(self._draw_plot, ascii=plain, id="sweep-plot")
        yield LinesPane(self._draw_setting, ascii=plain, id="sweep-words")
        yield LinesPane(lambda width, _: [[(format_limits(width), MUTED)]], ascii=plain, id="sweep-limits")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="sweep-tiny", markup=False)

    def _draw_status(self, width: int, _: int) -> list[list[Run]]:
        return [formatting.format_status(self.board, self.grid_error, self.is_measuring, width)]

    def _draw_table(self, width: int, height: int) -> list[list[Run]]:
        board, room = self.board, height - 1
        made = self._get_table_layout(width)
        if not board.listed_names:
            return [
                table.format_head(board, made, width),
                [("   measuring…" if self.is_measuring else "   nothing yet", MUTED)],
            ]
        self._first_row = max(min(self._first_row, len(board.listed_names) - room), 0)
        names = board.listed_names[self._first_row : self._first_row + room]
        return [
            table.format_head(board, made, width),
            *(table.format_setting_line(board, made, name, width) for name in names),
        ]

    def _get_table_layout(self, width: int) -> table.TableLayout:
        made = self.board.sweep
        if (
            self._table_layout_cache is None
            or self._table_layout_cache[0] is not made
            or self._table_layout_cache[1] != width
        ):
            self._table_layout_cache = made, width, table.compute_layout(self.board, width)
        return self._table_layout_cache[2]

    def _draw_plot(self, width: int, height: int) -> list[list[Run]]:
        board, size = self.board, (width - plot.GUTTER, height - 1)
        standing = board.dominance
        if not standing.points or size[0] < 8 or size[1] < 2:
            return []
        if self._scatter_cache is None or self._scatter_cache[0] is not standing or self._scatter_cache[1] != size:
            found = plot.build_scatter(standing.points, standing.frontier, board.sweep.current, *size)
            self._scatter_cache = standing, size, found
        told = partial(formatting.format_saving, board, full=False)
        return plot.draw_plot(self._scatter_cache[2], board.sweep.current, board.cursor, told)

    def _draw_setting(self, width: int, height: int) -> list[list[Run]]:
        return list(formatting.format_setting(self.board, width))[:height]

    def on_mount(self) -> None:
        """Show what is known, and have the rest measured."""
        self.draw()
        self._start_measuring()
        self.call_after_refresh(self._center_cursor)

    def _center_cursor(self) -> None:
        """Show what is around the cursor."""
        self._first_row = max(self.board.cursor_index - self.query_one(ListView).visible_rows // 2, 0)
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room."""
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw everything."""
        self._reveal_cursor()
        for pane in self.query(LinesPane):
            pane.refresh()
        self._draw_titles()

    def draw_cursor(self) -> None:
        """Draw what depends on the cursor."""
        self._reveal_cursor()
        for name in ("#sweep-table", "#sweep-plot", "#sweep-words"):
            self.query_one(name).refresh()
        self._draw_titles()

    def _draw_titles(self) -> None:
        board, pane, view = self.board, self.query_one(ListView), self.query_one(PlotView)
        count, room = len(board.listed_names), pane.visible_rows
        where = f"{self._first_row + 1:,}–{min(self._first_row + room, count):,} of {count:,}" if count > room else ""
        pane.border_title = build_content([(where, MUTED)], self._ascii) if where else None
        view.border_title = build_content(formatting.format_legend(board, max(view.size.width - 4, 0)), self._ascii)

    def _reveal_cursor(self) -> None:
        """Move what is in sight so that the cursor is."""
        at, room = self.board.cursor_index, self.query_one(ListView).visible_rows
        self._first_row = min(max(self._first_row, at - room + 1), at)

    # What is measured

    def _start_measuring(self) -> None:
        """Measure the missing settings, in place of what is being measured."""
        board, missing = self.board, self.board.missing_settings
        self._run_number += 1
        self.is_measuring = bool(missing) and not self.is_stopped
        if self.is_measuring and board.row_cache is not None:
            work = partial(
                self._measure_settings,
                board.row_cache,
                dict(board.row_cache.rows),
                board.sweep,
                missing,
                self._run_number,
            )
            start_work(self, "sweep", "sweep the settings", work)

    def _measure_settings(
        self,
        known: SweepRowCache,
        rows: dict[str, SweepRow],
        like: Sweep,
        wanted: Sequence[SweepSetting],
        run: int,
        job: ThreadJob,
    ) -> None:
        """Measure settings; what follows from all of them is computed here too, as there may be thousands."""
        new = list[SweepRow]()

        def hand_over(*, ended: bool = False, why: str = "") -> None:
            nonlocal new
            rows.update((row.setting, row) for row in new)
            made = build_partial_sweep(like.settings, rows, like)
            _ = made.totals, made.dominance
            job.checkpoint()
            self.post_message(RowsMeasured(new, made, run, ended, why))
            new = []

        with self._replay_lock:
            try:
                there = known.session_sweep or SessionSweep(known.session, _format_session_name(known), known.options)
                known.session_sweep = there
                told, every = time.monotonic(), UPDATE_INTERVAL_S
                for row in sweep_settings(there, wanted, job.checkpoint):
                    new.append(row)
                    if (begun := time.monotonic()) - told > every:
                        hand_over()
                        told = time.monotonic()
                        every = max(UPDATE_INTERVAL_S, UPDATE_COST_FACTOR * (told - begun))
            except PlanError as error:
                hand_over(ended=True, why=str(error))
            else:
                hand_over(ended=True)

    @on(RowsMeasured)
    def _show_rows(self, event: RowsMeasured) -> None:
        self.board.update(event.rows, event.sweep)
        if event.run_number == self._run_number and event.is_done:
            self.is_measuring, self.board.error = False, event.error
        self.draw()

    def show_work_error(self, message: str, group: str) -> None:
        """Show the error of a worker beside the rows measured so far."""
        self.is_measuring, self.board.error = False, message
        self.draw()

    def notify_briefly(self, text: str, *, warn: bool = False) -> None:
        """Notify in passing."""
        self.app.clear_notifications()
        self.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    # The grid

    def action_edit(self) -> None:
        """Type another grid."""
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
        self.query_one(ListView).focus()
        self.draw()
        self._start_measuring()

    @on(Input.Changed)
    def _clear_grid_error(self, event: Input.Changed) -> None:
        """Clear the error of the grid while it is edited."""
        event.stop()
        if self.grid_error:
            self.grid_error = ""
            self.query_one("#sweep-status").refresh()

    # The cursor

    def action_move(self, lines: int) -> None:
        """Move the cursor by lines."""
        self.board.move_cursor(lines)
        self.draw_cursor()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(self.query_one(ListView).visible_rows - 1, 1))

    def action_ends(self, place: int) -> None:
        """Move the cursor to the first setting, or to the last (-1)."""
        self.board.move_to_index(place if place >= 0 else len(self.board.listed_names))
        self.draw_cursor()

    def action_to_current(self) -> None:
        """Move the cursor to the current setting."""
        self.board.move_to_setting(self.board.sweep.current)
        self.draw()

    def action_next_best(self) -> None:
        """Move the cursor to the next setting that nothing beats, around the end."""
        listed, at = self.board.listed_names, self.board.cursor_index
        found = next((name for name in [*listed[at + 1 :], *listed[:at]] if name in self.board.findings.best), None)
        if found is not None:
            self.board.move_to_setting(found)
            self.draw_cursor()

    @on(ListView.Clicked)
    def _select_clicked_row(self, event: ListView.Clicked) -> None:
        if event.line == 0:
            self._sort_by_column(event.x)
            return
        place = self._first_row + event.line - 1
        if event.line > 0 and place < len(self.board.listed_names):
            self.board.move_to_index(place)
            self.draw_cursor()
            if event.is_double:
                self.action_take()

    @on(ListView.Scrolled)
    def _shift_rows(self, event: ListView.Scrolled) -> None:
        pane, count = self.query_one(ListView), len(self.board.listed_names)
        self._first_row = min(max(self._first_row + event.lines, 0), max(count - pane.visible_rows, 0))
        pane.refresh()
        self._draw_titles()

    @on(PlotView.Pointed)
    def _select_pointed_setting(self, event: PlotView.Pointed) -> None:
        found = self._scatter_cache[2].find_nearest(event.x - plot.GUTTER, event.y) if self._scatter_cache else None
        if found is not None:
            self.board.move_to_setting(found)
            self.draw()

    # What is listed, and how

    def action_sort(self, step: int) -> None:
        """List by another number."""
        self.board.cycle_order(step)
        self.draw()

    def action_reverse(self) -> None:
        """List the other way round."""
        self.board.set_order(self.board.order)
        self.draw()

    def _sort_by_column(self, x: int) -> None:
        pane = self.query_one(ListView)
        order = self._get_table_layout(pane.content_size.width).find_order(x)
        if order:
            self.board.set_order(order)
            self.draw()

    def action_money(self) -> None:
        """Count money, or tokens."""
        if self.board.toggle_saving_unit():
            self.draw()
        else:
            self.notify_briefly("These settings have no prices: savings are counted in tokens")

    def action_best(self) -> None:
        """List only what nothing beats."""
        self.board.toggle_only_best()
        self.draw()

    # Other screens, and the way back

    def action_help(self) -> None:
        """List all keys."""
        self.app.push_screen(HelpScreen([self], notes=HELP_NOTES))

    def action_text(self) -> None:
        """Show everything as text."""
        self.app.push_screen(TextScreen("Sweep", build_report_parts(self.board)))

    def action_projects(self) -> None:
        """Show the best setting of each project."""
        self.app.push_screen(TextScreen("Best in each project", build_project_parts(self.board)))

    def action_copy(self) -> None:
        """Copy the command that makes the same sweep."""
        self.app.copy_to_clipboard(self._command(self.board))

    def action_copy_native(self) -> None:
        """Copy the setting as its agent's own configuration."""
        text = formatting.format_native_text(self.board, self.board.settings_by_name[self.board.cursor])
        if text:
            self.app.copy_to_clipboard(text)
        else:
            self.notify_briefly("No agent configuration is known for this setting; y copies the command")

    def action_picture(self) -> None:
        """Save the screen as a picture."""
        known = self.board.row_cache
        name = (PurePath(known.session.info.path).stem if known else "") or "sessions"
        title, picture = make_visible(f"{name}: sweep"), self.app.export_screenshot
        try:
            path = save_new_file(picture(title=title), f"{name}-sweep", "svg")
        except OSError as error:
            self.notify_briefly(f"The picture cannot be written: {error.strerror or error}", warn=True)
        else:
            self.notify_briefly(f"Saved {path}")

    def action_take(self) -> None:
        """Take the setting over; of a sweep over sessions list those of it."""
        setting = self.board.settings_by_name[self.board.cursor]
        if self._adopt is None:
            self.app.push_screen(SessionsScreen(self.board, setting, ascii=self._ascii))
        else:
            self.dismiss(partial(self._adopt, setting))

    def action_go_on(self) -> None:
        """Go on with what was stopped."""
        if not self.board.missing_settings:
            self.notify_briefly("Every setting is measured" if not self.board.error else "Change the grid first (e)")
        elif not self.is_measuring:
            self.is_stopped = False
            self._start_measuring()
            self.draw()

    def action_back(self) -> None:
        """Leave the grid, stop what is being measured, or go back: one thing for each press."""
        line = self.query(Input)
        if line and line.first().has_focus:
            line.first().value, self.grid_error = self.board.grid_text, ""
            self.query_one(ListView).focus()
            self.draw()
        elif self.is_measuring:
            self.workers.cancel_group(self, "sweep")
            self.is_measuring, self.is_stopped = False, True
            self._run_number += 1
            self.draw()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Go back, changing nothing."""
        self.dismiss(None)


def _format_session_name(known: SweepRowCache) -> str:
    info = known.session.info
    return f"{info.path}#{info.id}" if info.id else info.path


HELP_NOTES = (
    " ".join(REPLAY_LIMITS_TEXT),
    "Table and plot: * on the Pareto front: no other setting saves as much with as little needed later; > current, "
    "· dominated by another, ◆ under the cursor. A setting may be best here by chance: try more sessions "
    "(context-tui sweep FOLDER).",
    "Grid values are written as for context-tui sweep -p: 1..8, 1..8:2 (with a step), 256,512,1024, or one value. A "
    "word without = names another policy, followed by its values.",
    "Needed later: tokens (bytes / 4) that the setting drops and the recorded session needed again. Cost: prompts and "
    "summaries compared with no policy, at cache prices.",
)
"""Notes above the keys in the help."""


_build_binding = partial(build_binding, prefix="sweep-")


def build_bindings(*, live: bool) -> list[Binding]:
    """Build all bindings, in the order of the footer: for a sweep of the open session, or for one over sessions."""
    return [*_FIRST_BINDINGS, *(_LIVE_BINDINGS if live else _SESSIONS_BINDINGS), *_OTHER_BINDINGS]


_FIRST_BINDINGS = [
    _build_binding("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _build_binding("up,k", "move(-1)", "setting", "up", "Go to the setting above", "↑↓"),
    _build_binding("down,j", "move(1)", "Next setting", "down", "Go to the setting below"),
]
_LIVE_BINDINGS = [
    _build_binding("enter", "take", "take over", "take", "Go back with this policy and its settings", "enter"),
    _build_binding(
        "escape", "back", "back", "back", "Stop what is being measured; then go back, changing nothing", "esc"
    ),
    _build_binding("e", "edit", "grid", "edit", "Type another grid", "e"),
]
_SESSIONS_BINDINGS = [
    _build_binding("enter", "take", "sessions", "take", "List the sessions of this setting", "enter"),
    _build_binding("escape", "back", "leave", "back", "Leave", "esc"),
    _build_binding("p", "projects", "projects", "projects", "Show the best setting of each project", "p"),
]
_OTHER_BINDINGS = [
    _build_binding("o", "sort(1)", "sort", "sort", "Sort by the next column; a click on a heading does the same", "o"),
    _build_binding("m", "money", "money", "money", "Count savings in money, or in tokens", "m"),
    _build_binding("f", "best", "best", "best", "List only the Pareto front, or all settings", "f"),
    _build_binding("t", "text", "text", "text", "Show everything as text", "t"),
    _build_binding("c", "copy_native", "copy", "copy-native", "Copy the setting as the agent's own configuration", "c"),
    _build_binding("y", "copy", "Copy command", "copy", "Copy the command for this sweep"),
    _build_binding("O", "sort(-1)", "Sort back", "sort-back", "Sort by the previous column"),
    _build_binding("i", "reverse", "Reverse", "reverse", "Reverse the order"),
    _build_binding("pageup", "page(-1)", "Page up", "page-up", "One page up"),
    _build_binding("pagedown", "page(1)", "Page down", "page-down", "One page down"),
    _build_binding("home,g", "ends(0)", "First", "first", "Go to the first setting"),
    _build_binding("end,G", "ends(-1)", "Last", "last", "Go to the last setting"),
    _build_binding("greater_than_sign", "to_current", "Current", "current", "Go to the current setting"),
    _build_binding("asterisk", "next_best", "Next best", "next-best", "Go to the next setting on the Pareto front"),
    _build_binding("r", "go_on", "Go on", "go-on", "Continue a stopped sweep"),
    _build_binding("tab", "app.focus_next", "Pane", "pane", "Go to the grid, or back to the table"),
    _build_binding("x", "picture", "Picture", "picture", "Save the screen as a picture (SVG) in the working directory"),
    _build_binding("q", "leave", "Leave", "leave", "Go back, changing nothing"),
]
