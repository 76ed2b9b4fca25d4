"""Pictures of the inspector. Whoever changes one looks at it: each test says what is to be seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from context_tui.session.session import Session, SessionInfo
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.options import InspectorOptions
from context_tui.tui.timeline.rows import Location
from tests.formats.providers import Provider
from tests.formats.recordings import text
from tests.tui.fakes import until
from tests.tui.inspecting import CLEAR, DROP, eventful, inspector, session, settled

Snap = Callable[..., bool]
Steps = Callable[[Pilot[Any]], Awaitable[None]]


def running(pilot: Pilot[Any]) -> ContextTuiApp:
    app = pilot.app
    assert isinstance(app, ContextTuiApp)
    return app


def after(*actions: str, location: Location | None = None, key: str = "") -> Steps:
    """Settle, select, run the inspector's actions, press a key, settle."""

    async def steps(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        screen = inspector(running(pilot))
        if location is not None:
            screen.query_one(Timeline).select_location(location)
        for action in actions:
            await screen.run_action(action)
            await settled(pilot)
        if key:
            await pilot.press(key)
        await settled(pilot)

    return steps


def test_wide_dark(snap_compare: Snap) -> None:
    """Header, timeline with marks and bars, map, detail of a cleared result, scoreboard, sliders and curve."""
    app = ContextTuiApp(session())
    assert snap_compare(app, terminal_size=(140, 44), run_before=after(location=Location(4, 7)))


def test_wide_light(snap_compare: Snap) -> None:
    """The same on a light background: everything is readable."""
    app = ContextTuiApp(session(), theme="light")
    assert snap_compare(app, terminal_size=(140, 44), run_before=after(location=Location(4, 7)))


def test_small(snap_compare: Snap) -> None:
    """80 x 24: timeline and panel share the screen, the footer fits, nothing is cut in half."""
    assert snap_compare(ContextTuiApp(session()), terminal_size=(80, 24), run_before=after())


def test_smallest(snap_compare: Snap) -> None:
    """60 x 20: still usable."""
    assert snap_compare(ContextTuiApp(session()), terminal_size=(60, 20), run_before=after())


def test_small_detail(snap_compare: Snap) -> None:
    """80 x 24 with the message in place of the timeline."""
    app = ContextTuiApp(session())
    assert snap_compare(app, terminal_size=(80, 24), run_before=after(key="space", location=Location(1)))


def test_as_of_a_compaction(snap_compare: Snap) -> None:
    """Rows before the compaction and after the point are dim with < and >; a rule says where it was compacted."""
    app = ContextTuiApp(session(compacted=True))
    assert snap_compare(app, terminal_size=(120, 40), run_before=after("run('toggle_point')", location=Location(36)))


@pytest.mark.parametrize("size", [(160, 50), (80, 24)], ids=str)
def test_table_of_contents(snap_compare: Snap, size: tuple[int, int]) -> None:
    """All turns but the second folded: a line and a bar for each, what is cleared on it, the rule of a compaction."""
    options = InspectorOptions(settings={"defect-microcompact": {"keep_recent_turns": 1}})
    app = ContextTuiApp(session(compacted=True), options)
    steps = after("run('toggle_all_folds')", "run('toggle_fold')", location=Location(26))
    assert snap_compare(app, terminal_size=size, run_before=steps)


def test_a_drop(snap_compare: Snap) -> None:
    """A mark in the recorded line, a rule above the reply at which it shows, and words for it in the detail."""
    app = ContextTuiApp(eventful())
    assert snap_compare(app, terminal_size=(120, 40), run_before=after(location=Location(DROP)))


@pytest.mark.slow
def test_a_clear(snap_compare: Snap) -> None:
    """80 x 24, as of just before /clear: its rule, and the recorded line begins anew behind the point."""
    app = ContextTuiApp(eventful())
    assert snap_compare(app, terminal_size=(80, 24), run_before=after("run('toggle_point')", location=Location(CLEAR)))


def test_summarised(snap_compare: Snap) -> None:
    """defect-compact: S marks up to the boundary, = in the tail."""
    options = InspectorOptions(policy="defect-compact", settings={"defect-compact": {"threshold": 12_000}})
    app = ContextTuiApp(session(), options)
    assert snap_compare(app, terminal_size=(120, 40), run_before=after(location=Location(30)))


def test_finding(snap_compare: Snap) -> None:
    """Matching rows are shaded, the count is told, and the text is marked in the detail."""

    async def steps(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        screen = inspector(running(pilot))
        await pilot.press("slash")
        screen.query_one(Input).cursor_blink = False
        screen.query_one(Input).value = "rotate"
        await until(pilot, lambda: screen.controller.search.is_finished)
        await pilot.press("enter")
        await settled(pilot)

    assert snap_compare(ContextTuiApp(session()), terminal_size=(120, 40), run_before=steps)


def test_breakdown(snap_compare: Snap) -> None:
    """Where did it go, in place of the detail."""
    assert snap_compare(ContextTuiApp(session()), terminal_size=(120, 40), run_before=after("breakdown"))


def test_by_recorded_sizes(snap_compare: Snap, tmp_path: Path) -> None:
    """By the calibrated ruler: named in the header with its error, over the columns, and beside the next requests."""
    app = ContextTuiApp(measured_session(tmp_path))
    assert snap_compare(
        app, terminal_size=(140, 44), run_before=after("run('cycle_measure')", "breakdown", location=Location(40))
    )


def test_calibration(snap_compare: Snap, tmp_path: Path) -> None:
    """The calibrations of two models: factors and errors of one that has them, the reason of one that has not."""
    app = ContextTuiApp(measured_session(tmp_path))
    assert snap_compare(app, terminal_size=(100, 40), run_before=after("full_screen('calibration')"))


def measured_session(folder: Path) -> Session:
    """A recording by a provider whose tokenizer is known; at its end another model answers."""
    made = Provider()
    for number in range(4):
        made.user(f"step {number}: rotate the refresh tokens")
        made.steps(10)
    made.model = "claude-haiku-4-5"
    made.reply(text("done"))
    found = made.recording.open(folder)
    return replace(found, info=SessionInfo("/tmp/refactor-auth.jsonl", "anthropic"))


def test_filters(snap_compare: Snap) -> None:
    """The list of conditions over a dimmed inspector."""
    assert snap_compare(ContextTuiApp(session()), terminal_size=(100, 44), run_before=after("filter"))


def test_empty(snap_compare: Snap) -> None:
    """A session without messages says so, and nothing looks broken."""
    assert snap_compare(ContextTuiApp(session(0)), terminal_size=(100, 30), run_before=after())


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
def test_sixteen_colours(snap_compare: Snap, theme: str) -> None:
    """As under NO_COLOR: the cursor is told by being reversed."""
    app = ContextTuiApp(session(), theme=theme)
    assert snap_compare(app, terminal_size=(120, 40), run_before=after(location=Location(4, 7)))


def test_plain_characters(snap_compare: Snap) -> None:
    """--ascii: no character that is not on a keyboard."""
    app = ContextTuiApp(session(compacted=True), InspectorOptions(ascii=True))
    assert snap_compare(app, terminal_size=(120, 40), run_before=after(location=Location(28)))
