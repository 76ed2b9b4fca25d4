"""The order of a chain, from the settings pane to everything that goes by it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from context_tui.app.config import SavedSettings, read_config
from context_tui.cli import main
from context_tui.cli.options import resolve_policy
from context_tui.formats import opening
from context_tui.formats.opening import open_session
from context_tui.policies.parameter_space import build_params, find_changed_values
from context_tui.tui.command_line import format_plan_command
from context_tui.tui.inspector.parameters import ParameterPanel
from context_tui.tui.inspector.scoreboard import Scoreboard
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.view import View, build_inspector_state, restore_settings
from context_tui.tui.widgets.dialogs import InputPrompt
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app, conversation, file_of, inspector, opened, session, settled
from tests.tui.test_inspector_loading import INFO, Slow

SIZE = (150, 44)
MICRO, KODA = "defect-microcompact", "koda-microcompact"
WINDOW = 12_000
"""A context window in which both of them run."""


def settings_of(screen: InspectorScreen) -> Any:
    """What the chain is set to."""
    return screen.view.get_settings("chain")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file of its own."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("CONTEXT_TUI_CONFIG", str(path))
    return path


@pytest.mark.slow
async def test_all_go_by_the_order_that_was_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened_one = open_session(str(file_of(tmp_path / "session.jsonl", conversation()).path))
    running = app(opened_one, policy="chain", settings={"chain": {"policies": (MICRO, KODA)}}, window=WINDOW)
    async with running.run_test(size=SIZE) as pilot:
        await settled(pilot)
        screen, before = inspector(running), inspector(running).view
        rows = screen.query_one(ParameterPanel).rows
        rows.focus()
        await pilot.press("shift+right")
        await settled(pilot)
        view = screen.view
        assert settings_of(screen) == {"policies": (KODA, MICRO)}
        assert view.plan and before.plan and view.plan.tokens_after != before.plan.tokens_after
        assert [step.policy for step in before.plan.steps] == [MICRO, KODA]
        assert [step.policy for step in view.plan.steps] == [KODA], "what it leaves is not enough for the other one"
        text = rows.render().plain
        assert text.index("[1] koda-microcompact") < text.index("[2] defect-microcompact")
        row = screen.query_one(Scoreboard).rows[6]
        assert (
            row.request and f"~{row.request.tokens_after:,}" in screen.query_one(ParameterPanel).outcome.render().plain
        )
        await pilot.press("S")
        await until(pilot, lambda: isinstance(running.screen, InputPrompt))
        running.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await until(pilot, lambda: read_config().settings)
    assert read_config().settings["mine"] == SavedSettings("chain", (f"policies={KODA},{MICRO}",))
    policy, texts = resolve_policy("mine")
    loaded = View(
        opened_one.with_window(WINDOW),
        policy=policy.name,
        params=find_changed_values(policy, build_params(policy, texts)),
    )
    assert loaded.plan and loaded.plan.tokens_after == view.plan.tokens_after
    assert loaded.get_settings("chain") == view.get_settings("chain")
    assert restore_settings(build_inspector_state(view, {}, breakdown=False), view.session) == (
        "chain",
        {"chain": {"policies": (KODA, MICRO)}},
    ), "next time"
    by_order, by_name = (
        format_plan_command(view),
        f"context-tui plan {opened_one.info.path} -P mine --window {WINDOW} --firing-only",
    )
    assert f"-p policies={KODA},{MICRO}" in by_order
    for command in (by_order, by_name):
        capsys.readouterr()
        assert main([*shlex.split(command)[1:], "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["tokens"]["after"] == view.plan.tokens_after
        assert told["params"]["policies"] == [KODA, MICRO]


@pytest.mark.slow
async def test_an_order_that_cannot_run_says_so_and_applies_nothing() -> None:
    running = app(policy="chain")
    async with running.run_test(size=SIZE, notifications=True) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(ParameterPanel).rows.focus()
        await pilot.press("shift+right", "a")
        await settled(pilot)
        why = "defect-compact drops or adds messages, so nothing runs after it; name it last"
        assert isinstance(running.screen, InspectorScreen)
        assert [each.message for each in running._notifications] == [f"Nothing to apply: chain: {why}"]
        assert f"no plan: {why}" in " ".join(screen.query_one(ParameterPanel).outcome.render().plain.split())
        await pilot.press("backspace")
        assert screen.view.plan and screen.view.plan.has_changes and settings_of(screen) == {}


@pytest.mark.slow
async def test_undoing_brings_back_the_order_that_was_applied() -> None:
    running = app(policy="chain")
    async with running.run_test(size=SIZE) as pilot:
        await settled(pilot)
        screen = inspector(running)
        screen.query_one(ParameterPanel).rows.focus()
        await pilot.press("right", "space", "right", "space", "shift+left", "a")
        await until(pilot, lambda: screen.view.session.origin)
        await settled(pilot)
        assert screen.view.session.origin == "chain"
        await pilot.press("7", "backspace")
        assert settings_of(screen) == {}
        await pilot.press("u")
        await settled(pilot)
        assert not screen.view.session.origin
        assert settings_of(screen) == {"policies": (KODA, MICRO)}
        assert "[1] koda-microcompact" in screen.query_one(ParameterPanel).rows.render().plain


@pytest.mark.slow
async def test_the_order_can_be_changed_while_the_session_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(opening, "make_scanner", lambda info: slow)
    monkeypatch.setattr("context_tui.tui.loading.SNAPSHOT_INTERVAL_S", 0.0)
    running = app(INFO, policy="chain", settings={"chain": {"policies": (MICRO, KODA)}}, window=WINDOW)
    async with running.run_test(size=SIZE) as pilot:
        screen = await opened(pilot)
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5 and screen.controller.is_reading)
        await pilot.press("7")
        screen.query_one(ParameterPanel).rows.focus()
        await pilot.press("shift+right")
        assert screen.controller.is_reading and settings_of(screen) == {"policies": (KODA, MICRO)}
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert settings_of(screen) == {"policies": (KODA, MICRO)}
        assert screen.view.plan and [step.policy for step in screen.view.plan.steps] == [KODA]
        assert "1 koda-microcompact" in drawn(running)


async def test_the_pane_says_where_the_keys_of_a_chain_are_at_80_columns() -> None:
    running = app(session(), policy="chain")
    async with running.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "space on/off, shift+←→ moves it" in drawn(running) and "[1] defect-microcompact  ▶" in drawn(running)
