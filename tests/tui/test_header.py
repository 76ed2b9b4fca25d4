"""The header: recorded line, gauge, and the three lines at any width."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_tui.lab.fullness import ContextPart, Fullness, compute_fullness, split_context
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.problems import Problem
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag, Spans
from context_tui.text.numbers import format_tokens
from context_tui.tokens.breakdown import Breakdown, measure_breakdown
from context_tui.tokens.context_size import measure_context
from context_tui.tui.inspector.header import HeaderBar
from context_tui.tui.inspector.request_history import (
    DROP_GLYPH,
    NEW_CONTEXT_GLYPH,
    HistoryColumn,
    HistoryEvent,
    RequestHistory,
    build_history_columns,
    build_request_history,
    draw_history,
    find_message_at_cell,
    find_window_crossings,
    format_legend_variants,
    format_window_crossings,
)
from context_tui.tui.terminal.cells import ASCII_GLYPHS
from context_tui.tui.timeline.turns import ContextCounts, count_context, find_turn_starts, format_context_counts
from context_tui.tui.widgets.gauge import CATEGORY_STYLES, FREE_PATTERN, draw_gauge
from context_tui.tui.widgets.styled_text import count_cells
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app as inspector_of
from tests.tui.inspecting import opened, session
from tests.tui.test_inspector_loading import INFO, Slow, slow
from tests.tui.tuning import Alone, sample

SESSION = sample(40, 8)
__all__ = ["slow"]
BARE = sample(6, 4, usage=False, compact=False)
BARE.facts.model = "a-local-model"


def answer(session: Session = SESSION, at: int | None = None) -> Fullness:
    """Why the context is full."""
    context = session.context_at(at)
    return compute_fullness(session, context, measure_breakdown(context))


class Header(Alone):
    """The header of a session as of a message."""

    def __init__(
        self,
        session: Session = SESSION,
        at: int | None = None,
        theme: str = "textual-dark",
        ascii: bool = False,
        height: int = 5,
    ) -> None:
        self.jumps: list[int] = []
        self.header = HeaderBar(self.jumps.append)
        super().__init__(self.header, theme, ascii=ascii)
        self.session, self.at, self.height = session, at, height

    def on_mount(self) -> None:
        """Show it."""
        super().on_mount()
        self.header.styles.height = self.height
        context = self.session.context_at(self.at)
        self.header.show(self.session, context, answer(self.session, self.at))


@st.composite
def recordings(draw: st.DrawFn) -> RequestHistory:
    """Requests with some epochs."""
    tokens = draw(st.lists(st.integers(0, 200_000), max_size=300))
    rows = draw(st.sets(st.integers(1, max(len(tokens) - 1, 1)), max_size=6)) if len(tokens) > 1 else set()
    gaps = [HistoryEvent(row, 2 * row, draw(st.sampled_from((NEW_CONTEXT_GLYPH, DROP_GLYPH)))) for row in sorted(rows)]
    return RequestHistory(tokens, range(0, 2 * len(tokens), 2), gaps)


@example(RequestHistory([0] * 18, range(0, 36, 2), [HistoryEvent(row, 2 * row) for row in (1, 2, 3, 17)]), 16)
@given(recordings(), st.integers(1, 120))
def test_columns_cover_every_request_once_and_keep_the_peak(recorded: RequestHistory, width: int) -> None:
    found = build_history_columns(recorded, width)
    drawn = [column for column in found if isinstance(column, HistoryColumn)]
    assert len(found) <= width
    assert [row for column in drawn for row in range(column.first, column.end)] == list(range(len(recorded.tokens)))
    assert max((column.tokens for column in drawn), default=0) == max(recorded.tokens, default=0)


@given(recordings(), st.integers(2, 120), st.integers(0, 600))
def test_the_line_fits_and_marks_the_point(recorded: RequestHistory, width: int, at: int) -> None:
    drawn = "".join(text for text, _ in draw_history(recorded, width, 200_000, at))
    assert len(drawn) <= width
    assert drawn.count("◆") == (1 if any(message >= at for message in recorded.messages) else 0)
    for cell in range(width):
        message = find_message_at_cell(recorded, width, at, cell)
        assert (message is None) == (cell >= len(drawn) or drawn[cell] == "◆")


def test_dips_survive_downsampling() -> None:
    recorded = RequestHistory([1_000, 100_000] * 200, range(400), ())
    values = [column.tokens for column in build_history_columns(recorded, 20) if isinstance(column, HistoryColumn)]
    assert min(values) == 1_000 and max(values) == 100_000


def test_thresholds_are_told_by_where_they_were_crossed() -> None:
    grown = RequestHistory([10, 70, 50, 90], [1, 3, 5, 7], ())
    assert find_window_crossings(grown, 100, 9) == {60: (7, True), 70: (7, True), 85: (7, True)}
    assert format_window_crossings(grown, 100, 9, False) == "over 60 % since #7"
    assert find_window_crossings(grown, 100, 6) == {60: (3, False), 70: (3, False)}
    assert format_window_crossings(grown, 100, 6, True) == "first over 60 % of the window at #3, first over 70 % at #3"
    assert (
        find_window_crossings(grown, 100, 2) == {}
        and format_window_crossings(grown, 100, 2, True) == "not yet over 60 %"
    )
    assert format_window_crossings(grown, 200, 9, True) == "never over 60 %"


def test_what_the_signs_of_the_line_are_is_said_where_they_occur() -> None:
    first, *_ = format_legend_variants(RequestHistory([10, 70], [1, 3], [HistoryEvent(1, 2, DROP_GLYPH)]), 100, 3)
    said = "".join(text for text, _ in first[1])
    assert said.endswith("▾ drop   ◆ here") and "new context" not in said


def test_epochs_come_from_the_recorded_compactions() -> None:
    recorded = build_request_history(SESSION)
    (gap,) = recorded.events
    assert gap.message == SESSION.facts.compactions[0].message and gap.glyph == NEW_CONTEXT_GLYPH
    assert recorded.messages[gap.request - 1] < gap.message <= recorded.messages[gap.request]


PARTS = st.dictionaries(st.sampled_from(sorted(CATEGORY_STYLES)), st.integers(0, 100_000))


def parts_of(by_category: dict[str, int], size: int) -> list[ContextPart]:
    """The parts of a context."""
    return split_context(Breakdown(by_category, [], [], None, []), size)


def test_no_two_parts_of_the_bar_have_the_same_pattern_not_even_in_ascii() -> None:
    parts = parts_of(dict.fromkeys(CATEGORY_STYLES, 1), 1_000)
    patterns = [CATEGORY_STYLES[part.category].pattern for part in parts] + [FREE_PATTERN]
    assert len(patterns) == len(set(patterns)) == len({each.translate(ASCII_GLYPHS) for each in patterns}) == 11


@given(PARTS, st.integers(0, 600_000), st.integers(1, 120), st.sampled_from([8_000, 200_000, 10_000_000]))
def test_the_gauge_has_its_width(by_category: dict[str, int], size: int, width: int, window: int) -> None:
    assert count_cells(draw_gauge(size, window, parts_of(by_category, size), width)) == width
    assert count_cells(draw_gauge(size, window, (), width)) == width


def test_the_gauge_is_to_scale_or_says_that_it_is_not() -> None:
    parts = parts_of({"tool_result": 30_000, "user": 10_000}, 40_000)
    half = "".join(text for text, _ in draw_gauge(40_000, 80_000, parts, 40))
    assert half.count("█") == 5 and half[:20].endswith("█") and half[20:] == "···· 40.0k free ····"
    little = "".join(text for text, _ in draw_gauge(40_000, 1_000_000, parts, 80))
    assert little.startswith("used ▒▒▒") and " results " in little and little.endswith("█ 960k free")
    narrow = "".join(text for text, _ in draw_gauge(40_000, 1_000_000, parts, 28))
    assert narrow.count("▒") + narrow.count("█") == 1 and "used" not in narrow


def answer_at(width: int, at: int | None = None) -> list[str]:
    """The lines of the answer at a width."""
    header = Header(at=at)
    header.header.show(SESSION, SESSION.context_at(at), answer(at=at))
    lines = ["".join(text for text, _ in line) for line in header.header._build_lines(width, 6)]
    return [line.replace("\u00a0", " ") for line in lines[1:4]]


def test_the_answer_names_its_parts_with_their_signs() -> None:
    wide, narrow = " ".join(answer_at(158)), " ".join(answer_at(78))
    assert wide.startswith("Full to ") and "▒ tool results" in wide and "║ system and tools" in wide
    assert narrow.startswith("Full to ") and "▒" in narrow
    for full, brief in zip(answer().format_forecast(), answer().format_forecast(brief=True), strict=True):
        assert full in wide and brief in narrow
    before = Header()
    before.header.show(SESSION, SESSION.context_at())
    lines = ["".join(text for text, _ in line) for line in before.header._build_lines(78, 5)]
    assert lines[1].startswith("Full to") and "results" not in lines[1], "the level is known before the parts are"


@pytest.mark.slow
@pytest.mark.parametrize("height", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160])
@pytest.mark.parametrize("at", [None, 0, 301])
async def test_the_lines_fit_and_go_by_what_matters_least(width: int, height: int, at: int | None) -> None:
    app = Header(at=at, height=height)
    async with app.run_test(size=(width, 6)):
        lines = app.header.render().plain.split("\n")
        assert len(lines) <= height and all(count_cells([(each, "")]) <= width - 2 for each in lines)
        if width >= 40:
            assert ("at the end" if at is None else f"before #{at}") in lines[0]
            assert height < 2 or lines[1].startswith("Full to")
            assert "Recorded" not in "".join(lines[:-1])
            assert height < 3 or "free" in lines[-1 - ("Recorded" in lines[-1])] or height == 3


def test_counts_say_what_is_in_the_context_of_what_the_file_holds() -> None:
    here = ContextCounts(44, 1)
    assert [format_context_counts(here, 44, 1, room) for room in (40, 30, 10, 0)] == [
        "in context: 44 messages, 1 turn",
        "in context: 44 messages",
        "44 messages",
        "44 messages",
    ]
    assert format_context_counts(here, 36_500, 2_075, 80) == "in context: 44 of 36,500 messages, 1 of 2,075 turns"
    some = ContextCounts(44, 1, (7,))
    assert format_context_counts(some, 90, 9, 80) == "in context: 44 of 90 messages, 1 of 9 turns + part of turn 7"
    end = ContextCounts(4, 0, (20,))
    assert format_context_counts(end, 90, 20, 80) == "in context: 4 of 90 messages, end of turn 20 only"
    assert format_context_counts(some, 90, 9, 50) == "in context: 44 of 90 messages, 1 of 9 turns"
    assert format_context_counts(ContextCounts(44, 1, (2, 7)), 90, 9, 80).endswith(" + part of 2 more")


def test_a_turn_of_which_a_compaction_left_the_end_is_told() -> None:
    made = session(6, 3)
    made.facts.add_compaction(Compaction(19, "full", "auto", 120_000))
    starts = find_turn_starts(made)
    assert starts == list(range(0, 48, 8))
    assert count_context(made.context_at(None), starts) == ContextCounts(29, 3, (3,))
    assert count_context(made.context_at(19), starts) == ContextCounts(19, 3)
    tail = Compaction(32, "full", "auto", 120_000, Spans(range(4, 6), range(12, 14), range(24, 32)))
    made = session(6, 3)
    made.facts.add_compaction(tail)
    assert count_context(made.context_at(None), starts)[1:] == (3, (1, 2))


@pytest.mark.parametrize(("width", "more"), [(160, True), (80, False)])
async def test_the_counts_are_those_of_the_context_at_the_point(width: int, more: bool) -> None:
    for at in (None, 30):
        context = SESSION.context_at(at)
        turns = sum(1 for message in context.order if SESSION.facts.flags[message] & MessageFlag.TURN_START)
        assert len(context) < len(SESSION) and turns < SESSION.turns
        app = Header(at=at)
        async with app.run_test(size=(width, 6)):
            top = app.header.render().plain.split("\n")[0]
            within = f"in context: {len(context)} of {len(SESSION)} messages, {turns} of {SESSION.turns} turns"
            assert (within in top) == more and f"{len(context)} " in top


async def test_while_it_is_read_nothing_is_said_that_is_not_known() -> None:
    empty = from_messages([])
    app = Header(empty)
    async with app.run_test(size=(120, 6)) as pilot:
        app.header.show(empty, empty.context_at(None), progress=0.0)
        said = app.header.render().plain
        assert "0 messages" not in said and "0 % read" in said and "Full" not in said
        app.header.show_progress(0.36, 13_271)
        await pilot.pause()
        assert "13,271 messages so far" in app.header.render().plain
        app.header.show(empty, empty.context_at(None))
        assert "0 messages" in app.header.render().plain


async def test_what_is_known_of_a_session_stays_while_it_is_read_on() -> None:
    app = Header()
    async with app.run_test(size=(120, 6)):
        app.header.show_progress(0.5, 13_271)
        said = app.header.render().plain
        assert "50 % read" in said and "so far" not in said and "Full to" in said


async def test_a_followed_session_says_what_fills_it_while_the_next_answer_is_computed() -> None:
    app, other = Header(at=60), from_messages([])
    async with app.run_test(size=(120, 6)):
        end = SESSION.context_at(None)
        app.header.show(SESSION, end, following=True)
        assert "results" in app.header.render().plain
        app.header.show(SESSION, SESSION.context_at(30), answer(at=30), following=True)
        measured = app.header.render().plain
        app.header.show(SESSION, end, following=True)
        assert app.header.render().plain == measured, "level, counts and parts are of one moment"
        app.header.show(SESSION, SESSION.context_at(20), following=True)
        assert "results" not in app.header.render().plain  # an earlier point is another question
        app.header.show(SESSION, end, answer(), following=True)
        app.header.show(other, other.context_at(None), following=True)
        assert "results" not in app.header.render().plain


async def test_the_inspector_counts_what_has_been_read(slow: Slow) -> None:
    running = inspector_of(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        header = screen.query_one(HeaderBar)
        await until(pilot, lambda: screen.controller.is_reading)
        assert "messages" not in header.render().plain
        slow.gate.release()
        await until(pilot, lambda: "5 messages so far" in header.render().plain)
        slow.free = True
        slow.gate.release()
        await until(pilot, lambda: "in context: 160 messages, 20 turns" in header.render().plain)


async def test_what_is_drawn_is_made_once() -> None:
    app = Header()
    async with app.run_test(size=(120, 6)) as pilot:
        drawn = app.header._render()
        assert app.header._render() is drawn
        await pilot.resize_terminal(100, 6)
        assert app.header._render() is not drawn


async def test_where_nothing_is_recorded_the_size_is_that_of_the_next_request() -> None:
    at = SESSION.facts.compactions[0].message + 1
    size = measure_context(SESSION.context_at(at))
    app = Header(at=at)
    async with app.run_test(size=(160, 4)):
        assert size.recorded is None and (size.not_in_file or 0) > 5_000
        assert f"Full to 1\u00a0% (~{format_tokens(size.tokens)} of 1.00M, estimated)" in app.header.render().plain


async def test_a_guessed_window_is_said() -> None:
    app = Header(BARE)
    async with app.run_test(size=(120, 4)):
        assert "window 200,000 assumed: w sets it" in app.header.render().plain
    for width, words in ((80, "window assumed: w sets it"), (60, "window assumed: w")):
        app = Header(BARE)
        async with app.run_test(size=(width, 4)):
            assert words in app.header.render().plain


async def test_problems_are_counted() -> None:
    session = sample(2, 1)
    session.facts.problems.extend([Problem("line 1", "no JSON"), Problem("line 2", "no JSON")])
    for width in (80, 120):
        app = Header(session)
        async with app.run_test(size=(width, 4)):
            assert "2 problems" in app.header.render().plain


async def test_a_click_on_the_line_goes_there() -> None:
    app = Header()
    async with app.run_test(size=(120, 5)) as pilot:
        await pilot.click(app.header, offset=(3, 4))
        await pilot.click(app.header, offset=(25, 4))
        await pilot.click(app.header, offset=(45, 4))
        await pilot.click(app.header, offset=(45, 2))
        assert len(app.jumps) == 2 and app.jumps[0] < app.jumps[1]


async def test_names_from_the_file_are_only_text() -> None:
    session = sample(2, 1)
    session.facts.model = "[/red]\x1b[31m‮model"
    app = Header(session)
    async with app.run_test(size=(120, 4)):
        assert "[/red]·model" in app.header.render().plain


@pytest.mark.parametrize("width", [60, 100, 160])
async def test_ascii_is_ascii(width: int) -> None:
    app = Header(at=301, ascii=True)
    async with app.run_test(size=(width, 5)):
        assert drawn(app).isascii()
        assert ":::" in drawn(app)


def test_snapshot_wide(snap_compare: Any) -> None:
    """File and counts, the answer, the gauge, the recorded line with its signs named."""
    assert snap_compare(Header(), terminal_size=(160, 5))


def test_snapshot_point_80(snap_compare: Any) -> None:
    """As of a message: a mark on the line, what comes after it muted; light theme."""
    assert snap_compare(Header(at=301, theme="textual-light"), terminal_size=(80, 5))


def test_snapshot_60(snap_compare: Any) -> None:
    """Still all that matters, in the three lines of a low screen."""
    assert snap_compare(Header(height=3), terminal_size=(60, 3))


def test_snapshot_ascii(snap_compare: Any) -> None:
    """Each part of the gauge has a sign of its own."""
    assert snap_compare(Header(at=301, ascii=True), terminal_size=(120, 5))


def test_snapshot_nothing_recorded(snap_compare: Any) -> None:
    """Without usage: estimates, an assumed window, and words for it."""
    assert snap_compare(Header(BARE), terminal_size=(120, 5))
