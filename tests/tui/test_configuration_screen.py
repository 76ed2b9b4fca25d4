"""The configuration of the agent that a policy belongs to, on screen: what it says, copied, and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.tui.comparison import Lane
from context_tui.tui.replay.screen import ReplayScreen
from context_tui.tui.replay.texts import ConfigurationScreen, format_configuration
from context_tui.tui.saving import save_new_file
from context_tui.tui.view import View
from tests.tui.fakes import drawn
from tests.tui.test_replay_screen import alone, along


def lane(policy: str, **params: Any) -> Lane:
    return Lane(View(ct.from_messages([]).with_window(300_000), policy=policy, params={policy: params}))


@pytest.mark.parametrize(
    ("policy", "params", "told"),
    [
        ("goose", {"trigger_share": 0.7}, "GOOSE_AUTO_COMPACT_THRESHOLD = 0.7"),
        ("codex", {"trigger_at_most": 10**6}, "model_auto_compact_token_limit = 270000"),
        ("claude-code-auto", {}, "# ~/.claude/settings.json\nautoCompactWindow = 300000"),
        ("claude-code-auto", {}, "note: it can only lower the threshold"),
        ("claude-code-auto", {}, "window of 300,000 tokens (given)"),
        ("claude-code-micro", {}, "the agent has no setting for these values"),
        ("none", {}, "no agent configuration is known"),
        ("chain", {"policies": ("defect-compact",)}, "compact_ratio = 0.85"),
    ],
)
def test_what_is_told(policy: str, params: dict[str, Any], told: str) -> None:
    found = format_configuration(lane(policy, **params))
    assert told in found
    settings = [line for line in found.splitlines() if line and not line.startswith("#")]
    assert all(" = " in line for line in settings), "everything else is a comment"


@pytest.mark.slow
async def test_it_is_shown_copied_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running = alone(policy="goose")
    async with running.run_test(size=(80, 24)) as pilot:
        screen = await along(pilot, "minus", "c", "e", "e", "y")
        await pilot.pause()
        assert isinstance(running.screen, ConfigurationScreen)
        whole = format_configuration(screen.comparison.selected_lane)
        share = screen.comparison.selected_lane.values["trigger_share"]
        assert share < 0.8 and f"GOOSE_AUTO_COMPACT_THRESHOLD = {share:g}" in drawn(running)
        assert running.clipboard == whole
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["goose-configuration-2.txt", "goose-configuration.txt"]
        assert {(tmp_path / name).read_text("utf-8") for name in names} == {whole}
        await pilot.press("c")
        assert isinstance(running.screen, ReplayScreen)


def test_nothing_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("mine")
    assert save_new_file("new", "a", "txt") == Path("a-2.txt") and Path("a.txt").read_text() == "mine"
    Path("b.txt").symlink_to(tmp_path / "elsewhere")
    assert save_new_file("new", "b", "txt") == Path("b-2.txt") and not (tmp_path / "elsewhere").exists()
