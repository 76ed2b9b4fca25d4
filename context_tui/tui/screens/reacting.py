"""What the inspector does about messages: from its widgets, from its workers, and from the dialogs it opens."""

from __future__ import annotations

import gc
import time
from abc import abstractmethod
from dataclasses import replace

from textual import on
from textual.widgets import ContentSwitcher
from textual.worker import Worker, WorkerState

from context_tui.session.facts import Kind
from context_tui.session.session import Session
from context_tui.tui import notices
from context_tui.tui.hunt import Hunt
from context_tui.tui.loading import Failed, Read
from context_tui.tui.rows import Rows
from context_tui.tui.screens.background import Blocks, Curve, Fires, Measured
from context_tui.tui.screens.dialogs import Dialogs
from context_tui.tui.searching import Found
from context_tui.tui.sizes import Sizes
from context_tui.tui.view import Spot, View
from context_tui.tui.widgets.breakdown import BreakdownView
from context_tui.tui.widgets.detail import Detail
from context_tui.tui.widgets.find import FindBar
from context_tui.tui.widgets.header import HeaderBar
from context_tui.tui.widgets.minimap import Minimap
from context_tui.tui.widgets.parameters import ParameterPanel
from context_tui.tui.widgets.scoreboard import Scoreboard
from context_tui.tui.widgets.timeline import Timeline

MANY = 20_000
"""Messages from which on a session is kept out of the garbage collector's sight."""


