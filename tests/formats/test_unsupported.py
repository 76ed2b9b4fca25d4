"""Formats without a reader are named; none of the formats that can be read is taken for one of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.kit.heads import first_values
from context_tui.formats.opening import format_of
from context_tui.formats.unsupported import unsupported_format

TEXT = [{"type": "text", "text": "hello"}]
AI = {"type": "ai", "data": {"content": "hello", "tool_calls": []}}
LINES: dict[str, list[dict[str, Any]]] = {
    "Codex rollouts": [
        {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "x", "cwd": "/src"}},
        {"timestamp": "2026-01-01T00:00:01Z", "type": "event_msg", "payload": {"type": "task_started"}},
    ],
    "old Codex rollouts": [
        {"id": "x", "timestamp": "2025-08-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
    ],
    "pi sessions": [
        {"type": "session", "id": "x", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/src"},
        {"type": "message", "message": {"role": "user", "content": "hello"}},
    ],
    "Gemini CLI sessions": [
        {"sessionId": "x", "projectHash": "y", "startTime": "z"},
        {"id": "1", "type": "user", "content": "hello"},
        {"$set": {"lastUpdated": "z"}},
    ],
    "Copilot CLI sessions": [
        {"type": "session.start", "data": {"sessionId": "x"}, "id": "1", "parentId": None},
        {"type": "user.message", "data": {"content": "hello"}, "id": "2", "parentId": "1"},
    ],
    "defect journals": [
        {"schema_version": 1, "seq": 0, "record": {"type": "turn_started"}},
        {"schema_version": 1, "seq": 1, "record": {"type": "message", "message": {"role": "user", "content": TEXT}}},
    ],
    "stream-json or agent-sdk transcripts": [
        {"type": "system", "subtype": "init", "session_id": "x", "tools": []},
        {"type": "assistant", "session_id": "x", "message": {"role": "assistant", "content": TEXT}},
    ],
    "Goose sessions": [
        {"working_dir": "/src", "description": "d", "message_count": 1},
        {"role": "user", "created": 1, "content": [{"type": "toolResponse", "id": "1"}]},
    ],
    "OpenHands evaluation logs": [
        {"instance_id": 1, "history": [[{"action": "message"}, {"observation": "null"}]]},
        {"instance_id": 2, "history": [{"id": 0, "source": "agent", "action": "run"}]},
    ],
    "OpenAI Responses item lists": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "1", "name": "n", "arguments": "{}"},
    ],
}
DOCUMENTS: list[tuple[str, Any]] = [
    ("Gemini CLI sessions", {"sessionId": "x", "projectHash": "y", "messages": [{"type": "user", "content": "hi"}]}),
    ("opencode sessions", {"info": {"id": "ses_1"}, "messages": [{"info": {"role": "user"}, "parts": []}]}),
    ("opencode sessions", {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {}}),
    ("OpenHands event lists", [{"id": "1", "source": "user", "kind": "MessageEvent"}]),
    ("OpenHands trajectories", [{"id": 0, "source": "user", "action": "message", "args": {}}]),
    ("OpenHands evaluation records", {"instance_id": 1, "history": [{"source": "user", "action": "message"}]}),
    ("SWE-agent trajectories", {"environment": "e", "trajectory": [{"action": "ls"}], "history": [], "info": {}}),
    ("SWE-agent trajectories", {"history": [{"role": "user", "content": "x", "agent": "main"}], "info": {}}),
    ("mini-swe-agent trajectories", {"messages": [{"role": "user", "content": "x"}], "trajectory_format": "mini-1"}),
    ("Cline or Roo conversations", [{"role": "user", "content": TEXT, "ts": 1}]),
    (
        "Cline or Roo conversations",
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": TEXT, "ts": 2}],
    ),
    ("Cline or Roo message logs", [{"ts": 1, "type": "say", "say": "text", "text": "hello"}]),
    (
        "Cline sessions",
        {"version": 1, "agent": "a", "sessionId": "x", "messages": [{"role": "user", "content": TEXT}]},
    ),
    ("OpenAI Responses requests", {"model": "m", "input": "hello"}),
    ("OpenAI Responses requests", {"model": "m", "input": [{"type": "function_call_output", "call_id": "1"}]}),
    ("OpenAI Responses requests", {"object": "response", "output": [], "model": "m"}),
    ("OpenAI Responses item lists", LINES["OpenAI Responses item lists"]),
    ("LangChain dumps", [{"type": "human", "data": {"content": "hello"}}, AI]),
    ("LangChain dumps", {"lc": 1, "type": "constructor", "id": ["langchain"], "kwargs": {}}),
    ("LangGraph states", {"values": {"messages": [{"type": "human", "content": "hello"}]}}),
    ("defect snapshots", {"schema_version": 1, "next_seq": 4, "state": {"history": []}}),
]
TABLES = {
    "opencode databases": "CREATE TABLE session(id); CREATE TABLE message(id); CREATE TABLE part(id)",
    "Goose databases": "CREATE TABLE sessions(id); CREATE TABLE messages(id, role, content_json)",
    "Crush (or Go opencode) databases": (
        "CREATE TABLE sessions(id); CREATE TABLE files(id); CREATE TABLE messages(id, parts)"
    ),
}


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableSession) as raised:
        format_of(path)
    return str(raised.value)


@pytest.mark.parametrize("name", LINES)
def test_lines(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES[name])))
    assert refusal(path) == f"{path}: {name} are not supported yet; `context-tui formats` lists those that can be read"


@pytest.mark.parametrize(("name", "document"), DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_documents(name: str, document: Any, indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document, indent=indent))
    assert refusal(path) == f"{path}: {name} are not supported yet; `context-tui formats` lists those that can be read"


@pytest.mark.parametrize("name", TABLES)
def test_databases(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES[name])
    assert name in refusal(path)


def test_an_aider_history(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text("\n# aider chat started at 2026-01-01 00:00:00\n\n#### hello\n")
    assert "Aider chat histories" in refusal(path)


def test_a_long_first_line_does_not_hide_what_it_is(tmp_path: Path) -> None:
    line = {**LINES["Codex rollouts"][0], "payload": {"base_instructions": "x" * 3 * HEAD_BYTES}}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert "Codex rollouts" in refusal(path)


@pytest.mark.parametrize("length", range(1, 60))
def test_the_head_of_a_document_gives_what_is_there(length: int) -> None:
    text = json.dumps({"a": [1, {"b": 'cé\\ "d'}], "e": {"f": None, "g": "last"}})[: length + 1]
    (value,) = first_values(text.encode())
    assert isinstance(value, dict)
    if length > 40:
        assert value["a"] == [1, {"b": 'cé\\ "d'}]


def test_recordings(shared: Path) -> None:
    """Every file of the corpus is one of ours, is named, or is no session at all."""
    readable = {"claude-code": {"claude-code"}, "openai-chat": {"openai"}, "mini-swe-agent": {"openai"}}
    named = {
        **{"aider": "Aider", "cline-sdk": "Cline", "codex": "Codex", "copilot-cli": "Copilot", "crush": "Crush"},
        **{"gemini-cli": "Gemini", "goose": "Goose", "mini-swe-agent": "mini-swe-agent", "opencode": "opencode"},
        **{"openhands": "OpenHands", "pi": "pi session", "roo": "Cline or Roo", "swe-agent": "SWE-agent"},
    }
    no_session = ("opencode/storage/project", "opencode/storage/session_diff", "INDEX.tsv")
    corpus = shared / "corpus"
    for path in sorted(each for each in corpus.rglob("*") if each.is_file()):
        inside = str(path.relative_to(corpus))
        folder = inside.partition("/")[0]
        if inside.startswith(no_session):
            what = "an empty list" if path.read_bytes().strip() == b"[]" else "unknown session format"
            assert what in refusal(path)
        elif folder in readable and not (folder in named and path.stat().st_size > 50_000):
            assert format_of(path).name in readable[folder], inside
            assert unsupported_format(path.read_bytes()[:HEAD_BYTES], path) is None
        else:
            assert named[folder] in refusal(path), inside
