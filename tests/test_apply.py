"""Carrying plans out and writing the result: what is cleared is gone, what is kept is whole, all else is untouched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.export.files import export, is_copied, list_writable_formats
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.formats.kit.size_note import SIZE_NOTE
from context_tui.session.session import Session
from tests.formats.histories import histories
from tests.formats.recordings import Recording, call, conversations, result, text, usage

SECRET = "the-cleared-text-4711"
fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def recording() -> Recording:
    """Turns with big results, of which the display keeps a copy."""
    made = Recording()
    for turn in range(5):
        made.user(f"turn {turn}")
        made.assistant(call(f"t{turn}", "Read", file_path="a.py"), use=usage(10, 50_000, 7, 99, iterations=[usage(9)]))
        body = f"{SECRET} {turn} " * 200
        made.results(result(f"t{turn}", body), toolUseResult={"file": {"content": body}})
        made.attachment("file", content=f"attached {turn}")
        made.assistant(text(f"reply {turn}"), use=usage(10, 60_000, 7, 99))
    return made


def records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, without the note of its size."""
    found = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return [record for record in found if record["type"] != SIZE_NOTE]


def written(session: Session, out: Path, name: str = "claude-code") -> tuple[Session, list[str]]:
    """The session exported, checked for leftovers, and read again."""
    source = Path(session.info.path) if session.info.path else None
    before = digest(source) if source else ""
    folder = sorted(out.parent.iterdir())
    done = export(session, out, name)
    assert not source or digest(source) == before
    assert sorted(out.parent.iterdir()) == sorted([*folder, out])
    assert out.stat().st_mode & 0o777 == 0o600
    return ct.open_session(out), done.losses


# -- carrying out


