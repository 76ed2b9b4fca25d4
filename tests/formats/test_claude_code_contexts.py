"""What Claude Code recordings say of contexts: where they begin, what is in them twice, who typed, what was left."""

from __future__ import annotations

from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.export.files import export
from context_tui.session.session import Session
from context_tui.session.values import RecordKind
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.measures import TokenMeasure
from tests.formats.recordings import Recording, call, result, shape, text, usage, words

# -- where contexts begin


def epochs(session: Session) -> list[tuple[int, str]]:
    return [(epoch.message, epoch.cause) for epoch in session.facts.epochs]


def cleared(*, hook: str = "progress") -> Recording:
    made = Recording()
    made.user("long ago")
    made.assistant(text("reply"), use=usage(78_000))
    if hook == "progress":
        made.clear()
    else:
        attached = {"type": "hook_success", "hookName": "SessionStart:clear", "content": "ok"}
        made.add("attachment", parent=None, attachment=attached)
    return made


@pytest.mark.parametrize("hook", ["progress", "attachment"])
def test_a_context_begins_anew_at_a_clear(tmp_path: Path, hook: str) -> None:
    made = cleared(hook=hook)
    made.user("anew")
    made.assistant(text("hello"), use=usage(41_000))
    session = made.open(tmp_path)
    assert epochs(session) == [(0, "start"), (2, "clear")] and words(session) == ["anew", "hello"]
    report = build_report(session)
    assert report["epochs"] == [{"message": 0, "cause": "start"}, {"message": 2, "cause": "clear"}]
    assert report["window"]["recorded_tokens"] == 41_000 and report["drops"] == [] == report["compactions"]
    assert ct.plan(session, "manual", cut=3).boundary == 3
    with pytest.raises(ct.PlanError, match="message 1 is not in the context"):
        ct.plan(session, "manual", cut=1)


def test_what_comes_before_a_clear_is_the_context_up_to_it(tmp_path: Path) -> None:
    made = cleared()
    made.user("anew")
    session = made.open(tmp_path)
    assert list(session.context_at(2).order) == [0, 1] and list(session.context_at(3).order) == [2]
    assert build_report(session, 2)["window"]["recorded_tokens"] == 78_000
    assert build_report(session, 3)["window"]["recorded_tokens"] is None
    assert build_report(session, 2)["epochs"] == [{"message": 0, "cause": "start"}]


def test_what_the_runtime_puts_in_after_a_clear_is_not_of_the_context_before(tmp_path: Path) -> None:
    made = cleared()
    made.user("<command-name>/clear</command-name>")
    made.user("anew")
    assert epochs(made.open(tmp_path)) == [(0, "start"), (2, "clear")]


def test_a_clear_before_anything_begins_nothing(tmp_path: Path) -> None:
    made = Recording()
    made.clear()
    made.user("first")
    assert epochs(made.open(tmp_path)) == [(0, "start")]


def test_hooks_of_other_names_and_below_others_begin_nothing(tmp_path: Path) -> None:
    made = Recording()
    made.user("first")
    made.add("progress", data={"hookName": "SessionStart:clear"})
    made.add("progress", parent=None, data={"hookName": "SessionStart:resume"})
    made.user("SessionStart:clear")
    assert epochs(made.open(tmp_path)) == [(0, "start")]


def test_a_file_that_begins_with_a_boundary(tmp_path: Path) -> None:
    made = Recording()
    made.boundary(998_659, preservedMessages={"uuids": ["elsewhere-1", "elsewhere-2"]})
    made.summary()
    made.assistant(text("reply"), use=usage(69_000))
    session = made.open(tmp_path)
    assert epochs(session) == [(0, "compaction")]
    [found] = build_report(session)["compactions"]
    assert found["preserved_missing"] == 2 and found["tokens_before_in_file"] == 998_659


def test_preserved_messages_that_are_there_are_not_missing(tmp_path: Path) -> None:
    made = Recording()
    made.user("before")
    kept = made.assistant(text("kept"))
    made.boundary(9_000, preservedSegment={"headUuid": kept, "tailUuid": "elsewhere"})
    made.summary()
    [found] = build_report(made.open(tmp_path))["compactions"]
    assert found["preserved_missing"] == 1


# -- what holds after a microcompaction


