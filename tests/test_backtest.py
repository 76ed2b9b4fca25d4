"""A policy held against recorded compactions: where it would have fired, and which threshold explains them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.lab.replay.backtest import (
    BacktestCase,
    BacktestResult,
    ThresholdInterval,
    backtest_policy,
    find_explaining_threshold,
    run_backtests,
)
from context_tui.lab.replay.recording import Recording
from context_tui.lab.sweep.grids import build_grid
from context_tui.lab.sweep.results import build_sweep_report, sweep
from context_tui.policies.base import BasePolicy, Policy, build_empty_plan
from context_tui.policies.base import Params as AnyParams
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.versions import FORMER_POLICIES, OWN_POLICIES
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens.accounting import find_standing_blocks
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.estimators import count_result_by_characters
from context_tui.tokens.measures import build_calibrated_table
from context_tui.tui.comparison import Lane
from context_tui.tui.sweep.board import SweepBoard
from context_tui.tui.sweep.screen import merge_params
from context_tui.tui.sweep.table import format_setting_values
from context_tui.tui.view import View
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage
from tests.small_sessions import NAMES, open_small

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "claude-code"


class At(BasePolicy):
    """Fires when it believes to have so many tokens, the last reply's too."""

    name: ClassVar[str] = "at"
    about: ClassVar[str] = "fires at a size"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[AnyParams]] = AnyParams

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold

    def trigger(self, state: RuntimeState, params: object) -> Trigger:
        value = state.believed_tokens + (state.recorded_usage.output if state.recorded_usage else 0)
        return Trigger(value >= self.threshold, f"has {value:,}", value, self.threshold)

    def plan(self, context: Context, params: AnyParams, state: RuntimeState) -> Plan:
        return build_empty_plan(self.name, params, context, self.trigger(state, params), "nothing")


def held(session: Session, policy: Policy, *, kind: str = "full", threshold: int | None = None) -> list[BacktestResult]:
    """A policy held against the compactions of a kind."""
    cases = [BacktestCase(each, AnyParams()) for each in session.facts.compactions if each.kind == kind]
    return backtest_policy(Recording(session), policy, cases, threshold)


def compacted(*sizes: int, trigger: str = "auto", tokens: int | None = None) -> recordings.Recording:
    """A call of each size, and then a compaction at *tokens*, by default the last size."""
    made = recordings.Recording()
    for size in sizes:
        made.user("go on")
        made.assistant(text("ok"), use=usage(size, output=0))
    made.boundary(tokens if tokens is not None else (sizes or (1_000,))[-1], trigger)
    made.summary()
    made.assistant(text("going on"), use=usage(1_000))
    return made


@pytest.mark.parametrize(
    ("threshold", "off_by", "why"),
    [
        (50_000, 0, "it fires there"),
        (49_999, 0, "it fires there"),
        (40_000, -1, "it fires 1 call earlier"),
        (20_000, -3, "it fires 3 calls earlier"),
        (60_000, None, "it does not fire there"),
    ],
)
def test_how_many_calls_it_is_off(tmp_path: Path, threshold: int, off_by: int | None, why: str) -> None:
    session = compacted(10_000, 20_000, 30_000, 40_000, 50_000).open(tmp_path)
    (found,) = held(session, At(threshold))
    assert found.testable and found.off_by == off_by and found.why.startswith(why)
    assert (found.recorded, found.above) == (50_000, 40_000)
    assert found.is_hit == (off_by in (0, -1))


def test_the_size_that_the_file_tells_is_what_the_runtime_believed(tmp_path: Path) -> None:
    session = compacted(10_000, 20_000, tokens=90_000).open(tmp_path)
    (found,) = held(session, At(80_000))
    assert (found.recorded, found.off_by) == (90_000, 0)


def test_where_the_file_tells_another_size_than_the_policy_believes_both_are_said(tmp_path: Path) -> None:
    session = compacted(10_000, 20_000, tokens=70_000).open(tmp_path)
    (found,) = held(session, At(80_000))
    assert found.off_by is None and "the file says 70,000; has 20,0" in found.why
    (found,) = held(session, At(80_000), threshold=75_000)
    assert "the file says 70,000; 20,0" in found.why


