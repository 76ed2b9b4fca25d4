"""Rollouts and Responses requests that are written: they read back the same, and hold what their programs want."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import context_tui as ct
from context_tui.compaction.tool_pairing import find_unpaired
from context_tui.export.files import export
from context_tui.formats.codex import CodexFormat
from context_tui.formats.codex import compaction as compaction_module
from context_tui.formats.responses import ResponsesFormat
from context_tui.session.memory import from_messages
from context_tui.session.values import MessageFlag
from tests.formats.histories import few, histories, measures, written
from tests.formats.rollouts import (
    AGENTS,
    OWN,
    RULES,
    SUMMARY,
    SURROUNDINGS,
    Rollout,
    answered,
    asked,
    begun,
    said,
    thought,
    whole,
)
from tests.formats.test_codex import read, text_of, texts


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def payloads(path: Path, kind: str) -> list[dict[str, Any]]:
    return [record["payload"] for record in records(path) if record["type"] == kind]


FORMS = pytest.mark.parametrize("form", [CodexFormat(), ResponsesFormat()], ids=lambda form: form.name)
Form = CodexFormat | ResponsesFormat


@FORMS
@few
@given(histories(rich=False))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, form: Form, messages: list[dict[str, Any]]) -> None:
    session, losses = written(form, messages, tmp_path_factory.mktemp("c") / "out.json")
    assert losses == []
    assert session.to_messages() == messages


@FORMS
@few
@given(histories())
def test_what_cannot_be_held_is_said(
    tmp_path_factory: pytest.TempPathFactory, form: Form, messages: list[dict[str, Any]]
) -> None:
    session, losses = written(form, messages, tmp_path_factory.mktemp("c") / "out.json")
    told = " ".join(losses)
    blocks = [block for message in messages for block in message["content"]]
    assert ("thinking" in told) == any(block["type"] == "thinking" for block in blocks)
    assert ("errors" in told) == any(block.get("is_error") for block in blocks)
    assert not told or measures(session)


def test_a_rollout_is_copied_as_it_is(tmp_path: Path) -> None:
    session = read(tmp_path, whole())
    result = export(session, tmp_path / "copy.jsonl", "codex")
    assert (tmp_path / "copy.jsonl").read_bytes() == (tmp_path / "rollout.jsonl").read_bytes()
    assert not result.losses and not result.resume_command


def compacted(tmp_path: Path, policy: str) -> tuple[ct.Session, Path]:
    session = read(tmp_path, whole())
    after = ct.apply(session, ct.plan(session, policy), summary="What was done.")
    export(after, out := tmp_path / "out.jsonl", "codex")
    return after, out


def test_what_codex_wants_to_resume(tmp_path: Path) -> None:
    after, out = compacted(tmp_path, "codex")
    [meta] = payloads(out, "session_meta")
    assert meta["id"] != OWN and meta["id"][14] == "7" and meta["model_provider"] == "openai"
    assert meta["base_instructions"] == {"text": "You are Codex."} and meta["cwd"] == "/src"
    assert payloads(out, "turn_context") == [{**payloads(out, "turn_context")[0], "model": "gpt-5.5-mini"}]
    [told] = payloads(out, "compacted")
    assert told["replacement_history"][-1] == said("user", told["message"]) and "What was done." in told["message"]
    again = ct.open_session(out)
    assert texts(again) == texts(after) and again.facts.window == 258_400 and not again.facts.requests


def test_items_are_written_as_they_were(tmp_path: Path) -> None:
    rollout = whole()
    session = read(tmp_path, rollout)
    at = next(m for m in session.context_at().order if session.content.blocks(m)[0].get("tool_use_id") == "c5")
    cleared = ct.apply(session, ct.plan(session, "manual", clear=f"{at}:0"))
    export(cleared, out := tmp_path / "out.jsonl", "codex")
    again = ct.open_session(out)
    assert again.to_messages() == cleared.to_messages() and not again.facts.requests
    recorded = {json.dumps(each["payload"]) for each in rollout.records}
    made = payloads(out, "response_item")
    assert [item["type"] for item in made if json.dumps(item) not in recorded] == ["function_call_output"]


def test_instructions_behind_messages_are_written_as_a_message(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    meta = {"id": OWN, "cwd": "/x", "base_instructions": {"text": "You are Codex."}}
    items = [said(role, text) for role, text in (("user", "go"), ("assistant", "one"), ("user", "on"))]
    lines = [{"type": "response_item", "payload": item} for item in items]
    lines.insert(2, {"type": "session_meta", "payload": meta})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    session = ct.open_session(path)
    after = ct.apply(session, ct.plan(session, "manual", cut=1), summary="What was done.")
    export(after, out := tmp_path / "out.jsonl", "codex")
    assert "You are Codex." in texts(ct.open_session(out))


def known(tmp_path: Path, *, told_later: bool = True, compacted: bool = False, again: bool = True) -> ct.Session:
    """A session whose model was told its surroundings, and perhaps a change, before or in a compaction's history."""
    rollout = begun()
    rollout.line("world_state", {"full": True, "state": {"cwd": "/src"}})
    rollout.typed("Look.")
    rollout.items(asked("a"), answered("a", "alpha " * 50), said("assistant", "Done."))
    rollout.count(900)
    if compacted:
        rollout.compacted(said("developer", RULES), said("user", AGENTS, SURROUNDINGS), said("user", SUMMARY))
    if compacted and again:
        rollout.line("world_state", {"full": True, "state": {"cwd": "/new"}})
    if told_later:
        rollout.items(said("developer", "<model_switch>\nAnother.\n</model_switch>"))
        rollout.line("world_state", {"full": False, "state": {"model": "b"}})
    rollout.turn()
    rollout.typed("Go on.")
    rollout.items(asked("b"), answered("b", "beta " * 50), said("assistant", "So."))
    return read(tmp_path, rollout)


