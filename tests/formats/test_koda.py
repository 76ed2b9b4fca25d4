"""koda's database: rows as messages, compactions, other schemas, a live database, hostile ones."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.compaction.apply import apply
from context_tui.compaction.recorded_compactions import count_tokens_by_category, find_recorded_compactions
from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance
from context_tui.formats.kit.databases import Database
from context_tui.formats.koda import KodaFormat
from context_tui.formats.opening import detect_format, open_session
from context_tui.policies.planning import plan
from context_tui.session.facts import Usage
from context_tui.session.markers import KODA_SUMMARY, RESULT_STUB
from context_tui.session.values import MessageFlag, Role
from tests.formats.histories import columns, few, opened, scanner_of

FORM = KodaFormat()
SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, agent_name TEXT NOT NULL, project_root TEXT,
    last_accessed_at TEXT, title TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_calls TEXT, tool_call_id TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, cache_read_tokens INTEGER,
    cache_creation_tokens INTEGER, thinking_content TEXT, agent_name TEXT, compacted_at TEXT, completed_at DATETIME,
    created_at DATETIME DEFAULT '2026-03-01 10:00:00'
);
CREATE TABLE kv_store (key TEXT, value TEXT);
INSERT INTO kv_store VALUES ('api_key', 'secret');
INSERT INTO sessions (id, agent_name, project_root, last_accessed_at)
VALUES ('s', 'koda', '/src', '2026-03-01 11:00:00');
"""
DONE = "2026-03-01 10:00:05"
HINT = "Your context was compacted. Go on."


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def reply(text: str | None, calls: str | None = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "tool_calls": calls, "completed_at": DONE, **more}


def tool(text: str | None, call_id: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id, **more}


def calls(*ids: str) -> str:
    entries = [
        f'{{"id": "{each}", "function_name": "Read", "arguments": "{{\\"path\\": \\"{each}\\"}}"}}' for each in ids
    ]
    return f"[{', '.join(entries)}]"


def insert(database: sqlite3.Connection, rows: list[dict[str, Any]], session: str = "s") -> None:
    for row in rows:
        named = {"session_id": session, **row}
        marks = ", ".join("?" * len(named))
        database.execute(f"INSERT INTO messages ({', '.join(named)}) VALUES ({marks})", list(named.values()))
    database.commit()


def make(path: Path, rows: list[dict[str, Any]], schema: str = SCHEMA) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        insert(database, rows)
    return path


ROWS = [
    user("Look at both."),
    reply(
        "Sure.", calls("a", "b"), prompt_tokens=500, completion_tokens=9, cache_read_tokens=400, cache_creation_tokens=0
    ),
    tool("alpha", "a"),
    tool("beta", "b", created_at="2026-03-01 10:00:07"),
    reply(None, "not json", prompt_tokens=20, cache_read_tokens=900, thinking_content="hm"),
    tool(None, None),
    user("Thanks.", created_at="2026-03-01 10:09:00"),
]


def test_rows_become_messages(tmp_path: Path) -> None:
    path = make(tmp_path / "koda.db", ROWS)
    assert detect_format(path).name == "koda"
    (info,) = FORM.list_sessions(path)
    assert (info.id, info.title, info.cwd, info.time) == ("s", "Look at both.", "/src", 1_772_362_800)
    session = open_session(f"{path}#s")
    facts = session.facts
    assert [message["content"] for message in session.to_messages()] == [
        [{"type": "text", "text": "Look at both."}],
        [
            {"type": "text", "text": "Sure."},
            {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "a"}},
            {"type": "tool_use", "id": "b", "name": "Read", "input": {"path": "b"}},
        ],
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "alpha"},
            {"type": "tool_result", "tool_use_id": "b", "content": "beta"},
        ],
        [{"type": "thinking", "thinking": "hm"}],
        [{"type": "tool_result", "tool_use_id": "row-6", "content": ""}],
        [{"type": "text", "text": "Thanks."}],
    ]
    assert list(facts.record_place) == [*range(7)]
    assert facts.requests == [Usage(100, 400, 0, 0, 9), Usage(20, 900)]
    assert [(problem.where, problem.what) for problem in facts.problems] == [
        ("row 5", "its list of tool calls cannot be read")
    ]
    assert session.content.raw(4) == "not json"
    assert facts.time[5] - facts.time[1] == 540_000
    made = plan(session, "koda-microcompact", at=5)
    assert made.trigger.fires and made.trigger.value == 540


