"""What is kept between runs: a theme, keys, and settings that are saved under a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from context_tui.app.config import Config, SavedSettings, read_config
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.widgets.dialogs import InputPrompt
from tests.tui.fakes import until
from tests.tui.inspecting import app, inspector, session, settled


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("CONTEXT_TUI_CONFIG", str(path))
    return path


@pytest.mark.slow
async def test_settings_are_saved_under_a_name() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("left", "S")
        await until(pilot, lambda: isinstance(running.screen, InputPrompt))
        await pilot.press(*"chain", "enter")
        assert isinstance(running.screen, InputPrompt), "the name of a policy is taken"
        running.screen.query_one(Input).value = "frugal"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(running.screen, InspectorScreen))
        await until(pilot, lambda: read_config().settings)
    assert read_config().settings == {"frugal": SavedSettings("defect-microcompact", ("keep_recent_turns=2",))}


async def test_a_theme_that_is_chosen_is_kept_and_the_one_of_a_flag_is_not(path: Path) -> None:
    running = app(theme="light")
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert not path.exists()
        running.theme = "dracula"
        await pilot.pause()
    assert read_config().theme == "dracula"
    assert ContextTuiApp(session(), config=read_config()).theme == "dracula"
    assert ContextTuiApp(session(), theme="light", config=read_config()).theme == "context-light"


async def test_what_cannot_be_written_is_told(path: Path) -> None:
    path.write_text("theme = ")
    running = app()
    async with running.run_test(size=(120, 40), notifications=True) as pilot:
        await settled(pilot)
        running.theme = "dracula"
        await pilot.pause()
        assert any("is not valid TOML" in each.message for each in running._notifications)
    assert path.read_text() == "theme = "


@pytest.mark.slow
async def test_keys_are_those_of_the_file() -> None:
    running = app(config=Config(keys={"turn-previous": "ctrl+n", "nothing": "x"}))
    async with running.run_test(size=(120, 40), notifications=True) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert any("[keys] nothing: no such name" in each.message for each in running._notifications)
        await pilot.press("ctrl+n")
        assert screen.location.message == 40
        await pilot.press("home", "right_square_bracket")
        assert screen.location.message == 8
        await pilot.press("left_square_bracket")
        assert screen.location.message == 8, "the old key is free"
