"""OpenAI Chat Completions: requests, logs with responses, runs, and old shapes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from context_tui.errors import UnreadableSession
from context_tui.formats.openai import OpenAIFormat
from context_tui.formats.opening import detect_format, open_session
from context_tui.session.facts import Usage
from context_tui.session.values import BlockFlag, Kind, RecordKind, Role
from tests.formats.histories import IMAGE, PNG, columns, few, histories, measures, opened, put, scanner_of, written

FORM = OpenAIFormat()
FUNCTION = {"name": "read", "description": "Read.", "parameters": {"type": "object", "properties": {}}}


def call(call_id: str, arguments: Any, name: str = "read") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": [{"type": "text", "text": "No jokes."}]},
    {"role": "user", "content": [{"type": "text", "text": "Compare a and b."}]},
    {"role": "assistant", "content": None, "tool_calls": [call("1", '{"path": "a"}'), call("2", '{"path": "b"}')]},
    {"role": "tool", "tool_call_id": "1", "name": "read", "content": "alpha"},
    {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "beta"}]},
    {"role": "user", "content": "Well?"},
    {"role": "assistant", "content": "They differ.", "reasoning_content": "a is not b"},
]


def test_a_request(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": FUNCTION}]
    path = put(tmp_path / "r.json", {"model": "gpt-4o", "tools": tools, "messages": MESSAGES, "context_window": 64_000})
    assert detect_format(path).name == "openai"
    session = opened(FORM, path)
    facts = session.facts
    assert session.content.system() == "Be brief.\n\nNo jokes." and facts.system_bytes == 20
    assert session.content.tools() == [
        {"name": "read", "description": "Read.", "input_schema": {"type": "object", "properties": {}}}
    ]
    assert facts.tools_bytes == len(json.dumps(tools, separators=(",", ":")))
    assert (facts.model, session.window.tokens, session.window.source) == ("gpt-4o", 64_000, "file")
    assert Counter(facts.record_kind) == {RecordKind.METADATA: 2, RecordKind.MESSAGE: 6}
    assert session.turns == 2
    assert session.to_messages() == [
        {"role": "user", "content": [{"type": "text", "text": "Compare a and b."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "2", "name": "read", "input": {"path": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "alpha"},
                {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "beta"}]},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "a is not b"}, {"type": "text", "text": "They differ."}],
        },
    ]


def test_results_are_put_together_and_typed_text_is_not(tmp_path: Path) -> None:
    tool = {"role": "tool", "content": "r"}
    asked = {"role": "assistant", "content": "", "tool_calls": [call("1", "{}"), call("2", "{}")]}
    messages = [
        asked,
        {**tool, "tool_call_id": "1"},
        {"role": "user", "content": "Hurry."},
        {**tool, "tool_call_id": "2"},
        asked,
        {**tool, "tool_call_id": "1"},
    ]
    path = put(tmp_path / "m.json", messages)
    scanner = scanner_of(FORM, path)
    steps = [scanner.advance(0) for _ in messages]
    assert [step.appended for step in steps] == [1, 1, 1, 0, 1, 1]
    assert [step.revised_from for step in steps] == [None, None, None, 1, None, None]
    session = scanner.session()
    assert [[block["type"] for block in message["content"]] for message in session.to_messages()] == [
        ["tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["text"],
        ["tool_use", "tool_use"],
        ["tool_result"],
    ]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', {"_raw": '{"a": '}),
        ("[1]", {"_raw": "[1]"}),
        ('{"_raw": "x"}', {"_raw": '{"_raw": "x"}'}),
        (7, {"_raw": "7"}),
    ],
)
def test_arguments_come_back_as_they_were(arguments: Any, given: Any, tmp_path: Path) -> None:
    messages = [{"role": "assistant", "content": None, "tool_calls": [call("1", arguments)]}]
    session = opened(FORM, put(tmp_path / "m.json", messages))
    assert session.message(0)["content"][0]["input"] == given
    again, _ = written(FORM, session.to_messages(), tmp_path / "again.json")
    assert again.to_messages() == session.to_messages()
    out = json.loads((tmp_path / "again.json").read_text())["messages"][0]["tool_calls"][0]["function"]["arguments"]
    if isinstance(arguments, str) and arguments:
        assert out == arguments or json.loads(out) == json.loads(arguments)


def test_old_function_calls_are_paired_in_order(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "one"},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "two"},
    ]
    session = opened(FORM, put(tmp_path / "m.json", messages))
    for _ in range(2):  # reading again gives the same ids
        ids = [m["content"][0].get("id") or m["content"][0].get("tool_use_id") for m in session.to_messages()[1:]]
        assert ids == ["function-1", "function-1", "function-3", "function-3"]


def test_parts(tmp_path: Path) -> None:
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "system", "content": "A reminder."},
        {"role": "assistant", "content": "", "tool_calls": "?"},
        {"role": "assistant", "content": "", "tool_calls": [7, {"id": "c", "custom": {"name": "sh", "input": "ls"}}]},
    ]
    session = opened(FORM, put(tmp_path / "m.json", messages))
    facts = session.facts
    assert [facts.kind[block] for block in facts.blocks_of(0)] == [Kind.IMAGE, Kind.IMAGE, Kind.OTHER, Kind.OTHER]
    assert session.message(0)["content"][0] == IMAGE
    assert session.message(1)["content"] == [{"type": "refusal", "refusal": "No."}]
    assert facts.role[2] == Role.SYSTEM and facts.block_flags[facts.first_block[2]] == BlockFlag.INJECTED
    assert [problem.what for problem in facts.problems] == [
        "tool_calls that are not a list",
        "a tool call that is not an object",
    ]
    assert session.message(4)["content"][0]["input"] == {"_raw": "ls"}
    assert session.turns == 1


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}},
            (20, 80, 0, 5),
        ),
        ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64}, (36, 64, 0, 5)),
        ({"prompt_tokens": 100, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, (10, 60, 30, 0)),
        ({"prompt_tokens": 10, "cache_read_input_tokens": 900}, (10, 900, 0, 0)),
        ({"prompt_tokens": None, "completion_tokens": 5, "prompt_tokens_details": None}, (0, 0, 0, 5)),
    ],
)
def test_usage(usage: dict[str, Any], expected: tuple[int, ...], tmp_path: Path) -> None:
    fresh, read, wrote, output = expected
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
    response = {
        "object": "chat.completion",
        "created": 1_757_015_046,
        "choices": [choice],
        "usage": usage,
        "model": "m",
    }
    session = opened(FORM, put(tmp_path / "m.json", {"messages": MESSAGES[:3], "response": response}))
    assert session.facts.requests == [Usage(fresh, read, wrote, 0, output)]
    assert list(session.facts.request_message) == [1] and session.facts.request_time[0] == 1_757_015_046_000
    assert session.facts.input_includes_cache and session.facts.model == "m"


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        ({"prompt_tokens": -1, "completion_tokens": "x"}, "prompt_tokens is -1"),
        ({"prompt_tokens": 5, "completion_tokens": 2.5}, "completion_tokens is 2.5"),
        ({"prompt_tokens": 10**400}, "prompt_tokens is too large"),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": True}}, "cached_tokens is true"),
    ],
)
def test_sizes_that_are_none_are_told(usage: dict[str, Any], why: str, tmp_path: Path) -> None:
    session = opened(
        FORM, put(tmp_path / "m.json", [*MESSAGES[:3], {"role": "assistant", "content": "a", "usage": usage}])
    )
    [problem] = session.facts.problems
    assert problem.what == f"{why}, not a number of tokens up to 1,000,000,000; left out"
    assert session.facts.requests == [] and len(session) == 2


@pytest.mark.parametrize(
    ("recorded", "taken", "why"),
    [
        (None, "raw", "raw_messages is shown, as no usage is recorded"),
        (1_000, "native", "messages is shown, as it is closest to the recorded 1,000 tokens"),
        (10, "raw", "raw_messages is shown, as it is closest to the recorded 10 tokens"),
    ],
)
def test_of_two_lists_the_one_that_fits_the_usage_is_read(
    tmp_path: Path, recorded: int | None, taken: str, why: str
) -> None:
    lists = {
        "messages": [{"role": "user", "content": "native " + "x" * 4_000}],
        "raw_messages": [{"role": "user", "content": "raw"}],
    }
    message = {"role": "assistant", "content": "Done."}
    usage = {"prompt_tokens": recorded, "completion_tokens": 1}
    response = {"choices": [{"message": message}], **({"usage": usage} if recorded else {})}
    path = put(tmp_path / "m.json", {**lists, "tools": [{"function": FUNCTION}], "response": response})
    session = opened(FORM, path)
    assert session.to_messages()[0]["content"][0]["text"].startswith(taken)
    assert session.info.note.endswith(why) and "raw_messages (est. 8 tokens)" in session.info.note


def test_one_list_needs_no_note(tmp_path: Path) -> None:
    assert opened(FORM, put(tmp_path / "m.json", {"messages": MESSAGES})).info.note == ""


def test_arrays_of_runs(tmp_path: Path) -> None:
    runs = [{"task_id": number, "reward": 1.0, "traj": MESSAGES[: number + 3], "trial": 0} for number in range(4)]
    path = put(tmp_path / "runs.json", runs)
    assert detect_format(path).name == "openai"
    assert [(info.id, info.title) for info in FORM.list_sessions(path)] == [
        (str(n), "Compare a and b.") for n in range(4)
    ]
    assert [len(open_session(f"{path}#{number}")) for number in range(4)] == [1, 2, 3, 3]
    with pytest.raises(UnreadableSession):
        open_session(f"{path}#4")


@few
@given(histories(rich=False))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("o") / "out.json"
    session, losses = written(FORM, messages, path)
    assert losses == []
    assert session.to_messages() == messages


@few
@given(histories())
def test_what_cannot_be_held_is_said(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    session, losses = written(FORM, messages, tmp_path_factory.mktemp("o") / "out.json")
    blocks = [block for message in messages for block in message["content"]]
    said = " ".join(losses)
    assert ("thinking" in said) == any(block["type"] == "thinking" for block in blocks)
    assert ("errors" in said) == any(block.get("is_error") for block in blocks)
    assert ("split into two" in said) == (len(session) > len(messages))
    if "JSON" not in said:  # null is written as nothing, and counts as nothing
        kept = [sum(n or 0 for n in measures(session)), session.turns]
        dropped = [{**m, "content": [b for b in m["content"] if b["type"] != "thinking"]} for m in messages]
        plain, _ = written(FORM, dropped, tmp_path_factory.mktemp("o") / "plain.json")
        assert kept == [sum(n or 0 for n in measures(plain)), plain.turns]


@few
@given(histories())
def test_step_by_step_is_one_pass(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("o") / "out.json"
    session, _ = written(FORM, messages, path)
    scanner = scanner_of(FORM, path)
    while not scanner.advance(0).end:
        pass
    assert columns(scanner.session().facts) == columns(session.facts)


def test_recorded_requests(shared: Path) -> None:
    files = sorted((shared / "corpus" / "openai-chat").iterdir())
    assert files
    for path in files:
        document = json.loads(path.read_text(encoding="utf-8"))
        given = document if isinstance(document, list) else document.get("raw_messages", document["messages"])
        replied = isinstance(document, dict) and "response" in document
        session = open_session(path)
        facts = session.facts
        assert session.info.format == "openai"
        assert len(facts.record_kind) == len(given) + replied
        assert Counter(facts.record_kind)[RecordKind.PROBLEM] == 0 and facts.problems == []
        assert len(facts.requests) == replied
        assert all(len([*facts.blocks_of(m)]) == len(session.message(m)["content"]) for m in range(len(session)))
