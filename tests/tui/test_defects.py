"""An error that nobody foresaw, in work beside the screen: it is told without its text, and the screen goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.export import files
from context_tui.library.discovery import THIS_PROJECT, SessionEntry
from context_tui.session.session import SessionInfo
from context_tui.summarizer import plan_summary
from context_tui.tui.apply import screen as applying
from context_tui.tui.apply.screen import ApplyScreen, Phase
from context_tui.tui.export import screen as exporting
from context_tui.tui.export.screen import ExportScreen
from context_tui.tui.inspector import calibration
from context_tui.tui.inspector.calibration import CalibrationScreen
from context_tui.tui.picker.screen import PickerScreen
from tests.formats.recordings import four_turns
from tests.tui.fakes import Shell, drawn, planned, until
from tests.tui.test_picker import write

TOLD = "RuntimeError; please report it"
HIDDEN = "text of a session"


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError(HIDDEN)


def found(folder: Path, name: str) -> SessionEntry:
    return SessionEntry(SessionInfo(write(folder / f"{name}.jsonl", "Hello"), "", time=1.0, bytes=10), THIS_PROJECT)


async def is_told(app: Shell[Any], pilot: Any, words: str) -> None:
    """Wait until what could not be done is on the screen, and why, without what the error said."""
    await until(pilot, lambda: words in drawn(app))
    shown = " ".join(drawn(app).split())
    assert TOLD in shown
    assert HIDDEN not in shown


async def test_finding_that_fails_ends_and_what_was_found_can_be_opened(tmp_path: Path) -> None:
    def find() -> Iterator[list[SessionEntry]]:
        yield [found(tmp_path, "one"), found(tmp_path, "two")]
        fail()

    app = Shell(PickerScreen([], find=find(), now=100.0))
    async with app.run_test(size=(100, 24)) as pilot:
        await is_told(app, pilot, "Could not find the sessions")
        await until(pilot, lambda: not app.first.is_finding)
        await pilot.pause()
        assert "looking for more" not in drawn(app)
        assert "2 sessions" in drawn(app)
        await pilot.press("j")
        await pilot.pause()
        assert TOLD in drawn(app), "it stays while the cursor moves"
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
        assert app.answers[0].path.endswith("two.jsonl")


async def test_titles_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    app = Shell(PickerScreen([found(tmp_path, "one")], read_title=fail, now=100.0))
    async with app.run_test(size=(100, 24)) as pilot:
        await is_told(app, pilot, "Could not read the")
        await pilot.press("q")
        await until(pilot, lambda: app.answers)


async def test_a_defect_in_writing_a_summary_leaves_the_session_and_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, plan = planned()
    monkeypatch.setattr(applying, "write_summary", fail)
    app = Shell(ApplyScreen(session, plan, kind="extract"))
    async with app.run_test(size=(100, 30)) as pilot:
        await is_told(app, pilot, "Could not write the summary")
        assert app.first.phase is Phase.FAILED
        monkeypatch.setattr(applying, "write_summary", plan_summary.write_summary)
        await pilot.press("r")
        await until(pilot, lambda: app.first.phase is Phase.DONE)


async def test_a_defect_in_reading_what_is_summarised_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_prepare_plan_summary", fail)
    app = Shell(ApplyScreen(*planned(), kind="extract"))
    async with app.run_test(size=(100, 30)) as pilot:
        await is_told(app, pilot, "Could not read the messages")
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)


@pytest.mark.parametrize(
    ("name", "words", "key"),
    [
        ("export", "Could not write the file", "enter"),
        ("try_export", "Could not find what the format cannot hold", "down"),
        ("find_leftovers", "Could not look for leftover folders", ""),
    ],
)
async def test_a_defect_of_an_export_is_told_and_it_can_be_left(
    name: str, words: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting if hasattr(exporting, name) else files, name, fail)
    app = Shell(ExportScreen(ct.open_session(four_turns(tmp_path))))
    async with app.run_test(size=(100, 30)) as pilot:
        if key:
            await pilot.press(key)
        await is_told(app, pilot, words)
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)


async def test_a_defect_of_the_calibration_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "build_calibrated_table", fail)
    app: Shell[Any] = Shell(CalibrationScreen(ct.open_session(four_turns(tmp_path)), None))
    async with app.run_test(size=(100, 30)) as pilot:
        await is_told(app, pilot, "Could not calibrate the session")
