"""Cache breaks: a session for each cause, the sums on any usage, advice, and the recorded reasons of real sessions."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli import main
from context_tui.lab.price.break_report import SessionBreaks, build_advice, compare_causes, group_cases, list_cases
from context_tui.lab.price.breaks import BreakCause, CacheBreak, CacheHistory, find_cache_breaks, format_gap
from context_tui.session.session import Session
from tests.formats import request_logs as logs
from tests.formats.recordings import Recording, call, conversations, result, text, thinking, usage

ROOT = Path(__file__).parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
SHARED, BEGINNING = 12_000, 15_000


def begin(first_read: int = SHARED) -> tuple[Recording, int]:
    """A recording of one turn within which everything cached is read, and the tokens that it left in the cache."""
    made = Recording()
    made.user("go")
    made.assistant(call("c0", "Bash"), use=usage(10, first_read, 30_000 - first_read))
    made.results(result("c0", "x" * 900))
    size = 30_000
    for number in range(1, 6):
        made.assistant(call(f"c{number}", "Bash"), use=usage(10, size, 400))
        made.results(result(f"c{number}", "x" * 900))
        size += 400
    return made, size


def reply(made: Recording, read: int, written: int, *blocks: Any, **fields: Any) -> None:
    made.assistant(*(blocks or [text("done")]), use=usage(10, read, written), **fields)


def last_break(made: Recording, folder: Path) -> CacheBreak:
    """The last break of a recording, whose cost is that of writing instead of reading at the model's rates."""
    history = find_cache_breaks(made.open(folder))
    found = history.breaks[-1]
    rates = history.rate_table.get_rates("claude-sonnet-4-5")
    assert found.cost == pytest.approx(found.tokens * (rates.write_5m - rates.read))
    return found


def test_a_session_that_only_grows_has_no_break(tmp_path: Path) -> None:
    made, size = begin()
    history = find_cache_breaks(made.open(tmp_path))
    assert history.breaks == () and history.has_cache
    assert (history.read, history.new) == (SHARED + sum(range(30_000, size, 400)), 18_000 + 5 * 400 + 6 * 10)


def test_an_expired_entry(tmp_path: Path) -> None:
    made, size = begin()
    made.user("later", timestamp="2026-01-01T00:09:00.000Z")
    reply(made, SHARED, size - SHARED + 50, timestamp="2026-01-01T00:09:05.000Z")
    found = last_break(made, tmp_path)
    assert (found.cause, found.tokens, found.source) == (BreakCause.EXPIRED, size - SHARED, "inferred")
    assert "8 min after the last reply; entries live 5 min" in found.evidence and found.gap_ms // 60_000 == 8


def test_an_entry_that_lives_for_an_hour_has_not_expired(tmp_path: Path) -> None:
    made = Recording()
    hour: dict[str, Any] = {"cache_creation": {"ephemeral_1h_input_tokens": 30_000, "ephemeral_5m_input_tokens": 0}}
    made.user("go")
    made.assistant(text("done"), use=usage(10, 0, 30_000, **hour))
    made.user("later", timestamp="2026-01-01T00:09:00.000Z")
    hour = {"cache_creation": {"ephemeral_1h_input_tokens": 30_050, "ephemeral_5m_input_tokens": 0}}
    made.assistant(text("done"), use=usage(10, 0, 30_050, **hour), timestamp="2026-01-01T00:09:05.000Z")
    history = find_cache_breaks(made.open(tmp_path))
    rates = history.rate_table.get_rates("claude-sonnet-4-5")
    [found] = history.breaks
    assert found.cause == BreakCause.UNEXPLAINED and found.ttl_ms == 3_600_000
    assert found.cost == pytest.approx(30_000 * (rates.write_1h - rates.read))


