"""The Claude Code reader: how records become messages (research/formats.md §0 and §3, DESIGN §2)."""

from __future__ import annotations

import gc
import os
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.formats.claude_code.parsing import MAX_CONTAINERS
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, MessageFlag, RecordKind
from tests.formats.recordings import Recording, call, every, result, scanned, shape, text, thinking, usage


def counts(session: Session) -> list[int]:
    """Message, side and problem records, which add up."""
    kinds = list(session.facts.record_kind)
    return [kinds.count(int(kind)) for kind in (RecordKind.MESSAGE, RecordKind.METADATA, RecordKind.PROBLEM)]


def injected(session: Session) -> list[list[bool]]:
    """For each message, which of its blocks nobody typed."""
    facts = session.facts
    return [
        [bool(facts.block_flags[row] & BlockFlag.INJECTED) for row in facts.blocks_of(message)]
        for message in range(len(session))
    ]


def starts(session: Session) -> list[int]:
    return [m for m in range(len(session)) if session.facts.flags[m] & MessageFlag.TURN_START]


# -- assistant messages


def test_lines_of_one_api_message_are_one_message(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    for block in (thinking("hm", "sig"), text("I look"), call("t1", "Read", file_path="a.py")):
        recording.assistant(block, id="m1")
    session = recording.open(tmp_path)
    assert shape(session) == ["user text", "assistant thinking text tool_use"]
    assert session.message(1)["content"][2]["input"] == {"file_path": "a.py"}
    assert counts(session) == [4, 0, 0]


def test_groups_need_not_be_contiguous(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(call("t1"), id="m1")
    recording.add("progress", data={"type": "bash_progress"})
    recording.results(result("t1", "one"))
    recording.assistant(call("t2"), id="m1")
    recording.results(result("t2", "two"))
    session = recording.open(tmp_path)
    assert shape(session) == ["user text", "assistant tool_use tool_use", "user tool_result tool_result"]
    assert [block["content"] for block in session.message(2)["content"]] == ["one", "two"]
    assert counts(session) == [5, 1, 0]


def test_without_an_id_each_record_is_a_message(tmp_path: Path) -> None:
    recording = Recording()
    for _ in range(2):
        recording.add("assistant", message={"role": "assistant", "content": [text("x")]})
    assert shape(recording.open(tmp_path)) == ["assistant text"] * 2


@pytest.mark.parametrize("outputs", [(1, 1, 300), (300, 300, 300), (3, 300, 3)])
def test_usage_counts_once_with_the_largest_output(tmp_path: Path, outputs: tuple[int, ...]) -> None:
    recording = Recording()
    recording.user()
    for number, output in enumerate(outputs):
        recording.assistant(text(str(number)), id="m1", use=usage(7, 100, 20, output))
    facts = recording.open(tmp_path).facts
    assert len(facts.requests) == 1 and list(facts.request_message) == [1]
    assert (facts.requests[0].context, facts.requests[0].output) == (127, 300)


def test_usage_is_normalised(tmp_path: Path) -> None:
    recording = Recording()
    split = {"ephemeral_5m_input_tokens": 12, "ephemeral_1h_input_tokens": 8}
    recording.assistant(text("x"), use=usage(7, 100, 20, 3, cache_creation=split, iterations=[{"input_tokens": 9}]))
    (request,) = recording.open(tmp_path).facts.requests
    numbers = request.fresh, request.cache_read, request.cache_write_5m, request.cache_write_1h, request.output
    assert numbers == (7, 100, 12, 8, 3)


@pytest.mark.parametrize(
    ("version", "stop_reason", "trusted"),
    [("2.1.20", None, False), ("2.1.20", "end_turn", True), ("2.1.62", None, True), ("3.0", None, True)],
)
def test_old_output_tokens_are_placeholders(
    tmp_path: Path, version: str, stop_reason: str | None, trusted: bool
) -> None:
    recording = Recording()
    recording.assistant(text("x"), version=version, stop_reason=stop_reason)
    assert recording.open(tmp_path).facts.requests[0].output_trusted is trusted


def test_requests_stay_in_message_order_when_usage_comes_late(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("a"), id="m1", use={})
    recording.assistant(text("b"), id="m2", use=usage(200))
    recording.assistant(text("c"), id="m1", use=usage(100))
    facts = recording.open(tmp_path).facts
    assert list(facts.request_message) == [1, 2]
    assert [request.fresh for request in facts.requests] == [100, 200]


def test_client_made_messages_have_no_usage_and_no_model(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("real"), use=usage(500), model="glm-5.1")
    recording.assistant(text("No response requested."), model="<synthetic>", use=usage(0, output=0))
    recording.assistant(text("API Error: 529"), model="<synthetic>", use=usage(9), isApiErrorMessage=True)
    session = recording.open(tmp_path)
    assert session.facts.model == "glm-5.1"
    assert [request.fresh for request in session.facts.requests] == [500]
    assert len(session) == 4 and list(session.context_at().order) == [0, 1, 2], "API errors are not sent back"
    assert counts(session) == [4, 0, 0]


def test_hidden_thinking_is_of_unknown_size(tmp_path: Path) -> None:
    recording = Recording()
    recording.assistant(thinking("", "c" * 400), thinking("seen", "c" * 40))
    session = recording.open(tmp_path)
    hidden, seen = (bool(session.facts.block_flags[row] & BlockFlag.UNKNOWN_SIZE) for row in (0, 1))
    assert hidden and not seen
    assert ct.tokens.estimate(session) == 100 + 11


# -- user messages


def test_results_of_parallel_calls_are_one_message_and_no_branch(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    first = recording.assistant(call("t1"), id="m1")
    second = recording.assistant(call("t2"), id="m1")
    third = recording.assistant(call("t3"), id="m1")
    recording.results(result("t1", "one"), parent=first)
    recording.results(result("t3", "three", is_error=True), parent=third)
    last = recording.results(result("t2", "two"), parent=second)
    recording.assistant(text("done"), parent=last)
    session = recording.open(tmp_path)
    assert shape(session) == [
        "user text",
        "assistant tool_use tool_use tool_use",
        "user tool_result tool_result tool_result",
        "assistant text",
    ]
    assert [block["content"] for block in session.message(2)["content"]] == ["one", "three", "two"]
    assert session.message(2)["content"][1]["is_error"] is True
    assert session.turns == 1


def test_what_was_typed_while_tools_ran_stays_apart(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("first")
    recording.assistant(call("t1"), call("t2"))
    recording.results(result("t1"))
    recording.user("wait, also this")
    recording.results(result("t2"))
    session = recording.open(tmp_path)
    assert shape(session) == [
        "user text",
        "assistant tool_use tool_use",
        "user tool_result tool_result",
        "user text",
    ]
    assert starts(session) == [0, 3]


def test_tool_use_result_is_display_only(tmp_path: Path) -> None:
    recording = Recording()
    recording.assistant(call("t1"))
    recording.results(result("t1", "abcd"), toolUseResult={"stdout": "x" * 100_000})
    session = recording.open(tmp_path)
    assert ct.tokens.estimate(session.message(1)) == 1


def test_persisted_output_counts_as_its_preview(tmp_path: Path) -> None:
    preview = "<persisted-output>\nOutput too large (99KB). Full output saved to: /t/1.txt\n\nPreview (first 2KB):\nabc"
    recording = Recording()
    recording.assistant(call("t1"))
    recording.results(result("t1", preview), toolUseResult={"persistedOutputPath": "/t/1.txt"})
    session = recording.open(tmp_path)
    assert session.message(1)["content"][0]["content"] == preview
    assert ct.tokens.estimate(session.message(1)) == len(preview) // 4


def test_images_are_no_text(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    recording = Recording()
    recording.user([text("see"), image])
    recording.assistant(call("t1"))
    recording.results(result("t1", [text("shot"), image]))
    session = recording.open(tmp_path)
    assert ct.tokens.estimate(session.message(0)) == 2_000, "an image block is 2,000 tokens (and 'see' none)"
    assert session.facts.block_flags[3] & BlockFlag.HAS_IMAGE
    assert session.message(2)["content"][0]["content"][1] == image


PROMPT = "<command-message>plan</command-message>\n<command-name>/plan</command-name>"


@pytest.mark.parametrize(
    ("words", "turns"),
    [
        (f"{PROMPT}\n<command-args>a short one</command-args>", 2),
        (f"{PROMPT}\n<command-args></command-args>", 1),
        (PROMPT, 1),
        (
            "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args>x</command-args>",
            1,
        ),
    ],
)
def test_a_command_with_text_of_its_own_starts_a_turn(tmp_path: Path, words: str, turns: int) -> None:
    recording = Recording()
    recording.user("typed")
    recording.assistant(text("ok"))
    recording.user(words)
    recording.user([text("Write a plan.")], isMeta=True)
    recording.assistant(text("ok"))
    assert recording.open(tmp_path).turns == turns
    recording.lines = recording.lines[2:]
    assert ClaudeCodeFormat().read_title(recording.write(tmp_path)) == ("a short one" if turns == 2 else "")


@pytest.mark.parametrize(
    "words",
    [
        "<command-name>/clear</command-name>",
        "<local-command-stdout>ok</local-command-stdout>",
        "<local-command-caveat>x</local-command-caveat>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout>",
        "<task-notification>done</task-notification>",
        "Caveat: The messages below were generated",
        "[Request interrupted by user]",
    ],
)
def test_markup_is_injected_and_starts_no_turn(tmp_path: Path, words: str) -> None:
    recording = Recording()
    recording.user("typed")
    recording.assistant(text("reply"))
    recording.user(words)
    recording.user([text(words)])
    session = recording.open(tmp_path)
    assert shape(session) == ["user text", "assistant text", "user text text"]
    assert injected(session) == [[False], [False], [True, True]]
    assert starts(session) == [0]


def test_meta_records_go_to_the_model_and_start_no_turn(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("typed")
    recording.user("a skill's text", isMeta=True)
    session = recording.open(tmp_path)
    assert shape(session) == ["user text text"]
    assert injected(session) == [[False, True]] and starts(session) == [0]


def test_origin_says_who_typed(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("typed", origin={"kind": "human"})
    recording.assistant(text("reply"))
    recording.user("a task has ended", origin={"kind": "task-notification"})
    recording.assistant(text("reply"))
    recording.user("<bash-input> is what I ask about", origin={"kind": "human"})
    session = recording.open(tmp_path)
    assert starts(session) == [0, 4]
    assert injected(session) == [[False], [False], [True], [False], [False]]


def test_markup_beside_a_result_is_injected(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("typed")
    recording.assistant(call("t1"))
    recording.results(result("t1"), text("[Request interrupted by user for tool use]"))
    session = recording.open(tmp_path)
    assert injected(session)[2] == [False, True] and starts(session) == [0]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("nested_memory", {"content": {"path": "CLAUDE.md", "content": "seen by the model"}}),
        ("edited_text_file", {"snippet": "seen by the model"}),
        ("deferred_tools_delta", {"addedLines": ["seen by the model"]}),
        ("mcp_instructions_delta", {"addedBlocks": ["seen by the model"]}),
        ("queued_command", {"prompt": "seen by the model"}),
        ("queued_command", {"prompt": [text("seen by the model")]}),
        ("a_kind_of_tomorrow", {"content": "seen by the model"}),
    ],
)
def test_attachments_are_injected(tmp_path: Path, kind: str, fields: dict[str, Any]) -> None:
    recording = Recording()
    recording.user("typed")
    recording.attachment(kind, **fields)
    recording.assistant(text("reply"))
    recording.attachment(kind, **fields)
    session = recording.open(tmp_path)
    assert shape(session) == ["user text text", "assistant text", "user text"]
    assert session.message(2)["content"] == [text("seen by the model")]
    assert injected(session) == [[False, True], [False], [True]] and starts(session) == [0]
    assert counts(session) == [4, 0, 0]


@pytest.mark.parametrize("kind", ["hook_success", "command_permissions", "hook_system_message"])
def test_attachments_on_the_screen_only_are_side_records(tmp_path: Path, kind: str) -> None:
    recording = Recording()
    recording.user("typed")
    recording.attachment(kind, content="for the user")
    session = recording.open(tmp_path)
    assert shape(session) == ["user text"] and counts(session) == [1, 1, 0]


def test_records_for_the_transcript_only_are_side_records(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("typed")
    recording.user("only displayed", isVisibleInTranscriptOnly=True)
    session = recording.open(tmp_path)
    assert shape(session) == ["user text"] and counts(session) == [1, 1, 0]


def test_side_records_are_accounted_for(tmp_path: Path) -> None:
    recording = Recording()
    recording.line({"type": "summary", "summary": "title", "leafUuid": "elsewhere"})
    recording.line({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}})
    recording.user("typed")
    recording.add("progress", data={"type": "hook_progress"})
    recording.add("system", subtype="turn_duration", durationMs=3)
    recording.add("system", content="no subtype, as in 1.0")
    recording.line({"type": "last-prompt", "leafUuid": "u1", "sessionId": "s"})
    recording.line({"type": "last-prompt", "lastPrompt": "typed", "sessionId": "s"})
    recording.line({"type": "queue-operation", "operation": "enqueue", "sessionId": "s"})
    for kind in ("custom-title", "ai-title", "mode", "permission-mode", "pr-link", "frame-link"):
        recording.line({"type": kind, "sessionId": "s"})
    session = recording.open(tmp_path)
    assert shape(session) == ["user text"]
    assert counts(session) == [1, 14, 0] and session.facts.problems == []


# -- problems


def test_unknown_types_are_problems_with_a_place(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.line(b"")
    recording.line({"type": "of-tomorrow", "uuid": "x"})
    recording.line({"no": "type"})
    recording.line({"type": "assistant", "uuid": "y"})
    recording.line({"type": "user", "uuid": "z", "message": "no object"})
    recording.line(b"[1, 2]")
    recording.line(b"not json")
    session = recording.open(tmp_path)
    assert counts(session) == [1, 0, 6]
    assert [problem.where for problem in session.facts.problems] == [f"line {n}" for n in range(3, 9)]
    assert "of-tomorrow" in session.facts.problems[0].what
    assert session.content.raw(session.facts.problems[-1].raw) == "not json"


def test_a_file_is_closed_with_its_last_reader(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    path = recording.write(tmp_path)
    gc.disable()
    try:
        with suppress(FileNotFoundError):
            opened = len(os.listdir("/proc/self/fd"))
            for _ in range(5):
                assert len(ct.open_session(path)) == 1
            assert len(os.listdir("/proc/self/fd")) <= opened
    finally:
        gc.enable()


def test_blank_lines_are_no_records(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    for blank in (b"", b"   ", b"\t", b"\r"):
        recording.line(blank)
    recording.line(b"{")
    session = recording.open(tmp_path)
    assert counts(session) == [1, 0, 1]
    assert session.facts.problems[0].where == "line 6"


def test_two_objects_on_a_line_are_two_records(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("é one")
    recording.assistant(text("två"))
    glued = b"  ".join(recording.lines)
    session = scanned(glued + b" \n" + recording.lines[0].replace(b"one", b"three") + b"\n", tmp_path)
    assert [message["content"][0]["text"] for message in every(session)] == ["é one", "två", "é three"]
    assert counts(session) == [3, 0, 0]


def test_two_objects_on_a_line_may_hold_what_each_may(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("é one")
    recording.user("two")
    digits = b'{"number":' + b"9" * 5_000 + b","
    lines = [line.replace(b"{", digits, 1) for line in recording.lines]
    alone = every(scanned(b"\n".join(lines), tmp_path))
    glued = scanned(b" ".join(lines), tmp_path)
    assert every(glued) == alone and counts(glued) == [2, 0, 0]


def test_a_torn_last_line_is_one_problem(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("reply"))
    session = scanned(recording.data[:-20], tmp_path)
    assert counts(session) == [1, 0, 1]
    assert "torn" in session.facts.problems[0].what


def test_a_complete_last_line_needs_no_newline(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    session = scanned(recording.data.rstrip(b"\n"), tmp_path)
    assert counts(session) == [1, 0, 0] and session.facts.problems == []


def test_only_newlines_end_lines(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("line\u2028separator \x85 and \x0c")
    recording.assistant(text("reply"))
    crlf = recording.data.replace(b"\n", b"\r\n")
    session = scanned(crlf.replace(b"\\u2028", "\u2028".encode()).replace(b"\\u0085", "\x85".encode()), tmp_path)
    assert session.message(0)["content"][0]["text"] == "line\u2028separator \x85 and \x0c"
    assert counts(session) == [2, 0, 0]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("first")
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + recording.data)
    session = ct.open_session(path)
    assert session.to_messages() == [{"role": "user", "content": [text("first")]}]


def test_lone_surrogates_and_nul_are_kept(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("half \ud83d of a pair, and \x00")
    recording.assistant(call("t\ud800", "To\udc00ol", path="\udfff"))
    recording.results(result("t\ud800", "\ud800" * 600))
    session = recording.open(tmp_path)
    assert counts(session) == [3, 0, 0]
    assert session.message(0)["content"][0]["text"] == "half \ud83d of a pair, and \x00"
    assert session.message(2)["content"][0]["content"] == "\ud800" * 600
    assert ct.tokens.estimate(session.message(2)) == 450


@pytest.mark.parametrize("depth", [100, 400, 900, 3_000, 100_000])
def test_deep_nesting_is_read_or_told(tmp_path: Path, depth: int) -> None:
    recording = Recording()
    recording.user("first")
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    recording.assistant(call("t1", "Bash", x="DEEP"))
    recording.results(result("t1", "DEEP"), toolUseResult="DEEP")
    data = recording.data.replace(b'"DEEP"', deep)
    session = scanned(data, tmp_path)
    message, side, problem = counts(session)
    assert message + problem == 3 and side == 0
    if problem:
        assert "nested too deeply" in session.facts.problems[0].what
    session.to_messages()
    ct.plan(session, "agent-sdk-prune", max_chars=10, preserve_tail=0)


def test_a_message_of_too_many_blocks_is_a_problem_and_takes_little_memory(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("JUNK")
    recording.user("{" * (MAX_CONTAINERS + 1))  # no objects: brackets in a text
    data = recording.data.replace(b'"JUNK"', b"[" + b",".join([b"{}"] * MAX_CONTAINERS) + b"]")
    tracemalloc.start()
    session = scanned(data, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts(session) == [1, 0, 1]
    assert session.facts.problems[0].what == "unreadable line: a message of more than 50,000 arrays and objects"
    assert peak < 10 * len(data)


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-" + "9" * 200, "1e999", "NaN", "1" * 5_000])
def test_numbers_that_no_runtime_has(tmp_path: Path, number: str) -> None:
    recording = Recording()
    recording.user("first")
    recording.assistant(call("t1", "Bash", x="NUMBER"), use=usage(7))
    recording.results(result("t1", {"rows": "NUMBER"}), toolUseResult="NUMBER")
    session = scanned(recording.data.replace(b'"NUMBER"', number.encode()), tmp_path)
    assert sum(counts(session)) == 3
    session.to_messages()


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "assistant", "uuid": 5, "message": {"id": 7, "content": {"not": "a list"}, "usage": "none"}},
        {"type": "assistant", "message": {"id": "m", "content": [None, 1, "x", {"type": "tool_use"}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": ["a"], "name": {}, "input": [1]}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": 5, "content": [1, None]}]}},
        {"type": "user", "message": {"content": [{"type": ["text"], "text": {}}, {"type": "text", "text": None}]}},
        {"type": "user", "message": {"content": 5}, "timestamp": 12, "isSidechain": "no", "parentUuid": []},
        {
            "type": "system",
            "subtype": "compact_boundary",
            "compactMetadata": {"preservedMessages": {"uuids": [1, None]}},
        },
        {
            "type": "system",
            "subtype": "compact_boundary",
            "compactMetadata": {"preservedSegment": {"headUuid": "gone"}},
        },
        {
            "type": "system",
            "subtype": "microcompact_boundary",
            "microcompactMetadata": {"compactedToolIds": [None, {}]},
        },
        {"type": "attachment", "attachment": {"content": {"deep": [1, {"x": None}]}}},
        {"type": ["user"], "uuid": {}},
        {
            "type": "assistant",
            "message": {"id": "n", "content": "x", "usage": {"input_tokens": -5, "output_tokens": 1.5}},
        },
        {"type": "assistant", "message": {"id": "n", "content": "x", "usage": {"input_tokens": 10**30}}},
    ],
)
def test_fields_of_unexpected_types(tmp_path: Path, broken: dict[str, Any]) -> None:
    recording = Recording()
    recording.user("first")
    recording.line(broken)
    recording.assistant(text("reply"))
    session = recording.open(tmp_path)
    assert sum(counts(session)) == 3
    for point in range(len(session) + 1):
        session.to_messages(point)
    for policy in (
        "defect-microcompact",
        "defect-compact",
        "koda-microcompact",
        "agent-sdk-prune",
        "agent-sdk-compact",
    ):
        ct.plan(session, policy)


def test_hundred_megabytes_on_a_line(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("first")
    recording.assistant(call("t1"))
    recording.results(result("t1", "PUT"))
    recording.assistant(text("done"))
    session = scanned(recording.data.replace(b"PUT", b"x" * 20_000_000), tmp_path)
    assert ct.tokens.estimate(session.message(2)) == 5_000_000
    assert counts(session) == [4, 0, 0]


@pytest.mark.parametrize("stranger", ["a", "nobody's"])
@pytest.mark.parametrize("slowly", [False, True])
def test_results_belong_to_the_call_that_waits(tmp_path: Path, stranger: str, slowly: bool) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(call("a"))
    recording.results(result("a"))
    recording.assistant(call("b"), call("c"))
    recording.results(result(stranger), result("b"), *([text("and now?")] if slowly else []))
    recording.results(result("c"))
    expected = ["user text", "assistant tool_use", "user tool_result", "assistant tool_use tool_use"]
    found = shape(recording.open(tmp_path))
    assert found[:5] == [*expected, "user tool_result tool_result tool_result"]
