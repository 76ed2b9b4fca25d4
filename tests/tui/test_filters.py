"""Filters: how many rows each choice lists, the dialog that offers them; filters beside folds, search and policies."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from textual.app import App
from textual.widgets import Label, OptionList

from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind
from context_tui.tui.inspector.breakdown import BreakdownView
from context_tui.tui.inspector.filter_screen import (
    LINE_WIDTH,
    FilterChoice,
    FilterCounts,
    FilterScreen,
    build_filter_lines,
    draw_filter_line,
    find_possible_verdicts,
)
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads, format_listed_variants
from context_tui.tui.jump_points import find_next_changed
from context_tui.tui.search import Search, SearchReport
from context_tui.tui.timeline.filters import (
    NO_FILTER,
    ROW_KINDS,
    SIZE_STEPS,
    RowFilter,
    build_part_filter,
    count_shown_tokens,
    get_kind_label,
    list_rows,
)
from context_tui.tui.timeline.marks import CHANGED_VERDICTS, VERDICT_GLYPHS, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, Location, TimelineRows
from context_tui.tui.view import AppliedPlan, View
from context_tui.tui.widgets.styled_text import count_cells
from tests.tui.fakes import drawn, footer_fits, until
from tests.tui.inspecting import app, conversation, inspector, session, settled
from tests.tui.tuning import sample

WIDE = (150, 44)
POLICIES = ["defect-microcompact", "defect-compact", "koda-microcompact", "agent-sdk-prune", "manual", "chain"]


def with_errors(made: Session) -> Session:
    """The same with every fourth result an error."""
    results = [row for row, kind in enumerate(made.facts.kind) if kind == Kind.TOOL_RESULT]
    for row in results[::4]:
        made.facts.block_flags[row] |= BlockFlag.ERROR
    return made


def looked_at(view: View) -> tuple[TimelineRows, RowMarker]:
    """The rows and marks of a view."""
    rows = TimelineRows()
    rows.grow(view.session)
    return rows, RowMarker(view.context, view.plan, view.applied.marks if view.applied else None)


def cleared_before() -> View:
    """A view in which the first result was cleared by the recording."""
    made = session()
    row = made.facts.call_result[made.facts.find_call_row("r0-0")]
    made.facts.add_compaction(Compaction(10, "micro", cleared_blocks=frozenset({row})))
    return View(made)


VIEWS = [
    *(View(with_errors(sample(12, 4)), policy=policy) for policy in POLICIES),
    View(with_errors(session(compacted=True)), policy="defect-microcompact", at=30),
    cleared_before(),
    View(session(), applied=AppliedPlan("manual", "done", {5: "cleared", 7: "truncated"})),
]
CHOICES: list[FilterChoice] = [
    *(("category", kind) for kind in ROW_KINDS),
    *(("verdict", word) for word in (*VERDICT_GLYPHS, "kept")),
    *(("min_tokens", size) for size in SIZE_STEPS),
    *(("tool", tool) for tool in ("Read", "Bash", "Nope")),
    ("in_context", True),
    ("path", "src/auth.py"),
]
CONDITIONS = [
    NO_FILTER,
    RowFilter(category="error"),
    RowFilter(tool="Read", min_tokens=500),
    RowFilter(verdict="kept", in_context=True),
    RowFilter(path="src/auth.py"),
]


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.policy} {view.applied or ''}"[:30])
def test_counts_are_what_is_listed(view: View) -> None:
    rows, marker = looked_at(view)
    for now, (kind, value) in product(CONDITIONS, CHOICES):
        wanted = now if getattr(now, kind) == value else now.toggle_condition(kind, value)
        counts = FilterCounts(rows, marker, wanted.path)
        assert counts.advance()
        found = [row for row in list_rows(rows, marker, wanted, False) if rows.block[row] >= WHOLE_MESSAGE]
        assert counts.count_matching(wanted) == len(found), (wanted, view.policy)
        assert counts.counted_rows == rows.listable_count == counts.count_matching(NO_FILTER) or wanted.path


def test_counting_goes_on_where_it_stopped() -> None:
    rows, marker = looked_at(View(sample(200, 4)))
    counts = FilterCounts(rows, marker)
    assert not counts.advance(0) and 0 < counts.counted_rows < rows.listable_count
    while not counts.advance(0):
        pass
    assert counts.counted_rows == rows.listable_count


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.policy} {view.applied or ''}"[:30])
def test_every_verdict_that_occurs_is_offered_and_none_that_cannot(view: View) -> None:
    rows, marker = looked_at(view)
    occur = {
        marker.find_mark(m, b).verdict for m, b in zip(rows.message, rows.block, strict=True) if b >= WHOLE_MESSAGE
    }
    offered = find_possible_verdicts(marker, len(view.session))
    assert occur <= set(offered) <= occur | {"kept", "protected"}
    changed = CHANGED_VERDICTS & set(offered)
    assert changed == CHANGED_VERDICTS & occur, "what no row has is not offered"


def test_errors_are_a_kind_of_their_own_and_results_too() -> None:
    rows, marker = looked_at(View(with_errors(session())))
    counts = FilterCounts(rows, marker)
    counts.advance()
    assert (
        counts.count_matching(RowFilter(category="error")) == 9
        and counts.count_matching(RowFilter(category="tool_result")) == 36
    )
    assert RowFilter(category="error").describe() == "errors"


def test_what_was_cleared_before_counts_as_it_stands() -> None:
    view = cleared_before()
    rows, marker = looked_at(view)
    gone = next(r for r in range(len(rows)) if marker.find_mark(rows.message[r], rows.block[r]).verdict == "gone")
    assert count_shown_tokens(rows, marker, gone) < 20 < 400 < rows.tokens[gone]
    assert gone not in list_rows(rows, marker, RowFilter(min_tokens=400), False)
    by_size = list_rows(rows, marker, NO_FILTER, True)
    sizes = [count_shown_tokens(rows, marker, row) for row in by_size]
    assert sizes == sorted(sizes, reverse=True)


def test_a_part_of_the_context_is_listed_and_nothing_else() -> None:
    now = RowFilter(verdict="cleared", min_tokens=500)
    only = now.toggle_part("tool", "Bash")
    assert only == build_part_filter("tool", "Bash") == RowFilter(tool="Bash", in_context=True)
    assert only.describe() == "Bash, in context" and only.toggle_part("tool", "Bash") == NO_FILTER


def test_choices_fit_their_lines_and_say_what_they_list() -> None:
    facts = sample(3, 3).facts
    now = RowFilter(path="/a/very/long/path" * 5 + "/end.py")
    lines = list(build_filter_lines(facts, now, ["cleared", "protected"], "defect-microcompact"))
    for each, chosen, count in product(lines, (True, False), (None, 0, 36_123)):
        assert count_cells(draw_filter_line(each, chosen, count)) == LINE_WIDTH
    texts = ["".join(text for text, _ in draw_filter_line(each, False, 7)) for each in lines]
    assert any("- cleared" in text for text in texts) and any("= protected" in text for text in texts)
    assert any("…" in text and "/end.py" in text for text in texts)
    assert "errors" in {each.text for each in lines} and "truncated" not in {each.text for each in lines}
    assert len([each for each in lines if each.choice and each.choice[0] == "tool"]) == len(set(facts.tools))


def test_the_frame_says_how_many_of_how_many_at_any_width() -> None:
    from tests.tui.test_timeline import paint_heads

    for width, focused in product((57, 74, 78, 90, 120), (True, False)):
        told = format_listed_variants(23, 1_337, focused)
        strip = paint_heads(width, get_kind_label("cleared"), told)
        assert strip.cell_length == width and "cleared: 23 of 1,337" in strip.text and "#" in strip.text
        assert ("esc" in strip.text) == focused
        long = paint_heads(width, "x" * 200, told)
        assert "xx…: 23 of 1,337" in long.text and ("esc" in long.text) == focused


def test_matches_and_changes_are_gone_through_among_what_is_listed() -> None:
    view = View(session())
    rows, marker = looked_at(view)
    search = Search()
    search.start(view.session, "x")
    search.update(SearchReport(1, [Location(0), Location(1), Location(8), Location(9)], 1.0, True))
    among = frozenset(list_rows(rows, marker, RowFilter(category="user"), False))
    assert search.find_next_match(rows, Location(0), 1, among) == Location(8)
    assert search.find_next_match(rows, Location(8), 1, among) == Location(0)
    assert search.format_count(Location(8), search.list_matches(rows, among)) == "2 of 2 rows, 2 not shown"
    assert find_next_changed(rows, marker, Location(0), 1, among) is None
    assert find_next_changed(rows, marker, Location(0), 1) is not None


# The dialog


def in_sight(screen: FilterScreen, selector: str) -> bool:
    """Whether all of a widget is on the screen."""
    region = screen.query_one(selector).region
    return region.height > 0 and screen.region.contains_region(region)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36), (160, 50)])
async def test_nothing_of_the_dialog_is_cut_off(size: tuple[int, int]) -> None:
    running = app(with_errors(session()))
    async with running.run_test(size=size) as pilot:
        await settled(pilot)
        await pilot.press("f")
        await pilot.pause(0.1)
        screen = running.screen
        assert isinstance(screen, FilterScreen)
        for part in ("#filters", "#filters-title", "#filters-list", "#filters-more", "#filters-keys"):
            assert in_sight(screen, part), part
        text, more = drawn(running), screen.query_one("#filters-more", Label)
        assert "all 66 rows shown" in text and "errors" in text and "enter adds or takes away   esc closes" in text
        listing = screen.query_one(OptionList)
        hidden = listing.virtual_size.height > listing.scrollable_content_region.height
        assert hidden == (size[1] <= 24) and ("↓" in str(more.content)) == hidden
        await pilot.press("end")
        await pilot.pause(0.1)
        text = drawn(running)
        assert "Bash" in text and ("↑" in str(more.content)) == hidden and "↓" not in str(more.content)


@pytest.mark.slow
async def test_counts_of_a_long_session_come_after_the_dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_tui.tui.inspector.filter_screen.INITIAL_COUNT_S", 0.0)
    running = app(sample(300, 4))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("f")
        screen = running.screen
        assert isinstance(screen, FilterScreen)
        count = inspector(running).controller.rows.listable_count
        await until(pilot, lambda: f"all {count:,} rows shown" in drawn(running))
        assert f"{count:>9,}" in drawn(running)
        await pilot.press("j", "enter")
        await settled(pilot)
        assert inspector(running).view.filter == RowFilter(category="user")


@pytest.mark.slow
async def test_a_choice_of_no_row_is_told_of_and_not_taken() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("f", *"jjjjjj", "enter")
        await pilot.pause()
        assert isinstance(running.screen, FilterScreen) and "no row is that" in drawn(running)
        await pilot.press("escape")
        assert not inspector(running).view.filter


# Beside folds, search and policies


def shown(screen: InspectorScreen) -> tuple[str, tuple[int, int] | None]:
    """What the frame says."""
    heads = screen.query_one(ColumnHeads)
    return heads.title, heads.listed_counts


def told(running: App[Any]) -> str:
    """The notification that is on screen."""
    return next(iter(running._notifications)).message


async def filtered(pilot: Any, screen: InspectorScreen, **conditions: Any) -> None:
    """Set conditions, and wait."""
    for kind, value in conditions.items():
        screen.run_command(screen.controller.toggle_filter, kind, value)
    await settled(pilot)


@pytest.mark.slow
async def test_rows_do_not_vanish_in_silence_with_another_policy() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.go_to(Location(16))
        await filtered(pilot, screen, verdict="cleared")
        assert shown(screen) == ("cleared", (6, 66))
        place = screen.location
        screen.action_policy("defect-compact")
        await settled(pilot)
        assert shown(screen) == ("cleared", (0, 66))
        text = drawn(running)
        assert "No rows match: cleared by defect-compact; f changes it, esc shows all" in text
        assert "cleared: 0 of 66 rows, esc shows all" in text
        assert screen.location == place, "the place is not lost"
        screen.action_policy("defect-microcompact")
        await settled(pilot)
        assert shown(screen) == ("cleared", (6, 66)) and screen.location == place
        await pilot.press("escape")
        assert screen.query_one(Timeline).listed_count == len(screen.controller.rows) and screen.location == place


async def test_a_filter_of_no_row_can_be_taken_off_where_it_was() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.go_to(Location(16))
        await filtered(pilot, screen, verdict="truncated")
        assert screen.query_one(Timeline).listed_count == 0 and screen.location == Location(16)
        await pilot.press("down", "escape")
        await settled(pilot)
        assert screen.location == Location(16)


async def test_folds_come_back_when_a_filter_is_taken_off() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.action_run("toggle_all_folds")
        await filtered(pilot, screen, tool="Bash")
        assert shown(screen) == ("Bash", (36, 66)), "rows of folded turns too"
        await pilot.click(ColumnHeads, offset=(40, 0))
        await settled(pilot)
        assert shown(screen) == ("timeline", None) and screen.query_one(Timeline).listed_count == 6


@pytest.mark.slow
async def test_a_search_goes_through_what_is_listed_and_says_what_is_not() -> None:
    running = app(from_messages(conversation(6)))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.go_to(Location(0))
        await filtered(pilot, screen, category="assistant")
        await pilot.press("slash", *"done")
        await until(pilot, lambda: screen.controller.search.is_finished)
        await pilot.press("enter", "n")
        assert screen.location == Location(15)
        await pilot.press("slash", "ctrl+u", *"rotate")
        await until(
            pilot, lambda: screen.controller.search.is_finished and len(screen.controller.search.locations) == 6
        )
        await pilot.press("enter")
        await pilot.pause()
        assert screen.view.filter and screen.location == Location(15)
        assert told(running) == "No matches in the listed rows; 6 matching rows elsewhere, esc shows all"


async def test_going_to_a_row_that_is_not_listed_shows_all_and_says_so() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await filtered(pilot, screen, category="assistant")
        screen.go_to(Location(8))
        await settled(pilot)
        assert screen.location == Location(8) and not screen.view.filter
        assert told(running) == "All rows are shown again: #8 was not among those listed"


@pytest.mark.slow
async def test_a_copy_is_not_filtered_by_what_the_plan_would_have_done() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await filtered(pilot, screen, verdict="cleared")
        await pilot.press("a")
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: screen.view.applied)
        await settled(pilot)
        assert not screen.view.filter
        await pilot.press("f")
        await pilot.pause()
        assert "by defect-microcompact, applied" in drawn(running)
        await pilot.press("escape", "u")
        await settled(pilot)
        assert shown(screen) == ("cleared", (6, 66))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_a_part_of_the_breakdown_is_shown_where_it_can_be_seen(size: tuple[int, int]) -> None:
    running = app()
    async with running.run_test(size=size) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("b")
        await pilot.pause()
        assert footer_fits(running)
        await pilot.press("enter")
        await settled(pilot)
        assert screen.view.filter == build_part_filter("category", "tool_result")
        assert screen.query_one(Timeline).region.width > 0 and "results, in context: 36 of 66" in drawn(running)
        assert screen.query_one(BreakdownView).has_focus == (size == WIDE)
        if size == WIDE:
            assert "esc" not in drawn(running), "which would close the breakdown first"
            await pilot.press("tab", "shift+tab", "enter")
        else:
            assert "esc shows all" in drawn(running)
            await pilot.press("escape")
        await settled(pilot)
        assert not screen.view.filter
