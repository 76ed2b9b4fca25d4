"""defect's journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.export.files import export
from context_tui.formats.defect import DefectFormat
from context_tui.formats.opening import open_session, sessions_in
from context_tui.session.facts import Usage
from context_tui.session.markers import DEFECT_PLACEHOLDER, DEFECT_SUMMARY
from context_tui.session.values import MessageFlag
from tests.formats.growth import check_growth


def said(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "c1", "output": {"kind": "text", "text": words}, "is_error": False}


CALL = {"type": "tool_use", "id": "c1", "name": "read", "args": {"path": "a"}}
ASKED, CALLED, ANSWERED = said("user", text("go")), said("assistant", CALL), said("user", result("much " * 600))
DONE, AGAIN = (
    said("assistant", {"type": "thinking", "text": "so", "signature": "s"}, text("done")),
    said("user", text("on")),
)
CLEARED = said("user", result(DEFECT_PLACEHOLDER))
SUMMARY = said("assistant", text(DEFECT_SUMMARY + "\nall of it"))
USAGE = {"input_tokens": 10, "output_tokens": 3}


def message(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "message": value}


def snapshot(*history: dict[str, Any]) -> dict[str, Any]:
    return {"type": "snapshot", "history": [*history], "turn_count": 1, "last_turn_ended": None}


TURN = [
    {"type": "turn_started"},
    *map(message, (ASKED, CALLED, ANSWERED, DONE)),
    {"type": "turn_ended", "usage": USAGE},
]


def seed() -> list[dict[str, Any]]:
    """For mutations: compactions of both kinds, and a turn that failed."""
    failed = [message(AGAIN), {"type": "turn_started"}, message(CALLED), {"type": "turn_aborted"}]
    records = [*TURN, snapshot(ASKED, CALLED, CLEARED, DONE), *failed, message(AGAIN), snapshot(SUMMARY, AGAIN)]
    return [{"schema_version": 1, "seq": at, "record": each} for at, each in enumerate([*records, message(DONE)])]


def seed_snapshot() -> dict[str, Any]:
    """For mutations: a snapshot of its own."""
    state = {"history": [SUMMARY, *(ASKED, CALLED, ANSWERED, DONE)], "turn_count": 1, "last_turn_ended": True}
    return {"schema_version": 1, "next_seq": 6, "state": state}


def journal(folder: Path, records: list[dict[str, Any]], skip: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "meta.json").write_text(
        json.dumps({"schema_version": 1, "session_id": "mine", "cwd": "/w", "mcp_servers": []})
    )
    lines = [
        {"schema_version": 1, "seq": at + (skip if at > 1 else 0), "record": each} for at, each in enumerate(records)
    ]
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["", "meta.json", "journal.jsonl"])
def test_a_session_is_opened_by_its_folder_or_a_file_of_it(name: str, tmp_path: Path) -> None:
    journal(tmp_path / "s", TURN)
    session = open_session(tmp_path / "s" / name)
    assert (session.info.format, session.info.title, session.info.cwd) == ("defect", "go", "/w")
    assert [each["role"] for each in session.to_messages()] == ["user", "assistant", "user", "assistant"]
    assert session.to_messages()[1]["content"] == [
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    ]
    assert session.to_messages()[3]["content"][0] == {"type": "thinking", "thinking": "so", "signature": "s"}
    assert not session.facts.problems


def test_usage_of_a_turn_is_that_of_its_only_request(tmp_path: Path) -> None:
    one = [{"type": "turn_started"}, message(ASKED), message(DONE), {"type": "turn_ended", "usage": USAGE}]
    assert open_session(journal(tmp_path, one)).facts.requests == [Usage(10, 0, 0, 0, 3)]
    assert open_session(journal(tmp_path, TURN)).facts.requests == []
    one[-1] = {"type": "turn_ended", "reason": "end_turn", "usage": dict.fromkeys(USAGE)}
    assert open_session(journal(tmp_path, one)).facts.requests == []


def test_a_snapshot_that_cleared_results_is_a_micro_compaction(tmp_path: Path) -> None:
    session = open_session(journal(tmp_path, [*TURN, snapshot(ASKED, CALLED, CLEARED, DONE), message(AGAIN)]))
    (compaction,) = session.facts.compactions
    assert compaction.kind == "micro" and len(compaction.cleared_blocks) == 1
    assert len(session.facts) == 5


def test_a_snapshot_with_a_summary_is_a_full_compaction(tmp_path: Path) -> None:
    session = open_session(journal(tmp_path, [*TURN, message(AGAIN), snapshot(SUMMARY, AGAIN), message(DONE)]))
    (compaction,) = session.facts.compactions
    assert compaction.kind == "full" and session.facts.flags[compaction.message] & MessageFlag.SUMMARY
    assert [each["content"][-1]["text"] for each in session.to_messages()] == [
        SUMMARY["content"][0]["text"],
        "on",
        "done",
    ]
    assert len(session.facts) == 7


def test_a_snapshot_of_what_is_there_changes_nothing(tmp_path: Path) -> None:
    facts = open_session(journal(tmp_path, [*TURN, snapshot(ASKED, CALLED, ANSWERED, DONE)])).facts
    assert len(facts) == 4 and not facts.compactions


def test_a_gap_in_the_numbers_is_said(tmp_path: Path) -> None:
    (problem,) = open_session(journal(tmp_path, TURN, skip=3)).facts.problems
    assert "seq goes from 1 to 5" in problem.what


def test_growth_gives_the_same_facts(tmp_path: Path) -> None:
    check_growth(tmp_path / "journal.jsonl", *seed())


LATER = [message(AGAIN), {"type": "turn_started"}, message(DONE), {"type": "turn_ended", "usage": USAGE}]


def snapshot_file(folder: Path, next_seq: int, *history: dict[str, Any]) -> Path:
    path = folder / "snapshot.json"
    state = {"history": [*history], "turn_count": 1, "last_turn_ended": True}
    path.write_text(json.dumps({"schema_version": 1, "next_seq": next_seq, "state": state}, indent=2))
    return path


def shorten(path: Path, first: int) -> None:
    """Leave out the lines of a journal before one, as defect does once a snapshot stands for them."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[first:]))


