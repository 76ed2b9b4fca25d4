"""SWE-agent and mini-swe-agent: observations are no turns, usage is that of each call, elisions are known."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from context_tui.formats import swe_agent
from context_tui.formats.base import Format
from context_tui.formats.mini_swe_agent import MiniSweAgentFormat
from context_tui.formats.opening import detect_format
from context_tui.formats.swe_agent import Elision, SweAgentFormat, SweAgentShape
from context_tui.session.values import BlockFlag, Kind
from tests.formats.histories import columns, opened, put

MINI, SWE = MiniSweAgentFormat(), SweAgentFormat()
SYSTEM, TASK = {"role": "system", "content": "You act."}, {"role": "user", "content": "Solve it."}


def reply(number: int, prompt: int, **more: Any) -> dict[str, Any]:
    response = {
        "model": "gemini-pro",
        "created": 1_763_510_516 + number,
        "usage": {"prompt_tokens": prompt, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}},
    }
    text = f"THOUGHT: step {number}\n\n```bash\nls {number}\n```"
    return {"role": "assistant", "content": text, "extra": {"response": response}, **more}


def observed(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{text}\n</output>"}


V1 = {
    "info": {"exit_status": "Submitted", "model_stats": {"api_calls": 2}, "mini_version": "1.15.0", "config": {}},
    "messages": [SYSTEM, TASK, reply(1, 900), observed("a"), reply(2, 990), {"role": "user", "content": "diff"}],
    "trajectory_format": "mini-swe-agent-1",
}


def spoken(number: int) -> dict[str, Any]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    more = {"timestamp": 1_776_224_990.3, "actions": [{"command": "ls"}]}
    made = reply(number, 1_000 + number, tool_calls=[call], content="I look.")
    return {**made, "extra": {**made["extra"], **more}}


V2 = {
    "info": {"config": {"model": {"model_name": "deepseek/chat"}}, "mini_version": "2.2.7"},
    "messages": [
        SYSTEM,
        TASK,
        spoken(1),
        {"role": "tool", "tool_call_id": "c1", "content": "a b", "extra": {"timestamp": 1_776_224_991.0}},
        {"role": "user", "content": "Use tools.", "extra": {"interrupt_type": "FormatError"}},
        spoken(2),
        {"role": "user", "content": "Stop that.", "extra": {"interrupt_type": "UserInterruption"}},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}
ITEMS: dict[str, Any] = {
    "info": {"mini_version": "2.2.7"},
    "messages": [
        SYSTEM,
        TASK,
        {
            "object": "response",
            "model": "gpt-5",
            "created_at": 1_776_224_990,
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
            ],
            "usage": {"input_tokens": 700, "output_tokens": 30, "input_tokens_details": {"cached_tokens": 500}},
            "extra": {"timestamp": 1_776_224_992.0},
        },
        {"type": "function_call_output", "call_id": "c1", "output": "a b", "extra": {}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "extra": {}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}


def test_commands_in_texts(tmp_path: Path) -> None:
    path = put(tmp_path / "a.traj.json", V1)
    assert detect_format(path).name == "mini-swe-agent"
    session = opened(MINI, path)
    assert (session.turns, len(session), session.content.system()) == (1, 5, "You act.")
    assert [(use.fresh, use.cache_read, use.output) for use in session.facts.requests] == [(800, 100, 9), (890, 100, 9)]
    assert session.facts.model == "gemini-pro"
    assert [flag & BlockFlag.INJECTED for flag in session.facts.block_flags] == [0, 0, 1, 0, 1]


def test_tool_calls(tmp_path: Path) -> None:
    session = opened(MINI, put(tmp_path / "a.traj.json", V2))
    facts = session.facts
    assert (session.turns, len(session)) == (2, 6)  # what ends it was never sent
    assert [Kind(kind).name for kind in facts.kind if kind in (Kind.TOOL_USE, Kind.TOOL_RESULT)] == [
        "TOOL_USE",
        "TOOL_RESULT",
        "TOOL_USE",
    ]
    assert facts.call_result[0] >= 0 and facts.call_result[1] < 0
    assert facts.time[1] == 1_776_224_990_300 and len(facts.requests) == 2


def test_items_of_responses(tmp_path: Path) -> None:
    session = opened(MINI, put(tmp_path / "a.traj.json", ITEMS))
    assert [[block["type"] for block in message["content"]] for message in session.to_messages()] == [
        ["text"],
        ["thinking", "text", "tool_use"],
        ["tool_result"],
        ["text"],
    ]
    [use] = session.facts.requests
    assert (use.fresh, use.cache_read, use.output, session.turns) == (200, 500, 30, 1)


@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, TASK, {"role": "assistant", "content": "ls"}, observed("a")],
        [
            SYSTEM,
            TASK,
            {"role": "assistant", "content": "```mswea_bash_command\nls\n```"},
            {"role": "user", "content": ""},
        ],
    ],
)
def test_a_bare_list(messages: list[Any], tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", messages)
    assert detect_format(path).name == "mini-swe-agent"
    session = opened(MINI, path)
    assert (session.turns, len(session)) == (1, 3)


def test_what_a_person_typed_is_a_turn(tmp_path: Path) -> None:
    typed = {"role": "user", "content": "Interrupted by user: look at b"}
    messages = [SYSTEM, TASK, reply(1, 9), observed("a"), reply(2, 9), typed]
    assert opened(MINI, put(tmp_path / "a.json", {**V1, "messages": messages})).turns == 2


@pytest.mark.parametrize("other", [[TASK, {"role": "assistant", "content": "Hello."}], {"messages": [TASK]}])
def test_other_lists_are_not_claimed(other: Any, tmp_path: Path) -> None:
    assert detect_format(put(tmp_path / "a.json", other)).name == "anthropic"


def said(role: str, content: Any, kind: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "message_type": kind, "agent": "main", **more}


def acted(number: int) -> dict[str, Any]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "open", "arguments": '{"path": "a"}'}}
    return said("assistant", "I look.", "action", thought="I look.", action="open a", tool_calls=[call])


def seen(number: int, **more: Any) -> dict[str, Any]:
    return said("tool", f"line {number}\n" * 9, "observation", tool_call_ids=[f"c{number}"], **more)


def trajectory(*history: dict[str, Any], n: int = 2, **more: Any) -> dict[str, Any]:
    agent = {"model": {"name": "gpt-4o"}, "history_processors": [{"type": "last_n_observations", "n": n, **more}]}
    return {
        "environment": "main",
        "trajectory": [],
        "history": [said("system", "You act.", "system_prompt"), said("user", "Solve it.", "observation"), *history],
        "info": {"model_stats": {"tokens_sent": 122_612, "tokens_received": 1_369, "api_calls": 12}},
        "replay_config": json.dumps({"agent": agent}),
    }


STEPS = [each for number in range(4) for each in (acted(number), seen(number))]


def test_a_history(tmp_path: Path) -> None:
    path = put(tmp_path / "a.traj", trajectory(*STEPS))
    assert detect_format(path).name == "swe-agent"
    session = opened(SWE, path)
    assert (session.turns, len(session), session.facts.model) == (1, 9, "gpt-4o")
    assert SWE.list_sessions(path)[0].note == (
        "the file tells of 12 calls, 122,612 tokens sent, 1,369 tokens received in all"
    )
    assert not any(flag & BlockFlag.INJECTED for flag in session.facts.block_flags)


def test_elided_observations(tmp_path: Path) -> None:
    session = opened(SWE, put(tmp_path / "a.traj", trajectory(*STEPS, acted(4))))
    facts = session.facts
    # Asked for the fourth message there are four observations with the task, of which the last two and the task stay.
    assert [(each.message, each.kind, len(each.cleared_blocks)) for each in facts.compactions] == [
        (7, "micro", 1),
        (9, "micro", 1),
    ]
    gone = [facts.call_id(row) for each in facts.compactions for row in each.cleared_blocks]
    assert gone == ["c0", "c1"]
    assert "line 0" in json.dumps(session.to_messages(6)) and "line 0" not in json.dumps(session.to_messages(8))


def test_ids_of_calls_may_come_again(tmp_path: Path) -> None:
    steps = [{**each, "tool_call_ids": ["c0"]} if each["role"] == "tool" else each for each in STEPS]
    facts = opened(SWE, put(tmp_path / "a.traj", trajectory(*steps, acted(4)))).facts
    assert [[facts.block_message[row] for row in each.cleared_blocks] for each in facts.compactions] == [[2], [4]]


def test_elisions_go_by_tags_and_polling(tmp_path: Path) -> None:
    tagged = [acted(0), seen(0, tags=["keep_output"]), acted(1), seen(1, tags=["remove_output"]), *STEPS[4:], acted(4)]
    facts = opened(SWE, put(tmp_path / "a.traj", trajectory(*tagged, n=2))).facts
    assert [[facts.call_id(row) for row in each.cleared_blocks] for each in facts.compactions] == [["c1"]]
    facts = opened(SWE, put(tmp_path / "b.traj", trajectory(*STEPS, acted(4), n=1, polling=4))).facts
    assert [(each.message, len(each.cleared_blocks)) for each in facts.compactions] == [(7, 2)]


def test_an_item_that_is_not_known_is_told(tmp_path: Path) -> None:
    told = {"object": "response", "output": [{"type": "novelty"}, *ITEMS["messages"][2]["output"]]}
    session = opened(MINI, put(tmp_path / "a.traj.json", {**ITEMS, "messages": [TASK, told]}))
    assert [block["type"] for block in session.to_messages()[1]["content"]] == ["thinking", "text", "tool_use"]
    assert [problem.what for problem in session.facts.problems] == ["unknown type of item 'novelty'"]


def test_an_observation_is_looked_at_a_few_times_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Counter[str]()

    class Counted(swe_agent._Observation):
        def __getattribute__(self, name: str) -> Any:
            looks[name] += 1
            return super().__getattribute__(name)

    monkeypatch.setattr(swe_agent, "_Observation", Counted)
    own = SweAgentShape()
    own._elision = Elision(5)
    for number in range(400):
        own.parse(said("user", "seen", "observation") if number % 2 else said("assistant", "ls", "action"), number)
    assert looks["tags"] <= 3 * 200


def test_texts_are_elided_too(tmp_path: Path) -> None:
    steps = [
        each
        for number in range(4)
        for each in (said("assistant", "ls", "action"), said("user", f"out {number}\n" * 9, "observation"))
    ]
    session = opened(SWE, put(tmp_path / "a.traj", trajectory(*steps)))
    assert session.turns == 1
    assert [
        [session.facts.block_message[row] for row in each.cleared_blocks] for each in session.facts.compactions
    ] == [[2]]
    assert "out 0" not in json.dumps(session.to_messages()) and "out 1" in json.dumps(session.to_messages())


def test_an_old_history_with_a_demonstration(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "You act.", "agent": "primary"},
        {"agent": "primary", "content": "Here is a demonstration", "is_demo": True, "role": "user"},
        {"role": "user", "content": "Solve it.", "agent": "primary"},
        {"role": "assistant", "content": "ls", "thought": "l", "action": "ls", "agent": "primary"},
        {"role": "user", "content": "a b", "agent": "primary"},
        {"role": "assistant", "content": "aside", "agent": "judge"},
    ]
    path = put(tmp_path / "a.traj", {"history": history, "info": {}})
    session = opened(SWE, path)
    assert (session.turns, len(session.context_at()), SWE.list_sessions(path)[0].title) == (1, 4, "Solve it.")


def test_steps_without_a_history(tmp_path: Path) -> None:
    steps = [{"action": "ls", "observation": f"a {number}", "response": "I look."} for number in range(3)]
    path = put(tmp_path / "a.traj", {"trajectory": steps, "info": {}})
    assert detect_format(path).name == "swe-agent"
    session = opened(SWE, path)
    assert [message["role"] for message in session.to_messages()] == ["assistant", "user"] * 3
    assert session.turns == 0 and len(session.facts.record_kind) == 3


@pytest.mark.parametrize(
    ("form", "document", "key"),
    [(MINI, V1, "messages"), (MINI, V2, "messages"), (MINI, ITEMS, "messages"), (SWE, trajectory(*STEPS), "history")],
)
def test_growing_gives_the_same_facts(form: Format, document: dict[str, Any], key: str, tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", {**document, key: document[key][:2]})
    [info] = form.list_sessions(path)
    growing = form.make_scanner(path, info)
    growing.advance()
    for length in range(3, len(document[key]) + 1):
        put(path, {**document, key: document[key][:length]})
        growing.advance()
        assert columns(growing.session().facts) == columns(opened(form, path).facts), length


def test_recordings(shared: Path) -> None:
    """Against counts that another program made of the same files."""
    for folder, form in (("swe-agent", SWE), ("mini-swe-agent", MINI)):
        for path in sorted((shared / "corpus" / folder).iterdir()):
            assert detect_format(path).name == form.name, path.name
            value = json.loads(path.read_bytes())
            listed = value if isinstance(value, list) else value.get("history") or value["messages"]
            session, roles = opened(form, path), [each["role"] for each in listed]
            facts = session.facts
            assert not facts.problems and len(facts.record_kind) == len(listed)
            assert len(session) == sum(role not in ("system", "exit") for role in roles), path.name
            assert session.turns == 1
            uses = [each["extra"]["response"]["usage"] for each in listed if "response" in each.get("extra", {})]
            assert [use.context for use in facts.requests] == [use["prompt_tokens"] for use in uses]
            assert [use.output for use in facts.requests] == [use["completion_tokens"] for use in uses]


def test_titles_and_places(tmp_path: Path) -> None:
    folder = tmp_path / "me" / "run" / "a"
    folder.mkdir(parents=True)
    path = put(folder / "a.traj", trajectory(*STEPS))
    [found] = SWE.find_sessions({"SWE_AGENT_TRAJECTORY_DIR": str(tmp_path)}, tmp_path)
    assert (found.path, found.project, SWE.read_title(path)) == (path, "run", "Solve it.")
    (tmp_path / ".config" / "mini-swe-agent").mkdir(parents=True)
    path = put(tmp_path / ".config" / "mini-swe-agent" / "last_mini_run.traj.json", V2)
    assert [each.path for each in MINI.find_sessions({"HOME": str(tmp_path)}, tmp_path)] == [path]
    assert MINI.read_title(path) == "Solve it." and MINI.read_title(tmp_path / "gone") == ""
    assert not MINI.find_sessions({"HOME": str(tmp_path), "MSWEA_GLOBAL_CONFIG_DIR": str(folder)}, tmp_path)


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ("<pr_description>\nConsider the following PR description:\nA crash\nWhen run, it does.", "A crash"),
        ("We're currently solving the following issue within our repository. The text:\nISSUE:\nA crash\n", "A crash"),
        ("We're currently solving the following CTF challenge. It is:\nFind the flag.\nFiles: none", "Find the flag."),
        ("Please solve this issue: A crash\n\nYou can execute commands.", "A crash"),
        ("<pr_description>\n\n", "<pr_description>"),
        ("", ""),
    ],
)
def test_the_title_is_the_task_and_not_what_stands_before_each(task: str, title: str, tmp_path: Path) -> None:
    said = [SYSTEM, {"role": "user", "content": task}, reply(1, 900)]
    path = put(tmp_path / "a.traj.json", {**V1, "messages": said})
    assert MINI.read_title(path) == title
    steps = {"history": [SYSTEM, {"role": "user", "content": task, "agent": "main"}], "trajectory": [], "info": {}}
    assert SWE.read_title(put(tmp_path / "b.traj", steps)) == title
