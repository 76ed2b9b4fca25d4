"""Recorded context that falls without a record: found, explained where the sizes match, and counted by no plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.export.files import export
from context_tui.formats.opening import choose_session, make_scanner
from context_tui.lab.regret.cases import compute_regret
from context_tui.lab.regret.index import build_use_index
from context_tui.lab.replay.recording import Recording as RecordedSession
from context_tui.lab.replay.walk import replay
from context_tui.session import drops as drops_of
from context_tui.session.drops import find_drops
from context_tui.session.facts import Drop, Facts
from context_tui.session.session import Session
from context_tui.session.token_factors import fit_factors
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from tests.formats.providers import RATES, Provider
from tests.formats.recordings import Recording, call, result, text, usage


def drops(session: Session) -> list[tuple[int, int, str | None, list[str]]]:
    facts = session.facts
    return [
        (drop.message, drop.tokens, drop.explained_by, [facts.call_id(row) for row in drop.cleared_blocks])
        for drop in session.drops
    ]


def cleared(folder: Path, *, unsized: int = 0, cached: int = 0, model: str = "") -> Session:
    """A session whose first three results went before its last request, and *unsized* tokens of no one knows what.

    Args:
        model: another one, that the last request went to.
    """
    made = Provider(base=90_000)
    made.user("do it")
    made.step(size=40_000)
    made.step("Task", size=4_000)
    made.step(size=30_000)
    made.step("Grep", size=20_000)
    made.steps()
    made.user("go on")
    made.clear(40_000, 30_000, 20_000)
    made.context -= unsized
    made.model = model or made.model
    made.reply(text("reply"), cached=cached)
    return made.recording.open(folder)


def test_the_factors_of_a_tokenizer_are_found(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.steps(40)
    facts = made.recording.open(tmp_path).facts
    found = fit_factors(facts, len(facts.requests))
    assert found is not None and found.intervals == 39
    assert found.result == pytest.approx(RATES["tool_result"], abs=0.02)
    assert found.signature == pytest.approx(RATES["signature"], abs=0.25) and found.error < 5


def test_too_few_requests_have_no_factors(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.steps(4)
    facts = made.recording.open(tmp_path).facts
    assert fit_factors(facts, len(facts.requests)) is None and fit_factors(facts, 0) is None


def test_results_of_the_right_size_explain_a_drop(tmp_path: Path) -> None:
    session = cleared(tmp_path)
    (message, tokens, explained, results) = drops(session)[0]
    before, after = session.facts.requests[-2].context, session.facts.requests[-1].context
    assert (message, tokens, explained) == (len(session) - 1, before - after, "cleared results")
    assert results == ["t1", "t3", "t4"], "the oldest, without those of a tool that is not cleared"
    report = build_report(session)
    [told] = report["drops"]
    assert {name: told[name] for name in ("message", "tokens", "explained_by", "results")} == {
        "message": message,
        "tokens": tokens,
        "explained_by": explained,
        "results": [{"message": 2, "block": 0}, {"message": 6, "block": 0}, {"message": 8, "block": 0}],
    }
    entry = build_report(session, timeline=True)["timeline"][message]
    assert entry["dropped_tokens"] == tokens and entry["recorded_tokens"] == after


def test_what_went_is_out_of_the_context_from_then_on(tmp_path: Path) -> None:
    session = cleared(tmp_path)
    at = session.drops[0].message
    before, after = session.context_at(at), session.context_at(at + 1)
    assert not before.replacements and {body.source for body in after.replacements.values()} == {"inferred"}
    assert index_context(before).total - index_context(after).total > 22_000
    plan = ct.plan(session, "defect-microcompact", keep_recent_turns=1, min_clear_tokens=512)
    assert {edit.call_id for edit in plan.edits}.isdisjoint({"t1", "t3", "t4"})
    assert session.to_messages()[2]["content"][0]["content"] == "[Old tool result content cleared]"


def test_a_drop_of_another_size_is_unexplained(tmp_path: Path) -> None:
    session = cleared(tmp_path, unsized=60_000)
    assert [(explained, results) for _, _, explained, results in drops(session)] == [(None, [])]
    assert not session.context_at().replacements


def test_results_that_were_read_from_the_cache_have_not_gone(tmp_path: Path) -> None:
    session = cleared(tmp_path, cached=100_000)
    assert [(explained, results) for _, _, explained, results in drops(session)] == [(None, [])]


def test_a_fall_that_is_small_is_no_drop(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.steps()
    made.context -= 1_900 + 400
    made.reply(text("reply"))
    assert made.recording.open(tmp_path).drops == []


def thinking_dropped(folder: Path, *, turn: bool, cached: bool = False) -> Session:
    made = Provider()
    made.user("do it")
    made.steps()
    made.user("and this")
    made.step(thought=20_000)
    made.step(thought=16_000)
    if turn:
        made.user("next")
    made.context -= (10_000 + 8_000) // 4 * RATES["thinking"] + 36_000 // 4 * RATES["signature"]
    made.reply(text("reply"), cached=round(made.context) - 10 if cached else 0)
    return made.recording.open(folder)


def test_thinking_of_ended_turns_explains_a_drop(tmp_path: Path) -> None:
    assert [explained for _, _, explained, _ in drops(thinking_dropped(tmp_path, turn=True))] == ["dropped thinking"]


def test_thinking_is_dropped_when_a_turn_ends_only(tmp_path: Path) -> None:
    assert [explained for _, _, explained, _ in drops(thinking_dropped(tmp_path, turn=False))] == [None]


def test_thinking_that_was_read_from_the_cache_was_not_dropped(tmp_path: Path) -> None:
    session = thinking_dropped(tmp_path, turn=True, cached=True)
    assert [explained for _, _, explained, _ in drops(session)] == [None]


def test_less_than_runtimes_clear_is_not_explained_by_cleared_results(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.step(size=40_000)
    made.steps()
    made.clear(40_000)
    made.reply(text("reply"))
    assert [explained for _, _, explained, _ in drops(made.recording.open(tmp_path))] == [None]


def test_a_cache_that_lived_and_was_not_read_means_another_base(tmp_path: Path) -> None:
    session = cleared(tmp_path)
    before, last = session.facts.requests[-2:]
    before.cache_read, before.fresh = before.fresh, 0
    assert drops(session)[0][2] is None and not last.cache_read


def test_a_size_that_a_later_line_corrects_is_looked_at_again(tmp_path: Path) -> None:
    made = Recording()
    made.user()
    made.assistant(text("long"), use=usage(50_000))
    made.user("more")
    made.assistant(text("a"), id="m", use=usage(8, output=1))
    made.assistant(text("b"), id="m", use=usage(50_500, output=90))
    path = made.write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'{"parentUuid')])
    pieces = make_scanner(choose_session(path))
    pieces.advance()
    assert [drop.tokens for drop in pieces.session().drops] == [49_992]
    path.write_bytes(whole)
    pieces.advance()
    assert pieces.session().drops == [] == ct.open_session(path).drops


def test_sessions_with_very_many_drops_are_read_in_time(tmp_path: Path) -> None:
    made = Recording()
    made.user()
    for number in range(3_000):
        made.assistant(call(f"t{number}", "Read"), use=usage(150_000 if number % 2 else 90_000))
        made.results(result(f"t{number}", "x" * 400))
    session = made.open(tmp_path)
    assert len(session.drops) == 1_499


def test_another_model_is_an_explanation_of_its_own(tmp_path: Path) -> None:
    made = Provider(base=60_000)
    made.user("do it")
    made.steps()
    made.context *= 0.8
    made.model = "claude-haiku-4-5"
    made.reply(text("reply"))
    assert [explained for _, _, explained, _ in drops(made.recording.open(tmp_path))] == ["change of model"]


def test_where_no_model_is_recorded_it_may_have_been_another_one(tmp_path: Path) -> None:
    """koda has no place for it: its copy of a session shows the drop, and has all of the results."""
    session, out = cleared(tmp_path, model="claude-haiku-4-5"), tmp_path / "copy.db"
    assert drops(session)[0][2] == "change of model"
    export(session, out, "koda")
    copy = ct.open_session(out)
    assert [found[:3] for found in drops(copy)] == [(*drops(session)[0][:2], None)]
    assert not copy.context_at().replacements


def test_what_is_inferred_of_a_written_file_is_not_missing_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = cleared(tmp_path, model="claude-haiku-4-5")
    length = len(session.context_at())
    found = drops_of._explain_drop

    def guessed(facts: Facts, results: drops_of._Results, row: int, fall: int) -> Drop:
        first = next(row for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_RESULT)
        return replace(found(facts, results, row, fall), cleared_blocks=(first,))

    monkeypatch.setattr(drops_of, "_explain_drop", guessed)
    export(session, tmp_path / "copy.db", "koda")
    copy = ct.open_session(tmp_path / "copy.db")
    assert len(copy.context_at()) == length and len(copy.context_at().replacements) == 1


def test_a_recorded_microcompaction_explains_a_drop(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.step(size=40_000)
    made.steps()
    made.recording.microcompact("t1")
    made.clear(40_000)
    made.reply(text("reply"))
    session = made.recording.open(tmp_path)
    assert [(explained, results) for _, _, explained, results in drops(session)] == [("microcompaction", [])]
    assert {body.source for body in session.context_at().replacements.values()} == {"recorded"}


def test_what_falls_where_a_context_begins_anew_is_no_drop(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("long"), use=usage(150_000))
    recording.boundary(150_000)
    recording.summary()
    recording.user("go on")
    recording.assistant(text("short"), use=usage(20_000))
    recording.clear()
    recording.user("anew")
    recording.assistant(text("shorter"), use=usage(9_000))
    assert recording.open(tmp_path).drops == []


def test_drops_are_the_same_however_often_they_are_looked_for(tmp_path: Path) -> None:
    session = cleared(tmp_path)
    again = cleared(tmp_path)
    rows = again.facts.requests
    held = [rows.pop() for _ in range(6)]
    messages = [again.facts.request_message.pop() for _ in range(6)]
    assert find_drops(again.facts) == []
    for usage_, message in zip(reversed(held), reversed(messages), strict=True):
        rows.append(usage_)
        again.facts.request_message.append(message)
    assert find_drops(again.facts) == session.drops
    again.facts.begin_epoch(session.drops[0].message - 1, "clear")
    assert find_drops(again.facts) == [], "the cause of a fall that was told later counts"


def silently_cleared(*, boundary: bool, again: int, recorded: bool = False) -> Provider:
    """A recorded clearing; a silent one of the results after a cached prefix; what proves it.

    Args:
        again: how many of its four files are read again.
        recorded: whether the silent one is recorded instead.
    """
    made = Provider(base=30_000)
    made.user("do it")
    first = [made.step(size=30_000, file_path=f"{number}.py") for number in range(4)]
    made.steps()
    made.recording.microcompact(*first)
    made.clear(*[30_000] * 4)
    prefix = made.step("Task", size=60_000)  # not a tool whose results are cleared
    silent = [made.step(size=32_000, file_path=f"s{number}.py") for number in range(4)]
    cached = round(made.context) - 45_000
    later = [made.step(size=9_000, file_path=f"l{number}.py") for number in range(4)]
    if recorded:
        made.recording.microcompact(*silent)
    made.clear(*[32_000] * 4)
    made.reply(text("reply"), cached=cached)
    made.user("go on")
    for number in range(again):
        made.step(size=32_000, file_path=f"s{number}.py")
    if boundary:
        made.recording.microcompact(*later)
        made.clear(*[9_000] * 4)
    made.reply(text("done"))
    assert prefix not in silent
    return made


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("again", [0, 2, 4])
def test_later_records_prove_a_silent_clearing(tmp_path: Path, boundary: bool, again: int) -> None:
    made = silently_cleared(boundary=boundary, again=again)
    session = made.recording.open(tmp_path)
    found = next(drop for drop in session.drops if drop.explained_by != "microcompaction")
    silent = ["t18", "t19", "t20", "t21"] if boundary or again > 2 else []
    assert [session.facts.call_id(row) for row in found.cleared_blocks] == silent
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"")
    growing = None
    for count in range(2, len(made.recording.lines) + 1):
        path.write_bytes(b"".join(line + b"\n" for line in made.recording.lines[:count]))
        growing = growing or make_scanner(choose_session(path))
        growing.advance()
        assert count % 5 or growing.session().drops is not None  # searched in between
    assert growing is not None and growing.session().drops == session.drops


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "params"),
    [
        ("claude-code-micro-by-size", {}),
        ("anthropic-clear-tool-uses", {"trigger_tokens": 60_000}),
        ("anthropic-clear-tool-uses", {"trigger_tokens": 100_000}),
    ],
)
@pytest.mark.parametrize("proof", ["boundary", "again"])
def test_a_replay_counts_a_proven_silent_clearing_as_a_recorded_one(
    tmp_path: Path, policy: str, params: dict[str, Any], proof: str
) -> None:
    outcomes = []
    for recorded in (False, True):
        folder = tmp_path / str(recorded)
        folder.mkdir()
        made = silently_cleared(boundary=proof == "boundary", again=4, recorded=recorded)
        recording = RecordedSession(made.recording.open(folder))
        run = replay(recording, policy, **params)
        cases = compute_regret(run, build_use_index(recording)).cases
        outcomes.append(
            (
                [(firing.message, firing.cleared) for firing in run.firings],
                [(case.message, case.block, case.later) for case in cases],
                pytest.approx(run.totals.saved, rel=0.001) if recorded else run.totals.saved,
            )
        )
    assert outcomes[0] == outcomes[1]
    assert not [later for _, _, later in outcomes[0][1] if 53 <= later < 61], "the recording had cleared them itself"