def test_an_unchanged_plan_gives_the_same_session(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    assert ct.apply(session, ct.plan(session, "manual")) is session


def test_a_plan_of_another_session_is_refused(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    other = ct.open_session(session.info.path)
    with pytest.raises(ct.PlanError, match="another session"):
        ct.apply(other, ct.plan(session, "defect-microcompact"))


@pytest.mark.parametrize("summary", [None, "", "  \n\t "])
def test_a_blank_summary_is_refused(tmp_path: Path, summary: str | None) -> None:
    session = recording().open(tmp_path)
    plan = ct.plan(session, "defect-compact", threshold=1)
    with pytest.raises(ct.PlanError, match="the summary is missing or empty"):
        ct.apply(session, plan, summary=summary)
    assert len(session) == len(ct.open_session(session.info.path))


def test_what_summaries_look_like(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    defect = ct.apply(session, ct.plan(session, "defect-compact", threshold=1), summary="S\n").to_messages()[0]
    prefix = "[Compacted context summary — earlier conversation was condensed to save context.]\n"
    assert defect == {"role": "assistant", "content": [text(f"{prefix}S\n")]}
    sdk = ct.apply(session, ct.plan(session, "agent-sdk-compact"), summary="S").to_messages()[0]
    wrapped = "[Previous conversation summary]\nS\n[End of summary — conversation continues below]"
    assert sdk == {"role": "user", "content": [text(wrapped)]}


def test_plans_on_what_plans_left(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    first = ct.apply(session, ct.plan(session, "defect-microcompact"))
    second = ct.apply(first, ct.plan(first, "defect-compact", threshold=1), "S")
    third = ct.apply(second, ct.plan(second, "defect-compact", threshold=8_000, assistant_boundary=True), "T")
    assert third.facts.model == session.facts.model and third.window == session.window
    assert third.origin.startswith("defect-microcompact, defect-compact")
    assert SECRET in json.dumps(session.to_messages()), "the recording stays as it was"
    assert ct.tokens.estimate(ct.from_messages(third.to_messages())) == ct.tokens.estimate(third)


def test_a_plan_earlier_in_the_session(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    plan = ct.plan(session, "defect-microcompact", at=12, keep_recent_turns=1)
    after = ct.apply(session, plan)
    assert len(after) == 12 and [edit.message for edit in plan.edits] == [2, 6]
    assert ct.tokens.estimate(after) == plan.tokens_after


# -- Claude Code


def test_a_microcompacted_session_as_claude_code(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    plan = ct.plan(session, "defect-microcompact", keep_recent_turns=1)
    after, losses = written(ct.apply(session, plan), tmp_path / "out.jsonl")
    assert losses == []
    assert after.to_messages() == ct.apply(session, plan).to_messages()
    assert after.turns == session.turns and after.facts.requests == [] and after.facts.compactions == []
    data = (tmp_path / "out.jsonl").read_bytes()
    for turn in range(4):
        assert f"{SECRET} {turn}".encode() not in data, "the copy for the display is gone too"
    assert f"{SECRET} 4".encode() in data

    found = records(tmp_path / "out.jsonl")
    assert [record["parentUuid"] for record in found] == [None, *(record["uuid"] for record in found[:-1])]
    assert len({record["uuid"] for record in found}) == len(found)
    assert len({record["sessionId"] for record in found}) == 1 and found[0]["sessionId"] != "s"
    for record in found:
        if record["type"] == "assistant":
            use = record["message"]["usage"]
            assert not any(value for value in use.values()), use


def test_a_compacted_session_as_claude_code(tmp_path: Path) -> None:
    session = recording().open(tmp_path)
    plan = ct.plan(session, "defect-compact", threshold=1)
    done = ct.apply(session, plan, summary="what happened\nso far")
    after, losses = written(done, tmp_path / "out.jsonl")
    assert losses == ["the summary is written as a user message, as Claude Code does"]
    boundary, summary, *tail = records(tmp_path / "out.jsonl")
    assert (boundary["type"], boundary["subtype"], boundary["parentUuid"]) == ("system", "compact_boundary", None)
    assert boundary["compactMetadata"]["preTokens"] == 60_017
    assert summary["isCompactSummary"] and summary["parentUuid"] == boundary["uuid"] and summary["type"] == "user"
    assert summary["message"]["content"].endswith("what happened\nso far")
    assert tail[0]["parentUuid"] == summary["uuid"]
    assert after.to_messages()[1:] == done.to_messages()[1:]
    assert [(c.kind, c.message) for c in after.facts.compactions] == [("full", 0)]
    assert after.turns == done.turns == 1


def test_a_session_that_was_compacted_before(tmp_path: Path) -> None:
    made = Recording()
    made.user("one")
    made.boundary()
    made.summary("This session is being continued: what was.")
    made.attachment("file", content="attached again")
    for turn in range(4):
        made.user(f"turn {turn}")
        made.assistant(call(f"t{turn}", "Read", file_path="a.py"))
        made.results(result(f"t{turn}", "x" * 4_000))
    session = made.open(tmp_path)
    done = ct.apply(session, ct.plan(session, "defect-microcompact"))
    after, losses = written(done, tmp_path / "out.jsonl")
    assert losses == []
    assert after.to_messages() == done.to_messages()
    assert after.turns == done.turns == 4
    assert "one" not in json.dumps(records(tmp_path / "out.jsonl"))


def test_results_that_a_recorded_microcompact_cleared_are_not_written(tmp_path: Path) -> None:
    made = recording()
    made.microcompact("t0", "t1")
    made.user("go on")
    session = made.open(tmp_path)
    done = ct.apply(session, ct.plan(session, "manual", clear="10:0"))
    written(done, tmp_path / "out.jsonl")
    data = (tmp_path / "out.jsonl").read_bytes()
    kept = [turn for turn in range(5) if f"{SECRET} {turn}".encode() in data]
    assert kept == [3, 4]


def test_a_sidechain_becomes_a_session_of_its_own(tmp_path: Path) -> None:
    made = Recording()
    made.user("main")
    made.user("task", isSidechain=True, agentId="a")
    made.assistant(call("t1"), isSidechain=True, agentId="a")
    made.results(result("t1", "x" * 4_000), isSidechain=True, agentId="a")
    session = ct.open_session(f"{made.write(tmp_path)}#a")
    done = ct.apply(session, ct.plan(session, "manual", clear="2:0"))
    after, losses = written(done, tmp_path / "out.jsonl")
    assert losses == [] and after.to_messages() == done.to_messages()
    assert [info.id for info in ct.sessions_in(tmp_path / "out.jsonl")] == [""]


def test_records_that_share_a_uuid_or_have_none_are_chained(tmp_path: Path) -> None:
    made = Recording()
    made.user("one", uuid="same")
    made.user("two", uuid="same")
    made.user("three", uuid=None)
    made.assistant(call("t1"))
    made.results(result("t1", "x" * 4_000))
    session = made.open(tmp_path)
    written(ct.apply(session, ct.plan(session, "manual", clear="4:0")), tmp_path / "out.jsonl")
    found = records(tmp_path / "out.jsonl")
    assert [record["parentUuid"] for record in found] == [None, *(record["uuid"] for record in found[:-1])]
    assert len({record["uuid"] for record in found}) == len(found)


def test_lone_surrogates_survive_an_export(tmp_path: Path) -> None:
    made = Recording()
    made.user("half \ud83d")
    made.assistant(call("t1", "Bash", x="\udc00"))
    made.results(result("t1", "x" * 4_000))
    session = made.open(tmp_path)
    done = ct.apply(session, ct.plan(session, "manual", clear="2:0"))
    after, losses = written(done, tmp_path / "out.jsonl")
    assert losses == [] and after.to_messages() == done.to_messages()


# -- every format


@pytest.mark.slow
@fixtures
@given(
    made=conversations(),
    name=st.sampled_from(list_writable_formats()),
    policy=st.sampled_from(["defect-microcompact", "defect-compact"]),
)
def test_recordings_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, made: Recording, name: str, policy: str
) -> None:
    folder = tmp_path_factory.mktemp("apply")
    session = made.open(folder)
    params: dict[str, Any] = {"keep_recent_turns": 1} if policy == "defect-microcompact" else {"threshold": 1}
    done = ct.apply(session, ct.plan(session, policy, **params), "the summary")
    if not len(done.context_at()):
        return
    after, losses = written(done, folder / "out", name)
    if not is_copied(done, name):
        check_same(done, after, losses)


@fixtures
@given(messages=histories(), name=st.sampled_from(list_writable_formats()))
def test_histories_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]], name: str
) -> None:
    session = ct.from_messages(messages)
    after, losses = written(session, tmp_path_factory.mktemp("apply") / "out", name)
    check_same(session, after, losses)


def check_same(done: Session, after: Session, losses: list[str]) -> None:
    """Without a loss what reads back is the same: messages, estimates, turns."""
    if losses:
        return
    context, again = done.context_at(), after.context_at()
    assert ct.tokens.estimate(context) == ct.tokens.estimate(again)
    assert after.turns == sum(1 for message in context.order if done.facts.flags[message] & 1)
    assert len(again) == len(context)


def test_no_claude_code_session_is_written_empty(tmp_path: Path) -> None:
    with pytest.raises(ct.Error, match="no messages"):
        export(ct.from_messages([]), tmp_path / "out.jsonl", "claude-code")
    assert list(tmp_path.iterdir()) == []
    assert ClaudeCodeFormat().writable


def test_a_koda_export_holds_this_session_and_nothing_else(tmp_path: Path) -> None:
    import sqlite3

    sample = Path(__file__).parents[1] / "sample_sessions" / "koda.db"
    for info in ct.sessions_in(sample):
        session = ct.open_session(f"{sample}#{info.id}")
        out = tmp_path / f"{info.id}.db"
        written(session, out, "koda")
        database = sqlite3.connect(out)
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        ids = {row for (row,) in database.execute("SELECT DISTINCT session_id FROM messages")}
        database.close()
        assert names <= {"sessions", "messages", "session_metadata", "sqlite_sequence"} and len(ids) == 1


def test_a_plan_does_not_change_what_the_window_is_taken_for(tmp_path: Path) -> None:
    """It was inferred from a recorded size, which the result no longer has."""
    made = Recording()
    for turn in range(5):
        made.user(f"turn {turn}")
        made.assistant(call(f"t{turn}", "Read", file_path="a.py"), use=usage(10, 250_000, 7, 99))
        made.results(result(f"t{turn}", f"{SECRET} {turn} " * 200))
        made.assistant(text(f"reply {turn}"), use=usage(10, 260_000, 7, 99))
    session = made.open(tmp_path)
    assert (session.window.source, session.window.tokens > 260_000) == ("inferred", True)
    once = ct.apply(session, ct.plan(session, "defect-microcompact"))
    again = ct.apply(once, ct.plan(once, "defect-compact", threshold=1), summary="so it went")
    assert once.origin and session.window == once.window == again.window


def test_the_model_is_that_of_the_point(tmp_path: Path) -> None:
    made = Recording()
    for model in ("claude-opus-4-5", "claude-opus-4-5", "claude-sonnet-4-5"):
        made.user("Look.")
        made.assistant(call(f"t{made.count}"), model=model)
        made.results(result(f"t{made.count - 1}", "line\n" * 900))
        made.assistant(text("Done."), model=model)
    session = made.open(tmp_path)
    for at, model in ((8, "claude-opus-4-5"), (len(session), "claude-sonnet-4-5")):
        plan = ct.plan(session, "defect-microcompact", at=at, keep_recent_turns=1)
        assert plan.has_changes and ct.apply(session, plan).facts.model == model