def find_result(session: ct.Session, call: str) -> str:
    order = session.context_at().order
    return f"{next(m for m in order if session.content.blocks(m)[0].get('tool_use_id') == call)}:0"


def states(session: ct.Session, out: Path, at: int | None = None, **params: Any) -> list[Any]:
    planned = ct.plan(session, "manual", at=at, **params)
    export(ct.apply(session, planned, summary="What was done."), out, "codex")
    return [state["state"] for state in payloads(out, "world_state")]


def test_what_the_model_knows_of_its_surroundings_is_written(tmp_path: Path) -> None:
    session, out = known(tmp_path), tmp_path / "out.jsonl"
    assert states(session, out, clear=find_result(session, "b")) == [{"cwd": "/src"}, {"model": "b"}]
    before = next(m for m in range(len(session)) if texts(session)[m].startswith("<model_switch>"))
    assert states(session, tmp_path / "before.jsonl", before, clear=find_result(session, "a")) == [{"cwd": "/src"}]


@pytest.mark.parametrize("told_later", [False, True])
def test_it_follows_a_compaction_that_codex_made(tmp_path: Path, told_later: bool) -> None:
    session, out = known(tmp_path, told_later=told_later, compacted=True), tmp_path / "out.jsonl"
    changes = [{"model": "b"}] if told_later else []
    assert states(session, out, clear=find_result(session, "b")) == [{"cwd": "/new"}, *changes]
    kinds = [record["type"] for record in records(out) if record["type"] not in ("response_item", "event_msg")]
    written = ["world_state"] * (1 + told_later)
    assert kinds == ["session_meta", "turn_context", "compacted", *written, "turn_context"]
    assert (
        ct.open_session(out).to_messages()
        == ct.apply(session, ct.plan(session, "manual", clear=find_result(session, "b"))).to_messages()
    )


def test_nothing_is_known_of_what_the_context_lacks(tmp_path: Path) -> None:
    session = known(tmp_path)
    cut = next(m for m in range(len(session)) if texts(session)[m] == "Go on.")
    assert not states(session, tmp_path / "cut.jsonl", cut=cut)
    session = known(tmp_path, compacted=True, again=False)
    assert not states(session, tmp_path / "compacted.jsonl", clear=find_result(session, "b"))


def test_a_rollback_may_have_taken_a_change_back(tmp_path: Path) -> None:
    rollout = begun()
    rollout.line("world_state", {"full": True, "state": {"cwd": "/src"}})
    rollout.typed("Look.")
    rollout.items(asked("a"), answered("a", "alpha " * 50), said("assistant", "Done."))
    rollout.typed("Go on.")
    rollout.line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    session = read(tmp_path, rollout)
    assert not states(session, tmp_path / "out.jsonl", clear=find_result(session, "a"))


