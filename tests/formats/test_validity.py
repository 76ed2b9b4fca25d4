"""What is recorded of another type, too large or nested too deeply is told, and never taken for what it is not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.formats.anthropic import AnthropicFormat
from context_tui.formats.base import scan
from context_tui.formats.kit.document_scanner import DocumentScanner
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, ParsedRecord
from context_tui.formats.koda import KodaFormat
from context_tui.session.facts import Usage
from context_tui.session.session import Session, SessionInfo
from context_tui.session.validation import MAX_DEPTH, MAX_TIME_MS
from context_tui.session.values import BlockFlag, Kind, RecordKind, Role
from context_tui.text.sanitize import MAX_NAME_LENGTH
from tests.formats.histories import opened, put
from tests.formats.recordings import Recording, call, result, shape, text, thinking, usage
from tests.formats.test_koda import make, reply, user
from tests.fuzz.validity import invalid

NOT_TEXT: list[Any] = [["text"], {"a": 1}, None, 7, True, 2.5]


def nest(depth: int) -> Any:
    """A list in a list and so on, *depth* lists in all."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def told(session: Session) -> list[str]:
    """The problems in words; the session has to be valid."""
    assert not [*invalid(session)]
    return [problem.what for problem in session.facts.problems]


@pytest.mark.parametrize("kind", NOT_TEXT)
def test_a_block_whose_type_is_no_text_is_of_no_known_kind(kind: Any, tmp_path: Path) -> None:
    block = {"type": kind, "text": "words"}
    recording = Recording()
    recording.user([block, text("typed")])
    recorded = recording.open(tmp_path)
    listed = opened(AnthropicFormat(), put(tmp_path / "m.json", [{"role": "user", "content": [block, text("typed")]}]))
    for session in (recorded, listed):
        assert told(session) == []
        assert [*session.facts.kind] == [Kind.OTHER, Kind.TEXT]
        assert session.message(0)["content"][0] == {"type": "unknown", "value": block}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": ["a"]},
        {"type": "thinking", "thinking": {"a": 1}, "signature": "s"},
        {"type": "thinking", "thinking": "a", "signature": 5},
        {"type": "image", "source": "there"},
    ],
)
def test_a_block_whose_text_is_none_is_of_no_known_kind(block: dict[str, Any], tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(block, text("said"))
    session = recording.open(tmp_path)
    assert not [*invalid(session)]
    assert session.message(1)["content"][0] == {"type": "unknown", "value": block}


def test_ids_and_names_that_are_no_text_are_their_json(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant({"type": "tool_use", "id": 7, "name": ["Read"], "input": {}})
    recording.results({"type": "tool_result", "tool_use_id": 7, "content": "x"})
    session = recording.open(tmp_path)
    assert not [*invalid(session)]
    assert session.facts.tools == ['["Read"]'] and session.facts.calls == ["7"]
    assert shape(session) == ["user text", "assistant tool_use", "user tool_result"]


@pytest.mark.parametrize("kind", NOT_TEXT)
def test_an_attachment_whose_type_is_no_text(kind: Any, tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.add("attachment", attachment={"type": kind, "content": "attached"})
    path = recording.write(tmp_path)
    assert "attached" in json.dumps(ct.open_session(path).to_messages())
    out = str(tmp_path / "out")
    assert main(["apply", str(path), "-P", "agent-sdk-compact", "-p", "min_keep=1", "-o", out, "--json"]) == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (10**400, "too large"),
        (2**70, "too large"),
        (10**9 + 1, "1000000001"),
        (-1, "-1"),
        (12.0, "12.0"),
        (True, "true"),
        ("9", "'9'"),
        ([1], "a list"),
    ],
)
def test_a_size_that_is_none_is_told_and_the_usage_unknown(value: Any, said: str, tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("a"), use=usage(100, 5))
    recording.user()
    recording.assistant(text("b"), use={**usage(200, 5), "cache_read_input_tokens": value})
    session = recording.open(tmp_path)
    [what] = told(session)
    assert what == f"cache_read_input_tokens is {said}, not a number of tokens up to 1,000,000,000; left out"
    assert [each.context for each in session.facts.requests] == [105]
    assert session.facts.problems[0].where == "line 4" and '"b"' in session.content.raw(session.facts.problems[0].raw)
    assert session.facts.record_kind[3] == RecordKind.MESSAGE


def test_a_sum_of_sizes_that_is_none(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("a"), use=usage(4 * 10**8, 4 * 10**8))
    recording.assistant(text("b"), use=usage(4 * 10**8, 4 * 10**8, 4 * 10**8))
    session = recording.open(tmp_path)
    assert told(session) == [
        "the sum of input tokens is 1200000000, not a number of tokens up to 1,000,000,000; left out"
    ]
    assert [each.context for each in session.facts.requests] == [8 * 10**8]


def test_sizes_of_compactions(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.microcompact("t1", tokens=2**70)
    recording.assistant(text("a"))
    recording.boundary(-5)
    recording.summary()
    session = recording.open(tmp_path)
    assert [compaction.pre_tokens for compaction in session.facts.compactions] == [None, None]
    assert [what.partition(",")[0] for what in told(session)] == ["preTokens is too large", "preTokens is -5"]


def test_the_size_of_a_boundary_is_told_at_the_boundary(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.boundary(2**70)
    recording.user("typed, without a summary")
    session = recording.open(tmp_path)
    [what] = told(session)
    [problem] = session.facts.problems
    assert what.startswith("preTokens is too large") and problem.where == "line 2" and problem.raw == 1


def test_a_window_that_is_none(tmp_path: Path) -> None:
    request = {"context_window": 2**60, "messages": [{"role": "user", "content": "a"}], "system": "s"}
    session = opened(AnthropicFormat(), put(tmp_path / "m.json", request))
    assert session.facts.window is None and told(session)[0].startswith("context_window is 1152921504606846976,")


def test_sizes_in_a_database(tmp_path: Path) -> None:
    path = make(tmp_path / "k.db", [user("a"), reply("b", prompt_tokens=2**40), reply("c", prompt_tokens=5.5)])
    session = opened(KodaFormat(), path)
    assert session.facts.requests == [] and len(session) == 3
    assert [what.partition(",")[0] for what in told(session)] == [
        "prompt_tokens is 1099511627776",
        "prompt_tokens is 5.5",
    ]


@pytest.mark.parametrize("place", ["input", "body", "text"])
@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 340, 990, 100_000])
def test_what_is_nested_too_deeply_is_a_problem(place: str, depth: int, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    recording.assistant(call("t", "Bash", command="x"))
    match place:
        case "input":
            recording.assistant({**call("u"), "input": "DEEP"})
        case "body":
            recording.results(result("t", "DEEP"))
        case "text":
            recording.assistant({"type": "text", "text": "DEEP"})
    recording.assistant(text("after"))
    recording.lines[2] = recording.lines[2].replace(b'"DEEP"', b"[" * depth + b"]" * depth)
    session = recording.open(tmp_path)
    fits = depth <= MAX_DEPTH
    assert told(session) == ([] if fits else ["unreadable line: nested too deeply"])
    assert session.facts.record_kind[2] == (RecordKind.MESSAGE if fits else RecordKind.PROBLEM)
    assert session.message(len(session) - 1)["content"] == [text("after")]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 600])