def test_the_baseline_is_forgotten_after_a_microcompaction(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.assistant(call("t1", "Read"), use=usage(136_000))
    made.results(result("t1", "x" * 40_000))
    made.microcompact("t1")
    made.user("go on")
    made.assistant(text("reply"), use=usage(77_000))
    session = made.open(tmp_path)
    before, after = (build_report(session, at, measure=TokenMeasure.OWN)["window"] for at in (4, 5))
    assert before["recorded_tokens"] is None and before["believed_tokens"] == before["estimated_tokens"] < 100
    assert after["recorded_tokens"] == 77_000
    runtime_states = build_report(session, timeline=True)["timeline"][4]["believed_tokens"]
    assert runtime_states["defect"] == before["believed_tokens"] and runtime_states["agent-sdk"] is None


def test_a_microcompaction_that_cleared_nothing_forgets_nothing(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.assistant(text("reply"), use=usage(136_000))
    made.microcompact()
    made.user("go on")
    assert build_report(made.open(tmp_path), 3)["window"]["recorded_tokens"] == 136_000


# -- one window


@pytest.mark.parametrize(
    "model",
    ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic/claude-opus-4.6", "claude-haiku-4-5", "claude-x"],
)
def test_only_sizes_that_claude_models_have(tmp_path: Path, model: str) -> None:
    made = Recording()
    made.assistant(text("x"), use=usage(210_000), model=model)
    session = made.open(tmp_path)
    assert (session.window.tokens, session.window.source) == (1_000_000, "inferred")


def test_sizes_that_nobody_ever_sent_are_none(tmp_path: Path) -> None:
    made = Recording()
    made.boundary(True)
    made.summary()
    made.assistant(text("x"), use=usage(2**70))
    session = made.open(tmp_path)
    assert session.facts.requests == [] and session.facts.compactions[0].pre_tokens is None


@pytest.mark.parametrize("records", [3, 5, 7])
def test_the_window_is_the_same_however_much_is_there(tmp_path: Path, records: int) -> None:
    made = Recording()
    made.boundary(998_659)
    made.summary()
    for number, tokens in enumerate([60_000, 260_000, 470_000]):
        made.assistant(text("x"), use=usage(tokens), model="claude-opus-4-7", id=f"m{number}")
        made.user("go on")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in made.lines[:records]))
    assert ct.open_session(path).window.tokens == 1_000_000


def test_sizes_that_the_model_may_have_besides_are_said(tmp_path: Path) -> None:
    made = Recording()
    made.assistant(text("x"), use=usage(9), model="claude-opus-4-6")
    made.assistant(text("x"), use=usage(9), model="claude-3-5-haiku")
    session = made.open(tmp_path)
    assert session.window_at(1).alternatives == (1_000_000,) and session.window_at(2).alternatives == ()
    assert build_report(session, 1)["session"]["context_window_others"] == [1_000_000]


def test_a_session_that_switches_models_has_the_window_of_the_model_there(tmp_path: Path) -> None:
    made = Recording()
    made.assistant(text("x"), use=usage(300_000), model="claude-fable-5")
    made.user("/model")
    made.assistant(text("x"), use=usage(90_000), model="claude-haiku-4-5")
    session = made.open(tmp_path)
    assert [session.window_at(at).tokens for at in range(4)] == [1_000_000, 1_000_000, 1_000_000, 200_000]
    assert ct.plan(session, "defect-microcompact", at=2).trigger.threshold == 600_000
    assert ct.plan(session, "defect-microcompact").trigger.threshold == 120_000


# -- who typed it


