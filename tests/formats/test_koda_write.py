"""Writing koda databases: a new file with this session's rows only, that koda's reader gives back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from context_tui.compaction.apply import apply
from context_tui.errors import Error
from context_tui.export.files import export
from context_tui.formats.koda import KodaFormat
from context_tui.formats.opening import open_session
from context_tui.policies.planning import plan
from context_tui.session.markers import KODA_SUMMARY, RESULT_STUB
from context_tui.session.memory import from_messages
from tests.formats.histories import few, histories, measures, written
from tests.formats.test_koda import ROWS, calls, make, reply, tool, user

FORM = KodaFormat()


@few
@given(histories(rich=False))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    session, losses = written(FORM, messages, tmp_path_factory.mktemp("k") / "out.db")
    assert losses == []
    assert session.to_messages() == messages


@pytest.mark.slow
@few
@given(histories())
def test_what_cannot_be_held_is_said(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    session, losses = written(FORM, messages, tmp_path_factory.mktemp("k") / "out.db")
    said = " ".join(losses)
    blocks = [block for message in messages for block in message["content"]]
    images = [block for block in [*blocks, *_inside(blocks)] if block["type"] == "image"]
    assert ("images" in said) == bool(images)
    assert ("errors" in said) == any(block.get("is_error") for block in blocks)
    assert ("split into two" in said) == (len(session) > len(messages))
    assert not said or measures(session)


def _inside(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    bodies = [block["content"] for block in blocks if block["type"] == "tool_result"]
    lists = [body for body in bodies if isinstance(body, list) and all(isinstance(part, dict) for part in body)]
    return [part for body in lists for part in body]


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT role, content, tool_calls, completed_at FROM messages ORDER BY id").fetchall()


def test_a_microcompacted_session_has_stubs_and_nothing_of_other_tables(tmp_path: Path) -> None:
    rows = [user("go"), reply(None, calls(*"abcdef")), *(tool("secret " * 60, each) for each in "abcdef")]
    source = make(tmp_path / "koda.db", [{"role": "system", "content": "Prompt."}, *rows])
    session = open_session(source)
    after = apply(session, plan(session, "koda-microcompact"))
    done = export(after, tmp_path / "out.db", "koda")
    assert done.losses == []
    again = open_session(tmp_path / "out.db")
    assert again.to_messages() == after.to_messages() and again.facts.system_bytes == 7
    assert [row[1] for row in rows_in(tmp_path / "out.db")].count(RESULT_STUB) == 1
    assert again.info.id != "s" and again.info.cwd == "/src" and again.info.title == "go"
    data = (tmp_path / "out.db").read_bytes()
    assert b"api_key" not in data and b"kv_store" not in data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["koda.db", "out.db"]


def test_a_session_without_messages_is_copied(tmp_path: Path) -> None:
    session = open_session(f"{make(tmp_path / 'koda.db', [])}#s")
    export(session, tmp_path / "out.db", "koda")
    assert rows_in(tmp_path / "out.db") == []
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert database.execute("SELECT id FROM sessions").fetchall() == [("s",)]


def test_a_summary_is_a_system_row(tmp_path: Path) -> None:
    long = [{"role": role, "content": f"{role} {'x' * 9_000}"} for _ in range(6) for role in ("user", "assistant")]
    session = from_messages(long)
    for policy in ("defect-compact", "agent-sdk-compact"):
        made = plan(session, policy, window=10_000)
        after = apply(session, made, "What happened.")
        path = tmp_path / f"{policy}.db"
        export(after, path, "koda")
        assert rows_in(path)[0][:2] == ("system", f"{KODA_SUMMARY}\n\nWhat happened.")
        again = open_session(path)
        assert len(again) == len(after) and again.turns == after.turns
        assert plan(again, "koda-microcompact").trigger.fires


def test_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a\ud800b\x00c"}]}]
    session, _ = written(FORM, messages, tmp_path / "out.db")
    assert session.message(0)["content"][0]["text"].endswith("b\x00c")


def test_replies_are_complete_and_dated(tmp_path: Path) -> None:
    session = open_session(make(tmp_path / "koda.db", ROWS))
    FORM.write(session, tmp_path / "out.db")
    assert {row[0]: row[3] for row in rows_in(tmp_path / "out.db")} == {
        **{"user": None, "tool": None},
        "assistant": "2026-03-01 10:00:00",
    }


def test_times_and_usage_of_another_format_are_kept(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 700, "output_tokens": 9}
    written_to = {"input_tokens": 5, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 2}
    asked = [{"role": "user", "content": "Go.", "timestamp": "2026-01-02T03:04:05Z"}]
    replies = [
        {"role": "assistant", "content": "Gone.", "timestamp": f"2026-01-02T03:0{minute}:00Z", "usage": each}
        for minute, each in ((5, usage), (6, written_to))
    ]
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"system": "Be brief.", "messages": [*asked, replies[0], *asked, replies[1]]}))
    session = open_session(path)
    export(session, tmp_path / "out.db", "koda")
    again = open_session(tmp_path / "out.db")
    assert again.facts.requests == session.facts.requests and len(session.facts.requests) == 2
    assert again.facts.time == session.facts.time
    after = apply(session, plan(session, "manual", cut=2), "What happened.")
    export(after, tmp_path / "after.db", "koda")
    assert not open_session(tmp_path / "after.db").facts.requests


@pytest.mark.parametrize("name", ["koda", "anthropic", "openai"])
def test_a_recorded_summary_stays_one(name: str, tmp_path: Path) -> None:
    rows = [user("one", compacted_at="2026-03-01 11:00:00"), {"role": "system", "content": f"{KODA_SUMMARY}\n\nso far"}]
    recorded = open_session(make(tmp_path / "koda.db", [*rows, reply("Go on."), user("two")]))
    session = from_messages(recorded.to_messages())
    done = export(session, tmp_path / "out.json", name)
    again = open_session(tmp_path / "out.json")
    assert done.losses == []
    assert (len(again), again.turns, measures(again)) == (3, 1, measures(recorded)[1:])


def test_a_full_disk_is_told_of_the_file_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("context_tui.formats.koda.writer.sqlite3.connect", full)
    out = tmp_path / "out.db"
    with pytest.raises(Error) as caught:
        export(from_messages([{"role": "user", "content": "Hello."}]), out, "koda")
    assert str(caught.value).startswith(f"{out}: cannot be written: database or disk is full; nothing was written")
    assert not any(tmp_path.iterdir())
