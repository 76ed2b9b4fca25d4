"""Gemini CLI's sessions: documents and lines, rewinds, rewritten records and histories, sub-agents, places."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.export.files import export
from context_tui.formats.gemini_cli import GeminiCliFormat
from context_tui.formats.opening import detect_format
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind, MessageFlag
from tests.formats.growth import check_growth

WHEN = "2026-03-01T10:00:00.000Z"
HEADER = {"sessionId": "abc-1", "projectHash": "f" * 64, "startTime": WHEN, "lastUpdated": WHEN}
TOKENS = {"input": 900, "output": 10, "cached": 600, "thoughts": 30, "tool": 5, "total": 945}


def user(own: str, content: Any) -> dict[str, Any]:
    return {"id": own, "timestamp": WHEN, "type": "user", "content": content}


def notice(own: str) -> dict[str, Any]:
    return {"id": own, "timestamp": WHEN, "type": "info", "content": "Update available"}


def call(own: str, answer: Any = None, **more: Any) -> dict[str, Any]:
    result = None if answer is None else [{"functionResponse": {"id": own, "name": "read_file", "response": answer}}]
    told = {"id": own, "name": "read_file", "args": {"path": own}, "status": "success", "timestamp": WHEN}
    return {**told, "result": result, **more}


def gemini(own: str, content: Any = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {"id": own, "timestamp": WHEN, "type": "gemini", "content": content, "model": "gemini-2.5-pro"}
    return {**told, **({"toolCalls": list(calls)} if calls else {}), "tokens": TOKENS, **more}


THOUGHT = {"subject": "Reading", "description": "Both files.", "timestamp": WHEN}
ONE, TWO = call("c1", {"output": "one"}), call("c2", {"error": "none"}, status="error")
CALLED = {"functionCall": {"name": "read_file", "args": {"path": "c4"}}}
PLAIN = [
    user("0", "<session_context>\nToday is Sunday.\n</session_context>"),
    user("1", [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]),
    gemini("2", "I read.", ONE, TWO, thoughts=[THOUGHT]),
    notice("3"),
    gemini("4", "", call("c3"), tokens=None),
    user("5", "/help"),
    user("6", "Thanks."),
    gemini("7", [{"text": "Welcome."}, CALLED], call("c4", {"a": 1})),
]


def document(path: Path, messages: list[dict[str, Any]], indent: int | None = 2) -> Path:
    path.write_text(json.dumps({**HEADER, "messages": messages}, indent=indent))
    return path


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in (HEADER, *records)))
    return path


def words(block: dict[str, Any]) -> str:
    match block["type"]:
        case "tool_use":
            return f"{block['name']}({block['id']})"
        case "tool_result":
            return f"{block['tool_use_id']}={block['content']}"
    return str(block.get("text") or block.get("thinking") or block["type"])


def texts(session: Session) -> list[str]:
    return ["|".join(map(words, message["content"])) for message in session.to_messages()]


EXPECTED = [
    "<session_context>\nToday is Sunday.\n</session_context>",
    "Look.|image",
    "Reading\nBoth files.|I read.|read_file(c1)|read_file(c2)",
    "c1=one|c2=none",
    "read_file(c3)",
    "Thanks.",
    "Welcome.|read_file(c4)",
    "c4={'a': 1}",
]


@pytest.mark.parametrize("kind", ["document", "one line", "lines"])
def test_messages(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    if kind == "lines":
        lines(path, *PLAIN)
    else:
        document(path, PLAIN, None if kind == "one line" else 2)
    session = ct.open_session(path)
    facts = session.facts
    assert session.info.format == "gemini-cli"
    assert texts(session) == EXPECTED
    assert session.turns == 2
    assert facts.input_includes_cache
    assert [(use.fresh, use.cache_read, use.output) for use in facts.requests] == [(305, 600, 40)] * 2
    assert facts.model == "gemini-2.5-pro"
    assert sum(bool(flags & BlockFlag.ERROR) for flags in facts.block_flags) == 1
    assert not facts.problems
    assert [*facts.record_kind].count(1) == (2 if kind == "lines" else 1)


def test_records_are_written_again(tmp_path: Path) -> None:
    bare = {name: value for name, value in PLAIN[2].items() if name not in ("toolCalls", "tokens")}
    session = ct.open_session(
        lines(
            tmp_path / "x.jsonl",
            *PLAIN[:2],
            bare,
            {"$set": {"lastUpdated": WHEN}},
            {**bare, "tokens": TOKENS},
            {**bare, "tokens": TOKENS, "toolCalls": [call("c1")]},
            PLAIN[2],
            *PLAIN[3:],
        )
    )
    assert texts(session) == EXPECTED
    assert len(session.facts.requests) == 2
    assert not session.facts.branches
    assert session.facts.calls.index("c1") == 0
    assert [*session.facts.record_kind].count(0) == 10


def test_rewinds(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", *PLAIN, {"$rewindTo": "6"}, user("8", "Other."), {"$rewindTo": "8"})
    session = ct.open_session(path)
    assert texts(session) == EXPECTED[:5]
    assert [(each.id, each.messages) for each in session.facts.branches] == [("branch-1", 3), ("branch-2", 1)]
    assert texts(ct.open_session(f"{path}#branch-1")) == EXPECTED
    assert texts(ct.open_session(f"{path}#branch-2")) == [*EXPECTED[:5], "Other."]
    again = [{"$rewindTo": "6"}, user("9", "Anew."), notice("n"), {"$rewindTo": "gone"}]
    assert texts(ct.open_session(lines(path, *PLAIN, *again[:2]))) == [*EXPECTED[:5], "Anew."]
    assert not texts(ct.open_session(lines(path, *PLAIN, *again)))  # Gemini CLI knows no such message: it leaves all
    left = [{"$rewindTo": "1"}, user("9", "Anew."), {"$rewindTo": "6"}, user("x", "Empty.")]
    assert texts(ct.open_session(lines(path, *PLAIN, *left))) == ["Empty."]


def test_a_compression_writes_the_history_anew(tmp_path: Path) -> None:
    summary = user("s", [{"text": "<state_snapshot>\nRead.\n</state_snapshot>"}])
    history = [summary, gemini("t", [{"text": "Got it."}], tokens=None), *PLAIN[6:]]
    answers = [{"functionResponse": {"id": "c4", "name": "read_file", "response": {"a": 1}}}]
    session = ct.open_session(
        lines(
            tmp_path / "x.jsonl",
            *PLAIN,
            {"$set": {"messages": [*history, user("r", answers)], "lastUpdated": WHEN}},
            user("9", "On."),
            gemini("10", "Yes."),
        )
    )
    kept = EXPECTED[-3:]
    assert texts(session) == ["<state_snapshot>\nRead.\n</state_snapshot>", "Got it.", *kept, "On.", "Yes."]
    facts = session.facts
    assert [(each.kind, each.trigger, each.message) for each in facts.compactions] == [("full", "compression", 9)]
    assert facts.flags[9] & MessageFlag.SUMMARY
    assert session.turns == 3
    assert len(facts.requests) == 3
    assert len(session) == 13  # what was kept stands once


def test_masked_results_are_a_microcompaction(tmp_path: Path) -> None:
    masked = "<tool_output_masked>\none\n</tool_output_masked>"
    both = [*(call("c1", {"output": masked})["result"]), *TWO["result"]]  # each call is given all of the answers
    changed = [*PLAIN[:2], {**PLAIN[2], "toolCalls": [{**ONE, "result": both}, {**TWO, "result": both}]}]
    records = [*PLAIN, {"$set": {"messages": [*changed, *PLAIN[4:]]}}, user("9", "On.")]
    session = ct.open_session(lines(tmp_path / "x.jsonl", *records))
    [micro] = session.facts.compactions
    assert (micro.kind, micro.trigger, len(micro.cleared_blocks)) == ("micro", "masking", 1)
    assert texts(session)[3].startswith("c1=[Old tool result content cleared]|c2=none")
    same = ct.open_session(lines(tmp_path / "x.jsonl", *PLAIN, {"$set": {"messages": PLAIN[:3] + PLAIN[4:]}}))
    assert texts(same) == EXPECTED
    assert not same.facts.compactions


def test_results_are_masked_once_and_what_is_new_is_read(tmp_path: Path) -> None:
    masked = {**PLAIN[2], "toolCalls": [call("c1", {"output": "<tool_output_masked>\none"}), TWO]}
    history = [*PLAIN[:2], masked, PLAIN[4], *PLAIN[6:]]
    for more in ([], [user("8", "New.")]):
        session = ct.open_session(
            lines(
                tmp_path / "x.jsonl",
                *PLAIN,
                {"$set": {"messages": history}},
                {"$set": {"messages": [*history, *more]}},
                user("9", "On."),
            )
        )
        assert [(each.kind, len(each.cleared_blocks)) for each in session.facts.compactions] == [("micro", 1)]
        cleared = "Reading\nBoth files.|I read.|read_file(c1)|read_file(c2)"
        assert texts(session)[2:4] == [cleared, "c1=[Old tool result content cleared]|c2=none"]
        assert texts(session)[8:] == [*(["New."] if more else []), "On."]


def test_a_history_is_held_against_the_one_before(tmp_path: Path) -> None:
    """It may be the same without commands and notices, hold more, or less; only then something is gone."""
    history = [*PLAIN[:3], PLAIN[4], *PLAIN[6:]]
    with_more = [*history, user("8", "New.")]
    told = [*PLAIN, {"$set": {"messages": history}}, {"$set": {"messages": with_more}}, user("9", "On.")]
    session = ct.open_session(lines(tmp_path / "x.jsonl", *told))
    assert texts(session) == [*EXPECTED, "New.", "On."]
    assert not session.facts.compactions
    session = ct.open_session(
        lines(tmp_path / "x.jsonl", *PLAIN, {"$set": {"messages": history[:3]}}, user("9", "On."))
    )
    assert texts(session) == [*EXPECTED[:4], "On."]
    assert [(each.kind, each.trigger) for each in session.facts.compactions] == [("full", "compression")]
    rewound = [*PLAIN, {"$rewindTo": "6"}, {"$set": {"messages": [*PLAIN[:3], PLAIN[4]]}}, user("9", "On.")]
    session = ct.open_session(lines(tmp_path / "x.jsonl", *rewound))
    assert texts(session) == [*EXPECTED[:5], "On."] and not session.facts.compactions


def answer(own: str, call_id: str, output: str) -> dict[str, Any]:
    response = {"id": call_id, "name": "read_file", "response": {"output": output}}
    return user(own, [{"functionResponse": response}])


def test_results_are_counted_once_with_their_responses(tmp_path: Path) -> None:
    """The program records a reply, the reply with its results, and the responses that it sends."""
    called = [gemini("2", "Reading."), gemini("2", "Reading.", call("c1", {"output": "one"})), answer("3", "c1", "one")]
    session = ct.open_session(lines(tmp_path / "a.jsonl", *PLAIN[:2], *called, gemini("4", "Done.")))
    assert texts(session)[2:] == ["Reading.|read_file(c1)", "c1=one", "Done."]
    assert not session.facts.problems


def test_a_resumed_session_is_no_compression(tmp_path: Path) -> None:
    """It begins with a history of the setup alone, then writes the old one in the notation of the API."""
    path = tmp_path / "a.jsonl"
    before = [*PLAIN[:2], gemini("2", "Reading.", call("c1", {"output": "one"})), answer("3", "c1", "one")]
    called = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "c1"}}}
    restored = [*PLAIN[:2], gemini("2", [{"text": "Reading."}, called]), answer("2_response", "c1", "one")]
    history = [{"$set": {"messages": PLAIN[:1]}}, {"$set": {"messages": [*restored, gemini("4", "Done.")]}}]
    session = ct.open_session(lines(path, *before, gemini("4", "Done."), HEADER, *history, user("5", "Go on.")))
    assert texts(session)[2:] == ["Reading.|read_file(c1)", "c1=one", "Done.", "Go on."]
    assert not session.facts.compactions and not session.facts.problems


def test_a_session_that_is_resumed_twice_is_no_compression(tmp_path: Path) -> None:
    """Each time, the program adds the responses to the history once more, and sends all of them."""
    called = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "c1"}}}
    reply = {**gemini("2", [{"text": "Reading."}, called]), "toolCalls": [call("c1", {"output": "one"})]}
    sent, added = answer("3", "c1", "one"), answer("2_response", "c1", "one")
    before = [*PLAIN[:2], gemini("2", "Reading.", call("c1", {"output": "one"})), sent, gemini("4", "Done.")]
    for times in (1, 2, 3):
        history = [*PLAIN[:2], reply, *[added] * times, sent, gemini("4", "Done.")]
        before += [HEADER, {"$set": {"messages": PLAIN[:1]}}, {"$set": {"messages": history}}]
        session = ct.open_session(lines(tmp_path / "a.jsonl", *before, user("5", "Go on.")))
        assert not session.facts.compactions and not session.facts.problems
        assert "".join(texts(session)).count("c1=one") == times + 1


def test_a_result_that_a_compression_leaves_to_its_response(tmp_path: Path) -> None:
    """The call stays in the history, its result comes with the next record."""
    called = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "c1"}}}
    kept = [PLAIN[0], user("8", "<state_snapshot>All.</state_snapshot>"), gemini("9", [called])]
    before = [*PLAIN[:2], gemini("2", "Reading.", call("c1", {"output": "one"}))]
    path = lines(tmp_path / "a.jsonl", *before, {"$set": {"messages": kept}}, answer("3", "c1", "one"))
    session = ct.open_session(path)
    assert len(session.facts.compactions) == 1
    assert texts(session)[2:] == ["read_file(c1)", "c1=one"]


def test_comments_of_code_are_no_commands(tmp_path: Path) -> None:
    typed = [user("1", "// why?"), user("2", "/help"), user("3", "?"), user("4", "/* so */")]
    session = ct.open_session(lines(tmp_path / "x.jsonl", *typed))
    assert texts(session) == ["// why?", "/* so */"]
    assert GeminiCliFormat().read_title(tmp_path / "x.jsonl") == "// why?"


def test_what_is_not_known_is_told(tmp_path: Path) -> None:
    records = [*PLAIN[:3], {"id": "x", "type": "oracle"}, {"novelty": 1}, {"id": "y"}]
    session = ct.open_session(lines(tmp_path / "x.jsonl", *records))
    assert [problem.what for problem in session.facts.problems] == [
        "unknown type of message 'oracle'",
        "neither a message nor anything else that Gemini CLI records",
        "unknown type of message 'None'",
    ]
    torn = document(tmp_path / "y.json", PLAIN)
    torn.write_text(torn.read_text()[:-200])
    assert len(ct.open_session(torn).facts.problems) == 1


def test_it_grows_to_the_same_facts(tmp_path: Path) -> None:
    summary = user("s", [{"text": "<state_snapshot>"}])
    records = [
        *PLAIN[:2],
        {**PLAIN[2], "toolCalls": []},
        *PLAIN[2:],
        {"$rewindTo": "6"},
        user("8", "Other."),
        {"$set": {"messages": [summary, PLAIN[6], user("8", "Other.")]}},
        gemini("9", "Yes."),
        gemini("9", "Yes!", call("d", {"output": "x"})),
    ]
    header = json.loads(lines(tmp_path / "x.jsonl").read_text())
    check_growth(tmp_path / "x.jsonl", header, *records)
    form = GeminiCliFormat()
    path = document(tmp_path / "y.json", PLAIN[:1])
    growing = form.make_scanner(path, form.list_sessions(path)[0])
    for number in range(2, len(PLAIN) + 1):
        growing.advance()
        document(path, PLAIN[:number])
    growing.advance()
    assert texts(growing.session()) == EXPECTED


def test_sub_agents(tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    (chats / "abc-1").mkdir(parents=True)
    agent = lines(chats / "abc-1" / "agent-7.jsonl", user("1", "Look."), gemini("2", "Done."))
    agent.write_text(agent.read_text().replace('"sessionId"', '"kind": "subagent", "sessionId"', 1))
    document(chats / "abc-1" / "agent-8.json", PLAIN)
    started = gemini(
        "2", "", call("c1", {"output": "ok"}, agentId="agent-7"), call("c2", {"output": "ok"}, agentId="x")
    )
    path = lines(chats / "session-2026-03-01T10-00-abc.jsonl", user("1", "Go."), started)
    form = GeminiCliFormat()
    main, *agents = form.list_sessions(path)
    assert not main.id
    assert [(each.id, each.parent) for each in agents] == [("agent-7", str(path)), ("agent-8", str(path))]
    assert texts(ct.open_session(f"{path}#agent-7")) == ["Look.", "Done."]
    assert texts(ct.open_session(f"{path}#agent-8")) == EXPECTED
    session = ct.open_session(path)
    first, second = (session.facts.call_use[row] for row in range(2))
    called = form.subagent_of(session, first)
    assert called is not None
    assert called.path == str(agent)
    with pytest.raises(UnreadableSession, match="not here"):
        form.subagent_of(session, second)
    assert not form.is_standalone(agent)
    assert form.is_standalone(path)
    [alone] = form.list_sessions(agent)
    assert alone.parent == "abc-1"


def test_titles_and_places(tmp_path: Path) -> None:
    cwd = Path("/src/My App")
    root = tmp_path / ".gemini" / "tmp"
    hashed = hashlib.sha256(b"/src/My App").hexdigest()
    for name in (hashed, "my-app", "e" * 64, "other"):
        (root / name / "chats").mkdir(parents=True)
    document(root / hashed / "chats" / "session-1.json", PLAIN)
    lines(root / "my-app" / "chats" / "session-2.jsonl", *PLAIN)
    document(root / "other" / "chats" / "session-3.json", PLAIN)
    lines(root / "other" / "chats" / "session-3.jsonl", *PLAIN)
    document(root / ("e" * 64) / "chats" / "session-4.json", PLAIN)
    (root / "other" / "logs.json").write_text("[]")
    form = GeminiCliFormat()
    found = {
        each.path.name: (each.project, each.is_current_project)
        for each in form.find_sessions({"GEMINI_CLI_HOME": str(tmp_path)}, cwd)
    }
    assert found == {
        "session-1.json": ("My App", True),
        "session-2.jsonl": ("My App", True),
        "session-3.jsonl": ("other", False),
        "session-4.json": ("eeeeeeee", False),
    }
    assert [*form.find_sessions({"HOME": str(tmp_path)}, cwd)]
    assert form.read_title(root / hashed / "chats" / "session-1.json") == "Look."
    named = lines(tmp_path / "x.jsonl", *PLAIN, {"$set": {"summary": "Reads both files"}})
    assert form.read_title(named) == "Reads both files"
    assert detect_format(named).name == "gemini-cli"


def test_recordings(shared: Path, tmp_path: Path) -> None:
    """Counted another way: every message, call, result, turn and number of tokens."""
    folder = shared / "corpus" / "gemini-cli"
    if not folder.is_dir():
        pytest.skip("no recordings")
    for source in sorted(folder.iterdir()):
        path = tmp_path / source.name
        shutil.copy(source, path)
        messages = json.loads(path.read_text())["messages"]
        replies = [message for message in messages if message["type"] == "gemini"]
        calls = [each for message in replies for each in message.get("toolCalls", [])]
        session = ct.open_session(path)
        facts = session.facts
        assert len(facts.record_kind) == len(messages)
        assert session.turns == sum(message["type"] == "user" for message in messages)
        assert facts.calls == [each["id"] for each in calls]
        assert sum(row >= 0 for row in facts.call_result) == sum(bool(each.get("result")) for each in calls)
        told = [message["tokens"] for message in replies if message["tokens"]["total"]]
        assert [use.context for use in facts.requests] == [each["input"] + each["tool"] for each in told]
        assert [use.output for use in facts.requests] == [each["output"] + each["thoughts"] for each in told]
        assert not facts.problems


def test_what_is_written_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Summary, calls with their results and usage read back; a copy stays to the byte."""
    chats = tmp_path / "chats"
    chats.mkdir()
    for number, path in enumerate((lines(chats / "a.jsonl", *PLAIN), document(chats / "b.json", PLAIN))):
        session = ct.open_session(path)
        copied = export(session, tmp_path / f"copy-{number}", "gemini-cli")
        assert copied.path.read_bytes() == path.read_bytes()
        after = ct.apply(session, ct.plan(session, "agent-sdk-compact", min_keep=4), "What happened.")
        done = export(after, tmp_path / f"out-{number}.jsonl", "gemini-cli")
        again = ct.open_session(done.path)
        assert texts(again)[1:] == texts(after)[1:]
        assert texts(again)[0].startswith("<state_snapshot>\n")
        assert again.turns == after.turns
        header, *records, size = [json.loads(line) for line in done.path.read_text().splitlines()]
        assert list(size) == ["$set"]
        assert done.resume_command.endswith(f"gemini --resume {header['sessionId']}")
        assert f"{chats}/session-2026-03-01T10-00-{header['sessionId'][:8]}.jsonl" in done.resume_command
        assert {record["type"] for record in records} == {"user", "gemini"}
    other = export(ct.open_session(chats / "a.jsonl"), tmp_path / "r.json", "anthropic")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    assert not export(ct.open_session(other.path), tmp_path / "o.jsonl", "gemini-cli").resume_command


