"""agent-sdk's lines and those of stream-json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.export.files import export
from context_tui.formats.agent_sdk import IGNORED_TYPES, AgentSdkFormat
from context_tui.formats.opening import open_session, sessions_in
from context_tui.session.facts import Usage
from context_tui.session.markers import CLAUDE_CODE_SUMMARY, SDK_SUMMARY, SDK_SUMMARY_END
from context_tui.session.values import BlockFlag, MessageFlag, RecordKind
from context_tui.tui.apply.texts import format_title
from context_tui.tui.inspector.mark_totals import format_mark_totals
from context_tui.tui.rendering.formatting import format_block
from context_tui.tui.timeline.marks import RowMarker
from tests.formats.growth import check_growth
from tests.tui.test_timeline_rows import rows_of

CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "one"}
USAGE = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 11, "cache_creation_input_tokens": 13}


def own(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": "u", "session_id": "s", **more}


OWN = [
    own("system", subtype="init", model="claude-x", cwd="/w", tools=["Read"], permission_mode="default"),
    own("user", content=[{"type": "text", "text": "go"}]),
    own("assistant", content=[CALL], usage=USAGE),
    own("user", content=[RESULT], is_synthetic=True),
    own("assistant", content=[{"type": "text", "text": "done"}]),
    own("result", subtype="success", usage={"input_tokens": 999, "output_tokens": 999}),
]


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_own_lines(tmp_path: Path) -> None:
    session = open_session(written(tmp_path / "a.jsonl", OWN))
    facts = session.facts
    assert session.info.format == "agent-sdk" and session.info.title == "go"
    assert len(facts) == 4 and facts.model == "claude-x" and not facts.problems
    assert facts.find_call_row("t1") >= 0 and facts.call_result[facts.find_call_row("t1")] >= 0
    assert facts.requests == [Usage(5, 11, 13, 0, 7)]  # totals of the result are none
    assert list(facts.record_kind).count(RecordKind.METADATA) == 2


def test_stream_json_counts_usage_once_and_leaves_sub_agents_out(tmp_path: Path) -> None:
    def said(block: dict[str, Any], output: int) -> dict[str, Any]:
        usage = {**USAGE, "output_tokens": output}
        return own("assistant", message={"id": "m", "model": "claude-y", "content": [block], "usage": usage})

    records = [
        OWN[0],
        own("user", message={"role": "user", "content": "go"}),
        said({"type": "text", "text": "a"}, 1),
        said(CALL, 9),
        own("assistant", parent_tool_use_id="t1", message={"id": "z", "content": [{"type": "text", "text": "sub"}]}),
        own("user", message={"role": "user", "content": [RESULT]}),
    ]
    facts = open_session(written(tmp_path / "a.jsonl", records)).facts
    assert len(facts) == 3 and facts.model == "claude-y"
    assert facts.requests == [Usage(5, 11, 13, 0, 9)]


def boundary(trigger: str = "auto") -> dict[str, Any]:
    return own("system", subtype="compact_boundary", compact_metadata={"trigger": trigger, "pre_tokens": 900})


def of_stream(kind: str, *content: Any, **more: Any) -> dict[str, Any]:
    return own(kind, message={"role": kind, "content": [*content]}, **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


LONG = [*OWN[:4], OWN[4], OWN[1], *OWN[2:4]]  # the second call is made while the context is too large


def seed() -> list[dict[str, Any]]:
    """For mutations: a compaction, and another run."""
    return [*LONG, boundary(), OWN[4], OWN[0], OWN[1], OWN[4]]


def seed_stream() -> list[dict[str, Any]]:
    """For mutations: a sub-agent and a compaction."""
    task = own("assistant", message={"id": "m", "model": "claude-y", "content": [CALL], "usage": USAGE})
    sub = [of_stream("user", text("look"), parent_tool_use_id="t1"), of_stream("assistant", parent_tool_use_id="t1")]
    summary = of_stream("user", text(f"{CLAUDE_CODE_SUMMARY} that ran out."), isSynthetic=True)
    said = [of_stream("user", text("go")), task, *sub, of_stream("user", RESULT)]
    begun = own("system", subtype="init", model="claude-x", cwd="/w", tools=["Read"], permissionMode="default")
    return [begun, *said, boundary(), summary, of_stream("assistant", text("b")), OWN[5]]


def test_a_compaction_of_agent_sdk_keeps_its_last_messages_and_no_summary(tmp_path: Path) -> None:
    """Its split (``find_split_point``) takes the call along with the first kept result."""
    session = open_session(written(tmp_path / "a.jsonl", [*LONG, boundary(), OWN[4]]))
    (compaction,) = session.facts.compactions
    assert (compaction.trigger, compaction.pre_tokens, compaction.message) == ("auto", 900, 7)
    assert [*session.context_at().order] == [7, 3, 4, 5, 6, 8]
    assert session.facts.flags[7] & MessageFlag.SUMMARY
    assert session.facts.block_flags[session.facts.first_block[7]] & BlockFlag.UNKNOWN_SIZE
    assert not session.facts.problems and "no summary in the file" in session.info.note
    shifted = [*LONG[:4], *LONG[1:4], boundary(), OWN[4]]  # the first of the last four is a result
    assert [*open_session(written(tmp_path / "b.jsonl", shifted)).context_at().order] == [6, 1, 2, 3, 4, 5, 7]


def test_a_new_run_of_agent_sdk_has_everything_again(tmp_path: Path) -> None:
    records = [*LONG, boundary(), OWN[4], OWN[0], OWN[1], OWN[4]]
    session = open_session(written(tmp_path / "a.jsonl", records))
    assert [each.trigger for each in session.facts.compactions] == ["auto", "resume"]
    assert [*session.context_at().order] == [*range(7), 8, 9, 10]


def test_results_of_one_batch_are_one_message(tmp_path: Path) -> None:
    """Newer versions write each as it comes."""
    calls = own("assistant", content=[CALL, {**CALL, "id": "t2"}, {**CALL, "id": "t3"}])
    results = [own("user", content=[{**RESULT, "tool_use_id": f"t{n}"}], is_synthetic=True) for n in (2, 1, 3)]
    records = [OWN[0], OWN[1], OWN[4], OWN[1], calls, *results, boundary(), OWN[4]]
    session = open_session(written(tmp_path / "a.jsonl", records))
    assert len(session.facts) == 7 and [*session.context_at().order] == [5, 1, 2, 3, 4, 6]


def test_a_compaction_of_a_stream_has_its_summary_behind_it(tmp_path: Path) -> None:
    said = [of_stream("user", text("go")), of_stream("assistant", text("a")), boundary("manual")]
    summary = of_stream("user", text(f"{CLAUDE_CODE_SUMMARY} that ran out."), isSynthetic=True)
    session = open_session(written(tmp_path / "a.jsonl", [*said, summary, of_stream("assistant", text("b"))]))
    (compaction,) = session.facts.compactions
    assert (compaction.trigger, compaction.pre_tokens, compaction.message) == ("manual", 900, 2)
    assert [*session.context_at().order] == [2, 3] and session.facts.flags[2] & MessageFlag.SUMMARY
    session = open_session(written(tmp_path / "b.jsonl", [*said, of_stream("assistant", text("b"))]))
    assert [*session.context_at().order] == [2] and len(session.facts.compactions) == 1
    assert not session.facts.flags[2] & MessageFlag.SUMMARY


def test_sub_agents_of_a_stream_are_sessions(tmp_path: Path) -> None:
    task = {**CALL, "name": "Task"}
    records = [
        own("system", subtype="init", cwd="/w", model="claude-y"),
        of_stream("assistant", task),
        of_stream("user", text('look at "parent_tool_use_id": "t9"'), parent_tool_use_id="t1"),
        of_stream("assistant", text("found"), parent_tool_use_id="t1"),
        of_stream("assistant", text("other"), parent_tool_use_id="t2"),
        of_stream("user", RESULT, parent_tool_use_id=None),
    ]
    path = written(tmp_path / "a.jsonl", records)
    main, first, second = sessions_in(path)
    assert (main.id, main.cwd, first.id, second.id) == ("", "/w", "t1", "t2")
    assert first.parent == str(path) and first.title.startswith("look at") and second.title == "t2"
    session = open_session(path)
    assert len(session.facts) == 2
    sub = open_session(f"{path}#t1")
    assert [each["role"] for each in sub.to_messages()] == ["user", "assistant"]
    assert AgentSdkFormat().subagent_of(session, session.facts.call_use[0]) == first
    with pytest.raises(UnreadableSession, match="t7"):
        open_session(f"{path}#t7")


def test_records_of_no_message_are_known_or_problems(tmp_path: Path) -> None:
    beside = [own(kind) for kind in sorted(IGNORED_TYPES)]
    facts = open_session(written(tmp_path / "a.jsonl", [*OWN, *beside, own("novelty")])).facts
    (problem,) = facts.problems
    assert "'novelty'" in problem.what
    assert list(facts.record_kind).count(RecordKind.METADATA) == 2 + len(IGNORED_TYPES)


def test_a_compacted_context_is_written_with_agent_sdk_s_own_summary(tmp_path: Path) -> None:
    session = open_session(written(tmp_path / "a.jsonl", [*LONG, OWN[4]]))
    after = ct.apply(session, ct.plan(session, "agent-sdk-compact", min_keep=4), summary="all of it")
    done = export(after, tmp_path / "out.jsonl", "agent-sdk")
    again = open_session(tmp_path / "out.jsonl")
    assert not done.losses and not done.check.introduced and again.to_messages() == after.to_messages()
    assert again.to_messages()[0]["content"][0]["text"] == f"{SDK_SUMMARY}all of it{SDK_SUMMARY_END}"
    assert again.facts.flags[0] & MessageFlag.SUMMARY and again.facts.model == "claude-x"


def test_what_it_cannot_hold_is_said(tmp_path: Path) -> None:
    """It passes over anything but texts, thinking, calls, results and pictures in the file."""
    pictures = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    ]
    session = ct.from_messages([{"role": "user", "content": [text("see"), *pictures]}])
    done = export(session, tmp_path / "out.jsonl", "agent-sdk")
    assert "blocks of type image left out, which agent-sdk cannot hold: 1" in done.losses
    assert [each["type"] for each in open_session(tmp_path / "out.jsonl").to_messages()[0]["content"]] == [
        *("text", "image")
    ]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    session = open_session(written(tmp_path / "a.jsonl", OWN))
    losses = AgentSdkFormat().write(session, tmp_path / "b.jsonl")
    again = open_session(tmp_path / "b.jsonl")
    assert again.info.format == "agent-sdk" and losses.lines == []
    assert again.to_messages() == session.to_messages()
    assert again.facts.requests == [Usage(5, 11, 13, 0, 7)]
    assert again.facts.model == "claude-x"


@pytest.mark.parametrize("made", [seed, seed_stream])
def test_growth_gives_the_same_facts(made: Callable[[], list[Any]], tmp_path: Path) -> None:
    check_growth(tmp_path / "a.jsonl", *made())


def test_what_is_kept_behind_a_summary_counts_to_the_range(tmp_path: Path) -> None:
    """The summary stands before what was kept, which has lower numbers."""
    steps = [
        each
        for number in range(6)
        for each in (
            own("assistant", content=[{**CALL, "id": f"t{number}"}], usage=USAGE),
            own("user", content=[{**RESULT, "tool_use_id": f"t{number}"}], is_synthetic=True),
        )
    ]
    said = [
        own("assistant", content=[{"type": "text", "text": "so"}]),
        own("user", content=[{"type": "text", "text": "on"}]),
    ]
    session = open_session(written(tmp_path / "a.jsonl", [*OWN[:2], *steps[:8], boundary(), *steps[8:], *said, OWN[4]]))
    made = ct.plan(session, "defect-compact")
    head = made.summarised_message_numbers
    assert head[0] > min(head)
    assert f"messages {min(head)} to {max(head)}" in format_title(made)
    tally = format_mark_totals(rows_of(session), RowMarker(made.context, made))["summarised"][0]
    assert f"#{min(head)} to #{max(head)}" in tally and str(len(head)) in tally
    [[stands]] = [message["content"] for message in session.to_messages() if message["content"][0]["type"] == "summary"]
    assert format_block(stands) == "(summary: of what was said before; it is not in the file)"
