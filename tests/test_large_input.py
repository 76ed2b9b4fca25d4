"""Large and awkward input: read in steps, too large, or cut off. Times are measured in ``benchmarks.growth``."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import growth, shapes
from context_tui.cli.inspect import build_report
from context_tui.formats.base import Scanner, scan
from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.parsing import Record
from context_tui.formats.claude_code.reader import ClaudeCodeScanner
from context_tui.formats.kit import lines
from context_tui.formats.kit.files import MAX_RAW_BYTES, MAX_RECORD_BYTES
from context_tui.formats.kit.lines import LineFile, LineReader, find_matching_lines
from context_tui.formats.koda import reader
from context_tui.formats.opening import make_scanner, open_session, sessions_in
from context_tui.lab.replay.recording import Recording as ReplayRecording
from context_tui.lab.replay.walk import replay
from context_tui.session.context import context_at
from context_tui.session.facts import Facts
from context_tui.session.jsontext import find_value_ranges, loads, loads_all
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role, Spans
from context_tui.tokens.accounting import compute_believed_size
from context_tui.tokens.breakdown import FileRead, count_wasted
from tests.formats.histories import columns
from tests.formats.recordings import Recording, call, conversations, result, text, thinking, usage

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


# -- the context at many points


@pytest.mark.slow
@fixtures
@given(recording=conversations())
def test_sizes_before_compactions_are_those_of_their_contexts(tmp_path: Path, recording: Recording) -> None:
    session = recording.open(tmp_path)
    expected = []
    for compaction in session.facts.compactions:
        before = context_at(session.facts, min(compaction.message, len(session)), after_micro=False)
        expected.append(compute_believed_size(before).tokens if len(before) else None)
    assert [each["tokens_before"] for each in build_report(session)["compactions"]] == expected


def test_what_a_compaction_kept_takes_no_more_room_than_its_ends(tmp_path: Path) -> None:
    facts = open_session(growth.segments(40, tmp_path)).facts
    kept = [compaction.prefix for compaction in facts.compactions]
    assert sum(map(len, kept)) > 40 * 40 and all(len(prefix.ranges) == 2 for prefix in kept)


@given(st.lists(st.integers(0, 20)))
def test_spans_are_the_numbers_that_they_were_made_of(numbers: list[int]) -> None:
    spans = Spans.from_numbers(numbers)
    assert spans == numbers and list(spans) == numbers and len(spans) == len(numbers)
    assert [spans[at] for at in range(-len(numbers), len(numbers))] == numbers * 2 and spans[1:3] == numbers[1:3]
    assert spans.end == max(numbers, default=-1) + 1 and all(number in spans for number in numbers)
    assert spans != [*numbers, 1]


@given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 5)), max_size=25))
def test_koda_compactions_are_what_their_stamps_say(rows: list[tuple[bool, int | None]]) -> None:
    facts, archived = Facts(), [None if when is None else shapes.stamp(when) for _, when in rows]
    for message, (is_summary, _) in enumerate(rows):
        facts.add_message(Role.SYSTEM if is_summary else Role.USER, MessageFlag.SUMMARY if is_summary else 0)
        facts.add_block(message, {"type": "text", "text": "a"})
    expected, before = [], None
    for summary in reversed([message for message, (is_summary, _) in enumerate(rows) if is_summary]):
        stamps = {when for when in archived if when is not None and (before is None or when < before)}
        older = {when for when in stamps if when not in archived[summary:]}
        end = archived[summary] or "~"
        own = max((when for when in older if when < end), default=None)
        left = [m for m, when in enumerate(archived[:summary]) if when is None or own is None or when > own]
        expected.append((summary, (*left, summary)))
        before = own or before
    found = reader.find_compactions(facts, archived)
    assert [(compaction.message, tuple(compaction.prefix)) for compaction in found] == expected[::-1]


# -- pairs and reads


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6), st.integers(0, 90)), max_size=12))
def test_wasted_lines_are_those_that_one_before_had(reads: list[tuple[int, int, int]]) -> None:
    """Where every line has one token, and no read goes to the end, they can be counted one by one."""
    whole = [FileRead(lines, first, lines, True) for first, lines, _ in reads if lines]
    had, again = set[int](), 0
    for read in whole:
        lines = set(range(read.first, read.first + read.lines))
        again += len(lines & had)
        had |= lines
    most = sum(read.tokens for read in whole) // len(whole) * (len(whole) - 1) if whole else 0
    assert abs(count_wasted(whole) - min(again, most)) <= len(whole)


# -- stopping


class Clock:
    """A clock that goes on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def now(self) -> float:
        self.looks += 1
        return self.looks / 1000