def test_a_cleared_result_is_its_item_with_another_output(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "p"}
    rollout.items(thought("**Plan**", "gAAAAx"), patch, asked("a"))
    rollout.items({"type": "custom_tool_call_output", "call_id": "p", "output": "secret"}, answered("a", "secret"))
    rollout.items(said("assistant", "Done."))
    session = read(tmp_path, rollout)
    for name in ("codex", "openai-responses"):
        out = tmp_path / name
        result = export(ct.apply(session, ct.plan(session, "manual", clear="4:0,4:1")), out, name)
        items = json.loads(out.read_text())["input"] if name != "codex" else payloads(out, "response_item")
        assert "secret" not in out.read_text() and not result.check.introduced
        kinds = [item["type"] for item in items]
        assert kinds == [
            *("message", "message", "message", "reasoning", "custom_tool_call", "function_call"),
            *("custom_tool_call_output", "function_call_output", "message"),
        ]
        assert items[3]["encrypted_content"] == "gAAAAx" and items[0]["role"] == "developer"


def test_what_was_typed_and_said_is_shown_on_resuming(tmp_path: Path) -> None:
    session = read(tmp_path, whole())
    changed = ct.apply(session, ct.plan(session, "manual", cut=11), summary="S.")
    export(changed, out := tmp_path / "out.jsonl", "codex")
    shown = [(event["type"], event["message"]) for event in payloads(out, "event_msg") if "message" in event]
    assert shown == [("agent_message", "Going on."), ("user_message", "Go on."), ("agent_message", "I do.")]


def test_usage_of_another_format_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    reply = {"role": "assistant", "content": "Yes.", "usage": {"input_tokens": 70, "cache_read_input_tokens": 30}}
    path.write_text(json.dumps({"system": "Be brief.", "messages": [{"role": "user", "content": "Look."}, reply]}))
    session = ct.open_session(path)
    export(session, out := tmp_path / "out.jsonl", "codex")
    again = ct.open_session(out)
    assert [(u.fresh, u.cache_read) for u in again.facts.requests] == [(70, 30)]
    assert again.content.system() == "Be brief." and again.facts.input_includes_cache


def test_the_command_that_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "home"))
    session = from_messages([{"role": "user", "content": [{"type": "text", "text": "Look."}]}])
    out = tmp_path / "it's.jsonl"
    command = export(session, out, "codex").resume_command
    [meta] = payloads(out, "session_meta")
    assert command.endswith(f"codex resume {meta['id']}") and f"-{meta['id']}.jsonl" in command
    assert "cp -n '" in command and str(tmp_path / "home" / "sessions") in command


def test_a_request_holds_nothing_that_was_the_clients_own(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.items({**asked("a"), "id": "fc_1", "metadata": {"turn": 1}}, answered("a"))
    rollout.items({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]})
    session = read(tmp_path, rollout)
    result = export(session, out := tmp_path / "out.json", "openai-responses")
    request = json.loads(out.read_text())
    assert request["instructions"] == "You are Codex." and not request["store"]
    assert request["input"][0] == said("developer", RULES) and request["input"][3] == asked("a")
    assert "thinking left out, which only its own provider can read: 1" in result.losses
    assert ct.open_session(out).turns == session.turns == 1


def test_a_summary_that_no_file_holds_is_a_loss(tmp_path: Path) -> None:
    rollout = begun()
    rollout.typed("Look.")
    rollout.compacted(said("user", "Look."))
    rollout.items(said("assistant", "Yes."))
    session = read(tmp_path, rollout)
    result = export(session, tmp_path / "out.json", "openai-responses")
    assert "summaries left out that were not in the file: 1" in result.losses


def test_a_summary_of_another_policy_is_known_as_one(tmp_path: Path) -> None:
    _, out = compacted(tmp_path, "claude-code-auto")
    again = ct.open_session(out)
    [done] = again.facts.compactions
    assert done.kind == "full" and SUMMARY not in texts(again)


def test_a_summary_between_a_call_and_its_result_parts_no_pair(tmp_path: Path) -> None:
    used = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    session = from_messages(
        [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "It began so."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [used]},
            {"role": "assistant", "content": "It went on so."},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "found"}]},
        ]
    )
    for summary in (1, 4):
        session.facts.flags[summary] |= MessageFlag.SUMMARY
    losses = export(session, tmp_path / "out.jsonl", "codex").losses
    assert "summaries between a call and its result, written as plain messages: 1" in losses
    (told,) = payloads(tmp_path / "out.jsonl", "compacted")
    assert told["message"] == "It began so." and len(told["replacement_history"]) == 2
    again = ct.open_session(tmp_path / "out.jsonl")
    assert not find_unpaired(again.to_messages())
    assert "It went on so." in texts(again)[-2]