def test_a_leading_system_row_is_the_prompt_and_counts_as_a_row(tmp_path: Path) -> None:
    rows = [user("go"), reply(None, calls(*"abcd")), *(tool("x" * 400, each) for each in "abcd")]
    for system, cleared in (([{"role": "system", "content": "Be brief."}], 2), ([], 0)):
        session = opened(FORM, make(tmp_path / f"{cleared}.db", system + rows))
        assert len(session) == 3 and session.facts.system_bytes == 9 * len(system)
        made = plan(session, "koda-microcompact", keep_recent=2 if system else 5)
        assert len(made.changes) == cleared
    session = opened(FORM, tmp_path / "2.db")
    assert not plan(session, "koda-microcompact", keep_recent=6).has_changes
    assert "rows" not in plan(session, "koda-microcompact", keep_recent=5).reason
    after = apply(session, plan(session, "koda-microcompact", keep_recent=2))
    assert after.facts.system_records == 1


def archive(database: sqlite3.Connection, until: int, when: str, summary: str) -> None:
    """What koda does to compact: archive rows, append the summary and a hint."""
    database.execute("UPDATE messages SET compacted_at = ? WHERE id <= ? AND compacted_at IS NULL", (when, until))
    insert(database, [{"role": "system", "content": f"{KODA_SUMMARY}\n\n{summary}"}, reply(HINT)])


def texts(session: Any, at: int | None = None) -> list[str]:
    return [str(block.get("text") or block.get("content")) for m in session.to_messages(at) for block in m["content"]]


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    path = make(tmp_path / "koda.db", [user("one"), reply("1"), user("two"), reply("2"), user("three"), reply("3")])
    with closing(sqlite3.connect(path)) as database:
        archive(database, 4, "2026-03-01 11:00:00", "first")
        insert(database, [user("four"), reply("4")])
        archive(database, 8, "2026-03-01 12:00:00", "second")
        insert(database, [user("five"), reply("5")])
    return path


def test_compactions_are_told_from_archived_rows(compacted: Path) -> None:
    session = opened(FORM, compacted)
    first, second = f"{KODA_SUMMARY}\n\nfirst", f"{KODA_SUMMARY}\n\nsecond"
    assert len(session) == 14
    assert [(c.message, c.kind, tuple(c.prefix)) for c in session.facts.compactions] == [
        (6, "full", (4, 5, 6, 7)),
        (10, "full", (8, 9, 10, 11)),
    ]
    assert session.facts.flags[6] & MessageFlag.SUMMARY and session.facts.role[6] == Role.SYSTEM
    assert texts(session) == ["four", "4", second, HINT, "five", "5"]
    assert texts(session, 9) == ["three", "3", first, HINT, "four"]
    assert texts(session, 6) == ["one", "1", "two", "2", "three", "3"]
    assert session.turns == 5


def test_both_sides_of_a_compaction(compacted: Path) -> None:
    """The hint to go on is no reply: the model is first asked behind it."""
    first, second = find_recorded_compactions(opened(FORM, compacted))
    assert [list(side.order) for side in (first.context_before, first.context_after)] == [
        [0, 1, 2, 3, 4, 5],
        [4, 5, 6, 7, 8],
    ]
    assert [list(side.order) for side in (second.context_before, second.context_after)] == [
        [4, 5, 6, 7, 8, 9],
        [8, 9, 10, 11, 12],
    ]
    assert (first.remaining_messages, first.summary_message, len(first.removed_blocks)) == (
        [4, 5],
        6,
        4,
    ) and first.added_messages == [6, 7, 8]
    assert count_tokens_by_category(first.context_after)["summary"] > 0 and "injected" not in count_tokens_by_category(
        first.context_after
    )


def test_the_end_is_what_koda_would_load(compacted: Path) -> None:
    with closing(sqlite3.connect(compacted)) as database:
        for purge in (None, "2026-03-01 11:00:00", "2026-03-01 12:00:00"):
            database.execute("DELETE FROM messages WHERE compacted_at <= ?", (purge,))
            database.commit()
            live = database.execute("SELECT content FROM messages WHERE compacted_at IS NULL ORDER BY id").fetchall()
            assert texts(opened(FORM, compacted)) == [content for (content,) in live]
        # Archived without a summary, by whatever hand.
        database.execute("UPDATE messages SET compacted_at = '2026-03-01 13:00:00' WHERE content = 'five'")
        database.commit()
    assert texts(opened(FORM, compacted)) == ["four", "4", f"{KODA_SUMMARY}\n\nsecond", HINT, "5"]


def test_results_of_one_reply_that_a_compaction_parted(tmp_path: Path) -> None:
    path = make(tmp_path / "koda.db", [user("go"), reply(None, calls("a", "b")), tool("alpha", "a"), tool("beta", "b")])
    with closing(sqlite3.connect(path)) as database:
        archive(database, 3, "2026-03-01 11:00:00", "so far")
    assert texts(opened(FORM, path)) == ["beta", f"{KODA_SUMMARY}\n\nso far", HINT]


