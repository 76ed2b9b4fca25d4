"""The replay screen: keys, also in a burst, the mouse, the way there and back, odd sessions, and pictures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

import context_tui as ct
from context_tui.session.session import Session
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.controller import Controller
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.replay.panes import ChartsView
from context_tui.tui.replay.screen import ReplayScreen
from context_tui.tui.replay.texts import FiringsScreen
from context_tui.tui.widgets.parameter_rows import ParameterRows
from context_tui.tui.widgets.styled_text import ClickableLines
from context_tui.tui.widgets.text_screen import HelpScreen
from tests.tui import inspecting
from tests.tui.fakes import Shell, drawn, footer_fits, messages, until
from tests.tui.inspecting import inspector, opened, settled, unsafe
from tests.tui.tuning import sample

WINDOW = 60_000
SAMPLES = Path(ct.__file__).parents[1] / "sample_sessions"
Snap = Callable[..., bool]


def app(session: Session | None = None, **asked: Any) -> ContextTuiApp:
    return inspecting.app(session or sample(), window=WINDOW, **asked)


def alone(
    session: Session | None = None, *, light: bool = False, ascii: bool = False, **asked: Any
) -> Shell[ReplayScreen]:
    """The screen without the inspector."""
    controller = Controller(session or sample(), InspectorOptions(window=asked.pop("window", WINDOW), **asked))
    controller.open_session(controller.view.session)
    return Shell(ReplayScreen(controller, controller.build_comparison()), light=light, ascii=ascii)


def replaying(pilot: Pilot[Any]) -> ReplayScreen:
    found = [screen for screen in pilot.app.screen_stack if isinstance(screen, ReplayScreen)]
    assert found, pilot.app.screen
    return found[-1]


async def known(pilot: Pilot[Any], *, worth: bool = False) -> ReplayScreen:
    """Wait until all replays are there, and on request prices and regrets."""
    screen = replaying(pilot)
    comparison = screen.comparison
    await until(pilot, lambda: comparison.recording is not None and comparison.choose_replay_task() is None)
    if worth:
        await until(pilot, lambda: comparison.lab is not None and comparison.choose_study_task() is None)
    await pilot.pause()
    return screen


async def along(pilot: Pilot[Any], *keys: str, worth: bool = False) -> ReplayScreen:
    """Open the screen from the inspector where there is one, wait, and press keys."""
    if not isinstance(pilot.app, Shell):
        await settled(pilot)
        await pilot.press("l")
    screen = await known(pilot)
    await pilot.press(*keys)
    return await known(pilot, worth=worth) if isinstance(pilot.app.screen, ReplayScreen) else screen


# The way there and back


async def test_keys_in_one_burst_are_all_done_although_the_replay_comes_later() -> None:
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        await opened(pilot)
        await settled(pilot)
        await pilot.press("l", "right_square_bracket", "enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        view = inspector(running).view
        assert view.at is not None and view.policy == "defect-microcompact"
        assert view.plan is not None and view.plan.has_changes and view.plan.trigger.fires


@pytest.mark.slow
async def test_the_settings_go_back_with_escape_and_stay_with_q() -> None:
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        await along(pilot, "minus", "minus", "q")
        assert inspector(running).view.get_settings("defect-microcompact") == {}
        screen = await along(pilot, "minus", "minus", "escape")
        await settled(pilot)
        view = inspector(running).view
        assert view.get_settings("defect-microcompact") == {"keep_recent_turns": 1} and view.at is None
        assert screen.comparison.selected_lane.values == {"keep_recent_turns": 1}


@pytest.mark.slow
async def test_another_policy_goes_back_too_and_is_found_again() -> None:
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot, "a")
        await until(pilot, lambda: isinstance(running.screen, CommandPalette))
        await pilot.press(*"defect-compact")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: running.screen is screen)
        await known(pilot)
        assert [lane.policy for lane in screen.comparison.lanes] == ["defect-microcompact", "defect-compact"]
        assert screen.comparison.selected_number == 1 and screen.query_one(ClickableLines).size.height == 4
        await pilot.press("right_square_bracket", "enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        assert inspector(running).view.policy == "defect-compact"
        again = await along(pilot)
        assert again.comparison.selected_number == 1 and len(again.comparison.lanes) == 2
        assert again.comparison.call == screen.comparison.call, "the cursor is at the point of the inspector"
        await pilot.press("d")
        assert [lane.policy for lane in again.comparison.lanes] == ["defect-microcompact"]
        await pilot.press("d")
        assert len(again.comparison.lanes) == 1, "one stays"


async def test_a_copy_is_not_replayed() -> None:
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        plan = screen.view.plan
        assert plan is not None
        screen.run_command(screen.controller.show_applied_copy, plan, ct.apply(screen.view.session, plan))
        await pilot.press("l")
        await pilot.pause()
        assert running.screen is screen
        assert any("undo" in notification.message for notification in running._notifications)


# Keys and the mouse


@pytest.mark.slow
async def test_a_step_of_a_setting_moves_the_sawtooth_from_anywhere() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot)
        before = screen.comparison.replay
        await pilot.press("minus")
        await known(pilot)
        assert screen.comparison.replay is not before
        assert screen.comparison.selected_lane.values == {"keep_recent_turns": 2}
        await pilot.press("tab", "down", "down", "left", "left")
        await known(pilot)
        assert screen.comparison.selected_lane.values.keys() == {"keep_recent_turns", "microcompact_ratio"}
        shown = screen.comparison.replay
        assert shown is not None and shown.params == screen.comparison.selected_lane.params
        await pilot.press("equals_sign", *"0.3", "enter", "shift+tab", "home")
        await known(pilot)
        assert screen.comparison.selected_lane.values["microcompact_ratio"] == 0.3 and screen.comparison.call == 0


@pytest.mark.slow
async def test_many_steps_at_once_end_with_the_replay_of_the_last() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot)
        screen.query_one(ParameterRows).choose_row(2)
        await pilot.press(*["minus"] * 25)
        await known(pilot)
        made = screen.comparison.replay
        assert made is not None and made.params == screen.comparison.selected_lane.params
        assert made.params.microcompact_ratio < 0.5


async def test_a_digit_replaces_the_policy_and_arrows_select_one() -> None:
    running = alone()
    async with running.run_test(size=(100, 40)) as pilot:
        screen = await along(pilot, "2")
        assert screen.comparison.selected_lane.policy == "defect-compact"
        screen.comparison.add_policy("koda-microcompact")
        screen.draw()
        await known(pilot)
        await pilot.press("up", "end")
        assert screen.comparison.selected_number == 0 and screen.comparison.call == screen.comparison.call_count - 1
        await pilot.press("down")
        assert screen.comparison.selected_lane.policy == "koda-microcompact"
        assert "settings of koda-microcompact" in drawn(running)


async def test_recorded_compactions_are_undone_and_kept() -> None:
    running = alone()
    async with running.run_test(size=(110, 32)) as pilot:
        screen = await along(pilot)
        assert "1 recorded compaction kept" in drawn(running)
        await pilot.press("i")
        await known(pilot)
        assert screen.comparison.replay is not None and screen.comparison.replay.recorded == "ignore"
        await until(pilot, lambda: "1 recorded compaction undone" in drawn(running))
        assert "as recorded" in drawn(running)


async def test_the_mouse_points_at_calls_and_policies() -> None:
    running = alone()
    async with running.run_test(size=(100, 44)) as pilot:
        screen = await along(pilot)
        screen.comparison.add_policy("defect-compact")
        screen.draw()
        await known(pilot)
        charts = screen.query_one(ChartsView)
        first = charts.charts.places[0]
        await pilot.click(ChartsView, offset=(charts.gutter.left + 7 + 40, charts.gutter.top + first.top + 2))
        await pilot.pause()
        assert screen.comparison.call == charts.charts.find_call(47) != 0
        assert screen.comparison.selected_number == first.number == 0
        await pilot.click(ClickableLines, offset=(5, 2))
        await pilot.pause()
        assert screen.comparison.selected_number == 1


async def test_zooming_shows_fewer_calls_around_the_cursor() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot, "home", "z", "z")
        scale = screen.query_one(ChartsView).charts.scale
        assert (
            scale is not None
            and scale.end_call - scale.first_call == screen.comparison.call_count // 4
            and scale.first_call == 0
        )
        await pilot.press("Z", "Z", "Z")
        await pilot.pause()
        scale = screen.query_one(ChartsView).charts.scale
        assert scale is not None and scale.end_call - scale.first_call == screen.comparison.call_count


async def test_the_list_the_help_and_the_command() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot, "t")
        assert isinstance(running.screen, FiringsScreen) and "before #" in drawn(running)
        await pilot.press("escape", "question_mark")
        assert isinstance(running.screen, HelpScreen) and "Keys" in drawn(running)
        await pilot.press("escape", "minus", "y")
        await pilot.pause()
        assert isinstance(running.screen, ReplayScreen)
        path = screen.comparison.session.info.path
        policy = "-P defect-microcompact -p keep_recent_turns=2"
        assert running.clipboard == f"context-tui replay {path} {policy} --window {WINDOW}"


async def test_pictures_take_no_name_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running = app()
    async with running.run_test(size=(100, 32)) as pilot:
        await along(pilot, "x", "x")
        found = sorted(path.name for path in tmp_path.iterdir())
        assert found == ["refactor-auth-replay-2.svg", "refactor-auth-replay.svg"]
        assert (tmp_path / found[0]).read_text("utf-8").startswith("<svg")


# Odd sessions, odd sizes


async def test_prices_and_regrets_come_after_the_replays() -> None:
    running = alone()
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await along(pilot, "right_square_bracket", worth=True)
        await pilot.pause()
        text = drawn(running)
        assert (
            screen.comparison.selected_lane.result is not None
            and screen.comparison.selected_lane.result.study is not None
        )
        assert (
            ("saves" in text or "costs" in text)
            and "needed" in text
            and "…" not in text.partition("policy")[2].partition("recorded")[0]
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "policy", "words"),
    [
        (ct.from_messages([]), None, "nothing to replay"),
        (ct.from_messages([{"role": "user", "content": "Hello"}]), None, "nothing to replay"),
        (ct.from_messages(messages()), "manual", "by hand"),
    ],
    ids=["empty", "no call", "manual"],
)
async def test_what_cannot_be_replayed_has_words(session: Session, policy: str | None, words: str) -> None:
    running = alone(session, policy=policy)
    async with running.run_test(size=(80, 24)) as pilot:
        await along(pilot, "right_square_bracket", "left", "home", "minus", "z", "enter", "t", "escape", "r")
        if isinstance(running.screen, ReplayScreen):
            assert words in drawn(running)
            await pilot.press("escape")
        assert running.answers, "it was left"


async def test_session_text_is_safe_and_sizes_without_usage_are_estimated() -> None:
    running = alone(ct.from_messages(messages(30)), window=12_000)
    async with running.run_test(size=(140, 50)) as pilot:
        screen = await along(pilot, "right_square_bracket", worth=True)
        text = drawn(running)
        assert screen.comparison.firing_calls and "all sizes estimated" in text
        assert not unsafe(text.replace("\n", ""))


@pytest.mark.slow
async def test_every_size_has_its_panes_and_keys() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot, "right_square_bracket")
        for size in ((60, 20), (80, 24), (110, 24), (160, 50), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
            text = drawn(running)
            assert footer_fits(running)
            for words in ("▲ firing 1", "defect-micro", "as recorded", "keep_recent_turns", "? help"):
                assert words in text, size
            for pane in (
                "#replay-header",
                "#replay-charts",
                "#replay-words",
                "#replay-table",
                "#replay-rows",
                "Footer",
            ):
                region = screen.query_one(pane).region
                assert region.height > 0 and region.bottom <= size[1] and region.right <= size[0], (pane, size)


async def test_a_terminal_that_is_too_small_says_so_and_comes_back() -> None:
    running = alone()
    async with running.run_test(size=(100, 32)) as pilot:
        screen = await along(pilot)
        await pilot.resize_terminal(55, 18)
        await until(pilot, lambda: "enlarge" in drawn(running))
        assert not screen.query_one(ChartsView).display
        await pilot.resize_terminal(100, 32)
        await until(pilot, lambda: screen.query_one(ChartsView).display)
        await pilot.press("home")
        assert screen.comparison.call == 0 and "enlarge" not in drawn(running)


async def test_nothing_but_ascii_is_drawn_where_that_is_asked_for() -> None:
    running = alone(ascii=True)
    async with running.run_test(size=(120, 40)) as pilot:
        await along(pilot, "right_square_bracket")
        assert drawn(running).isascii(), drawn(running)


@pytest.mark.parametrize(("width", "told"), [(160, "claude-code-auto fires at 0 of 1"), (120, "back-test 0 of 1")])
async def test_the_agents_own_policy_is_held_against_what_it_did(width: int, told: str) -> None:
    """At the top, and at the call behind the compaction, with why."""
    recording = sample()
    running = alone(replace(recording, info=replace(recording.info, format="claude-code")))
    async with running.run_test(size=(width, 32)) as pilot:
        screen = await along(pilot, worth=True)
        assert told in drawn(running).splitlines()[0]
        compacted = next(call for call, events in screen.comparison.context_events.items() if events[0].begins_context)
        screen.action_go(compacted)
        await pilot.pause()
        assert "back-test claude-code-auto: it fires 33 calls earlier" in drawn(running)


async def test_a_call_that_paid_for_the_cache_again_has_a_sign_and_its_cause() -> None:
    running = alone(ct.open_session(str(SAMPLES / "coding-session.jsonl")))
    async with running.run_test(size=(120, 32)) as pilot:
        screen = await along(pilot, worth=True)
        [(call, found)] = screen.comparison.cache_breaks.items()
        screen.action_go(call)
        await pilot.pause()
        text = drawn(running)
        assert "$ cache paid again" in text
        assert f"$ cache: expired: {found.tokens:,} tokens paid again" in text and found.evidence in text


# Pictures


def steps(*keys: str, others: tuple[str, ...] = ()) -> Callable[[Pilot[Any]], Awaitable[None]]:
    async def run(pilot: Pilot[Any]) -> None:
        screen = await along(pilot)
        for name in others:
            screen.comparison.add_policy(name)
        screen.draw()
        await known(pilot)
        await pilot.press(*keys)
        await known(pilot, worth=True)
        await pilot.pause(0.2)

    return run


def test_snapshot_80(snap_compare: Snap) -> None:
    """80 x 24 on a firing: the sawtooth below what it would be, the firing with its price, the table, the settings."""
    assert snap_compare(alone(), terminal_size=(80, 24), run_before=steps("right_square_bracket"))


@pytest.mark.slow
def test_snapshot_160(snap_compare: Snap) -> None:
    """160 x 50: three sawtooths on one scale, the selected one the largest; firing, table, settings."""
    run = steps("up", "right_square_bracket", others=("defect-compact", "koda-microcompact"))
    assert snap_compare(alone(), terminal_size=(160, 50), run_before=run)


def test_snapshot_undone_light(snap_compare: Snap) -> None:
    """Recorded compactions undone, on a light ground: what was recorded are dots, and the shade goes beyond them."""
    assert snap_compare(alone(light=True), terminal_size=(120, 36), run_before=steps("r", "end"))


def test_snapshot_60_ascii(snap_compare: Snap) -> None:
    """60 x 20 in ASCII: still readable."""
    assert snap_compare(alone(ascii=True), terminal_size=(60, 20), run_before=steps("right_square_bracket"))
