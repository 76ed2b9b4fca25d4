"""The sweep screen: rows that come in, keys meanwhile, other grids, the way there and back, many sessions, pictures."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

import context_tui as ct
from context_tui.batch.workers import SweepTask, SweepWork, find_sources, run_on_processes
from context_tui.cli import main
from context_tui.lab.study import HANDLING_TEXTS
from context_tui.lab.sweep import grids
from context_tui.lab.sweep.grids import SweepSetting, build_grid
from context_tui.lab.sweep.results import Sweep
from context_tui.lab.sweep.rows import SweepRow, build_row_report
from context_tui.lab.sweep.session_sweep import SweepOptions, sweep_settings
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.app import ContextTuiApp, SweepToOpen
from context_tui.tui.controller import Controller
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.replay.screen import ReplayScreen
from context_tui.tui.sweep import screen
from context_tui.tui.sweep.plot import GUTTER, build_points
from context_tui.tui.sweep.screen import SweepScreen
from context_tui.tui.sweep.sessions import SessionsScreen
from context_tui.tui.widgets.styled_text import ClickableLines
from context_tui.tui.widgets.text_screen import HelpScreen, TextScreen
from tests.tui import inspecting
from tests.tui.fakes import Shell, drawn, footer_fits, messages, until
from tests.tui.inspecting import inspector, settled, unsafe
from tests.tui.test_sweep_board import MICRO
from tests.tui.tuning import sample

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
WINDOW = 60_000
GRID = "keep_recent_turns=1..4 min_clear_tokens=100,512,2000"
Snap = Callable[..., bool]


@pytest.fixture(autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Propose few settings: they are not what is tested here."""
    monkeypatch.setattr(grids, "MAX_PROPOSED", 64 if "snapshot" in request.node.name else 12)
    monkeypatch.setattr(grids, "MIN_PROPOSED", 6)


def alone(
    session: Session | None = None, *, light: bool = False, ascii: bool = False, **asked: Any
) -> Shell[SweepScreen]:
    """The screen without the inspector."""
    controller = Controller(session or sample(), InspectorOptions(window=asked.pop("window", WINDOW), **asked))
    controller.open_session(controller.view.session)
    return Shell(screen.build_screen(controller), light=light, ascii=ascii)


def app(session: Session | None = None, **asked: Any) -> ContextTuiApp:
    return inspecting.app(session or sample(), window=WINDOW, **asked)


def sweeping(pilot: Pilot[Any]) -> SweepScreen:
    found = [each for each in pilot.app.screen_stack if isinstance(each, SweepScreen)]
    assert found, pilot.app.screen
    return found[-1]


async def known(pilot: Pilot[Any]) -> SweepScreen:
    """Wait until every setting is measured."""
    await until(pilot, lambda: any(isinstance(each, SweepScreen) for each in pilot.app.screen_stack))
    found = sweeping(pilot)
    await until(pilot, lambda: not found.is_measuring)
    assert not found.board.missing_settings and not found.board.error, found.board.error
    await pilot.pause()
    return found


async def typed(pilot: Pilot[Any], grid: str) -> SweepScreen:
    """Type another grid, and wait for it."""
    await pilot.press("equals_sign")
    line = sweeping(pilot).query_one(Input)
    assert line.has_focus
    line.value = grid
    await pilot.press("enter")
    return await known(pilot)


