"""The inspector: one session, one plan, one immutable view that every widget draws."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Footer, Static

from context_tui.policies.registry import DEFAULT, POLICIES
from context_tui.sanitize import visible
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.tui import notices
from context_tui.tui.document import Subject
from context_tui.tui.hunt import Hunt
from context_tui.tui.jumps import Jump, jumps
from context_tui.tui.listing import listed
from context_tui.tui.marks import NO_MARK, Marker
from context_tui.tui.requests import about_request
from context_tui.tui.rows import WHOLE, Rows
from context_tui.tui.rules import about
from context_tui.tui.screens.inspector_keys import KEYS
from context_tui.tui.screens.reacting import Reacting
from context_tui.tui.sizes import Sizes
from context_tui.tui.text import Reader, kind_word, line, plural
from context_tui.tui.view import Spot, View
from context_tui.tui.widgets.breakdown import BreakdownView
from context_tui.tui.widgets.detail import Detail
from context_tui.tui.widgets.find import FindBar
from context_tui.tui.widgets.header import HeaderBar
from context_tui.tui.widgets.minimap import Minimap, stretches
from context_tui.tui.widgets.parameters import ParameterPanel
from context_tui.tui.widgets.scoreboard import Scoreboard, score_rows
from context_tui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from context_tui.tui.app import Asked

SOON, STAYS = 0.04, 0.08
"""Seconds after the last change, and the last move, until the rest is drawn: a held key moves only the timeline."""


class InspectorScreen(Reacting):
    """Shows a session; the keys change the view, and the view is shown."""

    AUTO_FOCUS = "Timeline"
    BINDING_GROUP_TITLE = "Session"
    BINDINGS = KEYS
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-middling"), (32, "-high")]

    def __init__(self, what: Session | SessionInfo, asked: Asked) -> None:
        super().__init__()
        self.what, self.asked = what, asked
        self.rows, self.hunt = Rows(), Hunt()
        self.reading = self.touched = self.fresh = False
        nothing = what if isinstance(what, Session) else replace(from_messages([]), info=what)
        self.view = _view(nothing, asked)
        self.reader = Reader(self.view.session)
        self.marker = Marker(self.view.context, None)
        self._listed: array[int] | None = None
        self._listed_for: object = None
        self._sizes: tuple[object, Sizes] | None = None
        self._fires: tuple[object, list[int]] | None = None
        self._acts: int | None = None
        self._told = ""
        self._header: object = None
        self._soon: Timer | None = None
        self._detail_soon: Timer | None = None

    def compose(self) -> ComposeResult:
        """Header, notice, timeline with its map, detail, tuning, footer."""
        plain = self.asked.ascii
        yield HeaderBar(ascii=plain, id="header")
        yield Static(id="notice", markup=False)
        with Horizontal(id="middle"):
            with Vertical(id="left"):
                with Horizontal(id="lines"):
                    yield Timeline(id="timeline")
                    yield Minimap(id="minimap")
                yield FindBar(id="find")
            with ContentSwitcher(initial="detail", id="side"):
                yield Detail(id="detail")
                yield BreakdownView(ascii=plain, id="breakdown")
        with Horizontal(id="tuning"):
            yield Scoreboard(ascii=plain, id="scoreboard")
            yield ParameterPanel(ascii=plain, id="panel")
        yield Footer(compact=True, show_command_palette=False)
        yield Static("context-tui needs 60 columns and 20 lines", id="tiny", markup=False)

    def on_mount(self) -> None:
        """Show the session, or start to read it."""
        if isinstance(self.what, Session):
            self.open(self.what)
        else:
            self.reading = True
            set_title(self.query_one("#lines"), "timeline")
            self.query_one(HeaderBar).show(self.view.session, self.view.context)
            self.tell(notices.reading(self.view.session, 0.0))
            self.read_session(self.what)

    # The view on screen

    def open(self, session: Session) -> None:
        """Show a session that has been read to its end, as it was asked for and as was chosen meanwhile."""
        self.reading = False
        view = replace(self.view.with_session(session).with_point(self.view.at), cursor=self.spot)
        if not self.touched:
            view = replace(view, cursor=self._begin_at(view))
        self.show(view)
        self.fresh = True

    def _begin_at(self, view: View) -> Spot:
        """Where the cursor is when nobody moved it: at the point, in the demo at the last result that is cleared."""
        if self.asked.demo and view.plan and view.plan.changes:
            block = max(view.plan.changes)
            return Spot(view.session.facts.block_message[block], block)
        return Spot(min(view.point, max(len(view.session) - 1, 0)))

    def show(self, view: View) -> None:
        """Draw a view: the timeline and the panel at once, the rest as soon as nothing more urgent comes."""
        self.hush()
        old, self.view, self.fresh = self.view, view, False
        if view.session.facts is not self.reader.session.facts:
            self.rows = Rows()
        if view.session is not self.reader.session:
            self.reader = Reader(view.session)
        self.rows.grow(view.session)
        self.marker = Marker(view.context, view.plan)
        self._list()
        self.draw_timeline(view.cursor if view.cursor != old.cursor or not old.session.length else self.spot)
        self.draw_panel()
        self.later()

    def draw_timeline(self, cursor: Spot | None = None) -> None:
        """Draw the timeline of what has been read."""
        marker = None if self.reading else self.marker
        timeline = self.query_one(Timeline)
        timeline.show(self.rows, self.reader, marker, self._listed, cursor)
        order = "largest first" if self.view.by_size else ""
        words = ", ".join(filter(None, [order, self.view.filter.words()]))
        lines = self.query_one("#lines")
        set_title(lines, f"timeline   {line(words)}".rstrip())
        lines.set_class(bool(words), "-filtered")

    def _list(self) -> None:
        view = self.view
        key = (view.session, view.filter, view.by_size, view.plan if view.filter.verdict else None, view.point)
        if key != self._listed_for or len(self.rows) == 0:
            self._listed, self._listed_for = listed(self.rows, self.marker, view.filter, view.by_size), key

    def draw_panel(self) -> None:
        """Show the policy at its settings."""
        view, panel = self.view, self.query_one(ParameterPanel)
        first = (self.fires[0] if self.fires else -1) if self.fires is not None else None
        panel.show(
            view.policy, view.model, view.context, view.runtime_state, view.plan, first=first, trouble=view.trouble
        )
        number = list(POLICIES).index(view.policy) + 1
        set_title(self.query_one("#tuning"), f"{number} {view.policy}   {POLICIES[view.policy].about}")

    def draw_header(self) -> None:
        """Show what is open and how full its window is, where that has changed."""
        session, context, sizes = self.view.session, self.view.context, self.sizes
        if (context, sizes, session) != self._header:
            self._header = (context, sizes, session)
            parts, fit = (sizes.parts.by_category, sizes.fit) if sizes else (None, None)
            self.query_one(HeaderBar).show(session, context, parts, fit=fit)

    def draw_sizes(self) -> None:
        """Show the sizes of the context wherever they are told."""
        self.draw_header()
        if self.sizes is not None:
            self.query_one(BreakdownView).show(self.view.context, self.sizes)
        self.draw_notice()

    def draw_notice(self) -> None:
        """Say what is unusual about the view, or what to press first."""
        fit, width = self.sizes.fit if self.sizes else None, self.size.width - 2
        words = notices.notice(self.view, self.query_one(Timeline).count, self.points, fit, width)
        hint = notices.DEMO if self.asked.demo else notices.FIRST_RUN
        hint = hint if self.fresh and not words and not self.has_class("-low") else ""
        self.tell(words or hint)
        self.query_one("#notice").set_class(bool(hint), "-hint")

    def later(self) -> None:
        """Draw the rest soon."""
        if self._soon is not None:
            self._soon.stop()
        self._soon = self.set_timer(SOON, self._rest)

    def _rest(self) -> None:
        view = self.view
        self.draw_detail()
        self.query_one(Scoreboard).show(score_rows(view.plan_of), view.policy)
        rows, plan = self.rows, view.plan
        first = min(view.context.order, default=0)
        self.query_one(Minimap).show(lambda lines: stretches(rows, plan, first, view.point, lines))
        self.seen()
        if self.sizes is None:
            self.break_down(view)
        if self.fires is None:
            self.find_fires(view)
        self.ask_for_curve()
        self.draw_sizes()

    def seen(self) -> None:
        """Show on the map what is in sight."""
        timeline = self.query_one(Timeline)
        total, top = max(timeline.count, 1), timeline.scroll_offset.y
        shown = timeline.scrollable_content_region.height
        self.query_one(Minimap).show_window(top / total, (top + shown) / total)

    def detail_soon(self) -> None:
        """Show the selected row in full, once it stays selected."""
        if self._detail_soon is not None:
            self._detail_soon.stop()
        self._detail_soon = self.set_timer(STAYS, self.draw_detail)

    def ask_for_curve(self) -> None:
        """Have the curve of the selected setting drawn."""
        panel = self.query_one(ParameterPanel)
        values = panel.curve_values(panel.selected) if panel.selected else []
        if values:
            self.draw_curve(self.view, panel.selected, values)

    def draw_detail(self) -> None:
        """Show the selected row in full."""
        detail, spot, facts = self.query_one(Detail), self.spot, self.view.session.facts
        if not len(self.view.session):
            detail.wait(Content("nothing selected"), "")
            return
        word = kind_word(facts, spot.message, spot.block)
        name = f"result of {self.reader.preview(*spot)}" if spot.block >= 0 else word
        title = Content(f"{spot.message}  {name}")
        if self.reader.huge(spot.message) and not self.reader.at_hand(spot.message):
            detail.wait(title, "reading this message …")
            self.read_blocks(self.reader, spot)
            return
        row = self.rows.row_of(*spot)
        tokens = self.rows.tokens[row] if row < len(self.rows) and self.rows.block[row] >= WHOLE else 0
        mark = NO_MARK if self.reading else self.marker.mark(*spot)
        note = about_request(self.view.session, spot)
        rules = tuple(text for rule in self.rows.rules_at(spot.message) for text in about(facts, rule))
        blocks = self.reader.blocks(spot.message)
        subject = Subject(self.view.session, spot, blocks, mark, self.view.plan, note=note, rules=rules)
        detail.read(subject, title, Content(f"est. {plural(tokens, 'token')}"))

    def tell(self, words: str) -> None:
        """Say something unusual in the line above the timeline; nothing hides it."""
        if words != self._told:  # a line that comes or goes moves everything below it
            bar = self.query_one("#notice", Static)
            one_line = self._told and words and max(len(self._told), len(words)) < bar.size.width
            bar.update(Content(visible(words)), layout=not one_line)
            self._told, bar.display = words, bool(words)

    # What the view depends on, and was computed off the paint path

    @property
    def spot(self) -> Spot:
        """What is selected."""
        return self.query_one(Timeline).spot

    @property
    def sizes(self) -> Sizes | None:
        """The sizes of this context, once they are there."""
        return self._sizes[1] if self._sizes and self._sizes[0] == (self.view.session, self.view.point) else None

    def keep_sizes(self, view: View, sizes: Sizes) -> None:
        """Take the sizes that were computed for a view."""
        self._sizes = ((view.session, view.point), sizes)

    @property
    def fires(self) -> list[int] | None:
        """Where the trigger of the policy begins to fire, once it is known."""
        return self._fires[1] if self._fires and self._fires[0] == _trigger_key(self.view) else None

    def keep_fires(self, view: View, points: list[int], acts: int | None) -> None:
        """Take the points at which a view's policy begins to fire, and where it changes something if later."""
        self._fires, self._acts = (_trigger_key(view), points), acts

    @property
    def points(self) -> list[Jump]:
        """The points to jump between."""
        fires = self.fires or []
        return jumps(self.view.session, self.view.policy, fires, self._acts if fires else None)

    def on_resize(self, event: events.Resize) -> None:
        """Say so where there is too little room."""
        self.set_class(event.size.width < 60 or event.size.height < 20, "-tiny")


def set_title(widget: Widget, title: str) -> None:
    """Give a widget another title; the same one costs nothing."""
    if getattr(widget, "title_shown", None) != title:
        widget.title_shown = title  # type: ignore[attr-defined]
        widget.border_title = Content(title)


def _view(session: Session, asked: Asked) -> View:
    if asked.window:
        session = session.with_window(asked.window)
    at = None if asked.at is None else max(asked.at, 0)  # its message may not have been read yet
    return View(session, at, asked.policy or DEFAULT, asked.settings)


def _trigger_key(view: View) -> object:
    return view.session, view.policy, repr(view.settings(view.policy))