def test_a_snapshot_alone_is_a_session(tmp_path: Path) -> None:
    path = snapshot_file(tmp_path, 6, ASKED, CALLED, ANSWERED, DONE)
    for spec in (path, tmp_path):
        session = open_session(spec)
        assert session.info.format == "defect" and len(session.facts) == 4
        assert DefectFormat().read_title(Path(session.info.path)) == session.info.title == "go"
        assert session.facts.call_result[session.facts.find_call_row("c1")] >= 0
    path.write_text(json.dumps({"schema_version": 1, "next_seq": 0, "state": {"history": "x"}}))
    with pytest.raises(UnreadableSession):
        open_session(path)


@pytest.mark.parametrize("name", ["", "meta.json", "journal.jsonl", "snapshot.json"])
@pytest.mark.parametrize("stands_for", [6, 10])
def test_a_shortened_journal_goes_on_from_its_snapshot(name: str, stands_for: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    whole = open_session(journal(folder, [*TURN, *LATER])).to_messages()
    shorten(folder / "journal.jsonl", 6)
    told = [ASKED, CALLED, ANSWERED, DONE, AGAIN, DONE]
    snapshot_file(folder, stands_for, *told[: 4 if stands_for == 6 else 6])
    session = open_session(folder / name)
    assert session.to_messages() == whole
    assert session.facts.requests == [Usage(10, 0, 0, 0, 3)]
    assert not session.facts.problems and not session.facts.compactions
    assert '"history"' in session.content.raw(0) and "turn_ended" in session.content.raw(4)


def test_lines_that_a_snapshot_stands_for_are_not_read_twice(tmp_path: Path) -> None:
    """Where they did more than add messages, what they say cannot be told apart from the rest of it."""
    journal(tmp_path, [*TURN, snapshot(SUMMARY, DONE), *LATER])
    shorten(tmp_path / "journal.jsonl", 6)
    snapshot_file(tmp_path, 7, SUMMARY, DONE)
    session = open_session(tmp_path)
    assert [each["role"] for each in session.to_messages()] == ["assistant", "assistant", "user", "assistant"]
    assert len(session.facts) == 4 and not session.facts.problems


def test_an_empty_journal_is_its_snapshot(tmp_path: Path) -> None:
    journal(tmp_path, [])
    snapshot_file(tmp_path, 6, ASKED, DONE)
    session = open_session(tmp_path)
    assert len(session.facts) == 2 and session.info.cwd == "/w" and session.info.path.endswith("snapshot.json")


def test_a_shortened_journal_that_grows_is_the_same_as_afresh(tmp_path: Path) -> None:
    records, told = [*TURN, *LATER, *LATER], [ASKED, CALLED, ANSWERED, DONE, AGAIN, DONE, AGAIN, DONE]
    path, form = journal(tmp_path, records[:7]), DefectFormat()
    shorten(path, 6)
    snapshot_file(tmp_path, 6, *told[:4])
    scanner = form.make_scanner(path, form.list_sessions(path)[0])
    scanner.advance()
    for count in range(8, len(records) + 1):
        journal(tmp_path, records[:count])
        shorten(path, 6)
        if count in (10, 14):
            snapshot_file(tmp_path, count, *told[: 6 if count == 10 else 8])
        scanner.advance()
        grown, fresh = scanner.session(), open_session(path)
        assert grown.to_messages() == fresh.to_messages()
        assert grown.facts.requests == fresh.facts.requests
        assert grown.facts.record_kind == fresh.facts.record_kind


def test_a_turn_that_failed_is_a_branch(tmp_path: Path) -> None:
    failed = [message(AGAIN), {"type": "turn_started"}, message(CALLED), {"type": "turn_aborted"}]
    path = journal(tmp_path, [*TURN, *failed, *LATER])
    session = open_session(path)
    assert [each["content"][-1].get("text") for each in session.to_messages()][-2:] == ["on", "done"]
    assert len(session.to_messages()) == 6
    (branch,) = session.facts.branches
    for spec in (path, tmp_path):
        assert len(open_session(f"{spec}#{branch.id}").to_messages()) == 6
    assert not session.facts.problems


def test_pictures_values_and_several_pieces(tmp_path: Path) -> None:
    picture = {"mime": "image/gif", "data": {"kind": "base64", "encoded": "R0lG"}}
    address = {"mime": "image/png", "data": {"kind": "url", "url": "https://x/y.png"}}
    pieces = [{"kind": "text", "text": "see"}, {"kind": "image", **picture}]
    outputs: list[Any] = [{"kind": "json", "value": {"a": [1]}}, {"kind": "content", "blocks": pieces}]
    results = [{"type": "tool_result", "tool_use_id": "c1", "output": each, "is_error": True} for each in outputs]
    asked = said("user", text("look"), {"type": "image", **picture}, {"type": "image", **address})
    session = open_session(journal(tmp_path, [message(asked), message(CALLED), message(said("user", *results))]))
    assert session.to_messages()[0]["content"][1:] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    ]
    one, other = session.to_messages()[2]["content"]
    assert (one["content"], one["is_error"]) == ({"a": [1]}, True)
    assert [each["type"] for each in other["content"]] == ["text", "image"]
    losses = DefectFormat().write(session, tmp_path / "out.jsonl")
    assert losses.lines == [] and open_session(tmp_path / "out.jsonl").to_messages() == session.to_messages()


