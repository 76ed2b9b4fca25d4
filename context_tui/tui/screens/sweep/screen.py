"""A sweep: the table of settings, what is saved against what is used later, and the setting under the cursor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from threading import Lock

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Container, Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static
from textual.worker import Worker

from context_tui.errors import PlanError
from context_tui.lab.sweep.measure import SessionSweep, sweep_settings
from context_tui.lab.sweep.results import Sweep
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.settings import SweepSetting
from context_tui.text.sanitize import make_visible
from context_tui.tui.saving import save_new_file
from context_tui.tui.screens.help import HelpScreen
from context_tui.tui.screens.replay.telling import limits
from context_tui.tui.screens.sweep import plot, table, telling
from context_tui.tui.screens.sweep.board import Board, Known, known_of
from context_tui.tui.screens.sweep.drawn import ListView, PlotView
from context_tui.tui.screens.sweep.keys import NOTES, keys
from context_tui.tui.screens.sweep.sessions import SessionsScreen
from context_tui.tui.screens.sweep.texts import TextScreen, parts, project_parts
from context_tui.tui.threads import ThreadJob, format_worker_error, start_work
from context_tui.tui.widgets.draw import MUTED, Run, content
from context_tui.tui.widgets.drawn import Drawn
from context_tui.tui.widgets.footer import KeyFooter

EVERY, CALM = 0.1, 8
"""Seconds between two looks at rows that come in, at least; and how many times longer than such a look takes."""

Command = Callable[[], str]
"""What is to be done when the screen was closed: it returns what to say."""
Take = Callable[[SweepSetting], str]
"""Takes a setting over, and returns what to say."""


@dataclass
class Rows(Message):
    """Settings were measured, and ``made`` is all that is known by now.

    ``run`` is the number of the work, ``ended`` says that it is done, ``why`` it is not.
    """

    rows: Sequence[SweepRow]
    made: Sweep
    run: int
    ended: bool = False
    why: str = ""


class SweepScreen(Screen[Command | None]):
    """Shows a board; keys change it, what is missing is measured in a thread, and it is drawn."""

    CSS_PATH = "sweep.tcss"
    AUTO_FOCUS = "ListView"
    BINDING_GROUP_TITLE = "Sweep"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    def __init__(self, board: Board, *, command: Callable[[Board], str], take: Take | None = None, ascii: bool) -> None:
        """Show a board.

        Args:
            command: the command line that makes the same sweep.
            take: takes the chosen setting over; None: its sessions are listed instead.
            ascii: draw with plain characters.
        """
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(keys(live=board.is_live)), self._bindings])
        self.board, self._command, self._take, self._ascii = board, command, take, ascii
        self.wrong = ""
        self.running = self.stopped = False
        self._run = 0
        self._turn = Lock()  # replays of one recording put their summaries into the same facts
        self._first = 0
        self._layout: tuple[Sweep, int, table.Layout] | None = None
        self._scatter: tuple[object, tuple[int, int], plot.Scatter] | None = None

    # What is seen

    def compose(self) -> ComposeResult:
        """Header, grid, status, table and plot, the setting under the cursor, limits, footer."""
        board, plain = self.board, self._ascii
        yield Drawn(lambda width, _: [telling.header(board, width)], ascii=plain, id="sweep-header")
        if board.is_live:
            with Horizontal(id="sweep-line"):
                yield Static(f"{board.current.policy.name} ", id="sweep-prompt", markup=False)
                yield Input(board.text, id="sweep-grid", compact=True, select_on_focus=False)
        yield Drawn(self._status, ascii=plain, id="sweep-status")
        with Container(id="sweep-panes"):
            yield ListView(self._table, ascii=plain, id="sweep-table")
            yield PlotView(self._plot, ascii=plain, id="sweep-plot")
        yield Drawn(self._words, ascii=plain, id="sweep-words")
        yield Drawn(lambda width, _: [[(limits(width), MUTED)]], ascii=plain, id="sweep-limits")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="sweep-tiny", markup=False)

    def _status(self, width: int, _: int) -> list[list[Run]]:
        return [telling.status(self.board, self.wrong, self.running, width)]

    def _table(self, width: int, height: int) -> list[list[Run]]:
        board, room = self.board, height - 1
        made = self._columns(width)
        if not board.listed:
            return [table.head(board, made, width), [("   measuring…" if self.running else "   nothing yet", MUTED)]]
        self._first = max(min(self._first, len(board.listed) - room), 0)
        names = board.listed[self._first : self._first + room]
        return [table.head(board, made, width), *(table.line(board, made, name, width) for name in names)]

    def _columns(self, width: int) -> table.Layout:
        made = self.board.made
        if self._layout is None or self._layout[0] is not made or self._layout[1] != width:
            self._layout = made, width, table.layout(self.board, width)
        return self._layout[2]

    def _plot(self, width: int, height: int) -> list[list[Run]]:
        board, size = self.board, (width - plot.GUTTER, height - 1)
        standing = board.standing
        if not standing.points or size[0] < 8 or size[1] < 2:
            return []
        if self._scatter is None or self._scatter[0] is not standing or self._scatter[1] != size:
            found = plot.scatter(standing.points, standing.frontier, board.made.current, *size)
            self._scatter = standing, size, found
        told = partial(telling.saved_of, board, full=False)
        return plot.plot(self._scatter[2], board.made.current, board.cursor, told)

    def _words(self, width: int, height: int) -> list[list[Run]]:
        return list(telling.words(self.board, width))[:height]

    def on_mount(self) -> None:
        """Show what is known, and have the rest measured."""
        self.draw()
        self._compute()
        self.call_after_refresh(self._centre)

    def _centre(self) -> None:
        """Show what is around the cursor."""
        self._first = max(self.board.at - self.query_one(ListView).room // 2, 0)
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room."""
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw everything."""
        self._into_sight()
        for pane in self.query(Drawn):
            pane.refresh()
        self._titles()

    def draw_cursor(self) -> None:
        """Draw what depends on the cursor."""
        self._into_sight()
        for name in ("#sweep-table", "#sweep-plot", "#sweep-words"):
            self.query_one(name).refresh()
        self._titles()

    def _titles(self) -> None:
        board, pane, view = self.board, self.query_one(ListView), self.query_one(PlotView)
        count, room = len(board.listed), pane.room
        where = f"{self._first + 1:,}–{min(self._first + room, count):,} of {count:,}" if count > room else ""
        pane.border_title = content([(where, MUTED)], self._ascii) if where else None
        view.border_title = content(telling.legend(board, max(view.size.width - 4, 0)), self._ascii)

    def _into_sight(self) -> None:
        """Move what is in sight so that the cursor is."""
        at, room = self.board.at, self.query_one(ListView).room
        self._first = min(max(self._first, at - room + 1), at)

    # What is measured

    def _compute(self) -> None:
        """Begin with what is missing, in place of what was begun before."""
        board, missing = self.board, self.board.missing
        self._run += 1
        self.running = bool(missing) and not self.stopped
        if self.running and board.known is not None:
            work = partial(self._measure, board.known, dict(board.known.rows), board.made, missing, self._run)
            start_work(self, "sweep", "sweep the settings", work)

    def _measure(
        self,
        known: Known,
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
            made = known_of(like.settings, rows, like)
            _ = made.totals, made.dominance
            job.checkpoint()
            self.post_message(Rows(new, made, run, ended, why))
            new = []

        with self._turn:
            try:
                there = known.there or SessionSweep(known.session, _name_of(known), known.how)
                known.there = there
                told, every = time.monotonic(), EVERY
                for row in sweep_settings(there, wanted, job.checkpoint):
                    new.append(row)
                    if (begun := time.monotonic()) - told > every:
                        hand_over()
                        told = time.monotonic()
                        every = max(EVERY, CALM * (told - begun))
            except PlanError as error:
                hand_over(ended=True, why=str(error))
            else:
                hand_over(ended=True)

    @on(Rows)
    def _measured(self, event: Rows) -> None:
        self.board.take(event.rows, event.made)
        if event.run == self._run and event.ended:
            self.running, self.board.trouble = False, event.why
        self.draw()

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        """A defect in a thread is told; what is known stays."""
        if words := format_worker_error(event):
            self.running, self.board.trouble = False, words
            self.draw()

    def say(self, text: str, *, warn: bool = False) -> None:
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
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.board.regrid(event.value)
        except PlanError as error:
            self.wrong = str(error)
            self.query_one("#sweep-status").refresh()
            return
        self.wrong, self.stopped = "", False
        self.query_one(ListView).focus()
        self.draw()
        self._compute()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """What was wrong is being put right."""
        event.stop()
        if self.wrong:
            self.wrong = ""
            self.query_one("#sweep-status").refresh()

    # The cursor

    def action_move(self, lines: int) -> None:
        """Move the cursor by lines."""
        self.board.move(lines)
        self.draw_cursor()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * max(self.query_one(ListView).room - 1, 1))

    def action_ends(self, place: int) -> None:
        """Move the cursor to the first setting, or to the last (-1)."""
        self.board.go(place if place >= 0 else len(self.board.listed))
        self.draw_cursor()

    def action_to_current(self) -> None:
        """Move the cursor to the current setting."""
        self.board.point_at(self.board.made.current)
        self.draw()

    def action_next_best(self) -> None:
        """Move the cursor to the next setting that nothing beats, around the end."""
        listed, at = self.board.listed, self.board.at
        found = next((name for name in [*listed[at + 1 :], *listed[:at]] if name in self.board.of.best), None)
        if found is not None:
            self.board.point_at(found)
            self.draw_cursor()

    @on(ListView.Clicked)
    def _clicked(self, event: ListView.Clicked) -> None:
        if event.line == 0:
            self._sort_at(event.x)
            return
        place = self._first + event.line - 1
        if event.line > 0 and place < len(self.board.listed):
            self.board.go(place)
            self.draw_cursor()
            if event.twice:
                self.action_take()

    @on(ListView.Scrolled)
    def _scrolled(self, event: ListView.Scrolled) -> None:
        pane, count = self.query_one(ListView), len(self.board.listed)
        self._first = min(max(self._first + event.lines, 0), max(count - pane.room, 0))
        pane.refresh()
        self._titles()

    @on(PlotView.Pointed)
    def _pointed(self, event: PlotView.Pointed) -> None:
        found = self._scatter[2].nearest(event.x - plot.GUTTER, event.y) if self._scatter else None
        if found is not None:
            self.board.point_at(found)
            self.draw()

    # What is listed, and how

    def action_sort(self, step: int) -> None:
        """List by another number."""
        self.board.sort(step)
        self.draw()

    def action_reverse(self) -> None:
        """List the other way round."""
        self.board.sort_by(self.board.order)
        self.draw()

    def _sort_at(self, x: int) -> None:
        pane = self.query_one(ListView)
        order = self._columns(pane.content_size.width).order_at(x)
        if order:
            self.board.sort_by(order)
            self.draw()

    def action_money(self) -> None:
        """Count money, or tokens."""
        if self.board.toggle_money():
            self.draw()
        else:
            self.say("No prices are known of these settings: what is saved is counted in tokens")

    def action_best(self) -> None:
        """List only what nothing beats."""
        self.board.toggle_best()
        self.draw()

    # Other screens, and the way back

    def action_help(self) -> None:
        """List all keys."""
        self.app.push_screen(HelpScreen([self], notes=NOTES))

    def action_text(self) -> None:
        """Show everything as text."""
        self.app.push_screen(TextScreen("Sweep", parts(self.board)))

    def action_projects(self) -> None:
        """Show the best setting of each project."""
        self.app.push_screen(TextScreen("Best in each project", project_parts(self.board)))

    def action_copy(self) -> None:
        """Copy the command that makes the same sweep."""
        self.app.copy_to_clipboard(self._command(self.board))

    def action_copy_native(self) -> None:
        """Copy the setting as its agent is told it."""
        text = telling.native_text(self.board, self.board.named[self.board.cursor])
        if text:
            self.app.copy_to_clipboard(text)
        else:
            self.say("No configuration of an agent holds this setting; y copies the command")

    def action_picture(self) -> None:
        """Save the screen as a picture."""
        known = self.board.known
        name = (PurePath(known.session.info.path).stem if known else "") or "sessions"
        title, picture = make_visible(f"{name}: sweep"), self.app.export_screenshot
        try:
            path = save_new_file(picture(title=title), f"{name}-sweep", "svg")
        except OSError as error:
            self.say(f"The picture cannot be written: {error.strerror or error}", warn=True)
        else:
            self.say(f"Saved {path}")

    def action_take(self) -> None:
        """Take the setting over; of a sweep over sessions list those of it."""
        setting = self.board.named[self.board.cursor]
        if self._take is None:
            self.app.push_screen(SessionsScreen(self.board, setting, ascii=self._ascii))
        else:
            self.dismiss(partial(self._take, setting))

    def action_go_on(self) -> None:
        """Go on with what was stopped."""
        if not self.board.missing:
            self.say("Every setting is measured" if not self.board.trouble else "Change the grid first (e)")
        elif not self.running:
            self.stopped = False
            self._compute()
            self.draw()

    def action_back(self) -> None:
        """Leave the grid, stop what is being measured, or go back: one thing for each press."""
        line = self.query(Input)
        if line and line.first().has_focus:
            line.first().value, self.wrong = self.board.text, ""
            self.query_one(ListView).focus()
            self.draw()
        elif self.running:
            self.workers.cancel_group(self, "sweep")
            self.running, self.stopped = False, True
            self._run += 1
            self.draw()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Go back, changing nothing."""
        self.dismiss(None)


def _name_of(known: Known) -> str:
    info = known.session.info
    return f"{info.path}#{info.id}" if info.id else info.path