class Idle(At):
    """Looks at the time alone."""

    def trigger(self, state: RuntimeState, params: object) -> Trigger:
        return Trigger(False, "idle 30 s", 30, self.threshold, unit="seconds")


def test_seconds_are_not_told_as_tokens_that_were_believed(tmp_path: Path) -> None:
    made = recordings.Recording()
    made.user("go on")
    made.assistant(call("c0", "Read"), use=usage(10_000))
    made.results(result("c0", "a line\n" * 1_000))
    made.assistant(text("ok"), use=usage(12_000))
    made.microcompact("c0")
    made.user("go on")
    made.assistant(text("ok"), use=usage(10_000))
    (found,) = held(made.open(tmp_path), Idle(3_600), kind="micro")
    assert found.testable and found.recorded is None and found.why.endswith("idle 30 s")


def test_what_a_person_asked_for_or_has_no_size_is_not_testable(tmp_path: Path) -> None:
    by_hand = compacted(10_000, 20_000, trigger="manual").open(tmp_path)
    (found,) = held(by_hand, At(5_000))
    assert not found.testable and "user" in found.why
    made = recordings.Recording()
    made.user("go on")
    made.boundary(998_659)
    made.summary()
    made.assistant(text("going on"), use=usage(1_000))
    (found,) = held(made.open(tmp_path), At(5_000))
    assert not found.testable and found.off_by is None and "no size was recorded" in found.why


def test_another_threshold_is_tried(tmp_path: Path) -> None:
    session = compacted(10_000, 20_000, 30_000).open(tmp_path)
    (found,) = held(session, At(99_000), threshold=30_000)
    assert found.off_by == 0


def at_size(above: int, most: int, *, testable: bool = True) -> BacktestResult:
    return BacktestResult(0, "full", "auto", most, testable, 0, "", above)


def test_the_thresholds_that_explain_most() -> None:
    assert find_explaining_threshold([]) is None
    assert find_explaining_threshold([at_size(5, 9, testable=False)]) is None
    assert find_explaining_threshold([at_size(100, 110)]) == ThresholdInterval(100, 110, 1, 1)
    assert find_explaining_threshold([at_size(100, 120), at_size(110, 130)]) == ThresholdInterval(110, 120, 2, 2)
    assert find_explaining_threshold([at_size(100, 120), at_size(110, 130), at_size(150, 160)]) == ThresholdInterval(
        110, 120, 2, 3
    )


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_recorded_compactions_of_one_runtime_version_have_one_threshold() -> None:
    """Claude Code 2.1.7 to 2.1.20 kept 32,000 tokens of 200,000 for the reply and 13,000 more: 155,000."""
    found = list[BacktestResult]()
    for name in ("cli__compact2_micro1", "cli__compact3", "cli__compact4_micro2"):
        found += held(ct.open_session(CORPUS / f"{name}.jsonl"), At(155_000))
    best = find_explaining_threshold(found)
    assert best is not None and (best.explains, best.of) == (6, 6)
    assert best.above < 155_000 <= best.most
    assert [each.off_by for each in found] == [0, 0, -2, -1, 0, 0]


@pytest.mark.parametrize(
    ("version", "tokens", "hit"),
    [
        *(("2.1.20", 155_000, True), ("2.0.5", 155_000, True), ("2.1.20", 154_900, False)),
        *(("2.1.21", 155_000, False), ("2.1.21", 167_000, True), ("1.0.51", 155_000, False)),
        *(("nightly", 155_000, False), ("", 167_000, True)),
    ],
)
def test_the_own_policy_is_that_of_the_version(tmp_path: Path, version: str, tokens: int, hit: bool) -> None:
    made = compacted(100_000, 150_000, tokens=tokens)
    made.lines = [line.replace(b"2.1.100", version.encode()) for line in made.lines]
    (found,) = run_backtests(Recording(made.open(tmp_path)))
    assert (found.policy, found.results[0].off_by) == ("claude-code-auto", 0 if hit else None)
    once = "trigger_reserve" in found.cases[0].params.model_fields_set
    assert once == (version in ("2.0.5", "2.1.20"))