def test_after_a_compaction_what_stays_is_written_again(tmp_path: Path) -> None:
    made, _ = begin()
    made.boundary(32_000)
    made.summary("s" * 8_000)
    reply(made, SHARED, 10_000)
    found = last_break(made, tmp_path)
    assert found.cause == BreakCause.COMPACTION and found.is_estimated
    assert 6_000 < found.tokens < 10_000 - 8_000 // 6  # without the summary, which is new
    assert "32,010 tokens became 22,010" in found.evidence


def test_a_cleared_conversation_begins_anew(tmp_path: Path) -> None:
    made, _ = begin()
    made.clear()
    made.user("something else")
    reply(made, 0, 22_000)
    assert find_cache_breaks(made.open(tmp_path)).breaks == ()


def test_a_clearing_and_what_it_earns_back(tmp_path: Path) -> None:
    made, size = begin()
    made.results(result("more", "y" * 40_000))
    made.microcompact("c1", "c2", tokens=900)
    reply(made, SHARED, size - SHARED - 500, call("more", "Bash"))
    made.results(result("more", "z"))
    reply(made, size - 500, 100)
    history = find_cache_breaks(made.open(tmp_path))
    [found] = history.breaks
    assert (found.cause, found.source) == (BreakCause.CLEARING, "recorded")
    assert "2 old results cleared from message 4 on" in found.evidence and found.is_estimated
    [advice] = build_advice([SessionBreaks("s", "claude-code", "/p", history)])
    assert "earned back" in advice and found.cost > found.saved


def test_another_model_has_a_cache_of_its_own(tmp_path: Path) -> None:
    made, size = begin()
    made.user("next")
    reply(made, 0, size + 100, model="claude-haiku-4-5")
    found = find_cache_breaks(made.open(tmp_path)).breaks[-1]
    assert (found.cause, found.tokens) == (BreakCause.MODEL, size)
    assert found.evidence == "claude-sonnet-4-5 became claude-haiku-4-5"


def test_thinking_that_is_switched_on(tmp_path: Path) -> None:
    made, size = begin()
    made.user("think")
    made.assistant(thinking("hm", "s" * 40), text("done"), use=usage(200, BEGINNING, size - BEGINNING + 50))
    assert find_cache_breaks(made.open(tmp_path)).breaks[-1].cause == BreakCause.THINKING


def test_thinking_of_the_turn_before_that_is_no_longer_sent(tmp_path: Path) -> None:
    made, size = begin()
    made.assistant(thinking("hm", "s" * 40), call("q", "Bash"), use=usage(10, size, 2_000))
    made.results(result("q", "x"))
    made.user("next")
    reply(made, size, 1_000)
    found = find_cache_breaks(made.open(tmp_path)).breaks[-1]
    assert found.cause == BreakCause.MESSAGES and "thinking" in found.evidence


def test_a_rewind(tmp_path: Path) -> None:
    made, size = begin()
    reply(made, size, 400)
    parent = made.last
    made.user("a way that is abandoned")
    reply(made, size + 400, 400)
    made.user("another way", parent=parent)
    reply(made, SHARED, size - SHARED + 900)
    found = find_cache_breaks(made.open(tmp_path)).breaks[-1]
    assert (found.cause, found.tokens) == (BreakCause.REWIND, size + 400 - SHARED)
    assert "2 messages abandoned before message 14" in found.evidence


def with_reason(made: Recording, reason: str, read: int, written: int) -> None:
    """A reply whose provider says why the cache was missed."""
    message: dict[str, Any] = {
        "id": f"m{made.count}",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [text("done")],
    }
    message |= {"usage": usage(10, read, written), "diagnostics": {"cache_miss_reason": {"type": reason}}}
    made.add("assistant", message=message)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("system_changed", BreakCause.SYSTEM),
        ("tools_changed", BreakCause.TOOLS),
        ("model_changed", BreakCause.MODEL),
        ("messages_changed", BreakCause.MESSAGES),
        ("previous_message_not_found", BreakCause.RESUME),
        ("unavailable", BreakCause.UNEXPLAINED),
    ],
)
def test_the_recorded_reason_is_taken(tmp_path: Path, reason: str, cause: BreakCause) -> None:
    made, size = begin()
    made.user("next")
    with_reason(made, reason, BEGINNING, size - BEGINNING + 50)
    session = made.open(tmp_path)
    found = find_cache_breaks(session).breaks[-1]
    assert (found.cause, found.source) == (cause, "recorded") and reason in found.evidence
    hidden = find_cache_breaks(session, use_reasons=False).breaks[-1]
    assert hidden.source == "inferred" and hidden.tokens == found.tokens and reason not in hidden.evidence