def test_replies_that_were_not_completed_are_never_sent(tmp_path: Path) -> None:
    rows = [user("go"), reply("half", completed_at=None), user("again"), reply("whole")]
    assert texts(opened(FORM, make(tmp_path / "new.db", rows))) == ["go", "again", "whole"]
    old = SCHEMA.replace("completed_at DATETIME,", "")
    rows = [{k: v for k, v in row.items() if k != "completed_at"} for row in rows]
    assert texts(opened(FORM, make(tmp_path / "old.db", rows, old))) == ["go", "half", "again", "whole"]


def test_the_oldest_schema(tmp_path: Path) -> None:
    schema = """
    CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at DATETIME, agent_name TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT,
                           tool_call_id TEXT, prompt_tokens INTEGER, completion_tokens INTEGER);
    CREATE TABLE session_metadata (session_id TEXT, key TEXT, value TEXT);
    """
    path = make(
        tmp_path / "koda.db", [user("hello"), {"role": "assistant", "content": "hi", "prompt_tokens": 7}], schema
    )
    session = opened(FORM, path)
    assert texts(session) == ["hello", "hi"] and session.facts.requests == [Usage(7)] and session.facts.time[0] == -1
    assert FORM.list_sessions(path)[0].id == "s"  # of the messages alone


def test_several_sessions(tmp_path: Path) -> None:
    path = make(tmp_path / "koda.db", [user("mine\nand more")])
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "INSERT INTO sessions (id, agent_name, title) VALUES ('t', 'koda', 'Named'), ('empty', 'x', 'y')"
        )
        insert(database, [user("other"), reply("yes")], "t")
        insert(database, [user("more")])
    assert [(info.id, info.title) for info in FORM.list_sessions(path)] == [("s", "mine"), ("t", "Named")]
    assert [len(opened(FORM, path, each)) for each in "st"] == [2, 2]
    with pytest.raises(UnreadableSession, match="unknown session 'nope'"):
        open_session(f"{path}#nope")


