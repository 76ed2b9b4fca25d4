"""What reading a session tells whoever chooses one; and which sub-agent a call started, where records say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession, WorkStopped
from context_tui.formats.opening import choose_session, sessions_in
from context_tui.library import overview
from context_tui.library.discovery import THIS_PROJECT, SessionEntry, find_choices, find_sibling_sessions, find_title
from context_tui.library.overview import (
    BRANCH,
    SAME_FILE,
    SUB_AGENT,
    OverviewReader,
    SessionOverview,
    find_subagent_sessions,
)
from context_tui.session.session import SessionInfo
from context_tui.tokens.accounting import find_last_usage

SAMPLES = Path(__file__).parents[1] / "sample_sessions"


def found(path: Path, *, format: str = "") -> SessionEntry:
    return SessionEntry(SessionInfo(str(path), format), THIS_PROJECT, "project")


def put(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [{"sessionId": "main", "uuid": f"{path.name}{n}", **record} for n, record in enumerate(records)]
    path.write_text("".join(json.dumps(record) + "\n" for record in named))
    return path


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def calls(*ids: str, tool: str = "Task") -> dict[str, Any]:
    content = [{"type": "tool_use", "id": each, "name": tool, "input": {}} for each in ids]
    return {"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "x", "content": content}}


def answer(call: str, agent: str) -> dict[str, Any]:
    said = user([{"type": "tool_result", "tool_use_id": call, "content": "done"}])
    return said | {"toolUseResult": {"agentId": agent}}


def test_how_full_it_was_is_what_the_inspector_says() -> None:
    look = OverviewReader().read_overview(found(SAMPLES / "coding-session.jsonl"))
    session = ct.open_session(SAMPLES / "coding-session.jsonl")
    usage = find_last_usage(session.context_at())
    assert usage is not None
    assert (look.agent, look.tokens, look.window) == (session.info.format, usage.context, session.window.tokens)


def test_what_is_not_recorded_is_not_known() -> None:
    assert OverviewReader().read_overview(found(SAMPLES / "koda.db")).tokens is None
    assert OverviewReader().read_overview(found(SAMPLES / "agent-sdk-request.json")).window != 0


@pytest.mark.parametrize("data", [b"", b"\0\1", b"{}\n"])
def test_what_cannot_be_read_tells_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(data)
    look = OverviewReader().read_overview(found(path))
    assert look == SessionOverview(problem=look.problem)
    assert look.problem.startswith(f"{path}: ")
    assert OverviewReader().read_overview(found(tmp_path / "gone.jsonl", format="claude-code")).tokens is None


def test_what_belongs_to_a_session_is_found_with_it() -> None:
    sample = OverviewReader().read_overview(found(SAMPLES / "compacted-session.jsonl"))
    places = [entry.place for entry in sample.children]
    assert BRANCH in places or SUB_AGENT in places
    for entry in sample.children:
        assert ct.open_session(f"{entry.info.path}#{entry.info.id}").info.id == entry.info.id
    several = OverviewReader().read_overview(found(SAMPLES / "koda.db"))
    assert {entry.place for entry in several.children} == {SAME_FILE}
    assert [entry.name for entry in several.children] == [info.id for info in sessions_in(SAMPLES / "koda.db")]


def test_large_files_are_not_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MAX_READ_BYTES", 100)
    look = OverviewReader().read_overview(found(SAMPLES / "coding-session.jsonl"))
    assert look.agent
    assert look.tokens is None


def test_reading_stops_when_it_is_not_wanted() -> None:
    class Enough(WorkStopped):
        pass

    def stop() -> None:
        raise Enough

    looking_at = OverviewReader()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Enough):
        patch.setattr(overview, "READ_STEP_S", 0.0)
        looking_at.read_overview(found(SAMPLES / "coding-session.jsonl"), stop)


def test_a_sub_agent_is_called_what_it_was_asked(tmp_path: Path) -> None:
    put(tmp_path / "agent-a1.jsonl", user("Look at the tests", isSidechain=True, agentId="a1"))
    put(tmp_path / "main.jsonl", user("Fix it"))
    agent = next(info for info in sessions_in(tmp_path / "main.jsonl") if info.id == "a1")
    assert find_title(agent) == "Look at the tests"
    (tmp_path / "agent-request.json").write_text("[]")
    assert sorted(entry.name for entry in find_sibling_sessions(agent)) == ["agent-request", "main"]
    listed = [entry for entry in [*find_choices([agent], agent)][-1] if Path(entry.info.path).parent == tmp_path]
    assert sorted(entry.name for entry in listed) == ["a1", "agent-request", "main"]


@pytest.mark.parametrize("where", [".", "main/subagents", "main/subagents/workflows/w"])
def test_the_record_of_a_result_says_which_sub_agent_it_was(tmp_path: Path, where: str) -> None:
    agent = put(tmp_path / where / "agent-a1.jsonl", user("Look", isSidechain=True, agentId="a1"))
    path = put(tmp_path / "main.jsonl", user("Go"), calls("c1", "c2"), answer("c2", "a1"), answer("c1", "gone"))
    session = ct.open_session(path)
    assert [(info.id, info.path) for info in find_subagent_sessions(session, 1)] == [("a1", str(agent))]
    assert find_subagent_sessions(session, 0) == find_subagent_sessions(session, 2) == []


def test_the_notes_of_a_sub_agent_say_which_call_started_it(tmp_path: Path) -> None:
    path = put(tmp_path / "main.jsonl", user("Go"), calls("c1", tool="Agent"))
    assert find_subagent_sessions(ct.open_session(path), 1) == []
    agent = put(tmp_path / "main" / "subagents" / "agent-a1.jsonl", user("Look", isSidechain=True, agentId="a1"))
    agent.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": "c1"}))
    agent.with_name("agent-a2.meta.json").write_text("[" * 70_000)
    assert [info.id for info in find_subagent_sessions(ct.open_session(path), 1)] == ["a1"]


@pytest.mark.parametrize("agent", ["gone", "../../etc/passwd", "*", ""])
def test_a_sub_agent_that_is_not_here_is_an_error_in_one_line(tmp_path: Path, agent: str) -> None:
    path = put(tmp_path / "main.jsonl", user("Go"), calls("c1"), answer("c1", agent))
    session = ct.open_session(path)
    if not agent:
        assert find_subagent_sessions(session, 1) == []
        return
    with pytest.raises(UnreadableSession, match="is not here"):
        find_subagent_sessions(session, 1)


def test_other_tools_start_no_sub_agents(tmp_path: Path) -> None:
    path = put(tmp_path / "main.jsonl", user("Go"), calls("c1", tool="Bash"), answer("c1", "a1"))
    assert find_subagent_sessions(ct.open_session(path), 1) == []
    assert find_subagent_sessions(ct.from_messages([user("x")["message"]]), 0) == []
    assert choose_session(path).id == ""
