"""The screen of recorded compactions: both sides in one list, what was lost, and the ways to the inspector and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from context_tui.compaction.recorded_compactions import count_tokens_by_category, find_recorded_compactions
from context_tui.lab.regret.cases import find_reused_blocks
from context_tui.lab.regret.index import build_use_index
from context_tui.session.facts import Compaction
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.compactions.comparison import (
    CompactionComparison,
    format_categories,
    format_header,
    format_rows,
    format_summary,
)
from context_tui.tui.compactions.screen import CompactionsScreen
from context_tui.tui.rendering.formatting import MessageReader
from context_tui.tui.widgets.styled_text import count_cells
from tests.formats.recordings import Recording, call, result, text, usage
from tests.test_instructions import build_recording
from tests.test_recorded_compactions import RARE, compacted
from tests.tui.fakes import drawn
from tests.tui.inspecting import inspector, settled
from tests.tui.inspecting import session as conversation


def sides(session: Session, number: int) -> CompactionComparison:
    found = find_recorded_compactions(session)
    made = CompactionComparison(found[number], number, len(found))
    made.reused_blocks = find_reused_blocks(found[number], build_use_index(session))
    return made


def told(lines: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_both_sides_are_one_list(tmp_path: Path) -> None:
    session = compacted().open(tmp_path)
    micro, full = sides(session, 0), sides(session, 1)
    assert "".join(row.sign for row in micro.rows) == "==-=="
    assert "".join(row.sign for row in full.rows) == "SSSSS==▸"
    assert [(row.before, row.after) for row in micro.rows][2] == (410, 8)
    assert full.message == 7 and micro.message == 2  # the summary; the first message with cleared content
    assert told(format_rows(full, MessageReader(session).format_preview, 90, 40))[4].startswith(
        "S      4 result  Bash make"
    )
    assert "reference #8" in told(format_rows(full, MessageReader(session).format_preview, 90, 40))[4]
    assert (
        told([format_header(full, 90)])[0].endswith("2 of 2")
        and "full compaction (auto)" in told([format_header(full, 90)])[0]
    )
    assert "2 of these blocks used later" in " ".join(told(format_summary(full, 60)))
    assert any(line.startswith("tool result") for line in told(format_categories(full, 56)))


def test_where_no_size_is_recorded_both_are_estimated(tmp_path: Path) -> None:
    made = Recording()
    made.user("Fix it.")
    made.assistant(call("t1", "Read", file_path="/p/a.py"), use={})
    made.results(result("t1", "x = 1\n" * 200))
    made.assistant(text("Made."), use={})
    made.microcompact("t1")
    made.user("And now?")
    found = sides(made.open(tmp_path), 0)
    assert found.compaction.believed_tokens_before == sum(
        count_tokens_by_category(found.compaction.context_before).values()
    )
    before, after = (
        found.compaction.believed_tokens_before,
        sum(count_tokens_by_category(found.compaction.context_after).values()),
    )
    says = f"context {before:,} → {after:,} (estimated, as nothing is recorded here; 900 by the agent's count)"
    assert 0 < after < before and told(format_summary(found, 90))[0].startswith(says)


def test_what_was_before_the_file_is_said_to_be_missing(tmp_path: Path) -> None:
    made = Recording()
    made.boundary(6_100)
    made.summary()
    made.assistant(text("I go on."), use=usage(3_000))
    lines = told(format_summary(sides(made.open(tmp_path), 0), 120))
    assert lines[0].startswith("context 6,100 by the agent's count → 3,000 recorded")
    assert "not in the file" in " ".join(lines)


@given(st.integers(30, 200), st.integers(1, 50), st.integers(-3, 30))
def test_lines_fit(width: int, height: int, at: int) -> None:
    session = conversation(compacted=True)
    [found] = find_recorded_compactions(session)
    made = CompactionComparison(found, 0, 1)
    made.move_cursor(at)
    lines = format_rows(made, MessageReader(session).format_preview, width, height)
    assert len(lines) == min(height, len(made.rows))
    fits = max(width, 60)
    assert all(
        count_cells(line) <= fits
        for line in [*lines, *format_summary(made, fits), *format_categories(made, fits), format_header(made, fits)]
    )


@pytest.mark.slow
async def test_keys_go_from_one_to_the_next_and_to_the_inspector(tmp_path: Path) -> None:
    running = ContextTuiApp(compacted().open(tmp_path))
    async with running.run_test(size=(140, 44)) as pilot:
        await settled(pilot)
        await pilot.press(*"Bpl")  # in one burst: keys wait for what they are about
        await settled(pilot)
        screen = running.screen
        assert isinstance(screen, CompactionsScreen) and len(screen.comparisons) == 2
        await pilot.press("n")
        await settled(pilot)
        assert screen.current_number == 1 and screen.comparison.reused_blocks is not None
        for key, shown in (("left_parenthesis", 0), ("right_parenthesis", 1)):  # as in the inspector
            await pilot.press(key)
            await settled(pilot)
            assert screen.current_number == shown
        await pilot.press("l", "l")
        assert screen.comparison.message == 4
        text = drawn(running)
        assert RARE in text and "This session is being continued" in text and "used at #8" in text
        await pilot.press("enter")
        await settled(pilot)
        view = inspector(running).view
        assert (view.point, view.cursor.message) == (7, 4)
        await pilot.press("B", "n", "l", "l", "g")
        await settled(pilot)
        assert inspector(running).view.cursor.message == 8


@pytest.mark.slow
async def test_what_became_of_instructions_is_a_line_and_a_page(tmp_path: Path) -> None:
    running = ContextTuiApp(build_recording().open(tmp_path))
    async with running.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.press("B")
        await settled(pilot)
        assert "1 absent, 1 in the summary, 1 put back, 1 contradicted later (i lists them)" in drawn(running)
        await pilot.press("i")
        await pilot.pause()
        assert "#0 typed: Never push to the remote." in drawn(running) and "#4 does what it forbids" in drawn(running)
        await pilot.press("escape")
        assert isinstance(running.screen, CompactionsScreen)


@pytest.mark.slow
async def test_parentheses_go_through_the_compactions(tmp_path: Path) -> None:
    running = ContextTuiApp(compacted().open(tmp_path))
    async with running.run_test(size=(140, 44)) as pilot:
        await settled(pilot)
        points = []
        for key in ("left_parenthesis", "left_parenthesis", "left_parenthesis", "right_parenthesis"):
            await pilot.press(key)
            await settled(pilot)
            points.append(inspector(running).view.point)
        assert points == [7, 5, 7, 5]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["B", "right_parenthesis"])
async def test_a_recording_without_one_says_so(key: str) -> None:
    running = ContextTuiApp(conversation())
    async with running.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.press(key)
        await settled(pilot)
        assert not isinstance(running.screen, CompactionsScreen)
        assert any("holds no compaction" in str(each.message) for each in running._notifications)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
def test_picture(snap_compare: Callable[..., bool], tmp_path: Path, size: tuple[int, int]) -> None:
    """A full compaction at a lost message that was used later: both sides, categories, message and summary."""

    async def steps(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await pilot.press("B", "u", "u")
        await settled(pilot)

    app = ContextTuiApp(compacted().open(tmp_path))
    assert snap_compare(app, terminal_size=size, run_before=steps)


def test_a_file_that_begins_compacted_says_that_what_went_is_not_in_it() -> None:
    session = from_messages([{"role": "user", "content": "a summary"}, {"role": "assistant", "content": "on"}])
    session.facts.add_compaction(Compaction(0, "full", pre_tokens=21_919))
    text = " ".join(told(format_summary(sides(session, 0), 90)))
    assert "21,919 by the agent's count" in text and "what was lost is unknown" in text
    assert "used later" not in text and "lost 0" not in text
