"""Policies that are programs: the two examples of the documentation, and programs that fail in every way."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Replay
from context_tui.lab.replay.walk import replay_recording
from context_tui.policies.command.policy import CommandPolicy, PolicyCommand, read_command
from context_tui.policies.planning import build_plan
from context_tui.session.session import Session
from tests.scenarios import open_scenario

ROOT = Path(__file__).parents[1]
SAMPLE = str(ROOT / "sample_sessions" / "coding-session.jsonl")
COMPACTED = str(ROOT / "sample_sessions" / "compacted-session.jsonl")
EXAMPLES = ROOT / "docs" / "examples" / "policy-command"
DROP_TURNS = shlex.join([sys.executable, str(EXAMPLES / "drop_turns.py")])
CLEAR_RESULTS = shlex.quote(str(EXAMPLES / "clear_results.sh"))
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the example in shell needs jq")
BOTH = [DROP_TURNS, pytest.param(CLEAR_RESULTS, marks=needs_jq)]

HEAD = """
import json, os, sys, time
messages, count = [], 0
for line in sys.stdin:
    question, answer = json.loads(line), {}
    if question["type"] == "describe":
        answer = {"protocol": 1, "name": "mine", "params": {"keep": {"default": 3, "min": 0, "max": 50}}}
    else:
        messages = question["messages"] if question.get("reset") else messages + question["messages"]
        count += 1
        results = [(m["id"], n) for m in messages for n, b in enumerate(m["content"]) if b["type"] == "tool_result"]
