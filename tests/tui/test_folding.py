"""Folding turns in the running inspector: z, Z, and everything that lands in a folded turn."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from benchmarks.pty import Terminal
from context_tui.tui.inspector.minimap import Minimap
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import Legend
from context_tui.tui.reader.detail import Detail
from context_tui.tui.timeline.rows import TURN_HEAD, Location
from context_tui.tui.timeline.turns import TurnSummaries
from tests.tui.fakes import drawn, until, wrapped_text
from tests.tui.inspecting import app, conversation, file_of, inspector, opened, session, settled
from tests.tui.test_inspector_loading import INFO, Slow, slow

WIDE = (140, 44)
__all__ = ["slow"]


def timeline(screen: InspectorScreen) -> Timeline:
    return screen.query_one(Timeline)


def left(pilot: Pilot[Any]) -> list[str]:
    """The lines of the timeline as they are drawn."""
    region = inspector(pilot.app).query_one(Timeline).region
    return [line[: region.right] for line in drawn(pilot.app).split("\n")[region.y : region.bottom]]


async def test_a_turn_is_folded_to_its_head_and_opened_again() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.run_command(screen.controller.select_location, Location(12))
        every = timeline(screen).listed_count
        await pilot.press("z")
        assert screen.location == Location(8, TURN_HEAD) and timeline(screen).listed_count == every - 11
        await settled(pilot)
        (head,) = [line for line in left(pilot) if "turn 2" in line]
        words = ("▸ turn 2  Step 1: rota", "clears 2 of 6", "8 msg", "▇▇▇▇▇▇▇▇")
        assert head.startswith(" - ") and all(word in head for word in words), head
        (tokens,) = re.findall(r"\d,\d{3}", head)
        assert f"turn 2: messages 8 to 15, cal. {tokens} tokens" in " ".join(
            wrapped_text(screen.query_one(Detail)).split()
        )
        await pilot.press("z")
        assert screen.location == Location(8, TURN_HEAD) and timeline(screen).listed_count == every
        await settled(pilot)
        assert any(re.search(r"▾ turn 2 · 8 messages · \d+ % of the context ──", line) for line in left(pilot))


async def test_on_few_columns_a_turn_keeps_its_text_rather_than_its_count_of_messages() -> None:
    running = app()
    async with running.run_test(size=(78, 24)) as pilot:
        await settled(pilot)
        await pilot.press("Z")
        await settled(pilot)
        (head,) = [line for line in left(pilot) if "turn 2" in line]
        preview = head.partition("turn 2  ")[2].partition("  ")[0]
        assert len(preview) >= 15 and "clears 2" in head and " msg" not in head, head


async def test_a_folded_session_is_its_table_of_contents() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.run_command(screen.controller.select_location, Location(12))
        await pilot.press("Z")
        await settled(pilot)
        assert timeline(screen).listed_count == 6 and screen.location == Location(8, TURN_HEAD)
        assert [line.split()[-9:-7] for line in left(pilot)[:6]] and "▸ z opens" in drawn(running)
        await pilot.press("down", "z")
        assert screen.location == Location(16, TURN_HEAD) and timeline(screen).listed_count > 6
        await pilot.press("Z")
        assert timeline(screen).listed_count == 6, "what was opened is folded with the rest"
        await pilot.press("Z")
        assert timeline(screen).listed_count == len(screen.controller.rows) and screen.location == Location(
            16, TURN_HEAD
        )


async def test_enter_and_the_mouse_open_a_head() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("Z", "home", "enter")
        assert screen.location == Location(0, TURN_HEAD) and timeline(screen).listed_count == 6 + 11
        await pilot.press("enter")
        assert timeline(screen).listed_count == 6
        await pilot.click(Timeline, offset=(20, 1), times=2)
        await pilot.pause()
        assert screen.location == Location(8, TURN_HEAD) and timeline(screen).listed_count == 6 + 11
        await pilot.click(Timeline, offset=(3, 1))
        await pilot.pause()
        assert timeline(screen).listed_count == 6, "a click on its sign is enough"
        await pilot.press("space")
        assert isinstance(screen.focused, Detail), "it is read as any row"


@pytest.mark.slow
async def test_whatever_lands_in_a_folded_turn_opens_it() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("slash")
        screen.query_one(Input).value = "# 2-1"
        await until(pilot, lambda: screen.controller.search.is_finished)
        screen.action_run("toggle_all_folds")
        assert timeline(screen).listed_count == 6
        screen.action_match(1)
        assert screen.location.message == 20 and timeline(screen).listed_count == 6 + 11
        screen.action_run("toggle_all_folds")
        screen.action_run("move_to_turn", -1)
        assert screen.location == Location(8, TURN_HEAD) and timeline(screen).listed_count == 6, "heads are in sight"
        await pilot.press("escape", "t")
        await pilot.press(*"33", "enter")
        await until(pilot, lambda: screen.location == Location(33))
        assert 5 not in screen.view.folds and 4 in screen.view.folds
        await pilot.press("enter")
        await pilot.pause()
        assert screen.location.block >= 0, "from a call to its result"
        screen.action_run("toggle_all_folds")
        screen.action_run("move_to_jump_point", 1)
        here = screen.location
        assert here.message == min(screen.view.point, 47) and here.block != TURN_HEAD
        assert timeline(screen).location == here


@pytest.mark.slow
async def test_folds_are_part_of_the_view() -> None:
    running = app()
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        await pilot.press("Z", "o")
        assert timeline(screen).listed_count == len(screen.controller.rows) - 6, "sorted rows are not folded"
        await pilot.press("z")
        assert "no turns to fold" in next(iter(running._notifications)).message
        await pilot.press("o")
        assert timeline(screen).listed_count == 6
        screen.run_command(screen.controller.toggle_filter, "tool", "Bash")
        assert timeline(screen).listed_count == 36
        await pilot.press("escape")
        assert timeline(screen).listed_count == 6
        await screen.run_action("dialog('apply_plan')")
        await until(pilot, lambda: screen.view.session.origin)
        assert timeline(screen).listed_count == 6
        screen.action_run("toggle_all_folds")
        assert timeline(screen).listed_count > 6
        screen.action_run("undo")
        assert timeline(screen).listed_count == 6


@pytest.mark.slow
async def test_the_map_shows_what_the_lines_in_sight_stand_for() -> None:
    running = app(session(40))
    async with running.run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert timeline(screen).visible_share[0] > 0.9
        await pilot.press("Z", "home")
        assert timeline(screen).visible_share[0] == 0
        await settled(pilot)
        last = timeline(screen).visible_share[1]
        assert last == pytest.approx(timeline(screen)._get_visible_lines().stop / 40, abs=0.01)
        await pilot.mouse_down("#minimap", offset=(0, screen.query_one(Minimap).size.height - 1))
        await pilot.mouse_up("#minimap", offset=(0, screen.query_one(Minimap).size.height - 1))
        assert screen.location.message > 290


async def test_the_legend_is_of_the_whole_context_and_of_the_signs_in_sight() -> None:
    running = app(session(40, compacted=True))
    async with running.run_test(size=(180, 50)) as pilot:
        await settled(pilot)
        legend = inspector(running).query_one(Legend)
        assert legend.shown == ("protected", "before", "map", "open", "bar")
        assert "= protected: 33 rows  < not in this context: 296 messages" in drawn(running)
        assert "~tokens ━━━━━━━━ map" in drawn(running)
        await pilot.press("home", "Z")
        await settled(pilot)
        assert legend.shown == ("protected", "before", "map", "folded", "bar") and "z opens it" in drawn(running)
        for size, there in (((80, 24), True), ((80, 20), False)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert ("< not in this context" in drawn(running)) == bool(legend.region) == there


async def test_what_would_go_is_told_where_none_of_it_is_in_sight() -> None:
    running = app(session(20))
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert "cleared" not in timeline(screen).find_visible_styles()
        number = len(screen.view.plan.changes)  # type: ignore[union-attr]
        assert f"- would be cleared: {number} results, #4 to #134" in drawn(running)
        await screen.run_action("dialog('apply_plan')")
        await until(pilot, lambda: screen.view.session.origin)
        await settled(pilot)
        assert f"- cleared: {number} results, #4 to #134" in drawn(running)


@pytest.mark.slow
async def test_turns_that_are_still_being_read_are_folded_too(slow: Slow) -> None:
    running = app(INFO)
    async with running.run_test(size=WIDE) as pilot:
        screen = await opened(pilot)
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        await pilot.press("Z")
        assert timeline(screen).listed_count == 1
        for length in (10, 15, 20):
            slow.gate.release()
            await until(pilot, lambda length=length: len(screen.view.session) == length)  # type: ignore[misc]
            assert timeline(screen).listed_count == 1 + (length - 1) // 8
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert timeline(screen).listed_count == 20 and screen.location == Location(0, TURN_HEAD), (
            "the cursor was not left alone"
        )


@pytest.mark.slow
async def test_only_turns_in_sight_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    turn = TurnSummaries._build_summary

    def counting(turns: TurnSummaries, place: int) -> Any:
        counted.append(place)
        return turn(turns, place)

    monkeypatch.setattr(TurnSummaries, "_build_summary", counting)
    found = []
    for size in (60, 600):
        running = app(session(size, 1))
        async with running.run_test(size=WIDE) as pilot:
            await settled(pilot)
            await pilot.press("Z")
            await settled(pilot)
            counted.clear()
            for _ in range(5):
                await pilot.press("left", "pageup", "z", "z")
            await settled(pilot)
            found.append(len(counted))
    assert 0 < found[1] < found[0] * 2, "a screenful each time, of ten times as many"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "folded"),
    [("gz\x1b[Bz", "12"), ("gzz\x1b[Bz", "1"), ("Z\x1b[Hz", "234"), ("gz\x1b[Bzz\x1b[B\x1b[Bz]z", "123")],
)
def test_keys_in_one_burst_do_what_they_do_one_by_one(tmp_path: Path, keys: str, folded: str) -> None:
    path = Path(file_of(tmp_path / "s.jsonl", conversation(4)).path)
    with Terminal([sys.executable, "-m", "context_tui", str(path)], columns=120, rows=60) as terminal:
        terminal.wait_for("turn 4", timeout=20)
        terminal.settle(1.0)
        terminal.send(keys)
        terminal.settle(1.0)
        last = {turn: sign for sign, turn in re.findall("([▾▸]) turn (\\d)", terminal.output.decode(errors="replace"))}
        terminal.quit("q")
    assert "".join(sorted(turn for turn, sign in last.items() if sign == "▸")) == folded