def test_sessions_are_found_where_defect_keeps_them(tmp_path: Path) -> None:
    state, project = tmp_path / "state" / "defect" / "sessions", tmp_path / "project"
    for folder in (state / "a", state / "b", project / ".defect" / "sessions" / "c"):
        folder.mkdir(parents=True)
        journal(folder, TURN)
    (state / "b" / "journal.jsonl").unlink()
    snapshot_file(state / "b", 6, ASKED)
    (state / "empty").mkdir()
    (state / "itself").symlink_to("itself")
    (project / ".git").mkdir()
    (project / "src").mkdir()
    found = DefectFormat().find_sessions({"XDG_STATE_HOME": str(tmp_path / "state")}, project / "src")
    names = [(f"{each.path.parent.name}/{each.path.name}", each.project, each.is_current_project) for each in found]
    assert names == [
        ("a/journal.jsonl", "", False),
        ("b/snapshot.json", "", False),
        ("c/journal.jsonl", "project", True),
    ]
    assert [Path(info.path).parent.name for info in sessions_in(state)] == ["a", "b"]
    form = DefectFormat()
    assert form.is_standalone(state / "b" / "snapshot.json") and form.is_standalone(state / "a" / "journal.jsonl")
    assert not form.is_standalone(state / "a" / "snapshot.json") and not form.is_standalone(state / "a" / "meta.json")


def test_what_is_written_is_what_defect_loads(tmp_path: Path) -> None:
    session = open_session(journal(tmp_path / "s", [*TURN, *LATER]))
    plan = ct.plan(session, "defect-compact", threshold=1)
    after = ct.apply(session, plan, summary="all of it")
    done = export(after, tmp_path / "out.jsonl", "defect")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines] == [*range(len(lines))]  # its loader refuses gaps
    assert [line["record"]["type"] for line in lines][-1] == "turn_ended"  # or it takes the messages back
    kinds = [line["record"]["type"] for line in lines]
    assert kinds.count("turn_started") == kinds.count("turn_ended") == 2  # one for the summary
    whole = ct.apply(session, ct.plan(session, "manual", clear=((2, 0),)), summary="")
    export(whole, tmp_path / "turns.jsonl", "defect")
    assert (tmp_path / "turns.jsonl").read_text().count("turn_ended") == 2
    assert lines[0]["record"]["message"]["content"][0]["text"].startswith(DEFECT_SUMMARY)
    again = open_session(tmp_path / "out.jsonl")
    assert again.to_messages() == after.to_messages() and not done.losses and not done.check.introduced
    assert again.facts.flags[0] & MessageFlag.SUMMARY
    assert "--resume" in done.resume_command and "journal.jsonl" in done.resume_command


def test_a_session_to_which_nothing_was_applied_is_copied(tmp_path: Path) -> None:
    path = journal(tmp_path / "s", TURN)
    export(open_session(path), tmp_path / "copy.jsonl", "defect")
    assert (tmp_path / "copy.jsonl").read_bytes() == path.read_bytes()
    alone = snapshot_file(tmp_path, 6, ASKED, DONE)
    export(open_session(alone), tmp_path / "copy.json", "defect")
    assert (tmp_path / "copy.json").read_bytes() == alone.read_bytes()
    shorten(path, 3)
    snapshot_file(path.parent, 3, ASKED, CALLED)
    export(open_session(path), tmp_path / "whole.jsonl", "defect")  # there is no file that is all of it
    assert open_session(tmp_path / "whole.jsonl").to_messages() == open_session(path).to_messages()
