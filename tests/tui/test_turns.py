"""Turns: every message is in one, heads say what their rows say, and folding hides rows and nothing else."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_tui.policies.base import Params
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import list_policy_names
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, Spans
from context_tui.tokens.context_index import index_context
from context_tui.tokens.context_size import measure_context
from context_tui.tui.timeline.filters import (
    ALL_FOLDED,
    NO_FILTER,
    NO_FOLDS,
    RowFilter,
    TurnFolds,
    find_line,
    fold_rows,
    list_rows,
)
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import TURN_HEAD, WHOLE_MESSAGE, TimelineRows
from context_tui.tui.timeline.turns import TurnEffect, TurnSummaries, TurnSummary
from context_tui.tui.view import AppliedPlan, View
from tests.formats.recordings import Recording, conversations
from tests.fuzz.journey import EAGER
from tests.test_plans import Tidy, recording
from tests.tui.inspecting import CLEAR, eventful, session

any_session = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def rows_of(made: Session) -> TimelineRows:
    rows = TimelineRows()
    rows.grow(made)
    return rows


def turns_of(rows: TimelineRows, marker: RowMarker | None = None) -> list[TurnSummary]:
    turns = TurnSummaries(rows, marker)
    return [turns.get_summary(turn) for turn in range(len(rows.heads))]


def opened(recording: Recording, folder: Path, begins: bool) -> Session:
    """The recording, or what it was from its second half on, which may begin within a turn."""
    made = recording.open(folder)
    return made if begins else from_messages(made.to_messages()[len(made) // 2 :])


# -- which rows there are


@any_session
@given(recording=conversations(), begins=st.booleans())
def test_every_message_is_in_one_turn_or_before_the_first(tmp_path: Path, recording: Recording, begins: bool) -> None:
    made = opened(recording, tmp_path, begins)
    rows = rows_of(made)
    places = range(len(rows.heads))
    assert [message for turn in places for message in rows.get_turn_messages(turn)] == [*range(len(made))]
    assert [row for turn in places for row in rows.get_turn_rows(turn)] == [
        *range(rows.heads[0] if made else 0, len(rows))
    ]
    for turn in places:
        first, *others = rows.get_turn_messages(turn)
        assert bool(made.facts.flags[first] & MessageFlag.TURN_START) == bool(rows.get_turn_number(turn))
        assert not any(made.facts.flags[message] & MessageFlag.TURN_START for message in others)
        assert {rows.turn[message] for message in (first, *others)} == {rows.get_turn_number(turn)}
        assert {rows.find_turn_of_message(message) for message in (first, *others)} == {turn}
        assert (
            rows.find_row(first, TURN_HEAD) == rows.heads[turn] == rows.find_row(first) - 1
            or rows.block[rows.first[first]] >= 0
        )
    assert [rows.get_turn_number(turn) - rows.get_turn_number(0) for turn in places] == [*places]


@any_session
@given(recording=conversations(), folds=st.builds(TurnFolds, st.frozensets(st.integers(0, 6)), st.booleans()))
def test_folded_and_unfolded_rows_add_up(tmp_path: Path, recording: Recording, folds: TurnFolds) -> None:
    made = recording.open(tmp_path)
    rows = rows_of(made)
    shown = [*fold_rows(rows, folds)]
    begins = {row for row, event in rows.iterate_event_rows() if event.begins_context}
    hidden = sorted(set(range(len(rows))) - set(shown))
    assert shown == sorted(set(shown)) and len(shown) + len(hidden) == len(rows)
    assert not begins & set(hidden) and not set(rows.heads) & set(hidden)
    for turn in range(len(rows.heads)):
        within = set(rows.get_turn_rows(turn)) - begins - {rows.heads[turn]}
        assert within <= set(hidden if rows.get_turn_number(turn) in folds else shown)
    for row in range(len(rows)):
        line = find_line(fold_rows(rows, folds), row)
        assert shown[line] <= row and row not in shown[line + 1 :], "the last one above it, or itself"


@any_session
@given(recording=conversations(), steps=st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=9))
def test_turns_that_are_read_in_steps_are_the_same(
    tmp_path: Path, recording: Recording, steps: list[tuple[int, bool]]
) -> None:
    made, rows, length = recording.open(tmp_path), TimelineRows(), 0
    for step, revised in [*steps, (10_000, False)]:
        length = min(length + step, len(made))
        rows.grow(Session(made.facts, made.content, made.info, length), max(length - 2, 0) if revised else None)
    wanted = rows_of(made)
    assert (rows.heads, rows.sums, rows.largest_turn) == (wanted.heads, wanted.sums, wanted.largest_turn)
    assert [*rows.iterate_event_rows()] == [*wanted.iterate_event_rows()] and turns_of(rows) == turns_of(wanted)


def test_what_comes_before_the_first_turn_has_a_head_too() -> None:
    begun = [{"role": "assistant", "content": "I go on."}, {"role": "user", "content": "Good."}]
    rows = rows_of(from_messages(begun))
    assert [(turn.number, turn.name, len(turn.messages)) for turn in turns_of(rows)] == [
        (0, "before turn 1", 1),
        (1, "turn 1", 1),
    ]
    only = turns_of(rows_of(from_messages(begun[:1])))
    assert [turn.name for turn in only] == ["before turn 1"]
    assert not rows_of(session(0)).heads


def test_a_summary_and_what_is_injected_start_no_turn(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("first")
    recording.boundary()
    recording.summary()
    recording.attachment("file", content="attached")
    recording.user("second")
    made = recording.open(tmp_path)
    turns = turns_of(rows_of(made))
    assert [turn.number for turn in turns] == [1, 2] and len(turns[0].messages) == len(made) - 1 > 1


def test_where_another_context_begins_stays_in_sight() -> None:
    made = eventful()
    rows = rows_of(made)
    shown = [*fold_rows(rows, ALL_FOLDED)]
    assert len(shown) == 11 and sum(rows.get_event(row) is not None for row in shown) == 1
    clear = next(row for row in shown if rows.get_event(row))
    assert rows.message[clear] == CLEAR and len(rows.events) == 2, "the drop is within a folded turn"


def test_filtered_and_sorted_rows_have_no_heads_and_no_folds() -> None:
    view = View(session())
    rows, marker = rows_of(view.session), RowMarker(view.context, view.plan)
    for wanted, by_size in ((RowFilter(tool="Bash"), False), (NO_FILTER, True), (RowFilter(verdict="cleared"), True)):
        found = list_rows(rows, marker, wanted, by_size, ALL_FOLDED)
        assert len(found) and all(rows.block[row] >= WHOLE_MESSAGE for row in found)
    assert list_rows(rows, marker, NO_FILTER, False, NO_FOLDS) == range(len(rows))


def test_in_place_of_a_row_that_is_not_listed_the_nearest_is_found_wherever_it_was_sorted_to() -> None:
    by_size = array("l", [40, 7, 90, 12])
    assert [find_line(by_size, row) for row in (7, 8, 13, 41, 91)] == [1, 1, 3, 0, 2]
    assert find_line(array("l"), 5) == 0


# -- folds


def test_a_fold_is_taken_back_by_doing_it_again() -> None:
    assert 3 in NO_FOLDS.toggle(3) and 4 not in NO_FOLDS.toggle(3) and NO_FOLDS.toggle(3).toggle(3) == NO_FOLDS
    assert 3 not in ALL_FOLDED.toggle(3) and 4 in ALL_FOLDED.toggle(3) and 10**9 in ALL_FOLDED
    assert ALL_FOLDED.unfold(3).unfold(3) == ALL_FOLDED.toggle(3) and NO_FOLDS.unfold(3) is NO_FOLDS
    assert [*map(bool, (NO_FOLDS, ALL_FOLDED, NO_FOLDS.toggle(1)))] == [False, True, True]


def test_folds_take_no_room_for_each_row() -> None:
    rows = rows_of(session(900, 2))
    for folds in (ALL_FOLDED, NO_FOLDS.toggle(450), ALL_FOLDED.toggle(450)):
        assert len(fold_rows(rows, folds).ranges) <= 901


def test_folds_survive_what_keeps_all_messages() -> None:
    view = replace(View(session()), folds=ALL_FOLDED.toggle(2))
    told = AppliedPlan("manual", "", {})
    same, fewer = (view.with_copy(made, told, view.cursor) for made in (session(), session(5)))
    assert same.folds == view.folds and fewer.folds == ALL_FOLDED, "its turns have other numbers"
    back = fewer.undo_plan()
    assert back is not None and back.folds == view.folds


# -- what heads say


def check_heads(rows: TimelineRows, marker: RowMarker) -> list[TurnSummary]:
    """What heads say, counted row by row."""
    context, plan = marker.context, marker.plan
    facts, turns, inside = context.facts, turns_of(rows, marker), sum(index_context(context).tokens)
    request = max(measure_context(context).tokens, inside)  # the estimates may have too much
    for place, turn in enumerate(turns):
        span = [row for row in rows.get_turn_rows(place) if rows.block[row] >= WHOLE_MESSAGE]
        marks = {row: marker.find_mark(rows.message[row], rows.block[row]) for row in span}
        here = [row for row in span if marker.find_position(rows.message[row]) >= 0]
        bodies = {row: context.replacements.get(rows.block[row]) for row in here}
        tokens = {row: body.tokens if (body := bodies.get(row)) else rows.tokens[row] for row in span}
        assert turn.tokens == sum(tokens.values()), "the tokens of its rows"
        assert bool(turn.outside) == (not here) == (turn.share is None)
        if turn.outside:
            assert {marks[row].verdict for row in span} == {turn.outside}
            continue
        assert turn.share == pytest.approx(sum(tokens[row] for row in here) / request if request else 0)
        if plan is None or not plan.has_changes:
            assert not turn.effects
            continue
        gone = [m for m in turn.messages if marker.find_position(m) >= 0 and plan.find_action(marker.find_position(m))]
        stay = [row for row in here if rows.block[row] >= 0 and rows.message[row] not in gone]
        told = {(fate.noun, fate.verdict): fate for fate in turn.effects}
        assert len(told) == len(turn.effects) and all(fate.affected for fate in turn.effects)
        assert sum(fate.affected for fate in turn.effects if fate.noun == "message") == len(gone)
        for word in ("cleared", "truncated", "dropped"):
            count = sum(marks[row].verdict == word for row in stay)
            fate = told.get(("result", word))
            assert (fate.affected if fate else 0) == count and (not fate or fate.total == len(stay))
        changed = [row for row in plan.changes if facts.block_message[row] in set(turn.messages) - set(gone)]
        others = [row for row in changed if facts.kind[row] != Kind.TOOL_RESULT]
        assert sum(fate.affected for fate in turn.effects if fate.noun == "other block") == len(others)
    if inside:
        assert sum(turn.share or 0 for turn in turns) == pytest.approx(inside / request)
    if not context.replacements:
        assert sum(turn.tokens for turn in turns) == rows.sums[-1]
    return turns


@any_session
@given(recording=conversations(), data=st.data())
def test_heads_say_what_their_rows_say(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    made = recording.open(tmp_path)
    at, policy = (
        data.draw(st.none() | st.integers(0, len(made))),
        data.draw(st.sampled_from(sorted(list_policy_names()))),
    )
    params = data.draw(st.sampled_from([{}, {policy: EAGER[policy]}]))
    view = View(made, at, policy, params)
    check_heads(rows_of(made), RowMarker(view.context, view.plan))


def test_heads_say_what_any_plan_does(tmp_path: Path) -> None:
    made = recording().open(tmp_path)
    rows, plan = rows_of(made), build_plan(made, Tidy(), Params())
    turns = check_heads(rows, RowMarker(plan.context, plan))
    assert [[str(fate) for fate in turn.effects] for turn in turns] == [
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
        ["drops 4 of 4 messages"],
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
        ["drops 4 of 4 messages"],
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
    ]
    across = replace(plan, dropped_ranges=(range(2, 6), range(9, 10)))
    assert [str(turn.effects[0]) for turn in check_heads(rows, RowMarker(plan.context, across))[:3]] == [
        "drops 2 of 4 messages",
        "drops 2 of 4 messages",
        "drops 1 of 4 messages",
    ]


def test_heads_say_it_in_words() -> None:
    view = View(session())
    first, *_, last = turns_of(rows_of(view.session), RowMarker(view.context, view.plan))
    assert [str(fate) for fate in first.effects] == ["clears 2 of 6 results"] and first.effects[
        0
    ].short == "clears 2 of 6"
    assert first.verdict == "cleared" and last.verdict == "kept" and not last.effects
    assert first.format_summary() == (
        "turn 1: messages 0 to 7, est. 2,768 tokens, 10 % of the context, clears 2 of 6 results"
    )
    view = View(session(compacted=True), policy="defect-compact").with_param("defect-compact", "threshold", 8_000)
    before, *_, late = turns_of(rows_of(view.session), RowMarker(view.context, view.plan))
    assert (before.verdict, before.share) == ("before", None) and before.format_summary().endswith(
        "not in this context"
    )
    assert late.verdict != "before"
    assert [str(fate) for fate in turns_of(rows_of(view.session), RowMarker(view.context, view.plan))[3].effects] == [
        "summarises 8 of 8 messages"
    ]
    assert TurnEffect("summarised", "summarises", 8, 8, "message").short == "summarises all"
    assert TurnEffect("dropped", "drops", 1, 0, "other block").short == "drops 1 other block"


def test_a_context_that_begins_with_messages_from_elsewhere_counts_them_in_their_turns() -> None:
    made = session()
    made.facts.add_compaction(Compaction(40, "full", prefix=Spans.from_numbers([3, 4, 10])))
    view = View(made)
    assert not isinstance(view.context.order, range)
    turns = turns_of(rows_of(made), RowMarker(view.context, view.plan))
    assert [turn.share is None for turn in turns] == [False, False, True, True, True, False]
    tokens = index_context(made.context_at(40)).tokens
    assert [turn.inside for turn in turns] == [tokens[3] + tokens[4], tokens[10], None, None, None, None]
    part = turns[0]
    said = f"{part.tokens:,} tokens, {part.inside:,} of them in this context ("
    assert part.tokens > (part.inside or 0) and said in part.format_summary()
    assert part.place.endswith(" in context") and turns[-1].place.endswith(" %") and not turns[2].place
    inside = index_context(view.context).total
    assert sum(turn.share or 0 for turn in turns) == pytest.approx(inside / measure_context(view.context).tokens)


def test_heads_of_a_copy_say_what_was_done() -> None:
    view = View(session())
    assert view.plan is not None
    marks = dict.fromkeys(view.plan.changes, "cleared")
    first, *_, last = turns_of(rows_of(view.session), RowMarker(view.context, None, marks))
    assert [str(fate) for fate in first.effects] == ["cleared 2 of 6 results"] and not last.effects
