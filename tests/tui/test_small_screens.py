"""Prompts, problems and help."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Button, Input

import context_tui as ct
from context_tui.errors import PlanError
from context_tui.session.session import Session
from context_tui.tui.controller import CommandRefused, Controller
from context_tui.tui.export.screen import ExportScreen
from context_tui.tui.inspector.records import ProblemsScreen
from context_tui.tui.inspector.screen import build_bindings, build_full_screen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.picker.listing import SessionListing
from context_tui.tui.picker.screen import PickerScreen
from context_tui.tui.picker.session_list import PickerList
from context_tui.tui.rendering.layout import TextPart, wrap_text
from context_tui.tui.widgets.bindings import KeyFooter
from context_tui.tui.widgets.dialogs import (
    Answer,
    ChoicePrompt,
    InputPrompt,
    build_quit_prompt,
    build_unchanged_prompt,
    parse_message_number,
)
from context_tui.tui.widgets.reading_pane import ReadingPane
from context_tui.tui.widgets.text_screen import HelpScreen
from tests.tui import inspecting
from tests.tui.fakes import NASTY, Shell, drawn, footer_fits, until, wrapped_text


def at_least_ten(text: str) -> None:
    """A check with both kinds of errors."""
    if parse_message_number(text, 100) < 10:
        raise PlanError("at least 10")


async def test_a_value_is_taken_when_it_will_do() -> None:
    app = Shell(InputPrompt("How many", "from 10", check=at_least_ten))
    async with app.run_test() as pilot:
        await pilot.press("x", "enter")
        assert "not a number" in drawn(app)
        await pilot.press("backspace", "7")
        assert "at least 10" in drawn(app)
        await pilot.press("enter", "7")
        assert "from 10" in drawn(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.answers)
    assert app.answers == ["77"]


@pytest.mark.parametrize(
    ("text", "wrong"), [("x", "'x' is not a number"), ("31", "it must be at most 30"), ("-1", "it must be at least 0")]
)
def test_what_is_no_message_is_said_in_our_words(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{wrong}$"):
        parse_message_number(text, 30)
    assert parse_message_number("1,234", 2_000) == 1_234


async def test_escape_gives_no_value() -> None:
    app = Shell(InputPrompt(NASTY, NASTY, "value"))
    async with app.run_test() as pilot:
        assert app.screen.query_one(Input).value == "value"
        await pilot.press("escape")
        await until(pilot, lambda: app.answers)
    assert app.answers == [None]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("q", "quit"), ("s", "stay"), ("enter", "export"), ("right enter", "quit"), ("escape", None)],
)
async def test_leaving_with_an_unexported_result_is_asked(keys: str, answer: str | None) -> None:
    app = Shell(build_quit_prompt())
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press(*keys.split())
        await until(pilot, lambda: app.answers)
    assert app.answers == [answer]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("a", "apply"), ("e", "export"), ("enter", "apply"), ("right enter", "export"), ("escape", None)],
)
async def test_an_export_with_nothing_applied_is_asked(keys: str, answer: str | None) -> None:
    app = Shell(build_unchanged_prompt(True))
    async with app.run_test(size=(60, 20)) as pilot:
        assert all(button.region.right < 57 for button in app.screen.query(Button))
        assert "Apply the plan first, or export the session" in drawn(app) and "esc cancel" in drawn(app)
        await pilot.press(*keys.split())
        await until(pilot, lambda: app.answers)
    assert app.answers == [answer]


async def test_answers_stay_in_sight_under_a_long_question() -> None:
    app = Shell(ChoicePrompt("Replace the file?", "a-long-name " * 200, [Answer("k", "keep", "keep")]))
    async with app.run_test(size=(60, 20)):
        shown = drawn(app)
        assert "Replace the file?" in shown and "k  keep" in shown and "esc cancel" in shown


async def test_a_plan_that_changes_nothing_is_not_offered() -> None:
    app = Shell(build_unchanged_prompt(False))
    async with app.run_test(size=(60, 20)) as pilot:
        assert "apply first" not in drawn(app)
        await pilot.press("a", "e")
        await until(pilot, lambda: app.answers)
    assert app.answers == ["export"]


async def test_an_answer_can_be_clicked() -> None:
    app = Shell(ChoicePrompt("[/]", NASTY, [Answer("a", "one", "[red]first"), Answer("b", "two", "second")]))
    async with app.run_test() as pilot:
        await pilot.click("Button:last-child")
        await until(pilot, lambda: app.answers)
    assert app.answers == ["two"]


@pytest.fixture
def broken(tmp_path: Path) -> Session:
    """A session with four problems."""
    good = b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"hi"}}\n'
    odd = '{"type":"weird","uuid":"w","sessionId":"[/red]"}\nnot json \x1b]0;title\x07 \u202e\n'.encode()
    path = tmp_path / "broken.jsonl"
    path.write_bytes(good + odd + b'{"a": "' + b"x" * 9_000 + b"\n" + b'{"torn": tru')
    return ct.open_session(path)


async def test_problems_are_listed_with_place_reason_and_text(broken: Session) -> None:
    app = Shell(ProblemsScreen(broken))
    async with app.run_test(size=(60, 20)) as pilot:
        shown = drawn(app)
        assert "Problems: 4 of 5 records in broken.jsonl" in shown
        assert "line 2: unknown record type" in shown
        assert '"sessionId":"[/red]"' in shown
        assert not {c for c in shown.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
        assert footer_fits(app)
        await pilot.press("n", "n")
        assert "more characters" in wrapped_text(app.screen.query_one(ReadingPane))
        await pilot.press("p", "p", "escape")
        await until(pilot, lambda: app.answers)


async def test_a_file_that_is_gone_still_lists_its_problems(broken: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(broken.content), "raw", lambda self, record: 1 / 0)
    app = Shell(ProblemsScreen(broken))
    async with app.run_test():
        assert "cannot be shown" in drawn(app)


def test_a_full_screen_view_is_made_of_the_controller_or_says_why_not(broken: Session) -> None:
    with pytest.raises(CommandRefused, match="No problems: every record could be read"):
        build_full_screen("problems", Controller(ct.from_messages([]), InspectorOptions()))
    with pytest.raises(CommandRefused, match="holds no compaction"):
        build_full_screen("compactions", Controller(broken, InspectorOptions()))
    with pytest.raises(CommandRefused, match="No whole requests in this session"):
        build_full_screen("request", Controller(broken, InspectorOptions()))
    bindings = [each for each in build_bindings() if isinstance(each, Binding)]
    names = [each.id for each in bindings if each.action == f"full_screen('{each.id}')"]
    assert names == ["replay", "sweep", "compactions", "problems", "calibration", "request"]
    for name in ("replay", "problems", "calibration"):
        assert isinstance(build_full_screen(name, Controller(broken, InspectorOptions())), Screen)


async def test_help_lists_every_key_once_and_fits() -> None:
    picker = PickerScreen([], now=0)
    app = Shell(HelpScreen([picker, PickerList(SessionListing([]), 0)], notes=["A note [/]."]))
    async with app.run_test(size=(60, 40)):
        pane = app.screen.query_one(ReadingPane)
        lines = wrapped_text(pane).splitlines()
        assert max(map(len, lines)) <= 58
        assert "A note [/]." in lines
        assert [line for line in lines if line and not line.startswith(" ")] == [
            *("A note [/].", "Picker", "Picker List", "Everywhere"),
        ]
        assert "  /               Filter by name, title or project" in lines
        assert sum("Quit without opening a session" in line for line in lines) == 1
        assert any(line.strip().startswith("tab") for line in lines[lines.index("Everywhere") :])


@pytest.mark.parametrize("screen", [PickerScreen, PickerList, ProblemsScreen, HelpScreen, ExportScreen, ReadingPane])
def test_every_key_has_a_name_and_an_explanation(screen: type) -> None:
    for binding in screen.BINDINGS:  # type: ignore[attr-defined]
        assert binding.id
        assert binding.description
        assert binding.tooltip


@pytest.mark.slow
async def test_long_text_is_wrapped_only_as_far_as_needed() -> None:
    taken: list[int] = []

    def parts() -> Iterator[TextPart]:
        for number in range(100_000):
            taken.append(number)
            yield TextPart(f"line {number}")

    class Reading(App[None]):
        def compose(self) -> ComposeResult:
            yield ReadingPane(parts())

    app = Reading()
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert len(taken) < 300
        await pilot.press("pagedown", "j", "k", "up")
        assert len(taken) < 400
        await pilot.press("end")
        await until(pilot, lambda: "line 99999" in drawn(app))
        await pilot.press("home")
        assert "line 0 " in drawn(app)
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert "line 0 " in drawn(app)


def test_snapshot_quit(snap_compare: Any) -> None:
    """A small dialog in the middle; export is chosen; each answer has its key."""
    assert snap_compare(Shell(build_quit_prompt()), terminal_size=(60, 14))


def test_snapshot_help(snap_compare: Any) -> None:
    """Keys in one column, what they do in another, under the name of the screen."""
    screen = HelpScreen([PickerScreen([], now=0), PickerList(SessionListing([]), 0)])
    assert snap_compare(Shell(screen), terminal_size=(60, 20))


def test_lines_break_at_blanks_and_never_exceed_the_width() -> None:
    assert list(wrap_text("one two three\n\nfour", 9)) == ["one two", "three", "", "four"]
    assert list(wrap_text("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]
    assert list(wrap_text("a " + "x" * 12, 10)) == ["a xxxxxxxx", "xxxx"]
    assert list(wrap_text("日本語 の 文章です", 8)) == ["日本語", "の 文章", "です"]
    assert list(wrap_text("", 10)) == [""]
    assert list(wrap_text("日", 1)) == ["日"]


def test_what_is_wrapped_stays_below_the_indent() -> None:
    assert list(wrap_text("  one two three\nfour", 9)) == ["  one two", "  three", "four"]
    assert list(wrap_text(" " * 30 + "one two three", 10))[-2:] == ["     two", "     three"], (
        "half of a line is for the text"
    )


@pytest.mark.slow
async def test_the_footer_has_the_keys_that_fit_and_none_by_half() -> None:
    running = inspecting.app()
    async with running.run_test(size=(60, 20)) as pilot:
        await inspecting.settled(pilot)
        for width in (60, 80, 96, 97, 160, 70):
            await pilot.resize_terminal(width, 30)
            await until(pilot, lambda width=width: running.screen.query_one(KeyFooter)._fitted_width == width)  # type: ignore[misc]
            await pilot.pause()
            line = drawn(running).splitlines()[-1].rstrip()
            assert line.startswith("↑↓ row ? help ") and line.endswith("q quit") and " e export / find " in line
            assert ("Z turns" in line, "P policy" in line) == (width > 60, width > 80)