def test_how_much_is_still_read_tells_the_system_prompt_from_the_messages(tmp_path: Path) -> None:
    made, size = begin()
    for read in (BEGINNING, SHARED, BEGINNING, size):
        made.user("next")
        reply(made, read, size - read + 400)
        size += 400
    made.user("the last entry but one is read")
    reply(made, size - 400, 500)
    found = find_cache_breaks(made.open(tmp_path)).breaks
    causes = [each.cause for each in found]
    assert causes[:3] == [BreakCause.MESSAGES, BreakCause.SYSTEM, BreakCause.MESSAGES]
    assert "the part that other sessions share" in found[1].evidence
    assert causes[-1] == BreakCause.MESSAGES and "the entry of the request at message" in found[-1].evidence


def test_within_a_turn_the_provider_lost_it(tmp_path: Path) -> None:
    made, size = begin()
    reply(made, BEGINNING, size - BEGINNING + 50)
    assert last_break(made, tmp_path).cause == BreakCause.PROVIDER


@pytest.mark.parametrize("notes, is_beyond", [(18, False), (19, True)])
def test_more_new_blocks_than_the_provider_looks_back(tmp_path: Path, notes: int, is_beyond: bool) -> None:
    """A run of calls and one of results are one block each, so that many parallel calls break nothing."""
    made, size = begin()
    made.assistant(*(call(f"d{n}", "Bash") for n in range(30)), use=usage(10, size, 400))
    made.results(*(result(f"d{n}", "x") for n in range(30)), *(text(f"note {n}") for n in range(notes)))
    reply(made, BEGINNING, size)
    assert (last_break(made, tmp_path).cause == BreakCause.LOOKBACK) == is_beyond


def test_a_prompt_that_changes_at_most_turns(tmp_path: Path) -> None:
    made, size = begin(0)
    for _ in range(3):
        made.user("next")
        reply(made, 0, size + 400)
        size += 400
    found = find_cache_breaks(made.open(tmp_path)).breaks
    assert [each.cause for each in found] == [BreakCause.SYSTEM] * 3
    assert "at 3 of 3 turn starts, and at 0 of 5 other requests" in found[0].evidence


def test_one_turn_that_reads_nothing_is_unexplained(tmp_path: Path) -> None:
    made, size = begin(0)
    made.user("next")
    reply(made, 0, size + 400)
    assert last_break(made, tmp_path).cause == BreakCause.UNEXPLAINED


def open_requests(folder: Path, changed: dict[str, Any]) -> Session:
    """A log of whole requests, of which the last has other fields and reads nothing from the cache."""
    run, history = logs.Run(), [{"role": "user", "content": [logs.text("Count. " * 900)]}]
    for number in range(3):
        history = run.ask("sdk", history, logs.call("Bash", number, command="seq 9"))
        history = [*history, logs.results(number, "1 2 3 " * 90)]
    run.ask("sdk", history, logs.text("Done."))
    for _, _, answer in run.exchanges[:-1]:
        answer["usage"] |= {"cache_creation_input_tokens": 400}
    _, request, answer = run.exchanges[-1]
    request |= changed
    read = answer["usage"]["cache_read_input_tokens"]
    answer["usage"] |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": read}
    return ct.open_session(str(logs.write_folder(folder / "bodies", run)))


