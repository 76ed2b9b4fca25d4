"""Anthropic Messages: requests, bare lists, logs with responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.errors import UnreadableSession
from context_tui.formats.anthropic import AnthropicFormat
from context_tui.formats.opening import detect_format, open_session
from context_tui.session.facts import Usage
from context_tui.session.memory import from_messages
from context_tui.session.values import BlockFlag, Kind, MessageFlag, RecordKind, Role
from tests.formats.histories import columns, few, histories, measures, opened, put, scanner_of, written

FORM = AnthropicFormat()
TOOL = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}
CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "What does a.py do?"},
    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, CALL]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "print(1)"}]},
]
REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "It prints 1."}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 2_000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "output_tokens": 7,
    },
}


def test_a_request(tmp_path: Path) -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    request = {"model": "claude-sonnet-4-5", "max_tokens": 99, "system": system, "tools": [TOOL], "messages": MESSAGES}
    path = put(tmp_path / "request.json", request)
    assert detect_format(path).name == "anthropic"
    session = opened(FORM, path)
    facts = session.facts
    assert (len(session), session.turns, facts.model) == (3, 1, "claude-sonnet-4-5")
    assert facts.system_bytes == len("Be brief.") and session.content.system() == "Be brief."
    assert session.content.tools() == [TOOL] and facts.tools_bytes == len(json.dumps(TOOL, separators=(",", ":"))) + 2
    assert session.to_messages()[1] == MESSAGES[1]
    assert facts.requests == [] and list(facts.record_kind) == [RecordKind.MESSAGE] * 3
    assert FORM.list_sessions(path)[0].title == "What does a.py do?"


@pytest.mark.parametrize(
    "log",
    [
        {"messages": MESSAGES, "response": REPLY},
        {"request": {"messages": MESSAGES}, "response": REPLY},
        {
            "timestamp": 1.0,
            "request": {"url": "u", "body": {"messages": MESSAGES}},
            "response": {"body": REPLY},
        },
        {"request": {"body": json.dumps({"messages": MESSAGES})}, "response": {"status": 200, "body": REPLY}},
        {"messages": [*MESSAGES, {"role": "assistant", "content": REPLY["content"]}], "response": REPLY},
    ],
)
def test_a_logged_response_is_the_last_message_and_a_request(log: dict[str, Any], tmp_path: Path) -> None:
    path = put(tmp_path / "log.json", log)
    assert detect_format(path).name == "anthropic"
    session = opened(FORM, path)
    assert len(session) == 4 and session.message(3)["content"] == REPLY["content"]
    assert session.facts.requests == [Usage(10, 2_000, 100, 200, 7)]
    assert list(session.facts.request_message) == [3]
    assert session.facts.model == "claude-sonnet-4-5"


def test_runs_on_lines_and_in_arrays(tmp_path: Path) -> None:
    runs = [{"messages": MESSAGES[:length], "system": "s"} for length in (1, 2, 3)]
    lines = tmp_path / "runs.jsonl"
    lines.write_text("\n\n".join(map(json.dumps, runs)) + "\n{torn", encoding="utf-8")
    for path in (lines, put(tmp_path / "runs.json", runs)):
        assert [info.id for info in FORM.list_sessions(path)] == ["0", "1", "2"]
        assert [len(opened(FORM, path, number)) for number in "012"] == [1, 2, 3]
    assert [problem.what[:8] for problem in opened(FORM, lines, "2").facts.problems] == ["not JSON"]
    with pytest.raises(UnreadableSession, match="unknown session '7'"):
        FORM.make_scanner(lines, FORM.list_sessions(lines)[0].__class__(str(lines), "anthropic", "7"))


def test_messages_on_lines_and_pretty_printed(tmp_path: Path) -> None:
    lines = tmp_path / "messages.jsonl"
    lines.write_text("\n".join(map(json.dumps, MESSAGES)), encoding="utf-8")
    pretty = tmp_path / "messages.json"
    pretty.write_text("\ufeff" + json.dumps(MESSAGES, indent=2), encoding="utf-8")
    for path in (lines, pretty):
        assert detect_format(path).name == "anthropic"
        assert opened(FORM, path).to_messages()[1:] == MESSAGES[1:]


def test_odd_messages(tmp_path: Path) -> None:
    odd = [
        {"role": "system", "content": "Prompt."},
        {"role": "user", "content": ["plain", {"type": "text", "text": "block"}, 7]},
        {"role": "system", "content": "A reminder."},
        {
            "role": "assistant",
            "content": [{"type": "server_tool_use", "id": "x"}, {"type": "thinking", "thinking": ""}],
        },
        {"role": "assistant", "content": {"type": "text", "text": "one block"}},
        {"role": "user", "content": None},
        {"role": "robot", "content": "?"},
        "not an object",
        {"role": "assistant", "content": "bye", "usage": {"input_tokens": 5, "output_tokens": True}},
    ]
    session = opened(FORM, put(tmp_path / "odd.json", odd))
    facts = session.facts
    assert session.content.system() == "Prompt."
    assert [*facts.record_kind] == [1, 0, 0, 0, 0, 0, 2, 2, 0]
    assert [(problem.where, problem.what) for problem in facts.problems] == [
        ("element 6", "not a message: unknown role 'robot'"),
        ("element 7", "not a message: not a JSON object"),
        ("element 8", "output_tokens is true, not a number of tokens up to 1,000,000,000; left out"),
    ]
    assert [*facts.role] == [Role.USER, Role.SYSTEM, Role.ASSISTANT, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert [facts.kind[block] for block in facts.blocks_of(0)] == [Kind.TEXT, Kind.TEXT, Kind.OTHER]
    assert [facts.block_flags[block] for block in facts.blocks_of(1)] == [BlockFlag.INJECTED]
    assert not facts.flags[1] & MessageFlag.TURN_START and facts.flags[0] & MessageFlag.TURN_START
    assert facts.requests == []
    assert session.content.raw(6) == '{"role": "robot", "content": "?"}'
    assert all(len([*facts.blocks_of(m)]) == len(session.message(m)["content"]) for m in range(len(session)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("   \n ", "blank"),
        ("{", "known session format"),
        ("[]", "an empty list"),
        ("hello", "known session format"),
        ('{"messages": 7}', "known session format"),
        ("[" * 100_000, "known session format"),
        ('{"messages": [{"role": "user", "content": ' + "[" * 9_000, "format|JSON|records"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UnreadableSession, match=what) as raised:
        opened(detect_format(path), path)
    assert "\n" not in str(raised.value)


def test_nothing_but_problems_is_no_session(tmp_path: Path) -> None:
    path = put(tmp_path / "bad.json", [{"role": "robot"}, {"role": "robot"}])
    with pytest.raises(UnreadableSession, match="none of its records"):
        opened(FORM, path)


def test_what_strict_json_refuses(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    nested = "[" * 300 + "]" * 300
    path.write_text(
        '[{"role":"user","content":"\\ud800 lone"},{"role":"assistant","content":[{"type":"tool_use","id":"a",'
        '"name":"n","input":{"x":NaN}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",'
        f'"content":{nested}}}]}}]'
    )
    session = opened(FORM, path)
    assert len(session) == 2 and session.facts.text_bytes[0] == 8
    assert [problem.what for problem in session.facts.problems] == ["nested too deeply"]


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    whole = json.dumps({"model": "claude-x", "messages": MESSAGES})
    path = tmp_path / "cut.json"
    for length in range(whole.index("Let me"), len(whole), 7):
        path.write_text(whole[:length])
        session = opened(FORM, path)
        complete = 3 if length >= whole.rindex("}]}") + 3 else 2 if length > whole.index('"a.py"}}]}') + 9 else 1
        assert len(session) == complete
        assert [problem.what for problem in session.facts.problems] == ["the file is cut off here"]


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = put(tmp_path / "live.json", MESSAGES[:1])
    scanner = scanner_of(FORM, path)
    assert scanner.advance().end and len(scanner.session()) == 1
    put(path, MESSAGES)
    assert scanner.advance() == scanner.advance().__class__(2, None, True)
    put(path, [{"role": "user", "content": "other"}, *MESSAGES[1:]])
    assert scanner.advance().revised_from == 0
    assert scanner.session().to_messages() == opened(FORM, path).to_messages()
    path.write_text("[{")
    assert scanner.advance().end and len(scanner.session()) == 3


@few
@given(histories())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("a") / "out.json"
    session, losses = written(FORM, messages, path)
    if not any("JSON" in loss or "parts" in loss for loss in losses):
        assert losses == [] and session.to_messages() == [_sendable(message) for message in messages]
        assert measures(session) == measures(from_messages(messages))
    assert detect_format(path).name in ("anthropic", "openai")  # plain text alone could be anyone's


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """The message without bodies that are null, which is to say nothing."""
    blocks = [{name: value for name, value in block.items() if value is not None} for block in message["content"]]
    return {**message, "content": blocks}


@few
@given(histories(), st.booleans())
def test_step_by_step_is_one_pass(tmp_path_factory: pytest.TempPathFactory, messages: list[Any], broken: bool) -> None:
    path = put(tmp_path_factory.mktemp("a") / "m.json", [{"role": "x"}, *messages] if broken else messages)
    scanner = scanner_of(FORM, path)
    steps = 0
    while not scanner.advance(0).end:
        steps += 1
        assert 0 < scanner.progress < 1
    assert steps == len(messages) - 1 + broken
    assert columns(scanner.session().facts) == columns(opened(FORM, path).facts)
    assert measures(scanner.session()) == measures(opened(FORM, path))


@few
@given(st.data())
def test_damaged_bytes_give_an_answer(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(json.dumps({"system": "s", "tools": [TOOL], "messages": MESSAGES, "response": REPLY}).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("a") / "damaged.json"
    path.write_bytes(whole)
    try:
        session = open_session(path)
    except UnreadableSession as error:
        assert "\n" not in str(error)
    else:
        assert len(session.to_messages()) == len(session)
        assert [session.content.raw(row) for row in range(len(session.facts.record_kind))]
