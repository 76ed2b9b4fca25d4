"""One session on screen: what is shown of it, and every command on it. Knows no widget and no event loop.

A command replaces the view, or raises :class:`Refused` with what to say. What is drawn is made from the view, the rows
with their marks, and what threads have computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from context_tui.compaction.plan import Plan
from context_tui.policies.registry import DEFAULT
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.text.numbers import format_percent
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.applied import applied
from context_tui.tui.choices import chosen_last
from context_tui.tui.command_line import command_line
from context_tui.tui.computed import Computed
from context_tui.tui.context_events import before, context_events_in, is_compaction
from context_tui.tui.filters import EVERYTHING
from context_tui.tui.folds import ALL, NONE, Folds
from context_tui.tui.jumps import Jump, jumps, next_changed, next_jump
from context_tui.tui.listing import is_listed, line_of, listed
from context_tui.tui.loading import Loading, Read
from context_tui.tui.marks import Marker
from context_tui.tui.news import Seen, news
from context_tui.tui.options import Options
from context_tui.tui.rows import HEAD, WHOLE, Rows
from context_tui.tui.search import Search
from context_tui.tui.text import Reader, plain_text, plural
from context_tui.tui.view import Location, View

if TYPE_CHECKING:
    from context_tui.tui.screens.replay.comparison import Comparison
    from context_tui.tui.screens.sweep.board import Known


class Refused(Exception):
    """A command that does nothing here; its text says why, and what to do instead."""

    def __init__(self, text: str, *, warn: bool = False) -> None:
        super().__init__(text)
        self.warn = warn


class Controller:
    """Of one session the view, and what follows from it.

    Attributes:
        view: what is shown; ``view.cursor`` is the selected row, which is always one of those that are listed.
        revision: counts the views that have to be drawn anew; another cursor alone is none.
        estimated: all rows of the timeline, by ``bytes/4``; ``rows`` are these by the view's ruler, once that is known.
        listed: the rows that are listed.
        reader, marker: the texts of rows, and their marks.
        search: the search that goes on, or went on last.
        computed: what threads have found out.
        loading: the pass over the file; None for a session that was given.
        reading, progress: whether it is being read now, and the share of the file that has been read.
        touched: whether somebody moved the cursor or folded a turn.
        fresh: whether nothing was done since it was opened.
    """

    def __init__(self, what: Session | SessionInfo, options: Options) -> None:
        session = what if isinstance(what, Session) else replace(from_messages([]), info=what)
        if options.window:
            session = session.with_window(options.window)
        at = None if options.at is None else max(options.at, 0)  # its message may not have been read yet
        self.options, self.revision = options, 0
        policy, settings = options.policy, options.settings
        if not policy and not settings:
            policy, settings = chosen_last(options.last)
        self.view = View(session, at, policy or DEFAULT, settings)
        self.estimated, self.search, self.computed = Rows(), Search(), Computed()
        self.reader, self.marker = Reader(session), Marker(self.view.context, None)
        self.listed: Sequence[int] = range(0)
        self._listed_for: object = None
        self._home: Location | None = None  # where the cursor was before its row was not listed any more
        self._points: tuple[object, list[Jump]] | None = None
        self.loading = None if isinstance(what, Session) else Loading(what)
        self.progress = 1.0 if isinstance(what, Session) else 0.0
        self.reading = self.touched = self.fresh = self.following = False
        self._grown: Read | None = None  # what came while a plan was applied
        self._end: Location | None = None  # where the cursor was, at the end, when what grew began to be read
        self._seen: Seen | None = None
        self.comparison: Comparison | None = None  # what the replay screen showed last
        self.swept: Known | None = None  # what the sweep screen measured last

    @property
    def recorded(self) -> Session:
        """The session as it was recorded, as far as it has been read: before any plan was applied."""
        return self.view.undo[0].session if self.view.undo else self.view.session

    @property
    def points(self) -> list[Jump]:
        """The points to jump between, in order."""
        view, fires = self.view, self.computed.fires(self.view)
        key = view.session, view.policy, fires
        if self._points is None or self._points[0] != key:
            points, acts = (fires.points, fires.acts) if fires else ([], None)
            self._points = key, jumps(view.session, view.policy, points, acts if points else None)
        return self._points[1]

    # Rulers

    @property
    def sizes(self) -> TokenTable | None:
        """What the session measures by the view's ruler; None by ``bytes/4``, and until it is known."""
        sized = self.computed.sized(self.view)
        return sized.sizes if sized else None

    @property
    def rows(self) -> Rows:
        """All rows of the timeline, by the view's ruler where that is known."""
        sized = self.computed.sized(self.view)
        return sized.rows if sized else self.estimated

    def next_ruler(self) -> None:
        """Measure by the next ruler: the policies' own, calibrated, exact."""
        self._check_read()
        rulers = list(TokenMeasure)
        self.change(self.view.with_ruler(rulers[(rulers.index(self.view.ruler) + 1) % len(rulers)]))

    def measured(self, refused: str = "") -> str:
        """What was measured by the ruler is shown; where it was *refused*, sizes are by ``bytes/4`` again.

        Returns:
            What to say.
        """
        self.change(self.view.with_ruler(TokenMeasure.OWN) if refused else self.view)
        return refused or (f"Ruler: {self.sizes.description}" if self.sizes else "")

    # Reading

    def begin_reading(self) -> None:
        """The session is being read from now on."""
        self.reading = True

    def fail(self) -> None:
        """It cannot be read."""
        self.reading = False

    def take(self, read: Read) -> None:
        """Take what has been read so far; the view of it is planned when reading ends."""
        if self.following and self.view.session.origin:
            self._grown = read  # for when the copy is left
            return
        cursor = self.view.cursor
        at_end = self.following and (cursor == self._end or cursor.message >= len(self.view.session) - 1)
        self._end = cursor if at_end and not read.end else None
        view, self.progress = self.view.with_session(read.session), read.progress
        self.estimated, self.reader = read.rows, self.reader.follow(view.session)
        if read.end:
            self.open(view.session, at_end=at_end)
            return
        self.view = view
        if not view.filter and not view.by_size:  # what these list is looked for again at the end
            self._list()

    def open(self, session: Session, *, at_end: bool = False) -> None:
        """Show a session that has been read, as it was asked for and as was chosen meanwhile.

        Args:
            at_end: whether the cursor stays at the point: what was selected was the last message of one that grew.
        """
        self.reading = False
        view = self.view.with_session(session).with_point(self.view.at)
        if at_end or not self.touched:
            view = self._located(view, self._begin_at(view))
        self.change(view)
        self.fresh = True

    def _begin_at(self, view: View) -> Location:
        """Where the cursor is when nobody moved it: at the point, in the demo at the last result that is cleared."""
        if self.options.demo and view.plan and view.plan.changes:
            block = max(view.plan.changes)
            return Location(view.session.facts.block_message[block], block)
        return Location(min(view.point, max(len(view.session) - 1, 0)))

    def read_on(self) -> Loading:
        """Go on with reading where it was stopped.

        Returns:
            The pass to go on with.
        """
        if self.reading or self.loading is None or self.progress >= 1:
            raise Refused("The session is being read" if self.reading else "All of the session has been read")
        if self.view.session.origin:
            raise Refused("Undo what was applied first (u), then read on", warn=True)
        self.reading = True
        return self.loading

    def follow(self) -> Loading | None:
        """Follow the session as it is written, or do so no longer (None)."""
        if self.following:
            self.following = False
            return None
        if self.loading is None:
            raise Refused("Only a session that was opened from a file can be followed")
        if self.reading or self.progress < 1:
            raise Refused("The session is still being read" if self.reading else "Read on first (r), then follow")
        if self.view.session.origin:
            raise Refused("Undo what was applied first (u), then follow", warn=True)
        self.following, self._seen = True, Seen.of(self.view.session)
        return self.loading

    def news(self) -> list[str]:
        """What happened in the followed session since this was last asked."""
        if not self.following or self._seen is None or self.view.session.origin:
            return []
        told, self._seen = news(self._seen, self.view.session), Seen.of(self.view.session)
        return told

    # The view

    def change(self, view: View) -> None:
        """Show another view."""
        self.revision += 1
        self.fresh = False
        if view.session.facts is not self.reader.session.facts:
            self.estimated = Rows()
        if view.session is not self.reader.session:
            self.reader = Reader(view.session)
        self.estimated.grow(view.session)
        if not self.search.is_about(view.session):
            self.search.begin(view.session, self.search.text)
        done = view.applied.marks if view.applied else None
        sized = self.computed.sized(view)
        self.marker = Marker(view.context, view.plan, done, sized.sizes if sized else None)
        moved, self.view = view.cursor != self.view.cursor, view
        self._list()
        wanted = self._home if self._home and not moved else view.cursor
        cursor = self._nearest(wanted)
        self._home = wanted if cursor != wanted else None
        self.view = replace(view, cursor=cursor)

    def _list(self) -> None:
        view = self.view
        plan = view.plan if view.filter.verdict else None
        key = (view.session, view.filter, view.by_size, view.folds, plan, view.point, self.sizes)
        if key != self._listed_for or len(self.rows) == 0:
            self.listed = listed(self.rows, self.marker, view.filter, view.by_size, view.folds)
            self._listed_for = key

    def _nearest(self, location: Location) -> Location:
        """The location itself, or of the rows that are listed the nearest."""
        if not self.listed:
            return location
        row = self.listed[line_of(self.listed, self.rows.row_of(*location))]
        block = self.rows.block[row]
        return Location(self.rows.message[row], block if block >= HEAD else WHOLE)

    def move(self, location: Location) -> None:
        """The cursor was moved there, among the rows that are listed."""
        if location != self.view.cursor:
            self._home = None
            self.view = replace(self.view, cursor=location)

    def select(self, location: Location) -> str:
        """Go to a location; the turn that it stands in is opened, and all rows are listed where it is not.

        Returns:
            What to say of that.
        """
        view = self._located(self.view, location)
        if not is_listed(self.listed, self.rows.row_of(*location)):
            self.change(replace(view, filter=EVERYTHING, by_size=False))
            return f"All rows are shown again: #{location.message:,} was not among those listed"
        if view.folds == self.view.folds:
            self.move(self._nearest(location))
        else:
            self.change(view)
        return ""

    def _located(self, view: View, location: Location) -> View:
        """A view with the cursor at a location, and the turn that this stands in opened; a head is in sight anyway."""
        folds = view.folds
        if folds and location.block != HEAD and self.rows.heads:
            folds = folds.without(self.rows.number(self.rows.turn_of(location.message)))
        return replace(view, cursor=location, folds=folds)

    # Going somewhere

    def turn(self, step: int) -> None:
        """Go to the head of the next (+1), or of this or the previous turn (-1)."""
        row = self.rows.turn_row(self.rows.row_of(*self.view.cursor), step)
        if len(self.rows):
            self.move(self._nearest(Location(self.rows.message[row], self.rows.block[row])))

    def changed(self, step: int) -> None:
        """Go to the next or previous row that the plan changes, or that was changed when it was applied."""
        found = next_changed(self.rows, self.marker, self.view.cursor, step, self.among)
        if found is None:
            raise Refused("The plan changes no row" + (" that is listed" if self.limited else ""))
        self.select(found)

    def match(self, step: int) -> bool:
        """Go to the next or previous match, or once there is one to the first that is found.

        Returns:
            Whether there is one by now.
        """
        found = self.search.step(self.rows, self.view.cursor, step, self.among)
        waits = found is None and bool(self.search.text) and not self.search.ended
        self.search.wanted = step if waits else 0
        if waits:
            return False
        if found is None:
            if hidden := self.search.locations:
                elsewhere = plural(len(hidden), "matching row")
                raise Refused(f"No matches in what is listed; {elsewhere} elsewhere, esc shows all")
            raise Refused("No matches; press / to search again" if self.search.text else "Press / to search first")
        self.select(found)
        return True

    def fold(self) -> range:
        """Fold the turn of the selected row to its head, or open it.

        Returns:
            The rows of the turn, whose head is selected then.
        """
        self._check_folds()
        return self._fold(self.view.folds.toggled(self.rows.number(self.rows.turn_of(self.view.cursor.message))))

    def fold_all(self) -> range:
        """Fold all turns to their heads; open all where all are. Returns what ``fold`` does."""
        self._check_folds()
        numbers = range(self.rows.number(0), self.rows.number(len(self.rows.heads)))
        return self._fold(NONE if all(number in self.view.folds for number in numbers) else ALL)

    def _check_folds(self) -> None:
        if self.view.filter or self.view.by_size:
            raise Refused("Filtered and sorted rows have no turns to fold; press esc to show all", warn=True)
        if not self.rows.heads:
            raise Refused("No turns to fold")

    def _fold(self, folds: Folds) -> range:
        self.touched = True
        turn = self.rows.turn_of(self.view.cursor.message)
        self.change(replace(self.view, folds=folds, cursor=Location(self.rows.messages(turn).start, HEAD)))
        return self.rows.span(turn)

    # The point that is planned for

    def as_of(self) -> None:
        """Plan before the selected message, or at the end again."""
        self.change(self.view.with_point(self.view.cursor.message if self.view.at is None else None))

    def plan_before(self, message: int) -> None:
        """Plan before a message, and go there."""
        cursor = Location(min(message, max(len(self.view.session) - 1, 0)))
        self.change(self._located(self.view.with_point(message), cursor))

    def jump(self, step: int) -> None:
        """Plan as of the next or previous point of interest."""
        found = next_jump(self.points, self.view.point, step)
        if found is None:
            only = f"No other jump points: {self.points[0].why}" if self.points else ""
            raise Refused(only or "No jump points: this policy never fires here")
        self.plan_before(found.at)

    def to_compaction(self, step: int) -> None:
        """Plan as of the next or previous recorded compaction, be it announced or told by recorded sizes only."""
        events = context_events_in(self.view.session)
        found = [Jump(each.message, before(each)) for each in events if is_compaction(each)]
        other = next_jump(found, self.view.point, step)
        if other is None:
            only = f"It is the only recorded compaction: {found[0].why}" if found else ""
            raise Refused(only or "This recording holds no compaction")
        self.plan_before(other.at)

    # Along the run

    def replayable(self) -> Comparison:
        """What the replay screen is to show: the policy on screen, beside those that were compared before."""
        from context_tui.tui.screens.replay.comparison import Comparison  # the replays: for who asks for one

        self._check_read()
        if self.view.session.origin:
            raise Refused("A replay is of a recording; press u to undo what was applied first", warn=True)
        self.comparison = Comparison(self.view, self.comparison)
        return self.comparison

    def take_over(
        self,
        policy: str,
        params: Mapping[str, Mapping[str, Any]],
        at: int | None,
        location: Location | None = None,
    ) -> str:
        """Choose a policy and settings that were found elsewhere; where *at* says so, plan before that message, and go
        to *location* where that says so.

        Returns:
            What to say of that.
        """
        view = self.view
        taken = policy != view.policy or any(params.get(name, {}) != view.params.get(name, {}) for name in params)
        if taken:
            self.change(replace(view, policy=policy, params=params, applied=None))
        if at is not None:
            self.plan_before(at)
        if location is not None:
            self.select(location)
        return f"{policy} with the settings of the replay" if taken else ""

    # Policies and their settings

    def choose(self, policy: str) -> None:
        """Choose a policy."""
        self.change(self.view.with_policy(policy))

    def set(self, policy: str, name: str, value: Any) -> None:
        """Give a setting of a policy another value."""
        self.change(self.view.with_param(policy, name, value))

    def set_window(self, tokens: int | None) -> None:
        """Set the size of the context window; None for what the session says."""
        self.change(self.view.with_window(tokens))

    def mark(self) -> None:
        """Mark the selected result to be cleared by hand, or no longer."""
        cursor, view = self.view.cursor, self.view
        if cursor.block < 0:
            raise Refused("Only tool results can be cleared; select one", warn=True)
        if view.session.facts.block_message[cursor.block] not in view.context.order:
            raise Refused("This result is not in the context; select another one", warn=True)
        self.change(view.marked(cursor))

    def cut(self) -> None:
        """Mark a cut before the selected message, or take it away."""
        if self.view.cursor.message not in self.view.context.order:
            raise Refused("This message is not in the context; select another one", warn=True)
        self.change(self.view.cut_at(self.view.cursor.message))

    # What is listed

    @property
    def limited(self) -> bool:
        """Whether rows may be left out: by a filter, or by an order that is of the context only."""
        return bool(self.view.filter) or self.view.by_size

    @property
    def among(self) -> frozenset[int] | None:
        """The rows that are listed, where some may be left out."""
        return frozenset(self.listed) if self.limited else None

    @property
    def matches_text(self) -> str:
        """How many rows were found, and which of those that are listed is selected."""
        return self.search.count_text(self.view.cursor, self.search.shown(self.rows, self.among))

    def filter_marker(self) -> Marker:
        """The marks that rows are filtered by; while a session is read there is no plan for it."""
        return Marker(self.view.context, None) if self.reading else self.marker

    def filter_by(self, kind: str, value: str | int) -> None:
        """List only what meets another condition; no kind lists everything."""
        self.change(replace(self.view, filter=self.view.filter.with_(kind, value) if kind else EVERYTHING))

    def show_part(self, kind: str, value: str) -> None:
        """List only a part of the context: a category, a tool's or a file's rows; everything where it is listed."""
        self.change(replace(self.view, filter=self.view.filter.for_part(kind, value)))

    def sort(self) -> None:
        """Largest first, or in the order of the file."""
        self.change(replace(self.view, by_size=not self.view.by_size))

    def unfilter(self) -> None:
        """List everything again, in the order of the file."""
        self.change(replace(self.view, filter=EVERYTHING, by_size=False))

    # Applying, undoing, exporting

    def applicable(self) -> Plan:
        """The plan that can be applied now."""
        view, plan = self.view, self.view.plan
        self._check_read()
        if view.applied:
            raise Refused("A plan was just applied; choose a policy to plan again")
        if plan is None or not plan.changed:
            why = view.trouble or (plan.reason if plan else "") or "the plan changes nothing"
            raise Refused(f"Nothing to apply: {why}", warn=True)
        return plan

    def took(self, plan: Plan, after: Session) -> None:
        """Show the copy that a plan made."""
        told, cursor = applied(plan, after, self.view.cursor)
        self.change(self.view.with_copy(after, told, cursor))

    def undo(self) -> str:
        """Go back to before the last applied plan.

        Returns:
            What to say.
        """
        before = self.view.undone()
        if before is None:
            raise Refused("Nothing to undo; press a to apply the plan")
        self.change(before)
        if self._grown is not None and not before.session.origin:
            grown, self._grown = self._grown, None
            self.take(grown)
        return f"Back to {plural(len(before.session), 'message')}; press U to redo"

    def redo(self) -> None:
        """Do again what was undone."""
        after = self.view.redone()
        if after is None:
            raise Refused("Nothing to redo")
        self.change(after)

    def exportable(self) -> Session:
        """The session, or what was made of it, where it was read to its end."""
        self._check_read()
        if self.progress < 1:
            remedy = "press u to undo what was applied, then r" if self.view.session.origin else "press r"
            raise Refused(f"Only {format_percent(self.progress)} has been read; {remedy} to read on", warn=True)
        return self.view.session

    def exported(self) -> None:
        """What was made of the session has been written to a file."""
        self.view = self.view.with_export()

    def _check_read(self) -> None:
        if self.reading:
            raise Refused("The session is still being read; press esc to stop there", warn=True)

    # What is copied to the clipboard

    def command(self) -> str:
        """The command line that makes this plan."""
        if self.view.session.origin:
            raise Refused("No command for a copy; press e to export it, then open the file", warn=True)
        return command_line(self.view)

    def text(self) -> str:
        """The text of the selected row."""
        cursor, facts = self.view.cursor, self.view.session.facts
        if not len(self.view.session):
            raise Refused("No messages in this session")
        rows = list(facts.blocks_of(cursor.message))
        blocks = zip(rows, self.reader.blocks(cursor.message), strict=False)
        wanted = [block for row, block in blocks if cursor.block in (WHOLE, HEAD, row)]
        return "\n\n".join(filter(None, map(plain_text, wanted)))