def test_what_was_typed_while_the_model_worked_starts_a_turn(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.assistant(call("t1"))
    made.results(result("t1"))
    made.attachment("queued_command", prompt="and this", commandMode="prompt", origin={"kind": "human"})
    made.assistant(text("reply"))
    session = made.open(tmp_path)
    assert session.turns == 2 and words(session) == ["do it", "t1", "ok", "and this", "reply"]


def test_what_was_typed_with_an_image_has_the_image(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    made.attachment("queued_command", prompt=[text("see"), image], commandMode="prompt", origin={"kind": "human"})
    session = made.open(tmp_path)
    assert shape(session) == ["user text", "user text image"]
    assert ct.tokens.estimate(session) == 2_001 == ct.tokens.estimate(ct.from_messages(session.to_messages()))


def test_what_a_task_queued_starts_none(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.attachment("queued_command", prompt="<task>", commandMode="task", origin={"kind": "task-notification"})
    assert made.open(tmp_path).turns == 1


def mixed() -> Recording:
    made = Recording()
    made.user("plan it")
    made.assistant(call("t1"), call("t2"))
    made.results(result("t1", "no"), text("rather do this"), text("[Request interrupted by user]"))
    made.results(result("t2", "later"))
    made.assistant(text("reply"))
    return made


def test_a_result_and_typed_text_in_one_record_are_two_messages(tmp_path: Path) -> None:
    session = mixed().open(tmp_path)
    assert shape(session) == [
        "user text",
        "assistant tool_use tool_use",
        "user tool_result text tool_result",
        "user text",
        "assistant text",
    ]
    assert session.turns == 2 and words(session)[3] == "rather do this"
    kinds = session.facts.record_kind
    assert [kinds.count(kind) for kind in RecordKind] == [5, 0, 0], "a record is counted once"
    assert ct.tokens.estimate(session) == ct.tokens.estimate(ct.from_messages(session.to_messages()))


@pytest.mark.parametrize("cut", [2, 3, 4])
def test_such_a_record_is_exported_as_what_is_kept_of_it(tmp_path: Path, cut: int) -> None:
    session = mixed().open(tmp_path)
    done = ct.apply(session, ct.plan(session, "manual", cut=cut), "the summary")
    out = tmp_path / "out.jsonl"
    found = export(done, out, "claude-code")
    after = ct.open_session(out)
    assert found.check.introduced == ()
    assert [message["content"] for message in after.to_messages()][1:] == [m["content"] for m in done.to_messages()][1:]
    assert (after.turns == session.turns - (cut > 0) - (cut > 3) and "rather do this" in out.read_text()) or cut > 3


def test_what_is_below_such_a_record_is_below_what_was_typed(tmp_path: Path) -> None:
    made = Recording()
    made.user("plan it")
    made.assistant(call("t1"))
    fork = made.results(result("t1", "no"), text("rather do this"))
    made.user("left", parent=fork)
    made.assistant(text("x"))
    made.user("live", parent=fork)
    session = made.open(tmp_path)
    assert words(session) == ["plan it", "t1", "no", "rather do this", "live"]


# -- what is there twice


def test_a_record_that_is_repeated_with_its_uuid_counts_once(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.assistant(call("t1"), use=usage(500))
    made.results(result("t1", "x" * 400))
    made.lines += made.lines[:3]
    made.assistant(text("reply"))
    session = made.open(tmp_path)
    assert shape(session) == ["user text", "assistant tool_use", "user tool_result", "assistant text"]
    assert [session.facts.record_kind.count(kind) for kind in RecordKind] == [4, 3, 0]


def test_a_boundary_a_clear_and_a_microcompaction_that_are_repeated_count_once(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    made.assistant(call("t1"))
    made.results(result("t1", "x" * 400))
    made.microcompact("t1")
    made.lines.append(made.lines[-1])
    made.clear()
    made.lines.append(made.lines[-1])
    made.user("anew")
    made.boundary(9_000)
    made.summary()
    made.lines += made.lines[-2:]
    made.user("go on")
    made.lines.append(made.lines[5])
    made.user("and on")
    session = made.open(tmp_path)
    assert epochs(session) == [(0, "start"), (3, "clear"), (4, "compaction")]
    assert [compaction.kind for compaction in session.facts.compactions] == ["micro", "full"]
    assert len(words(session)) == 3


def test_records_that_share_a_uuid_and_say_something_else_both_count(tmp_path: Path) -> None:
    made = Recording()
    made.user("one", uuid="same")
    made.user("two", uuid="same")
    assert words(made.open(tmp_path)) == ["one", "two"]


# -- what was left


def test_typed_text_beside_one_of_two_results_is_no_rewind(tmp_path: Path) -> None:
    made = Recording()
    made.user("plan it")
    made.assistant(call("t1"), call("t2"))
    made.results(result("t1", "no"), text("rather do this"))
    made.results(result("t2", "yes"), parent="u2")
    made.user("next")
    session = made.open(tmp_path)
    assert session.turns == 3 and session.facts.branches == []


def test_typed_text_on_a_branch_that_was_left_is_gone_from_the_results_too(tmp_path: Path) -> None:
    made = Recording()
    made.user("plan it")
    made.assistant(call("t1"))
    fork = made.results(result("t1", "no"))
    made.user("left", parent=fork)
    made.assistant(call("t2"))
    made.results(result("t2", "no"), text("rather"))
    made.user("live", parent=fork)
    session = made.open(tmp_path)
    assert words(session) == ["plan it", "t1", "no", "live"]
    again = ct.open_session(f"{made.write(tmp_path)}#branch-1")
    assert words(again)[-2:] == ["no", "rather"]
    assert ct.tokens.estimate(ct.from_messages(again.to_messages())) == ct.tokens.estimate(again.context_at())


def rewound() -> Recording:
    made = Recording()
    first = made.user("first")
    made.assistant(text("a"), use=usage(10))
    fork = made.last
    made.user("left one")
    made.assistant(text("b"), use=usage(20))
    inner = made.last
    made.user("left two")
    made.assistant(text("c"), use=usage(30))
    made.user("left three", parent=inner)
    made.user("live", parent=fork)
    made.assistant(text("d"), use=usage(40))
    assert first
    return made


def test_branches_that_were_left_are_told_and_can_be_opened(tmp_path: Path) -> None:
    path = rewound().write(tmp_path)
    session = ct.open_session(path)
    report = build_report(session)
    assert words(session) == ["first", "a", "live", "d"] and report["requests"] == 2
    assert report["requests_elsewhere"] == 2 == sum(branch["requests"] for branch in report["branches"])
    assert [(branch["id"], branch["messages"]) for branch in report["branches"]] == [("branch-1", 3), ("branch-2", 2)]
    assert words(ct.open_session(f"{path}#branch-1")) == ["first", "a", "left one", "b", "left three"]
    assert words(ct.open_session(f"{path}#branch-2")) == ["first", "a", "left one", "b", "left two", "c"]


@pytest.mark.parametrize("name", ["branch-3", "branch-0", "branch-x", "branch-"])
def test_branches_that_are_not_there(tmp_path: Path, name: str) -> None:
    path = rewound().write(tmp_path)
    with pytest.raises(ct.UnreadableSession, match="available: branch-1 to branch-2"):
        ct.open_session(f"{path}#{name}")


def test_a_session_without_rewinds_has_no_branch(tmp_path: Path) -> None:
    made = Recording()
    made.user("first")
    path = made.write(tmp_path)
    assert build_report(ct.open_session(path))["branches"] == []
    with pytest.raises(ct.UnreadableSession, match="it has no branches"):
        ct.open_session(f"{path}#branch-1")


def test_branches_end_before_what_came_later(tmp_path: Path) -> None:
    made = rewound()
    made.boundary(5_000)
    made.summary()
    made.user("after")
    path = made.write(tmp_path)
    branch = ct.open_session(f"{path}#branch-1")
    assert epochs(branch) == [(0, "start")] and branch.facts.compactions == []
    assert epochs(ct.open_session(path)) == [(0, "start"), (4, "compaction")]


# -- tools and reads


def test_results_are_of_the_call_before_them_where_ids_come_again(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    for name, size in (("Read", 4_000), ("Bash", 400), ("Grep", 40)):
        made.assistant(call("call_1", name))
        made.results(result("call_1", "x" * size))
    session = made.open(tmp_path)
    parts = measure_breakdown(session.context_at())
    assert [(share.tool, share.calls, share.result_tokens) for share in parts.by_tool] == [
        ("Read", 1, 1_000),
        ("Bash", 1, 100),
        ("Grep", 1, 10),
    ]


def lines_of(first: int, count: int) -> str:
    return "\n".join(f"{number:>6} some text of this line" for number in range(first, first + count))


LINE_TOKENS = len(lines_of(1, 1) + "\n") / 4


def reads(*parts: tuple[int, int]) -> Recording:
    """Reads of one path with offset and limit (0, 0: the whole file, of 400 lines)."""
    made = Recording()
    made.user("do it")
    for number, (offset, limit) in enumerate(parts):
        part = {"offset": offset, "limit": limit} if limit else {}
        made.assistant(call(f"t{number}", "Read", file_path="/a", **part))
        made.results(result(f"t{number}", lines_of(offset or 1, limit or 400)))
    return made


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([(1, 100), (101, 100), (301, 100)], 0),
        ([(1, 100), (51, 100)], 50),
        ([(1, 100), (1, 100)], 100),
        ([(0, 0), (301, 100)], 100),
        ([(301, 100), (0, 0)], 100),
        ([(1, 100), (201, 100), (51, 200)], 100),
    ],
)
def test_only_lines_that_were_read_again_are_wasted(tmp_path: Path, parts: list[tuple[int, int]], lines: int) -> None:
    [found] = measure_breakdown(reads(*parts).open(tmp_path).context_at()).duplicate_reads
    assert found.count == len(parts) and found.wasted == pytest.approx(lines * LINE_TOKENS, abs=2)


def test_the_lines_that_a_whole_read_got_are_those_of_its_display(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    for number, (first, count) in enumerate([(1, 400), (500, 100)]):
        made.assistant(call(f"t{number}", "Read", file_path="/a", **({"offset": first} if number else {})))
        file = {"filePath": "/a", "content": "x", "numLines": count, "startLine": first, "totalLines": 600}
        made.results(result(f"t{number}", lines_of(first, count)), toolUseResult={"type": "text", "file": file})
    [found] = measure_breakdown(made.open(tmp_path).context_at()).duplicate_reads
    assert found.count == 2 and found.wasted == 0


def test_a_read_that_was_cleared_or_failed_is_not_there_twice(tmp_path: Path) -> None:
    made = Recording()
    made.user("do it")
    for number in range(3):
        made.assistant(call(f"t{number}", "Read", file_path="/a"))
        made.results(result(f"t{number}", lines_of(1, 400), is_error=number == 1))
    made.microcompact("t0")
    [found] = measure_breakdown(made.open(tmp_path).context_at()).duplicate_reads
    assert found.wasted == 0


# -- idle time


def test_koda_idles_from_the_last_line_of_a_reply(tmp_path: Path) -> None:
    made = Recording()
    made.user(timestamp="2026-01-01T00:00:00.000Z")
    made.assistant(text("a long"), id="m", timestamp="2026-01-01T00:00:01.000Z")
    made.assistant(text("reply"), id="m", timestamp="2026-01-01T00:04:00.000Z")
    made.user("back", timestamp="2026-01-01T00:05:10.000Z")
    trigger = ct.plan(made.open(tmp_path), "koda-microcompact", at=2).trigger
    assert (trigger.fires, trigger.value) == (False, 70)


def reminder(words: str) -> list[dict[str, str]]:
    return [{"content": f"<system-reminder>\n{words}\n</system-reminder>"}]


def test_an_attachment_that_states_its_text_is_shown_as_sent(tmp_path: Path) -> None:
    made = Recording()
    made.user("go")
    made.add("attachment", attachment={"type": "date", "date": "2026-11-24"}, rendered=reminder("It is Tuesday."))
    made.assistant(text("Done."))
    session = made.open(tmp_path)
    assert [block["text"] for block in session.to_messages()[0]["content"]] == [
        "go",
        "<system-reminder>\nIt is Tuesday.\n</system-reminder>",
    ]
    assert session.turns == 1 and not session.facts.problems


def test_texts_between_a_boundary_and_its_summary_belong_to_the_new_context(tmp_path: Path) -> None:
    made = Recording()
    made.user("go")
    made.assistant(call("t1"))
    kept = [made.results(result("t1"))]
    made.boundary(preservedMessages={"uuids": kept})
    made.add("attachment", attachment={"type": "date"}, rendered=reminder("It is Tuesday."))
    made.add("attachment", attachment={"type": "model"}, rendered=reminder("You are a model."))
    made.summary("This session is being continued.")
    made.assistant(text("Done."))
    session = made.open(tmp_path)
    assert len(session.facts.compactions) == 1 and not session.facts.problems
    texts = [block.get("text", block["type"]) for message in session.to_messages() for block in message["content"]]
    assert [words.split("\n")[1] if "\n" in words else words for words in texts] == [
        "It is Tuesday.",
        "You are a model.",
        "This session is being continued.",
        "tool_result",
        "Done.",
    ]


def test_texts_after_a_boundary_without_a_summary_belong_to_the_new_context(tmp_path: Path) -> None:
    """As in an export of a context whose summary was removed."""
    made = Recording()
    made.user("go")
    made.boundary()
    made.add("attachment", attachment={"type": "date"}, rendered=reminder("It is Tuesday."))
    made.user("on")
    texts = [block["text"] for message in made.open(tmp_path).to_messages() for block in message["content"]]
    assert texts == ["<system-reminder>\nIt is Tuesday.\n</system-reminder>", "on"]


def test_records_of_requests_are_metadata(tmp_path: Path) -> None:
    made = Recording()
    made.user("go")
    for kind in ("api-request-shape", "api-request-blob", "api-request", "atis-latch", "tools-used", "cost-state"):
        made.line({"type": kind, "sessionId": "s", "message": {"role": "user", "content": "go"}})
    session = made.open(tmp_path)
    assert len(session) == 1 and not session.facts.problems
