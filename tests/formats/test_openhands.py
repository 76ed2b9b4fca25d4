"""OpenHands: events of both generations, what condensations leave, and usage of each response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.openhands import OpenHandsFormat
from context_tui.formats.opening import detect_format, open_session, sessions_in
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag
from context_tui.text.sanitize import MAX_NAME_LENGTH
from tests.formats.histories import columns, opened, put

FORM = OpenHandsFormat()


def event(number: int, kind: str, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"id": f"e{number}", "timestamp": f"2026-02-05T11:24:{number:02}.5", "source": source, "kind": kind, **more}


def words(text: str) -> list[dict[str, Any]]:
    return [{"cache_prompt": False, "type": "text", "text": text}]


def acted(number: int, call: str, response: str, *, thought: str = "") -> dict[str, Any]:
    return event(
        number,
        "ActionEvent",
        thought=words(thought) if thought else [],
        thinking_blocks=[],
        action={"command": "pwd", "kind": "TerminalAction"},
        tool_name="terminal",
        tool_call_id=call,
        tool_call={"id": call, "name": "terminal", "arguments": '{"command": "pwd"}', "origin": "completion"},
        llm_response_id=response,
    )


def seen(number: int, call: str, text: str) -> dict[str, Any]:
    observation = {
        "content": words(text),
        "is_error": False,
        "metadata": {"exit_code": 0, "working_dir": "/src", "prefix": "", "suffix": ""},
        "kind": "TerminalObservation",
    }
    more = {"tool_name": "terminal", "tool_call_id": call, "action_id": "e0", "observation": observation}
    return event(number, "ObservationEvent", "environment", **more)


TOOL = {"description": "Runs.", "action_type": "TerminalAction", "kind": "TerminalTool", "title": "terminal"}
PROMPT = event(
    0, "SystemPromptEvent", system_prompt=words("You act.")[0], tools=[TOOL], dynamic_context=words("Here.")[0]
)
TASK = event(
    1, "MessageEvent", "user", llm_message={"role": "user", "content": words("Do it.")}, extended_content=words("K")
)
EVENTS = [
    PROMPT,
    TASK,
    event(2, "ConversationStateUpdateEvent", "environment", key="stats", value={}),
    acted(3, "c1", "r1", thought="Both at once."),
    acted(4, "c2", "r1"),
    seen(5, "c1", "one"),
    seen(6, "c2", "two"),
    acted(7, "c3", "r2"),
    event(8, "AgentErrorEvent", tool_name="terminal", tool_call_id="c3", error="no such tool"),
    event(9, "CondensationRequest", "environment"),
    event(
        10,
        "Condensation",
        "environment",
        forgotten_event_ids=["e3", "e4", "e5", "e6"],
        summary="Looked at both.",
        summary_offset=2,
        llm_response_id="r3",
    ),
    event(11, "MessageEvent", llm_message={"role": "assistant", "content": words("Done.")}, llm_response_id="r4"),
]
TOLD = [("r1", 900, 0), ("r2", 1_000, 700), ("r3", 1_100, 0), ("r4", 500, 100)]
STATE = {
    "id": "x",
    "agent": {"llm": {"model": "openai/gpt-4o-mini", "api_key": "**********"}, "kind": "Agent"},
    "workspace": {"working_dir": "/src"},
    "execution_status": "finished",
    "stats": {
        "usage_to_metrics": {
            "agent": {
                "accumulated_token_usage": {"prompt_tokens": 3_500},
                "token_usages": [
                    {
                        "prompt_tokens": prompt,
                        "completion_tokens": 7,
                        "cache_read_tokens": read,
                        "cache_write_tokens": 0,
                        "context_window": 128_000,
                        "response_id": response,
                    }
                    for response, prompt, read in TOLD
                ],
            }
        }
    },
}


def texts(session: Session, at: int | None = None) -> list[str]:
    return [
        "|".join(str(b.get("text") or b.get("content") or b.get("input")) for b in message["content"])
        for message in session.to_messages(at)
    ]


def conversation(folder: Path, events: list[Any], state: Any = STATE) -> Path:
    (folder / "events").mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(events):
        put(folder / "events" / f"event-{number:05}-{number}.json", each)
    return put(folder / "base_state.json", state)


def test_events_of_the_sdk(tmp_path: Path) -> None:
    path = put(tmp_path / "events.json", EVENTS)
    assert detect_format(path).name == "openhands"
    session = opened(FORM, path)
    facts = session.facts
    assert session.content.system() == "You act.\n\nHere."
    assert [tool["name"] for tool in session.content.tools()] == ["terminal"] and facts.tools_bytes
    assert (len(session), session.turns, len(facts.record_kind)) == (7, 1, 12)
    assert [len(message["content"]) for message in session.to_messages(3)] == [2, 3, 2]
    assert [*facts.block_flags][:2] == [0, BlockFlag.INJECTED]  # knowledge beside what was typed
    assert [facts.calls[number] for number in range(3)] == ["c1", "c2", "c3"]
    results = [row for row in facts.call_result]
    assert min(results) >= 0 and facts.block_flags[results[2]] & BlockFlag.ERROR
    [body] = session.to_messages(3)[2]["content"][0]["content"]
    assert body["text"] == "one\n[Current working directory: /src]\n[Command finished with exit code 0]"


def test_a_condensation_takes_events_out_and_puts_a_summary_in(tmp_path: Path) -> None:
    session = opened(FORM, put(tmp_path / "events.json", EVENTS))
    [found] = session.facts.compactions
    assert (found.kind, found.message, [*found.prefix]) == ("full", 5, [0, 5, 3, 4])
    assert [text[:9] for text in texts(session)] == ["Do it.|K", "Looked at", "{'command", "[{'type':", "Done."]


def test_a_second_condensation_may_forget_the_first_summary(tmp_path: Path) -> None:
    more = {"forgotten_event_ids": ["e10-summary", "e7", "e8"], "summary": "All of it.", "summary_offset": 2}
    events = [*EVENTS, event(12, "Condensation", "environment", **more), acted(13, "c9", "r9")]
    session = opened(FORM, put(tmp_path / "events.json", events))
    assert [text[:9] for text in texts(session)][:3] == ["Do it.|K", "All of it", "Done."]
    bare = event(12, "Condensation", "environment", forgotten_event_ids=["e11"])
    session = opened(FORM, put(tmp_path / "events.json", [*EVENTS, bare, acted(13, "c9", "r9")]))
    assert [text[:9] for text in texts(session)] == ["Do it.|K", "Looked at", "{'command", "[{'type':", "{'command"]


def test_a_conversation_in_a_folder(tmp_path: Path) -> None:
    path = conversation(tmp_path / "abc", EVENTS)
    assert detect_format(path).name == "openhands"
    session = opened(FORM, path)
    facts = session.facts
    assert (facts.model, session.window.tokens) == ("openai/gpt-4o-mini", 128_000)
    # One request of each message, the condenser's being none of these.
    assert [(use.fresh, use.cache_read, use.output) for use in facts.requests] == [
        (900, 0, 7),
        (300, 700, 7),
        (400, 100, 7),
    ]
    assert [info.path for info in sessions_in(tmp_path / "abc")] == [str(path)]
    with pytest.raises(UnreadableSession, match=r"one event of an OpenHands conversation; open .*base_state\.json"):
        open_session(tmp_path / "abc" / "events" / "event-00003-3.json")
    assert not FORM.is_standalone(tmp_path / "abc" / "events" / "event-00003-3.json")


def test_a_conversation_that_grows(tmp_path: Path) -> None:
    path = conversation(tmp_path / "abc", EVENTS[:2])
    growing = FORM.make_scanner(path, FORM.list_sessions(path)[0])
    growing.advance()
    for length in range(3, len(EVENTS) + 1):
        conversation(tmp_path / "abc", EVENTS[:length])
        growing.advance()
        assert columns(growing.session().facts) == columns(opened(FORM, path).facts), length


def test_a_list_that_grows(tmp_path: Path) -> None:
    path = put(tmp_path / "events.json", EVENTS[:2])
    growing = FORM.make_scanner(path, FORM.list_sessions(path)[0])
    growing.advance()
    for length in range(3, len(EVENTS) + 1):
        put(path, EVENTS[:length])
        growing.advance()
        assert columns(growing.session().facts) == columns(opened(FORM, path).facts), length


def test_a_broken_event_is_a_problem(tmp_path: Path) -> None:
    path = conversation(tmp_path / "abc", [*EVENTS, {"id": "e12", "kind": "MessageEvent", "source": "user"}])
    (tmp_path / "abc" / "events" / "event-00099-x.json").write_text('{"id": "e9')
    session = opened(FORM, path)
    first, second = session.facts.problems
    assert (first.what, len(session)) == ("a MessageEvent without llm_message", 7)
    assert second.what.startswith("not JSON")


def test_where_conversations_are_kept(tmp_path: Path) -> None:
    conversation(tmp_path / "kept" / "conversations" / "abc", EVENTS)
    [found] = FORM.find_sessions({"OPENHANDS_PERSISTENCE_DIR": str(tmp_path / "kept")}, tmp_path)
    assert found.path.name == "base_state.json"
    environ = {"OPENHANDS_CONVERSATIONS_DIR": str(tmp_path / "kept" / "conversations")}
    assert [*FORM.find_sessions(environ, tmp_path)] == [found]
    assert not [*FORM.find_sessions({"HOME": str(tmp_path)}, tmp_path)]


# -- V0


def called(number: int, call: str, response: str, prompt: int, calls: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "function_name": "execute_bash",
        "tool_call_id": call,
        "model_response": {
            "id": response,
            "model": "llama-4",
            "choices": [
                {
                    "message": {
                        "content": f"Thought {number}.",
                        "tool_calls": [
                            {"id": each, "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'}}
                            for each in calls or (call,)
                        ],
                    }
                }
            ],
            "usage": {"prompt_tokens": prompt, "completion_tokens": 9},
        },
        "total_calls_in_response": len(calls) or 1,
    }


def run(number: int, metadata: dict[str, Any], **more: Any) -> dict[str, Any]:
    args = {"command": "ls", "thought": "x"}
    return {"id": number, "source": "agent", "action": "run", "args": args, "tool_call_metadata": metadata, **more}


def came(number: int, cause: int, text: str, metadata: dict[str, Any]) -> dict[str, Any]:
    extras = {"command": "ls", "metadata": {"exit_code": 1, "prefix": "<", "suffix": ">"}}
    base = {"id": number, "source": "agent", "cause": cause, "observation": "run", "content": text, "extras": extras}
    return {**base, "tool_call_metadata": metadata}


BOTH = ("t1", "t2")
ONE, TWO, THREE = called(5, "t1", "g1", 900, BOTH), called(6, "t2", "g1", 900, BOTH), called(9, "t3", "g2", 990)
HISTORY = [
    {"id": 0, "source": "agent", "action": "system", "args": {"content": "You act.", "tools": []}},
    {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it.", "image_urls": None}},
    {"id": 2, "source": "user", "action": "recall", "args": {"query": "Fix it."}},
    {
        "id": 4,
        "source": "environment",
        "cause": 2,
        "observation": "recall",
        "content": "Added",
        "extras": {"repo_instructions": "", "microagent_knowledge": [{"name": "g", "content": "Use git."}]},
    },
    run(5, ONE),
    run(6, TWO),
    came(7, 5, "one", ONE),
    came(8, 6, "two", TWO),
    run(9, THREE),
    came(10, 9, "three", THREE),
    {"id": 11, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
]
FORGET = {
    "id": 12,
    "source": "agent",
    "action": "condensation",
    "args": {"forgotten_events_start_id": 5, "forgotten_events_end_id": 8, "summary": "Listed.", "summary_offset": 4},
}
END = {
    "id": 13,
    "source": "agent",
    "action": "message",
    "args": {"content": "Done."},
    "llm_metrics": {
        "accumulated_token_usage": {"prompt_tokens": 800, "completion_tokens": 5, "cache_read_tokens": 300}
    },
}


def test_a_trajectory(tmp_path: Path) -> None:
    path = put(tmp_path / "t.json", HISTORY)
    assert detect_format(path).name == "openhands"
    session = opened(FORM, path)
    assert (len(session), session.turns, session.facts.model) == (6, 1, "llama-4")
    assert [use.context for use in session.facts.requests] == [900, 990]  # once for each response
    told = texts(session)
    assert told[1] == "Use git." and told[2].startswith("Thought 5.|") and "Thought" not in told[2][10:]
    assert told[3] == "<one>\n[Command finished with exit code 1]|<two>\n[Command finished with exit code 1]"


def test_a_condensation_of_a_trajectory(tmp_path: Path) -> None:
    session = opened(FORM, put(tmp_path / "t.json", [*HISTORY, FORGET, END]))
    assert texts(session)[2] == "Listed." and texts(session)[-1] == "Done."
    assert len(session.facts.compactions) == 1 and len(session.context_at()) == 6
    last = session.facts.requests[-1]
    assert (last.fresh, last.cache_read, last.output) == (500, 300, 5)  # of totals, as it has no response of its own


def test_totals_are_told_apart(tmp_path: Path) -> None:
    def spoke(number: int, total: int) -> dict[str, Any]:
        used = {"prompt_tokens": total, "completion_tokens": number}
        return {**END, "id": number, "llm_metrics": {"accumulated_token_usage": used}}

    session = opened(FORM, put(tmp_path / "t.json", [*HISTORY[:2], spoke(20, 500), spoke(21, 1_100), spoke(22, 1_100)]))
    assert [(use.context, use.output) for use in session.facts.requests] == [(500, 20), (600, 1)]


def test_rows_of_an_evaluation_with_pairs(tmp_path: Path) -> None:
    pair = [
        {"command": "touch a", "thought": "Make it.", "action": "run", "is_confirmed": "confirmed", "source": None},
        {"content": "made", "command": "touch a", "exit_code": 0, "observation": "run"},
    ]
    begin = {"content": "Do it.", "wait_for_response": False, "action": "message"}
    rows = [
        {"instance_id": "one", "history": [[begin, {"observation": "null", "content": ""}], pair], "metadata": {}},
        {"instance_id": "two", "history": HISTORY, "metadata": {"llm_config": {"model": "m"}}},
    ]
    path = tmp_path / "output.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + '\n{"instance_id": 3}\n')
    assert detect_format(path).name == "openhands"
    assert [(info.id, info.title) for info in sessions_in(path)] == [("0", "one"), ("1", "two")]
    first = opened(FORM, path)
    assert [message["role"] for message in first.to_messages()] == ["user", "assistant", "user"]
    assert [block["type"] for block in first.to_messages()[1]["content"]] == ["text", "tool_use"]
    assert min(first.facts.call_result) >= 0 and first.turns == 1
    second = opened(FORM, path, "1")
    assert len(second) == 6 and [problem.what for problem in second.facts.problems] == ["holds no history"]


def test_the_name_of_an_evaluation_may_be_anything(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(60):
        deep = {"a": deep}
    path = tmp_path / "output.jsonl"
    path.write_text(json.dumps({"instance_id": deep, "history": HISTORY, "metadata": {}}))
    (info,) = sessions_in(path)
    assert info.title.startswith('{"a":{"a"') and len(info.title) <= MAX_NAME_LENGTH


def test_recordings(shared: Path) -> None:
    """Against counts that another program made of the same files."""
    path = shared / "corpus" / "openhands" / "OpenHands__v0_eval_output.jsonl"
    for number, line in enumerate(path.read_bytes().splitlines()):
        row = json.loads(line)
        facts = opened(FORM, path, str(number)).facts
        assert len(facts.record_kind) == len(row["history"]) and not facts.problems
        told = row["metrics"]["token_usages"]
        assert [use.context for use in facts.requests] == [each["prompt_tokens"] for each in told]
        assert [use.output for use in facts.requests] == [each["completion_tokens"] for each in told]
        asked = sum("tool_call_metadata" in e and e.get("action", "finish") != "finish" for e in row["history"])
        assert len(facts.calls) == asked == sum(result >= 0 for result in facts.call_result)
    path = shared / "corpus" / "openhands" / "OpenHands__v0_resolver_mock_output.jsonl"
    for number, line in enumerate(path.read_bytes().splitlines()):
        history = json.loads(line)["history"]
        session = opened(FORM, path, str(number))
        seen = sum("observation" in each for each in history)
        assert len(session.facts.calls) == seen == sum(result >= 0 for result in session.facts.call_result)
        assert (session.turns, len(session)) == (1, len(history))


def test_titles(tmp_path: Path) -> None:
    assert FORM.read_title(conversation(tmp_path / "abc", EVENTS)) == "Do it."
    assert FORM.read_title(put(tmp_path / "t.json", HISTORY)) == "Fix it."
    assert FORM.read_title(tmp_path / "gone.json") == ""


def test_a_folder_of_events_of_the_first_generation(tmp_path: Path) -> None:
    folder = tmp_path / ".openhands" / "sessions" / "abc" / "events"
    folder.mkdir(parents=True)
    for number, each in enumerate(HISTORY):
        put(folder / f"{number}.json", each)
    [found] = FORM.find_sessions({"HOME": str(tmp_path)}, tmp_path)
    assert detect_format(found.path).name == "openhands" and FORM.read_title(found.path) == "Fix it."
    assert len(opened(FORM, found.path)) == 6
    assert [info.path for info in sessions_in(folder)] == [str(folder / "0.json")]
    with pytest.raises(UnreadableSession, match=r"open .*0\.json"):
        open_session(folder / "3.json")
