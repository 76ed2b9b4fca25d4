"""opencode: its database, its tree and its exports say the same; prunings, compactions, reverts, agents, growth."""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.formats.base import Advance, scan
from context_tui.formats.kit.databases import Database
from context_tui.formats.opencode import OpencodeFormat, reader
from context_tui.formats.opencode.parts import parse_message
from context_tui.formats.opening import choose_session, detect_format, make_scanner, open_session, sessions_in
from context_tui.library.discovery import build_entries, find_title
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, MessageFlag, Role
from context_tui.tui.picker.listing import _find_parent_key as owner_of
from tests.formats.histories import columns
from tests.formats.opencode_records import (
    SESSION,
    START,
    STEP,
    Recording,
    database,
    finish,
    put,
    rich,
    text,
    tool,
    used,
)

FORM = OpencodeFormat()
LAYOUTS = ("database", "tree", "export")


def stored(layout: str, folder: Path, recording: Recording, **about: Any) -> Path:
    if layout == "database":
        return database(folder / "opencode.db", recording, **about)
    return (
        recording.tree(folder / "storage", **about)
        if layout == "tree"
        else recording.export(folder / "x.json", **about)
    )


def opened(folder: Path, recording: Recording, layout: str = "export", **about: Any) -> Session:
    return open_session(stored(layout, folder, recording, **about))