def test_members_that_nobody_reads_may_be_nested(depth: int, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    recording.assistant({**text("said"), "extra": nest(depth), "citations": []}, toolUseResult=nest(depth))
    recording.user("on")
    path = recording.write(tmp_path)
    session = ct.open_session(path)
    assert told(session) == [] and session.message(1)["content"] == [{**text("said"), "citations": []}]
    out = tmp_path / "out.jsonl"
    assert main(["apply", str(path), "-P", "manual", "-p", "cut=1", "-o", str(out)]) == 0
    assert ct.open_session(out).message(1)["content"] == [{**text("said"), "citations": []}]


def test_arguments_in_a_string_that_are_nested_too_deeply_stay_text(tmp_path: Path) -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300
    asked = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": deep}}]}
    session = ct.open_session(put(tmp_path / "m.json", [asked, {"role": "tool", "tool_call_id": "1", "content": "x"}]))
    assert session.message(0)["content"][0]["input"] == {"_raw": deep} and told(session) == []


def test_names_are_cut_where_they_are_shown(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(call("t", "R" * 5_000), model="m" * 5_000)
    recording.results(result("t"))
    session = recording.open(tmp_path)
    assert told(session) == []
    assert (
        session.facts.tools == ["R" * (MAX_NAME_LENGTH - 1) + "…"] and len(session.facts.model or "") == MAX_NAME_LENGTH
    )
    assert session.message(1)["content"][0]["name"] == "R" * 5_000


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "3999-01-01T00:00:00+00:00"])
def test_times_that_no_clock_showed_are_unknown(when: str, tmp_path: Path) -> None:
    recording = Recording()
    recording.user(timestamp=when)
    recording.assistant(text("a"), timestamp=when, id="m")
    recording.assistant(text("b"), timestamp=when, id="m")
    session = recording.open(tmp_path)
    assert told(session) == [] and {*session.facts.time} == {-1}
    numbers = [{"role": "user", "content": "a", "timestamp": value} for value in (10**15, MAX_TIME_MS + 1, 1e300, -5)]
    listed = opened(AnthropicFormat(), put(tmp_path / "m.json", numbers))
    assert told(listed) == [] and {*listed.facts.time} == {-1}


