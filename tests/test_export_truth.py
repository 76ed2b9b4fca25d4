"""What exports mend, rename, leave out and say: one test for each cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.compaction.changes import build_removal
from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import ExportError
from context_tui.export.files import export, list_writable_formats
from context_tui.export.pairing import build_exportable
from context_tui.formats.kit.size_note import SIZE_NOTE
from context_tui.formats.registry import FORMATS
from context_tui.policies.base import Params
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from tests.formats.histories import IMAGE
from tests.formats.recordings import Recording, call, result, text, thinking

OWN = ("claude-code", "koda", "gemini-cli", "pi", "agent-sdk", "defect")
"""Formats whose runtimes mend pairs themselves."""


def kinds(session: Session) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in session.to_messages()]


def said(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages)


def split_by_a_policy(folder: Path) -> tuple[Session, Session]:
    """A session, and what defect leaves of it: the turn begins in the message with the results of the call before."""
    messages = [
        {"role": "user", "content": "start"},
        {"role": "assistant", "content": [call("t1", "Bash", command="ls")]},
        {"role": "user", "content": [result("t1", "a.py"), text("and now this")]},
        {"role": "assistant", "content": [text("done")]},
    ]
    path = folder / "split.json"
    path.write_text(json.dumps({"messages": messages}))
    session = ct.open_session(path)
    return session, ct.apply(session, ct.plan(session, "defect-compact", threshold=1), "What happened.")


@pytest.mark.parametrize("name", list_writable_formats())
def test_what_a_policy_splits_is_mended_and_told(tmp_path: Path, name: str) -> None:
    _, after = split_by_a_policy(tmp_path)
    assert kinds(after)[1] == ["tool_result", "text"], "the runtime's own history is as it is"
    done = export(after, tmp_path / "out", name)
    again = ct.open_session(done.path)
    assert not any("tool_result" in blocks for blocks in kinds(again))
    assert "[tool result without its call, id t1]\\na.py" in said(again.to_messages())
    assert "results without a call turned into text: 1" in done.losses
    assert (done.check.inherited, done.check.introduced) == ((), ())
    assert kinds(after)[1] == ["tool_result", "text"]


def test_the_check_is_of_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, _ = split_by_a_policy(tmp_path)
    arguments = ["apply", session.info.path, "-P", "defect-compact", "-p", "threshold=1", "--json"]
    assert main([*arguments, "-o", str(tmp_path / "out.jsonl")]) == 0
    assert json.loads(capsys.readouterr().out)["check"] == {"inherited": [], "introduced": []}


@pytest.mark.parametrize("name", list_writable_formats())
def test_what_was_unpaired_in_the_recording_stays_so_where_it_can(tmp_path: Path, name: str) -> None:
    made = Recording()
    made.user("start " * 99)
    made.assistant(text("yes"))
    made.user("go")
    made.assistant(call("t1"))
    made.user("never mind")
    made.assistant(text("fine"))
    session = made.open(tmp_path)
    after = ct.apply(session, ct.plan(session, "manual", cut=2), "What happened.")
    done = export(after, tmp_path / "out", name)
    assert not done.check.introduced
    stays = name in (*OWN, "opencode")  # which can hold a call without its result, though not the reverse
    assert len(done.check.inherited) == stays
    assert ("placeholder results added for calls without one: 1" in done.losses) is not stays


@pytest.mark.parametrize("name", OWN)
def test_what_was_unpaired_stays_so_when_what_stood_before_it_goes(tmp_path: Path, name: str) -> None:
    session = ct.from_messages(
        [
            {"role": "user", "content": "start"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": [text("secret"), result("t9")]},
        ]
    )
    row, _ = session.facts.blocks_of(2)
    plan = Plan("p", Params(), session.context_at(), Trigger(True, ""), {row: build_removal("p")})
    done = export(ct.apply(session, plan), tmp_path / "out", name)
    assert kinds(ct.open_session(done.path))[2] == ["tool_result"]
    assert not done.check.introduced and len(done.check.inherited) == 1


def test_what_is_left_out_for_one_reason_is_told_once(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    session = ct.from_messages(
        [
            {"role": "user", "content": [text("look"), picture, picture]},
            {"role": "assistant", "content": [call("t1")]},
            {"role": "user", "content": [result("t1", [text("here"), picture])]},
            {"role": "assistant", "content": "a cat"},
        ]
    )
    losses = export(session, tmp_path / "out.json", "openai").losses
    assert "images left out that Chat Completions cannot hold: 3" in losses
    assert len([loss for loss in losses if loss.startswith("images left out")]) == 1


@pytest.mark.parametrize("name", list_writable_formats())
def test_a_repeated_id_becomes_one_of_its_own(tmp_path: Path, name: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [text("go")]}]
    for number in range(5):
        messages.append({"role": "assistant", "content": [call("call_1"), call("call_2")]})
        answered = [result("call_2", f"second {number}"), result("call_1", f"first {number}")]
        messages.append({"role": "user", "content": answered})
    messages += [{"role": "assistant", "content": [text("done")]}, {"role": "user", "content": [text("thanks")]}]
    session = ct.from_messages(messages)
    done = export(session, tmp_path / "out", name)
    assert next(loss for loss in done.losses if "given a new id" in loss).endswith(": 8")
    calls: list[str] = []
    answers: dict[str, Any] = {}
    for message in ct.open_session(done.path).to_messages():
        for block in message["content"]:
            if block["type"] == "tool_use":
                calls.append(block["id"])
            elif block["type"] == "tool_result":
                answers[block["tool_use_id"]] = block["content"]
    assert calls[:3] == ["call_1", "call_2", "call_1-2"] and len(set(calls)) == len(calls) == 10
    assert (answers["call_1-5"], answers["call_2-5"]) == ("first 4", "second 4")
    assert done.check.introduced == done.check.inherited == ()


def test_a_single_turn_more_is_called_so(tmp_path: Path) -> None:
    session = ct.from_messages(
        [{"role": "user", "content": "go " * 400}, *({"role": "assistant", "content": str(n)} for n in range(3))]
    )
    after = ct.apply(session, ct.plan(session, "gemini-compress"), "What happened.")
    assert "the written file has 1 turn instead of 0" in export(after, tmp_path / "out.json", "anthropic").losses


def test_a_message_of_the_runtime_behind_the_summary(tmp_path: Path) -> None:
    made = Recording()
    made.user("start " * 400)
    for turn in range(4):
        made.assistant(text(f"reply {turn}"))
        made.attachment("hook_additional_context", content=f"injected {turn}")
    session = made.open(tmp_path)
    after = ct.apply(session, ct.plan(session, "agent-sdk-compact", min_keep=3), "What happened.")
    assert after.to_messages()[1]["content"] == [text("injected 2")]
    done = export(after, tmp_path / "out.jsonl", "claude-code")
    again = ct.open_session(done.path)
    assert len(again.context_at()) == len(after.context_at()) - 1
    assert "injected messages merged with the user message before them: 1" in done.losses
    assert any(loss == "the written file has 3 messages instead of 4" for loss in done.losses)
    assert said(again.to_messages()).count("injected") == said(after.to_messages()).count("injected")


@pytest.mark.parametrize("told", [False, True])
def test_what_is_gone_without_being_declared_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    session = ct.from_messages(split_by_a_policy(tmp_path)[0].to_messages())
    form, write = type(FORMATS["anthropic"]), FORMATS["anthropic"].write

    def forgets(self: Any, session: Session, path: Path) -> Losses:
        losses = write(session, path)
        path.write_bytes(path.read_bytes().replace(b"and now this", b"and"))
        if told:
            losses.add("something else that happened")
        return losses

    monkeypatch.setattr(form, "write", forgets)
    with pytest.raises(
        ExportError, match="the written file lacks 9 bytes of text; nothing was written; choose another format"
    ):
        export(session, tmp_path / "out.json", "anthropic")
    assert not (tmp_path / "out.json").exists()


def test_a_provider_is_given_nothing_that_it_refuses(tmp_path: Path) -> None:
    made = Recording()
    made.user([text("look"), {"type": "unknown", "value": 1}])
    made.assistant(thinking("unsigned"), {"type": "fallback", "from": "a", "to": "b"}, {"type": "redacted_thinking"})
    made.user("go on")
    made.assistant(thinking("hm", "sig"), {**call("t1"), "caller": {"type": "direct"}, "odd": 1})
    made.results(result("t1", [text("a picture"), IMAGE]))
    made.assistant(text("a cat"))
    session = made.open(tmp_path)
    anthropic = export(session, tmp_path / "anthropic.json", "anthropic")
    request = json.loads(anthropic.path.read_bytes())
    blocks = [block for message in request["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "text", "thinking", "tool_use", "tool_result", "text"]
    assert "odd" not in blocks[3] and blocks[3]["caller"] == {"type": "direct"}
    assert {
        "blocks left out that a Messages request cannot hold: 2",
        "unsigned thinking blocks left out, which Anthropic refuses: 2",
        "empty messages left out: 1",
        "block fields left out that Anthropic refuses (odd): 1",
        "it ends with an assistant message, which a provider would continue; add a user message before you send it",
    } <= set(anthropic.losses)
    openai = export(session, tmp_path / "openai.json", "openai")
    roles = [message["role"] for message in json.loads(openai.path.read_bytes())["messages"]]
    assert roles == ["user", "user", "assistant", "tool", "user", "assistant"]
    assert "images of results moved to a user message after them: 1" in openai.losses


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_results_come_first_for_a_provider(tmp_path: Path, name: str) -> None:
    session = ct.from_messages(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call("t1")]},
            {"role": "user", "content": [text("before it"), result("t1")]},
        ]
    )
    done = export(session, tmp_path / "out.json", name)
    assert "user messages reordered to begin with their results: 1" in done.losses
    last = ct.open_session(done.path).to_messages()[2]
    assert last["content"][0]["type"] == "tool_result"


def times(path: Path) -> list[str]:
    *records, size = (json.loads(line) for line in path.read_bytes().splitlines())
    return [record["timestamp"] for record in (records if size["type"] == SIZE_NOTE else [*records, size])]


def test_time_does_not_run_backwards_in_claude_code(tmp_path: Path) -> None:
    made = Recording()
    made.user("start " * 400)
    made.assistant(text("yes"))
    made.user("go")
    made.assistant(call("t1"), id="m")
    made.results(result("t1"))
    made.assistant(text("and more"), id="m")  # of the same message: it is written before the result
    made.user("thanks")
    session = made.open(tmp_path)
    after = ct.apply(session, ct.plan(session, "defect-compact", threshold=1), "What happened.")
    for number, each in enumerate((session, after)):
        found = times(export(each, tmp_path / f"{number}.jsonl", "claude-code").path)
        assert found == sorted(found) and len(found) > 2
        assert all(time.startswith("2026-01-01T00:00:") for time in found), "as old as what was kept"


def test_new_records_are_as_old_as_the_session(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "sample_sessions" / "koda.db"
    info = ct.sessions_in(source)[0]
    session = ct.open_session(f"{source}#{info.id}")
    found = times(export(session, tmp_path / "out.jsonl", "claude-code").path)
    assert found == sorted(found)
    first = next(time for time in session.facts.time if time >= 0)
    assert ct.open_session(tmp_path / "out.jsonl").facts.time[0] == first


def test_half_characters_are_told_where_they_cannot_be_kept(tmp_path: Path) -> None:
    session = ct.from_messages([{"role": "user", "content": "half \ud83d"}])
    done = export(session, tmp_path / "out.db", "koda")
    assert done.losses == ["texts with lone surrogates, which were replaced: 1"]


def test_nothing_to_write_says_what_to_do(tmp_path: Path) -> None:
    session = ct.from_messages([{"role": "assistant", "content": [thinking("hm")]}])
    with pytest.raises(ExportError, match=r"no messages to write \(.*: 1.*\); choose another point or policy"):
        export(session, tmp_path / "out.json", "anthropic")


def test_blocks_that_are_one_object_stay_apart(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    recording.assistant(text("done"))
    recording.user([result("t9"), text("go on")])
    recording.assistant(text("done"))
    recording.user("go on")
    recording.assistant(text("done"))
    session = recording.open(tmp_path)
    messages, one = session.to_messages(), {"type": "text", "text": "go on"}
    for message in messages:
        message["content"] = [one if block == one else block for block in message["content"]]
    assert sum(block is one for message in messages for block in message["content"]) == 2
    made = build_exportable(session, messages, lambda role, block: "").session
    assert made.to_messages() != session.to_messages(), "the result without a call is mended"
    assert [*made.facts.time] == [*dict.fromkeys(session.facts.time)]  # each as its own record says
