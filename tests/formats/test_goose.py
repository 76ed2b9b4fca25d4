"""Goose: rows and lines of one shape; what the model no longer has, summaries, the session's tokens, schemas."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_tui.compaction.recorded_compactions import count_tokens_by_category
from context_tui.errors import UnreadableSession
from context_tui.formats.goose import GooseFormat
from context_tui.formats.opening import choose_session, detect_format, make_scanner, open_session, sessions_in
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag
from tests.formats.histories import columns

FORM = GooseFormat()
SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, session_type TEXT, working_dir TEXT,
    created_at TIMESTAMP, updated_at TIMESTAMP, total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content_json TEXT,
    created_timestamp INTEGER, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT);
INSERT INTO sessions VALUES ('20251202_1', 'Looking', '', 'user', '/src', '2025-12-02 16:00:00', '2025-12-02 17:00:00',
    1290, 1200, 90);
"""
OLD = SCHEMA.replace(", metadata_json TEXT", "").replace("name TEXT, ", "").replace("'Looking', ''", "'Looking'")
START = 1_764_691_000
BOTH = {"userVisible": True, "agentVisible": True}
USERS = {"userVisible": True, "agentVisible": False}
AGENTS = {"userVisible": False, "agentVisible": True}
NOBODY = {"userVisible": False, "agentVisible": False}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

Message = dict[str, Any]


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def asks(name: str, tool: str = "developer__shell", **arguments: Any) -> dict[str, Any]:
    return {
        "type": "toolRequest",
        "id": name,
        "toolCall": {"status": "success", "value": {"name": tool, "arguments": arguments}},
    }


def answers(name: str, value: Any, status: str = "success") -> dict[str, Any]:
    key = "error" if status == "error" else "value"
    return {"type": "toolResponse", "id": name, "toolResult": {"status": status, key: value}}


def message(role: str, *content: Any, metadata: Any = None) -> Message:
    return {"role": role, "content": [*content], **({"metadata": metadata} if metadata else {})}


WHOLE = [
    message("user", said("Look.")),
    message(
        "assistant",
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        said("I do."),
        asks("c1", command="ls"),
        asks("c2"),
        {"type": "toolRequest", "id": "c3", "toolCall": {"status": "error", "error": "bad JSON"}},
        {"type": "toolConfirmationRequest", "id": "c1"},
    ),
    message(
        "user",
        answers(
            "c1",
            [
                {"type": "text", "text": "for the model", "annotations": {"audience": ["assistant"]}},
                {"type": "text", "text": "for people", "annotations": {"audience": ["user"], "priority": 0.0}},
            ],
        ),
        answers("c2", {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}], "isError": True}),
        answers("c3", "could not be read", "error"),
    ),
    message("assistant", said("Done."), {"type": "redactedThinking", "data": "eA=="}),
    message("assistant", {"type": "systemNotification", "msg": "compacting"}),
]
AFTER = [
    *({**each, "metadata": USERS} for each in WHOLE),
    message("user", said("They looked."), metadata=AGENTS),
    message("assistant", said("I go on from there."), metadata=AGENTS),
    message("user", said("And now?"), metadata=BOTH),
    message("assistant", said("Now this.")),
]


def database(path: Path, messages: list[Message], schema: str = SCHEMA) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(schema)
        replaced(made, messages, schema)
    return path


