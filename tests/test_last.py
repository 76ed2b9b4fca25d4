"""What is kept between runs without being asked: the policy, its settings and the layout."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from benchmarks.pty import Terminal
from context_tui.app.state import EMPTY_STATE, InspectorState, find_state_path, read_state, write_state
from context_tui.policies.registry import DEFAULT_POLICY
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import View, build_inspector_state, format_settings, restore_settings
from tests.tui.fakes import until
from tests.tui.inspecting import app, conversation, file_of, inspector, session, settled

CHOSEN = InspectorState({"anthropic": "agent-sdk-prune"}, {"defect-microcompact": ("keep_recent_turns=1",)}, True)


def test_what_was_kept_is_read_again_and_only_the_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    write_state(CHOSEN, path)
    assert read_state(path) == CHOSEN and [*path.parent.iterdir()] == [path]
    write_state(InspectorState({"codex": "manual"}), path)
    assert read_state(path) == InspectorState({"codex": "manual"})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"policy": 3}', "\xff", "[" * 100_000, '{"policy": null}'])
def test_what_is_no_state_is_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    assert read_state(path) == EMPTY_STATE
    assert read_state(tmp_path / "none") == read_state(None) == read_state(tmp_path) == EMPTY_STATE


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_state(CHOSEN, tmp_path / "file" / "state.json")
    write_state(CHOSEN, None)
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def test_its_place_can_be_named_or_be_nowhere() -> None:
    assert find_state_path({"CONTEXT_TUI_STATE": "/x/s.json"}) == Path("/x/s.json")
    assert find_state_path({"CONTEXT_TUI_STATE": ""}) is None
    assert str(find_state_path({})).endswith(os.path.join("context-tui", "state.json"))


def test_what_is_not_known_or_valid_any_more_is_left_out() -> None:
    settings = {
        "defect-microcompact": ("keep_recent_turns=1",),
        "defect-compact": ("threshold=never",),
        "agent-sdk-prune": ("keep_recent_turns=1",),
        "another": ("a=1",),
    }
    assert restore_settings(InspectorState({"anthropic": "another"}, settings), session()) == (
        DEFAULT_POLICY,
        {"defect-microcompact": {"keep_recent_turns": 1}},
    )
    assert restore_settings(EMPTY_STATE, session()) == (DEFAULT_POLICY, {})


def test_marks_of_one_session_are_not_kept() -> None:
    view = View(session()).with_param("defect-microcompact", "keep_recent_turns", 1).toggle_cut(3)
    assert build_inspector_state(view, {"codex": "chain"}, breakdown=False) == InspectorState(
        {"codex": "chain", "anthropic": "manual"}, {"defect-microcompact": ("keep_recent_turns=1",)}
    )
    assert format_settings(view.params).startswith("defect-microcompact.keep_recent_turns=1")
    assert view.cursor == Location(0)


def app_after(state: InspectorState, **asked: Any) -> ContextTuiApp:
    """The application after a run that ended in a state."""
    running = app(**asked)
    running.options, running.last_state = replace(running.options, last_state=state), state
    return running


@pytest.mark.slow
async def test_the_inspector_begins_as_it_was_left_and_says_so() -> None:
    running = app_after(CHOSEN)
    async with running.run_test(size=(160, 50)) as pilot:
        await settled(pilot)
        screen = inspector(running)
        assert screen.view.policy == "agent-sdk-prune" and screen.saved_state == CHOSEN
        assert "as you left them: defect-microcompact.keep_recent_turns=1" in str(
            screen.query_one("#status", Static).content
        )
        await pilot.press("1", "right", "b")
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)
    assert running.last_state == InspectorState({}, {"defect-microcompact": ("keep_recent_turns=2",)})


async def test_a_policy_that_was_named_counts_once() -> None:
    running = app_after(CHOSEN, policy="defect-compact")
    async with running.run_test(size=(160, 50)) as pilot:
        await settled(pilot)
        assert inspector(running).view.policy == "defect-compact" and not inspector(running).view.params
        await pilot.press("q")
    assert running.last_state == CHOSEN


@pytest.mark.slow
def test_the_next_run_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    argv = [sys.executable, "-m", "context_tui", "sample_sessions/coding-session.jsonl"]
    for title in ("1 claude-code-auto", "2 claude-code-micro"):
        with Terminal(argv, columns=160, rows=50, env={"CONTEXT_TUI_STATE": str(state)}) as terminal:
            terminal.wait_for(title, 30)
            terminal.settle()
            terminal.quit("2q")
            assert terminal.status == 0
    assert read_state(state) == InspectorState({"claude-code": "claude-code-micro"})


@pytest.mark.slow
@pytest.mark.parametrize("policy", [None, "defect-compact"])
async def test_another_session_is_opened_with_what_is_chosen_by_now(tmp_path: Path, policy: str | None) -> None:
    first = file_of(tmp_path / "first.jsonl", conversation())
    other = file_of(tmp_path / "other.jsonl", conversation(3))
    running = app(first, policy=policy)
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("3", "right")
        chosen = inspector(running).saved_state
        assert chosen.policies == {"anthropic": "koda-microcompact"} and chosen.settings
        running._replace_session(other)
        await until(pilot, lambda: len(inspector(running).view.session) == 24)
        assert inspector(running).saved_state == chosen


def test_a_screen_that_is_still_being_opened_tells_what_it_was_opened_with() -> None:
    assert InspectorScreen(session(), InspectorOptions(last_state=CHOSEN)).saved_state == CHOSEN
