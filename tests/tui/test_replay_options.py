"""What every replay of a comparison is made with: rows below the settings, the copied command, and equal numbers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.lab.replay.recording import Recording
from context_tui.lab.study import Lab, StudySettings
from context_tui.tui.command_line import format_replay_command
from context_tui.tui.comparison import PolicyComparison
from context_tui.tui.replay import setting_controls
from context_tui.tui.view import View
from context_tui.tui.widgets.parameter_rows import ParameterRows
from tests.tui.test_replay_comparison import finish
from tests.tui.test_replay_screen import alone, along, known

SAMPLE = Path(__file__).parents[2] / "sample_sessions" / "coding-session.jsonl"
OTHER = StudySettings("ignore", 700, 5, True, "anywhere")


def names(settings: StudySettings) -> dict[str, object]:
    return {name.rpartition(".")[2]: value for name, value in setting_controls.get_common_values(settings).items()}


def test_each_has_a_row_and_gets_back_what_is_set() -> None:
    recording = Recording(ct.open_session(SAMPLE))
    rows = setting_controls.build_common_controls(StudySettings(), recording, has_compactions=True)
    labels = ["keep_recorded", "delay", "summary_tokens", "shares_prefix", "cache_anywhere"]
    assert [row.label for row in rows] == labels
    assert {row.name for row in rows} == setting_controls.get_common_values(StudySettings()).keys()
    assert {row.owner for row in rows} == {setting_controls.COMMON_OWNER}
    assert all(row.default == setting_controls.get_common_values(StudySettings())[row.name] for row in rows), (
        "backspace is the default"
    )
    assert next(row for row in rows if row.label == "summary_tokens").implied_value == recording.summary_tokens
    made = StudySettings()
    for row, value in zip(rows, (False, 5, 700, True, True), strict=True):
        changed = setting_controls.replace_common_value(made, row.name, value)
        assert changed is not None
        made = changed
    assert made == OTHER
    assert setting_controls.replace_common_value(made, "keep_recent_turns", 3) is None, "a setting of the policy"


def test_what_cannot_be_undone_has_no_row() -> None:
    assert "keep_recorded" not in [
        row.label for row in setting_controls.build_common_controls(StudySettings(), None, has_compactions=False)
    ]


@pytest.mark.parametrize(
    "how", [OTHER, StudySettings(delay=0), StudySettings(summary_tokens=9_000)], ids=["all", "delay", "size"]
)
def test_the_same_numbers_as_by_the_copied_command(how: StudySettings, capsys: pytest.CaptureFixture[str]) -> None:
    session = ct.open_session(SAMPLE, window=30_000)
    made = PolicyComparison(View(session, policy="defect", params={"defect": {"compact_ratio": 0.9}}))
    made.settings = how
    finish(made)
    assert made.recording is not None and made.selected_lane.result is not None
    study = Lab(session, made.recording).study_replay(made.selected_lane.result.replay, how)
    assert study.replay.firings

    line = shlex.split(format_replay_command([made.selected_lane.view], how))
    assert main([*line[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["policies"][0]
    assert told["context"] == list(study.replay.sizes)
    assert told["totals"]["cost"] == study.price.cost
    assert [each["after"] for each in told["firings"]] == [each.after for each in study.replay.firings]
    plain = PolicyComparison(View(session, policy="defect", params={"defect": {"compact_ratio": 0.9}}))
    finish(plain)
    assert plain.replay is not None and list(plain.replay.sizes) != told["context"], "it matters"


@pytest.mark.slow
async def test_they_are_set_as_parameters_are() -> None:
    running = alone()
    async with running.run_test(size=(120, 50)) as pilot:
        screen = await along(pilot)
        rows = screen.query_one(ParameterRows)
        numbers = {control.label: number for number, control in enumerate(rows.parameters)}
        rows.choose_row(numbers["delay"])
        await pilot.press("plus", "plus", "minus", "plus")
        rows.choose_row(numbers["summary_tokens"])
        await pilot.press("equals_sign", *"700", "enter", "shift+tab", "i")
        await known(pilot)
        assert screen.comparison.settings == StudySettings("ignore", 700, 4)
        assert screen.comparison.selected_lane.values == {}, "nothing of the policy"
        assert rows.values[f"{setting_controls.COMMON_OWNER}.keep_recorded"] is False
        await pilot.press("y")
        await pilot.pause()
        assert "--recorded undo --summary-tokens 700 --delay 4" in running.clipboard
        await pilot.press("tab", "backspace")
        assert screen.comparison.settings == StudySettings("ignore", None, 4)
