"""Files that are being written: however a scan is cut up, it finds the same facts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.formats.base import Scanner, scan
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.session.drops import find_drops
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import RecordKind
from context_tui.tui.timeline.rows import TimelineRows
from tests.formats.growth import check_growth, list_restored
from tests.formats.histories import columns
from tests.formats.recordings import Recording, call, result, text, thinking, usage


def test_files_and_skills_of_a_message_that_grows(tmp_path: Path) -> None:
    """Results of one reply are one message, whose further records hold the states of further files."""
    made = Recording()
    made.user("do it")
    made.assistant(*(call(f"r{number}", "Read", file_path=f"/{number}.py") for number in range(3)), use=usage(9_000))
    for number in range(3):
        file = {"filePath": f"/{number}.py", "content": "z" * 4_000, "numLines": 1, "startLine": 1, "totalLines": 1}
        made.results(result(f"r{number}", "z" * 4_000), toolUseResult={"type": "text", "file": file})
    made.user([text("Base directory for this skill: /skills/review\n" + "k" * 3_950)], isMeta=True)
    first, *records = [json.loads(line) for line in made.lines]
    path = tmp_path / "session.jsonl"
    check_growth(path, first, *records)
    assert list_restored(ct.open_session(path))[-1] == 3 * (1_001 + 55) + 999


def random_recording(draw: st.DataObject) -> Recording:
    """A recording of anything that the reader knows, in any order; the first record is of the main chain."""
    recording = Recording()
    recording.user("start")

    def pick(values: list[Any]) -> Any:
        return draw.draw(st.sampled_from(values))

    uuids: list[Any] = [None, "u1", "gone"]
    calls = ["t0", "no-call"]

    def step(kind: str) -> str | None:
        number = recording.count
        match kind:
            case "typed":
                return recording.user(pick(["é typed", [text("two"), text("blocks")], "[Compacted", ""]))
            case "rewind":
                return recording.user(f"typed {number}", parent=pick(uuids))
            case "markup":
                return recording.user("<bash-stdout>x</bash-stdout>")
            case "reply":
                block = pick([text("reply"), thinking("", "sig"), thinking("hm"), call(f"t{number}", "Read", path="a")])
                calls.append(f"t{number}")
                use = pick([usage(number), usage(number, 9, 9, number), None])
                return recording.assistant(block, id=f"m{pick([number, number // 3, 1])}", use=use)
            case "result":
                body = pick(
                    ["short", "long " * 200, [text("a")], {"json": [1, 2.5]}, "[Old tool result content cleared]"]
                )
                return recording.results(result(pick(calls), body))
            case "attached":
                return recording.attachment(pick(["file", "hook_success"]), content="attached")
            case "sidechain":
                return recording.user("aside", isSidechain=True, agentId=pick(["a", "b"]))
            case "boundary":
                return recording.boundary(preservedMessages={"uuids": [pick(uuids), pick(uuids)]})
            case "summary":
                return recording.summary()
            case "micro":
                return recording.microcompact(pick(calls), pick(calls))
            case "side":
                return recording.add("progress", data={})
            case "blank":
                recording.line(pick([b"", b"  ", b"\r"]))
            case "broken":
                recording.line(pick([b"{broken", b"\x00\xff", b'{"type":"of-tomorrow"}', b"[]", b'"text"', b'{"a":1']))
            case "glued" if [line[:12] for line in recording.lines[-2:]] == [b'{"parentUuid'] * 2:
                recording.lines.append(recording.lines.pop() + b" " + recording.lines.pop())
        return None

    kinds = "typed rewind markup reply reply reply result result attached sidechain boundary summary micro side".split()
    for kind in draw.draw(st.lists(st.sampled_from([*kinds, "blank", "broken", "glued"]), max_size=25)):
        own = step(kind)
        if own:
            uuids.append(own)
    return recording


def facts_of(session: Session) -> dict[str, Any]:
    find_drops(session.facts)
    return columns(session.facts) | {"length": len(session)}


def scanner(path: Path) -> Scanner:
    return ClaudeCodeFormat().make_scanner(path, SessionInfo(str(path), "claude-code"))


def growing(path: Path, data: bytes, cuts: list[int]) -> Iterator[None]:
    """The file as it is written, cut by cut."""
    path.write_bytes(b"")
    with path.open("ab") as file:
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            file.write(data[start:end])
            file.flush()
            yield


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_may_be_written_in_any_pieces(tmp_path: Path, data: st.DataObject) -> None:
    whole = random_recording(data).data
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    path = tmp_path / "s.jsonl"
    path.write_bytes(whole)
    try:
        expected = facts_of(scan(scanner(path)))
    except ct.UnreadableSession:
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    ends = [at for at in range(len(whole)) if whole[at : at + 1] == b"\n"]
    cuts = sorted([*cuts, *data.draw(st.lists(st.sampled_from(ends), max_size=4))] if ends else cuts)
    pieces, rows = None, TimelineRows()
    appended = 0
    for _ in growing(path, whole, cuts):
        pieces = pieces or scanner(path)
        try:
            step = pieces.advance()
        except ct.UnreadableSession:
            continue
        appended += step.appended
        assert step.end
        session = pieces.session()
        assert len(session.context_at()) <= len(session)
        rows.grow(session, step.revised_from)
    assert pieces is not None
    assert facts_of(pieces.session()) == expected
    fresh = TimelineRows()
    fresh.grow(pieces.session())
    assert vars(rows) == vars(fresh), "what is shown follows what is said to have changed"


def test_a_text_appended_to_what_follows_a_boundary_revises_its_message(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("go")
    recording.boundary()
    recording.user("<bash-stdout>x</bash-stdout>")
    cut = len(recording.data)
    recording.user("<bash-stdout>y</bash-stdout>")
    path = tmp_path / "s.jsonl"
    pieces, steps = None, []
    for _ in growing(path, recording.data, [cut]):
        pieces = pieces or scanner(path)
        steps.append(pieces.advance())
    assert [(step.appended, step.revised_from) for step in steps] == [(2, None), (0, 1)]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tiny_budgets_find_the_same(tmp_path: Path, data: st.DataObject) -> None:
    path = random_recording(data).write(tmp_path)
    step_by_step, steps = scanner(path), 0
    while not step_by_step.advance(0.0).end:
        steps += 1
        assert 0 <= step_by_step.progress <= 1
    assert facts_of(step_by_step.session()) == facts_of(scan(scanner(path)))


def test_a_reminder_that_a_second_boundary_keeps_is_once_in_the_context(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("go")
    recording.boundary()
    reminder = recording.attachment("file", content="attached")
    recording.boundary(preservedMessages={"uuids": [reminder]})
    recording.user("on")
    assert list(scan(scanner(recording.write(tmp_path))).context_at().order) == [1, 2]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_records_add_up_and_text_fits_facts(tmp_path: Path, data: st.DataObject) -> None:
    path = random_recording(data).write(tmp_path)
    session = scan(scanner(path))
    facts = session.facts
    kinds = list(facts.record_kind)
    assert sum(kinds.count(int(kind)) for kind in RecordKind) == len(kinds)
    assert len(facts.problems) == kinds.count(int(RecordKind.PROBLEM))
    assert all(kinds[problem.raw] == RecordKind.PROBLEM for problem in facts.problems)
    for message in range(len(session)):
        blocks = session.message(message)["content"]
        assert len(blocks) == len(list(facts.blocks_of(message)))
        assert ct.tokens.estimate({"role": "user", "content": blocks}) == ct.tokens.estimate(session.message(message))
    assert ct.tokens.estimate(ct.from_messages(session.to_messages())) == ct.tokens.estimate(session.context_at())
    for at in range(len(session) + 1):
        order = session.context_at(at).order
        assert len(set(order)) == len(order) and all(message < at for message in order)


def test_every_step_says_what_changed(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("one"), id="m1")
    path = recording.write(tmp_path)
    follower = scanner(path)
    first = follower.advance()
    assert (first.appended, first.revised_from, first.end) == (2, None, True)
    assert follower.advance().appended == 0
    recording.assistant(call("t1"), id="m1")
    recording.results(result("t1"))
    recording.write(tmp_path)
    second = follower.advance()
    assert (second.appended, second.revised_from, second.end) == (1, 1, True)


def test_a_line_behind_a_rewind_is_added_to_the_facts_that_were_there(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    fork = recording.assistant(text("one"))
    recording.user("left")
    recording.user("taken", parent=fork)
    path = recording.write(tmp_path)
    follower = scanner(path)
    follower.advance()
    facts = follower.session().facts
    assert len(facts.branches) == 1

    def step() -> tuple[int | None, bool]:
        recording.write(tmp_path)
        revised = follower.advance().revised_from
        return revised, follower.session().facts is facts

    two = recording.assistant(call("t1"), call("t2"), id="m2")
    assert step() == (None, True)
    recording.results(result("t1"))
    assert step() == (None, True)
    recording.assistant(call("t3"), id="m2", parent=two)  # goes back to an earlier message, on the way to the leaf
    assert step() == (3, True), "by its number without the branch"
    recording.user("anew", parent=fork)
    assert step() == (0, False)
    assert facts_of(follower.session()) == facts_of(scan(scanner(path)))


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("one"))
    path = tmp_path / "s.jsonl"
    data = recording.data
    path.write_bytes(data[:-30])
    follower = scanner(path)
    follower.advance()
    assert [problem.where for problem in follower.session().facts.problems] == ["line 2"]
    path.write_bytes(data + b"{broken\n")
    follower.advance()
    session = follower.session()
    assert [problem.where for problem in session.facts.problems] == ["line 3"]
    assert len(session) == 2


def test_a_file_that_shrinks_is_told(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 20_000)
    recording.assistant(text("one"))
    path = recording.write(tmp_path)
    follower = scanner(path)
    follower.advance()
    session = follower.session()
    os.truncate(path, 100)
    with pytest.raises(ct.UnreadableSession, match="shorter"):
        follower.advance()
    with pytest.raises(ct.UnreadableSession, match="shorter"):
        session.message(1)


def test_a_main_chain_that_begins_late(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("aside", isSidechain=True, agentId="a")
    path = recording.write(tmp_path)
    follower = scanner(path)
    follower.advance()
    assert len(follower.session()) == 1
    recording.user("main")
    recording.write(tmp_path)
    assert follower.advance().revised_from == 0
    assert follower.session().to_messages() == [{"role": "user", "content": [text("main")]}]


def test_a_main_record_without_content_beside_a_sidechain(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("aside", isSidechain=True, agentId="a")
    recording.line({"type": "user"})
    assert len(scan(scanner(recording.write(tmp_path)))) <= 1


def line_by_line(path: Path) -> dict[str, Any]:
    """The facts that the reader finds without its loop for usual lines."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "context_tui.formats.claude_code.reader.make_fast_path", lambda scanner: lambda data, at: (at, 0)
        )
        return facts_of(scan(scanner(path)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_usual_lines_are_read_like_any_other(tmp_path: Path, data: st.DataObject) -> None:
    path = random_recording(data).write(tmp_path)
    assert facts_of(scan(scanner(path))) == line_by_line(path)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "thinking", "thinking": None, "signature": None},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use"},
        {"type": "tool_use", "id": None, "name": None, "input": None},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a"}},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "b", "file_path": ""}},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": "no object"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"n": 10**25, "f": 1e16, "s": "\ud800"}},
        {"type": "tool_result", "tool_use_id": "t", "content": "in an assistant message"},
        {
            "type": "text",
            "text": "[Compacted context summary — earlier conversation was condensed to save context.]\nx",
        },
        {"type": "text", "text": "[Previous conversation summary]\nx"},
        {"type": "fallback", "from": "a", "to": "b"},
    ],
)
def test_blocks_are_read_alike(tmp_path: Path, block: dict[str, Any]) -> None:
    recording = Recording()
    recording.user("start")
    recording.assistant(block)
    recording.assistant(text("a"), block, id="m")
    recording.user([block])
    recording.results(result("t"), block)
    path = recording.write(tmp_path)
    assert facts_of(scan(scanner(path))) == line_by_line(path)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "plain",
        'quo"te \\ back\\slash / \x00\x1f\x7f\n\t',
        "é" * 600,
        "\u2028 \U0001f600 \ud83d",
        "[Old tool result content cleared]",
        "[tool output cleared to save context — re-run the tool if its result is needed again]",
        [],
        [text("[Old tool "), text("result content cleared]")],
        [text("a"), {"type": "image", "source": {"data": "AAAA"}}],
        {"z": 1, "a": [1.0, 1e-7, None, True]},
        12,
        False,
    ],
)
@pytest.mark.parametrize("escaped", [False, True])
def test_bodies_are_read_alike(tmp_path: Path, body: Any, escaped: bool) -> None:
    recording = Recording()
    recording.assistant(call("t"))
    recording.results(result("t", body), result("other", body, is_error=True))
    if not escaped:
        recording.lines = [
            json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "surrogatepass")
            for line in recording.lines
        ]
    path = recording.write(tmp_path)
    session = scan(scanner(path))
    assert facts_of(session) == line_by_line(path)
    assert ct.tokens.estimate(ct.from_messages(session.to_messages())) == ct.tokens.estimate(session)
    assert session.message(1)["content"][0].get("content") == body
    own = ct.from_messages(session.to_messages()).facts
    for column in ("size", "text_bytes", "json_bytes", "boundary_shifts", "block_flags"):
        assert list(getattr(own, column)) == list(getattr(session.facts, column)), column
