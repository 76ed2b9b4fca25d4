"""Writing koda databases: a new file with this session's rows only, that koda's reader gives back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from context_tui.compaction.apply import apply
from context_tui.errors import Error
from context_tui.exporting import export
from context_tui.formats.koda import KodaFormat
from context_tui.formats.opening import open_session
from context_tui.policies.planning import plan
from context_tui.session.markers import KODA_STUB, KODA_SUMMARY
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
    assert [row[1] for row in rows_in(tmp_path / "out.db")].count(KODA_STUB) == 1
    assert again.info.id != "s" and again.info.cwd == "/src" and again.info.title == "go"
    data = (tmp_path / "out.db").read_bytes()
    assert b"api_key" not in data and b"kv_store" not in data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["koda.db", "out.db"]


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
        "assistant": "2026-03-01 10:09:00",
    }


@pytest.mark.parametrize("name", ["koda", "anthropic", "openai"])
def test_a_recorded_summary_stays_one(name: str, tmp_path: Path) -> None:
    rows = [user("one", compacted_at="2026-03-01 11:00:00"), {"role": "system", "content": f"{KODA_SUMMARY}\n\nso far"}]
    session = open_session(make(tmp_path / "koda.db", [*rows, reply("Go on."), user("two")]))
    done = export(session, tmp_path / "out.json", name)
    again = open_session(tmp_path / "out.json")
    assert done.losses == []
    assert (len(again), again.turns, measures(again)) == (3, 1, measures(session)[1:])


def test_a_full_disk_is_told_of_the_file_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("context_tui.formats.koda.write.sqlite3.connect", full)
    out = tmp_path / "out.db"
    with pytest.raises(Error) as caught:
        export(from_messages([{"role": "user", "content": "Hello."}]), out, "koda")
    assert str(caught.value).startswith(f"{out}: cannot be written: database or disk is full; nothing was written")
    assert not any(tmp_path.iterdir())