@pytest.fixture
def live(tmp_path: Path) -> Any:
    """A database that koda has open, its rows in the write-ahead log."""
    with closing(sqlite3.connect(tmp_path / "koda.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(SCHEMA)
        insert(database, [user("one"), reply("1")])
        yield database


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_a_live_database_is_followed(live: sqlite3.Connection, tmp_path: Path) -> None:
    path, before = tmp_path / "koda.db", files(tmp_path)
    assert "koda.db-wal" in before
    scanner = scanner_of(FORM, path)
    assert scanner.advance() == Advance(2, None, True)
    insert(live, [user("two"), reply(None, calls("a", "b")), tool("alpha", "a")])
    assert scanner.advance() == Advance(3, None, True)
    insert(live, [tool("beta", "b")])
    assert scanner.advance() == Advance(0, 4, True)
    live.execute("UPDATE messages SET content = ? WHERE role = 'tool'", (RESULT_STUB,))
    live.commit()
    assert scanner.advance() == Advance(5, 0, True)
    session = scanner.session()
    assert session.facts.bracket_starts[session.facts.first_block[4]] == RESULT_STUB
    archive(live, 2, "2026-03-01 11:00:00", "so far")
    assert scanner.advance() == Advance(7, 0, True)
    assert len(scanner.session().facts.compactions) == 1 and scanner.progress == 1
    assert scanner.advance() == Advance(0, None, True)
    assert files(tmp_path).keys() == before.keys()


def test_a_log_that_was_copied_along_is_read_and_nothing_left_behind(live: sqlite3.Connection, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("koda.db", "koda.db-wal"):
        shutil.copy(tmp_path / name, copy)
    before = files(copy)
    copy.chmod(0o500)
    assert texts(opened(FORM, copy / "koda.db")) == ["one", "1"]
    copy.chmod(0o700)
    assert files(copy) == before


def test_a_database_that_was_closed_stays_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "koda.db", ROWS, "PRAGMA journal_mode = WAL;" + SCHEMA)
    assert files(tmp_path).keys() == {"koda.db"}
    scanner = scanner_of(FORM, path)
    scanner.advance()
    assert scanner.session().message(0) and files(tmp_path).keys() == {"koda.db"}


def test_rows_that_have_gone_are_said_to(tmp_path: Path) -> None:
    path = make(tmp_path / "koda.db", ROWS)
    session = opened(FORM, path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM messages")
    with pytest.raises(UnreadableSession, match="row 1 was deleted"):
        session.message(0)


def test_only_named_tables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(asked.append)
        return connection

    path = make(tmp_path / "koda.db", ROWS)
    monkeypatch.setattr(sqlite3, "connect", traced)
    opened(FORM, path).to_messages()
    assert asked and not any("kv_store" in statement for statement in asked)


def hostile(kind: str, path: Path) -> Path:
    make(path, ROWS)
    with closing(sqlite3.connect(path)) as database:
        match kind:
            case "view":
                database.execute("ALTER TABLE messages RENAME TO kept")
                database.execute("CREATE VIEW messages AS SELECT * FROM kept")
            case "ids":
                database.execute("ALTER TABLE messages RENAME TO kept")
                database.execute("CREATE TABLE messages AS SELECT * FROM kept")
                database.execute("UPDATE messages SET id = CASE id WHEN 2 THEN 'x' WHEN 3 THEN 1 ELSE id END")
            case "types":
                database.execute(
                    "UPDATE messages SET content = 7, tool_calls = x'ff', created_at = 1e300, role = x'00'"
                )
                database.execute("UPDATE messages SET prompt_tokens = 'many', completion_tokens = -5")
                database.execute("UPDATE messages SET id = -4 WHERE id = 1")
            case "bytes":
                database.execute("UPDATE messages SET content = CAST(x'ff00fe' AS TEXT)")
        database.commit()
    if kind in ("cut", "noise"):
        data = path.read_bytes()
        path.write_bytes(data[:5_000] if kind == "cut" else data[:4_096] + b"\xa5" * (len(data) - 4_096))
    return path


@pytest.mark.parametrize("kind", ["view", "ids", "types", "bytes", "cut", "noise"])
def test_hostile_databases_give_an_answer(kind: str, tmp_path: Path) -> None:
    path = hostile(kind, tmp_path / "koda.db")
    try:
        session = open_session(path)
    except UnreadableSession as error:
        assert kind in ("view", "ids", "cut", "noise") and "\n" not in str(error)
    else:
        assert all(len(session.message(m)["content"]) for m in range(len(session)) if session.facts.first_block[m] >= 0)


ROW = st.sampled_from(["user", "assistant", "tool", "system", "odd"])


@few
@given(st.lists(st.tuples(ROW, st.sampled_from([None, "", "text", KODA_SUMMARY]), st.booleans(), st.integers(0, 2))))
def test_row_by_row_is_one_pass(tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]) -> None:
    stamps = [None, "2026-03-01 11:00:00", "2026-03-01 12:00:00"]
    rows = [
        {
            **{"role": role, "content": content, "compacted_at": stamps[stamp]},
            **{"completed_at": DONE if done else None, "tool_call_id": "a" if done else None},
            "tool_calls": calls("a", "b") if role == "assistant" and done else None,
        }
        for role, content, done, stamp in drawn
    ]
    path = make(tmp_path_factory.mktemp("k") / "koda.db", [user("first"), *rows])
    scanner = scanner_of(FORM, path)
    while not scanner.advance(0).end:
        pass
    session = scanner.session()
    assert columns(session.facts) == columns(opened(FORM, path).facts)
    live = [
        number
        for number, row in enumerate([user("first"), *rows], start=1)
        if row.get("compacted_at") is None and (row["role"] != "assistant" or row["completed_at"])
    ]
    facts = session.facts
    in_context = [facts.record_place[r] + 1 for m in session.context_at().order for r in facts.iterate_records(m)]
    assert sorted(in_context) == live


@pytest.mark.parametrize("column", ["content", "tool_calls", "thinking_content", "created_at"])
def test_a_row_that_is_too_large_is_a_problem_and_never_copied(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [user(f"message {number}") for number in range(100)]
    rows[60] = reply("long", **{"created_at": DONE, column: "é" * 5_000})
    path, longest = make(tmp_path / "koda.db", rows), 0
    query = Database.query

    def counted(*args: Any, **more: Any) -> list[tuple[Any, ...]]:
        nonlocal longest
        found = query(*args, **more)
        longest = max([longest, *(len(value) for row in found for value in row if isinstance(value, bytes))])
        return found

    assert len(opened(FORM, path)) == 100
    monkeypatch.setattr(Database, "query", counted)
    monkeypatch.setattr("context_tui.formats.kit.files.MAX_RECORD_BYTES", 9_000)
    session = opened(FORM, path)
    assert [(problem.where, problem.what[:29]) for problem in session.facts.problems] == [
        ("row 61", "too large to read: 0 MB (at m")
    ]
    assert len(session) == 99 and 0 < longest < 9_000
    assert session.facts.record_length[60] >= 10_000
    assert session.content.raw(60) == "[too large to read]" and session.content.raw(61) == "message 61"
    assert session.content.is_unchanged()
    assert [message["content"][0]["text"] for message in session.to_messages()][59:62] == [
        "message 59",
        "message 61",
        "message 62",
    ]


def test_of_a_long_row_the_beginning_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(FORM, make(tmp_path / "koda.db", [user("x" * 500)]))
    monkeypatch.setattr("context_tui.formats.kit.files.MAX_RAW_BYTES", 100)
    assert session.content.raw(0) == "x" * 100 + "\n[the first 100 of 500 bytes]"
