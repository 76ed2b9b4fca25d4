"""LangChain's dumps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from context_tui.compaction.tool_pairing import find_unpaired
from context_tui.errors import UnreadableSession
from context_tui.formats.langchain import LangChainFormat
from context_tui.formats.opening import open_session, sessions_in
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag

CALL = {"name": "read", "args": {"p": 1}, "id": "c", "type": "tool_call"}
RAW = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}}
USED = {"input_tokens": 100, "output_tokens": 5, "input_token_details": {"cache_read": 60, "cache_creation": 10}}
SAID: list[tuple[str, str, dict[str, Any]]] = [
    ("system", "SystemMessage", {"content": "be brief"}),
    ("human", "HumanMessage", {"content": "go", "id": "h1"}),
    (
        "ai",
        "AIMessage",
        {"content": "", "tool_calls": [CALL], "additional_kwargs": {"tool_calls": [RAW]}, "usage_metadata": USED},
    ),
    ("tool", "ToolMessage", {"content": "one", "tool_call_id": "c"}),
    ("ai", "AIMessage", {"content": "done", "response_metadata": {"model_name": "m"}}),
]
DICTS = [{"type": kind, "data": data} for kind, _, data in SAID]
DUMPED = [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", c], "kwargs": d} for _, c, d in SAID]
FLAT = [{"type": kind, **data} for kind, _, data in SAID]

LLM_RUN = {
    "run_type": "llm",
    "inputs": {"messages": [DUMPED[:-1]]},
    "outputs": {"generations": [[{"text": "done", "message": DUMPED[-1]}]]},
}
GONE = {"type": "remove", "id": "h1"}
SEEDS = [lambda: DICTS, lambda: DUMPED, lambda: LLM_RUN, lambda: {"values": {"messages": [*FLAT, GONE]}}]


@pytest.mark.parametrize("value", [DICTS, DUMPED, FLAT, {"messages": FLAT}, {"values": {"messages": DUMPED}}])
def test_every_spelling(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    session = open_session(path)
    facts = session.facts
    assert session.info.format == "langchain" and session.content.system() == "be brief" and not facts.problems
    assert [[block["type"] for block in each["content"]] for each in session.to_messages()] == [
        *(["text"], ["tool_use"], ["tool_result"], ["text"])
    ]
    assert facts.requests == [Usage(30, 60, 10, 0, 5)] and facts.model == "m"
    assert not any(name.partition(".")[0].startswith("langchain") for name in sys.modules)


def test_a_constructor_is_data(tmp_path: Path) -> None:
    evil = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "touch x"}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*DUMPED, evil]))
    (problem,) = open_session(path).facts.problems
    assert "a constructor of 'system'" in problem.what


def test_a_removal(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*FLAT, {"type": "remove", "id": "h1", "content": ""}]))
    assert [*open_session(path).context_at().order] == [1, 2, 3]


def test_removals_that_follow_each_other_are_one(tmp_path: Path) -> None:
    """Else each of them would be a compaction, with a context of its own to be put together."""
    said = [{"type": "human", "content": name, "id": name} for name in "abcd"]
    gone = [{"type": "remove", "id": name, "content": ""} for name in "ac"]
    session = opened([*said, *gone, {"type": "human", "content": "on", "id": "e"}], tmp_path)
    assert [*session.context_at().order] == [1, 3, 4]
    assert [(each.message, len(each.prefix)) for each in session.facts.compactions] == [(4, 2)]


def test_a_removal_behind_others_grows_to_the_same(tmp_path: Path) -> None:
    path, form = tmp_path / "a.json", LangChainFormat()
    said = [{"type": "human", "content": name, "id": name} for name in "abcd"]
    gone = [{"type": "remove", "id": name, "content": ""} for name in "ac"]
    path.write_text(json.dumps([*said, gone[0]]))
    growing = form.make_scanner(path, form.list_sessions(path)[0])
    growing.advance()
    path.write_text(json.dumps([*said, *gone]))
    growing.advance()
    facts, whole = growing.session().facts, open_session(path).facts
    assert [each.prefix for each in facts.compactions] == [each.prefix for each in whole.compactions]
    path.write_text(json.dumps([*said, *gone, {"type": "ai", "content": "done", "id": "e"}]))
    growing.advance()
    assert growing.session().facts.compactions == open_session(path).facts.compactions
    assert [each.message for each in growing.session().facts.compactions] == [4]


def test_calls_of_the_old_style_have_no_ids(tmp_path: Path) -> None:
    asked = {"function_call": {"name": "read", "arguments": '{"p": 1}'}}
    value = [
        {"type": "human", "data": {"content": "go"}},
        {"type": "ai", "data": {"content": "", "additional_kwargs": asked}},
        {"type": "function", "data": {"name": "read", "content": "found"}},
        {"type": "ai", "data": {"content": "Again.", "additional_kwargs": asked}},
        {"type": "function", "data": {"name": "read", "content": "more"}},
    ]
    session = opened(value, tmp_path)
    blocks = [message["content"] for message in session.to_messages()]
    assert blocks[1] == [{"type": "tool_use", "id": "function-1", "name": "read", "input": {"p": 1}}]
    assert [block["type"] for block in blocks[3]] == ["text", "tool_use"]
    assert [blocks[at][0]["tool_use_id"] for at in (2, 4)] == ["function-1", "function-3"]
    assert not find_unpaired(session.to_messages())


def opened(value: Any, tmp_path: Path) -> Session:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    return open_session(path)


REPLY = [{"text": "done", "message": DUMPED[-1]}]
WRAPPED = [
    {"v": 4, "id": "1", "channel_values": {"messages": FLAT}, "channel_versions": {}},
    {"thread_id": "t", "checkpoint": {"v": 4, "channel_values": {"messages": DUMPED}}},
    {"id": "r", "run_type": "chain", "inputs": {"question": "?"}, "outputs": {"messages": FLAT}},
    {"id": "r", "run_type": "chain", "inputs": {}, "outputs": {"output": {"messages": DUMPED}}},
    {"id": "r", "run_type": "llm", "inputs": {"messages": [DUMPED[:-1]]}, "outputs": {"generations": [REPLY]}},
    {"id": "r", "run_type": "llm", "inputs": {"messages": DUMPED[:-1]}, "outputs": {"generations": [REPLY]}},
]


@pytest.mark.parametrize("value", WRAPPED, ids=["checkpoint", "row", "chain", "output", "llm", "llm-flat"])
def test_states_checkpoints_and_runs(value: Any, tmp_path: Path) -> None:
    session = opened(value, tmp_path)
    assert session.info.format == "langchain" and session.content.system() == "be brief"
    assert [each["role"] for each in session.to_messages()] == ["user", "assistant", "user", "assistant"]
    assert not session.facts.problems


def test_a_history_of_states_is_a_session_each(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"values": {"messages": FLAT}, "next": []}, {"values": {"messages": FLAT[:2]}}]))
    assert [len(open_session(f"{info.path}#{info.id}").facts) for info in sessions_in(path)] == [4, 1]


def ai(**data: Any) -> list[dict[str, Any]]:
    return [{"type": "human", "content": "go"}, {"type": "ai", "content": "", **data}]


def test_calls_are_counted_once_wherever_they_stand(tmp_path: Path) -> None:
    function = {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"p": 1}'}
    block = {"type": "tool_call", "id": "c", "name": "read", "args": {"p": 1}}
    for content in ("", [function], [block], [{"type": "tool_use", "id": "c", "name": "read", "input": {"p": 1}}]):
        data = {"content": content, "tool_calls": [CALL], "additional_kwargs": {"tool_calls": [RAW]}}
        made = opened(ai(**data), tmp_path).to_messages()[1]["content"]
        assert made == [{"type": "tool_use", "id": "c", "name": "read", "input": {"p": 1}}]


def test_a_call_that_could_not_be_read_is_its_text(tmp_path: Path) -> None:
    wrong = {"name": "read", "args": '{"p": ', "id": "d", "error": "x", "type": "invalid_tool_call"}
    undumped = {"lc": 1, "type": "not_implemented", "id": ["litellm", "ToolCall"], "repr": "ToolCall()"}
    data = {"tool_calls": [CALL], "invalid_tool_calls": [wrong], "additional_kwargs": {"tool_calls": [undumped]}}
    made = opened(ai(**data), tmp_path).to_messages()[1]["content"]
    assert [(block["id"], block["input"]) for block in made] == [("c", {"p": 1}), ("d", '{"p": ')]


def test_reasoning_and_pictures(tmp_path: Path) -> None:
    asked = [
        {"type": "image", "base64": "AA==", "mime_type": "image/gif"},
        {"type": "image", "source_type": "base64", "data": "AA==", "mime_type": "image/gif"},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA=="}},
        {"type": "image", "url": "https://x/y.gif"},
    ]
    messages = [
        {"type": "human", "content": asked},
        {"type": "ai", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}]},
        {"type": "ai", "content": "so", "additional_kwargs": {"reasoning_content": "hm"}},
        {"type": "tool", "content": [{"type": "text", "text": "x"}, asked[0]], "tool_call_id": "c"},
    ]
    first, second, third, fourth = (each["content"] for each in opened(messages, tmp_path).to_messages())
    inline = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA=="}}
    assert first == [inline] * 3 + [{"type": "image", "source": {"type": "url", "url": "https://x/y.gif"}}]
    assert second == third == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]
    assert fourth[0]["content"] == [{"type": "text", "text": "x"}, inline]


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "token_usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
            },
            Usage(5, 4, 0, 0, 2),
        ),
        ({"usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4}}, Usage(9, 4, 0, 0, 2)),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}, Usage(9, 0, 0, 0, 2)),
    ],
)
def test_usage_as_the_provider_told_it(told: dict[str, Any], usage: Usage, tmp_path: Path) -> None:
    assert opened(ai(response_metadata=told), tmp_path).facts.requests == [usage]
    own = {"usage_metadata": USED, "response_metadata": told}
    assert opened(ai(**own), tmp_path).facts.requests == [Usage(30, 60, 10, 0, 5)]


def test_a_summary_of_the_middleware_is_one(tmp_path: Path) -> None:
    summary = {"type": "human", "content": "Here is a summary", "additional_kwargs": {"lc_source": "summarization"}}
    gone = {"type": "remove", "id": "__remove_all__", "content": ""}
    session = opened([*FLAT, gone, summary, {"type": "human", "content": "on"}], tmp_path)
    assert session.facts.flags[4] & MessageFlag.SUMMARY and [*session.context_at().order] == [4, 5]


def test_hostile_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    deep = '{"a":' * 300 + "1" + "}" * 300
    path.write_text(json.dumps(FLAT)[:-1] + f', {{"type": "human", "content": "x", "artifact": {deep}}}]')
    (problem,) = open_session(path).facts.problems
    assert "nested" in problem.what
    path.write_text('{"values":' * 3_000 + json.dumps({"messages": FLAT}) + "}" * 3_000)
    with pytest.raises(UnreadableSession):
        open_session(path)