@pytest.mark.parametrize(
    ("tokens", "version", "policy", "off_by", "why", "line"),
    [
        (130_000, "2.1.20", "claude-code-micro-by-size", 0, "it fires there", "{}" * 2),
        (130_000, "2.1.20", "claude-code-micro-by-size", 0, "it fires there", "{}→"),  # as many characters, more bytes
        (124_000, "2.1.20", "claude-code-micro-by-size", None, "it does not fire there", "{}" * 2),
        (130_000, "2.1.21", "claude-code-micro", None, "it does not fire there", "{}" * 2),
    ],
)
def test_a_clearing_is_held_against_what_would_be_cleared(
    tmp_path: Path, tokens: int, version: str, policy: str, off_by: int | None, why: str, line: str
) -> None:
    """The trigger holds from the second call on (results of 10,000 tokens are new), but only the sixth makes enough."""
    made = recordings.Recording()
    made.user("do it")
    for number in range(6):
        made.assistant(call(f"c{number}", "Read", file_path="a.py"), use=usage(tokens, output=0))
        made.results(result(f"c{number}", line.format(number, number) * 20_000))
    made.microcompact("c0", "c1")
    made.assistant(text("done"), use=usage(100_000))
    made.lines = [line.replace(b"2.1.100", version.encode()) for line in made.lines]
    (found,) = run_backtests(Recording(made.open(tmp_path)))
    (tested,) = found.results
    assert (found.policy, tested.off_by) == (policy, off_by) and tested.why.startswith(why)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
@pytest.mark.parametrize(
    ("name", "redacted"), [("cli__compact2_micro1", [0]), ("cli__compact4_micro2", [38_535 - 35_564, 27_012 - 26_863])]
)
def test_recorded_clearings_tell_their_own_estimate(name: str, redacted: list[int]) -> None:
    """To the token, but for secrets that a recorder took out of results cleared later: what stays is always exact."""
    session = ct.open_session(CORPUS / f"{name}.jsonl")
    facts, cleared, missing = session.facts, set[int](), list[int]()
    tools = POLICIES["claude-code-micro-by-size"].Params().tools  # type: ignore[attr-defined]
    for each in (compaction for compaction in facts.compactions if compaction.kind == "micro"):
        assert each.pre_tokens and each.saved_tokens
        rows = [row for message in session.context_at(each.message).order for row in facts.blocks_of(message)]
        rows = [row for row in rows if facts.kind[row] == Kind.TOOL_RESULT and facts.tool_name(row) in tools]
        kept = [row for row in rows if row not in each.cleared_blocks and row not in cleared]
        assert sum(count_result_by_characters(facts, row) for row in kept) == each.pre_tokens - each.saved_tokens
        saved = sum(count_result_by_characters(facts, row) for row in each.cleared_blocks)
        missing.append(each.saved_tokens - saved)
        cleared |= each.cleared_blocks
    assert missing == redacted


def test_every_policy_that_an_agent_has_or_had_is_there() -> None:
    had = [each for several in FORMER_POLICIES.values() for each in several]
    for name in [
        *(name for kinds in OWN_POLICIES.values() for name in kinds.values()),
        *FORMER_POLICIES,
        *(each.policy for each in had),
    ]:
        assert name in POLICIES
    for each in had:
        assert POLICIES[each.policy].Params(**each.params).model_fields_set == {*each.params}


def test_a_back_test_stops_when_it_is_told_to(tmp_path: Path) -> None:
    session = compacted(100_000, 150_000).open(tmp_path)
    asked = list[None]()
    found = run_backtests(Recording(session), lambda: asked.append(None))
    assert found == run_backtests(Recording(session)) and len(asked) > len(session)

    for at in range(len(asked)):
        with pytest.raises(IndexError):
            run_backtests(Recording(session), ([None] * at).pop)


def record_inserted(before: list[Any], after: list[Any], size_after: int) -> recordings.Recording:
    """Fourteen calls and a compaction, with attachments before the first request and behind the boundary."""
    made = recordings.Recording()
    made.user("do it")
    for attachment in before:
        made.add("attachment", **attachment)
    for number in range(14):
        made.assistant(text("x" * 400), call(f"c{number}"), use=usage(20_000 + 400 * number, output=0))
        made.results(result(f"c{number}", "y" * 1_200))
    made.boundary(25_600, "auto")
    made.summary("s" * 4_000)
    for attachment in after:
        made.add("attachment", **attachment)
    made.assistant(text("going on"), use=usage(size_after))
    return made


