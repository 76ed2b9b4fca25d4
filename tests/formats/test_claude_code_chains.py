"""Branches, sidechains and compactions of Claude Code files (research/formats.md §3.4 and §3.5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.session.context import context_at
from context_tui.session.markers import RESULT_STUB
from context_tui.session.session import Session
from context_tui.session.values import RecordKind
from context_tui.tokens.accounting import find_last_usage
from context_tui.tokens.context_size import measure_context
from tests.formats.recordings import Recording, call, result, shape, text, usage, words


def kinds(session: Session) -> list[int]:
    found = list(session.facts.record_kind)
    return [found.count(int(kind)) for kind in (RecordKind.MESSAGE, RecordKind.METADATA, RecordKind.PROBLEM)]


# -- rewinds


def test_a_rewind_leaves_its_branch(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    fork = recording.assistant(text("what next?"))
    recording.user("left")
    recording.assistant(text("left reply"), call("t1"), use=usage(9_999))
    recording.results(result("t1", "left result"))
    recording.attachment("file", content="left file")
    recording.assistant(text("left end"))
    recording.user("taken", parent=fork)
    recording.assistant(text("taken reply"), use=usage(77))
    session = recording.open(tmp_path)
    assert words(session) == ["start", "what next?", "taken", "taken reply"]
    assert len(session) == 4, "messages that were rewound are not numbered"
    assert kinds(session) == [9, 0, 0], "their records count all the same"
    assert [request.fresh for request in session.facts.requests] == [10, 77]
    assert list(session.facts.request_message) == [1, 3]


def test_the_live_branch_has_the_last_record(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    fork = recording.assistant(text("what next?"))
    first = recording.user("first")
    recording.user("second", parent=fork)
    recording.assistant(text("second reply"))
    recording.assistant(text("first goes on"), parent=first)
    session = recording.open(tmp_path)
    assert words(session) == ["start", "what next?", "first", "first goes on"]


def test_three_ways_on(tmp_path: Path) -> None:
    recording = Recording()
    fork = recording.user("start")
    for number in range(3):
        recording.user(f"try {number}", parent=fork)
        recording.assistant(text(f"reply {number}"))
    assert words(recording.open(tmp_path)) == ["start", "try 2", "reply 2"]


def test_a_rewind_below_side_records(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    recording.assistant(text("what next?"))
    fork = recording.add("system", subtype="stop_hook_summary")
    recording.user("left")
    recording.user("taken", parent=fork)
    assert words(recording.open(tmp_path)) == ["start", "what next?", "taken"]


def test_a_rewind_within_a_branch_that_was_left(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    outer = recording.assistant(text("one"))
    recording.user("left")
    inner = recording.assistant(text("left two"))
    recording.user("left three")
    recording.user("left three again", parent=inner)
    recording.user("taken", parent=outer)
    recording.assistant(text("end"))
    assert words(recording.open(tmp_path)) == ["start", "one", "taken", "end"]


def test_restarts_and_orphans_are_no_branches(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("of another file", parent="not-here")
    recording.assistant(text("one"))
    recording.user("after a restart", parent=None)
    recording.assistant(text("two"), parent="gone")
    recording.results(result("no-such-call"), parent="gone too")
    session = recording.open(tmp_path)
    assert words(session) == ["of another file", "one", "after a restart", "two", "ok"]
    assert kinds(session) == [5, 0, 0]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_cycles_in_parent_links_end(tmp_path: Path, length: int) -> None:
    recording = Recording()
    for number in range(length):
        recording.user(f"m{number}", uuid=f"c{number}", parent=f"c{(number + 1) % length}")
    for number in range(2):
        recording.user(f"fork {number}", parent=f"c{length - 1}")
    session = recording.open(tmp_path)
    assert words(session)[-1] == "fork 1" and "fork 0" not in words(session)


def test_a_long_chain_needs_no_recursion(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3_000):
        recording.user(str(number))
    recording.user("left", parent="u2999")
    assert len(recording.open(tmp_path)) == 3_000


# -- sidechains


def inline() -> Recording:
    recording = Recording()
    start = recording.user("main")
    recording.assistant(call("t1", "Task"), use=usage(100))
    for agent in ("aaa", "bbb"):
        own: dict[str, Any] = {"isSidechain": True, "agentId": agent}
        recording.user(f"task of {agent}", parent=start, **own)
        recording.assistant(text(f"{agent} replies"), use=usage(9_000), **own)
    recording.results(result("t1", "report"))
    recording.assistant(text("done"), use=usage(200))
    return recording


def test_sidechains_are_apart(tmp_path: Path) -> None:
    session = inline().open(tmp_path)
    assert words(session) == ["main", "t1", "report", "done"]
    assert [request.fresh for request in session.facts.requests] == [100, 200]
    assert kinds(session) == [8, 0, 0]


def test_inline_sidechains_are_sessions_of_their_own(tmp_path: Path) -> None:
    path = inline().write(tmp_path)
    assert [(info.id, bool(info.parent)) for info in ct.sessions_in(path)] == [
        ("", False),
        ("aaa", True),
        ("bbb", True),
    ]
    session = ct.open_session(f"{path}#bbb")
    assert words(session) == ["task of bbb", "bbb replies"]
    assert [request.fresh for request in session.facts.requests] == [9_000]
    assert kinds(session) == [8, 0, 0]
    with pytest.raises(ct.UnreadableSession, match="unknown session 'ccc'; available: aaa, bbb"):
        ct.open_session(f"{path}#ccc")


def test_a_sidechain_without_a_name(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("main")
    recording.user("side", isSidechain=True)
    path = recording.write(tmp_path)
    assert words(ct.open_session(path)) == ["main"]
    assert words(ct.open_session(f"{path}#sidechain")) == ["side"]


@pytest.mark.parametrize(
    "place", ["agent-abc.jsonl", "s/subagents/agent-abc.jsonl", "s/subagents/workflows/w/agent-abc.jsonl"]
)
def test_agents_beside_the_session(tmp_path: Path, place: str) -> None:
    main, agent, stranger = Recording(), Recording(), Recording()
    main.user("main")
    agent.user("task", isSidechain=True, agentId="abc")
    agent.last = "u1"
    agent.assistant(text("reply"), isSidechain=True, agentId="abc")
    stranger.user("task", isSidechain=True, agentId="xyz", sessionId="another session")
    path = main.write(tmp_path)
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(agent.data)
    stranger.write(tmp_path, "agent-xyz.jsonl")

    assert [info.id for info in ct.sessions_in(path)] == ["", "abc"]
    assert words(ct.open_session(path)) == ["main"]
    session = ct.open_session(f"{path}#abc")
    assert words(session) == words(ct.open_session(file)) == ["task", "reply"]
    assert words(ct.open_session(f"{session.info.path}#{session.info.id}")) == ["task", "reply"]
    assert session.info.parent == str(path)


def test_a_directory_with_one_session_and_its_agents(tmp_path: Path) -> None:
    inline().write(tmp_path)
    (tmp_path / "notes.txt").write_text("no session")
    (tmp_path / "empty.jsonl").touch()
    assert words(ct.open_session(tmp_path)) == ["main", "t1", "report", "done"]


# -- full compactions


def compacted() -> Recording:
    recording = Recording()
    recording.user("one")
    recording.assistant(text("reply one"), use=usage(5_000))
    recording.boundary(5_400)
    recording.summary()
    recording.attachment("file", content="attached again")
    recording.user("two")
    recording.assistant(text("reply two"), use=usage(800))
    return recording


SUMMARY = "This session is being continued from a previous conversation."


def test_a_compaction_begins_an_epoch(tmp_path: Path) -> None:
    session = compacted().open(tmp_path)
    assert words(session) == [SUMMARY, "two", "reply two"]
    assert shape(session)[2] == "user text text", "what was attached joins the user message before it"
    (compaction,) = session.facts.compactions
    found = compaction.message, compaction.kind, compaction.trigger, compaction.pre_tokens
    assert found == (2, "full", "auto", 5_400)
    assert session.turns == 2
    assert list(session.context_at(2).order) == [0, 1]
    assert list(session.context_at(3).order) == [2]


def test_what_is_attached_after_a_compaction_is_not_the_summary(tmp_path: Path) -> None:
    from context_tui.tokens.breakdown import measure_breakdown

    categories = measure_breakdown(compacted().open(tmp_path).context_at()).by_category
    assert (categories["summary"], categories["injected"]) == (len(SUMMARY) // 4, len("attached again") // 4)


def test_recorded_sizes_are_never_from_before_a_compaction(tmp_path: Path) -> None:
    session = compacted().open(tmp_path)
    found = [find_last_usage(session.context_at(point)) for point in range(len(session) + 1)]
    assert [use and use.context for use in found] == [None, None, 5_000, None, None, 800]


def test_a_preserved_tail_comes_after_the_summary(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    tail = [
        recording.assistant(text("kept reply"), use=usage(5_000)),
        recording.add("system", subtype="stop_hook_summary"),
    ]
    recording.boundary(5_400, "manual", preservedMessages={"anchorUuid": "u5", "uuids": tail, "allUuids": tail})
    recording.summary()
    caveat = recording.user("<local-command-caveat>c</local-command-caveat>", parent=tail[-1], isMeta=True)
    recording.user("<command-name>/compact</command-name>", parent=caveat)
    recording.user("two")
    recording.assistant(text("reply two"), use=usage(700))
    session = recording.open(tmp_path)
    assert list(session.context_at().order) == [2, 1, 3, 4]
    assert words(session) == [SUMMARY, "kept reply", "two", "reply two"]
    assert find_last_usage(session.context_at(4)) is None, "usage of preserved messages is of the old context"
    assert session.facts.compactions[0].trigger == "manual"


def test_a_preserved_segment(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    head = recording.user("kept")
    tail = recording.assistant(text("kept reply"))
    recording.boundary(preservedSegment={"headUuid": head, "anchorUuid": "x", "tailUuid": tail})
    recording.summary()
    recording.user("two")
    assert words(recording.open(tmp_path)) == [SUMMARY, "kept", "kept reply", "two"]


def test_a_record_below_the_old_history_is_no_rewind(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    fork = recording.assistant(text("reply one"))
    recording.user("two")
    recording.assistant(text("reply two"))
    recording.boundary()
    recording.summary()
    recording.user("three", parent=fork)
    recording.assistant(text("reply three"))
    session = recording.open(tmp_path)
    assert words(session) == [SUMMARY, "three", "reply three"]
    assert words_at(session, 4) == ["one", "reply one", "two", "reply two"]


def test_a_rewind_before_a_record_below_the_old_history(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    fork = recording.assistant(text("reply one"))
    recording.user("left")
    recording.user("two", parent=fork)
    recording.boundary()
    recording.summary()
    recording.user("three", parent=fork)
    session = recording.open(tmp_path)
    assert words_at(session, 3) == ["one", "reply one", "two"]
    assert words(session) == [SUMMARY, "three"]


def test_the_live_branch_of_an_earlier_epoch(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    fork = recording.assistant(text("reply one"))
    first = recording.user("taken again")
    recording.user("left", parent=fork)
    recording.assistant(text("taken reply"), parent=first)
    recording.boundary()
    recording.summary()
    recording.user("two")
    session = recording.open(tmp_path)
    assert words_at(session, 4) == ["one", "reply one", "taken again", "taken reply"]
    assert words(session) == [SUMMARY, "two"]


def words_at(session: Session, at: int) -> list[str]:
    return [message["content"][0]["text"] for message in session.to_messages(at)]


def test_a_file_that_begins_with_a_boundary(tmp_path: Path) -> None:
    recording = Recording()
    recording.boundary(150_000, logicalParentUuid="not-here", preservedMessages={"uuids": ["gone"]})
    recording.summary()
    recording.user("two")
    recording.assistant(text("reply"), use=usage(20_000))
    session = recording.open(tmp_path)
    assert words(session) == [SUMMARY, "two", "reply"] and session.facts.problems == []
    assert [compaction.message for compaction in session.facts.compactions] == [0]
    assert measure_context(session.context_at()).not_in_file == 20_000 - (
        ct.tokens.estimate(session.context_at(2)) or 0
    )


def test_a_boundary_without_a_summary(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    recording.assistant(text("reply one"))
    recording.boundary()
    recording.user("two")
    recording.assistant(text("reply two"))
    session = recording.open(tmp_path)
    assert words(session) == ["two", "reply two"]
    assert words_at(session, 2) == ["one", "reply one"]


def test_every_compaction_counts_once(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3):
        recording.user(f"turn {number} says This session is being continued, compact_boundary and /compact")
        recording.assistant(text("reply"), use=usage(100 * number))
        recording.boundary()
        recording.line({"type": "file-history-snapshot", "messageId": "x"})
        recording.summary()
    session = recording.open(tmp_path)
    assert [(c.kind, c.message) for c in session.facts.compactions] == [("full", 2), ("full", 5), ("full", 8)]
    assert words(session) == [SUMMARY]


# -- microcompactions


def test_a_microcompact_clears_the_named_results(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    recording.assistant(call("t1", "Read", file_path="a"), call("t2"))
    recording.results(result("t1", "x" * 400), result("t2", "y" * 400))
    recording.microcompact("t1", "not-here", tokens=120)
    recording.assistant(text("reply"))
    session = recording.open(tmp_path)
    (compaction,) = session.facts.compactions
    assert (compaction.message, compaction.kind, compaction.pre_tokens) == (3, "micro", 120)
    assert [block["content"] for block in session.to_messages()[2]["content"]] == [RESULT_STUB, "y" * 400]
    assert session.message(2)["content"][0]["content"] == "x" * 400, "the file still has it"
    assert not context_at(session.facts, 2).replacements
    whole, cleared = ct.tokens.estimate(session), ct.tokens.estimate(session.context_at())
    assert whole is not None and cleared == whole - 100 + len(RESULT_STUB) // 4


def test_a_microcompact_in_a_branch_that_was_left(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("one")
    recording.assistant(call("t1"))
    fork = recording.results(result("t1", "x" * 400))
    recording.user("left")
    recording.microcompact("t1")
    recording.user("taken", parent=fork)
    session = recording.open(tmp_path)
    assert words(session)[:1] == ["one"] and len(session) == 4


# -- places


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ct.UnreadableSession, match="is not a regular file"):
        ct.open_session(tmp_path / "pipe.jsonl")
    with pytest.raises(ct.UnreadableSession, match="holds no session"):
        ct.open_session(tmp_path)
    with pytest.raises(ct.UnreadableSession, match="no such file"):
        ct.open_session(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\0" * 100, bytes(range(256)) * 20, b'{"type":"', b"[]", b"null\n"])
def test_nothing_readable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    with pytest.raises(ct.UnreadableSession) as caught:
        ct.open_session(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_path_that_exists_literally_wins(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("hash")
    recording.write(tmp_path, "a#b.jsonl")
    assert words(ct.open_session(tmp_path / "a#b.jsonl")) == ["hash"]
    (tmp_path / "a").write_bytes(b"")
    assert words(ct.open_session(str(tmp_path / "a#b.jsonl") + "#")) == ["hash"]
