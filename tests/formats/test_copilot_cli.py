"""Copilot CLI's events: what was typed and what was sent, calls, compactions, rewinds, sub-agents, places."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.formats.copilot_cli import CopilotCliFormat
from context_tui.formats.opening import detect_format
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from tests.formats.growth import check_growth

WHEN = "2026-06-23T05:17:20.668Z"
START: dict[str, Any] = {"sessionId": "s", "version": 1, "selectedModel": "gpt-5", "context": {"cwd": "/"}}


def event(kind: str, own: str = "", agent: str = "", **data: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind, "data": data, "id": own, "timestamp": WHEN, "parentId": None}
    return {**made, "agentId": agent} if agent else made


def typed(own: str, words: str, **data: Any) -> dict[str, Any]:
    sent = f"<current_datetime>now</current_datetime>\n\n{words}\n\n<reminder>careful</reminder>"
    return event("user.message", own, **{"content": words, "transformedContent": sent, "attachments": [], **data})


def reply(own: str, words: str, *calls: str, agent: str = "", **data: Any) -> dict[str, Any]:
    requests = [{"toolCallId": each, "name": "bash", "arguments": {"command": each}} for each in calls]
    told: dict[str, Any] = {"messageId": own, "model": "gpt-5.3", "content": words, "toolRequests": requests}
    return event("assistant.message", own, agent, **{**told, **data})


def done(call: str, words: str = "ok", agent: str = "", **data: Any) -> dict[str, Any]:
    told = {"toolCallId": call, "success": True, "result": {"content": words, "detailedContent": words * 3}}
    return event("tool.execution_complete", f"d-{call}", agent, **{**told, **data})


SYSTEM = [event("system.message", f"s{number}", role="system", content="You are Copilot.") for number in range(2)]
PLAIN = [
    event("session.start", "0", **START),
    event("hook.start", "h", hookType="userPromptSubmitted"),
    SYSTEM[0],
    typed("u1", "Look."),
    event("assistant.turn_start", "t", turnId="0"),
    reply("a1", "I look.", "c1", "c2", reasoningText="hm", reasoningOpaque="sig"),
    event("tool.execution_start", "x", toolCallId="c1"),
    done("c2", "", success=False, result=None, error={"message": "no such file"}),
    done("c1", "one"),
    event("session.model_change", "m", newModel="claude-sonnet-4.6"),
    reply("a2", "Done."),
    event("system.notification", "n", content="<system_notification>done</system_notification>"),
    SYSTEM[1],
    typed("u2", "Again."),
    event("abort", "b", reason="user_initiated"),
    event("session.shutdown", "e", currentTokens=11_468, systemTokens=6_661),
]


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def texts(session: Session) -> list[str]:
    def words(block: dict[str, Any]) -> str:
        return str(
            block.get("text") or block.get("content") or block.get("thinking") or block.get("id") or block["type"]
        )

    return ["|".join(map(words, message["content"])) for message in session.to_messages()]


BEFORE, BEHIND = "<current_datetime>now</current_datetime>\n\n", "\n\n<reminder>careful</reminder>"
EXPECTED = [
    f"{BEFORE}|Look.|{BEHIND}",
    "hm|I look.|c1|c2",
    "no such file|one",
    "Done.",
    "<system_notification>done</system_notification>",
    f"{BEFORE}|Again.|{BEHIND}",
]


def test_events(tmp_path: Path) -> None:
    session = ct.open_session(write(tmp_path / "x.jsonl", *PLAIN))
    facts = session.facts
    assert session.info.format == "copilot-cli"
    assert texts(session) == EXPECTED
    assert session.turns == 2
    assert session.content.system() == "You are Copilot."
    assert facts.system_bytes == len("You are Copilot.")
    assert [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in facts.blocks_of(0)] == [True, False, True]
    assert sum(bool(flags & BlockFlag.ERROR) for flags in facts.block_flags) == 1
    assert [(use.context, facts.request_message[row]) for row, use in enumerate(facts.requests)] == [(11_468, 3)]
    assert facts.model == "gpt-5.3"
    assert not facts.problems
    assert [*facts.record_kind].count(0) == 7


def test_what_the_runtime_said_in_the_users_place(tmp_path: Path) -> None:
    image = {"type": "blob", "mimeType": "image/png", "data": "aGk="}
    records = [
        PLAIN[0],
        typed("u1", "Look.", attachments=[image, {"type": "file", "path": "/a"}]),
        typed("u2", "Go on.", isAutopilotContinuation=True),
        typed("u3", "Skill", source="skill-x"),
        event("user.message", "u4", content="short", transformedContent="another text"),
        event("user.message", "u5", content="alone"),
        event("user.message", "u6", content="", transformedContent="put in"),
    ]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session)[0] == f"{EXPECTED[0]}|image"
    assert texts(session)[3:] == ["another text", "alone", "put in"]
    assert session.turns == 3


def test_compactions(tmp_path: Path) -> None:
    told: dict[str, Any] = {"preCompactionTokens": 100_000, "preCompactionMessagesLength": 9, "messagesRemoved": 7}
    records = [
        *PLAIN,
        event("session.truncation", "t1", tokenLimit=128_000, preTruncationTokensInMessages=99, messagesRemoved=2,
              tokensRemovedDuringTruncation=40),
        event("session.compaction_start", "k0", conversationTokens=90_000),
        event("session.compaction_complete", "k1", success=False, error="no"),
        event("session.compaction_complete", "k2", success=True, summaryContent="So far.", trigger="threshold", **told),
        typed("u3", "On."),
        event("session.compaction_complete", "k3", success=True, customInstructions="short"),
        event("session.usage_info", "i", tokenLimit=64_000, currentTokens=3),
    ]  # fmt: skip
    session = ct.open_session(write(tmp_path / "x.jsonl", *records[:-2]))
    assert texts(session) == ["So far.", f"{BEFORE}|On.|{BEHIND}"]
    assert session.facts.window == 128_000
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session) == ["hidden_summary"]
    assert [(each.kind, each.trigger, each.pre_tokens, each.saved_tokens) for each in session.facts.compactions] == [
        ("micro", "truncation", 99, 40),
        ("full", "threshold", 100_000, None),
        ("full", "manual", None, None),
    ]
    assert [problem.what for problem in session.facts.problems] == [
        "a compaction that kept 2 messages, without saying which"
    ]
    assert session.facts.window == 64_000


def test_rewinds_and_a_context_that_begins_anew(tmp_path: Path) -> None:
    rewind = event("session.snapshot_rewind", "r", upToEventId="u2", eventsRemoved=3)
    path = write(tmp_path / "x.jsonl", *PLAIN, rewind, typed("u3", "Other."))
    session = ct.open_session(path)
    assert texts(session) == [*EXPECTED[:-1], f"{BEFORE}|Other.|{BEHIND}"]
    assert texts(ct.open_session(f"{path}#branch-1")) == EXPECTED
    cleared = [event("session.context_cleared", "c"), typed("u3", "Other.")]
    session = ct.open_session(write(path, *PLAIN, *cleared))
    assert texts(session) == [f"{BEFORE}|Other.|{BEHIND}"]
    assert len(session) == len(EXPECTED) + 1


def test_sub_agents(tmp_path: Path) -> None:
    started = {"toolCallId": "c2", "agentName": "explore", "agentDisplayName": "Explore"}
    records = [
        *PLAIN[:6],
        event("subagent.started", "b1", "agent-1", **started),
        event("subagent.started", "b2", **{**started, "toolCallId": "c1", "agentDisplayName": ""}),
        event("user.message", "b3", "agent-1", content="Explore!"),
        reply("b4", "I explore.", "c9", agent="agent-1"),
        done("c9", "found", "agent-1"),
        reply("b5", "Older.", parentToolCallId="c1"),
        *PLAIN[6:],
    ]
    path = write(tmp_path / "x.jsonl", *records)
    form = CopilotCliFormat()
    main, *agents = form.list_sessions(path)
    assert [(each.id, each.title, each.parent) for each in agents] == [
        ("agent-1", "Explore", str(path)),
        ("c1", "explore", str(path)),
    ]
    session = ct.open_session(path)
    assert texts(session) == EXPECTED
    assert texts(ct.open_session(f"{path}#agent-1")) == ["Explore!", "I explore.|c9", "found"]
    assert texts(ct.open_session(f"{path}#c1")) == ["Older."]
    calls = [form.subagent_of(session, session.facts.call_use[row]) for row in range(2)]
    assert [each.id if each else "" for each in calls] == ["c1", "agent-1"]
    with pytest.raises(UnreadableSession, match="unknown session"):
        form.make_scanner(path, main.__class__(str(path), form.name, "gone"))


def test_what_is_not_known(tmp_path: Path) -> None:
    records = [
        *PLAIN,
        event("novelty", "x", a=1),
        {"type": "user.message", "data": 3},
        {"data": {}},
        reply("z", "Yes."),
    ]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert [problem.what for problem in session.facts.problems] == ["not an event: it has no type or no data"] * 2
    assert texts(session) == [*EXPECTED, "Yes."]


def test_it_grows_to_the_same_facts(tmp_path: Path) -> None:
    rewind = event("session.snapshot_rewind", "r", upToEventId="u2", eventsRemoved=3)
    records = [*PLAIN, rewind, typed("u3", "Other."), event("session.compaction_complete", "k", success=True)]
    check_growth(tmp_path / "x.jsonl", *records)


def test_titles_and_places(tmp_path: Path) -> None:
    folder = tmp_path / ".copilot" / "session-state"
    (folder / "one").mkdir(parents=True)
    (folder / "empty").mkdir()
    path = write(folder / "one" / "events.jsonl", *PLAIN)
    write(folder / "two.jsonl", *PLAIN)
    form = CopilotCliFormat()
    found = {each.path.relative_to(folder).as_posix() for each in form.find_sessions({"HOME": str(tmp_path)}, tmp_path)}
    assert found == {"one/events.jsonl", "two.jsonl"}
    moved = form.find_sessions({"HOME": "/nowhere", "COPILOT_HOME": str(tmp_path / ".copilot")}, tmp_path)
    assert len([*moved]) == 2
    assert form.read_title(path) == "Look."
    assert detect_format(path).name == "copilot-cli"


def test_recordings(shared: Path, tmp_path: Path) -> None:
    """Counted another way: every event, reply, call, result and turn."""
    folder = shared / "corpus" / "copilot-cli"
    if not folder.is_dir():
        pytest.skip("no recordings")
    for source in sorted(folder.iterdir()):
        path = tmp_path / source.name
        shutil.copy(source, path)
        events = [json.loads(line) for line in path.read_text().splitlines()]
        of = {kind: [each["data"] for each in events if each["type"] == kind] for kind in {e["type"] for e in events}}
        session = ct.open_session(path)
        facts = session.facts
        assert len(facts.record_kind) == len(events)
        assert session.turns == len(of["user.message"])
        assert [*facts.role].count(1) == len(of["assistant.message"])
        assert facts.calls == [call["toolCallId"] for each in of["assistant.message"] for call in each["toolRequests"]]
        finished = of.get("tool.execution_complete", [])
        assert sum(row >= 0 for row in facts.call_result) == len(finished)
        failed = sum(bool(flags & BlockFlag.ERROR) for flags in facts.block_flags)
        assert failed == sum(not each["success"] for each in finished)
        assert session.content.system() == of["system.message"][-1]["content"]
        assert not facts.problems
        sent = "".join(each["transformedContent"] for each in of["user.message"])
        said = [block for message in session.to_messages() if message["role"] == "user" for block in message["content"]]
        shown = "".join(block["text"] for block in said if block["type"] == "text")
        assert shown.replace("".join(each["content"] for each in of.get("system.notification", [])), "") == sent