def test_what_an_assistant_says_behind_a_summary_stays_the_assistants(tmp_path: Path) -> None:
    """The summary becomes a user's message; a reply that the exporter joined to it does not."""
    used = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    session = from_messages(
        [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "What happened."},
            {"role": "assistant", "content": [{"type": "text", "text": "I go on."}, used]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "found"}]},
        ]
    )
    session.facts.flags[1] |= MessageFlag.SUMMARY
    export(session, tmp_path / "out.jsonl", "codex")
    (told,) = payloads(tmp_path / "out.jsonl", "compacted")
    assert [item["role"] for item in told["replacement_history"]] == ["user", "user"]
    again = ct.open_session(tmp_path / "out.jsonl").to_messages()
    assert [(message["role"], [block["type"] for block in message["content"]]) for message in again] == [
        ("user", ["text"]),
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
    ]
    assert not find_unpaired(again)


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("orphan", [1, 4], ids=["before", "behind"])
def test_a_summary_is_joined_to_none_of_its_neighbours(tmp_path: Path, role: str, orphan: int) -> None:
    """Where calls have to be answered, neighbours of one role are joined; a summary is not."""
    call: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}],
    }
    typed: dict[str, Any] = {"role": "user", "content": "first"}
    history = [typed, {"role": role, "content": "near"}, {"role": role, "content": "What happened."}]
    history += [{"role": role, "content": "nearer"}, typed, {"role": "user", "content": "last"}]
    history.insert(orphan, call)
    session = from_messages(history)
    session.facts.flags[3 if orphan == 1 else 2] |= MessageFlag.SUMMARY
    export(session, tmp_path / "out.jsonl", "codex")
    again = ct.open_session(tmp_path / "out.jsonl")
    [done] = again.facts.compactions
    assert text_of(again.message(done.message)) == "What happened."
    assert "What happened." in texts(again) and not find_unpaired(again.to_messages())


def test_a_summary_that_begins_with_thinking_is_one_still(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "x"}
    told = {"role": "assistant", "content": [thinking, {"type": "text", "text": "What happened."}]}
    session = from_messages([{"role": "user", "content": "first"}, told, {"role": "user", "content": "go"}])
    session.facts.flags[1] |= MessageFlag.SUMMARY
    export(session, tmp_path / "out.jsonl", "codex")
    (written,) = payloads(tmp_path / "out.jsonl", "compacted")
    assert written["message"] == "What happened."
    again = ct.open_session(tmp_path / "out.jsonl").to_messages()
    assert [(each["role"], each["content"][0]["text"]) for each in again] == [
        ("user", "first"),
        ("user", "What happened."),
        ("user", "go"),
    ]


def test_a_compaction_is_understood_once_however_many_messages_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = begun()
    rollout.compacted(*(said("user", f"message {number}") for number in range(30)), said("user", SUMMARY))
    session = read(tmp_path, rollout)
    understood, histories = compaction_module._parse_history, list[Any]()

    def counted(payload: Any) -> Any:
        histories.append(payload)
        return understood(payload)

    monkeypatch.setattr(compaction_module, "_parse_history", counted)
    CodexFormat().write(session, tmp_path / "out.jsonl")
    assert len(histories) <= 3  # for the blocks, the items, and what stands before the summary
    assert len(ct.open_session(tmp_path / "out.jsonl").context_at()) == 31


def test_a_paginated_rollout_is_written_as_one_that_is_not(tmp_path: Path) -> None:
    """Codex 0.169 wants an ordinal in each record of a rollout whose first line says "paginated"."""
    rollout = Rollout()
    rollout.meta(history_mode="paginated", thread_source="user")
    rollout.turn()
    rollout.typed("Look.")
    rollout.items(said("assistant", "Done."))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rollout.records))
    session = ct.open_session(tmp_path / "a.jsonl")
    CodexFormat().write(session, tmp_path / "out.jsonl")
    [meta] = payloads(tmp_path / "out.jsonl", "session_meta")
    assert "history_mode" not in meta and meta["thread_source"] == "user"