@pytest.mark.parametrize("again", [False, True])
def test_what_an_agent_does_not_insert_again_is_gone(tmp_path: Path, again: bool) -> None:
    """Of two texts before the first request, the file has one behind the boundary; of the hook's text, none."""
    listing, hook = (
        {"attachment": {"type": kind}, "rendered": [{"role": "user", "content": letter * size}]}
        for kind, letter, size in (("date", "l", 8_000), ("hook", "h", 16_000))
    )
    session = record_inserted([listing, hook], [listing] if again else [], 17_000).open(tmp_path)
    standing = [session.facts.size[row] // 8_000 for row in find_standing_blocks(session.facts)]
    assert standing == ([1] if again else [1, 2])
    predicted = held(session, At(1))[0].after_predicted
    assert predicted == pytest.approx(17_000 if again else 21_000, rel=0.06), "without records, all is inserted again"


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_agents_compact_where_their_own_policies_do() -> None:
    """All recorded compactions that can be tested, by thresholds that nothing was fitted to."""
    paths = [*CORPUS.glob("*.jsonl"), *CORPUS.with_name("codex").glob("*.jsonl")]
    sessions = [ct.open_session(path) for path in sorted(paths)]
    compacting = [each for each in sessions if any(found.kind == "full" for found in each.facts.compactions)]
    tested = [
        each.off_by
        for session in compacting
        for back in run_backtests(Recording(session))
        for each in back.results
        if each.testable
    ]
    assert len(tested) == 16 and set(tested) == {0, -1}
    errors = sorted(
        abs(each.after_predicted / each.after_recorded - 1)
        for session in compacting
        for back in run_backtests(Recording(session))
        for each in back.results
        if each.after_recorded and each.after_predicted
    )
    assert len(errors) == 13 and errors[6] < 0.02 and errors[12] < 0.15


@pytest.mark.parametrize(("version", "reserve"), [("2.1.20", 45_000), ("2.1.160", 33_000), ("nightly", 33_000)])
def test_a_preset_takes_the_version_that_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, reserve: int
) -> None:
    """In one output the back-test and the replay agree, and the replay says where its settings are from."""
    made = compacted(100_000, 150_000, tokens=155_000)
    made.lines = [line.replace(b"2.1.100", version.encode()) for line in made.lines]
    path = str(made.write(tmp_path))
    session = ct.open_session(path)
    run, plan = ct.replay.replay(session, "claude-code-auto"), ct.plan(session, "claude-code-auto")
    assert run.params.model_dump()["trigger_reserve"] == plan.params.model_dump()["trigger_reserve"] == reserve
    copy = ct.apply(session, ct.plan(session, "claude-code-auto", force=True), summary="So far.")
    assert ct.plan(copy, "claude-code-auto").params == plan.params, "a copy is of the version that recorded"
    other = ct.plan(session, "claude-code-auto", trigger_reserve=40_000)
    assert other.params.model_dump()["trigger_reserve"] == 40_000
    assert main(["replay", path, "-P", "claude-code-auto"]) == 0
    output = capsys.readouterr().out
    told = f"trigger_reserve=45000 keep_messages=0: as in version {version}, which recorded this session"
    assert (told in output) == (reserve == 45_000) == ("it fires there" in output)
    view = View(session, policy="claude-code-auto")
    assert view.policy_params.model_dump()["trigger_reserve"] == reserve
    assert view.with_param("claude-code-auto", "trigger_reserve", 33_000).policy_params.trigger_reserve == 33_000  # type: ignore[attr-defined]


