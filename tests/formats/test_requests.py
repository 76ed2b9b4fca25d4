"""Logs of whole requests: Claude Code's raw bodies and claude-tap's recordings, joined, compacted, broken, growing."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_tui.batch.workers import find_sources
from context_tui.cli.inspect import build_report
from context_tui.errors import SeveralSessions, UnreadableSession
from context_tui.formats.opening import choose_session, list_unrecorded, make_scanner, open_session, sessions_in
from context_tui.formats.registry import FORMATS
from context_tui.library.follow import GrowingSession
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind, MessageFlag
from context_tui.tokens.measures import TokenMeasure, build_calibrated_table
from tests.formats import request_logs as logs


@pytest.fixture(autouse=True)
def _no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)


def sent_texts(request: dict[str, Any]) -> list[str]:
    """Texts of the messages of a request, in order."""
    found = []
    for message in request["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            found.append(block.get("text") or block.get("content") or json.dumps(block.get("input")))
    return found


def held_texts(session: Session, at: int) -> list[str]:
    """Texts of the context before a message."""
    return [
        block.get("text") or block.get("content") or json.dumps(block.get("input"))
        for message in session.to_messages(at)
        for block in message["content"]
    ]


@pytest.mark.parametrize("index", [True, False])
def test_each_context_is_what_was_sent(tmp_path: Path, index: bool) -> None:
    run = logs.make_run()
    folder = logs.write_folder(tmp_path / "bodies", run, index=index)
    infos = sessions_in(folder)
    assert [(info.id, info.parent) for info in infos] == [
        (logs.SESSION, ""),
        (f"{logs.SESSION}/agent-1", f"{folder}#{logs.SESSION}"),
    ]
    assert infos[0].title == "Count to fifty." and "1 other request" in infos[0].note
    session = open_session(folder)
    main = [(request, reply) for source, request, reply in run.exchanges if source == "sdk"]
    facts = session.facts
    assert not facts.problems and len(facts.requests) == len(main)
    for (request, reply), message, usage in zip(main, facts.request_message, facts.requests, strict=True):
        assert held_texts(session, message) == sent_texts(request)
        assert usage.context == sum(reply["usage"][name] for name in ("input_tokens", "cache_read_input_tokens"))
    assert [epoch.cause for epoch in facts.epochs] == ["start", "compaction"]
    (abandoned,) = facts.branches
    assert (abandoned.requests, abandoned.id, abandoned.is_at_summary) == (1, f"{logs.SESSION}/branch-1", True)
    branch = open_session(f"{folder}#{abandoned.id}")
    assert logs.ASKED in held_texts(branch, len(branch))


def test_replies_of_agents_at_work_at_once_are_joined_by_content(tmp_path: Path) -> None:
    run = logs.make_run()
    expected = open_session(logs.write_folder(tmp_path / "indexed", run)).to_messages()
    folder = logs.write_folder(tmp_path / "bodies", run, index=False)
    begun = (folder / "0004-u.request.json").stat().st_mtime + 1
    os.utime(folder / "0005-u.request.json", (begun, begun))  # while the sub-agent waits for its reply
    session = open_session(folder)
    assert not session.facts.problems and session.to_messages() == expected


def test_requests_in_claude_codes_own_file(tmp_path: Path) -> None:
    run = logs.make_run()
    path = logs.write_session_file(tmp_path / f"{logs.SESSION}.jsonl", run)
    plain, whole = open_session(path), open_session(f"{path}#requests")
    assert plain.info.format == "claude-code" and whole.info.format == "claude-requests"
    assert [part.name for part in plain.facts.prompts[0].tools] == [tool["name"] for tool in logs.TOOLS]
    assert plain.content.tools() == logs.TOOLS and not plain.facts.problems
    assert list_unrecorded(plain) == ("billing header", "output of a command") and list_unrecorded(whole) == ()
    main = [(request, reply) for source, request, reply in run.exchanges if source == "sdk"]
    assert not whole.facts.problems and len(whole.facts.requests) == len(main)
    for (request, _), message in zip(main, whole.facts.request_message, strict=True):
        assert held_texts(whole, message) == sent_texts(request)
    assert [epoch.cause for epoch in whole.facts.epochs] == ["start", "compaction"]
    path.write_text(path.read_text().replace("api-request-blob", "other"))
    with pytest.raises(UnreadableSession, match="messages are not in the file"):
        sessions_in(f"{path}#requests/branch-1") and open_session(f"{path}#requests")


def test_injected_summary_and_typed(tmp_path: Path) -> None:
    session = open_session(logs.write_folder(tmp_path / "bodies", logs.make_run()))
    facts = session.facts
    summary = facts.epochs[-1].message
    assert facts.flags[summary] & MessageFlag.SUMMARY
    marks = [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in facts.blocks_of(summary)]
    assert marks == [True, False]
    assert session.turns == 2
    injected = [
        block["text"]
        for message in range(len(session))
        for row, block in zip(facts.blocks_of(message), session.content.blocks(message), strict=True)
        if facts.block_flags[row] & BlockFlag.INJECTED
    ]
    assert injected == [logs.RULES, logs.SKILLS, logs.RULES, "<system-reminder>be brief</system-reminder>"]


def test_the_prompt_in_parts(tmp_path: Path) -> None:
    session = open_session(logs.write_folder(tmp_path / "bodies", logs.make_run()))
    assert [part.name for part in session.facts.prompts[0].system] == ["x-header: version=1", "You are a counter."]
    report = build_report(session, measure=TokenMeasure.CALIBRATED)
    tools = {tool["name"]: tool for tool in report["tools"]}
    assert [tools[name]["calls"] for name in ("Bash", "Agent", "mcp__github__issues")] == [2, 1, 0]
    assert tools["mcp__github__issues"]["last_use"] is None and tools["Bash"]["last_use"] == 6
    assert sum(tool["tokens"] for tool in report["tools"]) == report["by_category"]["tools"] > 0
    assert sum(part["tokens"] for part in report["system"]) == report["by_category"]["system"] > 0
    assert [part["cache_breakpoint"] for part in report["system"]] == [False, True]
    assert not any(tool["cache_breakpoint"] for tool in report["tools"])
    assert report["window"]["not_in_file_tokens"] == 0 == report["by_category"]["not_in_file"]
    parts = {part["part"] for part in report["injected"]}
    assert parts == {"/src/CLAUDE.md", "reminder"}
    assert report["exact_requests"]


def test_every_request_has_its_recorded_size(tmp_path: Path) -> None:
    session = open_session(logs.write_folder(tmp_path / "bodies", logs.make_run()))
    facts, table = session.facts, build_calibrated_table(session.facts)
    for reply, usage in zip(facts.request_message, facts.requests, strict=True):
        size = table.compute_prefix_sums(session.context_at(reply))[-1] + sum(table.prompts[-1])
        assert abs(size - usage.context) <= 0.01 * usage.context


def test_the_agents_own_file_says_what_was_typed(tmp_path: Path) -> None:
    run = logs.make_run()
    folder = logs.write_folder(tmp_path / "bodies", run)
    last = run.exchanges[-1][2]
    records = [
        {"type": "user", "message": {"role": "user", "content": "Count to fifty."}},
        {
            "type": "assistant",
            "timestamp": "2026-10-01T11:00:00.000Z",
            "message": {"id": last["id"], "role": "assistant", "content": last["content"], "usage": last["usage"]},
        },
    ]
    members = {"sessionId": logs.SESSION, "cwd": "/src"}
    lines = (json.dumps({**each, **members, "uuid": f"u{n}"}) for n, each in enumerate(records))
    (tmp_path / f"{logs.SESSION}.jsonl").write_text("\n".join(lines))
    (folder / f"req_{len(run.exchanges) - 1:04}.response.json").write_text("")  # the program ended too early
    session = open_session(folder)
    assert session.info.cwd == "/src" and not session.facts.problems
    assert session.turns == 1  # "Go on." is not in the file: the program put it there
    assert session.facts.time[len(session) - 1] == 1_790_852_400_000
    assert held_texts(session, len(session))[-1] == "Fifty."


def test_two_runs_in_one_folder_and_a_resumed_one(tmp_path: Path) -> None:
    run = logs.make_run()
    folder = logs.write_folder(tmp_path / "bodies", run)
    other = json.loads(json.dumps(run.exchanges[1][1]).replace(logs.SESSION, "other"))
    (folder / "z.request.json").write_text(json.dumps(other))
    with pytest.raises(SeveralSessions) as error:
        choose_session(folder)
    assert error.value.ids == [f"{folder}#{logs.SESSION}", f"{folder}#other"]
    assert len(open_session(f"{folder}#other")) == 2
    problems = open_session(f"{folder}#other").facts.problems
    assert [problem.where for problem in problems] == ["z.request.json"] or not problems


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.request.json", b'{"model": "m", "mess\n\n[TRUNCATED - Content exceeds 60KB limit]', "file:DIR"),
        ("x.request.json", b'{"model": "m", "input": []}', "another API"),
        ("x.request.json", b'{"model": "m", "mess', "not a JSON object"),
        ("x.response.json", b"{}", "a response without its request"),
    ],
)
def test_bad_bodies_are_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    folder = logs.write_folder(tmp_path / "bodies", logs.make_run())
    (folder / name).write_bytes(content)
    session = open_session(folder)
    [problem] = session.facts.problems
    assert problem.where == name and reason in problem.what
    assert len(session.facts.requests) == 5


def test_a_folder_of_cut_bodies_says_how_to_record(tmp_path: Path) -> None:
    (tmp_path / "x.request.json").write_bytes(b'{"model": 1\n\n[TRUNCATED - Content exceeds 60KB limit]')
    with pytest.raises(UnreadableSession, match="OTEL_LOG_RAW_API_BODIES=file:DIR"):
        open_session(tmp_path)


def test_an_index_that_lies(tmp_path: Path) -> None:
    folder = logs.write_folder(tmp_path / "bodies", logs.make_run())
    index = folder / "index.jsonl"
    lines = index.read_text().splitlines()
    lines[1] = lines[1].replace("req_0001", "req_0002")
    lines.insert(0, json.dumps({"request_file": "../../secret.request.json"}))
    lines.insert(0, "{")
    index.write_text("\n".join(lines) + "\n")
    facts = open_session(folder).facts
    said = {problem.where: problem.what for problem in facts.problems}
    assert "not JSON" in said["index.jsonl line 1"] and "not there" in said["index.jsonl line 2"]
    assert "which holds another message" in said["index.jsonl line 4"]
    assert len(said) == 3 and len(facts.requests) == 5


def test_a_session_id_that_no_file_can_have(tmp_path: Path) -> None:
    folder = logs.write_folder(tmp_path / "bodies", logs.make_run())
    index = folder / "index.jsonl"
    index.write_text(index.read_text().replace(logs.SESSION, "x" * 400))
    assert {info.id for info in sessions_in(folder)} == {"x" * 400, "x" * 400 + "/agent-1"}


def test_times_that_cannot_be_read(tmp_path: Path) -> None:
    folder = logs.write_folder(tmp_path / "bodies", logs.make_run())
    index = folder / "index.jsonl"
    index.write_text(index.read_text().replace("2026-10-01T", "some day "))
    assert [info.time for info in sessions_in(folder)] == [0, 0]
    path = logs.write_database(tmp_path / "traces.sqlite3", {"claude": logs.make_records(logs.make_run())})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE sessions SET updated_at = 'some day'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("context_tui.formats.kit.entry_scanner.MAX_SIZED_DATABASE_BYTES", 0)
        assert [info.time for info in sessions_in(path)] == [0]


def test_bodies_that_are_written_just_now(tmp_path: Path) -> None:
    run = logs.make_run()
    whole = open_session(logs.write_folder(tmp_path / "whole", run))
    folder = tmp_path / "live"
    begun = logs.Run()
    begun.exchanges = run.exchanges[:2]
    growing = GrowingSession(choose_session(logs.write_folder(folder, begun)))
    growing.advance()
    for number in range(3, len(run.exchanges) + 1):
        begun.exchanges = run.exchanges[:number]
        logs.write_folder(folder, begun)
        response = folder / f"req_{number - 1:04}.response.json"
        data = response.read_bytes()
        response.write_bytes(b"")  # not yet written
        while not growing.advance().end:
            pass
        response.write_bytes(data)
        while not growing.advance().end:
            pass
    session = growing.session()
    assert session.to_messages() == whole.to_messages()
    assert [usage.context for usage in session.facts.requests] == [usage.context for usage in whole.facts.requests]


def test_server_edits_clear_results(tmp_path: Path) -> None:
    run = logs.make_run()
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": 90}
    run.exchanges[5][2]["context_management"] = {"applied_edits": [edit]}
    session = open_session(logs.write_folder(tmp_path / "bodies", run))
    facts = session.facts
    [micro] = [each for each in facts.compactions if each.kind == "micro"]
    [row] = micro.cleared_blocks
    assert facts.kind[row] == Kind.TOOL_RESULT and facts.call_id(row) == "toolu_1"


def test_results_cleared_by_the_client(tmp_path: Path) -> None:
    run = logs.make_run()
    body = json.loads(json.dumps(run.exchanges[5][1]))
    body["messages"][3]["content"][0]["content"] = "[Old tool result content cleared]"
    run.exchanges[5] = (run.exchanges[5][0], body, run.exchanges[5][2])
    facts = open_session(logs.write_folder(tmp_path / "bodies", run)).facts
    assert any(each.kind == "micro" and each.cleared_blocks for each in facts.compactions)


def test_a_rewind_is_a_branch(tmp_path: Path) -> None:
    run = logs.Run()
    start = [{"role": "user", "content": "Count."}]
    history = run.ask("sdk", start, logs.call("Bash", 1, command="a"))
    history = [*history, logs.results(1, "one")]
    run.ask("sdk", history, logs.text("First way."))
    run.ask("sdk", [*history, {"role": "assistant", "content": [logs.text("Other")]}], logs.text("Second way."))
    session = open_session(logs.write_folder(tmp_path / "bodies", run))
    assert held_texts(session, len(session))[-2:] == ["Other", "Second way."]
    assert [(branch.messages, branch.is_at_summary) for branch in session.facts.branches] == [(1, False)]


def test_the_sub_agent_of_a_call(tmp_path: Path) -> None:
    session = open_session(logs.write_folder(tmp_path / "bodies", logs.make_run()))
    row = next(row for row in range(len(session.facts.kind)) if session.facts.call_id(row) == "toolu_2")
    found = FORMATS[session.info.format].subagent_of(session, row)
    assert found and found.id.endswith("/agent-1")


CLIENTS = {
    "codex": (logs.make_responses_records, "Help.\n\nBe exact.", ["shell", "web_search"]),
    "opencode": (logs.make_chat_records, "Be brief.", ["bash"]),
    "gemini": (logs.make_gemini_records, "Help.", ["run", "read"]),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_other_apis_in_claude_taps_database(tmp_path: Path, client: str) -> None:
    make, system, tools = CLIENTS[client]
    records = make()
    path = logs.write_database(
        tmp_path / "traces.sqlite3", {client: records, "claude": logs.make_records(logs.make_run())}
    )
    session = open_session(f"{path}#{client}")
    facts = session.facts
    assert not facts.problems and not facts.branches and len(facts.epochs) == 1
    assert len(facts.requests) == len(records)
    assert session.content.system() == system
    assert [part.name for part in facts.prompts[-1].tools] == tools
    results = [row for row, kind in enumerate(facts.kind) if kind == Kind.TOOL_RESULT]
    assert results and all(facts.find_tool_use(row) >= 0 for row in results)
    assert session.info.title.startswith(f"{client}: List.")


def test_all_forms_of_a_recording_are_one_session(tmp_path: Path) -> None:
    run = logs.make_run()
    records = logs.make_records(run)
    bodies = open_session(logs.write_folder(tmp_path / "bodies", run)).to_messages()
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    (tmp_path / "bundle.json").write_text(json.dumps(logs.make_bundle(records)))
    turns = [
        {"turn": n, "duration_ms": 5, **request, "response": {"content": reply["content"], "usage": reply["usage"]}}
        for n, (_, request, reply) in enumerate(run.exchanges, 1)
    ]
    (tmp_path / "turns.json").write_text(json.dumps(turns))
    database = logs.write_database(tmp_path / "traces.sqlite3", {"lines": records})
    for path in (tmp_path / "lines.jsonl", tmp_path / "bundle.json", tmp_path / "turns.json", database):
        session = open_session(path)
        assert session.info.format == "claude-tap"
        assert session.to_messages() == bodies, path.name


@pytest.mark.parametrize("begun", [1, 2])
def test_a_database_that_is_written_just_now(tmp_path: Path, begun: int) -> None:
    """The first request only asks for a title, so the id of the run names the conversation that follows."""
    records = logs.make_records(logs.make_run())
    path = logs.write_database(tmp_path / "traces.sqlite3", {"claude": records[:begun]})
    info = choose_session(path)
    scanner = make_scanner(info)
    scanner.advance()
    with closing(sqlite3.connect(path)) as database:
        logs.add_session(database, "claude", records, begin=begun)
        database.commit()
        while not scanner.advance().end:
            pass
        assert scanner.session().to_messages() == open_session(path).to_messages()
        assert scanner.session().content.is_unchanged()


def test_a_large_database_is_listed_without_looking_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = logs.make_records(logs.make_run())
    path = logs.write_database(tmp_path / "traces.sqlite3", {"claude": records, "gemini": logs.make_gemini_records()})
    monkeypatch.setattr("context_tui.formats.kit.entry_scanner.MAX_SIZED_DATABASE_BYTES", 0)
    assert sorted((info.id, info.parent) for info in sessions_in(path)) == [("claude", ""), ("gemini", "")]
    assert len(open_session(f"{path}#claude/agent-1")) == 4
    assert open_session(f"{path}#claude/branch-1").facts.problems == []


@pytest.mark.parametrize("functions", [5, "run", None, {"name": "run"}, [3]])
def test_a_tool_of_gemini_without_a_list_of_functions(tmp_path: Path, functions: Any) -> None:
    records = logs.make_gemini_records()
    for each in records:
        each["request"]["body"]["tools"] = [{"functionDeclarations": functions}]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    assert len(open_session(path)) == 4


def test_a_request_whose_tool_describes_a_record_is_no_recording(tmp_path: Path) -> None:
    (record, *_) = logs.make_records(logs.make_run())
    tool = {"type": "function", "function": {"name": "show", "parameters": {"type": record}}}
    request = {"model": "m", "messages": [{"role": "user", "content": "Show it."}], "tools": [tool]}
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request, separators=(",", ":")))
    assert open_session(path).info.format == "openai"


def test_a_torn_line_and_a_missing_part(tmp_path: Path) -> None:
    records = logs.make_records(logs.make_run())
    bundle = logs.make_bundle(records)
    del bundle["blobs"][next(iter(bundle["blobs"]))]
    (tmp_path / "bundle.json").write_text(json.dumps(bundle))
    assert any(
        "a part of it is not there" in each.what for each in open_session(tmp_path / "bundle.json").facts.problems
    )
    lines = "".join(json.dumps(each) + "\n" for each in records)
    (tmp_path / "lines.jsonl").write_text(lines[:-40])
    assert len(open_session(tmp_path / "lines.jsonl").facts.requests) == 4


def test_the_picker_finds_the_database(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "claude-tap"
    folder.mkdir(parents=True)
    logs.write_database(folder / "traces.sqlite3", {"claude": logs.make_records(logs.make_run())})
    found = list(FORMATS["claude-tap"].find_sessions({"XDG_DATA_HOME": str(tmp_path / "data")}, tmp_path))
    assert [each.path for each in found] == [folder / "traces.sqlite3"]


def test_a_sweep_takes_the_sessions_of_a_folder(tmp_path: Path) -> None:
    folder = logs.write_folder(tmp_path / "all" / "bodies", logs.make_run())
    sources, unread, _ = find_sources([tmp_path / "all"])
    assert [source.info.path for source in sources] == [str(folder)] * 2 and not unread


def test_tools_that_change_during_a_session(tmp_path: Path) -> None:
    run = logs.make_run()
    for number in (7, 8):
        run.exchanges[number][1]["tools"] = [*logs.TOOLS, {"name": "mcp__db__query", "input_schema": {"x": "y" * 900}}]
    session = open_session(logs.write_folder(tmp_path / "bodies", run))
    before, after = (
        build_report(session, at, measure=TokenMeasure.OWN) for at in (session.facts.request_message[0] + 1, None)
    )
    assert len(before["tools"]) == 3 and len(after["tools"]) == 4
    for report in (before, after):
        assert abs(sum(tool["tokens"] for tool in report["tools"]) - report["by_category"]["tools"]) < 4
    assert after["by_category"]["tools"] - before["by_category"]["tools"] > 200
