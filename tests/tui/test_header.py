"""The header: recorded line, gauge, and the three lines at any width."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import on

from context_tui.session.facts import Compaction, Problem
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag, Spans
from context_tui.session.window import Window
from context_tui.tokens.accounting import BelievedSize
from context_tui.tokens.breakdown import compute_breakdown
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
from context_tui.tui.widgets.gauge import (
    CATEGORY_STYLES,
    FREE_PATTERN,
    REST_PATTERN,
    WindowLevel,
    build_context_parts,
    draw_gauge,
    format_level_variants,
    format_parts_line,
)
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


class Header(Alone):
    """The header of a session as of a message."""

    def __init__(
        self,
        session: Session = SESSION,
        at: int | None = None,
        theme: str = "textual-dark",
        ascii: bool = False,
        height: int = 4,
    ) -> None:
        self.header = HeaderBar()
        super().__init__(self.header, theme, ascii=ascii)
        self.session, self.at, self.height = session, at, height
        self.jumps: list[int] = []

    def on_mount(self) -> None:
        """Show it."""
        super().on_mount()
        self.header.styles.height = self.height
        context = self.session.context_at(self.at)
        parts = compute_breakdown(context, measure_context(context).not_in_file).by_category
        self.header.show(self.session, context, parts)

    @on(HeaderBar.RequestClicked)
    def jumped(self, event: HeaderBar.RequestClicked) -> None:
        """Keep where it goes."""
        self.jumps.append(event.message)


@st.composite
def recordings(draw: st.DrawFn) -> RequestHistory:
    """Requests with some epochs."""
    tokens = draw(st.lists(st.integers(0, 200_000), max_size=300))
    rows = draw(st.sets(st.integers(1, max(len(tokens) - 1, 1)), max_size=6)) if len(tokens) > 1 else set()
    gaps = [HistoryEvent(row, 2 * row, draw(st.sampled_from((NEW_CONTEXT_GLYPH, DROP_GLYPH)))) for row in sorted(rows)]
    return RequestHistory(tokens, range(0, 2 * len(tokens), 2), gaps)


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
SIZES = st.builds(BelievedSize, st.none() | st.integers(0, 300_000), st.integers(0, 300_000))


@given(PARTS, st.integers(0, 900_000))
def test_the_parts_add_up_to_the_size(by_category: dict[str, int], size: int) -> None:
    assert sum(part.tokens for part in build_context_parts(by_category, size)) == size


def test_no_two_parts_of_the_bar_have_the_same_pattern_not_even_in_ascii() -> None:
    patterns = [part.pattern for part in build_context_parts(dict.fromkeys(CATEGORY_STYLES, 1), 1_000)] + [
        FREE_PATTERN,
        REST_PATTERN,
    ]
    assert len(patterns) == len(set(patterns)) == len({each.translate(ASCII_GLYPHS) for each in patterns}) == 12


@given(PARTS, SIZES, st.integers(1, 120), st.sampled_from([8_000, 200_000, 10_000_000]))
def test_the_gauge_has_its_width(by_category: dict[str, int], size: BelievedSize, width: int, window: int) -> None:
    level = WindowLevel(size, Window(window, "file"))
    assert count_cells(draw_gauge(level, build_context_parts(by_category, size.tokens), width)) == width
    assert count_cells(draw_gauge(level, None, width)) == width


def test_the_gauge_is_to_scale_or_says_that_it_is_not() -> None:
    parts = build_context_parts({"tool_result": 30_000, "user": 10_000}, 40_000)
    half = "".join(
        text for text, _ in draw_gauge(WindowLevel(BelievedSize(40_000, 0), Window(80_000, "file")), parts, 40)
    )
    assert half.count("█") == 5 and half[:20].endswith("▒") and half[20:] == "···· 40.0k free ····"
    little = "".join(
        text for text, _ in draw_gauge(WindowLevel(BelievedSize(40_000, 0), Window(1_000_000, "file")), parts, 80)
    )
    assert little.startswith("████ user ████▒") and little.endswith("▒ 960k free, not to scale")
    narrow = "".join(
        text for text, _ in draw_gauge(WindowLevel(BelievedSize(40_000, 0), Window(1_000_000, "file")), parts, 40)
    )
    assert narrow.count("▒") + narrow.count("█") == 2 and "scale" not in narrow


@given(PARTS, st.integers(0, 900_000), st.integers(20, 200))
def test_what_there_is_no_room_to_name_is_told_as_the_rest(by_category: dict[str, int], size: int, width: int) -> None:
    parts = build_context_parts(by_category, size)
    told = "".join(text for text, _ in format_parts_line(parts, 1_000, width))
    for part in parts:
        assert part.label in told or "not in file" in told or "rest " in told


def test_the_parts_are_named_with_their_tokens() -> None:
    parts = build_context_parts({"not_in_file": 5_000, "system": 1_000, "tool_result": 36_000, "user": 400}, 45_000)
    assert sum(part.tokens for part in parts) == 45_000
    said = ["".join(text for text, _ in format_parts_line(parts, 7_100, width)) for width in (130, 80, 40)]
    wide = ("system+tools 6.0k", "user 400", "results 36.0k", "not in file 2.6k", "free 7.1k")
    assert said[0].startswith("estimated parts:") and all(words in said[0] for words in wide)
    assert said[1] == "est. ║system+tools 6.0k █user 400 ▒results 36.0k ?not in file 2.6k ·free 7.1k"
    assert said[2] == "est. ▒results 36.0k …rest 9.0k"
    over = build_context_parts({"system": 1_000, "image": 9_000, "user": 1_000}, 9_000)
    assert [part.tokens for part in over] == [1_000, 800, 7_200], "what is measured too large is scaled to the size"


def words_of(level: WindowLevel) -> list[str]:
    """What is said of a level, in fewer and fewer words."""
    return ["".join(text for text, _ in runs) for runs in format_level_variants(level)]


def test_every_number_says_what_it_is() -> None:
    window = Window(200_000, "file")
    assert words_of(WindowLevel(BelievedSize(131_204, 320), window, 41)) == [
        "Now ~131,524 of 200,000 tokens (66 %): 131,204 recorded at #41 + est. 320 since",
        "Now ~131,524 of 200,000 tokens (66 %): 131,204 recorded + est. 320",
        "Now ~131,524 of 200,000 tokens (66 %)",
        "Now ~131,524 of 200,000 (66 %)",
    ]
    assert words_of(WindowLevel(BelievedSize(131_204, 0), window, 41))[0] == (
        "Now 131,204 of 200,000 tokens (66 %), recorded at #41"
    )
    unknown = words_of(WindowLevel(BelievedSize(None, 118_900), window))
    assert unknown[0] == "Now ~118,900 of 200,000 tokens (59 %), all estimated: no size recorded here"
    assert all("est" in words for words in unknown)


def test_more_than_the_window_is_said() -> None:
    assert all("over" in words for words in words_of(WindowLevel(BelievedSize(150_000, 0), Window(128_000, "given"))))


@pytest.mark.parametrize("height", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160])
@pytest.mark.parametrize("at", [None, 0, 301])
async def test_the_lines_fit_and_go_by_what_matters_least(width: int, height: int, at: int | None) -> None:
    app = Header(at=at, height=height)
    async with app.run_test(size=(width, 6)):
        lines = app.header.render().plain.split("\n")
        assert len(lines) == max(height, 2) and all(count_cells([(each, "")]) <= width - 2 for each in lines)
        if width >= 40:
            assert ("at the end" if at is None else f"before #{at}") in lines[0]
            assert ("Recorded" in lines[1]) == (height == 4)
            assert lines[2 if height == 4 else 1].startswith("Now ~")
            assert height < 3 or lines[-1].startswith("est")


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
        assert "0 messages" not in said and "0 % read" in said and "Now" not in said
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
        assert "50 % read" in said and "so far" not in said and "Now ~" in said


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
        drawn = app.header.render()
        assert app.header.render() is drawn
        await pilot.resize_terminal(100, 6)
        assert app.header.render() is not drawn


async def test_where_nothing_is_recorded_the_size_is_that_of_the_next_request() -> None:
    at = SESSION.facts.compactions[0].message + 1
    size = measure_context(SESSION.context_at(at))
    app = Header(at=at)
    async with app.run_test(size=(160, 4)):
        assert size.recorded is None and (size.not_in_file or 0) > 5_000
        assert f"Now ~{size.tokens:,} of 1,000,000 tokens (1 %), all estimated" in app.header.render().plain


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
    session.facts.problems += [Problem("line 1", "no JSON"), Problem("line 2", "no JSON")]
    for width in (80, 120):
        app = Header(session)
        async with app.run_test(size=(width, 4)):
            assert "2 problems" in app.header.render().plain


async def test_a_click_on_the_line_goes_there() -> None:
    app = Header()
    async with app.run_test(size=(120, 4)) as pilot:
        await pilot.click(app.header, offset=(3, 1))
        await pilot.click(app.header, offset=(25, 1))
        await pilot.click(app.header, offset=(45, 1))
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
    async with app.run_test(size=(width, 4)):
        assert drawn(app).isascii()
        assert ":::" in drawn(app)


def test_snapshot_wide(snap_compare: Any) -> None:
    """File and counts, recorded line with its signs named, gauge, parts; numbers say what they are."""
    assert snap_compare(Header(), terminal_size=(160, 4))


def test_snapshot_point_80(snap_compare: Any) -> None:
    """As of a message: a mark on the line, what comes after it muted; light theme."""
    assert snap_compare(Header(at=301, theme="textual-light"), terminal_size=(80, 4))


def test_snapshot_60(snap_compare: Any) -> None:
    """Still all that matters, in the three lines of a low screen."""
    assert snap_compare(Header(height=3), terminal_size=(60, 3))


def test_snapshot_ascii(snap_compare: Any) -> None:
    """Each part of the gauge has a sign of its own."""
    assert snap_compare(Header(at=301, ascii=True), terminal_size=(120, 4))


def test_snapshot_nothing_recorded(snap_compare: Any) -> None:
    """Without usage: estimates, an assumed window, and words for it."""
    assert snap_compare(Header(BARE), terminal_size=(120, 4))
