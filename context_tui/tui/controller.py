"""Controller of the session on screen: its state and every command, independent of widgets and the event loop.

A command replaces the view, or raises :class:`CommandRefused` with a message for the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from context_tui.compaction.plan import Plan
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.text.numbers import format_count, format_percent, format_tokens
from context_tui.tokens.measures import TokenMeasure, TokenTable
from context_tui.tui.analysis import AnalysisCache
from context_tui.tui.command_line import format_plan_command
from context_tui.tui.jump_points import (
    JumpPoint,
    find_break_points,
    find_jump_points,
    find_next,
    find_next_changed,
    find_next_jump,
)
from context_tui.tui.loading import SessionLoader, SessionSnapshot
from context_tui.tui.options import InspectorOptions
from context_tui.tui.rendering.formatting import MessageReader, format_block
from context_tui.tui.search import Search
from context_tui.tui.timeline.context_events import (
    SeenState,
    find_context_events,
    format_event_point,
    format_news,
    is_compaction,
)
from context_tui.tui.timeline.filters import ALL_FOLDED, NO_FILTER, NO_FOLDS, TurnFolds, find_line, is_listed, list_rows
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, Location, TimelineRows
from context_tui.tui.view import PolicySettings, View, describe_applied_plan, find_initial_policy, restore_settings

if TYPE_CHECKING:
    from context_tui.lab.fullness import Fullness
    from context_tui.tui.comparison import PolicyComparison
    from context_tui.tui.sweep.board import SweepRowCache


class CommandRefused(Exception):
    """Raised when a command cannot run; the text, a warning if ``warn`` is set, tells the user why and what to do."""

    def __init__(self, text: str, *, warn: bool = False) -> None:
        super().__init__(text)
        self.warn = warn


WARNED_CALLS = 2
"""The user is warned when a followed session is this many calls or fewer from its next compaction."""
MAX_BLOCKS_MEASURED_AT_ONCE = 5_000
"""Maximum number of blocks of a session that is calibrated before it is shown; a thread calibrates larger ones."""


class Controller:
    """The state behind the inspector: a view of one session, everything derived from it, and all commands.

    Attributes:
        view: state of the screen; ``view.cursor`` is the selected row, which is always listed.
        revision: number of changes of the view so far, not counting moves of the cursor.
        estimated_rows: all timeline rows, with their tokens estimated by ``bytes/4``.
        loader: loader for the session file, or None for a session in memory.
        is_measure_requested: whether the user chose a token measure that is still to be computed.
        is_fresh: whether the view is unchanged since the session was opened.
        comparison, sweep_results: content that the replay screen and the sweep screen showed last.
    """

    def __init__(self, target: Session | SessionInfo, options: InspectorOptions) -> None:
        session = target if isinstance(target, Session) else replace(from_messages([]), info=target)
        if options.window:
            session = session.with_window(options.window)
        at = None if options.at is None else max(options.at, 0)  # no upper limit: the message may not be read yet
        self.options, self.revision = options, 0
        policy, settings = options.policy, options.settings
        if not policy and not settings:
            policy, settings = restore_settings(options.last_state, session)
        initial_policy = find_initial_policy(session)
        self.view = View(session, at, initial_policy, settings).with_policy(policy or initial_policy)
        self.estimated_rows, self.search, self.analysis = TimelineRows(), Search(), AnalysisCache()
        self.reader, self.marker = MessageReader(session), RowMarker(self.view.context, None)
        self.listed_rows: Sequence[int] = range(0)
        self._listing_key: object = None
        self._unlisted_cursor: Location | None = None  # selected location whose row is not listed any more
        self._jump_points: tuple[object, list[JumpPoint]] | None = None
        self._break_points: tuple[Session, list[JumpPoint]] | None = None
        self.loader = None if isinstance(target, Session) else SessionLoader(target)
        self.progress = 1.0 if isinstance(target, Session) else 0.0
        self.is_reading = self.has_moved_cursor = self.is_fresh = self.is_following = False
        self.is_measure_requested = False
        self._pending_snapshot: SessionSnapshot | None = None  # received while a plan was applied
        self._end_cursor: Location | None = None  # cursor at the end of the session when it began to grow
        self._seen_state: SeenState | None = None
        self._warned_epoch = -1  # start of the context of which a compaction was announced
        self.comparison: PolicyComparison | None = None
        self.sweep_results: SweepRowCache | None = None

    @property
    def recorded_session(self) -> Session:
        """The session as it was before any plan was applied, as far as it has been read."""
        return self.view.undo_stack[0].session if self.view.undo_stack else self.view.session

    @property
    def jump_points(self) -> list[JumpPoint]:
        """The jump points in order of messages, cached until the session, the policy or its firings change."""
        view, firings = self.view, self.analysis.get_firings(self.view)
        key = view.session, view.policy, firings
        if self._jump_points is None or self._jump_points[0] != key:
            points, first_effect = (firings.points, firings.first_effect) if firings else ([], None)
            if self._break_points is None or self._break_points[0] is not view.session:
                self._break_points = view.session, find_break_points(view.session)
            break_points = self._break_points[1]
            self._jump_points = key, find_jump_points(view.session, view.policy, points, first_effect, break_points)
        return self._jump_points[1]

    @property
    def next_firing(self) -> int | None:
        """The message before which the policy next fires, wrapping around; -1 for never, None until it is known."""
        firings = self.analysis.get_firings(self.view)
        at = find_next(firings.points, self.view.point, 1) if firings else None
        return at if firings is None or at is not None else -1

    # Token measures

    @property
    def token_table(self) -> TokenTable | None:
        """The token sizes by the view's measure, or None if the measure is ``bytes/4`` or not computed yet."""
        measured = self.analysis.get_measured_rows(self.view)
        return measured.token_table if measured else None

    @property
    def calibrated_table(self) -> TokenTable | None:
        """The calibrated token sizes of the recorded session, or None if these are not the sizes on screen."""
        table = self.token_table if self.recorded_session.facts is self.view.session.facts else None
        return table if table and table.measure is TokenMeasure.CALIBRATED else None

    @property
    def rows(self) -> TimelineRows:
        """All timeline rows, sized by the view's token measure, or by ``bytes/4`` until that is computed."""
        measured = self.analysis.get_measured_rows(self.view)
        return measured.rows if measured else self.estimated_rows

    def cycle_measure(self) -> None:
        """Switch to the next token measure and request its sizes if they are still to be computed."""
        self._check_read()
        measures = list(TokenMeasure)
        next_measure = measures[(measures.index(self.view.measure) + 1) % len(measures)]
        self.change_view(replace(self.view, measure=next_measure))
        self.is_measure_requested = self.token_table is None and next_measure is not TokenMeasure.OWN

    def finish_measuring(self, error: str = "") -> str:
        """Show the computed sizes, or fall back to ``bytes/4`` after an *error*; return a message for the user."""
        is_fresh, self.is_measure_requested = self.is_fresh and not error, False
        self.change_view(replace(self.view, measure=TokenMeasure.OWN) if error else self.view)
        self.is_fresh = is_fresh
        return error or (f"Token measure: {self.token_table.describe(self.view.context)}" if self.token_table else "")

    # Reading

    def update_session(self, snapshot: SessionSnapshot) -> None:
        """Show the session as read so far, or keep the snapshot until undo if a copy of a followed session is shown."""
        if self.is_following and self.view.session.origin:
            self._pending_snapshot = snapshot  # shown after undo
            return
        cursor = self.view.cursor
        at_end = self.is_following and (cursor == self._end_cursor or cursor.message >= len(self.view.session) - 1)
        self._end_cursor = cursor if at_end and not snapshot.is_end else None
        view, self.progress = self.view.with_session(snapshot.session), snapshot.progress
        self.estimated_rows, self.reader = snapshot.rows, self.reader.with_session(view.session)
        if snapshot.is_end:
            self.open_session(view.session, at_end=at_end)
            return
        self.view = view
        if not view.filter and not view.by_size:  # otherwise listed at the end
            self._update_listing()

    def open_session(self, session: Session, *, at_end: bool = False) -> None:
        """Show a session that was read, keeping the user's choices; *at_end* moves the cursor to the planning point."""
        self.is_reading = False
        view = self.view.with_session(session).with_point(self.view.at)
        if at_end or not self.has_moved_cursor:
            view = self._locate_view(view, self._find_initial_cursor(view))
        self.change_view(view)
        self.is_fresh = True

    def _find_initial_cursor(self, view: View) -> Location:
        """Return the initial cursor: the planning point, or in the demo the last block that the plan changes."""
        if self.options.demo and view.plan and view.plan.changes:
            block = max(view.plan.changes)
            return Location(view.session.facts.block_message[block], block)
        return Location(min(view.point, max(len(view.session) - 1, 0)))

    def resume_reading(self) -> SessionLoader:
        """Mark the session as being read and return its loader; raise CommandRefused if nothing is left to read."""
        if self.is_reading or self.loader is None or self.progress >= 1:
            raise CommandRefused("The session is being read" if self.is_reading else "All of the session has been read")
        if self.view.session.origin:
            raise CommandRefused("Undo the applied plan first (u), then read on", warn=True)
        self.is_reading = True
        return self.loader

    def collect_compaction_warning(self, fullness: Fullness) -> str:
        """Return a warning that the followed agent will soon compact, once per context; otherwise return ""."""
        view, calls = self.view, fullness.calls_left
        is_at_end = self.is_following and not view.session.origin and view.context.at == len(view.session)
        if not is_at_end or calls is None or calls > WARNED_CALLS or view.context.epoch_start == self._warned_epoch:
            return ""
        self._warned_epoch = view.context.epoch_start
        tokens = f", {format_tokens(fullness.tokens_left)} tokens from now" if fullness.tokens_left else ""
        return f"The agent compacts {fullness.format_due()}{' at this rate' if calls else ''}{tokens}"

    def toggle_following(self) -> SessionLoader | None:
        """Start to follow the session file and return its loader, or stop following it and return None."""
        if self.is_following:
            self.is_following = False
            return None
        if self.loader is None:
            raise CommandRefused("Only a session that was opened from a file can be followed")
        if self.is_reading or self.progress < 1:
            reason = "The session is still being read" if self.is_reading else "Read on first (r), then follow"
            raise CommandRefused(reason)
        if self.view.session.origin:
            raise CommandRefused("Undo the applied plan first (u), then follow", warn=True)
        self.is_following, self._seen_state = True, SeenState.from_session(self.view.session)
        return self.loader

    def collect_news(self) -> list[str]:
        """Return notices of changes in the followed session since the last call, or [] if no session is followed."""
        if not self.is_following or self._seen_state is None or self.view.session.origin:
            return []
        news = format_news(self._seen_state, self.view.session)
        self._seen_state = SeenState.from_session(self.view.session)
        return news

    # The view

    def change_view(self, view: View) -> None:
        """Replace the view, then update the rows, marks, search and list so that the cursor is on a listed row."""
        self.revision += 1
        self.is_fresh = False
        if view.session.facts is not self.reader.session.facts:
            self.estimated_rows = TimelineRows()
        if view.session is not self.reader.session:
            self.reader = MessageReader(view.session)
        self.estimated_rows.grow(view.session)
        if not self.search.covers(view.session):
            self.search.start(view.session, self.search.text)
        marks = view.applied.marks if view.applied else None
        measured = self.analysis.get_measured_rows(view)
        is_small = len(view.session.facts.kind) <= MAX_BLOCKS_MEASURED_AT_ONCE
        if measured is None and is_small and view.measure is TokenMeasure.CALIBRATED:
            measured = self.analysis.measure_session(view, self.estimated_rows)
        elif measured is None:
            measured = self.analysis.extend_measured_rows(view, self.estimated_rows)
        self.marker = RowMarker(view.context, view.plan, marks, measured.token_table if measured else None)
        has_moved, self.view = view.cursor != self.view.cursor, view
        self._update_listing()
        target = self._unlisted_cursor if self._unlisted_cursor and not has_moved else view.cursor
        cursor = self._find_nearest_listed(target)
        self._unlisted_cursor = target if cursor != target else None
        self.view = replace(view, cursor=cursor)

    def _update_listing(self) -> None:
        view = self.view
        plan = view.plan if view.filter.verdict else None
        key = (view.session, view.filter, view.by_size, view.folds, plan, view.point, self.token_table)
        if key != self._listing_key or len(self.rows) == 0:
            self.listed_rows = list_rows(self.rows, self.marker, view.filter, view.by_size, view.folds)
            self._listing_key = key

    def _find_nearest_listed(self, location: Location) -> Location:
        if not self.listed_rows:
            return location
        return self.rows.get_location(self.listed_rows[find_line(self.listed_rows, self.rows.find_row(*location))])

    def move_cursor(self, location: Location) -> None:
        """Move the cursor to *location*, which must be listed."""
        if location != self.view.cursor:
            self._unlisted_cursor = None
            self.view = replace(self.view, cursor=location)

    def select_location(self, location: Location) -> str:
        """Select *location* and unfold its turn; return "", or a message if all rows had to be listed to show it."""
        view = self._locate_view(self.view, location)
        if not is_listed(self.listed_rows, self.rows.find_row(*location)):
            self.change_view(replace(view, filter=NO_FILTER, by_size=False))
            return f"All rows are shown again: #{location.message:,} was not among those listed"
        if view.folds == self.view.folds:
            self.move_cursor(self._find_nearest_listed(location))
        else:
            self.change_view(view)
        return ""

    def _locate_view(self, view: View, location: Location) -> View:
        folds = view.folds
        if folds and location.block != TURN_HEAD and self.rows.heads:
            folds = folds.unfold(self.rows.get_turn_number(self.rows.find_turn_of_message(location.message)))
        return replace(view, cursor=location, folds=folds)

    # Movement

    def move_to_turn(self, step: int) -> None:
        """Go to the next turn's heading (+1), or to this turn's heading or, if already there, the previous one (-1)."""
        row = self.rows.find_turn_head(self.rows.find_row(*self.view.cursor), step)
        if len(self.rows):
            self.move_cursor(self._find_nearest_listed(self.rows.get_location(row)))

    def move_to_changed(self, step: int) -> None:
        """Go to the next (+1) or previous (-1) row that the plan changes, or that the applied plan changed."""
        location = find_next_changed(self.rows, self.marker, self.view.cursor, step, self.limited_rows)
        if location is None:
            raise CommandRefused("The plan changes no row" + (" that is listed" if self.is_limited else ""))
        self.select_location(location)

    def move_to_match(self, step: int) -> bool:
        """Go to the next (+1) or previous (-1) match, or return False if the running search has found none yet."""
        location = self.search.find_next_match(self.rows, self.view.cursor, step, self.limited_rows)
        is_pending = location is None and bool(self.search.text) and not self.search.is_finished
        self.search.pending_step = step if is_pending else 0
        if is_pending:
            return False
        if location is None:
            if locations := self.search.locations:
                match_text = format_count(len(locations), "matching row")
                raise CommandRefused(f"No matches in the listed rows; {match_text} elsewhere, esc shows all")
            reason = "No matches; press / to search again" if self.search.text else "Press / to search first"
            raise CommandRefused(reason)
        self.select_location(location)
        return True

    def toggle_fold(self) -> range:
        """Fold or unfold the turn that contains the cursor, select its heading, and return the rows in the turn."""
        self._check_folds()
        turn = self.rows.get_turn_number(self.rows.find_turn_of_message(self.view.cursor.message))
        return self._apply_folds(self.view.folds.toggle(turn))

    def toggle_all_folds(self) -> range:
        """Fold all turns, or unfold all if every one is folded, and return the rows in the selected turn."""
        self._check_folds()
        numbers = range(self.rows.get_turn_number(0), self.rows.get_turn_number(len(self.rows.heads)))
        return self._apply_folds(NO_FOLDS if all(number in self.view.folds for number in numbers) else ALL_FOLDED)

    def _check_folds(self) -> None:
        if self.view.filter or self.view.by_size:
            raise CommandRefused("Filtered and sorted rows have no turns to fold; press esc to show all", warn=True)
        if not self.rows.heads:
            raise CommandRefused("No turns to fold")

    def _apply_folds(self, folds: TurnFolds) -> range:
        self.has_moved_cursor = True
        turn = self.rows.find_turn_of_message(self.view.cursor.message)
        head = Location(self.rows.get_turn_messages(turn).start, TURN_HEAD)
        self.change_view(replace(self.view, folds=folds, cursor=head))
        return self.rows.get_turn_rows(turn)

    # Planning point

    def toggle_point(self) -> None:
        """Move the planning point to the selected message or, if it is not at the end, back to the end."""
        self.change_view(self.view.with_point(self.view.cursor.message if self.view.at is None else None))

    def plan_before(self, message: int) -> None:
        """Move the planning point to just before *message* and select that message."""
        cursor = Location(min(message, max(len(self.view.session) - 1, 0)))
        self.change_view(self._locate_view(self.view.with_point(message), cursor))

    def move_to_jump_point(self, step: int) -> None:
        """Move the planning point to the next (+1) or previous (-1) jump point, wrapping around."""
        no_points = "No jump points: this policy never fires here"
        self._plan_at_next(self.jump_points, step, "No other jump points", no_points)

    def _plan_at_next(self, points: Sequence[JumpPoint], step: int, no_other: str, no_points: str) -> None:
        point = find_next_jump(points, self.view.point, step)
        if point is None:
            raise CommandRefused(f"{no_other}: {points[0].reason}" if points else no_points)
        self.plan_before(point.at)

    def move_to_firing(self) -> None:
        """Move the planning point to where the policy next fires, wrapping around."""
        at = self.next_firing
        if at is None or at < 0:
            reason = "Still finding where the policy fires" if at is None else "The policy never fires here"
            raise CommandRefused(reason)
        self.plan_before(at)

    def move_to_compaction(self, step: int) -> None:
        """Move the planning point to the next (+1) or previous (-1) compaction that was recorded or inferred."""
        events = find_context_events(self.view.session)
        points = [JumpPoint(event.message, format_event_point(event)) for event in events if is_compaction(event)]
        self._plan_at_next(points, step, "It is the only recorded compaction", "This recording holds no compaction")

    # Replay

    def build_comparison(self) -> PolicyComparison:
        """Build the comparison for the replay screen, with the current policy and those compared before."""
        from context_tui.tui.comparison import PolicyComparison

        self._check_read()
        if self.view.session.origin:
            raise CommandRefused("Only a recording can be replayed; press u to undo the applied plan first", warn=True)
        self.comparison = PolicyComparison(self.view, self.comparison)
        return self.comparison

    def adopt_settings(
        self, policy: str, params: PolicySettings, at: int | None, location: Location | None = None
    ) -> str:
        """Adopt another screen's settings, plan before *at*, go to *location*; return a message if settings changed."""
        view = self.view
        differs = policy != view.policy or any(params.get(name, {}) != view.params.get(name, {}) for name in params)
        if differs:
            self.change_view(replace(view, params=params).with_policy(policy))
        if at is not None:
            self.plan_before(at)
        if location is not None:
            self.select_location(location)
        return f"{policy} with the settings of the replay" if differs else ""

    # Policies and their settings

    def choose_policy(self, policy: str) -> None:
        """Plan with *policy*, keeping the settings and the planning point."""
        self.change_view(self.view.with_policy(policy))

    def set_param(self, policy: str, name: str, value: Any) -> None:
        """Set one parameter of *policy* and plan again."""
        self.change_view(self.view.with_param(policy, name, value))

    def set_window(self, tokens: int | None) -> None:
        """Plan with a context window of *tokens* tokens, or with the session's own window if *tokens* is None."""
        self.change_view(self.view.with_window(tokens))

    def toggle_mark(self) -> None:
        """Mark the selected tool result for clearing by hand, or remove its mark."""
        cursor, view = self.view.cursor, self.view
        if cursor.block < 0:
            raise CommandRefused("Only tool results can be cleared; select one", warn=True)
        if view.session.facts.block_message[cursor.block] not in view.context.order:
            raise CommandRefused("This result is not in the context; select another one", warn=True)
        self.change_view(view.toggle_mark(cursor))

    def toggle_cut(self) -> None:
        """Plan by hand to summarise everything before the selected message, or remove the cut if it is there."""
        if self.view.cursor.message not in self.view.context.order:
            raise CommandRefused("This message is not in the context; select another one", warn=True)
        self.change_view(self.view.toggle_cut(self.view.cursor.message))

    # Listing

    @property
    def is_limited(self) -> bool:
        """Whether the list may lack rows, because of a filter or because sorting by size leaves some out."""
        return bool(self.view.filter) or self.view.by_size

    @property
    def limited_rows(self) -> frozenset[int] | None:
        """The numbers of the listed rows, or None if the list is neither filtered nor sorted."""
        return frozenset(self.listed_rows) if self.is_limited else None

    @property
    def match_count_text(self) -> str:
        """Text with the number of search matches and the position of the selected one among them."""
        return self.search.format_count(self.view.cursor, self.search.list_matches(self.rows, self.limited_rows))

    def toggle_filter(self, kind: str, value: str | int) -> None:
        """Add a condition to the filter, or remove it if it is set; an empty *kind* clears the whole filter."""
        row_filter = self.view.filter.toggle_condition(kind, value) if kind else NO_FILTER
        self.change_view(replace(self.view, filter=row_filter))

    def toggle_part_filter(self, kind: str, value: str) -> None:
        """List only one category, tool or file in the context, or all rows if that filter is already set."""
        self.change_view(replace(self.view, filter=self.view.filter.toggle_part(kind, value)))

    def toggle_sort(self) -> None:
        """Switch the list between file order and descending size; in the latter, select the largest row."""
        self.change_view(replace(self.view, by_size=not self.view.by_size))
        if self.view.by_size and self.listed_rows:
            self.move_cursor(self.rows.get_location(self.listed_rows[0]))

    def clear_filter(self) -> None:
        """List all rows in file order, removing the filter and the sorting by size."""
        self.change_view(replace(self.view, filter=NO_FILTER, by_size=False))

    # Apply, undo, export

    def get_applicable_plan(self) -> Plan:
        """Return the plan; raise CommandRefused if it changes nothing, was just applied, or reading continues."""
        view, plan = self.view, self.view.plan
        self._check_read()
        if view.applied:
            raise CommandRefused("A plan was just applied; choose a policy to plan again")
        if plan is None or not plan.has_changes:
            reason = view.plan_error or (plan.reason if plan else "") or "the plan changes nothing"
            raise CommandRefused(f"Nothing to apply: {reason}", warn=True)
        return plan

    def show_applied_copy(self, plan: Plan, copy: Session) -> None:
        """Show *copy*, the result of applying *plan*, and add the current view to the undo stack."""
        applied, cursor = describe_applied_plan(plan, copy, self.view.cursor, self.token_table)
        self.change_view(self.view.with_copy(copy, applied, cursor))

    def undo(self) -> str:
        """Undo the last applied plan and return a message; raise CommandRefused if there is nothing to undo."""
        view = self.view.undo_plan()
        if view is None:
            raise CommandRefused("Nothing to undo; press a to apply the plan")
        self.change_view(view)
        if self._pending_snapshot is not None and not view.session.origin:
            snapshot, self._pending_snapshot = self._pending_snapshot, None
            self.update_session(snapshot)
        return f"Back to {format_count(len(view.session), 'message')}; press U to redo"

    def redo(self) -> None:
        """Show the copy of the plan that was undone last; raise CommandRefused if there is nothing to redo."""
        view = self.view.redo_plan()
        if view is None:
            raise CommandRefused("Nothing to redo")
        self.change_view(view)

    def get_exportable_session(self) -> Session:
        """Return the session or its compacted copy; raise CommandRefused if the session is not fully read."""
        self._check_read()
        if self.progress < 1:
            remedy = "press u to undo the applied plan, then r" if self.view.session.origin else "press r"
            raise CommandRefused(f"Only {format_percent(self.progress)} has been read; {remedy} to read on", warn=True)
        return self.view.session

    def mark_exported(self) -> None:
        """Record that the copy was written to a file, so that it can be closed without a question."""
        self.view = replace(self.view, is_exported=True)

    def _check_read(self) -> None:
        if self.is_reading:
            raise CommandRefused("The session is still being read; press esc to stop there", warn=True)

    # Clipboard

    def format_command(self) -> str:
        """Return the shell command that computes the current plan; raise CommandRefused for a compacted copy."""
        if self.view.session.origin:
            raise CommandRefused("No command for a copy; press e to export it, then open the file", warn=True)
        return format_plan_command(self.view)

    def format_selected_text(self) -> str:
        """Return the full text of the selected row; raise CommandRefused if the session has no messages."""
        cursor, facts = self.view.cursor, self.view.session.facts
        if not len(self.view.session):
            raise CommandRefused("No messages in this session")
        rows = list(facts.blocks_of(cursor.message))
        blocks = zip(rows, self.reader.read_blocks(cursor.message), strict=False)
        selected_blocks = [block for row, block in blocks if cursor.block in (WHOLE_MESSAGE, TURN_HEAD, row)]
        return "\n\n".join(filter(None, map(format_block, selected_blocks)))