class Gate:
    """Lets settings be measured one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.asked, self.fails = Event(), list[str](), False
        monkeypatch.setattr(screen, "sweep_settings", self.gated)

    def gated(self, there: Any, settings: list[SweepSetting], checkpoint: Callable[[], object]) -> Iterator[SweepRow]:
        self.asked += [each.name for each in settings]
        for number, row in enumerate(sweep_settings(there, settings, checkpoint)):
            while number >= 2 and not self.open.is_set():
                checkpoint()
                self.open.wait(0.02)
            if self.fails:
                raise RuntimeError("secret text")
            yield row


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setattr(screen, "UPDATE_INTERVAL_S", 0.0)
    monkeypatch.setattr(screen, "UPDATE_COST_FACTOR", 0)
    return Gate(monkeypatch)


# Rows that come in


async def test_the_rows_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(messages(30)))
    session = ct.open_session(path, window=12_000)
    running = alone(session, window=12_000)
    async with running.run_test(size=(100, 32)) as pilot:
        await known(pilot)
        found = await typed(pilot, GRID)
        await pilot.press("y")
        command = running.clipboard.split()
    assert command[:3] == ["context-tui", "sweep", str(path)] and "--current" not in command
    assert main([*command[1:], "--json", "--jobs", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    here = [build_row_report(row) for row in found.board.sweep.sorted_rows]
    assert len(here) == 12
    for row in (*here, *report["rows"]):
        row.pop("project")  # a command takes the folder of the file for one
    assert report["rows"] == json.loads(json.dumps(here))
    assert (
        report["frontier"] == found.board.sweep.dominance.frontier
        and report["best"] == found.board.sweep.dominance.best
    )


async def test_keys_in_a_burst_are_done_while_it_is_measured(gate: Gate) -> None:
    running = alone()
    async with running.run_test(size=(120, 36)) as pilot:
        found = sweeping(pilot)
        await until(pilot, lambda: len(found.board.totals) >= 2)
        assert "esc stops" in drawn(running)
        await pilot.press("o", "j", "k", "end", "m", "m", "f", "f", "t")
        assert isinstance(running.screen, TextScreen)
        await pilot.press("escape", "question_mark")
        assert isinstance(running.screen, HelpScreen)
        await pilot.press("escape")
        assert found.is_measuring and found.board.order == "needed later"
        gate.open.set()
        await known(pilot)
        assert "esc stops" not in drawn(running) and len(found.board.totals) == len(found.board.sweep.settings)


async def test_escape_stops_and_then_leaves_and_r_goes_on(gate: Gate) -> None:
    running = alone()
    async with running.run_test(size=(120, 36)) as pilot:
        found = sweeping(pilot)
        await until(pilot, lambda: len(found.board.totals) >= 2)
        await pilot.press("escape")
        assert not found.is_measuring and "stopped; r continues" in drawn(running) and not running.answers
        asked = len(gate.asked)
        gate.open.set()
        await pilot.press("r")
        await known(pilot)
        assert len(gate.asked) < 2 * asked, "what was measured is not asked for again"
        await pilot.press("escape")
        await until(pilot, lambda: running.answers)
        assert running.answers == [None]


async def test_another_grid_begins_anew_and_keeps_rows(gate: Gate) -> None:
    running = alone()
    async with running.run_test(size=(120, 36)) as pilot:
        found = sweeping(pilot)
        await until(pilot, lambda: len(found.board.totals) >= 2)
        gate.open.set()
        await typed(pilot, "keep_recent_turns=1..3")
        asked = len(gate.asked)
        await typed(pilot, "keep_recent_turns=2..3,40")
        assert gate.asked[asked:] == ["defect-microcompact keep_recent_turns=40"]
        assert [each.name for each in found.board.sweep.settings] == [
            "defect-microcompact",
            *(f"defect-microcompact keep_recent_turns={turns}" for turns in (2, 40)),
        ]


async def test_what_is_wrong_with_a_grid_stands_below_it() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        found = await known(pilot)
        before = found.board.grid_text
        await pilot.press("equals_sign", *" keep=1", "enter")
        await pilot.pause()
        line = drawn(running).split("\n")[2]
        assert "unknown parameter 'keep'" in line and found.query_one(Input).has_focus
        await pilot.press("backspace")
        assert "unknown parameter" not in drawn(running)
        await pilot.press("escape")
        assert found.query_one(Input).value == before == found.board.grid_text
        assert found.query_one("#sweep-table").has_focus and not running.answers


async def test_a_defect_in_the_thread_is_told_without_its_text(gate: Gate) -> None:
    gate.fails = True
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        found = sweeping(pilot)
        await until(pilot, lambda: found.board.error)
        await pilot.pause()
        text = drawn(running)
        assert "RuntimeError; please report it" in text and "secret text" not in text
        await pilot.press("j", "m", "t", "escape", "escape")
        await until(pilot, lambda: running.answers)


# The table and the plot


async def test_the_mouse_points_at_settings_in_both_and_sorts() -> None:
    running = alone()
    async with running.run_test(size=(120, 36)) as pilot:
        await known(pilot)
        found = await typed(pilot, GRID)
        board, table, plot = found.board, found.query_one("#sweep-table"), found.query_one("#sweep-plot")
        await pilot.press("home")
        await pilot.click("#sweep-table", offset=(8, table.gutter.top + 3))
        await pilot.pause()
        assert board.cursor_index == 2
        best = board.sweep.dominance.frontier[-1]
        assert found._scatter_cache is not None
        scatter = found._scatter_cache[2]
        x, y = scatter.frame.compute_cell(scatter.points[best])
        await pilot.click("#sweep-plot", offset=(plot.gutter.left + GUTTER + x, plot.gutter.top + y))
        await pilot.pause()
        assert board.cursor == best and "◆" in drawn(running)
        head = drawn(running).split("\n")[4]
        await pilot.click("#sweep-table", offset=(head.index("needed later") + 3, table.gutter.top))
        await pilot.pause()
        assert board.order == "needed later" and board.cursor == best
        await pilot.click("#sweep-table", offset=(8, table.gutter.top + 2), times=2)
        await until(pilot, lambda: running.answers)


async def test_the_plot_shows_how_many_extra_calls_each_saving_bears() -> None:
    running = alone()
    async with running.run_test(size=(160, 40)) as pilot:
        await known(pilot)
        found = await typed(pilot, GRID)
        board = found.board
        assert "needed later →" in drawn(running)
        await pilot.press("b")
        assert "extra calls per 1,000 →" in drawn(running)
        for name, point in build_points(board).items():
            cost = board.totals[name].cost
            assert cost is not None and point.x == pytest.approx((cost.without - cost.cost) / cost.extra_calls)
        cheapest = min(board.totals.values(), key=lambda each: each.extra_cost)
        board.move_to_setting(cheapest.setting)
        found.draw()
        await pilot.pause()
        shown = f"pays up to {cheapest.break_even_calls:.2g} extra calls" in drawn(running)
        assert shown == (cheapest.extra_cost < 0)
        await pilot.press("b")
        assert "needed later →" in drawn(running)


@pytest.mark.slow
async def test_the_cursor_is_always_in_sight() -> None:
    running = alone()
    async with running.run_test(size=(80, 24)) as pilot:
        found = await known(pilot)
        for keys in (["home"], ["end"], ["pageup"] * 3, ["k"] * 9, ["o"], ["i"], ["greater_than_sign"], ["asterisk"]):
            await pilot.press(*keys)
            await pilot.pause()
            place, room = found.board.cursor_index - found._first_row, found._visible_rows
            assert 0 <= place < room, keys
        found._scroll_table(-3)
        found._scroll_table(3)
        await pilot.pause()


async def test_money_and_only_the_best() -> None:
    running = alone()
    async with running.run_test(size=(120, 36)) as pilot:
        await known(pilot)
        found = await typed(pilot, GRID)
        await pilot.press("m")
        assert found.board.saving_unit == "money" and "in money" in drawn(running)
        assert "▲cost" in found.query_one("#sweep-table", ClickableLines).render().plain
        await pilot.press("f")
        assert set(found.board.listed_names) == {*found.board.sweep.dominance.frontier, found.board.sweep.current}
        await pilot.press("m", "f")
        assert len(found.board.listed_names) == 12


# The way there and back


@pytest.mark.slow
async def test_from_the_replay_screen_and_back_with_a_setting() -> None:
    running = app()
    async with running.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("l", "s")
        await known(pilot)
        await typed(pilot, "keep_recent_turns=1..3")
        await pilot.press("home")
        chosen = sweeping(pilot).board.cursor
        assert chosen.endswith("keep_recent_turns=1")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(running.screen, ReplayScreen))
        replay = running.screen
        assert isinstance(replay, ReplayScreen) and replay.comparison.selected_lane.values == {"keep_recent_turns": 1}
        await pilot.press("s")
        again = await known(pilot)
        assert again.board.sweep.current == chosen, "the current setting is the one that was taken over"
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        assert inspector(running).view.get_settings("defect-microcompact") == {"keep_recent_turns": 1}


@pytest.mark.slow
async def test_from_the_inspector_and_back_with_another_policy() -> None:
    running = app()
    async with running.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("s")
        await known(pilot)
        await typed(pilot, "defect-compact compact_ratio=0.4,0.5")
        found = sweeping(pilot)
        found.board.move_to_setting("defect-compact compact_ratio=0.4")
        await pilot.press("y", "enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        view = inspector(running).view
        assert view.policy == "defect-compact" and view.get_settings("defect-compact") == {"compact_ratio": 0.4}
        assert running.clipboard.endswith(
            "-P defect-compact -p compact_ratio=0.4,0.5 --current defect-microcompact --window 60000"
        )


async def test_what_cannot_be_swept_is_refused() -> None:
    running = app(policy="manual")
    async with running.run_test(size=(100, 32)) as pilot:
        await settled(pilot)
        inspector(running).action_full_screen("sweep")
        await pilot.pause()
        assert isinstance(running.screen, InspectorScreen)
        assert any("manually" in each.message for each in running._notifications)


@pytest.mark.slow
async def test_pictures_text_and_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        await settled(pilot)
        await pilot.press("s")
        await known(pilot)
        found = await typed(pilot, GRID)
        await pilot.press("x", "x", "c")
        assert sorted(each.name for each in tmp_path.iterdir()) == [
            "refactor-auth-sweep-2.svg",
            "refactor-auth-sweep.svg",
        ]
        fixed = "#   no setting of the agent: keep_recent_turns, min_clear_tokens"
        assert running.clipboard == f"# defect's configuration, [turn]\nmicrocompact_ratio = 0.6\n{fixed}"
        await pilot.press("t")
        text = drawn(running)
        whole = found.board.totals[found.board.cursor]
        assert isinstance(running.screen, TextScreen) and f"saves {whole.saved:,}" in text
        assert "not configurable" in text


# Many sessions


@pytest.fixture
def swept(tmp_path: Path) -> SweepToOpen:
    for name, turns in (("one", 12), ("two", 20)):
        (tmp_path / f"{name}.json").write_text(json.dumps(messages(turns)))
    settings = build_grid(MICRO, ["keep_recent_turns=3,1..2"])
    found, *_ = find_sources([tmp_path])
    tasks = [SweepTask(place, range(len(settings))) for place in found]
    rows = [
        row
        for done in run_on_processes(tasks, SweepWork.from_settings(settings, SweepOptions(window=6_000)), 1)
        for row in done.rows
    ]
    infos: dict[str, SessionInfo] = {place.name: place.info for place in found}
    return SweepToOpen(
        Sweep(settings, rows, current=settings[0].name), infos, "context-tui sweep X", HANDLING_TEXTS["keep"]
    )


@pytest.mark.slow
async def test_from_a_setting_to_its_sessions_into_one_and_back(swept: SweepToOpen) -> None:
    running = ContextTuiApp([], InspectorOptions(window=6_000), sweep=swept)
    async with running.run_test(size=(120, 36)) as pilot:
        found = await known(pilot)
        assert "2 sessions" in drawn(running) and not found.query(Input)
        assert "recorded compactions kept" in drawn(running)
        await pilot.press("home", "y", "p")
        assert isinstance(running.screen, TextScreen) and running.clipboard == "context-tui sweep X"
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(running.screen, SessionsScreen))
        listed = running.screen
        assert isinstance(listed, SessionsScreen) and len(listed.session_rows) == 2
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(running.screen, HelpScreen))
        await pilot.press("escape", "down", "o", "enter")
        await settled(pilot)
        opened = inspector(running)
        assert opened.view.session.info.path == listed.session_rows[listed.cursor_index][0].session
        assert opened.view.get_settings("defect-microcompact") == {"keep_recent_turns": 1}
        await pilot.press("escape")
        await until(pilot, lambda: running.screen is listed)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not running.is_running)


# Odd sessions, odd sizes


@pytest.mark.slow
async def test_session_text_is_safe_in_every_pane() -> None:
    running = alone(ct.from_messages(messages(30)), window=12_000)
    async with running.run_test(size=(140, 50)) as pilot:
        await known(pilot)
        text = drawn(running)
        assert "input tokens" in text and not unsafe(text.replace("\n", ""))


@pytest.mark.slow
@pytest.mark.parametrize("what", [[], [{"role": "user", "content": "Hello"}]], ids=["empty", "no call"])
async def test_a_session_without_calls_has_nothing_to_save(what: list[dict[str, Any]]) -> None:
    running = alone(ct.from_messages(what))
    async with running.run_test(size=(80, 24)) as pilot:
        await known(pilot)
        await pilot.press("j", "m", "o", "f", "t", "escape", "asterisk", "end", "escape")
        await until(pilot, lambda: running.answers)


@pytest.mark.slow
async def test_every_size_has_its_panes_and_keys() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        found = await known(pilot)
        for size in ((60, 20), (80, 24), (110, 24), (160, 50), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
            text = drawn(running)
            assert footer_fits(running)
            for words in ("saved", "needed later", "◆", "? help", "settings"):
                assert words in text, size
            for pane in ("#sweep-header", "#sweep-grid", "#sweep-table", "#sweep-plot", "#sweep-words", "Footer"):
                region = found.query_one(pane).region
                assert region.height > 0 and region.bottom <= size[1] and region.right <= size[0], (pane, size)
        await pilot.resize_terminal(50, 18)
        await until(pilot, lambda: "enlarge" in drawn(running))


async def test_nothing_but_ascii_is_drawn_where_that_is_asked_for() -> None:
    running = alone(ascii=True)
    async with running.run_test(size=(120, 40)) as pilot:
        await known(pilot)
        assert drawn(running).isascii(), drawn(running)


# Pictures


def steps(*keys: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    async def run(pilot: Pilot[Any]) -> None:
        await known(pilot)
        await pilot.press(*keys)
        await pilot.pause(0.2)

    return run


def coding(**asked: Any) -> Shell[SweepScreen]:
    """The sample session in which something was needed later."""
    return alone(ct.open_session(SAMPLES / "coding-session.jsonl"), window=65_536, policy=MICRO.name, **asked)


def test_snapshot_80(snap_compare: Snap) -> None:
    """80 x 24: five settings, the plot below them, the one under the cursor against the current one."""
    assert snap_compare(coding(), terminal_size=(80, 24), run_before=steps("asterisk"))


@pytest.mark.slow
def test_snapshot_160(snap_compare: Snap) -> None:
    """160 x 50: table and plot side by side, the cursor beaten by another, and how its agent is told."""
    assert snap_compare(coding(), terminal_size=(160, 50), run_before=steps("down", "down", "down"))


@pytest.mark.slow
def test_snapshot_light_money_best(snap_compare: Snap) -> None:
    """120 x 36, light: money, and only what nothing beats."""
    assert snap_compare(coding(light=True), terminal_size=(120, 36), run_before=steps("m", "f", "home"))


@pytest.mark.slow
def test_snapshot_60_ascii(snap_compare: Snap) -> None:
    """60 x 20 in ASCII: still readable."""
    assert snap_compare(coding(ascii=True), terminal_size=(60, 20), run_before=steps("asterisk"))