@pytest.mark.parametrize("results", [({}, {"tool_use_id": ""}), ({"tool_use_id": ""}, {}), ({}, {})])
def test_results_without_ids_are_no_repetitions(results: tuple[dict[str, str], ...], tmp_path: Path) -> None:
    first, second = ({"type": "tool_result", "content": "seen", **each} for each in results)
    turns: list[tuple[str, Any]] = [("user", "go"), ("assistant", "a"), ("user", [first]), ("assistant", "b")]
    messages = [{"role": role, "content": content} for role, content in [*turns, ("user", [second])]]
    written = ct.open_session(export(ct.from_messages(messages), tmp_path / "out", "gemini-cli").path)
    assert [*written.facts.kind].count(Kind.TOOL_RESULT) == 2


@pytest.mark.parametrize("tokens", [TOKENS, None])
def test_the_model_is_kept_where_no_reply_is_left(tokens: dict[str, int] | None, tmp_path: Path) -> None:
    reply = gemini("1", "Done.", tokens=tokens)
    session = ct.open_session(lines(tmp_path / "session.jsonl", user("0", "Look."), reply, user("2", "Thanks.")))
    after = ct.apply(session, ct.plan(session, "codex"), summary="What was done.")
    done = export(after, tmp_path / "out.jsonl", "gemini-cli")
    assert '"gemini"' not in done.path.read_text()
    again = ct.open_session(done.path)
    assert again.facts.model == "gemini-2.5-pro" and again.window.tokens == session.window.tokens
    assert len(again) == len(after) and not again.facts.problems
