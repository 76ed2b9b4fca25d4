"""The fast way through a Claude Code file gives the facts that the thorough way gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_tui.errors import UnreadableSession
from context_tui.formats.base import scan
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.formats.claude_code.parsing import Record
from context_tui.formats.claude_code.reader import ClaudeCodeScanner
from context_tui.session.blocks import measure_body, measure_raw_body
from context_tui.session.jsontext import loads
from context_tui.session.session import Session, SessionInfo
from tests.formats.histories import columns
from tests.formats.recordings import Recording, call, result, text, thinking, usage
from tests.formats.test_claude_code_growing import random_recording

ODD: list[Any] = [
    None,
    1,
    2.5,
    True,
    "text",
    "[Old tool result content cleared]",
    "ü",
    "\ud800",
    [],
    {},
    [1],
    {"a": "b"},
]
FIELDS = (
    *("type", "subtype", "uuid", "parentUuid", "timestamp", "isSidechain", "isMeta", "isCompactSummary", "origin"),
    *("isVisibleInTranscriptOnly", "isApiErrorMessage", "version", "message", "attachment", "compactMetadata"),
    "rendered",
    *("id", "role", "model", "content", "stop_reason", "usage", "output_tokens", "input_tokens", "text", "thinking"),
    *("tool_use_id", "is_error", "name", "input", "signature"),
)


def read(path: Path, *, fast: bool) -> Session | str:
    scanner = ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code"))
    if not fast:
        scanner._fast_path = lambda scanner: lambda data, start: (start, 0)
    try:
        return scan(scanner)
    except UnreadableSession as error:
        return str(error)


def assert_same(path: Path) -> None:
    fast, thorough = read(path, fast=True), read(path, fast=False)
    if isinstance(fast, str) or isinstance(thorough, str):
        assert fast == thorough
        return
    assert columns(fast.facts) == columns(thorough.facts)
    for message in range(len(fast)):
        assert fast.message(message) == thorough.message(message)


def test_the_lines_that_a_read_shows_are_those_of_its_only_result(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(call("a", "Read", file_path="/a"), call("b", "Bash"), call("c", "Read", file_path="/c"))
    file = {"numLines": 40, "startLine": 7, "totalLines": 90}
    recording.results(result("a", "x" * 400), result("b"), toolUseResult={"file": file})
    recording.results(result("c", "x" * 400), toolUseResult={"file": file})
    path = recording.write(tmp_path)
    assert_same(path)
    session = read(path, fast=True)
    assert isinstance(session, Session)
    [row] = session.facts.read_range
    assert session.facts.call_id(row) == "c" and session.facts.read_range[row] == (7, 40)


def test_a_record_without_a_message_that_is_nested_too_deeply_is_a_problem(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    record = {"type": "api-request-blob", "message": {"content": [result("a", "DEEP")]}}
    recording.lines.append(json.dumps(record).replace('"DEEP"', '{"a":' * 400 + "1" + "}" * 400).encode())
    recording.user("second")
    path = recording.write(tmp_path)
    assert_same(path)
    session = read(path, fast=True)
    assert isinstance(session, Session)
    assert [problem.where for problem in session.facts.problems] == ["line 2"]


def bent(value: Any, draw: st.DataObject) -> Any:
    """*value* with a field at any depth that is another, gone, or one that was not there."""
    if isinstance(value, list) and value:
        at = draw.draw(st.integers(0, len(value) - 1))
        return [*value[:at], bent(value[at], draw), *value[at + 1 :]]
    if not isinstance(value, dict):
        return draw.draw(st.sampled_from(ODD))
    deeper = [name for name, inner in value.items() if isinstance(inner, dict | list)]
    go_deeper = draw.draw(st.booleans())
    if deeper and go_deeper:
        inside = draw.draw(st.sampled_from(deeper))
        return {**value, inside: bent(value[inside], draw)}
    name = draw.draw(st.sampled_from([*FIELDS, *value]))
    if draw.draw(st.booleans()):
        return {key: inner for key, inner in value.items() if key != name}
    return {**value, name: draw.draw(st.sampled_from(ODD))}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
@given(draw=st.data())
def test_any_recording(draw: st.DataObject, tmp_path: Path) -> None:
    recording = random_recording(draw)
    for at in draw.draw(st.lists(st.integers(0, len(recording.lines) - 1), max_size=4, unique=True)):
        try:
            record = json.loads(recording.lines[at])
        except ValueError:
            continue
        spaced = draw.draw(st.booleans())
        separators = (", ", ": ") if spaced else (",", ":")
        recording.lines[at] = json.dumps(bent(record, draw), separators=separators).encode()
    assert_same(recording.write(tmp_path))


def test_the_usual_lines_are_taken_fast(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("do it")
    for number in range(40):
        recording.assistant(
            thinking("é", "s"), text("a"), call(f"t{number}"), id=f"m{number}", use=usage(output=number)
        )
        recording.results(result(f"t{number}", "an \\u001b[0m escape \\ and ü " * 90))
        recording.add("progress", data={})
        recording.add("system", subtype="turn_duration")
    path = recording.write(tmp_path)
    scanner = ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code"))
    slow: list[int] = []
    thorough = scanner._process_record

    def read(record: Record, place: int, length: int) -> None:
        slow.append(place)
        thorough(record, place, length)

    scanner._process_record = read  # type: ignore[method-assign]
    scanner.advance()
    assert slow == []
    assert_same(path)


@pytest.mark.parametrize("place", ["text", "thinking", "result", "input", "list", "typed"])
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xc3"])
def test_text_that_is_not_utf8(place: str, bad: bytes, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("start")
    match place:
        case "text":
            recording.assistant(text("BAD"))
        case "thinking":
            recording.assistant(thinking("BAD"))
        case "input":
            recording.assistant(call("t", command="BAD"))
        case "typed":
            recording.user("BAD")
        case _:
            recording.assistant(call("t"))
            recording.results(result("t", "BAD" if place == "result" else [text("BAD")]))
    recording.lines[-1] = recording.lines[-1].replace(b"BAD", b"x" + bad + b"y")
    recording.assistant(text("after"))
    path = recording.write(tmp_path)
    assert_same(path)
    session = scan(ClaudeCodeFormat().make_scanner(path, SessionInfo(str(path), "claude-code")))
    assert session.message(len(session) - 1)["content"][0]["text"] == "after"


@pytest.mark.slow
@given(
    st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text()), st.booleans()
)
def test_undecoded_bodies_measure_as_decoded(body: Any, ascii_only: bool) -> None:
    raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert measure_raw_body(raw) == measure_body(loads(raw))


@pytest.mark.parametrize(
    "body",
    [
        'a"b',
        "\\",
        "\\\\",
        "\\u0041",
        "a\nb\tc\r",
        "\x1b[0m",
        "/",
        "é\\n",
        "\x7f",
        "[x",
        "\u2028",
        "é" * 700,
        "x" * 499 + "€" * 300,
    ],
)
@pytest.mark.parametrize("slash", [False, True])
def test_escapes_are_counted(body: str, slash: bool) -> None:
    raw = json.dumps(body, ensure_ascii=False).encode()
    raw = raw.replace(b"/", b"\\/") if slash else raw
    assert measure_raw_body(raw) == measure_body(loads(raw))
