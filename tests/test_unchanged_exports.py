"""An export of a session to which nothing was applied keeps what was recorded: in its own format, the records."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import ExportError
from context_tui.export import files
from context_tui.export.files import export, is_copied, list_writable_formats
from context_tui.formats.base import scan
from context_tui.formats.opening import open_session
from context_tui.formats.registry import FORMATS
from context_tui.session.session import Session
from tests.exports import recorded, sessions
from tests.formats.test_koda import make, reply, tool, user
from tests.fuzz.mutations import Case

SAMPLES = sorted(
    path
    for path in (Path(__file__).parents[1] / "sample_sessions").iterdir()
    if path.suffix in (".json", ".jsonl", ".db")
)
CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
RECORDED = sorted(path for path in CORPUS.rglob("*") if path.suffix in (".json", ".jsonl", ".db"))


def copies_of(path: Path, folder: Path) -> list[str]:
    """What is wrong with the unchanged exports of the sessions in a file that can be written in their own format."""
    wrong = []
    for session in sessions(path):
        form = session.info.format
        if form in list_writable_formats():
            done = export(session, folder / f"out{path.suffix}", form, force=True)
            again = ct.open_session(done.path)
            if recorded(again) != recorded(session):
                wrong.append(
                    f"{session.info.id}: {[k for k, v in recorded(session).items() if recorded(again)[k] != v]}"
                )
            if done.resume_command:
                wrong.append(f"{session.info.id}: resumes {done.resume_command}")
    return wrong


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples(path: Path, tmp_path: Path) -> None:
    assert copies_of(path, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.relative_to(CORPUS)))
def test_recordings(path: Path, tmp_path: Path) -> None:
    try:
        ct.sessions_in(path)
    except ct.Error:
        pytest.skip("not a format that is read")
    assert copies_of(path, tmp_path) == []


@pytest.mark.parametrize("path", [path for path in SAMPLES if path.suffix != ".db"], ids=lambda path: path.name)
def test_a_file_of_one_session_is_the_same_byte_for_byte(path: Path, tmp_path: Path) -> None:
    session = next(sessions(path))
    assert export(session, tmp_path / "out", session.info.format).path.read_bytes() == path.read_bytes()


def line(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> str:
    """A Claude Code line; replies have usage."""
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {"input_tokens": 7, "cache_read_input_tokens": 900, "output_tokens": 3}
        message |= {"id": f"m-{uuid}", "model": "claude-x", "usage": usage}
    envelope = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
    record = {**envelope, "timestamp": "2026-01-01T00:00:00.000Z", "message": message, **more}
    return json.dumps(record, separators=(",", ":")) + "\n"


SIDE = {"isSidechain": True, "agentId": "helper"}
FORKED = "".join(
    [
        json.dumps({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}) + "\n",
        line("a", None, "user", "go"),
        line("b", "a", "assistant", [{"type": "text", "text": "going"}]),
        line("s1", None, "user", "help", **SIDE),
        line("s2", "s1", "assistant", [{"type": "text", "text": "helping"}], **SIDE),
        line("c", "b", "user", "left"),
        line("d", "c", "assistant", [{"type": "text", "text": "leaving"}]),
        "no JSON\n\n",
        line("e", "b", "user", "right"),
        line("f", "e", "assistant", [{"type": "text", "text": "right it is"}]),
    ]
)


@pytest.mark.parametrize("end", ["", "\n\n \n", '{"type":"user","torn'])
def test_lines_are_copied_with_sidechains_branches_and_what_cannot_be_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED + end)
    session = ct.open_session(path)
    done = export(session, tmp_path / "s.copy.jsonl", "claude-code")
    assert done.path.read_bytes() == path.read_bytes() and done.losses == []
    assert {info.id for info in ct.sessions_in(done.path)} == {"", "helper"}
    assert [branch.id for branch in ct.open_session(done.path).facts.branches] == ["branch-1"]


@pytest.mark.parametrize("part", ["helper", "branch-1"])
def test_a_sidechain_and_a_branch_become_files_of_their_own(tmp_path: Path, part: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    session = ct.open_session(f"{path}#{part}")
    again = ct.open_session(export(session, tmp_path / "s.copy.jsonl", "claude-code").path)
    assert recorded(again) == recorded(session) and session.facts.requests
    assert len(again) == {"helper": 2, "branch-1": 4}[part] and not again.facts.branches


def test_sub_agents_in_files_of_their_own_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    beside = tmp_path / "s" / "subagents" / "agent-1.jsonl"
    beside.parent.mkdir(parents=True)
    beside.write_text(line("s1", None, "user", "help", isSidechain=True, agentId="1"))
    done = export(ct.open_session(path), tmp_path / "out.jsonl", "claude-code")
    assert done.losses == ["not in the copy: sub-agents that have files of their own: 1"]
    agent = export(ct.open_session(beside), tmp_path / "agent-1.copy.jsonl", "claude-code")
    assert agent.path.read_bytes() == beside.read_bytes() and agent.losses == []


def test_what_was_read_is_copied_and_the_rest_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    session = ct.open_session(path)
    with path.open("a") as file:
        file.write("x" * 2_000)
    done = export(session, tmp_path / "out.jsonl", "claude-code")
    assert done.path.read_text() == FORKED
    assert done.losses == ["not in the copy: 2,000 bytes at the end of the file that were not read"]


def test_a_document_that_has_grown_is_copied_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    first, more = (json.dumps({"role": "user", "content": [{"type": "text", "text": text}]}) for text in "ab")
    path.write_text(first + "\n")
    session = ct.open_session(path)
    path.write_text(f"{first}\n{more}\n")
    done = export(session, tmp_path / "out.jsonl", session.info.format)
    assert done.path.read_bytes() == path.read_bytes()
    assert done.losses == ["the copy has 1 more messages, recorded after the session was opened"]


REPLY = {"role": "assistant", "content": "yes", "usage": {"input_tokens": 9, "output_tokens": 2}}


@pytest.mark.parametrize("wrapped", [True, False])
def test_one_run_of_several_is_a_document_with_all_that_stood_beside_it(tmp_path: Path, wrapped: bool) -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    runs = [
        {"system": "Be brief.", "tools": tools, "raw_messages": [{"role": "user", "content": text}], "extra": 1.50}
        for text in ("one", "two")
    ]
    logged = [{"request": run, "response": REPLY, "at": 7} if wrapped else {**run, "response": REPLY} for run in runs]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in logged))
    for session in sessions(path):
        assert session.facts.requests
        done = export(session, tmp_path / "out.jsonl", "anthropic", force=True)
        assert done.losses == []
        assert recorded(ct.open_session(done.path)) == recorded(session)
        assert "1.5," in done.path.read_text() or "1.5}" in done.path.read_text()


def test_rows_are_copied_with_their_session_and_its_metadata_and_nothing_else(tmp_path: Path) -> None:
    numbers = {"prompt_tokens": 900, "completion_tokens": 5, "cache_read_tokens": 300}
    rows = [user("go"), {**reply("Looking.", None), **numbers}, tool("text", "c"), user("old", compacted_at="x")]
    path = make(tmp_path / "koda.db", rows)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session_metadata (session_id TEXT, key TEXT, value TEXT, mine TEXT)")
        database.execute("INSERT INTO session_metadata VALUES ('s', 'todo', 'all of it', 'x'), ('t', 'no', 'no', 'x')")
        database.execute("INSERT INTO messages (session_id, role, content) VALUES ('t', 'user', 'another')")
        database.execute("UPDATE messages SET content = CAST(x'ff41' AS TEXT) WHERE content = 'text'")
        database.commit()
    session = open_session(f"{path}#s")
    done = export(session, tmp_path / "out.db", "koda")
    assert done.losses == ["columns left out that koda is not known to have: 1"]
    assert recorded(open_session(done.path)) == recorded(session) and session.facts.requests
    names = "id, session_id, role, content, prompt_tokens, completion_tokens, completed_at, created_at, compacted_at"
    found = []
    for file in (path, done.path):
        with closing(sqlite3.connect(file)) as database:
            database.text_factory = bytes
            found.append(
                [
                    *database.execute(f"SELECT {names}, typeof(content) FROM messages WHERE session_id = 's'"),
                    *database.execute("SELECT * FROM sessions"),
                    *database.execute("SELECT session_id, key, value FROM session_metadata WHERE session_id = 's'"),
                ]
            )
    assert found[0] == found[1]
    data = done.path.read_bytes()
    assert b"another" not in data and b"api_key" not in data and b"secret" not in data


@pytest.mark.parametrize("change", ["messages", "requests"])
def test_a_copy_that_reads_back_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    form = type(FORMATS["claude-code"])
    copy = FORMATS["claude-code"].copy

    def wrong(self: Any, session: Session, out: Path) -> list[str] | None:
        notes = copy(session, out)
        out.write_bytes(out.read_bytes().replace(b"right", b"wrong!").replace(b"900", b"901"))
        if change == "requests":
            out.write_bytes(out.read_bytes().replace(b"wrong!", b"right"))
        return notes

    monkeypatch.setattr(form, "copy", wrong)
    with pytest.raises(ExportError, match=f"reads back with different {change}; nothing was written"):
        export(ct.open_session(path), tmp_path / "out.jsonl", "claude-code")
    assert not (tmp_path / "out.jsonl").exists()


def test_an_input_that_has_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    session = ct.open_session(path)
    path.write_text(FORKED.replace("right", "other"))
    with pytest.raises(ExportError, match="has changed"):
        export(session, tmp_path / "out.jsonl", "claude-code")
    path.write_text(FORKED)
    session = ct.open_session(path)
    monkeypatch.setattr(files, "sync", lambda _: path.write_text(FORKED.replace("right", "other")))
    with pytest.raises(ExportError, match="has changed"):
        export(session, tmp_path / "out.jsonl", "claude-code")


@pytest.mark.parametrize("name", list_writable_formats())
def test_another_format_keeps_the_usage_that_it_can_hold_and_tells_the_rest(tmp_path: Path, name: str) -> None:
    numbers = {"prompt_tokens": 900, "completion_tokens": 5, "cache_read_tokens": 300}
    path = make(tmp_path / "koda.db", [user("go"), {**reply("Gone."), **numbers}, user("on")])
    session = open_session(path)
    done = export(session, tmp_path / "out", name)
    again = open_session(done.path)
    holds = name in ("claude-code", "codex", "koda", "opencode", "gemini-cli", "pi", "agent-sdk", "defect")
    assert [each.context for each in again.facts.requests] == ([900] if holds else [])
    assert ("recorded usage left out: 1 requests" in done.losses) is not holds


def test_a_format_that_cannot_copy_writes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    monkeypatch.setattr(type(FORMATS["claude-code"]), "copy", lambda *_: None)
    done = export(ct.open_session(path), tmp_path / "out.jsonl", "claude-code")
    assert done.resume_command
    assert len(ct.open_session(done.path)) == 4


def test_a_session_that_was_read_in_part_is_copied_in_part(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(FORKED)
    form = FORMATS["claude-code"]
    scanner = form.make_scanner(path, form.list_sessions(path)[0])
    while len(scanner.session()) < 2:
        scanner.advance(0.0)
    session = scanner.session()
    done = export(session, tmp_path / "out.jsonl", "claude-code")
    assert FORKED.startswith(done.path.read_text())
    assert len(scan(form.make_scanner(done.path, form.list_sessions(done.path)[0]))) == len(session)


@pytest.mark.parametrize("name", [name for name in list_writable_formats() if FORMATS[name].copies])
def test_whether_a_session_is_copied_is_known_before(tmp_path: Path, name: str) -> None:
    """As the dialog says of the session, its branches and its sidechains, what is done to it."""
    told = []
    for seed in range(4):
        case = Case(seed, name, ())
        path = tmp_path / f"{seed}{case.suffix}"
        case.write(path)
        for number, session in enumerate(sessions(path)):
            copied = FORMATS[name].copy(session, tmp_path / f"out-{seed}-{number}") is not None
            told.append((session.info.id, is_copied(session, name), copied))
    assert told and [each for each in told if each[1] is not each[2]] == []


def test_a_conversation_with_files_beside_it_is_no_copy(tmp_path: Path) -> None:
    shown = [{"ts": 1, "type": "say", "say": "api_req_started", "text": '{"tokensIn": 9, "tokensOut": 1}'}]
    said = [{"role": "user", "content": "go", "ts": 1}, {"role": "assistant", "content": "yes", "ts": 2}]
    path = tmp_path / "api_conversation_history.json"
    path.write_text(json.dumps(said))
    assert is_copied(ct.open_session(path), "cline")
    (tmp_path / "ui_messages.json").write_text(json.dumps(shown))
    session = ct.open_session(path)
    assert session.facts.requests and not is_copied(session, "cline")
