"""From the inspector to the picker and back: what it lists, what is asked, and what is let go."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from context_tui.formats.opening import choose_session, open_session
from context_tui.library.discovery import IN_THIS_FOLDER, SAMPLES, THIS_PROJECT
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.picker.screen import PickerScreen
from context_tui.tui.threads import _threads
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import AppliedPlan, View
from context_tui.tui.widgets.dialogs import ChoicePrompt
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import conversation, file_of, settled
from tests.tui.test_key_queue import burst
from tests.tui.test_picker import write

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with one recorded session, of another project."""
    root = tmp_path / "machine"
    write(root / "projects" / "-elsewhere" / "recorded.jsonl", "Recorded before", tokens=20_000)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(root))
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sessions of which the first has a sub-agent."""
    folder = tmp_path / "work"
    write(folder / "main.jsonl", "What was asked", tokens=150_000)
    write(folder / "agent-a1.jsonl", "Look around", tokens=20_000, agent="a1", session="main")
    write(folder / "other.jsonl", "Another thing", tokens=30_000)
    return folder


def inspector(app: ContextTuiApp) -> InspectorScreen:
    return next(screen for screen in app.screen_stack if isinstance(screen, InspectorScreen))


async def back(pilot: Pilot[Any]) -> PickerScreen:
    """Press ctrl+o and wait for the picker."""
    await pilot.press("ctrl+o")
    await until(pilot, lambda: isinstance(pilot.app.screen, PickerScreen) and pilot.app.screen.is_mounted)
    picker = pilot.app.screen
    assert isinstance(picker, PickerScreen)
    await until(pilot, lambda: not picker.is_finding)
    return picker


def listed(picker: PickerScreen) -> list[str]:
    return [line if isinstance(line, str) else line.entry.name for line in picker.listing.lines]


async def test_it_lists_the_folder_what_belongs_to_the_session_and_this_machine(folder: Path) -> None:
    app = ContextTuiApp(choose_session(folder / "main.jsonl"))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        picker = await back(pilot)
        await until(pilot, lambda: "Look around" in drawn(app))
        names = listed(picker)
        assert names[0] == IN_THIS_FOLDER
        assert sorted(names[1:4]) == ["a1", "main", "other"]
        assert names[names.index("main") + 1] == "a1"
        assert names[4:7] == ["other projects", "recorded", SAMPLES]
        assert picker.listing.selected_session is not None
        assert picker.listing.selected_session.entry.name == "main"
        assert THIS_PROJECT not in names


@pytest.mark.parametrize("key", ["escape", "ctrl+o", "enter"])
async def test_the_session_comes_back_as_it_was(folder: Path, key: str) -> None:
    app = ContextTuiApp(file_of(folder / "long.jsonl", conversation()))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("home", "down", "down", "3")
        await settled(pilot)
        screen, before, location = inspector(app), inspector(app).view, inspector(app).location
        await back(pilot)
        await pilot.press(key)
        await until(pilot, lambda: app.screen is screen)
        assert screen.view is before
        assert screen.location == location


async def test_another_session_takes_its_place_and_nothing_of_the_old_one_stays(folder: Path) -> None:
    app = ContextTuiApp(choose_session(folder / "main.jsonl"), InspectorOptions(at=1))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        screen = weakref.ref(inspector(app))
        facts = weakref.ref(inspector(app).view.session.facts)
        await back(pilot)
        await pilot.press("slash", *"other.jsonl", "enter")
        await until(pilot, lambda: "Another thing" in drawn(app) and isinstance(app.screen, InspectorScreen))
        await settled(pilot)
        assert len(app.screen_stack) == 2
        assert inspector(app).view.at is None, "the point was the other session's"
        await until(pilot, lambda: gc.collect() >= 0 and facts() is None)
        assert screen() is None or not screen().is_attached  # type: ignore[union-attr]
        await until(pilot, lambda: not any(thread.is_alive() for thread in list(_threads)))


def test_no_plan_outlives_the_views_of_its_session(folder: Path) -> None:
    view = View(open_session(folder / "main.jsonl"))
    facts = weakref.ref(view.session.facts)
    later = replace(view, at=1)
    assert view.plan is not None
    assert later.plan is not None
    del view
    assert later.plan is not None
    del later
    gc.collect()
    assert facts() is None


async def test_a_sub_agent_is_opened_like_any_other(folder: Path) -> None:
    write(folder / "agent-a2.jsonl", "Look elsewhere", agent="a2", session="main")
    app = ContextTuiApp(choose_session(folder / "main.jsonl"))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        picker = await back(pilot)
        await until(pilot, lambda: "a1" in listed(picker))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        await settled(pilot)
        assert inspector(app).view.session.info.id == "a1"
        picker = await back(pilot)
        assert picker.listing.selected_session is not None
        assert picker.listing.selected_session.entry.name == "a1"
        assert picker.listing.selected_session.parent is not None
        await until(pilot, lambda: "a2" in listed(picker))
        assert drawn(app).count("sub-agent") == 2
        assert picker.listing.selected_session.entry.name == "a1"


async def test_a_result_that_was_not_exported_is_asked_about_first(folder: Path) -> None:
    path = file_of(folder / "long.jsonl", conversation())
    app = ContextTuiApp(path)
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        screen = inspector(app)
        screen.run_command(screen.controller.change_view, copied(screen))
        picker = await back(pilot)
        await pilot.press("slash", *"other.jsonl", "enter")
        await until(pilot, lambda: isinstance(app.screen, ChoicePrompt))
        assert "not exported" in drawn(app)
        await pilot.press("s")
        await until(pilot, lambda: app.screen is screen)
        assert screen.view.is_unexported
        assert await back(pilot) is not picker
        await pilot.press("slash", *"other.jsonl", "enter")
        await until(pilot, lambda: isinstance(app.screen, ChoicePrompt))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen) and app.screen is not screen)


def copied(screen: InspectorScreen) -> View:
    """The view of what applying a plan makes of a session."""
    copy = replace(screen.view.session, origin="test")
    return screen.view.with_copy(copy, AppliedPlan("test", "", {}), screen.location)


async def test_q_in_the_picker_quits_as_it_does_in_the_session(folder: Path) -> None:
    app = ContextTuiApp(choose_session(folder / "main.jsonl"))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await back(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)


async def test_several_that_were_given_are_listed_again(folder: Path) -> None:
    app = ContextTuiApp([choose_session(folder / "main.jsonl"), choose_session(folder / "other.jsonl")])
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await pilot.press("down", "enter")
        await settled(pilot)
        picker = await back(pilot)
        assert listed(picker)[:3] == [IN_THIS_FOLDER, "main", "other"]
        assert picker.listing.selected_session is not None
        assert picker.listing.selected_session.entry.name == "other"


async def test_it_is_in_the_command_palette(folder: Path) -> None:
    app = ContextTuiApp(choose_session(folder / "main.jsonl"))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        commands = [command.title for command in app.get_system_commands(app.screen)]
        assert any(title.startswith("Sessions:") for title in commands)


async def test_the_first_picker_has_no_way_back(folder: Path) -> None:
    app = ContextTuiApp([choose_session(folder / "main.jsonl"), choose_session(folder / "other.jsonl")])
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert isinstance(app.screen, PickerScreen)
        assert "session " not in drawn(app).splitlines()[-1]


def calling(folder: Path, agents: list[str]) -> Path:
    """A session whose second message calls sub-agents; the records of the results name them."""
    calls = [
        {"type": "tool_use", "id": f"c{n}", "name": "Task", "input": {"prompt": "Look"}} for n in range(len(agents))
    ]
    reply = {"id": "m1", "role": "assistant", "model": "claude-opus-4-5", "content": calls}
    records: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "Look around"}},
        {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": reply},
    ]
    for number, agent in enumerate(agents):
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "seen"}
        said = {"message": {"role": "user", "content": [result]}, "toolUseResult": {"agentId": agent}}
        records.append({"type": "user", "uuid": f"r{number}", "parentUuid": "a1", **said})
    path = folder / "calls.jsonl"
    path.write_text("".join(json.dumps({"sessionId": "calls", **record}) + "\n" for record in records))
    return path


async def test_from_a_call_to_its_sub_agent_and_back(folder: Path) -> None:
    path = calling(folder, ["b1"])
    write(folder / "calls" / "subagents" / "agent-b1.jsonl", "Seen from inside", agent="b1", session="calls")
    app = ContextTuiApp(choose_session(path))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("home", "down", "down")
        screen = inspector(app)
        for key in ("escape", "ctrl+o"):
            await pilot.press("enter")
            await until(pilot, lambda: app.screen is not screen and isinstance(app.screen, InspectorScreen))
            await until(pilot, lambda: "Seen from inside" in drawn(app))
            await pilot.press(key)
            await until(pilot, lambda: app.screen is screen)
            assert screen.location == Location(1)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is screen, "there is nothing below it"


async def test_of_several_sub_agents_one_is_chosen(folder: Path) -> None:
    path = calling(folder, ["b1", "b2"])
    for agent in ("b1", "b2"):
        write(folder / f"agent-{agent}.jsonl", f"Inside {agent}", agent=agent, session="calls")
    app = ContextTuiApp(choose_session(path))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("home", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, PickerScreen) and "Inside b2" in drawn(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "Inside b2" in drawn(app) and isinstance(app.screen, InspectorScreen))
        assert app.screen.view.session.info.id == "b2"  # type: ignore[attr-defined]


async def test_a_sub_agent_that_is_not_here_is_named(folder: Path) -> None:
    app = ContextTuiApp(choose_session(calling(folder, ["gone"])))
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await settled(pilot)
        await pilot.press("home", "down", "down", "enter")
        await until(pilot, lambda: "calls.jsonl#gone" in drawn(app))
        assert inspector(app).location.message == 2, "to the result, as of any call"


async def test_quitting_a_sub_agent_asks_about_what_is_below_it(folder: Path) -> None:
    path = calling(folder, ["b1"])
    write(folder / "agent-b1.jsonl", "Inside", agent="b1", session="calls")
    app = ContextTuiApp(choose_session(path))
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        screen = inspector(app)
        await pilot.press("home", "down", "down", "enter")
        await until(pilot, lambda: "Inside" in drawn(app) and app.screen is not screen)
        screen.controller.view = copied(screen)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, ChoicePrompt))


@pytest.mark.parametrize(
    ("keys", "opened"),
    [
        (["down", "enter"], "main"),
        (["down", "down", "enter"], "other"),
        (["slash", *"other", "enter", "enter"], "other"),
        (["down", "slash", *"mainx", "backspace", "enter", "enter"], "main"),
        (["slash", *"zz", "escape", "end", "home", "down", "down", "enter"], "other"),
    ],
)
async def test_keys_that_come_at_once_act_in_their_order(folder: Path, keys: list[str], opened: str) -> None:
    first = file_of(folder / "first.jsonl", conversation(1))
    app = ContextTuiApp([first, choose_session(folder / "main.jsonl"), choose_session(folder / "other.jsonl")])
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        burst(app, *keys)
        await settled(pilot)
        assert inspector(app).view.session.info.path.endswith(f"{opened}.jsonl")
        burst(app, "ctrl+o", "home", "slash", *"other", "enter", "enter")
        await until(pilot, lambda: "Another thing" in drawn(app) and isinstance(app.screen, InspectorScreen))