@pytest.mark.parametrize(
    ("changed", "cause", "evidence"),
    [
        ({"tools": [*logs.TOOLS, {"name": "late", "input_schema": {}}]}, BreakCause.TOOLS, "tools that differ: late"),
        (
            {"tools": [{**logs.TOOLS[0], "description": "Counts."}, *logs.TOOLS[1:]]},
            BreakCause.TOOLS,
            f"tools that differ: {logs.TOOLS[0]['name']}",
        ),
        (
            {"system": [logs.SYSTEM[0], {"type": "text", "text": "You are a clock."}]},
            BreakCause.SYSTEM,
            "the system prompt differs from part 2 on",
        ),
    ],
)
def test_the_first_difference_of_whole_requests(
    tmp_path: Path, changed: dict[str, Any], cause: BreakCause, evidence: str
) -> None:
    found = find_cache_breaks(open_requests(tmp_path, changed)).breaks[-1]
    assert (found.cause, found.source, found.evidence) == (cause, "recorded", evidence)


def test_requests_without_a_system_prompt_and_tools(tmp_path: Path) -> None:
    run = logs.Run()
    history = run.ask("sdk", [{"role": "user", "content": "Count."}], logs.call("Bash", 1, command="seq"))
    run.ask("sdk", [*history, logs.results(1, "1 2 3 " * 90)], logs.text("Done."))
    for _, request, _ in run.exchanges:
        del request["system"], request["tools"]
    found = find_cache_breaks(ct.open_session(logs.write_folder(tmp_path / "bodies", run)))
    assert found.has_cache and found.prompt_uses == () and found.first_request is None


def write_run(folder: Path, minute: int, system: str) -> None:
    """A log of two whole requests, of which the first reads nothing from the cache, at some minutes past ten."""
    run = logs.Run()
    history = run.ask("sdk", [{"role": "user", "content": [logs.text("Count.")]}], logs.call("Bash", 1, command="seq"))
    run.ask("sdk", [*history, logs.results(1, "1 2 3 " * 90)], logs.text("Done."))
    for _, request, _ in run.exchanges:
        request["system"] = [{"type": "text", "text": system * 500}]
    usage = run.exchanges[0][2]["usage"]
    usage |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": usage["cache_read_input_tokens"]}
    index = logs.write_folder(folder, run) / "index.jsonl"
    index.write_text(index.read_text().replace("T10:00", f"T10:{minute:02}"))
    for path in folder.glob("*.json"):
        os.utime(path, (path.stat().st_mtime + 60 * minute,) * 2)


