"""The scripted model server and the judge of real agents, by exchanges of ours: no agent's program runs here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.agents import drive
from scripts.agents.agent import Typing
from scripts.agents.drive import Recorded
from scripts.agents.drivers import AGENTS
from scripts.agents.judge import Share, judge_session
from scripts.agents.prompt import count_tokens, parse_prompt
from scripts.agents.prompt_cache import PromptCache
from scripts.agents.scripted_model import PROMPT_MARK, Action, ScriptedModel
from scripts.agents.server import INDEX_NAME, serve
from scripts.agents.table import find_lost_goals
from tests.formats.recordings import Recording, call, result, text

PROMPT = f"{PROMPT_MARK} count, please. " + "The numbers are wanted one after the other. " * 200
TOOLS = [{"name": "Bash", "description": "Run a command", "input_schema": {"type": "object"}}]
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", {"messages": [{"role": "user", "content": PROMPT}], "tools": TOOLS}),
    "responses": ("/v1/responses", {"input": PROMPT, "tools": [{"type": "function", **TOOLS[0]}]}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": PROMPT}], "tools": [{"type": "function", "function": TOOLS[0]}]},
    ),
    "gemini": (
        "/v1beta/models/some-model:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
            "tools": [{"functionDeclarations": [{"name": "Bash", "description": "Run a command"}]}],
        },
    ),
}


def make_model() -> ScriptedModel:
    """A model that calls a command once."""
    model = ScriptedModel(AGENTS["claude-code"].translate)
    model.queue([(Action("command", "seq 1 3"),)])
    return model


@pytest.mark.parametrize("api", PATHS)
def test_each_api_replies_logs_and_counts(tmp_path: Path, api: str) -> None:
    path, body = PATHS[api]
    with serve(make_model(), tmp_path) as server:
        reply = httpx.post(server.base_url + path, json={"model": "m", **body}, trust_env=False, timeout=60).json()
        stream = path.replace(":generate", ":streamGenerate")
        events = httpx.post(
            server.base_url + stream, json={"model": "m", "stream": True, **body}, trust_env=False, timeout=60
        )
    first, second = [json.loads(line) for line in (tmp_path / INDEX_NAME).read_text().splitlines()]
    assert [each["name"] for each in first["calls"]] == ["Bash"] and second["calls"] == []
    assert first["kind"] == second["kind"] == "main"
    assert json.loads((tmp_path / first["body"]).read_bytes()) == {"model": "m", **body}
    assert first["prompt_tokens"] >= count_tokens(PROMPT)
    assert "Bash" in json.dumps(reply) and str(first["prompt_tokens"]) in json.dumps([reply, first["usage"]])
    assert events.headers["content-type"] == "text/event-stream" and "done." in events.text


def test_a_cache_reads_up_to_breakpoints_and_forgets() -> None:
    block = {"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}
    prompt = parse_prompt("anthropic", {"messages": [{"role": "user", "content": [block]}]})
    cache = PromptCache()
    first, again, later = (cache.use(prompt, now) for now in (0, 200, 600))
    assert first.read == 0 and first.written == again.read > 1_024 and again.written == 0
    assert later == first and sum(first) == prompt.tokens


def test_caches_without_breakpoints_read_whole_blocks() -> None:
    cache, body = PromptCache(), PATHS["chat"][1]
    prompt = parse_prompt("chat", body)
    assert cache.use(prompt, 0).read == 0
    use = cache.use(prompt, 1)
    assert use.read % 128 == 0 and 1_024 <= use.read <= prompt.tokens and sum(use) == prompt.tokens


def test_the_judge_finds_what_a_session_lacks(tmp_path: Path) -> None:
    """Two requests: the second one holds a reminder that the session file does not."""
    home, bodies = tmp_path / "home", tmp_path / "requests"
    bodies.mkdir()
    asked = [{"type": "text", "text": PROMPT}]
    reply = [text("Reply main0001: next step."), call("c1", command="seq 1 3")]
    answer = [result("c1", "1\n2\n3"), text("<system-reminder>Be brief.</system-reminder>")]
    sent = [{"role": "user", "content": asked}]
    entries: list[dict[str, Any]] = []
    for number, more in enumerate(([], [{"role": "assistant", "content": reply}, {"role": "user", "content": answer}])):
        (bodies / f"{number}.json").write_text(json.dumps({"messages": [*sent, *more]}))
        known = {"number": number, "body": f"{number}.json", "kind": "main", "prompt_tokens": 10 + number}
        entries.append({**known, "reply": f"main000{number + 1}"})
    (bodies / INDEX_NAME).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    made = Recording()
    made.user(PROMPT)
    made.assistant(*reply, use={"input_tokens": 10, "output_tokens": 1})
    made.results(answer[0])
    made.assistant(text("Reply main0002: done."), use={"input_tokens": 12, "output_tokens": 1})
    home.mkdir()
    path = made.write(home)
    recorded = Recorded(AGENTS["claude-code"], "plain", tmp_path, (path,))
    judgement = judge_session(AGENTS["claude-code"], recorded, str(path), ["main0001", "main0002"])
    assert judgement.requests == Share(2, 2)
    assert judgement.results == Share(1, 1) and judgement.surplus == 0
    assert judgement.texts == Share(3, 4)
    assert dict(judgement.missing_parts) == {"reminder": 1}
    assert judgement.sizes == Share(1, 2)


def test_lines_are_typed_into_a_program_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "REST_SECONDS", 0.3)
    script = "test -t 0 && echo ready; read a; read b; echo got $b, then $a"
    setup, output = drive.prepare_setup(tmp_path, "", None, {}), tmp_path / "output.txt"
    drive.type_lines(Typing(["sh", "-c", script], ("one", "two")), setup, {}, output)
    assert output.read_text().split("ready")[1].endswith("got two, then one\n")


def test_a_goal_that_was_met_is_not_lost_silently() -> None:
    before = "| pi | texts | met |\n| pi | sizes | missed |\n"
    assert find_lost_goals(before, "| pi | texts | missed |\n| pi | sizes | missed |\n") == ["pi: texts"]
