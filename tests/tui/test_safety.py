"""Session text is data: none of it is taken for markup, and no control character of it reaches a line that is drawn."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.widgets import Input

from context_tui.policies.registry import list_policy_names
from context_tui.session.memory import from_messages
from context_tui.session.session import Session, SessionInfo
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.options import InspectorOptions
from context_tui.tui.rendering.formatting import MessageReader, format_call, format_line
from context_tui.tui.terminal.output_filter import ContrastAdjuster, OutputFilter
from context_tui.tui.timeline.rows import Location
from tests.tui.fakes import drawn
from tests.tui.inspecting import inspector, settled, unsafe

MARKUP = "[/] [/foo] [red]warm[/red] [#ff0]x [@click=app.quit]press[/] \\[b] [link=https://a]b[/link]"
CONTROLS = (
    "\x1b]0;owned\x07 \x1b]52;c;b3duZWQ=\x07 \x1b[31mred \x1b[2J \x1bPq\x1b\\ \x9b31m \x9d0;owned\x9c"
    " \x07 \x08 \r \x0b \x00 \x7f \x85 \u202eevil\u202c \u2066x\u2069 \u200f \ud800 \u2028"
)
HOSTILE = MARKUP + CONTROLS
READABLE, LIT = ContrastAdjuster(ColorSystem.TRUECOLOR, dark=True), Style(color="#ffffff", bgcolor="#000000")


def hostile(text: str = HOSTILE) -> Session:
    """A session with *text* everywhere that a session has text."""
    call = {"type": "tool_use", "id": text, "name": text, "input": {"file_path": text, text: [text, {text: text}]}}
    edit = {"type": "tool_use", "id": "e", "name": "Edit", "input": {"old_string": text, "new_string": text + "x"}}
    result = {"type": "tool_result", "tool_use_id": text, "content": text * 40, "is_error": True}
    listed = {"type": "tool_result", "tool_use_id": "e", "content": [{"type": "text", "text": text}, {"type": text}]}
    image = {"type": "image", "source": {"type": "base64", "media_type": text, "data": text}}
    messages: list[dict[str, Any]] = []
    for _ in range(5):
        messages += [
            {"role": "user", "content": [{"type": "text", "text": text}, image]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": text}, {"type": text}, call, edit]},
            {"role": "user", "content": [result, listed]},
            {"role": "assistant", "content": text},
        ]
    made = from_messages(messages)
    made.facts.model = text
    info = SessionInfo(f"/tmp/{text}", "claude-code", id=text, title=text, cwd=text)
    return Session(made.facts, made.content, info, len(made))


def safe(app: ContextTuiApp) -> None:
    text = drawn(app)
    assert not unsafe(text.replace("\n", "")), unsafe(text.replace("\n", ""))


@pytest.mark.slow
async def test_every_widget_draws_hostile_text_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    running = ContextTuiApp(hostile())
    # Without the guard: what enters the widgets has to be safe already.
    monkeypatch.setattr(ContextTuiApp, "get_line_filters", App.get_line_filters)
    async with running.run_test(size=(140, 44), notifications=True) as pilot:
        await settled(pilot)
        screen = inspector(running)
        safe(running)
        assert "[red]warm[/red]" in drawn(running), "markup stands there as it was written"
        rows = screen.controller.rows
        for row in range(4, 11):
            screen.query_one(Timeline).select_location(Location(rows.message[row], max(rows.block[row], -1)))
            await pilot.pause(0.1)
            safe(running)
        for policy in list_policy_names():
            screen.action_policy(policy)
            await settled(pilot)
            safe(running)
        screen.action_breakdown()
        await settled(pilot)
        safe(running)
        screen._filter_by_part("tool", HOSTILE)
        await settled(pilot)
        safe(running)
        screen.action_unfilter()
        screen.show_notification(HOSTILE)
        screen.panes.set_status(HOSTILE)
        await settled(pilot)
        safe(running)


@pytest.mark.parametrize(
    "action",
    ["filter", "app.help", "full_screen('problems')", "dialog('set_window')", "dialog('apply_plan')", "export"],
)
async def test_every_screen_draws_hostile_text_as_text(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    running = ContextTuiApp(hostile(), InspectorOptions(policy="defect-compact"))
    monkeypatch.setattr(ContextTuiApp, "get_line_filters", App.get_line_filters)
    async with running.run_test(size=(140, 44), notifications=True) as pilot:
        await settled(pilot)
        await inspector(running).run_action(action)
        await pilot.pause(0.3)
        safe(running)


@pytest.mark.slow
async def test_the_palette_draws_hostile_text_as_text() -> None:
    running = ContextTuiApp(hostile())
    async with running.run_test(size=(140, 44)) as pilot:
        await settled(pilot)
        await running.run_action("command_palette")
        await pilot.pause(0.2)
        running.screen.query_one(Input).value = "pol"
        await pilot.pause(0.5)
        safe(running)


async def test_a_click_on_hostile_text_runs_nothing() -> None:
    running = ContextTuiApp(hostile("[@click=app.quit]press[/]"))
    async with running.run_test(size=(140, 44)) as pilot:
        await settled(pilot)
        for x in range(0, 140, 9):
            for y in (0, 8, 12, 38):
                assert "@click" not in running.screen.get_style_at(x, y).meta
        assert running.is_running


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("[]/@=\x1b\x9b\x07\u202e\\")), max_size=60))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_no_line_of_text_has_a_control_character(text: str) -> None:
    assert not unsafe(format_line(text)) and not unsafe(format_call(text, {"path": text}, text)), repr(text)
    made = hostile(text)
    reader = MessageReader(made)
    for message in range(4):
        assert not unsafe(reader.format_preview(message))
        for block in made.facts.blocks_of(message):
            assert not unsafe(reader.format_preview(message, block)) if made.facts.kind[block] == 3 else True


@given(st.text(alphabet=st.characters(), max_size=40))
def test_the_guard_lets_no_control_character_through(text: str) -> None:
    (segment,) = OutputFilter(READABLE).apply([Segment(text, Style())], Color(0, 0, 0))
    assert not {char for char in segment.text if unicodedata.category(char) == "Cc"}
    assert len(segment.text) == len(text)


def test_the_guard_keeps_what_is_safe_as_it_is() -> None:
    segments = [Segment("plain", LIT), Segment("日本語 ▇", LIT), Segment("", None, [(1, 2)])]  # type: ignore[list-item]
    assert OutputFilter(READABLE).apply(segments, Color(0, 0, 0)) == segments
    (plain,) = OutputFilter(READABLE, ascii=True).apply([Segment("▇─▶ 日")], Color(0, 0, 0))
    assert plain.text == "#-> 日"


def test_titles_and_notices_are_never_markup() -> None:
    """Where Textual parses markup, only content that was made from text may go."""
    folder = Path(__file__).parents[2] / "context_tui" / "tui"
    wrong = []
    for file in folder.rglob("*.py"):
        for number, text in enumerate(file.read_text().split("\n"), 1):
            if "notify(" in text and "markup=False" not in text and "def " not in text:
                wrong.append(f"{file.name}:{number}: {text.strip()}")
            if "from_markup" in text or "from_ansi" in text:
                wrong.append(f"{file.name}:{number}: {text.strip()}")
    assert not wrong, "\n".join(wrong)