@pytest.mark.parametrize(
    ("minute", "system", "is_cached"), [(3, "Count well. ", True), (9, "Count well. ", False), (3, "Be quick. ", False)]
)
def test_a_first_request_beside_another_session_with_its_prompt_in_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], minute: int, system: str, is_cached: bool
) -> None:
    write_run(tmp_path / "first", 0, "Count well. ")
    write_run(tmp_path / "second", minute, system)
    assert main(["cache", str(tmp_path / "first"), str(tmp_path / "second"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    cases = [each for each in report["cases"] if each["cause"] == BreakCause.NEIGHBOUR]
    assert len(cases) == is_cached
    for case in cases:
        assert "second" in case["session"] and "first" in case["evidence"] and case["is_estimated"]
        assert case["evidence"].startswith("2 min after a request of")
    for each in report["sessions"]:
        cache = each["cache"]
        assert cache["again"] == sum(c["tokens"] for c in report["cases"] if c["session"] == each["session"])


# -- sums


def check_sums(session: Session) -> CacheHistory:
    """Check that every uncached token is new or paid again, for the session and for each request."""
    facts, history = session.facts, find_cache_breaks(session)
    usages = dict(zip(facts.request_message, facts.requests, strict=True))
    uncached = sum(each.context - each.cache_read for each in usages.values())
    assert history.again + history.new == uncached and history.read == sum(each.cache_read for each in usages.values())
    for each in history.breaks:
        assert 0 < each.tokens <= usages[each.message].context - usages[each.message].cache_read
        assert each.cost >= 0 and each.evidence and each.saved >= 0
    assert len({each.message for each in history.breaks}) == len(history.breaks)
    return history


@settings(max_examples=30, deadline=None)
@given(conversations())
def test_every_uncached_token_is_new_or_paid_again(made: Recording) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_sums(made.open(Path(folder)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 90_000)] * 3, st.integers(0, 400)), min_size=1, max_size=12))
def test_in_a_context_that_only_grows_the_usage_alone_tells_what_is_paid_again(
    rows: list[tuple[int, int, int, int]],
) -> None:
    made, clock = Recording(), 0
    made.user("go")
    for number, (fresh, read, written, pause) in enumerate(rows):
        clock += pause
        stamp = f"2026-01-01T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.000Z"
        made.assistant(call(f"c{number}"), use=usage(fresh, read, written), timestamp=stamp)
        made.results(result(f"c{number}", "x"), timestamp=stamp)
    with tempfile.TemporaryDirectory() as folder:
        session = made.open(Path(folder))
        history = check_sums(session)
    if session.drops or not any(written for _, _, written, _ in rows):
        return
    cached, expected = 0, 0
    for fresh, read, written, _ in rows:
        expected += max(min(cached, fresh + read + written) - read, 0)
        cached = read + written or cached
    assert history.again == expected


def find_files() -> Iterator[Path]:
    for path in sorted([*CORPUS.rglob("*.json*"), *(ROOT / "sample_sessions").iterdir()]):
        if path.is_file():
            yield path


@pytest.mark.slow
@pytest.mark.parametrize("path", find_files(), ids=lambda path: path.name)
def test_the_sums_of_real_sessions(path: Path) -> None:
    try:
        infos = ct.sessions_in(path)
    except ct.UnreadableSession:
        pytest.skip("no session")
    for info in infos:
        check_sums(ct.open_session(f"{info.path}#{info.id}" if info.id else info.path))


def read_claude_code_usage(path: Path) -> dict[str, int]:
    """Uncached tokens of each reply in a file of one Claude Code conversation, read without the package."""
    uncached = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        message = record.get("message") or {}
        if (
            record.get("type") == "assistant"
            and not record.get("isSidechain")
            and message.get("model") != "<synthetic>"
        ):
            each = message["usage"]
            uncached[message["id"]] = each["input_tokens"] + each["cache_creation_input_tokens"]
    return uncached


def test_the_sums_of_a_file_read_by_itself() -> None:
    path = ROOT / "sample_sessions" / "coding-session.jsonl"
    history = find_cache_breaks(ct.open_session(str(path)))
    assert history.again + history.new == sum(read_claude_code_usage(path).values()) and history.again


# -- many sessions


def test_reasons_of_real_sessions_are_inferred_without_them() -> None:
    paths = sorted((CORPUS / "claude-code").glob("*.jsonl"))
    if not paths:
        pytest.skip("needs the corpus of real sessions")
    sessions = [ct.open_session(str(path)) for path in paths]
    pairs = [(find_cache_breaks(each), find_cache_breaks(each, use_reasons=False)) for each in sessions]
    rows = compare_causes(pairs)
    assert sum(row.breaks for row in rows) == 11
    assert sum(row.breaks for row in rows if row.inferred == row.recorded) >= 10


def test_the_most_common_pair_of_causes_comes_first() -> None:
    def history(*causes: BreakCause) -> Any:
        breaks = enumerate(causes)
        stated = {"is_provider_reason": True}
        return SimpleNamespace(breaks=[SimpleNamespace(message=at, cause=cause, **stated) for at, cause in breaks])

    recorded = history(BreakCause.MODEL, BreakCause.TOOLS, BreakCause.TOOLS)
    rows = compare_causes([(recorded, history(BreakCause.MODEL, BreakCause.TOOLS, BreakCause.TOOLS))])
    assert [(row.recorded, row.breaks) for row in rows] == [(BreakCause.TOOLS, 2), (BreakCause.MODEL, 1)]


