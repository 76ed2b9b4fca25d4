"""The export screen: format and path, refusals, replacing only when told, and what it says at the end."""

from __future__ import annotations

import shutil
import threading
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.widgets import Input, Static

import context_tui as ct
from context_tui.export import files
from context_tui.export.files import ExportResult
from context_tui.session.session import Session
from context_tui.text.files import private_folder
from context_tui.tui.export import screen as export_screen
from context_tui.tui.export.screen import ExportScreen
from tests.tui.fakes import Shell, drawn, footer_fits, until

SAID = {"type": "text", "text": "So."}
LINE = (
    b'{"type":"user","uuid":"u","sessionId":"s","cwd":"/w","message":{"role":"user","content":"hi [/] \\u001b[31m"}}\n'
)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session in a file with an awkward name."""
    path = tmp_path / "my [red]session.jsonl"
    path.write_bytes(LINE)
    return ct.open_session(path)


def said(app: Shell[ExportScreen]) -> str:
    return str(app.screen.query_one("#export-status", Static).content)


async def test_the_sessions_own_format_and_a_name_beside_it_are_suggested(session: Session, tmp_path: Path) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test(size=(160, 24)) as pilot:
        assert app.first.format == "claude-code"
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
        assert "written: " in said(app) and "claude --resume" not in said(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers[0].path == tmp_path / "my [red]session.copy.jsonl"
    assert ct.open_session(app.answers[0].path).info.format == "claude-code"


async def test_the_path_follows_the_format_until_it_is_changed(session: Session, tmp_path: Path) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test() as pilot:
        path = app.screen.query_one(Input)
        await pilot.press("up")
        assert app.first.format == app.first.formats[-1]
        assert app.first.format == "markdown" and path.value.endswith(".copy.md")
        path.value = str(tmp_path / "mine.json")
        await pilot.press("down", "down")
        assert path.value == str(tmp_path / "mine.json")
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
    assert (tmp_path / "mine.json").exists()


async def test_the_end_of_a_long_path_is_in_sight(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 20)
    folder.mkdir()
    app = Shell(ExportScreen(session, path=folder / "name.jsonl"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "name.jsonl" in drawn(app))
        app.first.query_one(Input).action_home()
        await pilot.resize_terminal(78, 24)
        await pilot.pause()
        assert "name.jsonl" not in drawn(app), "where the cursor was put stays in sight"
    app = Shell(ExportScreen(replace(session, info=replace(session.info, path=str(folder / "s.jsonl")))))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("up")
        await until(pilot, lambda: "s.copy.md" in drawn(app))


async def test_the_input_is_refused_and_another_name_can_be_given(session: Session) -> None:
    app = Shell(ExportScreen(session, path=Path(session.info.path)))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: said(app).startswith("✗ "))
        assert "is the input file" in said(app)
        app.screen.query_one(Input).value += ".new"
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
    assert Path(session.info.path).read_bytes() == LINE


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "replaced"), [("k", False), ("escape", False), ("r", True)])
async def test_a_file_is_replaced_only_when_told(session: Session, tmp_path: Path, keys: str, replaced: bool) -> None:
    out = tmp_path / "mine.jsonl"
    out.write_text("mine")
    app = Shell(ExportScreen(session, path=out))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not app.first)
        assert "already exists" in drawn(app)
        await pilot.press(keys)
        await until(pilot, lambda: app.first.result if replaced else "Nothing was written" in said(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert (out.read_text() != "mine") is replaced
    assert (app.answers[0] is not None) is replaced


async def test_closing_without_writing_gives_nothing(session: Session, tmp_path: Path) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test() as pilot:
        app.screen.query_one(Input).value = "  "
        await pilot.press("enter")
        assert "no file name" in said(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert app.answers == [None]
    assert len(list(tmp_path.iterdir())) == 1


def words(app: App[Any]) -> str:
    """What is drawn, without lines and their ends."""
    return " ".join(drawn(app).replace("│", " ").split())


async def test_what_a_format_cannot_hold_is_said_before_it_is_written(tmp_path: Path) -> None:
    messages = [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, SAID]}]
    app = Shell(ExportScreen(ct.from_messages([*messages, {"role": "user", "content": "Go on."}])))
    async with app.run_test(size=(80, 24)) as pilot:
        app.screen.query_one(Input).value = str(tmp_path / "out.json")
        screen = app.screen
        assert isinstance(screen, ExportScreen)
        while screen.format != "openai":
            await pilot.press("down")
        await until(pilot, lambda: "Notes: thinking blocks left out: 1;" in words(app))
        assert not list(tmp_path.iterdir())
        await pilot.press("enter")
        await until(pilot, lambda: "! thinking blocks left out: 1" in words(app))
        assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("size", [(60, 20), (80, 24)])
async def test_what_is_going_to_be_written_is_said(session: Session, size: tuple[int, int]) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test(size=size) as pilot:
        shown = " ".join(drawn(app).replace("│", " ").split())
        assert "nothing applied" in shown
        assert "every record stays as it was recorded" in shown
        await pilot.press("down")
        await until(pilot, lambda: "1 message, the context at the end. koda holds all of it." in words(app))
        assert app.screen.query_one(Input).region.bottom < size[1] - 1
    after = replace(session, origin="defect-compact")
    app = Shell(ExportScreen(after))
    async with app.run_test(size=size):
        shown = " ".join(drawn(app).replace("│", " ").split())
        assert "Export the copy with defect-compact applied" in shown and "the current context" in shown
        assert app.screen.query_one(Input).value.endswith(".compacted.jsonl")


@pytest.mark.parametrize("looked_for", ["try_export", "find_leftovers"])
async def test_what_is_found_while_the_screen_is_taken_down_harms_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch, looked_for: str
) -> None:
    module = export_screen if hasattr(export_screen, looked_for) else files
    found, real, asked = threading.Event(), getattr(module, looked_for), threading.Event()

    def late(*given: Any) -> Any:
        asked.set()
        found.wait(10)
        return real(*given)

    monkeypatch.setattr(module, looked_for, late)
    app = Shell(ExportScreen(replace(session, origin="defect-compact")))
    async with app.run_test() as pilot:
        await until(pilot, asked.is_set)
        await app.screen.query("*").remove()
        found.set()
        await until(pilot, lambda: all(worker.is_finished for worker in app.workers))


async def test_a_click_chooses_the_format(session: Session) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test() as pilot:
        await pilot.click("#export-formats", offset=(20, 0))
        await until(pilot, lambda: app.first.format != "claude-code")


async def test_losses_are_listed(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {}}
    answer = {"role": "user", "content": [{"type": "text", "text": "no"}]}
    orphan = ct.from_messages([{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]}, answer])
    app = Shell(ExportScreen(orphan, path=tmp_path / "o.json"))
    async with app.run_test() as pilot:
        assert app.first.format == "anthropic"
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
        assert "! placeholder results added for calls without one: 1" in drawn(app)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 50)])
async def test_it_fits_and_draws_nothing_a_terminal_acts_on(session: Session, size: tuple[int, int]) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test(size=size) as pilot:
        assert footer_fits(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
        assert footer_fits(app)
        shown = drawn(app)
    assert "[red]" in shown
    assert not {c for c in shown.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")}


async def test_what_goes_wrong_is_seen_whole_where_there_is_little_room(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(LINE)
    out = tmp_path / "-".join(["a-folder-that-is-not-there"] * 3) / "x.jsonl"
    app = Shell(ExportScreen(ct.open_session(path), path=out))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: said(app).startswith("✗ "))
        await until(pilot, lambda: said(app).replace(" ", "") in "".join(drawn(app).replace("│", " ").split()))


async def test_losses_that_do_not_fit_are_read_by_the_arrows(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    written = ExportResult(Path("/tmp/x.jsonl"), "openai", [f"loss {number}" for number in range(40)])
    monkeypatch.setattr(files, "export", lambda *_, **__: written)
    app = Shell(ExportScreen(session))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: all(each in drawn(app) for each in ("loss 3", "written: ")) and footer_fits(app))
        assert "loss 39" not in drawn(app)
        await pilot.press("down", "end")
        await until(pilot, lambda: "loss 39" in drawn(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers == [written]


async def test_what_a_name_hides_is_shown_and_the_name_stays_what_it_is(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "a\u202eb\u200dc\u200bd\re.json"
    app = Shell(ExportScreen(session, path=out))
    async with app.run_test(size=(160, 24)) as pilot:
        await pilot.pause()
        assert "a·b·c·d␍e.json" in drawn(app)
        assert footer_fits(app)
        app.screen.query_one(Input).value += "x"
        await pilot.press("enter")
        await until(pilot, lambda: app.first.result)
        assert "a·b·c·d␍e.jsonx" in said(app)
    assert app.first.result is not None and app.first.result.path == tmp_path / "a\u202eb\u200dc\u200bd\re.jsonx"


async def test_what_killed_runs_left_is_told_and_removed(session: Session, tmp_path: Path) -> None:
    with private_folder(tmp_path, "x") as inside:
        left = Path(shutil.copytree(inside.parent, tmp_path / ".x\u202e.abcdefgh.tmp"))
        app = Shell(ExportScreen(session))
        async with app.run_test(size=(160, 24)) as pilot:
            place = app.screen.query_one("#export-leftovers", Static)
            await until(pilot, lambda: place.display)
            assert "1 folder" in str(place.content) and ".x·.abcdefgh.tmp" in str(place.content)
            assert left.is_dir() and footer_fits(app)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: not place.display)
            assert not left.exists() and inside.is_dir()


async def test_a_home_that_nobody_has_is_a_name_like_any(session: Session) -> None:
    app = Shell(ExportScreen(session, path=Path("~nobody-has-this-name/x.json")))
    async with app.run_test() as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: said(app).startswith("✗ "))
        assert "no such folder" in said(app)


async def test_no_choice_is_split_over_lines(session: Session) -> None:
    app = Shell(ExportScreen(session))
    async with app.run_test(size=(60, 24)) as pilot:
        await pilot.pause()
        await pilot.pause()
        shown = [strip.text for strip in app.screen._compositor.render_strips()]
        for name in app.first.formats:
            assert any(f"○ {name}" in line or f"● {name}" in line for line in shown), name
