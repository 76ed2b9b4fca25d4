"""Exports that ``opencode import`` takes, and that read back with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from context_tui.compaction.apply import apply
from context_tui.export.files import export, suggest_path
from context_tui.formats.opencode import OpencodeFormat
from context_tui.formats.opening import open_session
from context_tui.policies.planning import plan
from context_tui.session.facts import Usage
from context_tui.session.memory import from_messages
from tests.formats.histories import few, histories, written
from tests.formats.opencode_records import Recording, database, rich, text, tool, used
from tests.formats.recordings import call, result
from tests.formats.recordings import text as block

FORM = OpencodeFormat()
REQUIRED: dict[str, set[str]] = {
    "user": {"id", "sessionID", "role", "time", "agent", "model"},
    "assistant": {
        *("id", "sessionID", "role", "time", "parentID", "modelID", "providerID", "mode", "agent", "path", "cost"),
        "tokens",
    },
    "text": {"text"},
    "reasoning": {"text", "time"},
    "file": {"mime", "url"},
    "tool": {"callID", "tool", "state"},
    "compaction": {"auto"},
    "pending": {"status", "input", "raw"},
    "completed": {"status", "input", "output", "title", "metadata", "time"},
    "error": {"status", "input", "error", "time"},
}
"""Members that the schema of opencode requires."""


def checked(path: Path) -> dict[str, Any]:
    """A document as opencode decodes it: required members, ids with their prefixes, in ascending order."""
    document: dict[str, Any] = json.loads(path.read_text())
    info = document["info"]
    assert {"id", "slug", "projectID", "directory", "title", "version", "time"} <= info.keys()
    assert info["id"].startswith("ses_")
    order: list[tuple[int, str]] = []
    for message in document["messages"]:
        own = message["info"]
        assert REQUIRED[own["role"]] <= own.keys()
        assert own["id"].startswith("msg_") and own["sessionID"] == info["id"]
        order.append((own["time"]["created"], own["id"]))
        ids = [part["id"] for part in message["parts"]]
        assert ids == sorted(ids) and all(each.startswith("prt_") for each in ids)
        for part in message["parts"]:
            assert REQUIRED.get(part["type"], set()) <= part.keys()
            assert part["messageID"] == own["id"]
            if part["type"] == "tool":
                state = part["state"]
                assert REQUIRED[state["status"]] <= state.keys()
                assert isinstance(state["input"], dict)
                assert isinstance(state.get("output", ""), str)
    assert order == sorted(order)
    return document


@few
@given(histories(rich=False))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("o") / "out.json"
    session, losses = written(FORM, messages, path)
    assert losses == []
    assert session.to_messages() == messages
    checked(path)


@few
@given(histories())
def test_what_cannot_be_held_is_said(tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("o") / "out.json"
    session, losses = written(FORM, messages, path)
    checked(path)
    said = " ".join(losses)
    assert ("split into two" in said) == (len(session) > len(messages))
    if not losses:
        assert [message["role"] for message in session.to_messages()] == [message["role"] for message in messages]


def test_what_a_policy_left_reads_back(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(8):
        recording.user(text(f"Turn {number}."), text("a reminder", synthetic=True))
        recording.assistant(tool(f"c{number}", "alpha " * 900), text("Read."), tokens=used(10_000 + 1_000 * number))
        recording.assistant(text("Done."), tokens=used(10_500 + 1_000 * number))
    session = open_session(database(tmp_path / "opencode.db", recording))
    after = apply(session, plan(session, "defect-microcompact"))
    done = export(after, tmp_path / "out.json", "opencode")
    assert done.losses == []
    again = open_session(tmp_path / "out.json")
    assert again.to_messages() == after.to_messages()
    assert again.turns == session.turns == 8
    assert not again.facts.requests
    document = checked(tmp_path / "out.json")
    assert done.resume_command == (
        f"cd /src && opencode import {tmp_path / 'out.json'} && opencode --session {document['info']['id']}"
    )
    assert document["info"]["title"] == "Reading"
    shorter = apply(session, plan(session, "defect-compact", force=True), summary="It went well.")
    done = export(shorter, tmp_path / "short.json", "opencode")
    assert open_session(tmp_path / "short.json").to_messages() == shorter.to_messages()


def test_a_compaction_stays_one(tmp_path: Path) -> None:
    session = open_session(database(tmp_path / "opencode.db", rich()))
    after = apply(session, plan(session, "manual", clear="14:0"))
    assert export(after, tmp_path / "out.json", "opencode").losses == []
    again = open_session(tmp_path / "out.json")
    assert again.to_messages() == after.to_messages()
    assert [each.message for each in again.facts.compactions] == [1]
    assert [part["type"] for part in checked(tmp_path / "out.json")["messages"][0]["parts"]] == ["compaction"]


def test_a_session_to_which_nothing_was_done(tmp_path: Path) -> None:
    session = open_session(rich().export(tmp_path / "x.json"))
    done = export(session, tmp_path / "copy.json", "opencode")
    assert done.losses == []
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "x.json").read_bytes()
    for path in (database(tmp_path / "opencode.db", rich()), rich().tree(tmp_path / "storage")):
        out = tmp_path / f"{path.stem}.json"
        assert export(open_session(path), out, "opencode").losses == []
        assert checked(out) == checked(tmp_path / "x.json")
    recording = rich()
    recording.messages = recording.messages[:6]
    del recording.messages[1]["parts"][3]["state"]["time"]["compacted"]
    recording.messages[0]["parts"].append({"id": "prt_00003z", "type": "hologram"})  # so it is not copied
    session = open_session(recording.export(tmp_path / "part.json"))
    export(session, tmp_path / "out.json", "opencode")
    again = open_session(tmp_path / "out.json")
    assert again.facts.requests == session.facts.requests
    assert again.facts.requests[0] == Usage(20, 900, 100, 0, 40)
    checked(tmp_path / "out.json")


def test_calls_without_results_and_results_without_calls(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": [result("gone", "x")]},
        {"role": "assistant", "content": [call("a", "Read"), call("b", "Read")]},
        {"role": "user", "content": [block("Wait.")]},
        {"role": "assistant", "content": [block("I wait.")]},
        {"role": "user", "content": [result("a", "late"), block("Here.")]},
        {"role": "assistant", "content": [call("c", "Bash")]},
    ]
    losses = FORM.write(from_messages(messages), tmp_path / "out.json")
    assert losses.lines == [
        "results left out whose call is missing: 1",
        "results moved to their calls: 1",
        "messages with results and text split into two: 1",
    ]
    again = open_session(tmp_path / "out.json")
    assert [each["content"][0].get("tool_use_id") for each in again.to_messages()] == [None, "a", *[None] * 4]
    checked(tmp_path / "out.json")


def test_an_export_is_not_put_among_the_session_files_of_a_tree(tmp_path: Path) -> None:
    """opencode would take it for one of them."""
    of_tree = open_session(rich().tree(tmp_path / "storage"))
    assert suggest_path(of_tree, "opencode") == Path("ses_1.copy.json")
    assert suggest_path(of_tree, "anthropic") == Path("ses_1.copy.json")
    assert suggest_path(open_session(rich().export(tmp_path / "a.json")), "opencode") == tmp_path / "a.copy.json"


def test_the_recorded_provider_is_kept(tmp_path: Path) -> None:
    """A model at an address of one's own has a provider that its name does not tell."""
    recording = Recording()
    recording.user(text("Look."))
    recording.assistant(text("Done."), modelID="own-model", providerID="own")
    session = open_session(database(tmp_path / "opencode.db", recording))
    FORM.write(session, tmp_path / "out.json")
    models = [message["info"].get("model", message["info"]) for message in checked(tmp_path / "out.json")["messages"]]
    assert [(model["providerID"], model["modelID"]) for model in models] == [("own", "own-model")] * 2