def make_history(folder: Path, name: str, later: str) -> SessionBreaks:
    made, size = begin()
    made.user("later", timestamp=later)
    reply(made, SHARED, size - SHARED + 50, timestamp=later)
    history = find_cache_breaks(ct.open_session(str(made.write(folder, name))))
    return SessionBreaks(name, "claude-code", "/project", history)


def test_a_cache_of_one_hour_is_advised_where_it_costs_less(tmp_path: Path) -> None:
    soon = make_history(tmp_path, "a.jsonl", "2026-01-01T00:30:00.000Z")
    late = make_history(tmp_path, "b.jsonl", "2026-01-01T05:00:00.000Z")
    hour = soon.history.hour_cache
    rates = soon.history.rate_table.get_rates("claude-sonnet-4-5")
    assert hour.breaks == 1 and hour.saved == pytest.approx(20_000 * (rates.write_5m - rates.read))
    written = 18_000 + 5 * 400 + 50  # without what would have been read
    assert hour.added == pytest.approx(written * (rates.write_1h - rates.write_5m))
    [advice] = build_advice([soon, late])
    assert advice.startswith("1 of 2 expired entries") and "in 1 session would have cost $0.0451 more" in advice
    assert late.history.hour_cache.breaks == 0 and not build_advice([late])
    cases = list_cases([soon, late])
    [group] = group_cases(cases, lambda case: case.cache_break.cause)
    assert (group.name, group.breaks, group.tokens) == ("expired", 2, 40_000)
    assert group.costs == {"USD": pytest.approx(soon.history.cost + late.history.cost)}


def test_the_command_ranks_the_causes_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_history(tmp_path, "a.jsonl", "2026-01-01T00:30:00.000Z")
    missing = str(tmp_path / "b.jsonl")
    assert main(["cache", str(tmp_path), missing, "--check"]) == 0
    out, err = capsys.readouterr()
    assert "paid again: 20,000 tokens, $" in out and "a.jsonl:14" in out and "expired" in out
    assert "the provider recorded no cause" in out and "b.jsonl" in err
    assert main(["cache", str(tmp_path), missing, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "context-tui.cache/1" and [each["name"] for each in report["causes"]] == ["expired"]
    [case] = report["cases"]
    assert (case["message"], case["tokens"], case["cause"], case["source"]) == (14, 20_000, "expired", "inferred")
    assert [each["session"] for each in report["unread"]] == [missing]


def test_a_session_without_cache_figures_says_so_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Recording()
    made.user("go")
    made.assistant(text("done"), use=usage(900))
    assert main(["cache", str(made.write(tmp_path))]) == 0
    out, err = capsys.readouterr()
    assert not out and "no request records tokens read from a cache" in err and err.count("\n") == 1


def test_inspect_and_replay_list_the_same_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, size = begin()
    made.user("later", timestamp="2026-01-01T00:30:00.000Z")
    reply(made, SHARED, size - SHARED + 50, timestamp="2026-01-01T00:30:00.000Z")
    path, reports = str(made.write(tmp_path)), []
    for command in (["inspect", path], ["replay", path, "-P", "none"]):
        assert main([*command, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out)["cache_breaks"])
    assert reports[0] == reports[1] and [each["cause"] for each in reports[0]] == ["expired"]
    assert main(["inspect", path, "--json", "--at", "14"]) == 0
    assert json.loads(capsys.readouterr().out)["cache_breaks"] == []


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(-1, "an unknown time"), (9_000, "9 s"), (300_000, "5 min"), (4_320_000, "1 h 12 min")],
)
def test_spans_of_time(milliseconds: int, expected: str) -> None:
    assert format_gap(milliseconds) == expected
