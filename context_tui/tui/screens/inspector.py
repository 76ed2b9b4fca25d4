"""The inspector: one session, one plan, one immutable view that every widget draws and every key replaces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from textual import events, on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingsMap
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Footer, Static
from textual.worker import Worker, WorkerState

from context_tui.config import ConfigError, Saved, save_settings
from context_tui.errors import Error
from context_tui.looking import called_by
from context_tui.policies.parameters import assignments
from context_tui.policies.registry import DEFAULT, POLICIES
from context_tui.sanitize import visible
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.tui import status
from context_tui.tui.applied import applied
from context_tui.tui.command_line import command_line
from context_tui.tui.context_events import about
from context_tui.tui.document import Subject
from context_tui.tui.drafts import Drafts
from context_tui.tui.filters import EVERYTHING
from context_tui.tui.folds import ALL, NONE, Folds
from context_tui.tui.jumps import Jump, jumps, next_changed, next_jump
from context_tui.tui.listing import listed
from context_tui.tui.loading import Failed, Loading, Read
from context_tui.tui.marks import NO_MARK, Marker
from context_tui.tui.request_info import describe_request
from context_tui.tui.rows import HEAD, WHOLE, Rows
from context_tui.tui.screens.dialogs import (
    ChoicePrompt,
    message_number,
    message_prompt,
    name_prompt,
    quit_prompt,
    unchanged_prompt,
    window_prompt,
    window_tokens,
)
from context_tui.tui.screens.filters import Choice, FilterScreen
from context_tui.tui.screens.help import HelpScreen
from context_tui.tui.screens.inspector_keys import NOTES, digits, keys, policy_about, unknown_keys
from context_tui.tui.screens.problems import ProblemsScreen
from context_tui.tui.search import Found, Search
from context_tui.tui.text import Reader, kind_word, line, plain_text, plural
from context_tui.tui.turns import Turns
from context_tui.tui.view import Location, View
from context_tui.tui.widgets.breakdown import BreakdownView
from context_tui.tui.widgets.detail import Detail
from context_tui.tui.widgets.header import HeaderBar
from context_tui.tui.widgets.minimap import Minimap, stretches
from context_tui.tui.widgets.parameters import ParameterPanel
from context_tui.tui.widgets.scoreboard import DIGITS, Scoreboard, score_rows
from context_tui.tui.widgets.search_bar import SearchBar
from context_tui.tui.widgets.status_line import StatusLine
from context_tui.tui.widgets.timeline import Timeline
from context_tui.tui.widgets.timeline_frame import ColumnHeads, Legend
from context_tui.tui.workers import (
    BlocksRead,
    CurveKnown,
    FiresKnown,
    InspectorWorkers,
    RuntimeSizesKnown,
    SizesKnown,
)

if TYPE_CHECKING:
    from context_tui.tui.app import Options

SOON, STAYS = 0.04, 0.08
"""Seconds after the last change, and the last move, until the rest is drawn: a held key moves only the timeline."""


class InspectorScreen(Screen[None]):
    """Shows a session; the keys change the view, and the view is shown."""

    AUTO_FOCUS = "Timeline"
    BINDING_GROUP_TITLE = "Session"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high"), (42, "-tall")]

    @dataclass
    class Called(Message):
        """The sub-agents that a message called are to be shown."""

        infos: list[SessionInfo]
        screen: InspectorScreen

    class Done(Message):
        """There is nothing left to close here."""

    def __init__(self, what: Session | SessionInfo, options: Options, drafts: Drafts | None = None) -> None:
        super().__init__()
        self._bindings = BindingsMap.merge([BindingsMap(keys(POLICIES)), self._bindings])
        self.what, self.options = what, options
        self.drafts = Drafts() if drafts is None else drafts
        self.rows, self.search = Rows(), Search()
        self.computed = InspectorWorkers(self)
        self.reading = self.touched = self.fresh = self._notified = False
        nothing = what if isinstance(what, Session) else replace(from_messages([]), info=what)
        self.view = _view(nothing, options)
        self.reader = Reader(self.view.session)
        self.marker = Marker(self.view.context, None)
        self._listed: Sequence[int] = range(0)
        self._listed_for: object = None
        self._header: object = None
        self._rest_timer: Timer | None = None
        self._detail_timer: Timer | None = None
        self._focus_before: Widget | None = None
        self._loading = None if isinstance(what, Session) else Loading(what)
        self.progress = 1.0 if isinstance(what, Session) else 0.0  # share of the file that has been read

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
            with ContentSwitcher(initial="detail", id="side"):
                yield Detail(id="detail")
                yield BreakdownView(ascii=plain, id="breakdown")
        with Horizontal(id="tuning"):
            yield Scoreboard(self.action_policy, ascii=plain, id="scoreboard")
            yield ParameterPanel(self.change_setting, ascii=plain, id="panel")
        yield Footer(compact=True, show_command_palette=False)
        yield Static("context-tui needs 60 columns and 20 lines; enlarge the terminal", id="tiny", markup=False)

    def on_mount(self) -> None:
        """Show the session, or start to read it."""
        if wrong := unknown_keys(self.options.keys):
            self.show_notification(wrong, warn=True)
        if self._loading is None:
            self.open(self.view.session)
        else:
            self.reading = True
            self.query_one(ColumnHeads).show("timeline", 0)
            self.query_one(HeaderBar).show(self.view.session, self.view.context, progress=0.0)
            self.set_status(status.reading(self.view.session, 0.0))
            self.call_after_refresh(self.computed.read_session, self._loading)  # the first paint comes first

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room; what had the focus gets it back."""
        tiny, was = event.size.width < 60 or event.size.height < 20, self.has_class("-tiny")
        if tiny and not was:
            self._focus_before = self.focused  # what is hidden loses it
        self.set_class(tiny, "-tiny")
        if was and not tiny and self._focus_before is not None:
            self.call_after_refresh(self.set_focus, self._focus_before)
        self.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """The timeline has the focus where there was no room for what had it."""
        focused = self.focused
        if not self.has_class("-tiny") and (focused is None or focused not in self.focus_chain):
            self.query_one(Timeline).focus()

    @property
    def location(self) -> Location:
        """What is selected."""
        return self.query_one(Timeline).location

    @property
    def points(self) -> list[Jump]:
        """The points to jump between."""
        fires = self.computed.fires(self.view)
        points, acts = (fires.points, fires.acts) if fires else ([], None)
        return jumps(self.view.session, self.view.policy, points, acts if points else None)

    # Reading

    @on(Read)
    def _show_read(self, event: Read) -> None:
        """Show what has been read so far."""
        view, self.progress = self.view.with_session(event.session), event.progress
        self.rows, self.reader = event.rows, self.reader.follow(view.session)
        if event.end:
            self.open(view.session)
            return
        self.view = view
        if not view.filter and not view.by_size:  # what these list is looked for again at the end
            self._list_rows()
        self.query_one(Timeline).grow(self.rows, self.reader, self._listed)
        self.query_one(ColumnHeads).show("timeline", len(self.rows.first))
        self.set_status(status.reading(event.session, event.progress))
        self.query_one(HeaderBar).show_progress(event.progress)
        if self.query_one(Detail).location is None:
            self.draw_detail()

    @on(Failed)
    def _show_failure(self, event: Failed) -> None:
        """Say why there is nothing to show."""
        self.reading = False
        self.set_status(event.why)
        self.show_notification(event.why, warn=True)

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        """A defect in a thread is told; the rest goes on."""
        if event.state is WorkerState.ERROR:
            error = type(event.worker.error).__name__
            self.show_notification(f"Could not {event.worker.description}: {error}; please report it", warn=True)

    def action_read_on(self) -> None:
        """Go on with reading where it was stopped."""
        if self.reading or self._loading is None or self.progress >= 1:
            self.show_notification("The session is being read" if self.reading else "All of the session has been read")
        elif self.view.session.origin:
            self.show_notification("Undo what was applied first (u), then read on", warn=True)
        else:
            self.reading = True
            self.set_status(status.reading(self.view.session, self.progress))
            self._draw_timeline(self.location)  # without the marks of what it was planned for
            self.computed.read_session(self._loading)

    def open(self, session: Session) -> None:
        """Show a session that has been read, as it was asked for and as was chosen meanwhile."""
        self.reading = False
        view = replace(self.view.with_session(session).with_point(self.view.at), cursor=self.location)
        if not self.touched:
            view = self._located(view, self._begin_at(view))
        self.show(view)
        self.fresh = True

    def _begin_at(self, view: View) -> Location:
        """Where the cursor is when nobody moved it: at the point, in the demo at the last result that is cleared."""
        if self.options.demo and view.plan and view.plan.changes:
            block = max(view.plan.changes)
            return Location(view.session.facts.block_message[block], block)
        return Location(min(view.point, max(len(view.session) - 1, 0)))

    # Showing the view

    def show(self, view: View) -> None:
        """Draw a view: the timeline and the panel at once, the rest as soon as nothing more urgent comes."""
        self.dismiss_notification()
        old, self.view, self.fresh = self.view, view, False
        if view.session.facts is not self.reader.session.facts:
            self.rows = Rows()
        if view.session is not self.reader.session:
            self.reader = Reader(view.session)
        self.rows.grow(view.session)
        if not self.search.is_about(view.session):
            self._search(self.search.text)
        self.marker = Marker(view.context, view.plan, view.applied.marks if view.applied else None)
        self._list_rows()
        self._draw_timeline(view.cursor if view.cursor != old.cursor or not old.session.length else self.location)
        self._draw_panel()
        self._rest_timer = self._restart(self._rest_timer, SOON, self._draw_rest)

    def _restart(self, timer: Timer | None, seconds: float, draw: Callable[[], None]) -> Timer:
        """Draw once nothing has asked for it again for so many seconds."""
        if timer is not None:
            timer.stop()
        return self.set_timer(seconds, draw)

    def _list_rows(self) -> None:
        view = self.view
        plan = view.plan if view.filter.verdict else None
        key = (view.session, view.filter, view.by_size, view.folds, plan, view.point)
        if key != self._listed_for or len(self.rows) == 0:
            self._listed = listed(self.rows, self.marker, view.filter, view.by_size, view.folds)
            self._listed_for = key

    def _draw_timeline(self, cursor: Location) -> None:
        marker = None if self.reading else self.marker
        self.query_one(Timeline).show(self.rows, self.reader, marker, self._listed, cursor)
        order = "largest first" if self.view.by_size else ""
        title = line(", ".join(filter(None, [order, self.view.filter.describe()])))
        heads = self.query_one(ColumnHeads)
        heads.show(f"timeline: {title}" if title else "timeline", len(self.rows.first))
        heads.set_class(bool(title), "-filtered")

    def _draw_panel(self) -> None:
        view, fires = self.view, self.computed.fires(self.view)
        first = None if fires is None else fires.points[0] if fires.points else -1
        self.query_one(ParameterPanel).show(
            view.policy,
            view.model,
            view.context,
            view.runtime_state,
            view.plan,
            first=first,
            trouble=view.trouble,
            applied=view.applied.text if view.applied else "",
        )
        number = list(POLICIES).index(view.policy) + 1
        what = f"{number} {view.policy}   {POLICIES[view.policy].about}"
        set_title(self.query_one("#tuning"), f"applied: {view.policy}" if view.applied else what)

    def _draw_rest(self) -> None:
        view, rows, plan = self.view, self.rows, self.view.plan
        self.draw_detail()
        self.query_one(Scoreboard).show(score_rows(view.plan_of, view.trouble_of), "" if view.applied else view.policy)
        first = min(view.context.order, default=0)
        self.query_one(Minimap).show(lambda lines: stretches(rows, plan, first, view.point, lines))
        self._mark_in_sight()
        self.computed.find_sizes(view)
        self.computed.find_fires(view)
        self._ask_for_curve()
        self._draw_sizes()

    @on(Timeline.Scrolled)
    def _mark_in_sight(self) -> None:
        """Show on the map what is in sight, and explain its marks."""
        timeline = self.query_one(Timeline)
        self.query_one(Minimap).show_window(*timeline.share_in_sight)
        self.query_one(Legend).show(timeline.looks_in_sight())

    def _ask_for_curve(self) -> None:
        panel = self.query_one(ParameterPanel)
        values = panel.curve_values(panel.selected) if panel.selected and not self.view.applied else []
        if values:
            self.computed.draw_curve(self.view, panel.selected, values)

    def _draw_sizes(self) -> None:
        """Show the sizes of the context wherever they are told: header, breakdown, status."""
        view, sizes = self.view, self.computed.sizes(self.view)
        header = (view.context, sizes, view.session, self.progress)
        if header != self._header:
            self._header = header
            parts, fit = (sizes.parts.by_category, sizes.fit) if sizes else (None, None)
            self.query_one(HeaderBar).show(view.session, view.context, parts, fit=fit, progress=self.progress)
        if sizes is not None:
            self.query_one(BreakdownView).show(view.context, sizes)
        fit, width = sizes.fit if sizes else None, self.size.width - 2
        text = status.notice(view, self.query_one(Timeline).count, self.points, fit, width, self.progress)
        hint = status.hint(digits(len(POLICIES)), demo=self.options.demo)
        hint = hint if self.fresh and not text and not self.has_class("-low") else ""
        self.set_status(text or hint, hint=bool(hint))

    def draw_detail(self) -> None:
        """Show the selected row in full."""
        detail, here, facts = self.query_one(Detail), self.location, self.view.session.facts
        location = here._replace(block=max(here.block, WHOLE))
        if not len(self.view.session):
            detail.wait(Content("nothing selected"), "")
            return
        word = kind_word(facts, location.message, location.block)
        name = f"result of {self.reader.preview(*location)}" if location.block >= 0 else word
        title = Content(f"{location.message}  {name}")
        if self.reader.huge(location.message) and not self.reader.at_hand(location.message):
            detail.wait(title, "reading the message…")
            self.computed.read_blocks(self.reader, location)
            return
        row = self.rows.row_of(*location)
        tokens = self.rows.tokens[row] if row < len(self.rows) and self.rows.block[row] >= WHOLE else 0
        mark = NO_MARK if self.reading else self.marker.mark(*location)
        note = describe_request(self.view.session, location)
        happened = tuple(text for event in self.rows.events_at(location.message) for text in about(facts, event))
        if here.block == HEAD:
            turns = Turns(self.rows, None if self.reading else self.marker)
            happened = (*happened, turns.turn(self.rows.turn_of(here.message)).about())
        blocks = self.reader.blocks(location.message)
        belief = self._belief(location) if location.block < 0 else ""
        subject = Subject(self.view.session, location, blocks, mark, self.view.plan, note, belief, happened)
        detail.read(subject, title, Content(f"est. {plural(tokens, 'token')}"))

    def _belief(self, location: Location) -> str:
        """What the runtimes believed before a message; empty until that is known."""
        sizes = self.computed.runtime_sizes(self.view.session, location.message)
        if sizes is None and not self.reading:
            self.computed.find_runtime_sizes(self.view.session)
        return sizes.describe(location.message) if sizes else ""

    def set_status(self, text: str, *, hint: bool = False) -> None:
        """Say something in the line above the timeline."""
        self.query_one(StatusLine).show(text, hint=hint)

    def show_notification(self, text: str, *, warn: bool = False) -> None:
        """Notify in passing, in place of what was there before; nothing in it is taken for markup."""
        self.dismiss_notification()
        self._notified = True
        self.notify(visible(text), severity="warning" if warn else "information", markup=False, timeout=4)

    def dismiss_notification(self) -> None:
        """Take back the notification: it was about a view that is not on screen any more."""
        if self._notified:
            self._notified = False
            self.app.clear_notifications()

    # What was computed

    @on(FiresKnown)
    def _show_fires(self) -> None:
        self._draw_panel()

    @on(SizesKnown)
    def _show_sizes(self, event: SizesKnown) -> None:
        if event.view.session is self.view.session and event.view.point == self.view.point:
            self._draw_sizes()

    @on(CurveKnown)
    def _show_curve(self, event: CurveKnown) -> None:
        if event.view.policy == self.view.policy and event.view.context is self.view.context:
            self.query_one(ParameterPanel).show_curve(event.name, event.values, event.after)

    @on(RuntimeSizesKnown)
    def _show_belief(self, event: RuntimeSizesKnown) -> None:
        if event.session is self.view.session:
            self.draw_detail()

    @on(BlocksRead)
    def _show_blocks(self, event: BlocksRead) -> None:
        if event.reader is self.reader and event.location.message == self.location.message:
            self.draw_detail()

    # The timeline, the map, the detail

    @on(Timeline.Moved)
    def _moved(self, event: Timeline.Moved) -> None:
        self.touched = self.touched or self.query_one(Timeline).has_focus
        self.computed.touched_at = time.monotonic()
        self.search.wanted = 0
        self.view = replace(self.view, cursor=event.location)
        self._detail_timer = self._restart(self._detail_timer, STAYS, self.draw_detail)

    @on(Timeline.Entered)
    @on(Detail.Entered)
    def _entered(self, event: Timeline.Entered | Detail.Entered) -> None:
        """From a call to its sub-agent, or to its result and back; heads of turns fold or open; other rows are read."""
        if event.location.block == HEAD:
            self.action_fold()
            return
        if event.location.block < 0 and self._open_sub_agents(event.location.message):
            return
        other = self.view.counterpart(event.location)
        if other is not None:
            self.go_to(other)
        elif isinstance(event, Timeline.Entered):
            self.open_detail()

    def _open_sub_agents(self, message: int) -> bool:
        """Open the sub-agents that a message called; whether it is known which they are, and they are here."""
        if message >= len(self.view.session):
            return False
        try:
            infos = called_by(self.view.session, message)
        except Error as error:
            self.show_notification(str(error), warn=True)
            return False
        if infos:
            self.post_message(self.Called(infos, self))
        return bool(infos)

    @on(Timeline.Opened)
    def open_detail(self) -> None:
        """Read the selected row in full."""
        self.query_one(ContentSwitcher).current = "detail"
        self.add_class("-reading")
        self.draw_detail()
        self.query_one(Detail).focus()

    @on(Detail.Closed)
    def close_detail(self) -> None:
        """Back to the timeline."""
        self.remove_class("-reading")
        self.query_one(Timeline).focus()

    @on(Minimap.Clicked)
    def _map_clicked(self, event: Minimap.Clicked) -> None:
        self.query_one(Timeline).go_to_share(event.share)

    @on(HeaderBar.Jumped)
    def _header_clicked(self, event: HeaderBar.Jumped) -> None:
        self.show(self._located(self.view.with_point(event.message), Location(event.message)))

    def action_turn(self, step: int) -> None:
        """Go to the head of another turn."""
        row = self.rows.turn_row(self.rows.row_of(*self.location), step)
        if len(self.rows):
            self.query_one(Timeline).select(Location(self.rows.message[row], self.rows.block[row]))

    def go_to(self, location: Location) -> None:
        """Select a location; the turn that it stands in is opened."""
        view = self._located(self.view, location)
        if view.folds == self.view.folds:
            self.query_one(Timeline).select(location)
        else:
            self.show(view)

    def _located(self, view: View, location: Location) -> View:
        """A view with the cursor at a location, and the turn that this stands in opened; a head is in sight anyway."""
        folds = view.folds
        if folds and location.block != HEAD and self.rows.heads:
            folds = folds.without(self.rows.number(self.rows.turn_of(location.message)))
        return replace(view, cursor=location, folds=folds)

    def action_fold(self) -> None:
        """Fold the turn of the selected row to its head, or open it."""
        if self._can_fold():
            self._fold(self.view.folds.toggled(self.rows.number(self.rows.turn_of(self.location.message))))

    def action_fold_all(self) -> None:
        """Fold all turns to their heads; open all where all are."""
        if self._can_fold():
            numbers = range(self.rows.number(0), self.rows.number(len(self.rows.heads)))
            self._fold(NONE if all(number in self.view.folds for number in numbers) else ALL)

    def _can_fold(self) -> bool:
        chosen = self.view.filter or self.view.by_size
        if chosen:
            self.show_notification("Filtered and sorted rows have no turns to fold; press esc to show all", warn=True)
        return bool(self.rows.heads) and not chosen

    def _fold(self, folds: Folds) -> None:
        """Show these folds; the cursor goes to the head of its turn."""
        self.touched = True
        turn = self.rows.turn_of(self.location.message)
        self.show(replace(self.view, folds=folds, cursor=Location(self.rows.messages(turn).start, HEAD)))
        self.query_one(Timeline).show_rows(self.rows.span(turn))

    @work
    async def action_go_to(self) -> None:
        """Ask for a message to go to."""
        last = len(self.view.session) - 1
        if last < 0:
            self.show_notification("No messages in this session")
            return
        answer = await self.app.push_screen_wait(message_prompt(last))
        if answer:
            self.go_to(Location(message_number(answer, last)))

    def action_pane(self, step: int) -> None:
        """Go to another pane."""
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    # The point

    def action_as_of(self) -> None:
        """Plan before the selected message, or at the end again."""
        self.show(self.view.with_point(self.location.message if self.view.at is None else None))

    def action_jump(self, step: int) -> None:
        """Plan as of the next or previous point of interest."""
        found = next_jump(self.points, self.view.point, step)
        if found is None:
            only = f"No other jump points: {self.points[0].why}" if self.points else ""
            nowhere = "No jump points: this policy never fires here"
            self.show_notification(only or nowhere)
            return
        cursor = Location(min(found.at, max(len(self.view.session) - 1, 0)))
        self.show(self._located(self.view.with_point(found.at), cursor))

    def action_changed(self, step: int) -> None:
        """Go to the next or previous row that the plan changes, or that was changed when it was applied."""
        found = next_changed(self.rows, self.marker, self.location, step)
        if found is None:
            self.show_notification("The plan changes no row")
        else:
            self.go_to(found)

    # Policies and their settings

    def action_policy(self, name: str) -> None:
        """Choose a policy."""
        self.show(self.view.with_policy(name))

    def commands(self) -> Iterable[SystemCommand]:
        """The policies that no digit chooses, for the command palette."""
        for name, policy in islice(POLICIES.items(), DIGITS, None):
            choose = partial(self.action_policy, name)
            yield SystemCommand(f"Policy: {name}: {policy_about(name, policy)}", "No key", choose)

    def change_setting(self, policy: str, name: str, value: Any) -> None:
        """Give a setting of a policy another value."""
        self.show(self.view.with_param(policy, name, value))

    @on(ParameterPanel.Selected)
    def _setting_selected(self) -> None:
        self._ask_for_curve()

    def action_value(self, step: int) -> None:
        """Change the selected setting by steps."""
        self.query_one(ParameterPanel).rows.action_step(step)

    @work
    async def action_save_settings(self) -> None:
        """Save the settings of the policy under a name that ``-P`` takes."""
        policy = self.view.policy
        saved = Saved(policy, tuple(assignments(self.view.settings(policy))))
        name = await self.app.push_screen_wait(name_prompt(policy, list(POLICIES)))
        if name is None:
            return
        name = name.strip()
        try:
            path = save_settings(name, saved)
        except ConfigError as error:
            self.show_notification(str(error), warn=True)
        else:
            self.show_notification(f"Saved: -P {name} ({path})")

    @work
    async def action_window(self) -> None:
        """Ask for the size of the window."""
        answer = await self.app.push_screen_wait(window_prompt(self.view.window))
        if answer is not None:
            self.show(self.view.with_window(window_tokens(answer)))

    def action_mark(self) -> None:
        """Mark the selected result to be cleared by hand, or no longer."""
        if self.location.block < 0:
            self.show_notification("Only tool results can be cleared; select one", warn=True)
        elif self.view.session.facts.block_message[self.location.block] not in self.view.context.order:
            self.show_notification("This result is not in the context; select another one", warn=True)
        else:
            self.show(self.view.marked(self.location))

    def action_cut(self) -> None:
        """Mark a cut before the selected message, or take it away."""
        if self.location.message not in self.view.context.order:
            self.show_notification("This message is not in the context; select another one", warn=True)
        else:
            self.show(self.view.cut_at(self.location.message))

    # What is listed, and where it went

    def filter_by(self, kind: str, value: str | int) -> None:
        """List only what meets another condition; no kind lists everything."""
        self.show(replace(self.view, filter=self.view.filter.with_(kind, value) if kind else EVERYTHING))

    def action_filter(self) -> None:
        """Choose what is listed."""
        self.app.push_screen(FilterScreen(self.view.session.facts, self.view.filter), self._filtered)

    def _filtered(self, choice: Choice | None) -> None:
        if choice is not None:
            self.filter_by(*choice)

    def action_sort(self) -> None:
        """Largest first, or in the order of the file."""
        self.show(replace(self.view, by_size=not self.view.by_size))

    def action_unfilter(self) -> None:
        """List everything again."""
        self.show(replace(self.view, filter=EVERYTHING, by_size=False))

    def action_breakdown(self) -> None:
        """Show where the context went, or the message again."""
        switcher = self.query_one(ContentSwitcher)
        if switcher.current == "breakdown":
            switcher.current = "detail"
            self.close_detail()
        else:
            switcher.current = "breakdown"
            self.add_class("-reading")
            self.query_one(BreakdownView).focus()

    @on(BreakdownView.Filter)
    def _breakdown_filter(self, event: BreakdownView.Filter) -> None:
        self.filter_by(event.kind, event.value)

    @on(BreakdownView.Goto)
    def _breakdown_goto(self, event: BreakdownView.Goto) -> None:
        self.go_to(Location(event.message, event.block))

    # Searching

    def action_search(self) -> None:
        """Ask for a text."""
        self.query_one(SearchBar).open()

    @on(SearchBar.Asked)
    def _search_begun(self, event: SearchBar.Asked) -> None:
        self.query_one(Detail).seek("")
        self._search(event.text)

    def _search(self, text: str) -> None:
        self.search.begin(self.view.session, text)
        self.query_one(Timeline).show_matches(frozenset())
        self.query_one(SearchBar).show_count("")
        self.computed.cancel("search")
        if text:
            self.computed.search(self.view.session, text, self.search.number)

    @on(Found)
    def _search_found(self, event: Found) -> None:
        if self.search.take(event):
            self.query_one(Timeline).show_matches(frozenset(self.search.locations))
            self.query_one(SearchBar).show_count(self.search.count_text())
            if self.search.wanted and (self.search.locations or self.search.ended):
                self.action_match(self.search.wanted)

    @on(SearchBar.Done)
    def _search_entered(self) -> None:
        self.query_one(Timeline).focus()
        self.action_match(1)

    @on(SearchBar.Step)
    def _search_step(self, event: SearchBar.Step) -> None:
        self.action_match(event.step)

    @on(SearchBar.Closed)
    def _search_closed(self) -> None:
        self.query_one(Timeline).focus()

    def action_match(self, step: int) -> None:
        """Go to the next or previous match, or once there is one to the first that is found."""
        found = self.search.step(self.rows, self.location, step)
        waits = found is None and bool(self.search.text) and not self.search.ended
        self.search.wanted = step if waits else 0
        if waits:
            return
        if found is None:
            self.show_notification(
                "No matches; press / to search again" if self.search.text else "Press / to search first"
            )
            return
        self.go_to(found)
        self.query_one(Detail).seek(self.search.text)
        self.query_one(SearchBar).show_count(self.search.count_text(found))

    # Applying, undoing, exporting

    def _is_reading(self) -> bool:
        """Whether the session is still being read; says so."""
        if self.reading:
            self.show_notification("The session is still being read; press esc to stop there", warn=True)
        return self.reading

    @work
    async def action_apply(self) -> None:
        """Carry the plan out; its screen shows what it does and takes the summary."""
        plan = self.view.plan
        if self._is_reading():
            return
        if self.view.applied:
            self.show_notification("A plan was just applied; choose a policy to plan again")
            return
        if plan is None or not plan.changed:
            why = self.view.trouble or (plan.reason if plan else "") or "the plan changes nothing"
            self.show_notification(f"Nothing to apply: {why}", warn=True)
            return
        from context_tui.tui.screens.apply import ApplyScreen

        screen = ApplyScreen(self.view.session, plan, drafts=self.drafts)
        after: Session | None = await self.app.push_screen_wait(screen)
        if after is not None and after is not self.view.session:
            told, cursor = applied(plan, after, self.location)
            self.show(self.view.with_copy(after, told, cursor))

    def action_undo(self) -> None:
        """Go back to before the last applied plan."""
        before = self.view.undone()
        if before is None:
            self.show_notification("Nothing to undo; press a to apply the plan")
            return
        self.show(before)
        self.show_notification(f"Back to {plural(len(before.session), 'message')}; press U to redo")

    def action_redo(self) -> None:
        """Do again what was undone."""
        after = self.view.redone()
        if after is None:
            self.show_notification("Nothing to redo")
            return
        self.show(after)

    @work
    async def action_export(self) -> None:
        """Write the session, or what was made of it, to a file."""
        if self._is_reading():
            return
        if self.progress < 1:
            remedy = "press u to undo what was applied, then r" if self.view.session.origin else "press r"
            self.show_notification(f"Only {self.progress:.0%} has been read; {remedy} to read on", warn=True)
            return
        await self._export()

    async def _export(self) -> bool:
        from context_tui.tui.screens.export import ExportScreen

        if not self.view.session.origin:
            plan = self.view.plan
            answer = await self.app.push_screen_wait(unchanged_prompt(bool(plan and plan.changed)))
            if answer == "apply":
                await self.action_apply().wait()
            if answer is None or (answer == "apply" and not self.view.session.origin):
                return False
        done = await self.app.push_screen_wait(ExportScreen(self.view.session))
        if done is not None:
            self.view = self.view.with_export()
        return done is not None

    def action_copy(self) -> None:
        """Copy the selected message, or on the settings the command."""
        if self.query_one(ParameterPanel).has_focus_within:
            if self.view.session.origin:
                why = "No command for a copy; press e to export it, then open the file"
                self.show_notification(why, warn=True)
                return
            self.app.copy_to_clipboard(command_line(self.view))
            return
        location, facts = self.location, self.view.session.facts
        if not len(self.view.session):
            return
        rows = list(facts.blocks_of(location.message))
        blocks = zip(rows, self.reader.blocks(location.message), strict=False)
        wanted = [block for row, block in blocks if location.block in (WHOLE, HEAD, row)]
        self.app.copy_to_clipboard("\n\n".join(filter(None, map(plain_text, wanted))))

    # Other screens, and the way out

    def action_help(self) -> None:
        """List all keys."""
        panel = self.query_one(ParameterPanel)
        self.app.push_screen(HelpScreen([self, self.query_one(Timeline), panel.rows], notes=NOTES))

    def action_problems(self) -> None:
        """Show what could not be read."""
        if self.view.session.facts.problems:
            self.app.push_screen(ProblemsScreen(self.view.session))
        else:
            self.show_notification("No problems: every record could be read")

    def action_back(self) -> None:
        """Stop what is going on, or close what is open: one thing for each press."""
        bar = self.query_one(SearchBar)
        if self.reading:
            self.computed.cancel("read")
        elif bar.display:
            bar.action_close()
        elif self.has_class("-reading") or self.query_one(ContentSwitcher).current == "breakdown":
            self.query_one(ContentSwitcher).current = "detail"
            self.close_detail()
        elif self.view.filter or self.view.by_size:
            self.action_unfilter()
        elif self.view.at is not None:
            self.show(self.view.with_point(None))
        elif not self.query_one(Timeline).has_focus:
            self.query_one(Timeline).focus()
        else:
            self.post_message(self.Done())

    async def action_sessions(self) -> None:
        """Choose another session."""
        await self.run_action("app.sessions")

    @work
    async def action_leave(self) -> None:
        """Leave; ask when a result or a draft would be lost, here or in a session that this one was opened from."""
        drafts = self.drafts.waiting
        for screen in reversed(self.app.screen_stack):
            if isinstance(screen, InspectorScreen):
                unexported = screen.view.unexported
                prompt = quit_prompt(unexported, drafts) if unexported or drafts else None
                if prompt is not None and not await screen.may_close(prompt):
                    return
                drafts = 0  # they are the application's, and asked about once
        self.app.exit()

    async def may_close(self, prompt: ChoicePrompt) -> bool:
        """Whether the session may be closed, as *prompt* is answered; what is to be exported first is."""
        answer = await self.app.push_screen_wait(prompt)
        return await self._export() if answer == "export" else answer == "quit"

    @property
    def recorded(self) -> Session:
        """The session as it was recorded, as far as it has been read: before any plan was applied."""
        return self.view.undo[0].session if self.view.undo else self.view.session


def set_title(widget: Widget, title: str) -> None:
    """Give a widget another title; the same one costs nothing."""
    if getattr(widget, "title_shown", None) != title:
        widget.title_shown = title  # type: ignore[attr-defined]
        widget.border_title = Content(title)


def _view(session: Session, options: Options) -> View:
    if options.window:
        session = session.with_window(options.window)
    at = None if options.at is None else max(options.at, 0)  # its message may not have been read yet
    return View(session, at, options.policy or DEFAULT, options.settings)