@pytest.mark.parametrize(("version", "firings"), [("2.1.20", 1), ("2.1.160", 0)])
def test_a_sweep_takes_the_version_that_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, firings: int
) -> None:
    """Also in its worker processes; a parameter that is given counts for every session."""
    made = recordings.Recording()
    for size in (100_000, 160_000, 161_000):
        made.user("go on")
        made.assistant(text("ok"), use=usage(size, output=0))
    made.lines = [line.replace(b"2.1.100", version.encode()) for line in made.lines]
    path = str(made.write(tmp_path))
    assert len(ct.replay.replay(ct.open_session(path), "claude-code-auto").firings) == firings
    session = ct.open_session(path)
    reserve = 45_000 if firings else 33_000
    swept = sweep([session], {"claude-code-auto": {"trigger_reserve": [33_000]}})
    assert [each.name for each in swept.settings] == ["claude-code-auto", "claude-code-auto trigger_reserve=33000"]
    assert [row.params["trigger_reserve"] for row in swept.sorted_rows] == [reserve, 33_000], "what ran"
    report = build_sweep_report(swept)
    assert [each["params"]["trigger_reserve"] for each in report["settings"]] == [reserve, 33_000]
    board = SweepBoard(swept)
    by_version = " (by version: trigger_reserve=45000 keep_messages=0)" if firings else ""
    assert board.format_label("claude-code-auto") in ("defaults" + by_version, "defaults (by version: keep_messages=0)")
    lane = Lane(View(session, policy="claude-code-auto"))
    assert lane.label.endswith(f"(as in version {version})") == bool(firings)
    for given, expected in (("summary_max_tokens=10000,20000", firings), ("trigger_reserve=33000,34000", 0)):
        assert main(["sweep", path, "-P", "claude-code-auto", "-p", given, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        values = {name for name in ("summary_max_tokens", "trigger_reserve") if name in given}
        assert {row["firings"] for row in rows if any(name in row["setting"] for name in values)} == {expected}
        assert {row["firings"] for row in rows if row["setting"] == "claude-code-auto"} == {firings}, "the version's"


def test_a_sweep_of_several_versions_says_so(tmp_path: Path) -> None:
    sessions = list[Session]()
    for version in ("2.1.20", "2.1.160"):
        made = compacted(100_000, 150_000, tokens=155_000)
        made.lines = [line.replace(b"2.1.100", version.encode()) for line in made.lines]
        (tmp_path / version).mkdir()
        sessions.append(ct.open_session(made.write(tmp_path / version)))
    swept = sweep(sessions, {"claude-code-auto": {"trigger_reserve": [34_000]}})
    first, second = swept.settings
    assert swept.find_param_values(first)["trigger_reserve"] == "by version"
    assert swept.find_param_values(second)["trigger_reserve"] == 34_000
    assert merge_params({}, build_grid(first.policy, ["trigger_reserve=33000"])[0]) == {
        "claude-code-auto": {"trigger_reserve": 33_000}
    }
    assert "trigger_reserve=by version" in format_setting_values(SweepBoard(swept), first.name)


def long_run(files: dict[str, str], skills: Sequence[str] = ()) -> recordings.Recording:
    """A run that begins with 20,000 tokens that are not in the file, reads files, and grows by 400 a call."""
    made = recordings.Recording()
    made.user("go on")
    size = 20_000
    for number in range(14):
        made.assistant(text("x" * 400), call(f"c{number}"), use=usage(size, output=0))
        made.results(result(f"c{number}", "y" * 1_200))
        size += 400
    for number, skill in enumerate(skills):
        made.assistant(call(f"s{number}", "Skill"), use=usage(size, output=0))
        made.results(result(f"s{number}", "Launching"))
        made.user([text(skill)], isMeta=True)
        size += len(skill) // 4
    for number, (path, content) in enumerate(files.items()):
        made.assistant(call(f"r{number}", "Read", file_path=path), use=usage(size, output=0))
        lines = content.count("\n") + 1
        file = {"filePath": path, "content": content, "numLines": lines, "startLine": 1, "totalLines": lines}
        made.results(result(f"r{number}", content), toolUseResult={"type": "text", "file": file})
        size += len(content) // 4
    made.assistant(text("so."), use=usage(size, output=0))
    made.boundary(size, "auto")
    return made


@pytest.mark.parametrize(
    ("files", "restored"),
    [
        ({}, 0),
        ({"/a.py": "z" * 8_000}, 2_000 + 55),
        ({"/a.py": "z" * 80_000}, 62),
        ({"/CLAUDE.md": "z" * 8_000}, 0),
        ({f"/{name}.py": "z" * 4_000 for name in "abcdefg"}, 5 * (1_000 + 55)),
    ],
)
def test_the_size_after_a_compaction_is_predicted(tmp_path: Path, files: dict[str, str], restored: int) -> None:
    made = long_run(files)
    made.summary("s" * 4_000)
    made.assistant(text("going on"), use=usage(21_000 + restored))
    session = made.open(tmp_path)
    (found,) = held(session, At(1))
    assert found.after_recorded == 21_000 + restored
    assert found.after_predicted == pytest.approx(found.after_recorded, rel=0.06)
    at, table = len(session) - 1, build_calibrated_table(session.facts)
    context = session.context_at(at)
    account = compute_next_request(ct.plan(session, "none", at=at), token_table=table).account
    assert account.tokens == found.after_predicted and account.size.low <= found.after_recorded + 500
    by_category = measure_breakdown(context, table).by_category
    assert sum(by_category.values()) == account.tokens and by_category["put_back"] == pytest.approx(restored, rel=0.2)
    assert account.resize(account.content, 0).tokens == account.fixed, "what was put back does not survive"


SKILL = "Base directory for this skill: /skills/review\n" + "k" * 3_950


@pytest.mark.parametrize(("skills", "restored"), [([], 2_055), ([SKILL], 3_055), ([SKILL, SKILL], 3_055)])
def test_a_plan_and_a_replay_count_what_the_agent_puts_back(tmp_path: Path, skills: list[str], restored: int) -> None:
    made = long_run({"/a.py": "z" * 8_000}, skills=skills)
    made.assistant(text("going on"), use=usage(28_000))
    session = made.open(tmp_path)
    at = len(session) - 1
    plan = ct.plan(session, "claude-code-auto", at=at, force=True, keep_messages=0, trigger_reserve=1_000)
    table = build_calibrated_table(session.facts)
    request = compute_next_request(plan, token_table=table)
    assert request.restored_tokens == pytest.approx(restored, rel=0.2)
    without = compute_next_request(replace(plan, restoration=None), token_table=table)
    assert request.tokens_after - without.tokens_after == request.restored_tokens
    assert request.after.high - request.after.low > without.after.high - without.after.low, "it is less certain"
    limit = {"window": 200_000, "trigger_reserve": 200_000 - session.facts.requests[-2].context, "keep_messages": 0}
    (firing,) = ct.replay.replay(session, "claude-code-auto", recorded="ignore", **limit).firings
    summary = 2_000 * table.get_factor(Kind.TEXT)
    assert firing.after == pytest.approx(request.tokens_after + summary, rel=0.02)


def test_a_summary_without_text_counts_as_one_of_usual_size(tmp_path: Path) -> None:
    made = long_run({})
    made.summary("")
    made.assistant(text("going on"), use=usage(22_000))
    (found,) = held(made.open(tmp_path), At(1))
    assert found.after_predicted == pytest.approx(22_000, rel=0.03)


def test_what_an_agent_inserts_again_is_not_counted_twice(tmp_path: Path) -> None:
    """Listings stand before the first request and, recorded once more, behind the boundary."""
    listing = {"attachment": {"type": "date"}, "rendered": [{"role": "user", "content": "l" * 8_000}]}
    sizes = []
    for again in (False, True):
        (tmp_path / str(again)).mkdir()
        session = record_inserted([listing], [listing] if again else [], 21_000).open(tmp_path / str(again))
        assert any(session.facts.size[row] >= 8_000 for row in find_standing_blocks(session.facts))
        sizes.append(held(session, At(1))[0].after_predicted)
    assert sizes[0] == sizes[1] == pytest.approx(21_000, rel=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_every_full_compaction_of_every_format_is_in_the_back_test(name: str, tmp_path: Path) -> None:
    session = open_small(name, tmp_path)
    full = [each for each in find_recorded_compactions(session) if each.kind == "full"]
    results = [
        each for backtest in run_backtests(Recording(session)) for each in backtest.results if each.kind == "full"
    ]
    assert {each.message: each.after_recorded for each in results} == {
        each.message: each.recorded_tokens_after for each in full
    }
