"""Policies along the run: their sawtooths over the recorded line, the firings, and the settings that move them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker

from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.policies.parameters import get_value, list_parameters_in_context
from context_tui.policies.registry import LISTED_POLICIES, POLICIES
from context_tui.text.numbers import format_percent
from context_tui.text.sanitize import make_visible
from context_tui.tui.command_line import format_replay_command
from context_tui.tui.controller import Controller
from context_tui.tui.saving import save_new_file
from context_tui.tui.screens.help import HelpScreen
from context_tui.tui.screens.inspector_keys import policy_about
from context_tui.tui.screens.replay import options, telling
from context_tui.tui.screens.replay.charts import Charts, charts_of
from context_tui.tui.screens.replay.comparison import MOST, Comparison, Wanted
from context_tui.tui.screens.replay.configuration import ConfigurationScreen
from context_tui.tui.screens.replay.drawn import ChartsView, TableView
from context_tui.tui.screens.replay.firings import FiringsScreen
from context_tui.tui.screens.replay.keys import NOTES, keys
from context_tui.tui.screens.replay.measured import Measured, Shared, measure, shared, studied
from context_tui.tui.screens.replay.pulling import Handle, Pulling
from context_tui.tui.screens.replay.regrets import RegretsScreen
from context_tui.tui.threads import ThreadJob, format_worker_error, start_work
from context_tui.tui.widgets.draw import MUTED, Run, content, short_words
from context_tui.tui.widgets.drawn import Drawn
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.setting_paint import lines_of
from context_tui.tui.widgets.setting_rows import SettingRows

PATIENCE = 0.25
"""Seconds after which a replay that nobody waits for any more is given up; one that is faster is shown on the way."""
AT_ONCE = 0.03
"""Seconds for which a replay goes on without giving the screen its turn: most are done by then, and waited for."""
QUIET = 0.15
"""Seconds without another change after which prices and regrets are computed, which nobody waits for while dragging."""
TELLS = 0.2
"""Seconds between two words about how far a slow replay is."""
ABOUT, MOST_BELOW = 2, 12
"""Lines below the settings about the selected one; and the most that these and the table take side by side."""

Command = Callable[[], str]
"""What the inspector is to do when the screen was closed: it returns what to say."""


@dataclass
class Prepared(Message):
    """What all replays of the session share is there."""

    recording: Recording


@dataclass
class Replayed(Message):
    """A policy was replayed, or why it cannot be."""

    wanted: Wanted
    answer: Measured | str


@dataclass
class Indexed(Message):
    """What prices and regrets share is there."""

    shared: Shared


@dataclass
class Progress(Message):
    """So much of a slow replay is done."""

    share: float


class ReplayScreen(Screen[Command | None]):
    """Shows a comparison; keys change it, what is missing is computed in a thread, and it is drawn."""

    CSS_PATH = "replay.tcss"
    AUTO_FOCUS = "ChartsView"
    BINDING_GROUP_TITLE = "Along the run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    def __init__(self, controller: Controller, comparison: Comparison) -> None:
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(keys(LISTED_POLICIES)), self._bindings])
        self.controller, self.comparison = controller, comparison
        self.zoom = 0
        self._at_work: Wanted | None = None
        self._preparing = self._indexing = False
        self._studies: Timer | None = None
        self._begun = 0.0
        self._share = 0.0
        self._fits: object = None
        self._legend: list[Run] = []
        self._handle: tuple[Pulling, Handle] | None = None  # of the threshold that is being pulled
        self._later: list[Callable[[], object]] = []

    # What is seen

    def compose(self) -> ComposeResult:
        """Header, charts, the call under the cursor, policies, settings, limits, footer."""
        plain = self.controller.options.ascii
        yield Drawn(self._header, ascii=plain, id="replay-header")
        yield ChartsView(self._charts, ascii=plain, id="replay-charts")
        yield Drawn(self._words, ascii=plain, id="replay-words")
        with Vertical(id="replay-bottom"):
            yield TableView(self._table, ascii=plain, id="replay-table")
            with Vertical(id="replay-settings"):
                yield SettingRows(self._set, ascii=plain, id="replay-rows")
        yield Drawn(lambda width, _: [[(telling.limits(width), MUTED)]], ascii=plain, id="replay-limits")
        yield KeyFooter()
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="replay-tiny", markup=False)

    def _header(self, width: int, _: int) -> list[list[Run]]:
        return [telling.header(self.comparison, self.controller.progress, width)]

    def _charts(self, width: int, height: int) -> Charts:
        comparison = self.comparison
        why, remedy = telling.nothing(comparison)
        if why:
            share = f" {format_percent(self._share)}" if self._share and comparison.recording else ""
            told = [(short_words(why + share, width), ""), (remedy, MUTED)]
            return Charts([*([[]] * (height // 2 - 1)), *([run] for run in told)])
        charts = charts_of(comparison, self.zoom, width, height)
        signs, traced = sorted(charts.signs), charts.traced
        legend = telling.legend(signs, traced, width - 4)
        if legend != self._legend:
            self._legend = legend
            self.query_one(ChartsView).border_title = content(legend, self.controller.options.ascii)
        return charts

    def _words(self, width: int, height: int) -> list[list[Run]]:
        comparison = self.comparison
        if telling.nothing(comparison)[0]:
            return []
        found = [telling.call_line(comparison, width)]
        firings = comparison.firings_at(comparison.call)
        preview = self.controller.reader.format_preview
        told = [list(telling.firing_lines(comparison, firing, width, preview)) for firing in firings]
        found += [line for lines in told for line in lines[:2]] if len(told) > 1 else [*told[0]] if told else []
        if not told:
            found += telling.around_lines(comparison, width)
        found[2 if len(found) > 2 else len(found) : 0] = telling.event_lines(comparison, width)
        return found[:height]

    def _table(self, width: int, height: int) -> list[list[Run]]:
        return telling.table(self.comparison, width, height)

    def on_mount(self) -> None:
        """Show what is known, and have the rest computed."""
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room."""
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")
        self.call_after_refresh(self._fit)

    def draw(self) -> None:
        """Draw everything, and have computed what is missing."""
        self._draw_settings()
        self.query_one("#replay-header").refresh()
        self.draw_results()
        self._compute()

    def draw_results(self) -> None:
        """Draw what a replay changes, also on the screen above that waits for it."""
        for screen in self.app.screen_stack:
            if isinstance(screen, RegretsScreen) and screen.is_mounted:
                screen.take()
        self.query_one(TableView).refresh()
        self.draw_cursor()
        self._fit()

    def _fit(self) -> None:
        """Give the table the lines that it needs, and where the settings are beside it, those that either needs."""
        lines, wide = len(self.comparison.lanes) + 2, self.has_class("-wide")
        settings = len(lines_of(self.query_one(SettingRows).controls)) + ABOUT
        fits = wide, lines, settings, self.size.height
        if fits != self._fits:
            self._fits = fits
            self.query_one(TableView).styles.height = None if wide else lines
            most = max(min(self.size.height // 4, MOST_BELOW), lines + 1)
            self.query_one("#replay-bottom").styles.height = min(max(lines, settings) + 1, most) if wide else None

    def draw_cursor(self) -> None:
        """Draw what depends on the cursor."""
        self.query_one(ChartsView).refresh()
        self.query_one("#replay-words").refresh()

    def _draw_settings(self) -> None:
        lane = self.comparison.lane
        rows, policy = self.query_one(SettingRows), POLICIES[lane.policy]
        try:
            params = lane.params
        except PlanError:
            params = policy.Params()
        controls = list_parameters_in_context(policy, params, self.comparison.whole, lane.view.runtime_state)
        values = {control.name: get_value(policy, params, control.name) for control in controls}
        comparison = self.comparison
        common = options.controls(comparison.how, comparison.recording, compacted=bool(comparison.events))
        rows.show([*controls, *common], {**values, **options.values(comparison.how)})
        self.query_one("#replay-settings").border_title = Content(f"settings of {lane.policy}   tab")

    # What is computed

    def _compute(self) -> None:
        """Begin with what is wanted most, unless something is being computed that may still be shown."""
        comparison, running = self.comparison, self._at_work
        if comparison.recording is None:
            if not self._preparing:
                self._preparing = True
                start_work(self, "replay", "prepare the recording", self._prepare)
            return
        if running is not None:
            late = time.monotonic() - self._begun > PATIENCE
            if running.made is None and (not late or comparison.setting_of(running.lane) == running.setting):
                return
        wanted = self._at_work = comparison.wanted()
        if wanted is not None:
            self._begun, self._share = time.monotonic(), 0.0
            start_work(self, "replay", "replay the policy", partial(self._replay, wanted))
            return
        if self._studies is not None:
            self._studies.stop()
        self._studies = self.set_timer(QUIET, self._study_next)

    def _study_next(self) -> None:
        """Begin with a price and a regret, where no replay is wanted."""
        comparison = self.comparison
        if comparison.shared is None and comparison.calls and not self._indexing:
            self._indexing = True
            start_work(self, "index", "read the session", self._index)
        if self._at_work is None and comparison.wanted() is None:
            wanted = self._at_work = comparison.unstudied()
            if wanted is not None and comparison.shared is not None:
                start_work(self, "replay", "price the policy", partial(self._study, wanted, comparison.shared))

    def _index(self, job: ThreadJob) -> None:
        _all()  # loaded by the time that one of them is to be added
        if (recording := self.comparison.recording) is not None:
            self.post_message(Indexed(shared(recording, job.checkpoint)))

    def _study(self, wanted: Wanted, known: Shared, job: ThreadJob) -> None:
        if wanted.made is not None:
            with self.comparison.turn:
                answer = studied(wanted.made, known, wanted.setting.how)
            self.post_message(Replayed(wanted, answer))

    @on(Indexed)
    def _indexed(self, event: Indexed) -> None:
        self.comparison.shared = event.shared
        self.query_one("#replay-header").refresh()
        self.draw_cursor()
        self._compute()

    def _prepare(self, job: ThreadJob) -> None:
        with self.comparison.turn:
            recording = Recording(self.comparison.session)
            _ = recording.sizes
        self.post_message(Prepared(recording))

    def _replay(self, wanted: Wanted, job: ThreadJob) -> None:
        comparison, begun, done = self.comparison, time.monotonic(), 0
        told, recording = begun, comparison.recording
        if recording is None:
            return

        def checkpoint() -> None:
            nonlocal told, done
            done += 1
            now = time.monotonic()
            if now - told > TELLS:
                told = now
                self.post_message(Progress(done / len(recording.calls)))
            if now - begun > AT_ONCE:
                job.checkpoint()

        policy, setting = POLICIES[wanted.setting.policy], wanted.setting
        with comparison.turn:
            try:
                state = wanted.lane.view.runtime_state
                answer: Measured | str = measure(recording, policy, wanted.params, setting.how, state, checkpoint)
            except PlanError as error:
                answer = str(error)
        self.post_message(Replayed(wanted, answer))

    @on(Prepared)
    def _prepared(self, event: Prepared) -> None:
        self._preparing = False
        self.comparison.prepared(event.recording)
        self.comparison.look_at(self.controller.view.point)
        self.draw()

    @on(Replayed)
    def _replayed(self, event: Replayed) -> None:
        if event.wanted is not self._at_work:
            return
        self._at_work = None
        if self.comparison.take(event.wanted, event.answer):
            self.draw_results()
        self._go_on()
        self._compute()

    @on(Progress)
    def _progressed(self, event: Progress) -> None:
        self._share = event.share
        self.query_one(ChartsView).refresh()

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        """A defect in a thread is told; the rest goes on."""
        if words := format_worker_error(event):
            self.say(words, warn=True)
            wanted, self._at_work = self._at_work, None
            if wanted is not None and wanted.made is None:
                self.comparison.take(wanted, words)
                self.draw_results()
                self._compute()

    def say(self, text: str, *, warn: bool = False) -> None:
        """Notify in passing."""
        self.app.clear_notifications()
        self.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    # The cursor

    def _once_known(self, act: Callable[[], object]) -> None:
        """Do something with the selected policy's replay: now, or as soon as it is there."""
        if self.comparison.replay is not None:
            act()
        elif not self.comparison.lane.trouble and (self.comparison.recording is None or self.comparison.calls):
            self._later.append(act)

    def _go_on(self) -> None:
        """Do what waited for the selected policy's replay."""
        if self.comparison.replay is not None or self.comparison.lane.trouble:
            later, self._later = self._later, []
            for act in later:
                self._once_known(act)

    def action_move(self, calls: int) -> None:
        """Move the cursor by so many calls."""
        self._once_known(partial(self._to, self.comparison.move, calls))

    def action_go(self, call: int) -> None:
        """Go to the first call, or to the last (-1)."""
        self._once_known(lambda: self._to(self.comparison.go, call if call >= 0 else self.comparison.calls))

    def _to(self, move: Callable[[int], object], number: int) -> None:
        move(number)
        self.draw_cursor()

    def action_firing(self, step: int) -> None:
        """Go to the next or previous firing."""
        self._once_known(partial(self._to_firing, step))

    def _to_firing(self, step: int) -> None:
        if self.comparison.to_firing(step):
            self.draw_cursor()
        else:
            self.say(telling.never(self.comparison))

    def action_zoom(self, step: int) -> None:
        """Show half as many calls, or twice as many."""
        most = max((self.comparison.calls // 8).bit_length() - 1, 0)
        self.zoom = min(max(self.zoom + step, 0), most)
        self.draw_cursor()

    @on(ChartsView.Pointed)
    def _pointed(self, event: ChartsView.Pointed) -> None:
        self.comparison.go(event.call)
        if event.number is not None and event.number != self.comparison.selected:
            self.comparison.select(event.number)
            self.draw()
        else:
            self.draw_cursor()

    @on(ChartsView.Pulled)
    def _pulled(self, event: ChartsView.Pulled) -> None:
        """Set the parameter that puts the threshold where it was pulled."""
        if event.begins:
            if event.line.number != self.comparison.selected:
                self.comparison.select(event.line.number)
                self.draw()
            self._take_hold(event.line.tokens)
        if self._handle is not None and event.line.number == self.comparison.selected:
            pulling, handle = self._handle
            value = pulling.value_at(handle, event.tokens)
            rows = self.query_one(SettingRows)
            rows.choose(next((n for n, each in enumerate(rows.controls) if each.name == handle.control.name), rows.row))
            if value != rows.values[handle.control.name]:
                self._set(handle.control.name, value)

    def _take_hold(self, tokens: int) -> None:
        """Find what the threshold at a size is set by."""
        lane, rows = self.comparison.lane, self.query_one(SettingRows)
        controls = [each for each in rows.controls if each.owner != options.OWNER]
        pulling = Pulling(POLICIES[lane.policy], lane.values, controls, lane.view.runtime_state)
        handle = pulling.handle(tokens)
        self._handle = (pulling, handle) if handle else None
        if handle is None:
            self.say(f"No parameter of {lane.policy} sets this threshold")

    # Policies and their settings

    def action_select(self, step: int) -> None:
        """Select the policy above or below."""
        self.comparison.select(self.comparison.selected + step)
        self.draw()

    @on(TableView.Clicked)
    def _table_clicked(self, event: TableView.Clicked) -> None:
        first = telling.first_in_sight(len(self.comparison.lanes), self.comparison.selected, event.height)
        number = first + event.line - 1
        if event.line >= 1 and number < min(len(self.comparison.lanes), first + event.height - 2):
            self.comparison.select(number)
            self.draw()

    def action_policy(self, name: str) -> None:
        """Put another policy in place of the selected one."""
        self.comparison.choose(name)
        self.draw()

    def action_add(self) -> None:
        """Ask which policy to compare besides."""
        if len(self.comparison.lanes) >= MOST:
            self.say(f"{MOST} policies are compared; press d to remove one", warn=True)
            return
        listed = [(name, partial(self._add, name), policy_about(name, policy)) for name, policy in _all().items()]
        self.app.search_commands(listed, placeholder="Compare with which policy?")

    def _add(self, name: str) -> None:
        self.comparison.add(name)
        self.draw()

    def action_remove(self) -> None:
        """Compare the selected policy no longer."""
        if self.comparison.remove():
            self.draw()
        else:
            self.say("It is the only policy; press a to add another one, or a digit to choose another")

    def _set(self, name: str, value: Any) -> None:
        how = options.with_value(self.comparison.how, name, value)
        if how is None:
            self.comparison.set(self.comparison.lane.policy, name, value)
        else:
            self.comparison.how = how
            self.query_one("#replay-header").refresh()
        self._draw_settings()
        self._compute()  # the rest is drawn when it is known

    def action_value(self, step: int) -> None:
        """Change the selected parameter by steps."""
        self.query_one(SettingRows).action_step(step)

    def action_type(self) -> None:
        """Type a value for the selected parameter."""
        rows = self.query_one(SettingRows)
        rows.focus()
        rows.action_type()

    def action_recorded(self) -> None:
        """Keep recorded compactions, or undo them."""
        if not self.comparison.events:
            self.say("This recording holds no compaction to undo")
            return
        self.comparison.toggle_recorded()
        self.draw()

    # Other screens, and the way back

    def action_sweep(self) -> None:
        """Sweep settings of the selected policy; the one that is chosen there is taken over."""
        from context_tui.tui.screens.sweep import screen_beside  # numpy: for who asks for one

        try:
            screen = screen_beside(self.controller, self.comparison)
        except PlanError as error:
            self.say(str(error), warn=True)
        else:
            self.app.push_screen(screen, self._swept)

    def _swept(self, command: Command | None) -> None:
        if command is not None:
            self.say(command())
            self.draw()

    def action_help(self) -> None:
        """List all keys."""
        self.app.push_screen(HelpScreen([self, self.query_one(SettingRows)], notes=NOTES))

    def action_table(self) -> None:
        """Show all firings as text."""
        self.app.push_screen(FiringsScreen(self.controller, self.comparison), self._leave_with)

    def action_regrets(self) -> None:
        """Show what the selected policy dropped beside where it was used later."""
        self.app.push_screen(RegretsScreen(self.controller, self.comparison), self._leave_with)

    def action_configuration(self) -> None:
        """Show the settings as the configuration of the agent that the selected policy belongs to."""
        self.app.push_screen(ConfigurationScreen(self.comparison.lane))

    def _leave_with(self, command: Command | None) -> None:
        """Close with what was chosen on a screen above this one."""
        if command is not None:
            self.dismiss(command)

    def action_copy(self) -> None:
        """Copy the command that replays the same."""
        views = [lane.view for lane in self.comparison.lanes]
        self.app.copy_to_clipboard(format_replay_command(views, self.comparison.how))

    def action_picture(self) -> None:
        """Save the screen as a picture."""
        name = PurePath(self.comparison.session.info.path).stem or "session"
        picture = self.app.export_screenshot(title=make_visible(f"{name}: along the run"))
        try:
            path = save_new_file(picture, f"{name}-replay", "svg")
        except OSError as error:
            self.say(f"The picture cannot be written: {error.strerror or error}", warn=True)
        else:
            self.say(f"Saved {path}")

    def action_inspect(self) -> None:
        """Plan in the inspector for the call under the cursor, with this policy and its settings."""
        self._once_known(lambda: self._close(self.comparison.point))

    def action_back(self) -> None:
        """Back to the inspector, with the selected policy and its settings."""
        self._close(None)

    def action_leave(self) -> None:
        """Back to the inspector, which stays as it was."""
        self.dismiss(None)

    def _close(self, point: int | None) -> None:
        comparison = self.comparison
        self.dismiss(partial(self.controller.adopt_settings, comparison.lane.policy, comparison.params, point))


def _all() -> dict[str, Any]:
    """The policies that can be replayed."""
    return {name: policy for name, policy in POLICIES.items() if policy.phases}