def replaced(made: sqlite3.Connection, messages: list[Message], schema: str = SCHEMA) -> None:
    """Write all messages anew, as Goose does after a compaction."""
    made.execute("DELETE FROM messages")
    for number, each in enumerate(messages):
        names = ["session_id", "role", "content_json", "created_timestamp"]
        values: list[Any] = ["20251202_1", each["role"], json.dumps(each["content"]), START + number]
        if "metadata_json" in schema and "metadata" in each:
            names, values = [*names, "metadata_json"], [*values, json.dumps(each["metadata"])]
        made.execute(f"INSERT INTO messages ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)
    made.commit()


def lines(path: Path, messages: list[Message], head: dict[str, Any] | None = None) -> Path:
    about = {"working_dir": "/src", "description": "Looking", "message_count": 5, "total_tokens": 1_290}
    about |= {"input_tokens": 1_200, "output_tokens": 90}
    records = [about if head is None else head, *({"created": START + n, **each} for n, each in enumerate(messages))]
    path.write_text("".join(json.dumps(each) + "\n" for each in records if each))
    return path


def texts(session: Session) -> list[str]:
    return [
        " ".join(str(b.get("text") or b.get("tool_use_id") or b.get("id") or b["type"]) for b in m["content"])
        for m in session.to_messages()
    ]


@pytest.mark.parametrize("layout", ["database", "old database", "lines"])
def test_messages(layout: str, tmp_path: Path) -> None:
    if layout == "lines":
        path = lines(tmp_path / "x.jsonl", WHOLE)
    else:
        path = database(tmp_path / "sessions.db", WHOLE, SCHEMA if layout == "database" else OLD)
    session = open_session(path)
    facts = session.facts
    assert (session.info.format, session.info.title) == ("goose", "Looking")
    assert texts(session) == ["Look.", "thinking I do. c1 c2 c3", "c1 c2 c3", "Done. redacted_thinking"]
    reply, results = session.message(1)["content"], session.message(2)["content"]
    assert reply[2] == {"type": "tool_use", "id": "c1", "name": "developer__shell", "input": {"command": "ls"}}
    assert reply[4]["input"] == {"error": "bad JSON"}
    assert results[0]["content"] == [{"type": "text", "text": "for the model"}]
    assert (results[1]["content"][0]["type"], results[1]["is_error"]) == ("image", True)
    assert results[2] == {"type": "tool_result", "tool_use_id": "c3", "content": "could not be read", "is_error": True}
    assert session.turns == 1
    assert facts.time[0] == START * 1000
    assert [*zip(facts.request_message, facts.requests, strict=True)] == [(3, Usage(1_200, output=90))]
    assert len(facts.record_kind) == 5 + (layout == "lines")
    assert not facts.problems


@pytest.mark.parametrize("layout", ["database", "lines"])
def test_after_a_compaction_the_model_has_what_is_visible_to_it(layout: str, tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", AFTER) if layout == "database" else lines(tmp_path / "x.jsonl", AFTER)
    session = open_session(path)
    assert [(each.message, each.kind) for each in session.facts.compactions] == [(5, "full")]
    assert texts(session) == ["They looked.", "I go on from there.", "And now?", "Now this."]
    assert texts(open_session(path))[0] == "They looked."
    assert len(session.context_at(4)) == 4  # before it the model had it all
    assert session.facts.flags[5] & MessageFlag.SUMMARY
    assert session.turns == 2


def test_a_summary_counts_as_one(tmp_path: Path) -> None:
    session = open_session(lines(tmp_path / "s.jsonl", AFTER))
    assert count_tokens_by_category(session.context_at())["summary"] > 0


def test_a_second_compaction_hides_the_first(tmp_path: Path) -> None:
    again = [{**each, "metadata": NOBODY if each.get("metadata") == AGENTS else USERS} for each in AFTER]
    again += [message("user", said("All was seen."), metadata=AGENTS), message("assistant", said("Yes."))]
    session = open_session(database(tmp_path / "s.db", again))
    assert [each.message for each in session.facts.compactions] == [5, 9]
    assert texts(session) == ["All was seen.", "Yes."]


def test_what_is_hidden_without_a_compaction_is_not_sent(tmp_path: Path) -> None:
    messages = [WHOLE[0], *({**each, "metadata": USERS} for each in WHOLE[1:3]), WHOLE[3]]
    session = open_session(database(tmp_path / "s.db", messages))
    assert not session.facts.compactions
    assert texts(session) == ["Look.", "Done. redacted_thinking"]


@pytest.mark.parametrize("layout", ["database", "lines"])
def test_it_grows_to_the_same_facts(layout: str, tmp_path: Path) -> None:
    path = tmp_path / ("s.db" if layout == "database" else "x.jsonl")
    growing = None
    for messages in (*(WHOLE[:count] for count in range(1, 6)), *(AFTER[:count] for count in range(6, 10))):
        if layout == "lines":
            lines(path, messages)
        elif growing is None:
            database(path, messages)
        else:
            with closing(sqlite3.connect(path)) as made:
                replaced(made, messages)
        growing = growing or make_scanner(choose_session(path))
        growing.advance()
        assert columns(growing.session().facts) == columns(open_session(path).facts)
    assert growing is not None
    assert texts(growing.session())[0] == "They looked."


def test_a_line_that_is_being_written(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", WHOLE)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    scanner = make_scanner(choose_session(path))
    scanner.advance()
    assert len(scanner.session().facts.problems) == 1
    path.write_bytes(whole[:-30].replace(b"}\n{", b"}{"))
    scanner.advance()
    assert [each.where for each in scanner.session().facts.problems] == ["message 1"]
    path.write_bytes(whole.replace(b"}\n{", b"}{", 1))
    scanner.advance()
    assert not scanner.session().facts.problems
    assert columns(scanner.session().facts) == columns(open_session(lines(path, WHOLE)).facts)


def test_a_file_without_a_head(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", WHOLE[1:], head={})
    assert detect_format(path).name == "goose"
    assert FORM.read_title(lines(tmp_path / "y.jsonl", WHOLE, head={})) == "Look."
    assert not open_session(path).facts.requests


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    messages = [*WHOLE, message("oracle", said("a")), message("user", {"type": "hologram"}, 5, said("b"))]
    path = database(tmp_path / "s.db", messages)
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE messages SET content_json = '[' WHERE id = 1")
        made.commit()
    facts = open_session(path).facts
    assert [each.where for each in facts.problems] == ["message 1", "message 6", "message 7", "message 7"]
    assert len(facts.record_kind) == 7


def test_sessions_without_messages_are_not_listed(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSession, match="holds no session with messages"):
        sessions_in(database(tmp_path / "s.db", []))
    [info] = sessions_in(database(tmp_path / "t.db", WHOLE))
    assert (info.id, info.cwd, info.time) == ("20251202_1", "/src", 1_764_694_800)
    assert info.bytes > 100


def test_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / ".local" / "share" / "goose" / "sessions"
    roaming = tmp_path / "Roaming" / "Block" / "goose" / "data" / "sessions"
    for each in (folder, roaming):
        each.mkdir(parents=True)
    old = lines(folder / "a.jsonl", WHOLE)
    environ = {"HOME": str(tmp_path)}
    assert [each.path for each in FORM.find_sessions(environ, tmp_path)] == [old]
    new, other = database(folder / "sessions.db", WHOLE), database(roaming / "sessions.db", WHOLE)
    assert [each.path for each in FORM.find_sessions(environ, tmp_path)] == [new]
    assert [each.path for each in FORM.find_sessions({**environ, "APPDATA": str(tmp_path / "Roaming")}, tmp_path)] == [
        new,
        other,
    ]
