"""Keys that mean the same on every screen, footers by importance, and what cannot be bound."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from context_tui.app.config import Config
from context_tui.library.discovery import THIS_PROJECT, SessionEntry
from context_tui.session.session import SessionInfo
from context_tui.text.files import read_toml
from context_tui.tui.apply.screen import Phase
from context_tui.tui.picker import screen as picking
from context_tui.tui.picker.screen import PickerScreen
from context_tui.tui.picker.tune import TuneScreen
from context_tui.tui.widgets.bindings import check_keymap, is_key
from context_tui.tui.widgets.text_screen import HelpScreen
from tests.tui import inspecting
from tests.tui.fakes import Shell, drawn, until
from tests.tui.test_apply_screen import screen as apply_screen

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_sessions"


def picker() -> PickerScreen:
    info = SessionInfo(str(SAMPLES / "coding-session.jsonl"), "claude-code", time=5)
    return PickerScreen([SessionEntry(info, THIS_PROJECT, "", "claude-code")], now=10)


@pytest.mark.slow
@pytest.mark.parametrize("build", [picker, lambda: apply_screen(kind="extract")], ids=["picker", "apply"])
async def test_the_help_lists_the_keys_of_any_screen(build: Any) -> None:
    app = Shell[Screen[Any]](build())
    async with app.run_test(size=(80, 50)) as pilot:
        await until(pilot, lambda: bool(app.first.focused))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "List all keys" in drawn(app)


def test_some_keys_mean_the_same_on_every_screen() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for name, rows in read_toml("context_tui.tui", "keys.toml").items():
        for row in rows if name != "footer" else ():
            for key in set(row[0].split(",")) & set("rsueo?"):
                meanings[key].add(row[1].partition("(")[0])
    assert meanings["?"] == {"app.help", "dismiss"}, "pressed again, the help closes"
    assert meanings["e"] == {"export", "save"} and meanings["u"] == {"run"}
    assert meanings["s"] == {"sweep", "full_screen"} and meanings["r"] == {"read_on", "go_on", "retry", "again"}
    assert meanings["o"] == {"sort", "toggle_order", "run"}


@pytest.mark.slow
async def test_sorting_by_size_goes_to_the_largest_row() -> None:
    running = inspecting.app()
    async with running.run_test(size=(120, 40)) as pilot:
        await inspecting.settled(pilot)
        screen = inspecting.inspector(running)
        await pilot.press("end", "o")
        await inspecting.settled(pilot)
        rows = screen.controller.rows
        assert rows.find_row(*screen.location) == screen.controller.listed_rows[0]


async def test_the_palette_says_that_a_policy_is_chosen_and_takes_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    running = inspecting.app()
    async with running.run_test(size=(80, 24)) as pilot:
        await inspecting.settled(pilot)
        titles = [command.title for command in running.get_system_commands(running.screen)]
        assert any(title.startswith("Plan with policy ") for title in titles)
        picture = next(each for each in running.get_system_commands(running.screen) if "Screenshot" in each.title)
        picture.callback()
        await until(pilot, lambda: (tmp_path / "refactor-auth-session.svg").exists())


async def test_a_disabled_key_says_why() -> None:
    app = Shell(apply_screen(kind="extract"))
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, lambda: app.first.phase is Phase.DONE)
        await pilot.press("b")
        await until(pilot, lambda: any("needs none" in each.message for each in app._notifications))
        await pilot.press("d")
        await until(pilot, lambda: any("no other draft" in each.message for each in app._notifications))
        app.clear_notifications()
        await pilot.press("equals_sign", "x", "escape")
        assert not app._notifications, "one of the bindings of a key is enough"


async def test_esc_in_the_first_second_does_not_quit(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Shell(picker())
    async with app.run_test() as pilot:
        await pilot.press("escape")
        assert not app.answers
        monkeypatch.setattr(picking, "EARLY_S", 0.0)
        await pilot.press("escape")
        await until(pilot, lambda: bool(app.answers))


def test_keys_that_quit_stay_and_wrong_names_are_told_with_a_suggestion() -> None:
    keys = {"export": "q", "sort": "ctrl+q", "help": "escpae", "turn-previuos": "x", "copy": "f5, ctrl+alt+y"}
    valid, warnings = check_keymap(keys)
    assert valid == {"copy": "f5, ctrl+alt+y"}
    assert [warning.partition(";")[0] for warning in warnings] == [
        *("[keys] export: q quits", "[keys] sort: ctrl+q quits"),
        *("[keys] help: escpae is no key", "[keys] turn-previuos: no such name"),
    ]
    assert "did you mean escape?" in warnings[2] and "did you mean turn-previous?" in warnings[3]
    assert "did you mean quit-now?" in check_keymap({"quit": "x"})[1][0]
    assert check_keymap({"leave": "f10", "export": "q", "sweep-leave": "q"})[1] == [], "the key is free then"
    assert all(map(is_key, ("a", "+", "ctrl++", "question_mark", "shift+f5", "é"))) and not is_key("ctr+a")


async def test_a_refused_key_leaves_quit_where_it_was() -> None:
    running = inspecting.app(config=Config(keys={"export": "q"}))
    async with running.run_test(size=(80, 24), notifications=True) as pilot:
        await inspecting.settled(pilot)
        assert any("q quits" in each.message for each in running._notifications)
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)


async def test_an_agent_without_a_policy_of_its_own_is_told_which_keys_sweep() -> None:
    app = Shell[Screen[Any]](TuneScreen("mini-swe-agent", []))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "choose a policy with P, then press s" in drawn(app))
        assert "-P" not in drawn(app) and not app.screen.workers


async def test_the_picker_tunes_over_the_sessions_of_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    app = Shell[Screen[Any]](picker())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(app.first.focused))
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, TuneScreen))
        assert "Tune claude-code over 1 session" in drawn(app)
        await until(pilot, lambda: "claude-code-auto" in drawn(app), 60)