def one_line(folder: Path) -> Path:
    return growth.one_line(400, folder)


def many_lines(folder: Path) -> Path:
    return growth.plain(2_000, folder)


def odd_lines(folder: Path) -> Path:
    return growth.not_json(400, folder)


def koda_rows(folder: Path) -> Path:
    return growth.koda_plain(1_000, folder)


def elements(folder: Path) -> Path:
    return growth.document(400, folder)


def long_line(folder: Path) -> Path:
    return with_long_line(folder, 30 * 8 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("made", [one_line, many_lines, odd_lines, koda_rows, elements, long_line])
def test_reading_stops_when_its_time_is_over(
    made: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner, clock = make_scanner(sessions_in(made(tmp_path))[0]), Clock()
    fake = SimpleNamespace(perf_counter=clock.now, monotonic=clock.now)
    for module in ("claude_code.reader", "kit.lines", "kit.entry_scanner", "kit.document_scanner"):
        monkeypatch.setattr(f"context_tui.formats.{module}.time", fake)
    steps, before = 0, 0
    while not scanner.advance(0.003).end:
        assert clock.looks - before <= 6
        steps, before = steps + 1, clock.looks
    assert steps >= 5


def test_a_line_that_is_read_in_steps_gives_the_same_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = one_line(tmp_path)
    at_once, clock = open_session(path), Clock()
    for module in ("claude_code.reader", "kit.lines"):
        monkeypatch.setattr(f"context_tui.formats.{module}.time", SimpleNamespace(perf_counter=clock.now))
    scanner: Scanner = ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code"))
    while not scanner.advance(0.001).end:
        pass
    assert scanner.session().to_messages() == at_once.to_messages() and len(at_once) > 390


def test_a_line_that_holds_something_often_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it does, and however long it is: else a look for sub-agents goes through it each time."""
    path, pattern = tmp_path / "f", re.compile(rb"a(\d)")
    path.write_bytes(b"a1 a1 a2\nnothing\n\n" + b"a3" * 50 + b"\na1\nx a4\na5")
    file, known = LineFile(path), {b"1"}
    assert [*find_matching_lines(file, pattern)] == [b"a1 a1 a2", b"a3" * 50, b"a1", b"x a4", b"a5"]
    assert [*find_matching_lines(file, pattern, known)] == [b"a1 a1 a2", b"a3" * 50, b"x a4", b"a5"]
    monkeypatch.setattr(lines, "STEP_BYTES", 99)
    assert [*find_matching_lines(file, pattern)] == [b"a1 a1 a2", b"a1", b"x a4", b"a5"]
    monkeypatch.setattr(lines, "STEP_BYTES", 100)
    assert len([*find_matching_lines(file, pattern)]) == 5
    monkeypatch.setattr(lines, "MAX_SEARCHED_BYTES", 25)
    assert [*find_matching_lines(file, pattern)] == [b"a1 a1 a2", b"a3" * 50]
    path.write_bytes(b"")
    assert not [*find_matching_lines(LineFile(path), pattern)]


def test_values_on_a_line_are_found_where_they_are() -> None:
    line = ' {"a": "é"}\t[1]  "x" '.encode()
    assert [line[begin:end] for begin, end in find_value_ranges(line)] == ['{"a": "é"}'.encode(), b"[1]", b'"x"']
    with pytest.raises(ValueError, match="Expecting value"):
        list(find_value_ranges(b"{} nothing"))


@pytest.mark.parametrize(
    "value",
    [
        b'{"n": ' + b"9" * 5_000 + b"}",
        b'["\xff\xe9"]',
        b'["\xed\xa0\x80"]',
        rb'["\ud83d"]',
        b"[NaN]",
        '["終"]'.encode(),
    ],
    ids=["digits", "latin", "surrogate", "escaped", "NaN", "unicode"],
)
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"], ids=["", "mark"])
def test_what_reads_alone_reads_beside_another_one(value: bytes, before: bytes) -> None:
    line = before + value + b" " + value
    assert [line[begin:end] for begin, end in find_value_ranges(line)] == [before + value, value]
    assert repr(loads_all(line)) == repr([loads(value)] * 2)


# -- very long lines


def with_long_line(folder: Path, size: int) -> Path:
    """A session with a line of *size* bytes in it, which takes no room on the disk."""
    recording = Recording()
    recording.user("before")
    path = recording.write(folder)
    with path.open("ab") as file:
        file.truncate(os.path.getsize(path) + size)
    recording.lines.clear()
    recording.user("after")
    with path.open("ab") as file:
        file.write(b"\n" + recording.data)
    return path


@pytest.mark.slow
def test_a_line_that_is_too_large_is_a_problem_and_never_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    decode = parsing.parse_line

    def counted(line: bytes) -> Any:
        decoded.append(len(line))
        return decode(line)

    monkeypatch.setattr("context_tui.formats.claude_code.parsing.parse_line", counted)
    path = with_long_line(tmp_path, MAX_RECORD_BYTES + 1)
    session = scan(ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code")))
    assert [(problem.where, problem.what) for problem in session.facts.problems] == [
        ("line 2", "too large to read: 268 MB (at most 268 MB)")
    ]
    assert len(session) == 2 and max(decoded, default=0) < 1_000
    shown = session.content.raw(session.facts.problems[0].raw)
    assert len(shown) < MAX_RAW_BYTES + 100 and shown.endswith(
        f"[the first {MAX_RAW_BYTES:,} of {MAX_RECORD_BYTES + 1:,} bytes]"
    )


def test_the_longest_line_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    recording.user("x" * 2_000)
    recording.user("y")
    path = recording.write(tmp_path)
    length = len(recording.lines[0].rstrip())
    for largest, problems in ((length, 0), (length - 1, 1)):
        monkeypatch.setattr("context_tui.formats.kit.files.MAX_RECORD_BYTES", largest)
        monkeypatch.setattr("context_tui.formats.kit.lines.STEP_BYTES", 300)
        monkeypatch.setattr("context_tui.formats.claude_code.fast_path.STEP_BYTES", 300)
        session = scan(ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code")))
        assert len(session.facts.problems) == problems and len(session) == 2 - problems


def read_in_steps(path: Path) -> Session:
    """The session as the inspector reads it."""
    scanner = ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code"))
    while not scanner.advance(0.01).end:
        pass
    return scanner.session()


def large_records() -> Recording:
    """Records of every kind with long texts in them."""
    long = 'größe \\ "quoted"\n' * 900
    recording = Recording()
    recording.user(long)
    recording.user([text(long), {"type": "image", "source": {"type": "base64", "data": "A" * 9_000}}])
    recording.assistant(thinking(long, "s" * 5_000), text("short"), call("t1", "Read", file_path="/a", rest=long))
    recording.results(result("t1", long), toolUseResult={"file": {"numLines": 3, "startLine": 1}})
    recording.assistant(call("t2", "Edit", new=[long, {"deep": [long]}]), call("t3"), use=usage(500))
    recording.results(result("t2", [text(long), text("b")]), result("t3", {"json": [1.0, long]}), text("typed " + long))
    recording.user("[Compacted conversation summary]\n" + long)
    recording.user("<bash-stdout>" + long)
    recording.attachment("file", content={"file": {"content": long}})
    recording.add("progress", data={"output": long})
    recording.line(b'{"type":"user","uuid":"x","message":{"role":"user","content":"\\ud800' + b"y" * 9_000 + b'"}}')
    recording.line(b"[" + b"1," * 3_000 + b"2]")
    recording.line(recording.lines[0].rstrip() + recording.lines[1].rstrip())
    return recording


@pytest.mark.slow
def test_records_that_another_process_decodes_give_the_same_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large_records().write(tmp_path)
    whole = open_session(path)
    monkeypatch.setattr("context_tui.formats.kit.lines.STEP_BYTES", 4_500)
    monkeypatch.setattr("context_tui.formats.claude_code.fast_path.STEP_BYTES", 4_500)
    here = list[int]()
    read_line = LineReader._read_line

    def counted(reader: LineReader[Record], line: bytes, *given: Any) -> Any:
        here.append(len(line))
        return read_line(reader, line, *given)

    monkeypatch.setattr(LineReader, "_read_line", counted)
    elsewhere = read_in_steps(path)
    assert columns(elsewhere.facts) == columns(whole.facts) and elsewhere.to_messages() == whole.to_messages()
    assert elsewhere.facts.problems == whole.facts.problems and len(whole.facts.problems) == 1
    assert sum(1 for length in here if length > 4_500) == 1  # two objects on a line


def test_another_process_that_cannot_be_had_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    recording.user("x" * 9_000)
    path = recording.write(tmp_path)
    monkeypatch.setattr("context_tui.formats.kit.lines.STEP_BYTES", 4_500)
    monkeypatch.setattr("context_tui.formats.claude_code.fast_path.STEP_BYTES", 4_500)
    for executable in ("", "/nowhere/python", "/bin/false"):
        monkeypatch.setattr("sys.executable", executable)
        assert len(read_in_steps(path)) == 1


def test_reading_a_large_record_stops_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    recording.user("x" * 9_000)
    path = recording.write(tmp_path)
    monkeypatch.setattr("context_tui.formats.kit.lines.STEP_BYTES", 4_500)
    monkeypatch.setattr("context_tui.formats.claude_code.fast_path.STEP_BYTES", 4_500)
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def counted(*given: Any, **more: Any) -> subprocess.Popen[bytes]:
        begun.append(popen(*given, **more))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", counted)
    scanner = ClaudeCodeScanner(path, SessionInfo(str(path), "claude-code"))
    while not begun:
        assert not scanner.advance(0.0).end
    del scanner
    gc.collect()
    assert begun[0].returncode is not None


def test_an_element_that_is_too_large_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "request.json"
    long = {"role": "user", "content": "x" * 3_000}
    path.write_bytes(shapes.encode({"messages": [*growth.messages(4), long]}))
    assert not open_session(path).facts.problems
    monkeypatch.setattr("context_tui.formats.kit.files.MAX_RECORD_BYTES", 3_060)
    monkeypatch.setattr("context_tui.formats.kit.files.MAX_RAW_BYTES", 100)
    session = open_session(path)
    assert [problem.where for problem in session.facts.problems] == ["element 2"]
    assert "too large to read" in session.facts.problems[0].what and len(session) == 4


def test_the_end_of_a_file_that_was_cut_off_is_shown_as_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(shapes.encode({"messages": growth.messages(4)})[:-2] + b",{" + b"x" * 5_000)
    monkeypatch.setattr("context_tui.formats.kit.files.MAX_RAW_BYTES", 100)
    session = open_session(path)
    assert [problem.what for problem in session.facts.problems] == ["the file is cut off here"]
    assert session.content.raw(session.facts.problems[0].raw).endswith(" bytes]")


# -- replays


def steps_of(action: Callable[[], object]) -> int:
    """How many instructions of Python something takes."""
    counted = 0

    def trace(frame: Any, event: str, given: object) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in growth.EVERY_CALL if name != "opencode-prune"])  # it waits for more
def test_a_firing_looks_at_what_is_new_and_not_at_the_whole_context(name: str, tmp_path: Path) -> None:
    found, firings = [], []
    for size in (40, 64, 88):
        folder = tmp_path / str(size)
        folder.mkdir()
        recording = ReplayRecording(open_session(growth.plain(size, folder)))
        given = growth.EVERY_CALL[name]
        firings.append(len(replay(recording, name, **given).firings))  # what is shared is there by then
        found.append(steps_of(lambda recording=recording, given=given: replay(recording, name, **given)))  # type: ignore[misc]
    assert firings[2] - firings[1] == firings[1] - firings[0] >= 3
    assert found[2] - found[1] <= 1.05 * (found[1] - found[0])