def test_a_time_that_no_clock_showed_takes_no_other_away(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("a"), id="m", timestamp="2026-01-01T00:00:00Z")
    recording.assistant(text("b"), id="m", timestamp="0001-01-01T00:00:00Z")
    assert recording.open(tmp_path).facts.end_time[1] == 1_767_225_600_000


def test_a_time_without_a_zone_is_universal(tmp_path: Path) -> None:
    recording = Recording()
    recording.user(timestamp="2026-01-01T00:00:00")
    assert [*recording.open(tmp_path).facts.time] == [1_767_225_600_000]


@pytest.mark.parametrize("cut", [70, 90, 170, 177, 180, 185, 189])
def test_a_torn_list_of_runs(cut: int, tmp_path: Path) -> None:
    runs = [{"messages": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]}] * 2
    path = tmp_path / "runs.json"
    path.write_bytes(json.dumps([*runs, {"stray": 1}]).encode()[:cut])
    sessions = [ct.open_session(f"{path}#{info.id}" if info.id else path) for info in ct.sessions_in(path)]
    assert not [what for session in sessions for what in invalid(session)]
    assert sessions[-1].facts.problems[-1].what == "the file is cut off here"


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "bad.json", [{"role": "user", "content": [{"type": {"a": 1}}, {"type": ["b"]}]}])
    put(tmp_path / "gone.json", [{"role": "user", "content": "gone"}])
    good = put(tmp_path / "good.json", [{"role": "user", "content": "good"}])
    sessions = AnthropicFormat.list_sessions

    def vanishing(self: AnthropicFormat, path: Path) -> Any:
        if path.name == "gone.json":
            raise FileNotFoundError(path)
        return sessions(self, path)

    monkeypatch.setattr(AnthropicFormat, "list_sessions", vanishing)
    assert [info.path for info in ct.sessions_in(tmp_path)] == [str(tmp_path / "bad.json"), str(good)]


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(ct.UnreadableSession, match="cannot be read: Permission denied"):
        ct.sessions_in(tmp_path)


@pytest.mark.parametrize("cwd", ["/x" * 3_000, "/" + "y" * 300, "/a\0b", "/\ud800"])
def test_a_recorded_folder_that_none_can_be_called_fails_no_export(cwd: str, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("a", cwd=cwd)
    recording.assistant(text("b"), cwd=cwd)
    path, out = recording.write(tmp_path), tmp_path / "out.jsonl"
    assert main(["apply", str(path), "-P", "manual", "-p", "cut=1", "-o", str(out)]) == 0
    assert ct.open_session(out).facts.block_flags[0] & BlockFlag.UNKNOWN_SIZE == 0


def test_an_id_that_is_longer_than_a_file_name(tmp_path: Path) -> None:
    path = make(tmp_path / "k.db", [user("a")])
    with pytest.raises(ct.UnreadableSession, match="unknown session"):
        ct.open_session(f"{path}#{'x' * 5_000}")


def test_a_long_system_prompt_does_not_hide_the_messages(tmp_path: Path) -> None:
    path = put(tmp_path / "r.json", {"system": "s" * 300_000, "messages": [{"role": "user", "content": "a"}]})
    assert ct.open_session(path).info.format == "anthropic"


def test_thinking_without_text_is_no_other_block(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant({**thinking("x"), "thinking": None}, {"type": "text", "text": None})
    session = recording.open(tmp_path)
    assert told(session) == [] and [*session.facts.kind] == [Kind.TEXT, Kind.THINKING, Kind.TEXT]
    assert session.message(1)["content"] == [thinking(""), text("")]


class Careless:
    """A format that hands on whatever stands in an element."""

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        builder.append_system("")

    def parse_tools(self, run: Run) -> list[dict[str, Any]]:
        return []

    def parse_response(self, run: Run) -> dict[str, Any] | None:
        return None

    def parse(self, value: Any, place: int) -> ParsedRecord:
        return MessageRecord(Role.ASSISTANT, value["content"], usage=Usage(value["size"]))


def test_what_a_format_for_documents_hands_on_is_checked_in_scan_and_text(tmp_path: Path) -> None:
    blocks = [{"type": ["text"]}, {"type": "tool_use", "id": 7, "name": {}, "input": {}}, {"type": "text", "text": 3}]
    path = put(tmp_path / "m.json", [{"role": "assistant", "content": blocks, "size": 2**70}])
    session = scan(DocumentScanner(path, SessionInfo(str(path), "careless"), Careless))
    assert told(session) == ["fresh is too large, not a number of tokens up to 1,000,000,000; left out"]
    assert session.facts.requests == []
    assert [block["type"] for block in session.message(0)["content"]] == ["unknown", "tool_use", "unknown"]
