"""What is said between the rows: compactions, clears and drops, as rules, jumps, marks and in the detail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.lab.price.breaks import find_cache_breaks
from context_tui.policies.registry import list_policy_names
from context_tui.session.facts import Compaction, Drop, Epoch
from context_tui.session.session import Session
from context_tui.session.values import Explanation
from context_tui.tui.inspector.request_history import (
    DROP_GLYPH,
    NEW_CONTEXT_GLYPH,
    build_request_history,
    draw_history,
    find_message_at_cell,
)
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_strips import paint_rule
from context_tui.tui.jump_points import find_jump_points
from context_tui.tui.reader.detail import Detail
from context_tui.tui.timeline.context_events import (
    ContextEvent,
    find_context_events,
    format_event_details,
    format_event_labels,
)
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import Location, TimelineRows
from context_tui.tui.view import View
from tests.tui.fakes import wrapped_text
from tests.tui.inspecting import CLEAR, DROP, app, eventful, opened, session, settled

FALLS = "recorded context fell by 25,760: cleared results (inferred, 11 results)"

SAMPLES = Path(ct.__file__).parents[1] / "sample_sessions"


def events_in(rows: TimelineRows) -> list[tuple[int, object]]:
    """The rules among rows, with the message that follows each."""
    return [(rows.message[r], event.fact) for r in range(len(rows)) if (event := rows.get_event(r))]


def micro(made: Session) -> tuple[Session, int]:
    """A session whose runtime recorded the clearing of eleven results before message 32, and the fall that it made."""
    cleared = frozenset(made.drops[0].cleared_blocks)
    made.facts.epochs.pop()  # in the order of the file
    made.facts.add_compaction(Compaction(32, "micro", "auto", 50_000, cleared_blocks=cleared))
    made.facts.begin_epoch(CLEAR, "clear")
    (drop,) = made.drops
    assert drop.explained_by == "microcompaction"
    return made, drop.tokens


def test_a_clear_and_a_drop_are_rules_in_words() -> None:
    made = eventful()
    rules = find_context_events(made)
    assert [(rule.message, format_event_labels(made.facts, rule)[0]) for rule in rules] == [
        (DROP, FALLS),
        (CLEAR, "context cleared (/clear)"),
    ]
    rows = TimelineRows()
    rows.grow(made)
    assert [message for message, _ in events_in(rows)] == [DROP, CLEAR]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (None, "recorded context fell by 5,322: unexplained"),
        (Explanation.THINKING, "recorded context fell by 5,322: dropped thinking (inferred)"),
        (Explanation.MODEL, "recorded context fell by 5,322: change of model (inferred)"),
    ],
)
def test_a_drop_says_what_explains_it(why: Explanation | None, words: str) -> None:
    assert format_event_labels(session().facts, ContextEvent(9, Drop(9, 5_322, 6_000, why)))[0] == words


def test_a_drop_that_a_microcompaction_explains_is_told_by_the_rule_of_that() -> None:
    made, fall = micro(eventful())
    found = [format_event_labels(made.facts, rule)[0] for rule in find_context_events(made)]
    assert found == [
        f"11 results cleared by the runtime (auto): recorded context fell by {fall:,}",
        "context cleared (/clear)",
    ]


def test_what_a_compaction_kept_and_the_file_lacks_is_said() -> None:
    compaction = Compaction(0, "full", "auto", 998_659, missing_messages=16)
    long, short = format_event_labels(session().facts, ContextEvent(0, compaction))
    assert long.endswith(", 998,659 tokens before by the agent's count; 16 kept records not in the file")
    assert short == "full compaction (auto); 16 kept records not in the file"
    one = format_event_labels(session().facts, ContextEvent(0, replace(compaction, missing_messages=1)))
    assert one[0].endswith("; 1 kept record not in the file")


def test_a_rule_takes_the_longest_words_that_fit() -> None:
    words = ("recorded context fell by 9,000: unexplained", "recorded −9,000: unexplained")
    assert [paint_rule(words, width, Timeline().rich_style).text[:20] for width in (60, 40)] == [
        " ── recorded context",
        " ── recorded −9,000:",
    ]
    assert paint_rule(words, 20, Timeline().rich_style).text == " ── recorded −9,000…"


def test_rows_follow_rules_that_become_known_late_and_several_in_one_place() -> None:
    made, rows = eventful(), TimelineRows()
    made.facts.epochs.pop()
    rows.grow(made)
    assert [message for message, _ in events_in(rows)] == [DROP, CLEAR + 1], "not known to be a clear yet"
    made.facts.add_compaction(Compaction(CLEAR, "micro", "auto"))
    made.facts.begin_epoch(CLEAR, "clear")
    rows.grow(made)
    assert [message for message, _ in events_in(rows)] == [DROP, CLEAR, CLEAR]
    assert [type(what) for _, what in events_in(rows)] == [Drop, Compaction, Epoch]
    rows.grow(made, CLEAR)
    assert [message for message, _ in events_in(rows)] == [DROP, CLEAR, CLEAR]


def test_jumps_stop_at_clears_and_drops() -> None:
    points = {point.at: point.reason for point in find_jump_points(eventful(), "defect-microcompact", [])}
    assert points[CLEAR] == "before the context was cleared (/clear)"
    assert "fell by 25,760: 11 results cleared (inferred), cache: clearing: " in points[DROP]


def test_jumps_stop_at_dear_cache_breaks() -> None:
    session = ct.open_session(str(SAMPLES / "coding-session.jsonl"))
    points = {point.at: point.reason for point in find_jump_points(session, "none", [])}
    [costly] = find_cache_breaks(session).costly_breaks
    assert f"cache: expired: {costly.tokens:,} tokens paid again" in points[costly.message]


def test_the_recorded_line_begins_anew_at_a_clear_and_marks_a_drop() -> None:
    recorded = build_request_history(eventful())
    assert [(gap.message, gap.glyph) for gap in recorded.events] == [(DROP, DROP_GLYPH), (CLEAR, NEW_CONTEXT_GLYPH)]
    drawn = "".join(text for text, _ in draw_history(recorded, 60, 200_000, 80))
    assert drawn.count(DROP_GLYPH) == drawn.count(NEW_CONTEXT_GLYPH) == 1
    assert find_message_at_cell(recorded, 60, 80, drawn.index(DROP_GLYPH)) == DROP
    assert find_message_at_cell(recorded, 60, 80, drawn.index(NEW_CONTEXT_GLYPH)) == CLEAR
    for at in (DROP, CLEAR):  # the point is just before either
        drawn = "".join(text for text, _ in draw_history(recorded, 60, 200_000, at))
        assert drawn[drawn.index("◆") + 1] in (DROP_GLYPH, NEW_CONTEXT_GLYPH)


def test_results_that_are_gone_say_how_that_is_known() -> None:
    made = eventful()
    row = made.drops[0].cleared_blocks[0]
    location = Location(made.facts.block_message[row], row)
    for policy in list_policy_names():
        view = View(made, at=CLEAR, policy=policy)
        if view.plan is None or view.plan.dropped_ranges:
            continue
        mark = RowMarker(view.context, view.plan).find_mark(*location)
        assert (mark.glyph, mark.reason) == (".", "already cleared, inferred from a drop of the recorded size")
    view = View(micro(eventful())[0], at=CLEAR)
    mark = RowMarker(view.context, view.plan).find_mark(*location)
    assert (mark.verdict, mark.reason) == ("gone", "already cleared, recorded")
    earlier = View(made, at=DROP)
    assert RowMarker(earlier.context, earlier.plan).find_mark(*location).verdict != "gone", "it was there until then"


def test_rows_before_a_clear_say_that_it_was_one() -> None:
    view = View(eventful())
    assert "cleared since (/clear)" in RowMarker(view.context, view.plan).find_mark(3).reason
    compacted = View(session(compacted=True))
    assert "compacted before" in RowMarker(compacted.context, compacted.plan).find_mark(3).reason


@pytest.mark.slow
async def test_the_detail_says_what_happened_there_and_to_a_result() -> None:
    made = eventful()
    row = made.drops[0].cleared_blocks[0]
    running = app(made, at=CLEAR)
    async with running.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await settled(pilot)
        detail, timeline = running.screen.query_one(Detail), running.screen.query_one(Timeline)
        timeline.select_location(Location(DROP))
        await settled(pilot)
        said = " ".join(wrapped_text(detail).split())
        assert FALLS in said and "cleared results (inferred): in messages 2 to 14" in said
        timeline.select_location(Location(made.facts.block_message[row], row))
        await settled(pilot)
        said = " ".join(wrapped_text(detail).split())
        assert said.startswith(
            ". replaced by a placeholder: already cleared, inferred from a drop of the recorded size"
        )
        timeline.select_location(Location(CLEAR))
        await settled(pilot)
        assert wrapped_text(detail).startswith("context cleared (/clear)")


def test_where_the_results_are_is_told_for_one_message_and_for_several() -> None:
    facts, (drop, *_) = eventful().facts, eventful().drops
    where = [
        [*format_event_details(facts, ContextEvent(DROP, replace(drop, cleared_blocks=drop.cleared_blocks[:count])))]
        for count in (0, 1, 11)
    ]
    assert [each[1:] for each in where] == [
        [],
        ["cleared results (inferred): in message 2, marked with a dot"],
        ["cleared results (inferred): in messages 2 to 14, marked with a dot"],
    ]


def test_words_of_the_file_are_only_text() -> None:
    (label, *_) = format_event_labels(session().facts, ContextEvent(4, Compaction(4, "full", "[/red]\x1b[31m")))
    assert label == "full compaction by the runtime ([/red])"


def test_a_microcompaction_whose_fall_was_not_recorded_has_no_size() -> None:
    made = session()
    made.facts.add_compaction(Compaction(10, "micro", "auto", 50_000, cleared_blocks=frozenset({3})))
    (rule,) = find_context_events(made)
    assert format_event_labels(made.facts, rule)[0] == "1 result cleared by the runtime (auto)"
