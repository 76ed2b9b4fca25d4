"""pi's sessions: entries of all versions, the tree, compactions, usage, and where they are kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.compaction.recorded_compactions import (
    SUMMARY_FRAME_TOKENS,
    find_recorded_compactions,
    predict_size_after,
)
from context_tui.export.files import export
from context_tui.formats.base import HEAD_BYTES
from context_tui.formats.opening import detect_format, list_unrecorded
from context_tui.formats.pi import PiFormat
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, MessageFlag
from context_tui.tokens.measures import build_calibrated_table
from tests.formats.growth import check_growth

WHEN = "2026-03-01T10:00:00.000Z"
HEADER = {"type": "session", "version": 3, "id": "0196f0a0", "timestamp": WHEN, "cwd": "/src/app"}


def entry(kind: str, own: str, above: str | None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": own, "parentId": above, "timestamp": WHEN, **more}


def said(own: str, above: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return entry("message", own, above, message={"role": role, "content": content, "timestamp": 1772359200000, **more})


def reply(own: str, above: str | None, *content: Any, **more: Any) -> dict[str, Any]:
    usage = {"input": 30, "output": 5, "cacheRead": 400, "cacheWrite": 20, "totalTokens": 455, "cost": {"total": 0.1}}
    told = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5", "usage": usage}
    return said(own, above, "assistant", list(content), **{**told, "stopReason": "stop", **more})


def call(own: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": own, "name": "read", "arguments": arguments}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(own: str, above: str, call_id: str, words: str, **more: Any) -> dict[str, Any]:
    more = {"toolName": "read", "isError": False, **more}
    return said(own, above, "toolResult", [text(words)], toolCallId=call_id, **more)


PLAIN = [
    HEADER,
    entry("model_change", "m", None, provider="anthropic", modelId="claude-sonnet-4-5"),
    said("u1", "m", "user", "Look."),
    reply("a1", "u1", {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}, call("c1"), call("c2", x=1)),
    result("r1", "a1", "c1", "one"),
    result("r2", "r1", "c2", "two", isError=True),
    entry("thinking_level_change", "t", "r2", thinkingLevel="high"),
    reply("a2", "t", text("cut"), stopReason="aborted"),
    entry("custom", "x", "a2", customType="state", data={"a": 1}),
    said("u2", "x", "user", [text("Again."), {"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
    entry("custom_message", "y", "u2", customType="hint", content="Careful.", display=True),
    entry("label", "l", "y", targetId="u1", label="start"),
    said("b1", "l", "bashExecution", None, command="ls", output="a", exitCode=2, cancelled=False, truncated=False),
    said("b2", "b1", "bashExecution", None, command="ls", output="b", excludeFromContext=True),
    reply("a3", "b2", text("Done.")),
]


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def texts(session: Session) -> list[str]:
    return [
        "|".join(str(block.get("text") or block.get("content") or block["type"]) for block in message["content"])
        for message in session.to_messages()
    ]


def test_entries(tmp_path: Path) -> None:
    session = ct.open_session(write(tmp_path / "x.jsonl", *PLAIN))
    facts = session.facts
    assert session.info.format == "pi"
    assert texts(session) == ["Look.", "thinking|tool_use|tool_use", "one|two", "Again.|image", "Careful.",
                              "Ran `ls`\na\nCommand exited with code 2", "Done."]  # fmt: skip
    assert [facts.flags[message] & MessageFlag.NOT_SENT for message in range(len(session))].count(0) == 7
    assert session.turns == 2
    assert [(use.fresh, use.cache_read, use.cache_write_5m, use.output) for use in facts.requests] == [
        (30, 400, 20, 5)
    ] * 3  # the aborted one too
    assert [bool(flags & BlockFlag.ERROR) for flags in facts.block_flags].count(True) == 1
    assert not facts.problems
    assert not facts.branches
    assert facts.model == "claude-sonnet-4-5"
    assert [facts.record_kind[row] for row in range(len(PLAIN))].count(0) + 6 == len(PLAIN)


def test_a_compaction_keeps_what_is_behind_its_first_entry(tmp_path: Path) -> None:
    told = {"tokensBefore": 50_000, "details": {"readFiles": []}}
    records = [
        *PLAIN,
        entry("compaction", "k1", "a3", summary="So far.", firstKeptEntryId="x", **told),
        said("u3", "k1", "user", "On."),
        reply("a4", "u3", text("Yes.")),
        entry("compaction", "k2", "a4", summary="All that.", firstKeptEntryId="y", fromHook=True, **told),
        said("u4", "k2", "user", "More."),
    ]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records[: len(PLAIN) + 3]))
    kept = ["Again.|image", "Careful.", "Ran `ls`\na\nCommand exited with code 2", "Done."]
    assert texts(session) == ["So far.", *kept, "On.", "Yes."]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session) == ["All that.", *kept[1:], "On.", "Yes.", "More."]
    assert [(each.kind, each.trigger, each.pre_tokens) for each in session.facts.compactions] == [
        ("full", None, 50_000),
        ("full", "extension", 50_000),
    ]
    assert session.turns == 4
    uncompacted = ct.open_session(write(tmp_path / "y.jsonl", *PLAIN))
    missing = ["system prompt", "instruction files", "tool schemas"]
    assert [*list_unrecorded(uncompacted)] == missing
    assert [*list_unrecorded(session)] == [*missing, "frame of a summary"]


def test_the_words_around_a_summary_count_in_the_predicted_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [*PLAIN, entry("compaction", "k1", "a3", summary="So far.", firstKeptEntryId="x", tokensBefore=500)]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    (compaction,), table = find_recorded_compactions(session), build_calibrated_table(session.facts)
    size = predict_size_after(compaction, table)
    monkeypatch.setitem(SUMMARY_FRAME_TOKENS, "pi", 0)
    without = predict_size_after(compaction, table)
    assert size and without and size.tokens == without.tokens + 20


def test_a_compaction_of_version_1_counts_entries_from_the_header(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"type": "session", "id": "x", "timestamp": WHEN, "cwd": "/", "modelId": "gpt-5"}]
    for number in range(4):
        records.append({"type": "message", "timestamp": WHEN, "message": {"role": "user", "content": f"u{number}"}})
    records.append({"type": "thinking_level_change", "timestamp": WHEN, "thinkingLevel": "off"})
    records.append({"type": "compaction", "timestamp": WHEN, "summary": "s", "firstKeptEntryIndex": 3})
    records.append({"type": "message", "timestamp": WHEN, "message": {"role": "user", "content": "u4"}})
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session) == ["s", "u2", "u3", "u4"]
    assert session.facts.model == "gpt-5"


def test_branches_and_their_summaries(tmp_path: Path) -> None:
    records = [
        *PLAIN,
        entry("branch_summary", "s", "r2", fromId="r2", summary="Tried it."),
        said("u5", "s", "user", "Otherwise."),
        said("u6", None, "user", "Anew."),
    ]
    path = write(tmp_path / "x.jsonl", *records[:-1])
    session = ct.open_session(path)
    assert texts(session) == ["Look.", "thinking|tool_use|tool_use", "one|two", "Tried it.", "Otherwise."]
    assert [(each.id, each.messages, each.requests) for each in session.facts.branches] == [("branch-1", 5, 2)]
    assert texts(ct.open_session(f"{path}#branch-1"))[-1] == "Done."
    session = ct.open_session(write(path, *records))
    assert texts(session) == ["Anew."]
    assert len(session.facts.branches) == 2
    assert texts(ct.open_session(f"{path}#branch-2"))[-1] == "Otherwise."


@pytest.mark.parametrize("target", ["a1", None])
def test_a_leaf_goes_on_below_another_entry(target: str | None, tmp_path: Path) -> None:
    """Also where nothing has been said there yet, and where what comes next hangs below the leaf itself."""
    records = [
        HEADER,
        said("u1", None, "user", "Look."),
        reply("a1", "u1", text("Yes.")),
        said("u2", "a1", "user", "No."),
    ]
    records += [entry("leaf", "l", "u2", targetId=target)]
    left = ["Look.", "Yes."] if target else []
    assert texts(ct.open_session(write(tmp_path / "x.jsonl", *records))) == left
    for above in (target, "l"):
        session = ct.open_session(write(tmp_path / "x.jsonl", *records, said("u3", above, "user", "Well.")))
        assert texts(session) == [*left, "Well."]
        assert len(session.facts.branches) == 1


def test_a_compaction_may_hold_copies_of_what_it_keeps(tmp_path: Path) -> None:
    """Newer sessions tell no first entry, but the messages themselves; what comes next goes on behind these."""
    tail = [record["message"] for record in (PLAIN[2], PLAIN[3], PLAIN[4], PLAIN[5], PLAIN[14])]
    records = [*PLAIN, entry("compaction", "c", "a3", summary="So far.", retainedTail=tail, tokensBefore=900)]
    records += [said("u3", "c", "user", "On."), reply("a4", "u3", text("Yes."))]
    records.append(entry("active_tools_change", "t2", "a4", activeToolNames=["read"]))
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session) == [
        "So far.",
        "Look.",
        "thinking|tool_use|tool_use",
        "one|two",
        "Done.",
        "On.",
        "Yes.",
    ]
    assert not session.facts.branches and not session.facts.problems
    assert len(session.facts.requests) == 4
    [done] = session.facts.compactions
    assert (done.kind, done.pre_tokens) == ("full", 900)
    both = [*records[:15], {**records[15], "firstKeptEntryId": "a3"}, *records[16:]]
    assert texts(ct.open_session(write(tmp_path / "x.jsonl", *both))) == ["So far.", "Done.", "On.", "Yes."]
    odd = [*records[:15], {**records[15], "retainedTail": [1, {"role": "oracle"}, tail[0]]}]
    session = ct.open_session(write(tmp_path / "x.jsonl", *odd))
    assert texts(session) == ["So far.", "Look."]
    assert [problem.what for problem in session.facts.problems] == [
        "an entry without its message",
        "unknown role 'oracle'",
    ]


def test_entries_that_are_not_known_are_told_and_go_on(tmp_path: Path) -> None:
    records = [
        HEADER,
        said("u1", None, "user", "Look."),
        entry("novelty", "n", "u1"),
        said("u2", "n", "oracle", "?"),
        {"type": "novelty"},
        {"type": "message", "message": 3},
        reply("a1", "u2", text("Yes."), usage={"input": -4}),
    ]
    session = ct.open_session(write(tmp_path / "x.jsonl", *records))
    assert texts(session) == ["Look.", "Yes."]
    assert [problem.what.partition(":")[0][:22] for problem in session.facts.problems] == [
        *("unknown type of entry ", "unknown role 'oracle'", "unknown type of entry ", "an entry without its m"),
        "input is -4, not a num",
    ]
    assert not session.facts.requests


def test_it_grows_to_the_same_facts(tmp_path: Path) -> None:
    records = [
        *PLAIN,
        entry("branch_summary", "s", "r2", fromId="r2", summary="Tried it."),
        said("v", "s", "user", "?"),
    ]
    check_growth(tmp_path / "x.jsonl", *records)


def test_titles_and_places(tmp_path: Path) -> None:
    root, cwd = tmp_path / ".pi" / "agent" / "sessions", Path("/src/my app")
    for name in ("--src-my app--", "--src-other--"):
        (root / name).mkdir(parents=True)
    mine = write(root / "--src-my app--" / "2026_a.jsonl", *PLAIN)
    other = write(root / "--src-other--" / "2026_b.jsonl", *PLAIN, entry("session_info", "i", "a3", name=" The fix "))
    claw = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    claw.mkdir(parents=True)
    write(claw / "c.jsonl", *PLAIN)
    form = PiFormat()
    found = {
        each.path.name: (each.project, each.is_current_project)
        for each in form.find_sessions({"HOME": str(tmp_path)}, cwd)
    }
    assert found == {"2026_a.jsonl": ("my app", True), "2026_b.jsonl": ("other", False), "c.jsonl": ("main", False)}
    moved = form.find_sessions({"HOME": "/nowhere", "PI_CODING_AGENT_DIR": str(tmp_path / ".pi" / "agent")}, cwd)
    assert {each.path.name for each in moved} == {"2026_a.jsonl", "2026_b.jsonl"}
    assert [form.read_title(mine), form.read_title(other)] == ["Look.", "The fix"]
    assert form.read_title(tmp_path / "gone.jsonl") == ""


def test_what_is_claimed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", *PLAIN[:2])
    assert detect_format(path).name == "pi"
    assert not PiFormat().sniff(json.dumps({"type": "session", "id": "x"}).encode(), path)


def test_the_recording(shared: Path, tmp_path: Path) -> None:
    """Counted another way: every entry, call, result, turn and number of tokens."""
    source = shared / "corpus" / "pi" / "pi-mono__large-session_v1.jsonl"
    if not source.exists():
        pytest.skip("no recording")
    path = tmp_path / "x.jsonl"
    shutil.copy(source, path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    messages = [record["message"] for record in records if record["type"] == "message"]
    usages = [m["usage"] for m in messages if m["role"] == "assistant"]
    session = ct.open_session(path)
    facts = session.facts
    assert detect_format(path).name == "pi"
    assert PiFormat().sniff(path.read_bytes()[:HEAD_BYTES], path)
    assert len(facts.record_kind) == len(records)
    assert session.turns == sum(message["role"] == "user" for message in messages)
    calls = [part["id"] for m in messages if m["role"] == "assistant" for part in m["content"] if "arguments" in part]
    assert facts.calls == list(dict.fromkeys(calls))
    assert sum(row >= 0 for row in facts.call_result) == len({m["toolCallId"] for m in messages if "toolCallId" in m})
    assert [(use.context, use.output) for use in facts.requests] == [
        (sum(usage[name] for name in ("input", "cacheRead", "cacheWrite")), usage["output"])
        for usage in usages
        if any(usage[name] for name in ("input", "cacheRead", "cacheWrite", "output"))
    ]
    assert not facts.problems


def test_what_is_written_is_gone_on_with(tmp_path: Path) -> None:
    """Summary, injected texts, results and usage read back; the file is a chain of version 3 that pi takes."""
    path = write(tmp_path / "x.jsonl", *PLAIN, entry("compaction", "k", "a3", summary="So far.", firstKeptEntryId="u2"))
    session = ct.open_session(path)
    copied = export(session, tmp_path / "copy.jsonl", "pi")
    assert copied.path.read_bytes() == path.read_bytes()
    after = ct.apply(session, ct.plan(session, "manual", cut=5), "What happened.")
    done = export(after, tmp_path / "it's.jsonl", "pi")
    assert done.resume_command.startswith("cd /src/app && pi --session '")
    again = ct.open_session(done.path)
    assert texts(again) == texts(after)
    assert again.turns == after.turns
    header, *entries = [json.loads(line) for line in done.path.read_text().splitlines()]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, "/src/app")
    assert [each["parentId"] for each in entries] == [None, *(each["id"] for each in entries[:-1])]
    plain = ct.open_session(write(tmp_path / "y.jsonl", *PLAIN))
    request = export(plain, tmp_path / "z.json", "anthropic")
    back = export(ct.open_session(request.path), tmp_path / "b.jsonl", "pi")
    assert texts(ct.open_session(back.path))[:3] == texts(plain)[:3]