"""
TAIL = "    print(json.dumps(answer), flush=True)\n"


def program(folder: Path, rule: str, name: str = "program.py") -> str:
    """The command of a program that answers questions by *rule*."""
    path = folder / name
    path.write_text(dedent(HEAD) + indent(dedent(rule).strip("\n"), " " * 8) + "\n" + TAIL)
    return shlex.join([sys.executable, str(path)])


def replayed(session: Session, policy: Any, **params: Any) -> Replay:
    return replay_recording(Recording(session), policy, policy.Params(**params))


def effect(replay: Replay) -> tuple[Any, ...]:
    firings = [(each.message, each.before, each.after, each.cleared, each.dropped) for each in replay.firings]
    return replay.sizes, firings, replay.removed_by_policy


@pytest.mark.parametrize("command", BOTH)
def test_an_example_is_previewed_and_replayed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = read_command(PolicyCommand(command, 60.0)).name
    assert (
        main(["plan", SAMPLE, "--policy-timeout", "60", "--policy-command", command, "-p", "share=0.3", "--json"]) == 0
    )
    plan = json.loads(capsys.readouterr().out)
    assert plan["policy"] == name and plan["changed"] and plan["tokens"]["after"] < plan["tokens"]["before"]
    assert (
        main(
            [
                "replay",
                SAMPLE,
                "--policy-timeout",
                "60",
                "--policy-command",
                command,
                "-P",
                name,
                "-p",
                "share=0.3",
                "--json",
            ]
        )
        == 0
    )
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert policies[0]["firings"]


@pytest.mark.slow
@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize("number", range(2))
def test_messages_that_are_appended_give_the_same_replay_as_whole_contexts(
    command: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, policy = open_scenario(number, tmp_path), CommandPolicy(PolicyCommand(command, 60.0))
    params = {"share": 0.1, [*policy.Params.model_fields][1]: 1}
    appended = replayed(session, policy, **params)
    monkeypatch.setattr(policy, "_continues", lambda *_: False)
    whole = replayed(session, policy, **params)
    assert effect(appended) == effect(whole) and appended.firings


def test_each_message_is_sent_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    rule = f"""
        with open({str(log)!r}, "a") as file:
            print(*(m["id"] for m in question["messages"]), file=file)
        answer = {{"edits": [{{"clear": m, "block": n, "text": "[cleared]"}} for m, n in results[-6:-5]]}}
        answer["edits"] += [{{"insert": {{"role": "user", "content": "note", "id": "n%d" % count}}}}] * (count == 9)
        answer["edits"] += [{{"drop": "n9"}}] * (count == 12)
    """
    session = ct.open_session(SAMPLE)
    replay = replayed(session, CommandPolicy(PolicyCommand(program(tmp_path, rule), 60.0)))
    sent = [int(word) for word in log.read_text().split()]
    assert sent == sorted(set(sent)) and len(sent) > 150
    assert len(replay.firings) > 40 and any(firing.dropped for firing in replay.firings if firing.call > 9)


def test_messages_without_content_stay_as_they_are(tmp_path: Path) -> None:
    rule = """
        kept = [{"id": m["id"]} for m in messages if m["id"] not in (results[0][0] - 1, results[0][0])]
        answer = {"messages": kept}
    """
    policy = CommandPolicy(PolicyCommand(program(tmp_path, rule), 60.0))
    plan = build_plan(ct.open_session(SAMPLE), policy, policy.Params())
    assert [edit.action for edit in plan.edits] == ["drop", "drop"] and not plan.changes


def test_edits_become_the_plan(tmp_path: Path) -> None:
    rule = """
        calls = [(m["id"], n, b) for m in messages for n, b in enumerate(m["content"]) if b["type"] == "tool_use"]
        (first, at), (second, there) = results[:2]
        message, number, call = calls[2]
        answer = {"reason": "so", "edits": [
            {"clear": first, "block": at, "text": "[gone]"},
            {"clear": message, "block": number, "input": {"short": True}},
            {"drop": calls[5][0], "to": results[5][0]},
            {"insert": {"role": "user", "content": "Before: {summary}.", "summary": True}, "before": calls[5][0]}]}
    """
    session, policy = ct.open_session(SAMPLE), CommandPolicy(PolicyCommand(program(tmp_path, rule), 60.0))
    plan = build_plan(session, policy, policy.Params())
    edits = [(edit.action, edit.tokens_after) for edit in plan.edits if edit.action != "summarise"]
    assert edits[0] == ("clear", 1) and plan.trigger.reason == "so"
    assert plan.summary_insert is not None and plan.summary_insert.format_text("x") == "Before: x."
    after = ct.apply(session, plan, summary="x").to_messages()
    assert any(block.get("input") == {"short": True} for message in after for block in message["content"])
    assert any(block.get("content") == "[gone]" for message in after for block in message["content"])


FAILURES = {
    "crash": ("if count == 5: raise SystemExit(3)", "it ended with exit code 3"),
    "exception": ("if count == 5: 1 / 0", "exit code 1 (it reports: ZeroDivisionError: division by zero)"),
    "hang": ("if count == 5: time.sleep(60)", "it gives no answer within 4 s; --policy-timeout sets the limit"),
    "no JSON": ("if count == 5: print('hello'); continue", "it writes what is no JSON object: hello"),
    "a list": ("if count == 5: print([1]); continue", "it writes what is no JSON object: [1]"),
    "two lines": (r"if count == 5: print('{}\n{}'); continue", "before it was asked|more than one line|no JSON"),
    "unpaired result": ("if count == 5: answer = {'edits': [{'drop': results[0][0]}]}", "it drops the result"),
    "unpaired call": ("if count == 5: answer = {'edits': [{'drop': results[0][0] - 1}]}", "it drops the call"),
    "unknown message": ("if count == 5: answer = {'edits': [{'drop': 99999}]}", "there is no message 99999"),
    "unknown block": ("if count == 5: answer = {'edits': [{'remove': 0, 'block': 7}]}", "message 0 has no block 7"),
    "no edit": ("if count == 5: answer = {'edits': [{'delete': 1}]}", "is not an edit; see docs/policy-command.md"),
    "unknown key": ("if count == 5: answer = {'edit': []}", "unknown key 'edit' in its answer"),
    "invented result": (
        "if count == 5: answer = {'messages': messages + [{'role': 'user', 'content': [{'type': 'tool_result'}]}]}",
        "calls and results must have been sent",
    ),
    "invented message": ("if count == 5: answer = {'messages': [{'id': 9999, 'content': ''}]}", "no message 9999"),
    "invented block": (
        "if count == 5: messages[0]['content'] *= 2; answer = {'messages': messages}",
        "block 1 of message 0 is not one that was sent",
    ),
    "another order": ("if count == 5: answer = {'messages': messages[::-1]}", "comes twice, or after a later one"),
    "another role": (
        "if count == 5: messages[0] = {'id': 0, 'role': 'assistant', 'content': 'x'}; answer = {'messages': messages}",
        "the role of message 0",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_line_with_the_call(failure: str, tmp_path: Path) -> None:
    rule, reason = FAILURES[failure]
    session = ct.open_session(SAMPLE)
    policy = CommandPolicy(PolicyCommand(program(tmp_path, rule), 4.0 if failure == "hang" else 60.0))
    with pytest.raises(PlanError) as error:
        replayed(session, policy)
    message = str(error.value)
    calls = [call.message for call in Recording(session).calls]
    assert "\n" not in message and any(part in message for part in reason.split("|")), message
    assert any(message.startswith(f"mine: before message {calls[at]}: ") for at in (4, 5)), message


def test_a_program_that_failed_starts_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    rule = f"""
        if not os.path.exists({str(mark)!r}):
            open({str(mark)!r}, "w").close()
            raise SystemExit(1)
        answer = {{"edits": [{{"clear": results[0][0], "block": results[0][1], "text": "[cleared]"}}]}}
    """
    session, policy = ct.open_session(SAMPLE), CommandPolicy(PolicyCommand(program(tmp_path, rule), 60.0))
    with pytest.raises(PlanError):
        build_plan(session, policy, policy.Params())
    assert build_plan(session, policy, policy.Params()).has_changes


@pytest.mark.slow
def test_a_hanging_program_and_its_children_are_ended(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    rule = f"""
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        with open({str(ids)!r}, "w") as file:
            print(os.getpid(), child.pid, file=file)
        time.sleep(60)
    """
    policy = CommandPolicy(PolicyCommand(program(tmp_path, rule), 4.0))
    with pytest.raises(PlanError, match="no answer within"):
        replayed(ct.open_session(SAMPLE), policy)
    for process in map(int, ids.read_text().split()):
        assert not is_alive(process)


def is_alive(process: int) -> bool:
    for _ in range(50):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        if Path(f"/proc/{process}/stat").exists() and ") Z " in Path(f"/proc/{process}/stat").read_text():
            return False
        time.sleep(0.05)
    return True


def test_much_on_standard_error_and_long_answers_block_nothing(tmp_path: Path) -> None:
    rule = """
        print("x" * 300_000, file=sys.stderr)
        answer = {"reason": "y" * 300_000}
    """
    policy = CommandPolicy(PolicyCommand(program(tmp_path, rule), 60.0))
    plan = build_plan(ct.open_session(SAMPLE), policy, policy.Params())
    assert not plan.has_changes and len(plan.reason) < 1_000


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ({}, "it does not answer with protocol 1"),
        ({"protocol": 2, "name": "x"}, "it does not answer with protocol 1"),
        ({"protocol": 1, "name": "No Name"}, "its name is not"),
        ({"protocol": 1, "name": "x", "phases": ["sometimes"]}, "its phases are not among"),
        ({"protocol": 1, "name": "x", "params": {"a": {}}}, "'a' lacks a default"),
        ({"protocol": 1, "name": "x", "params": {"copy": {"default": 1}}}, "'copy' lacks a default"),
        ({"protocol": 1, "name": "x", "params": {"a": {"default": 9, "max": 3}}}, "outside its range"),
        ({"protocol": 1, "name": "x", "params": {"a": {"default": None}}}, "a is neither a number"),
    ],
)
def test_a_description_that_is_not_valid(description: dict[str, Any], reason: str) -> None:
    command = shlex.join(["sh", "-c", "read -r line; printf '%s\\n' \"$0\"", json.dumps(description)])
    with pytest.raises(PlanError, match=reason) as error:
        CommandPolicy(PolicyCommand(command, 60.0))
    assert str(error.value).startswith(command)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/no/such/program", "cannot be started: No such file or directory"),
        ("'open", "a quote is not closed"),
        ("' '", "cannot be started"),
        ("true; echo hello", "describe: "),
        ("cat", "its name is not lower-case words"),
    ],
)
def test_a_command_that_is_none(command: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", SAMPLE, "--policy-command", command]) == 2
    error = capsys.readouterr().err
    assert reason in error and error.count("\n") == 1


def test_a_timeout_must_be_a_number_of_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", SAMPLE, "--policy-timeout", "0", "--policy-command", "cat"]) == 2
    assert "--policy-timeout 0: give a number of seconds" in capsys.readouterr().err


@pytest.mark.slow
def test_a_session_at_which_a_program_fails_does_not_end_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = """
        if len(messages) > 150:
            raise SystemExit(4)
        keep = question.get("params", {}).get("keep") if question.get("reset") else keep
        answer = {"edits": [{"clear": m, "block": n, "text": "[cleared]"} for m, n in results[:-keep or None]]}
    """
    command = program(tmp_path, rule)
    sweep = [
        "sweep",
        SAMPLE,
        COMPACTED,
        "--policy-timeout",
        "60",
        "--policy-command",
        command,
        "-P",
        "mine",
        "-p",
        "keep=1..3",
        "--json",
    ]
    for jobs in ("1", "2"):
        assert main([*sweep, "--jobs", jobs]) == 0
        out, err = capsys.readouterr()
        report = json.loads(out)
        assert {row["session"].partition("#")[0] for row in report["rows"]} == {COMPACTED}
        assert {row["firings"] for row in report["rows"]} != {0}
        assert "mine: before message" in err and err.count("it ended with exit code 4") == 1


def test_a_gate_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate, page = tmp_path / "gate.toml", tmp_path / "report.md"
    gate.write_text('old = "drop-turns share=0.9"\nnew = "drop-turns share=0.3"\n[limits]\nsent = 0\n')
    assert main(["sweep", SAMPLE, "--policy-timeout", "60", "--policy-command", DROP_TURNS, "--gate", str(gate)]) == 0
    assert "all limits are met" in capsys.readouterr().err
    assert main(["report", SAMPLE, "--policy-timeout", "60", "--policy-command", DROP_TURNS, "-o", str(page)]) == 0
    assert "drop-turns" in page.read_text()


def test_the_examples_are_short_and_the_documentation_has_them() -> None:
    text = (ROOT / "docs" / "policy-command.md").read_text()
    for name in ("drop_turns.py", "clear_results.sh"):
        source = (EXAMPLES / name).read_text()
        assert f"examples/policy-command/{name}" in text and len(source.splitlines()) <= 36
