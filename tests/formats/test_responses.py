"""OpenAI Responses: requests, responses and lists of items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.formats.opening import detect_format
from context_tui.formats.responses import ResponsesFormat
from context_tui.session.facts import Usage
from tests.formats.rollouts import SUMMARY, SURROUNDINGS, answered, asked, said, thought

TOOL = {"type": "function", "name": "shell", "description": "Runs.", "parameters": {"type": "object"}}
ITEMS = [said("user", "Look."), thought("**Plan**"), asked("a"), asked("b"), answered("a"), answered("b")]
REQUEST = {"model": "gpt-5.5", "instructions": "Be brief.", "tools": [TOOL, {"type": "web_search"}], "input": ITEMS}
USAGE = {"input_tokens": 900, "input_tokens_details": {"cached_tokens": 300}, "output_tokens": 20}
RESPONSE = {
    **{"object": "response", "id": "resp_1", "model": "gpt-5.5", "created_at": 1_782_808_419},
    **{"output": [thought(), said("assistant", "Done.")], "usage": USAGE},
}


def read(tmp_path: Path, value: Any, *, lines: bool = False) -> ct.Session:
    path = tmp_path / "x.json"
    path.write_text("".join(json.dumps(each) + "\n" for each in value) if lines else json.dumps(value))
    return ct.open_session(path)


def kinds(session: ct.Session) -> list[tuple[str, list[str]]]:
    return [(message["role"], [block["type"] for block in message["content"]]) for message in session.to_messages()]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_request(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(REQUEST, indent=indent))
    session = ct.open_session(path)
    assert session.info.format == "openai-responses" and session.content.system() == "Be brief."
    assert kinds(session) == [
        ("user", ["text"]),
        ("assistant", ["thinking", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
    ]
    schema = {"name": "shell", "description": "Runs.", "input_schema": {"type": "object"}}
    assert session.content.tools() == [schema, {"type": "web_search"}] and session.facts.tools_bytes
    assert (session.facts.model, session.turns, session.info.note) == ("gpt-5.5", 1, "")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_request_logged_with_its_response(tmp_path: Path, wrapped: bool) -> None:
    logged = {"request": REQUEST, "response": {"body": RESPONSE}} if wrapped else {**REQUEST, "response": RESPONSE}
    session = read(tmp_path, [logged], lines=True)
    assert kinds(session)[3:] == [("assistant", ["thinking", "text"])]
    assert session.facts.requests == [Usage(600, 300, 0, 0, 20)] and [*session.facts.request_message] == [3]
    assert session.facts.time[3] == 1_782_808_419_000


def test_a_response_alone(tmp_path: Path) -> None:
    session = read(tmp_path, RESPONSE)
    assert kinds(session) == [("assistant", ["thinking", "text"])]
    assert session.facts.requests == [Usage(600, 300, 0, 0, 20)]


@pytest.mark.parametrize("lines", [False, True])
def test_a_bare_list(tmp_path: Path, lines: bool) -> None:
    developer = said("developer", "Be brief.")
    session = read(tmp_path, [developer, *ITEMS, said("developer", "A hook."), said("assistant", "Yes.")], lines=lines)
    assert session.content.system() == "Be brief." and session.turns == 1
    assert [role for role, _ in kinds(session)] == ["user", "assistant", "user", "user", "assistant"]


def test_a_text_is_a_list_of_one(tmp_path: Path) -> None:
    assert kinds(read(tmp_path, {"model": "gpt-5.5", "input": "hello"})) == [("user", ["text"])]


def test_what_is_kept_by_the_provider_is_said(tmp_path: Path) -> None:
    session = read(tmp_path, {**REQUEST, "previous_response_id": "resp_0"})
    assert "previous_response_id" in session.info.note


def test_what_codex_puts_in_was_typed_by_nobody(tmp_path: Path) -> None:
    items = [said("developer", "Rules."), said("user", SURROUNDINGS), said("user", "Look."), said("user", SUMMARY)]
    session = read(tmp_path, {"model": "m", "instructions": "", "input": items})
    assert len(session) == 4 and session.turns == 1 and not session.content.system()


def test_what_is_no_item_is_a_problem(tmp_path: Path) -> None:
    session = read(tmp_path, [*ITEMS, {"type": "hologram"}, 3])
    assert [problem.what for problem in session.facts.problems] == [
        "unknown type of item 'hologram'",
        "not an item: no type and no role",
    ]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"model": "m", "input": [answered("1")]}, "openai-responses"),
        ({"object": "response", "output": [], "model": "m"}, "openai-responses"),
        ({"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}, "openai"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "anthropic"),
        ({"model": "claude", "system": "s", "messages": [{"role": "user", "content": "x"}]}, "anthropic"),
    ],
)
def test_sniffing(tmp_path: Path, value: Any, name: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    assert detect_format(path).name == name


def test_reasoning_whose_text_is_none_is_no_error(tmp_path: Path) -> None:
    parts = [{"type": "summary_text", "text": 1.5}, {"type": "summary_text", "text": "I look."}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"model": "m", "input": [{"type": "reasoning", "summary": parts}, answered("1")]}))
    [message, *_] = ct.open_session(path).to_messages()
    assert message["content"][0] == {"type": "thinking", "thinking": "I look."}


def test_other_objects_with_an_input_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for value in ({"input": "text", "output": "more"}, {"input": [1, 2]}, {"model": "m", "input": 3}):
        path.write_text(json.dumps(value))
        with pytest.raises(ct.UnreadableSession):
            detect_format(path)


def test_an_item_that_is_not_known_takes_nothing_of_its_response(tmp_path: Path) -> None:
    output = [said("assistant", "Done."), {"type": "novelty", "text": "?"}]
    path = tmp_path / "a.json"
    request = {"model": "m", "input": [said("user", "Look.")]}
    path.write_text(json.dumps({**request, "response": {"object": "response", "output": output, "usage": USAGE}}))
    session = ct.open_session(path)
    assert [message["content"][0]["text"] for message in session.to_messages()] == ["Look.", "Done."]
    assert len(session.facts.requests) == 1
    assert [problem.what for problem in session.facts.problems] == ["unknown type of item 'novelty'"]
    ResponsesFormat().write(session, tmp_path / "b.json")
    assert len(ct.open_session(tmp_path / "b.json")) == 2
