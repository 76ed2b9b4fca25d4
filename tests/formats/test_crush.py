"""Crush's and the Go opencode's databases: rows, summaries, the session's tokens, agents, and where they are."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.base import scan
from context_tui.formats.crush import CrushFormat
from context_tui.formats.opening import choose_session, detect_format, make_scanner, open_session, sessions_in
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from tests.formats.histories import columns

FORM = CrushFormat()
SCHEMA = """
CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER);
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT, message_count INTEGER,
    prompt_tokens INTEGER DEFAULT 0, completion_tokens INTEGER DEFAULT 0, updated_at INTEGER, created_at INTEGER,
    summary_message_id TEXT);
CREATE TABLE files (id TEXT, session_id TEXT, path TEXT, content TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT DEFAULT '[]', model TEXT,
    created_at INTEGER, updated_at INTEGER, finished_at INTEGER, provider TEXT);
"""
START = 1_754_709_060
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def said(words: str) -> dict[str, Any]:
    return part("text", text=words)


def ended(reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    return part("finish", reason=reason, time=0, **more)


def call(name: str, tool: str = "view", given: str = '{"file_path": "/src/a"}') -> dict[str, Any]:
    return part("tool_call", id=name, name=tool, input=given, type="function", finished=True)


def result(name: str, content: str, **more: Any) -> dict[str, Any]:
    return part("tool_result", tool_call_id=name, name="", content=content, metadata="", is_error=False, **more)


Row = tuple[str, list[dict[str, Any]]]
ROWS: list[Row] = [
    ("user", [said("Look."), ended("stop"), part("binary", Path="a.png", MIMEType="image/png", Data=PNG)]),
    ("assistant", [ended("error", message="Bad Request", details="no such model")]),
    ("user", [said("Look again."), ended("stop")]),
    ("assistant", [part("reasoning", thinking="hm", signature="s"), said("I do."), call("c1"), call("c2"), ended()]),
    ("tool", [result("c1", "alpha " * 90), result("c2", "", data=PNG, mime_type="image/png"), ended("stop")]),
    ("assistant", [call("c3", "agent", '{"prompt": "x"}'), ended()]),
    ("tool", [result("c3", "found")]),
    ("assistant", [said("Done."), ended()]),
]


def database(path: Path, rows: list[Row], *, schema: str = SCHEMA, **about: Any) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(schema)
        known = {"id": "s", "title": "Looking", "created_at": START, "updated_at": START + 99, **about}
        names = ", ".join(known)
        made.execute(f"INSERT INTO sessions ({names}) VALUES ({', '.join('?' * len(known))})", (*known.values(),))
        for number, row in enumerate(rows):
            put(made, number, row)
        made.commit()
    return path


def put(made: sqlite3.Connection, number: int, row: Row, session: str = "s", name: str = "") -> None:
    role, parts = row
    values = (name or f"m{number}", session, role, json.dumps(parts), "gpt-5" if role == "assistant" else "")
    made.execute(
        "INSERT INTO messages (id, session_id, role, parts, model, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (*values, START + number // 3),
    )


def texts(session: Session) -> list[str]:
    return [
        " ".join(str(b.get("text") or b.get("tool_use_id") or b.get("name") or b["type"]) for b in m["content"])
        for m in session.to_messages()
    ]


def test_rows(tmp_path: Path) -> None:
    path = database(tmp_path / "crush.db", ROWS, prompt_tokens=5_000, completion_tokens=70)
    session = open_session(path)
    facts = session.facts
    assert session.info.format == "crush"
    assert (session.info.id, session.info.title, session.info.time) == ("s", "Looking", START + 99)
    assert texts(session) == ["Look. image", "Look again.", "thinking I do. view view", "c1 c2", "agent", "c3", "Done."]
    assert session.message(1)["content"] == [{"type": "text", "text": "Bad Request: no such model"}]
    assert session.message(3)["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert session.message(3)["content"][2]["input"] == {"file_path": "/src/a"}
    assert session.message(4)["content"][1]["content"][0]["type"] == "image"
    assert session.turns == 2
    assert facts.model == "gpt-5"
    assert facts.time[3] == (START + 1) * 1000
    assert [*zip(facts.request_message, facts.requests, strict=True)] == [(7, Usage(5_000, output=70))]
    assert len(facts.record_kind) == 8
    assert not facts.problems


@pytest.mark.parametrize(
    ("marked", "recorded"), [("", Usage(847, 73_499, output=1)), (" DEFAULT 0", Usage(847, output=73_500))]
)
def test_output_that_includes_what_was_read_from_the_cache(tmp_path: Path, marked: str, recorded: Usage) -> None:
    """The Go opencode adds both; Crush, whose messages have a column more, does not."""
    schema = SCHEMA.replace("provider TEXT", f"provider TEXT, is_summary_message INTEGER{marked}") if marked else SCHEMA
    path = database(tmp_path / "crush.db", ROWS, schema=schema, prompt_tokens=847, completion_tokens=73_500)
    assert open_session(path).facts.requests == [recorded]


def test_the_context_begins_at_the_summary(tmp_path: Path) -> None:
    rows = [*ROWS, ("assistant", [said("We looked."), ended()]), ("user", [said("And now?")])]
    path = database(tmp_path / "crush.db", rows, summary_message_id="m8", completion_tokens=90)
    session = open_session(path)
    assert [(each.message, each.kind) for each in session.facts.compactions] == [(8, "full")]
    assert texts(session) == ["We looked.", "And now?"]
    assert session.message(8)["role"] == "user"
    assert session.turns == 3
    assert not session.facts.requests


def test_every_summary_is_told_where_rows_are_marked(tmp_path: Path) -> None:
    schema = SCHEMA.replace("provider TEXT", "provider TEXT, is_summary_message INTEGER DEFAULT 0")
    rows: list[Row] = [("user", [said("a")]), ("assistant", [said("one")]), ("user", [said("b")])]
    path = database(
        tmp_path / "crush.db", [*rows, ("assistant", [said("two")])], schema=schema, summary_message_id="m3"
    )
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE messages SET is_summary_message = 1 WHERE role = 'assistant'")
        made.commit()
    session = open_session(path)
    assert [each.message for each in session.facts.compactions] == [1, 3]
    assert texts(session) == ["two"]


def test_a_summary_in_the_row_of_the_session_and_times_as_text(tmp_path: Path) -> None:
    schema = SCHEMA.replace("summary_message_id TEXT", "summary TEXT, summarized_at TEXT")
    at = "2025-08-09T03:11:01Z"  # a second after START
    path = database(tmp_path / "opencode.db", ROWS, schema=schema, summary="All was seen.", summarized_at=at)
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE messages SET created_at = strftime('%Y-%m-%dT%H:%M:%SZ', created_at, 'unixepoch')")
        made.commit()
    session = open_session(path)
    assert texts(session) == ["All was seen.", "c3", "Done."]
    assert session.facts.time[0] == START * 1000


def test_agents_have_sessions_of_their_own(tmp_path: Path) -> None:
    path = database(tmp_path / "crush.db", ROWS)
    with closing(sqlite3.connect(path)) as made:
        for number, name in enumerate(("m5$$c3", "title-s", "empty")):
            made.execute(
                "INSERT INTO sessions (id, parent_session_id, title, created_at) VALUES (?, 's', ?, ?)",
                (name, name, START),
            )
            if name != "empty":
                put(made, 50 + number, ("user", [said("x")]), name, f"x{number}")
        made.commit()
    found = sessions_in(path)
    assert {each.id: each.parent for each in found} == {"s": "", "m5$$c3": f"{path}#s", "title-s": f"{path}#s"}
    session = open_session(path)
    facts = session.facts
    started = FORM.subagent_of(session, facts.call_use[facts.find_call_row("c3")])
    assert started is not None
    assert started.id == "m5$$c3"
    assert texts(scan(make_scanner(started))) == ["x"]
    assert FORM.subagent_of(session, facts.call_use[facts.find_call_row("c1")]) is None
    with pytest.raises(UnreadableSession, match="unknown session"):
        open_session(f"{path}#empty")


def test_it_grows_to_the_same_facts(tmp_path: Path) -> None:
    path = database(tmp_path / "crush.db", ROWS[:1])
    growing = make_scanner(choose_session(path))
    growing.advance()
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        for number, row in enumerate(ROWS[1:], 1):
            put(made, number, (row[0], []))
            made.commit()
            growing.advance()
            for parts in range(1, len(row[1]) + 1):
                made.execute("UPDATE messages SET parts = ? WHERE id = ?", (json.dumps(row[1][:parts]), f"m{number}"))
                made.execute("UPDATE sessions SET prompt_tokens = ?", (1_000 * number,))
                made.commit()
                growing.advance()
                assert columns(growing.session().facts) == columns(open_session(path).facts)
        made.execute("UPDATE sessions SET summary_message_id = 'm7'")
        made.commit()
        assert growing.advance().revised_from == 0
        assert texts(growing.session()) == ["Done."]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    rows: list[Row] = [*ROWS, ("oracle", []), ("user", [part("hologram"), said("a")])]
    path = database(tmp_path / "crush.db", rows)
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE messages SET parts = '{' WHERE id = 'm0'")
        made.execute("UPDATE messages SET parts = '[1]' WHERE id = 'm2'")
        made.commit()
    facts = open_session(path).facts
    assert [(each.where, each.what[:24]) for each in facts.problems[1:]] == [
        ("message m2", "a part that is not an ob"),
        ("message m8", "not a message: unknown r"),
        ("message m9", "a part of unknown type '"),
    ]
    assert facts.problems[0].where == "message m0"


def test_where_they_are(tmp_path: Path) -> None:
    below = tmp_path / "src" / "deep"
    (tmp_path / ".crush").mkdir()
    (below / ".opencode").mkdir(parents=True)
    crush = database(tmp_path / ".crush" / "crush.db", ROWS)
    other = database(below / ".opencode" / "opencode.db", ROWS)
    found = [*FORM.find_sessions({}, below)]
    assert [(each.path, each.is_current_project) for each in found[:2]] == [(other, True), (crush, True)]
    assert detect_format(other).name == "crush"
    assert sessions_in(crush)[0].cwd == str(tmp_path)
