"""Turns: every message is in one, heads say what their rows say, and folding hides rows and nothing else."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_tui.compaction.next_request import size_now
from context_tui.policies.base import Params
from context_tui.policies.planning import plan_with
from context_tui.policies.registry import SHOWN
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag, Spans
from context_tui.tokens.context_index import index_context
from context_tui.tui.filters import EVERYTHING, Filter
from context_tui.tui.folds import ALL, NONE, Folds
from context_tui.tui.listing import folded, line_of, listed
from context_tui.tui.marks import Marker
from context_tui.tui.rows import HEAD, WHOLE, Rows
from context_tui.tui.turns import Fate, Turn, Turns
from context_tui.tui.view import Applied, View
from tests.formats.recordings import Recording, conversations
from tests.fuzz.journey import EAGER
from tests.test_plans import Tidy, recording
from tests.tui.inspecting import CLEAR, eventful, session

any_session = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def rows_of(made: Session) -> Rows:
    rows = Rows()
    rows.grow(made)
    return rows


def turns_of(rows: Rows, marker: Marker | None = None) -> list[Turn]:
    turns = Turns(rows, marker)
    return [turns.turn(turn) for turn in range(len(rows.heads))]


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
    assert [message for turn in places for message in rows.messages(turn)] == [*range(len(made))]
    assert [row for turn in places for row in rows.span(turn)] == [*range(rows.heads[0] if made else 0, len(rows))]
    for turn in places:
        first, *others = rows.messages(turn)
        assert bool(made.facts.flags[first] & MessageFlag.TURN_START) == bool(rows.number(turn))
        assert not any(made.facts.flags[message] & MessageFlag.TURN_START for message in others)
        assert {rows.turn[message] for message in (first, *others)} == {rows.number(turn)}
        assert {rows.turn_of(message) for message in (first, *others)} == {turn}
        assert (
            rows.row_of(first, HEAD) == rows.heads[turn] == rows.row_of(first) - 1 or rows.block[rows.first[first]] >= 0
        )
    assert [rows.number(turn) - rows.number(0) for turn in places] == [*places]


@any_session
@given(recording=conversations(), folds=st.builds(Folds, st.frozensets(st.integers(0, 6)), st.booleans()))
def test_folded_and_unfolded_rows_add_up(tmp_path: Path, recording: Recording, folds: Folds) -> None:
    made = recording.open(tmp_path)
    rows = rows_of(made)
    shown = [*folded(rows, folds)]
    begins = {row for row, event in rows.event_rows() if event.begins_context}
    hidden = sorted(set(range(len(rows))) - set(shown))
    assert shown == sorted(set(shown)) and len(shown) + len(hidden) == len(rows)
    assert not begins & set(hidden) and not set(rows.heads) & set(hidden)
    for turn in range(len(rows.heads)):
        within = set(rows.span(turn)) - begins - {rows.heads[turn]}
        assert within <= set(hidden if rows.number(turn) in folds else shown)
    for row in range(len(rows)):
        line = line_of(folded(rows, folds), row)
        assert shown[line] <= row and row not in shown[line + 1 :], "the last one above it, or itself"


@any_session
@given(recording=conversations(), steps=st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=9))
def test_turns_that_are_read_in_steps_are_the_same(
    tmp_path: Path, recording: Recording, steps: list[tuple[int, bool]]
) -> None:
    made, rows, length = recording.open(tmp_path), Rows(), 0
    for step, revised in [*steps, (10_000, False)]:
        length = min(length + step, len(made))
        rows.grow(Session(made.facts, made.content, made.info, length), max(length - 2, 0) if revised else None)
    wanted = rows_of(made)
    assert (rows.heads, rows.sums, rows.largest_turn) == (wanted.heads, wanted.sums, wanted.largest_turn)
    assert [*rows.event_rows()] == [*wanted.event_rows()] and turns_of(rows) == turns_of(wanted)


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
    shown = [*folded(rows, ALL)]
    assert len(shown) == 11 and sum(rows.event(row) is not None for row in shown) == 1
    clear = next(row for row in shown if rows.event(row))
    assert rows.message[clear] == CLEAR and len(rows.events) == 2, "the drop is within a folded turn"


def test_filtered_and_sorted_rows_have_no_heads_and_no_folds() -> None:
    view = View(session())
    rows, marker = rows_of(view.session), Marker(view.context, view.plan)
    for wanted, by_size in ((Filter(tool="Bash"), False), (EVERYTHING, True), (Filter(verdict="cleared"), True)):
        found = listed(rows, marker, wanted, by_size, ALL)
        assert len(found) and all(rows.block[row] >= WHOLE for row in found)
    assert listed(rows, marker, EVERYTHING, False, NONE) == range(len(rows))


def test_in_place_of_a_row_that_is_not_listed_the_nearest_is_found_wherever_it_was_sorted_to() -> None:
    by_size = array("l", [40, 7, 90, 12])
    assert [line_of(by_size, row) for row in (7, 8, 13, 41, 91)] == [1, 1, 3, 0, 2]
    assert line_of(array("l"), 5) == 0


# -- folds


def test_a_fold_is_taken_back_by_doing_it_again() -> None:
    assert 3 in NONE.toggled(3) and 4 not in NONE.toggled(3) and NONE.toggled(3).toggled(3) == NONE
    assert 3 not in ALL.toggled(3) and 4 in ALL.toggled(3) and 10**9 in ALL
    assert ALL.without(3).without(3) == ALL.toggled(3) and NONE.without(3) is NONE
    assert [*map(bool, (NONE, ALL, NONE.toggled(1)))] == [False, True, True]


def test_folds_take_no_room_for_each_row() -> None:
    rows = rows_of(session(900, 2))
    for folds in (ALL, NONE.toggled(450), ALL.toggled(450)):
        assert len(folded(rows, folds).ranges) <= 901


def test_folds_survive_what_keeps_all_messages() -> None:
    view = replace(View(session()), folds=ALL.toggled(2))
    told = Applied("manual", "", {})
    same, fewer = (view.with_copy(made, told, view.cursor) for made in (session(), session(5)))
    assert same.folds == view.folds and fewer.folds == ALL, "its turns have other numbers"
    back = fewer.undone()
    assert back is not None and back.folds == view.folds


# -- what heads say


def check_heads(rows: Rows, marker: Marker) -> list[Turn]:
    """What heads say, counted row by row."""
    context, plan = marker.context, marker.plan
    facts, turns, inside = context.facts, turns_of(rows, marker), sum(index_context(context).tokens)
    request = max(size_now(context).tokens, inside)  # the estimates may have too much
    for place, turn in enumerate(turns):
        span = [row for row in rows.span(place) if rows.block[row] >= WHOLE]
        marks = {row: marker.mark(rows.message[row], rows.block[row]) for row in span}
        here = [row for row in span if marker.position(rows.message[row]) >= 0]
        bodies = {row: context.replacements.get(rows.block[row]) for row in here}
        tokens = {row: body.tokens if (body := bodies.get(row)) else rows.tokens[row] for row in span}
        assert turn.tokens == sum(tokens.values()), "the tokens of its rows"
        assert bool(turn.outside) == (not here) == (turn.share is None)
        if turn.outside:
            assert {marks[row].word for row in span} == {turn.outside}
            continue
        assert turn.share == pytest.approx(sum(tokens[row] for row in here) / request if request else 0)
        if plan is None or not plan.changed:
            assert not turn.fates
            continue
        gone = [m for m in turn.messages if marker.position(m) >= 0 and plan.action_at(marker.position(m))]
        stay = [row for row in here if rows.block[row] >= 0 and rows.message[row] not in gone]
        told = {(fate.what, fate.word): fate for fate in turn.fates}
        assert len(told) == len(turn.fates) and all(fate.number for fate in turn.fates)
        assert sum(fate.number for fate in turn.fates if fate.what == "message") == len(gone)
        for word in ("cleared", "truncated", "dropped"):
            count = sum(marks[row].word == word for row in stay)
            fate = told.get(("result", word))
            assert (fate.number if fate else 0) == count and (not fate or fate.of == len(stay))
        changed = [row for row in plan.changes if facts.block_message[row] in set(turn.messages) - set(gone)]
        others = [row for row in changed if facts.kind[row] != Kind.TOOL_RESULT]
        assert sum(fate.number for fate in turn.fates if fate.what == "other block") == len(others)
    if inside:
        assert sum(turn.share or 0 for turn in turns) == pytest.approx(inside / request)
    if not context.replacements:
        assert sum(turn.tokens for turn in turns) == rows.sums[-1]
    return turns


@any_session
@given(recording=conversations(), data=st.data())
def test_heads_say_what_their_rows_say(tmp_path: Path, recording: Recording, data: st.DataObject) -> None:
    made = recording.open(tmp_path)
    at, policy = data.draw(st.none() | st.integers(0, len(made))), data.draw(st.sampled_from(sorted(SHOWN)))
    params = data.draw(st.sampled_from([{}, {policy: EAGER[policy]}]))
    view = View(made, at, policy, params)
    check_heads(rows_of(made), Marker(view.context, view.plan))


def test_heads_say_what_any_plan_does(tmp_path: Path) -> None:
    made = recording().open(tmp_path)
    rows, plan = rows_of(made), plan_with(made, Tidy(), Params())
    turns = check_heads(rows, Marker(plan.context, plan))
    assert [[str(fate) for fate in turn.fates] for turn in turns] == [
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
        ["drops 4 of 4 messages"],
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
        ["drops 4 of 4 messages"],
        ["clears 1 of 1 result", "drops 1 other block", "truncates 1 other block"],
    ]
    across = replace(plan, dropped=(range(2, 6), range(9, 10)))
    assert [str(turn.fates[0]) for turn in check_heads(rows, Marker(plan.context, across))[:3]] == [
        "drops 2 of 4 messages",
        "drops 2 of 4 messages",
        "drops 1 of 4 messages",
    ]


def test_heads_say_it_in_words() -> None:
    view = View(session())
    first, *_, last = turns_of(rows_of(view.session), Marker(view.context, view.plan))
    assert [str(fate) for fate in first.fates] == ["clears 2 of 6 results"] and first.fates[0].short == "clears 2 of 6"
    assert first.word == "cleared" and last.word == "kept" and not last.fates
    assert first.about() == ("turn 1: messages 0 to 7, est. 2,768 tokens, 10 % of the context, clears 2 of 6 results")
    view = View(session(compacted=True), policy="defect-compact").with_param("defect-compact", "threshold", 8_000)
    before, *_, late = turns_of(rows_of(view.session), Marker(view.context, view.plan))
    assert (before.word, before.share) == ("before", None) and before.about().endswith("not in this context")
    assert late.word != "before"
    assert [str(fate) for fate in turns_of(rows_of(view.session), Marker(view.context, view.plan))[3].fates] == [
        "summarises 8 of 8 messages"
    ]
    assert Fate("summarised", "summarises", 8, 8, "message").short == "summarises all"
    assert Fate("dropped", "drops", 1, 0, "other block").short == "drops 1 other block"


def test_a_context_that_begins_with_messages_from_elsewhere_counts_them_in_their_turns() -> None:
    made = session()
    made.facts.add_compaction(Compaction(40, "full", prefix=Spans.from_numbers([3, 4, 10])))
    view = View(made)
    assert not isinstance(view.context.order, range)
    turns = turns_of(rows_of(made), Marker(view.context, view.plan))
    assert [turn.share is None for turn in turns] == [False, False, True, True, True, False]
    inside = index_context(view.context).total
    assert sum(turn.share or 0 for turn in turns) == pytest.approx(inside / size_now(view.context).tokens)


def test_heads_of_a_copy_say_what_was_done() -> None:
    view = View(session())
    assert view.plan is not None
    marks = dict.fromkeys(view.plan.changes, "cleared")
    first, *_, last = turns_of(rows_of(view.session), Marker(view.context, None, marks))
    assert [str(fate) for fate in first.fates] == ["cleared 2 of 6 results"] and not last.fates