def texts(session: Session, at: int | None = None) -> list[str]:
    """The texts of a context, message by message; a result is its call's id with what stands in its place."""
    found = []
    for message in session.to_messages(at):
        words = []
        for block in message["content"]:
            body = block.get("content")
            kind = block["type"]
            words.append(
                block.get("text")
                or (
                    f"={block['tool_use_id']}" + (":cleared" if str(body).startswith("[Old") else "")
                    if kind == "tool_result"
                    else kind
                )
            )
        found.append(" ".join(words))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_says_the_same(layout: str, tmp_path: Path) -> None:
    session = opened(tmp_path, rich(), layout)
    facts = session.facts
    assert session.info.format == "opencode"
    assert (session.info.title, session.info.cwd) == ("Reading", "/src")
    assert facts.model == "claude-sonnet-4-5"
    assert not facts.problems
    assert len(facts.record_kind) == 12
    assert [facts.role[m] == Role.ASSISTANT for m in range(len(facts))].count(True) == 7
    assert [m for m in range(len(facts)) if facts.flags[m] & MessageFlag.TURN_START] == [0, 4, 8]
    first = session.message(0)["content"]
    assert first == [{"type": "text", "text": "Read a and b."}, {"type": "text", "text": "Called the Read tool"}]
    assert [bool(facts.block_flags[b] & BlockFlag.INJECTED) for b in facts.blocks_of(0)] == [False, True]
    reply, results = session.message(1)["content"], session.message(2)["content"]
    assert reply[0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert reply[2] == {"type": "tool_use", "id": "c1", "name": "read", "input": {"filePath": "/src/a"}}
    assert [(r["tool_use_id"], r["content"][:5]) for r in results[:1]] == [("c1", "alpha")]
    assert [part["type"] for part in results[1]["content"]] == ["text", "image"]
    assert facts.requests[0] == Usage(20, 900, 100, 0, 40)
    assert [facts.request_message[row] for row in range(len(facts.requests))] == [1, 3, 5, 7, 9, 13]
    assert facts.time[0] == START


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pruning_and_a_compaction_with_a_tail(layout: str, tmp_path: Path) -> None:
    session = opened(tmp_path, rich(), layout)
    found = [(each.message, each.kind, each.trigger, each.pre_tokens) for each in session.facts.compactions]
    assert found == [(9, "micro", "auto", None), (11, "full", "auto", 2_000)]
    assert texts(session, 8)[2] == "=c1 =c2"
    assert texts(session, 9)[2] == "=c1:cleared =c2"
    assert session.message(2)["content"][0]["content"].startswith("alpha")  # the file still has it
    assert texts(session) == [
        "What did we do so far?",
        "## Goal\nRead.",
        "More.",
        "More it is.",
        "Continue if you have next steps",
        "Going on. tool_use",
        "=c4",
    ]
    assert texts(session, 11)[0].startswith("Read a and b.")  # before the summary it all was there


def test_what_was_pruned_last_is_cleared_at_the_end(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(STEP, tool("c1", "alpha", compacted=START + 9_000), tool("c2", "beta", compacted=START + 9_003))
    session = opened(tmp_path, recording)
    [found] = session.facts.compactions
    assert (found.message, len(found.cleared_blocks)) == (3, 2)
    assert texts(session) == ["a", "tool_use tool_use", "=c1:cleared =c2:cleared"]


def test_results_of_one_call_id_are_cleared_one_by_one(tmp_path: Path) -> None:
    """Some providers give every call the same id; one pruning stamps results before and after a message begins."""
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(STEP, tool("c", "alpha", compacted=START + 3_990), tool("c", "beta", compacted=START + 4_020))
    recording.assistant(STEP, tool("c", "gamma"), tokens=used(90))
    recording.assistant(STEP, text("b"), tokens=used(95))
    recording.user(text("c"))
    recording.assistant({**tool("c", "delta"), "tool": "task"})  # of a command: no step, so no request
    recording.assistant(STEP, text("d"), tokens=used(50))
    session = opened(tmp_path, recording)
    facts = session.facts
    [found] = facts.compactions
    assert [session.message(facts.block_message[row])["content"] for row in sorted(found.cleared_blocks)][:1] == [
        session.message(2)["content"]
    ]
    assert (found.message, len(found.cleared_blocks)) == (6, 2)
    assert [context for context in ct.replay.replay(session, "none").sizes] == [90, 95, 50]


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, True),
        ({"finish": None}, False),
        ({"error": {"name": "APIError", "data": {"message": "no"}}}, False),
        ({"summary": False}, False),
        ({"parentID": "msg_gone"}, True),  # of a version that asked in no message of its own
    ],
)
def test_a_summary_counts_when_it_ended_well(more: dict[str, Any], counts: bool, tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(STEP, text("b"))
    recording.user({"type": "compaction", "auto": False})
    recording.assistant(STEP, text("sum"), **{"summary": True, **more})
    recording.user(text("c"))
    session = opened(tmp_path, recording)
    assert [each.kind for each in session.facts.compactions] == ["full"] * counts
    if counts and not more:
        assert session.facts.compactions[0].trigger == "manual"
        assert texts(session) == ["What did we do so far?", "sum", "c"]
    elif counts:
        assert texts(session) == ["sum", "c"]
    else:
        assert texts(session)[:2] == ["a", "b"]


def test_a_failed_summary_is_no_call_of_the_conversation(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(STEP, text("b"), tokens=used(90))
    recording.user({"type": "compaction", "auto": True})
    recording.assistant(STEP, text("su"), summary=True, error={"name": "APIError", "data": {}}, tokens=used(95))
    recording.user(text("c"))
    recording.assistant(STEP, text("d"), tokens=used(92))
    session = opened(tmp_path, recording)
    assert ct.replay.replay(session, "none").sizes == [90, 92] and not session.drops


def test_replies_that_failed_are_not_sent(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(error={"name": "APIError", "data": {"message": "overloaded"}})
    recording.assistant(STEP, text("half"), error={"name": "MessageAbortedError", "data": {"message": "x"}})
    recording.assistant(STEP, {**tool("c1", ""), "state": {"status": "running", "input": {}, "time": {"start": 1}}})
    failed = {"status": "error", "input": {}, "error": "no such file", "time": {"start": 1, "end": 2}}
    recording.assistant(STEP, {**tool("c2", ""), "state": failed})
    session = opened(tmp_path, recording)
    assert session.message(1)["content"] == [{"type": "text", "text": "APIError: overloaded"}]
    assert texts(session) == ["a", "half", "tool_use", "=c1", "tool_use", "=c2"]
    assert session.message(4)["content"][0]["is_error"]
    assert session.message(6)["content"] == [
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such file", "is_error": True}
    ]


def test_a_call_that_runs_has_no_result(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    running = {"status": "running", "input": {}, "time": {"start": 1}}
    recording.assistant(STEP, {**tool("c1", ""), "state": running}, time={"created": START}, finish=None)
    assert texts(opened(tmp_path, recording)) == ["a", "tool_use"]


def test_a_message_of_several_requests(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(
        STEP,
        tool("c1", "one"),
        finish(used(100)),
        STEP,
        text("b"),
        tool("c2", "two"),
        finish(used(150, 20)),
        STEP,
        text("c"),
        finish(used(200)),
        tokens=used(200),
    )
    session = opened(tmp_path, recording)
    facts = session.facts
    assert texts(session) == ["a", "tool_use", "=c1", "b tool_use", "=c2", "c"]
    assert [(m, u.context) for m, u in zip(facts.request_message, facts.requests, strict=True)] == [
        (1, 100),
        (3, 170),
        (5, 200),
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_message_of_many_requests_is_read_once_for_all(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, calls = Recording(), list[int]()
    recording.user(text("a"))
    recording.assistant(*(each for n in range(20) for each in (STEP, tool(f"c{n}", "out"), finish(used(9)))))
    session = opened(tmp_path, recording, layout)

    def counted(info: Any, parts: Any) -> Any:
        calls.append(len(parts))
        return parse_message(info, parts)

    monkeypatch.setattr(reader, "parse_message", counted)
    assert len(session.to_messages()) == 41 and len(calls) == 2


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        (used(1, 2, 3, 4, 5, total=15), Usage(1, 2, 3, 0, 9)),
        (used(1, 2, 3, 9, 5, total=15), Usage(1, 2, 3, 0, 9)),
        (used(1, 2, 3, 4, 5), Usage(1, 2, 3, 0, 4)),
        (used(0), None),
        ({"input": "x"}, None),
    ],
)
def test_usage(tokens: dict[str, Any], usage: Usage | None, tmp_path: Path) -> None:
    recording = Recording()
    recording.user(text("a"))
    recording.assistant(STEP, text("b"), tokens=tokens)
    facts = opened(tmp_path, recording).facts
    assert facts.requests == ([usage] if usage else [])
    assert len(facts.problems) == (tokens.get("input") == "x")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_reverted_is_a_branch(layout: str, tmp_path: Path) -> None:
    recording = Recording()
    for words in "abcd":
        recording.user(text(words))
        recording.assistant(STEP, text(words.upper()), text(words.upper() * 2))
    path = stored(layout, tmp_path, recording, revert={"messageID": "msg_0004", "snapshot": "s"})
    session = open_session(path)
    own = f"{SESSION}/" if layout == "database" else ""
    assert texts(session) == ["a", "A AA", "b", "B BB"]
    assert [(each.id, each.messages) for each in session.facts.branches] == [(f"{own}branch-1", 4)]
    assert texts(open_session(f"{path}#{own}branch-1"))[-2:] == ["d", "D DD"]
    with pytest.raises(UnreadableSession, match="unknown session"):
        open_session(f"{path}#{own}branch-2")
    part = recording.messages[3]["parts"][2]["id"]
    (tmp_path / "part").mkdir()
    path = stored(layout, tmp_path / "part", recording, revert={"messageID": "msg_0003", "partID": part})
    session = open_session(path)
    assert texts(session) == ["a", "A AA", "b", "B"]
    assert "reverted" in session.facts.problems[0].what


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    recording = rich()
    recording.messages[0]["parts"].append({"type": "hologram"})
    recording.messages[1]["parts"].append("text")
    recording.messages[2]["info"]["role"] = "oracle"
    recording.messages.append({"no": "message"})
    session = opened(tmp_path, recording)
    assert [each.what for each in session.facts.problems] == [
        "a part of unknown type 'hologram'",
        "a part that is not an object",
        "not a message: unknown role 'oracle'",
        "not a message: unknown role 'None'",
    ]
    path = tmp_path / "x.json"
    path.write_text(path.read_text()[:3_000])
    cut = open_session(path)
    assert cut.facts.problems[-1].what == "the file is cut off here"
    assert texts(cut)[0].startswith("Read a and b.")


def test_a_row_that_is_no_json(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", rich())
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE message SET data = '{' WHERE id = 'msg_0002'")
        made.execute("UPDATE part SET data = 'x' WHERE id = 'prt_00001'")
        made.commit()
    facts = open_session(path).facts
    assert [each.where for each in facts.problems] == ["message msg_0000", "message msg_0002"]
    assert len(facts.record_kind) == 12


# -- databases


def test_no_statement_names_what_holds_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "opencode.db", rich())
    asked: list[str] = []
    connect = Database._connect

    def traced(self: Database) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(Database, "_connect", traced)
    detect_format(path)
    session = open_session(path)
    session.to_messages()
    assert session.content.is_unchanged()
    assert len(asked) > 10
    for word in ("account", "credential", "control_account"):
        assert not [sql for sql in asked if word in sql]


def test_several_sessions_with_their_parents(tmp_path: Path) -> None:
    main, child, empty = rich(), Recording("ses_2"), Recording("ses_3")
    child.user(text("Look."))
    for message in child.messages:
        message["info"]["id"] = "msg_9000"
    child.messages[0]["parts"][0]["id"] = "prt_9"
    path = database(tmp_path / "opencode.db", main)
    with closing(sqlite3.connect(path)) as made:
        child.insert(made, parentID=SESSION, title="Child")
        empty.insert(made)
    found = sessions_in(path)
    assert [(each.id, each.title, each.parent) for each in found] == [
        (SESSION, "Reading", ""),
        ("ses_2", "Child", f"{path}#{SESSION}"),
    ]
    assert all(each.bytes > 100 and each.time > 1e9 for each in found)
    session = open_session(path)  # the one that no other started
    [call] = [row for row in range(len(session.facts.kind)) if session.facts.tool_name(row) == "task"][:1]
    started = FORM.subagent_of(session, call)
    assert started is not None
    assert texts(scan(make_scanner(started))) == ["Look."]
    with closing(sqlite3.connect(path)) as made:
        made.execute("DELETE FROM message WHERE session_id = 'ses_2'")
        made.commit()
    with pytest.raises(UnreadableSession, match="is not here"):
        FORM.subagent_of(session, call)
    assert FORM.subagent_of(session, 0) is None


WRITER = """
import json, sqlite3, sys
sys.path.insert(0, {root!r})
from tests.formats.opencode_records import SCHEMA, put, rich
made = sqlite3.connect({path!r})
made.execute("PRAGMA journal_mode = WAL")
made.execute("PRAGMA wal_autocheckpoint = 0")
made.executescript(SCHEMA)
recording = rich()
whole, recording.messages = recording.messages, []
recording.insert(made)
for message in whole:
    sys.stdin.readline()
    put(made, message)
    made.commit()
    print("done", flush=True)
sys.stdin.readline()
"""


def test_a_log_that_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WRITER.format(root=root, path=str(path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin and writer.stdout
        growing = None
        for _ in rich().messages:
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            growing = growing or make_scanner(choose_session(path))
            growing.advance()
            assert not growing.advance().appended
            fresh = scan(make_scanner(choose_session(path)))
            assert columns(growing.session().facts) == columns(fresh.facts)
        copied = shutil.copy(path, tmp_path / "copy.db")
        shutil.copy(f"{path}-wal", f"{copied}-wal")
        writer.communicate("\n")
    assert growing is not None
    assert columns(growing.session().facts) == columns(open_session(copied).facts)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db", "copy.db-wal", "opencode.db"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reply_that_streams_in(layout: str, tmp_path: Path) -> None:
    whole, path, growing = rich(), tmp_path / "opencode.db", None
    for count, message in enumerate(whole.messages, 1):
        for parts in {*range(0, len(message["parts"]), 2), len(message["parts"])}:
            now = copy.deepcopy(whole)
            now.messages = now.messages[:count]
            now.messages[-1]["parts"] = message["parts"][:parts]
            if parts < len(message["parts"]) and message["info"]["role"] == "assistant":
                now.messages[-1]["info"] |= {"finish": None, "tokens": used(0)}
            if layout == "database" and growing:
                with closing(sqlite3.connect(path)) as made:
                    now.insert(made)
            else:
                path = stored(layout, tmp_path, now)
            growing = growing or make_scanner(choose_session(path))
            growing.advance()
            assert columns(growing.session().facts) == columns(open_session(path).facts), (count, parts)
    assert growing is not None
    assert len(growing.session()) == 15


def test_what_is_appended_is_only_read_on(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", rich())
    scanner = make_scanner(choose_session(path))
    assert scanner.advance().appended == 15
    recording = rich()
    recording.user(text("new"))
    with closing(sqlite3.connect(path)) as made:
        put(made, recording.messages[-1])
        made.commit()
    assert scanner.advance() == Advance(1, None, True)
    assert texts(scanner.session())[-1] == "new"


# -- files


def test_folders_of_the_tree(tmp_path: Path) -> None:
    main, child = rich(), Recording("ses_2")
    child.user(text("Look."))
    child.messages[0]["info"]["id"] = "msg_9"
    storage = tmp_path / "opencode" / "storage"
    own = main.tree(storage)
    child.tree(storage, parentID=SESSION)
    for folder in (storage, storage.parent):
        found = sessions_in(folder)
        assert [(Path(each.path).name, each.parent) for each in found] == [
            ("ses_1.json", ""),
            ("ses_2.json", str(own)),
        ]
    [one] = sessions_in(storage / "message" / SESSION)
    assert one.path == str(own)
    assert one.bytes > 3_000
    session = open_session(storage / "message" / SESSION)
    [call] = [row for row in range(len(session.facts.kind)) if session.facts.tool_name(row) == "task"][:1]
    started = FORM.subagent_of(session, call)
    assert started is not None
    assert started.path.endswith("ses_2.json")
    with pytest.raises(UnreadableSession, match=rf"open {own}"):
        open_session(storage / "message" / SESSION / "msg_0000.json")
    with pytest.raises(UnreadableSession, match="is one message"):
        open_session(storage / "part" / "msg_0000" / "prt_00001.json")
    shutil.rmtree(storage / "message" / SESSION)
    with pytest.raises(UnreadableSession, match="holds no messages"):
        open_session(own)


def test_versions_before_the_tree_was_flat(tmp_path: Path) -> None:
    recording = rich()
    info = tmp_path / "storage" / "session" / "info" / "ses_1.json"
    made = recording.tree(tmp_path / "made")
    shutil.copytree(tmp_path / "made" / "message", info.parent.parent / "message")
    shutil.copytree(tmp_path / "made" / "part", info.parent.parent / "part" / SESSION)
    info.parent.mkdir(parents=True)
    shutil.copy(made, info)
    assert texts(open_session(info)) == texts(open_session(made))


def test_where_sessions_are_kept(tmp_path: Path) -> None:
    data = tmp_path / "data" / "opencode"
    data.mkdir(parents=True)
    tree = rich().tree(data / "storage")
    environ = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": "/nowhere"}
    assert [each.path for each in FORM.find_sessions(environ, tmp_path)] == [tree]
    for name in ("opencode.db", "opencode-local.db", "opencode.db-wal", "other.db"):
        (data / name).touch()
    own = tmp_path / "own.db"
    own.touch()
    assert [each.path.name for each in FORM.find_sessions(environ, tmp_path)] == ["opencode-local.db", "opencode.db"]
    found = [each.path for each in FORM.find_sessions({**environ, "OPENCODE_DB": str(own)}, tmp_path)]
    assert (found[0], len(found)) == (own, 3)
    assert len([*FORM.find_sessions({**environ, "OPENCODE_DB": ":memory:"}, tmp_path)]) == 2
    assert not [*FORM.find_sessions({"HOME": str(tmp_path / "empty")}, tmp_path)]


def test_other_objects_are_not_claimed(tmp_path: Path) -> None:
    others: list[Any] = [
        {"id": "ses_1"},
        {"info": {}, "messages": []},
        {"id": "msg_1"},
        [{"id": "ses_1", "version": 1}],
    ]
    for value in others:
        head = json.dumps(value).encode()
        assert FORM.sniff(head, tmp_path / "x.json") is None


def test_a_session_of_the_same_database_is_listed_below_its_parent(tmp_path: Path) -> None:
    child = Recording("ses_2")
    child.user(text("Look."))
    child.messages[0]["info"]["id"], child.messages[0]["parts"][0]["id"] = "msg_9000", "prt_9"
    path = database(tmp_path / "opencode.db", rich())
    with closing(sqlite3.connect(path)) as made:
        child.insert(made, parentID=SESSION, title="")
    main, below = build_entries(sessions_in(path))
    assert owner_of(below) == main.key
    assert owner_of(main) is None
    assert (below.place, find_title(below.info)) == ("src", "")