class Reacting(Dialogs):
    """Message handlers; they own all state, and what they change is shown."""

    rows: Rows
    hunt: Hunt
    touched: bool

    @abstractmethod
    def open(self, session: Session) -> None:
        """Show a session that has been read to its end."""

    @abstractmethod
    def draw_timeline(self, cursor: Spot | None = None) -> None:
        """Draw the timeline of what has been read."""

    @abstractmethod
    def draw_detail(self) -> None:
        """Show the selected row in full."""

    @abstractmethod
    def draw_header(self) -> None:
        """Show what is open and how full its window is."""

    @abstractmethod
    def draw_panel(self) -> None:
        """Show the policy at its settings."""

    @abstractmethod
    def seen(self) -> None:
        """Show on the map what is in sight."""

    @abstractmethod
    def detail_soon(self) -> None:
        """Show the selected row in full, once it stays selected."""

    @abstractmethod
    def later(self) -> None:
        """Draw everything that is not urgent, soon."""

    @abstractmethod
    def ask_for_curve(self) -> None:
        """Have the curve of the selected setting drawn."""

    @abstractmethod
    def keep_sizes(self, view: View, sizes: Sizes) -> None:
        """Take the sizes that were computed for a view."""

    @abstractmethod
    def draw_sizes(self) -> None:
        """Show the sizes of the context wherever they are told."""

    @abstractmethod
    def keep_fires(self, view: View, points: list[int], acts: int | None) -> None:
        """Take the points at which a view's policy begins to fire."""

    # Reading

    @on(Read)
    def _read(self, event: Read) -> None:
        """Show what has been read so far."""
        view = self.view.with_session(event.session)
        self.rows, self.reader = event.rows, self.reader.follow(view.session)
        if len(event.session) > MANY:
            gc.freeze()  # looking for garbage among a million numbers would be felt
        if event.end:
            self.open(view.session)
            return
        self.view = view
        self.query_one(Timeline).grow(self.rows, self.reader)
        self.tell(notices.reading(event.session, event.progress))
        if self.query_one(Detail).spot is None:
            self.draw_detail()

    @on(Failed)
    def _failed(self, event: Failed) -> None:
        """Say why there is nothing to show."""
        self.reading = False
        self.tell(event.why)
        self.say(event.why, warn=True)

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        """A defect in a thread is told; the rest goes on."""
        if event.state is WorkerState.ERROR:
            self.say(f"could not {event.worker.description}: {type(event.worker.error).__name__}", warn=True)

    # The timeline, the map, the detail

    @on(Timeline.Moved)
    def _moved(self, event: Timeline.Moved) -> None:
        self.touched, self.touched_at = self.touched or self.query_one(Timeline).has_focus, time.monotonic()
        self.view = replace(self.view, cursor=event.spot)
        self.detail_soon()

    @on(Timeline.Entered)
    @on(Detail.Entered)
    def _entered(self, event: Timeline.Entered | Detail.Entered) -> None:
        """From a call to its result and back; other rows are opened."""
        other = counterpart(self.view, event.spot)
        if other is not None:
            self.query_one(Timeline).select(other)
        elif isinstance(event, Timeline.Entered):
            self.read_on()

    @on(Timeline.Opened)
    def read_on(self) -> None:
        """Read the selected row in full."""
        self.query_one(ContentSwitcher).current = "detail"
        self.add_class("-reading")
        self.draw_detail()
        self.query_one(Detail).focus()

    @on(Detail.Closed)
    def read_no_more(self) -> None:
        """Back to the timeline."""
        self.remove_class("-reading")
        self.query_one(Timeline).focus()

    @on(Timeline.Scrolled)
    def _scrolled(self) -> None:
        self.seen()

    @on(Minimap.Clicked)
    def _map(self, event: Minimap.Clicked) -> None:
        timeline = self.query_one(Timeline)
        timeline.cursor = int(event.share * timeline.count)

    @on(Blocks)
    def _blocks(self, event: Blocks) -> None:
        if event.reader is self.reader and event.spot.message == self.spot.message:
            self.draw_detail()

    @on(HeaderBar.Jumped)
    def _jumped(self, event: HeaderBar.Jumped) -> None:
        self.show(replace(self.view.with_point(event.message), cursor=Spot(event.message)))

    def action_turn(self, step: int) -> None:
        """Go to the start of another turn."""
        timeline = self.query_one(Timeline)
        row = self.rows.row_of(*timeline.spot)
        row = self.rows.turn_row(row, step)
        if len(self.rows):
            timeline.select(Spot(self.rows.message[row], max(self.rows.block[row], -1)))

    # Tuning

    @on(ParameterPanel.Changed)
    def _changed(self, event: ParameterPanel.Changed) -> None:
        self.show(self.view.with_param(event.policy, event.name, event.value))

    @on(ParameterPanel.Selected)
    def _selected(self) -> None:
        self.ask_for_curve()

    @on(Scoreboard.Chosen)
    def _chosen(self, event: Scoreboard.Chosen) -> None:
        self.show(self.view.with_policy(event.policy))

    def action_value(self, step: int) -> None:
        """Change the selected setting by steps."""
        self.query_one(ParameterPanel).rows.action_step(step)

    @on(Fires)
    def _fires_known(self, event: Fires) -> None:
        self.keep_fires(event.view, event.points, event.acts)
        self.draw_panel()

    @on(Curve)
    def _curve(self, event: Curve) -> None:
        if event.view.policy == self.view.policy and event.view.context is self.view.context:
            self.query_one(ParameterPanel).show_curve(event.name, event.values, event.after)

    # Where did it go

    @on(Measured)
    def _sizes_known(self, event: Measured) -> None:
        self.keep_sizes(event.view, event.sizes)
        if event.view.session is self.view.session and event.view.point == self.view.point:
            self.draw_sizes()

    def action_breakdown(self) -> None:
        """Show where the context went, or the message again."""
        switcher = self.query_one(ContentSwitcher)
        if switcher.current == "breakdown":
            switcher.current = "detail"
            self.read_no_more()
        else:
            switcher.current = "breakdown"
            self.add_class("-reading")
            self.query_one(BreakdownView).focus()

    @on(BreakdownView.Filter)
    def _filter(self, event: BreakdownView.Filter) -> None:
        self.filter_by(event.kind, event.value)

    @on(BreakdownView.Goto)
    def _goto(self, event: BreakdownView.Goto) -> None:
        self.query_one(Timeline).select(Spot(event.message, event.block))

    # Finding

    def action_find(self) -> None:
        """Ask for a text."""
        self.query_one(FindBar).open()

    @on(FindBar.Asked)
    def _asked(self, event: FindBar.Asked) -> None:
        self.hunt.begin(event.text)
        self.query_one(Detail).seek("")
        self.query_one(Timeline).show_matches(frozenset())
        self.query_one(FindBar).tell("")
        self.workers.cancel_group(self, "search")
        if event.text:
            self.find_text(self.view, event.text, self.hunt.number)

    @on(Found)
    def _found(self, event: Found) -> None:
        if self.hunt.take(event):
            self.query_one(Timeline).show_matches(frozenset(self.hunt.spots))
            self.query_one(FindBar).tell(self.hunt.words())

    @on(FindBar.Done)
    def _find_done(self) -> None:
        self.query_one(Timeline).focus()
        self.action_match(1)

    @on(FindBar.Step)
    def _find_step(self, event: FindBar.Step) -> None:
        self.action_match(event.step)

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.query_one(Timeline).focus()

    def action_match(self, step: int) -> None:
        """Go to the next or previous match."""
        found = self.hunt.step(self.rows, self.spot, step)
        if found is None:
            self.say("nothing was found" if self.hunt.text else "/ finds a text first")
            return
        self.query_one(Timeline).select(found)
        self.query_one(Detail).seek(self.hunt.text)
        self.query_one(FindBar).tell(self.hunt.words(found))

    def action_back(self) -> None:
        """Stop what is going on, or close what is open: one thing for each press."""
        find = self.query_one(FindBar)
        if self.reading:
            self.workers.cancel_group(self, "read")
        elif find.display:
            find.action_close()
        elif self.has_class("-reading") or self.query_one(ContentSwitcher).current == "breakdown":
            self.query_one(ContentSwitcher).current = "detail"
            self.read_no_more()
        elif self.view.filter or self.view.by_size:
            self.action_unfilter()
        else:
            self.query_one(Timeline).focus()


def counterpart(view: View, spot: Spot) -> Spot | None:
    """The result of a call, or the call of a result; None for what is neither."""
    facts = view.session.facts
    if spot.block >= 0:
        use = facts.call_use[facts.call[spot.block]]
        return Spot(facts.block_message[use]) if use >= 0 else None
    for block in facts.blocks_of(spot.message):
        if facts.kind[block] == Kind.TOOL_USE and facts.call_result[facts.call[block]] >= 0:
            result = facts.call_result[facts.call[block]]
            return Spot(facts.block_message[result], result)
    return None
