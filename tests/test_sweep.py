"""Many settings along sessions: each row is that of a replay of its own, and what beats what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.errors import PlanError
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.lab.replay.walk import replay_recording
from context_tui.lab.study import Lab
from context_tui.lab.sweep.clearing_kernel import RuleOutcomes, SweepTrack
from context_tui.lab.sweep.clearing_kernel import compute_outcomes as compute_rule_outcomes
from context_tui.lab.sweep.gate import Gate, LimitCheck, check_limits, list_worse_sessions, parse_gate
from context_tui.lab.sweep.grids import MAX_SETTINGS, SweepSetting, build_grid, merge_grids
from context_tui.lab.sweep.results import Sweep, build_sweep_report, sweep
from context_tui.lab.sweep.rows import (
    ParetoPoint,
    SettingCost,
    SettingDrops,
    SweepRow,
    build_row_report,
    compute_dominance,
    flatten_row,
    parse_row_report,
)
from context_tui.lab.sweep.session_sweep import SessionSweep, SweepOptions, sweep_session
from context_tui.policies.builtin.defect import DefectMicrocompact, DefectMicrocompactParams
from context_tui.policies.registry import POLICIES
from context_tui.policies.versions import find_recorded_params
from context_tui.session.session import Session
from context_tui.tokens.estimators import bytes4
from tests.formats import recordings
from tests.formats.recordings import call, conversations, result, text, usage

fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
MICRO = POLICIES["defect-microcompact"]


def growing(turns: int, reads: int = 2, hidden: int = 0) -> recordings.Recording:
    """Each turn reads files of 2,000 and of 200 tokens and answers; each call records what is there by then.

    A turn also brings *hidden* tokens that are not in the file.
    """
    made, size = recordings.Recording(), 10_000
    for turn in range(turns):
        made.user(f"turn {turn}")
        for read in range(reads):
            made.assistant(call(f"c{turn}-{read}", "Read", file_path=f"{turn}.py"), use=usage(0, read=size))
            made.results(result(f"c{turn}-{read}", f"{turn} line\n" * (1_000 if read % 2 == 0 else 100)))
            size += 2_000 if read % 2 == 0 else 200
        made.assistant(text("done"), use=usage(0, read=size))
        size += hidden
    return made


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return growing(8).open(tmp_path).with_window(30_000)


# -- settings


def names(found: list[SweepSetting]) -> list[str]:
    return [each.name for each in found]


def test_a_grid_is_every_combination_of_the_values() -> None:
    assert names(build_grid(MICRO, ["keep_recent_turns=2..3", "min_clear_tokens=256,512"])) == [
        "defect-microcompact keep_recent_turns=2 min_clear_tokens=256",
        "defect-microcompact keep_recent_turns=2",
        "defect-microcompact min_clear_tokens=256",
        "defect-microcompact",
    ]
    assert [each.is_default for each in build_grid(MICRO, ["keep_recent_turns=2..3"])] == [False, True]


def test_a_grid_reaches_into_the_policies_that_another_runs() -> None:
    found = build_grid(
        POLICIES["chain"], ["policies=defect-microcompact", "defect-microcompact.keep_recent_turns=1..2"]
    )
    assert [each.param_values["options"] for each in found] == [
        {"defect-microcompact": {"keep_recent_turns": turns}} for turns in (1, 2)
    ]
    assert found[0].params.policies == ("defect-microcompact",)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["keep_recent_turn=1..3"], "did you mean keep_recent_turns"),
        (["keep_recent_turns=0..3"], "at least 1"),
        (["keep_recent_turns=1..200", "min_clear_tokens=1..200:1"], "= 40,000 settings; at most 20,000"),
        (["keep_recent_turns"], "write KEY=VALUE"),
    ],
)
def test_what_is_wrong_with_a_grid_is_said(texts: list[str], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        build_grid(MICRO, texts)


def _many() -> list[SweepSetting]:
    one = build_grid(MICRO)[0]
    return [one._replace(name=str(number)) for number in range(MAX_SETTINGS)]


def test_grids_together_have_each_setting_once() -> None:
    assert names(merge_grids([build_grid(MICRO), build_grid(MICRO, ["keep_recent_turns=2..4"])])) == [
        "defect-microcompact",
        "defect-microcompact keep_recent_turns=2",
        "defect-microcompact keep_recent_turns=4",
    ]
    with pytest.raises(PlanError, match="at most"):
        merge_grids([_many(), build_grid(MICRO)])


# -- the frontier

points = st.dictionaries(
    st.integers(0, 40).map(str), st.builds(ParetoPoint, st.integers(-5, 9), st.integers(0, 9)), max_size=30
)


@given(points)
def test_what_is_beaten_is_beaten_by_one_that_nothing_beats(found: dict[str, ParetoPoint]) -> None:
    _, beaten, left, best = compute_dominance(found)
    assert best is None
    for name, point in found.items():
        by = [other for other in found if found[other].dominates(point)]
        assert (name in beaten) == bool(by)
        if by:
            assert beaten[name] in by and beaten[name] not in beaten
            least = [found[other].saved for other in found if found[other].regret <= point.regret]
            assert found[beaten[name]].saved == max(least)
    assert {found[name] for name in left} == {found[name] for name in found if name not in beaten}
    assert [found[name] for name in left] == sorted({found[name] for name in left}, key=lambda each: each.regret)


@given(points, st.integers(0, 9))
def test_the_best_saves_most_within_a_regret(found: dict[str, ParetoPoint], most: int) -> None:
    found["now"] = ParetoPoint(-6, most)
    chosen = compute_dominance(found, "now").best
    within = [each for each in found.values() if each.regret <= most]
    assert chosen and found[chosen] in within and found[chosen].saved == max(each.saved for each in within)


# -- the kernel

params = st.builds(
    DefectMicrocompactParams,
    keep_recent_turns=st.integers(1, 5),
    min_clear_tokens=st.sampled_from([0, 5, 20, 30, 300, 599, 2_000]),
    microcompact_ratio=st.sampled_from([0.01, 0.05, 0.3, 0.6, 0.61, 1.0]),
)


def compute_outcomes(
    recording: Recording, tried: list[DefectMicrocompactParams], recorded: CompactionHandling = "keep"
) -> RuleOutcomes:
    rules = [DefectMicrocompact().clearing_rule(each) for each in tried]
    return compute_rule_outcomes(SweepTrack(recording, rules[0], recorded), rules)


def totals(recording: Recording, each: DefectMicrocompactParams, recorded: CompactionHandling) -> tuple[int, ...]:
    made = replay_recording(recording, DefectMicrocompact(), each, recorded=recorded)
    gone = [row for row in made.removed_by_policy if row < len(recording.session.facts.kind)]
    sums = made.totals
    tokens = sum(bytes4(recording.session.facts, row) for row in gone)
    return sums.sent, sums.peak, sums.overflows, len(made.firings), len(gone), tokens


@fixtures
@given(
    recording=conversations(),
    tried=st.lists(params, min_size=1, max_size=30),
    recorded=st.sampled_from(["keep", "ignore"]),
    window=st.sampled_from([None, 1_000, 20_000, 150_000]),
)
def test_the_kernel_equals_replays(
    tmp_path: Path,
    recording: recordings.Recording,
    tried: list[DefectMicrocompactParams],
    recorded: CompactionHandling,
    window: int | None,
) -> None:
    there = Recording(recording.open(tmp_path).with_window(window))
    found = compute_outcomes(there, tried, recorded)
    for number, each in enumerate(tried):
        if found.is_known[number]:
            assert [int(column[number]) for column in found[1:]] == [*totals(there, each, recorded)]


@fixtures
@given(recording=conversations(compactions=False), tried=st.lists(params, min_size=1, max_size=9))
def test_the_kernel_knows_sessions_in_which_sizes_are_recorded_throughout(
    tmp_path: Path, recording: recordings.Recording, tried: list[DefectMicrocompactParams]
) -> None:
    there = Recording(recording.open(tmp_path).with_window(20_000))
    replies = sum("before_call" in phases for _, phases in there.checkpoints)
    if None not in there.recorded_sizes and not there.events and len(there.calls) == replies:
        found = compute_outcomes(there, tried)
        smallest = min(there.sizes, default=0)
        assert found.is_known.all() or smallest < 10_000  # where what was cleared may be more than what was recorded


def test_the_kernel_knows_settings_that_fire_and_that_do_not(session: Session) -> None:
    tried = [DefectMicrocompactParams(keep_recent_turns=turns, microcompact_ratio=0.5) for turns in (1, 2, 5, 9)]
    there = Recording(session)
    found = compute_outcomes(there, tried)
    assert found.is_known.all()
    assert [firings > 0 for firings in found.firings.tolist()] == [True, True, True, False]
    assert [totals(there, each, "keep") for each in tried] == [
        tuple(int(column[number]) for column in found[1:]) for number in range(4)
    ]


@pytest.mark.parametrize("recorded", ["keep", "ignore"])
def test_the_kernel_leaves_alone_what_the_recording_clears_after_a_setting_did(
    tmp_path: Path, recorded: CompactionHandling
) -> None:
    made = growing(3, hidden=200)
    made.microcompact("c0-0")
    made.user("go on")
    made.assistant(call("c9", "Read", file_path="9.py"), use=usage(0, read=15_600))
    made.results(result("c9", "9 line\n" * 1_000))
    made.assistant(text("done"), use=usage(0, read=17_600))
    there = Recording(made.open(tmp_path).with_window(20_000))
    tried = [
        DefectMicrocompactParams(keep_recent_turns=1, microcompact_ratio=ratio, min_clear_tokens=least)
        for ratio in (0.1, 0.87)
        for least in (0, 512)
    ]
    found = compute_outcomes(there, tried, recorded)
    assert found.is_known.tolist() == ([False, False, True, True] if recorded == "keep" else [True] * 4)
    for number, each in enumerate(tried):
        alone = totals(there, each, recorded)
        assert not found.is_known[number] or alone == tuple(int(column[number]) for column in found[1:])
        assert alone[3] > 0 or each.microcompact_ratio > 0.5


# -- rows are those of replays

GRIDS: dict[str, list[str]] = {
    "defect-microcompact": ["keep_recent_turns=1..3", "min_clear_tokens=0,300", "microcompact_ratio=0.05,0.3,0.6"],
    "defect-compact": ["compact_ratio=0.05..0.8:0.15", "compact_soft_ratio=0.05,0.4"],
    "chain": ["defect-microcompact.keep_recent_turns=1..2", "defect-compact.compact_ratio=0.1,0.3,0.9"],
    "koda-microcompact": ["gap_seconds=1,200,3600", "keep_recent=0..2"],
    "agent-sdk-prune": [],
    "anthropic-clear-tool-uses": ["trigger_tokens=1000,5000,90000", "keep_results=0..2", "clear_at_least=0,2000"],
    "gemini-masking": ["keep_result_tokens=0,500,1000", "clear_at_least=0,1000", "truncate_head=50,60"],
    "claude-code-auto": ["trigger_reserve=5000,20000,30000"],
    "swe-agent-last-n": [],
}


@fixtures
@given(
    recording=conversations(),
    name=st.sampled_from(sorted(GRIDS)),
    recorded=st.sampled_from(["keep", "ignore"]),
    quick=st.booleans(),
)
def test_every_row_is_that_of_its_own_replay(
    tmp_path: Path, recording: recordings.Recording, name: str, recorded: CompactionHandling, quick: bool
) -> None:
    session, how = (
        recording.open(tmp_path),
        SweepOptions(recorded, summary_tokens=100, delay=1, window=40_000, quick=quick),
    )
    chosen = build_grid(POLICIES[name], GRIDS[name])
    rows = {row.setting: row for row in sweep_session(session, chosen, how)}
    assert [*rows] and {*rows} == {each.name for each in chosen}
    alone = SessionSweep(session, session.info.path, how)
    for each in chosen:
        assert rows[each.name] == alone.replay_setting(each)
        open_values = find_recorded_params(each.policy.name, session.facts)
        by_version = {key: value for key, value in open_values.items() if key not in each.params.model_fields_set}
        assert rows[each.name].params == {**each.param_values, **by_version}


@pytest.mark.parametrize("quick", [False, True])
def test_each_setting_has_its_own_row(session: Session, quick: bool) -> None:
    """The kernel computes many settings at once, yet each row names its own."""
    values = {"keep_recent_turns": range(1, 5), "microcompact_ratio": [0.4, 0.5, 0.97, 0.98, 0.99]}
    lab, found = Lab(session), sweep([session], {MICRO.name: values}, how=SweepOptions(quick=quick))
    assert [each.setting for each in found.sorted_rows] == [each.name for each in found.settings]
    assert len(found.settings) == 21 and found.current == MICRO.name
    for setting, row in zip(found.settings, found.sorted_rows, strict=True):
        study = lab.run_study(MICRO, setting.params)
        totals, regret = study.replay.totals, study.regret
        assert (row.policy, row.params) == (MICRO.name, setting.param_values)
        assert (row.session, row.calls, row.firings) == (session.info.path, 24, len(study.replay.firings))
        assert (row.sent, row.saved, row.peak, row.overflows) == totals and row.without == row.sent + row.saved
        assert (row.drops.dropped, row.drops.tokens_dropped) == (regret.dropped, regret.tokens_dropped)
        assert row.drops.tokens_used_later == (None if quick else regret.tokens_used_later)
        costs = study.price.cost, study.price.baseline_cost, "USD"
        assert (row.cost is None) == quick
        if row.cost is not None:
            assert (row.cost.cost, row.cost.without, row.cost.unit) == costs
            assert row.cost.break_even_calls == study.price.break_even_calls
            assert bool(row.cost.refetch) == bool(regret.used_later)
    assert len({row.saved for row in found.rows}) > 3 and {row.firings > 0 for row in found.rows} == {True, False}


# -- a whole sweep


def row(session: str, setting: str, saved: int, regret: int, *, project: str = "p") -> SweepRow:
    found = {
        "session": session,
        "project": project,
        "setting": setting,
        "policy": "defect-microcompact",
        "params": {},
        "calls": 3,
        "firings": 1,
        "totals": {
            "sent": 1_000 - saved,
            "saved": saved,
            "peak": 500,
            "overflows": 0,
            "without": 1_000,
            "cost": {"cost": 2.0 - saved / 100, "without": 2.0, "unit": "USD"},
        },
        "regret": {"dropped": 2, "tokens_dropped": 90, "used_later": 1, "tokens_used_later": regret, "by_tier": {}},
        "dominated_by": None,
    }
    return parse_row_report(found)


def test_a_sweep_tells_what_beats_what_by_session_by_project_and_in_all() -> None:
    one, two, three = _many()[:3]
    rows = [
        *(row("a", name, saved, regret) for name, saved, regret in [("0", 10, 5), ("1", 20, 5), ("2", 30, 9)]),
        *(
            row("b", name, saved, regret, project="q")
            for name, saved, regret in [("0", 50, 0), ("1", 10, 0), ("2", 20, 1)]
        ),
    ]
    found = Sweep([one, two, three], rows, current="0")
    assert {(each.session, each.setting): each.dominated_by for each in found.sorted_rows if each.dominated_by} == {
        ("a", "0"): "1",
        ("b", "1"): "0",
        ("b", "2"): "0",
    }
    assert found.dominance.frontier == ["0"] and found.dominance.best == "0"
    assert found.dominance_by_project["p"].frontier == ["1", "2"] and found.dominance_by_project["p"].best == "1"
    assert found.totals["2"].saved == 50 and found.totals["2"].drops.tokens_used_later == 10
    assert found.totals["2"].cost and found.totals["2"].cost.cost == pytest.approx(3.5)


def test_money_is_added_in_one_unit_only() -> None:
    other = row("c", "0", 99, 5)._replace(cost=SettingCost(9.0, 9.0, "x"))
    rows = [row("a", "0", 10, 5), row("b", "0", 20, 5), other]
    found = Sweep(_many()[:1], rows, current="0", saving_unit="money")
    assert found.cost_unit == "USD"
    assert (
        found.totals["0"].cost
        and found.totals["0"].cost.cost == pytest.approx(3.7)
        and found.totals["0"].priced_sessions == 2
    )
    assert found.dominance.points["0"].saved == pytest.approx(0.3)


@pytest.mark.parametrize(("large", "unit"), [("USD", "USD"), ("input tokens", "input tokens")])
def test_the_unit_of_costs_is_that_of_most_sessions_whatever_fires(large: str, unit: str) -> None:
    costs = {"a": "USD", "b": large, "c": "input tokens"}
    rows = [
        row(session, name, 0, 0)._replace(
            cost=SettingCost(9.0, 9.0, each),
            firings=int(session == "c" and name == "1"),
            without=9_000 * (session == "c"),
        )
        for session, each in costs.items()
        for name in "012"
    ]
    sweeps = [
        Sweep(_many()[:count], [each for each in rows if each.setting in "012"[:count]], current="0")
        for count in (1, 2, 3)
    ]
    assert {found.cost_unit for found in sweeps} == {unit}
    counted = "2 of 3 sessions; 1 has no price" if unit == "USD" else "2 of 3 sessions; 1 has a price in USD"
    assert {found.format_coverage() for found in sweeps} == {f"costs of {counted}"}
    assert Sweep(_many()[:1], [each for each in rows if each.session == "a"]).format_coverage() == ""


def test_rows_go_to_json_and_back_and_into_columns() -> None:
    one = row("a", "0", 10, 5)
    assert parse_row_report(build_row_report(one)) == one
    columns = flatten_row(one)
    assert columns["regret.tokens_used_later"] == 5 and columns["cost.unit"] == "USD" and columns["saved"] == 10
    assert all(value is None or isinstance(value, str | int | float) for value in columns.values())


def test_the_api_sweeps_with_the_defaults_first(session: Session) -> None:
    found = sweep([session], {"defect-microcompact": {"keep_recent_turns": range(1, 4), "min_clear_tokens": "100,512"}})
    assert found.current == "defect-microcompact" and len(found.rows) == len(found.settings) == 6
    alone = ct.replay.replay(session, "defect-microcompact", keep_recent_turns=1)
    (one,) = [each for each in found.rows if each.setting == "defect-microcompact keep_recent_turns=1"]
    assert (one.saved, one.peak) == (alone.totals.saved, alone.totals.peak)
    assert one.cost and one.drops.used_later is not None
    report = build_sweep_report(found)
    assert report["schema"] == "context-tui.sweep/1" and len(report["rows"]) == 6
    assert {"session", "policy", "params", "totals", "regret", "dominated_by"} <= report["rows"][0].keys()


# -- the gate


def find_violations(gate: Gate, sweep: Sweep) -> list[LimitCheck]:
    return [check for check in check_limits(gate, sweep) if not check.kept]


def test_a_gate_tells_the_limits_that_are_not_kept() -> None:
    rows = [row("a", "old", 100, 5), row("a", "new", 90, 8), row("b", "old", 10, 0), row("b", "new", 30, 0)]
    found = Sweep(_many()[:2], rows, current="old")
    assert find_violations(Gate("old", "new", dict(sent=0.0, regret=3, saved=0.06), dict(regret=5)), found) == []
    (case,) = find_violations(Gate("old", "new", dict(regret=2), dict()), found)
    assert (case.session, case.limit, case.old, case.new, case.allowed) == ("", "regret", 5, 8, 7)
    told = find_violations(Gate("old", "new", dict(), dict(sent=0.01, cost=0.0)), found)
    assert [(each.session, each.limit) for each in told] == [("a", "sent"), ("a", "cost")]
    (case,) = find_violations(Gate("old", "new", dict(saved=0.5), dict()), found)
    assert str(case) == "all sessions: tokens saved: 120, was 110; allowed: at least 1,000"


def test_a_gate_limits_the_extra_calls_that_an_agent_may_need() -> None:
    costs = {"old": SettingCost(90.0, 100.0, "USD", 0.0, 10.0), "new": SettingCost(96.0, 100.0, "USD", 0.0, 10.0)}
    rows = [row("a", name, 100, 5)._replace(cost=costs[name]) for name in costs]
    found = Sweep(_many()[:2], rows, current="old")
    assert find_violations(Gate("old", "new", dict(min_break_even=0.4), dict()), found) == []
    (case,) = find_violations(Gate("old", "new", dict(min_break_even=0.5), dict()), found)
    assert (case.old, case.new, case.allowed) == (1.0, 0.4, 0.5) and "allowed: at least 0.5" in str(case)
    assert build_row_report(rows[0])["break_even_calls_per_1000"] == 1.0
    nothing = [each._replace(cost=SettingCost(100.0, 100.0, "USD")) for each in rows]
    sweep = Sweep(_many()[:2], nothing, current="old")
    assert find_violations(Gate("old", "new", dict(min_break_even=0.5), dict()), sweep) == []


def test_the_sessions_behind_a_limit_are_named_the_worst_first() -> None:
    regrets = {"a": (5, 8), "b": (0, 9), "c": (7, 2), "d": (4, 4)}
    rows = [
        row(each, name, 100, of)
        for each, both in regrets.items()
        for name, of in zip(("old", "new"), both, strict=True)
    ]
    found, gate = Sweep(_many()[:2], rows, current="old"), Gate("old", "new", dict(regret=0, saved=1.0), dict())
    regret, saved = find_violations(gate, found)
    assert list_worse_sessions(regret, gate, found) == ["b: 9, was 0", "a: 8, was 5"]
    assert list_worse_sessions(saved, gate, found) == []


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"new": "x", "limits": {"sent": 0}}, "old is missing"),
        ({"old": "x", "new": "y"}, "limits are missing"),
        ({"old": "x", "new": "y", "limits": {"send": 0}}, "limits.send: unknown limit"),
        ({"old": "x", "new": "y", "limits": {"session": {"sent": "a"}}}, "limits.session.sent must be a number"),
        ({"old": "x", "new": "y", "limits": {"sent": 0}, "more": 1}, "more: unknown"),
    ],
)
def test_what_is_wrong_with_a_gate_is_said(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        parse_gate(tables)


def test_a_gate_on_what_is_not_known_says_so() -> None:
    unknown = SettingDrops(2, 90)
    rows = [row("a", name, 100, 5)._replace(drops=unknown) for name in ("old", "new")]
    with pytest.raises(PlanError, match="tokens needed later of old are unknown"):
        find_violations(Gate("old", "new", dict(regret=2), dict()), Sweep(_many()[:2], rows))
