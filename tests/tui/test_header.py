"""The header: recorded line, gauge, and the three lines at any width."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import on

from context_tui.compaction.next_request import size_now
from context_tui.session.facts import MessageFlag, Problem
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.tokens.breakdown import breakdown
from context_tui.tokens.fit import fit_at
from context_tui.tokens.recorded import not_in_file
from context_tui.tui.widgets.draw import cells
from context_tui.tui.widgets.gauge import LOOKS, Level, gauge, numbers, segments
from context_tui.tui.widgets.header import Counts, HeaderBar, file_text, within_text
from context_tui.tui.widgets.recorded_line import (
    EPOCH,
    FALL,
    Column,
    Gap,
    Recorded,
    columns,
    first_at,
    line,
    recorded_of,
    request_at,
)
from tests.tui.tuning import Alone, sample

SESSION = sample(40, 8)
BARE = sample(6, 4, usage=False, compact=False)
BARE.facts.model = "a-local-model"


class Header(Alone):
    """The header of a session as of a message."""

    def __init__(
        self, session: Session = SESSION, at: int | None = None, theme: str = "textual-dark", ascii: bool = False
    ) -> None:
        self.header = HeaderBar(ascii=ascii)
        super().__init__(self.header, theme)
        self.session, self.at = session, at
        self.jumps: list[int] = []

    def on_mount(self) -> None:
        """Show it."""
        super().on_mount()
        context = self.session.context_at(self.at)
        parts = breakdown(context, not_in_file(context)).by_category
        self.header.show(self.session, context, parts, fit=fit_at(self.session, context))

    @on(HeaderBar.Jumped)
    def jumped(self, event: HeaderBar.Jumped) -> None:
        """Keep where it goes."""
        self.jumps.append(event.message)


@st.composite
def recordings(draw: st.DrawFn) -> Recorded:
    """Requests with some epochs."""
    tokens = draw(st.lists(st.integers(0, 200_000), max_size=300))
    rows = draw(st.sets(st.integers(1, max(len(tokens) - 1, 1)), max_size=6)) if len(tokens) > 1 else set()
    gaps = [Gap(row, 2 * row, draw(st.sampled_from((EPOCH, FALL)))) for row in sorted(rows)]
    return Recorded(tokens, range(0, 2 * len(tokens), 2), gaps)


@given(recordings(), st.integers(1, 120))
def test_columns_cover_every_request_once_and_keep_the_peak(recorded: Recorded, width: int) -> None:
    found = columns(recorded, width)
    drawn = [column for column in found if isinstance(column, Column)]
    assert len(found) <= width
    assert [row for column in drawn for row in range(column.first, column.end)] == list(range(len(recorded.tokens)))
    assert max((column.tokens for column in drawn), default=0) == max(recorded.tokens, default=0)


@given(recordings(), st.integers(2, 120), st.integers(0, 600))
def test_the_line_fits_and_marks_the_point(recorded: Recorded, width: int, at: int) -> None:
    drawn = "".join(text for text, _ in line(recorded, width, 200_000, at))
    assert len(drawn) <= width
    assert drawn.count("◆") == (1 if any(message >= at for message in recorded.messages) else 0)
    for cell in range(width):
        message = request_at(recorded, width, at, cell)
        assert (message is None) == (cell >= len(drawn) or drawn[cell] == "◆")


def test_dips_survive_downsampling() -> None:
    recorded = Recorded([1_000, 100_000] * 200, range(400), ())
    values = [column.tokens for column in columns(recorded, 20) if isinstance(column, Column)]
    assert min(values) == 1_000 and max(values) == 100_000


def test_ticks_name_the_message_that_first_reached_them() -> None:
    assert first_at(Recorded([10, 70, 50, 90], [1, 3, 5, 7], ()), 100) == {60: 3, 70: 3, 85: 7}
    assert first_at(Recorded([10], [1], ()), 100) == {60: None, 70: None, 85: None}


def test_epochs_come_from_the_recorded_compactions() -> None:
    recorded = recorded_of(SESSION)
    (gap,) = recorded.gaps
    assert gap.message == SESSION.facts.compactions[0].message and gap.glyph == EPOCH
    assert recorded.messages[gap.request - 1] < gap.message <= recorded.messages[gap.request]


PARTS = st.dictionaries(st.sampled_from(sorted(LOOKS)), st.integers(0, 100_000))


@given(PARTS, st.integers(0, 100))
def test_segments_add_up(parts: dict[str, int], width: int) -> None:
    assert sum(size for _, size in segments(parts, width)) == (width if sum(parts.values()) else 0)


@given(PARTS, st.none() | st.integers(0, 300_000), st.integers(1, 120), st.booleans())
def test_the_gauge_has_its_width(parts: dict[str, int], recorded: int | None, width: int, ascii: bool) -> None:
    level = Level(recorded, sum(parts.values()), None, Window(200_000, "file"))
    assert cells(gauge(level, parts, width, ascii)) == width
    assert cells(gauge(level, None, width, ascii)) == width


@pytest.mark.parametrize("detail", range(4))
def test_every_number_says_what_it_is(detail: int) -> None:
    recorded = "".join(text for text, _ in numbers(Level(131_204, 118_900, 14_300, Window(200_000, "file")), detail))
    assert recorded.startswith("131,204 of 200,000 recorded")
    assert ("not in file 14,300" in recorded) == (detail <= 1)
    assert detail == 3 or "est. 118,900" in recorded or "estimated 118,900" in recorded
    unknown = "".join(text for text, _ in numbers(Level(None, 118_900, None, Window(200_000, "file")), detail))
    assert unknown.startswith(("est. 118,900 of 200,000", "estimated 118,900 of 200,000"))
    assert detail == 3 or "rec" in unknown


def test_more_than_the_window_is_said() -> None:
    level = Level(150_000, 100_000, None, Window(128_000, "given"))
    assert "over" in "".join(text for text, _ in numbers(level, 3))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160])
@pytest.mark.parametrize("at", [None, 0, 301])
async def test_three_lines_that_fit(width: int, at: int | None) -> None:
    app = Header(at=at)
    async with app.run_test(size=(width, 4)):
        lines = app.header.render().plain.split("\n")
        assert len(lines) == 3 and all(cells([(each, "")]) <= width - 2 for each in lines)
        if width >= 40:
            assert ("at the end" if at is None else f"before #{at}") in lines[0]
            assert "recorded" in lines[1] and ("recorded" in lines[2] or at == 0)


def test_counts_say_what_is_in_the_context_and_what_the_file_holds_besides() -> None:
    here = Counts(44, 1)
    assert [within_text(here, room) for room in (40, 30, 10, 0)] == [
        "in context: 44 messages, 1 turn",
        "in context: 44 messages",
        "44 messages",
        "44 messages",
    ]
    assert file_text(here, here, 160) == ""
    assert file_text(here, Counts(36_500, 2_075), 160) == "(file: 36,500 messages, 2,075 turns)"
    assert file_text(here, Counts(36_500, 2_075), 100) == "(file: 2,075 turns)"
    assert file_text(here, Counts(90, 1), 100) == "(file: 90 messages)"


@pytest.mark.parametrize(("width", "more"), [(160, True), (80, False)])
async def test_the_counts_are_those_of_the_context_at_the_point(width: int, more: bool) -> None:
    for at in (None, 30):
        context = SESSION.context_at(at)
        turns = sum(1 for message in context.order if SESSION.facts.flags[message] & MessageFlag.TURN_START)
        assert len(context) < len(SESSION) and turns < SESSION.turns
        app = Header(at=at)
        async with app.run_test(size=(width, 4)):
            top = app.header.render().plain.split("\n")[0]
            assert (f"in context: {len(context)} messages, {turns} turn" in top) == more
            assert f"{len(context)} messages" in top
            assert (f"(file: {len(SESSION)} messages, {SESSION.turns} turns)" in top) == more


async def test_where_nothing_is_recorded_the_size_is_that_of_the_next_request() -> None:
    at = SESSION.facts.compactions[0].message + 1
    size = size_now(SESSION.context_at(at))
    app = Header(at=at)
    async with app.run_test(size=(160, 4)):
        assert size.recorded is None and (not_in_file(SESSION.context_at(at)) or 0) > 5_000
        assert f"estimated {size.tokens:,} of " in app.header.render().plain


async def test_a_guessed_window_is_said() -> None:
    app = Header(BARE)
    async with app.run_test(size=(120, 4)):
        assert "window 200,000 assumed: w sets it" in app.header.render().plain
    app = Header(BARE)
    async with app.run_test(size=(60, 4)):
        assert "window assumed: w" in app.header.render().plain


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
        await pilot.click(app.header, offset=(1, 1))
        await pilot.click(app.header, offset=(20, 1))
        await pilot.click(app.header, offset=(20, 2))
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
        assert app.header.render().plain.isascii()
        assert "RRRR" in app.header.render().plain


def test_snapshot_wide(snap_compare: Any) -> None:
    """File and counts, recorded line with an epoch and ticks, gauge with a named part; numbers say what they are."""
    assert snap_compare(Header(), terminal_size=(160, 3))


def test_snapshot_point_80(snap_compare: Any) -> None:
    """As of a message: a mark on the line, what comes after it muted; light theme."""
    assert snap_compare(Header(at=301, theme="textual-light"), terminal_size=(80, 3))


def test_snapshot_60(snap_compare: Any) -> None:
    """Still all that matters."""
    assert snap_compare(Header(), terminal_size=(60, 3))


def test_snapshot_ascii(snap_compare: Any) -> None:
    """Letters name the parts of the gauge."""
    assert snap_compare(Header(at=301, ascii=True), terminal_size=(120, 3))


def test_snapshot_nothing_recorded(snap_compare: Any) -> None:
    """Without usage: estimates, an assumed window, and words for it."""
    assert snap_compare(Header(BARE), terminal_size=(120, 3))
