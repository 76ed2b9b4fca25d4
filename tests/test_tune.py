"""Recommendations: the best setting, its evidence, and when there is too little of it; the command that prints them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from context_tui.lab.sweep.grids import build_grid, build_setting
from context_tui.lab.sweep.recommendation import (
    Recommendation,
    build_recommendation_report,
    format_recommendation,
    list_configurable_parameters,
    recommend_setting,
)
from context_tui.lab.sweep.results import Sweep
from context_tui.lab.sweep.rows import SettingCost, SettingDrops, SweepRow
from context_tui.policies.registry import POLICIES
from context_tui.session.window import Window
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage

AUTO = POLICIES["claude-code-auto"]
WINDOW = Window(200_000, "given")


def build_row(
    session: str, reserve: int, cost: float, refetch: float = 0.0, firings: int = 1, over: int = 0
) -> SweepRow:
    (setting,) = build_grid(AUTO, [f"trigger_reserve={reserve}"])
    drops = SettingDrops(3, 900, 2, 300, {})
    unpriced = (
        session,
        "project",
        setting.name,
        AUTO.name,
        setting.param_values,
        10,
        firings,
        900,
        100,
        90,
        over,
        1_000,
    )
    return SweepRow(*unpriced, drops, SettingCost(cost, 12.0, "USD", refetch))


def recommend(costs: dict[str, dict[int, float]], **changes: Any) -> Recommendation:
    """Recommend by the cost of each reserve in each session; 33,000 is the current one."""
    reserves = list(next(iter(costs.values())))
    rows = [build_row(session, each, cost, **changes) for session, by in costs.items() for each, cost in by.items()]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in reserves]
    return recommend_setting(Sweep(grid, rows, current=grid[0].name, saving_unit="money"))


def test_the_setting_that_costs_least_is_recommended_with_its_evidence() -> None:
    costs = {f"s{number}": {33_000: 10.0, 50_000: 9.05, 60_000: 9.0, 80_000: 9.9} for number in range(8)}
    costs["s3"] = {33_000: 10.0, 50_000: 10.4, 60_000: 10.4, 80_000: 10.6}
    found = recommend(costs)
    assert (found.verdict, found.setting.name) == ("recommended", "claude-code-auto trigger_reserve=60000")
    assert found.saved == pytest.approx(6.6) and found.gains["s3"] == pytest.approx(-0.4)
    assert found.ranges == {"trigger_reserve": (60_000, 60_000)}  # 50,000 saves 6.25, less than 95 % of 6.6
    assert found.largest[0] == "s0" and found.largest[1] == pytest.approx(1 / 7)
    assert 0 < found.interval[0] < 6.6 < found.interval[1] <= 8
    said = " ".join(format_recommendation(found))
    assert "Recommended: trigger_reserve=60000 in place of trigger_reserve=33000." in said
    assert "It saves $6.60 (8.2%)" in said and "It costs more in 1 session, by at most $0.40." in said


@pytest.mark.parametrize(("rate", "verdict"), [(0.1, "recommended"), (2.0, "depends on extra calls")])
def test_a_setting_is_recommended_only_if_it_also_wins_with_the_measured_extra_calls(rate: float, verdict: str) -> None:
    rows = []
    for number in range(5):
        for reserve, cost, extra_calls in ((33_000, 10.0, 0.1), (60_000, 9.0, 1.0)):
            row = build_row(f"s{number}", reserve, cost)
            rows.append(row._replace(cost=SettingCost(cost, 12.0, "USD", 0.0, extra_calls)))
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in (33_000, 60_000)]
    found = recommend_setting(Sweep(grid, rows, current=grid[0].name, saving_unit="money"), [rate])
    assert found.verdict == verdict and [each.extra_calls for each in found.ranking] == [0.0, rate]
    assert found.ranking[0].saved == pytest.approx(5.0)
    winner = "claude-code-auto trigger_reserve=60000" if verdict == "recommended" else "claude-code-auto"
    assert found.ranking[1].setting.startswith(winner) and found.ranking[1].wins == 1_000
    assert f"With {rate:+.3f} extra calls per 1,000 removed tokens" in " ".join(format_recommendation(found))


@pytest.mark.parametrize("best", [33_000, 60_000])
def test_the_baseline_is_what_each_recording_version_had(best: int) -> None:
    (unset, *grid) = [build_setting(AUTO, AUTO.Params()), *build_grid(AUTO, [f"trigger_reserve={best}"])]
    rows = [build_row(f"s{number}", best, 9.0) for number in range(5)]
    for number in range(5):
        params = {**unset.param_values, "trigger_reserve": 33_000 if number < 2 else 45_000}
        rows.append(build_row(f"s{number}", 1, 10.0)._replace(setting=unset.name, params=params))
    sweep = Sweep([unset, *grid], rows, current=unset.name, saving_unit="money")
    own = "each version's own trigger_reserve (45,000 in 3 and 33,000 in 2 of 5 sessions)"
    answer = f"Recommended: trigger_reserve={best} in place of {own}."
    found = recommend_setting(sweep)
    assert format_recommendation(found)[0] == answer and found.ranges == {"trigger_reserve": (best, best)}
    assert build_recommendation_report(found, ())["why"].startswith(answer)
    rows = [row._replace(params={**row.params, "trigger_reserve": 45_000}) for row in rows if row.setting == unset.name]
    same = recommend_setting(replace(sweep, rows=[*sweep.rows[:5], *rows]))
    assert "in place of trigger_reserve=45000." in format_recommendation(same)[0]


def test_settings_that_save_about_as_much_are_a_range() -> None:
    costs = {f"s{number}": {33_000: 10.0, 50_000: 9.02, 60_000: 9.0, 80_000: 9.04, 100_000: 9.5} for number in range(3)}
    assert recommend(costs).ranges == {"trigger_reserve": (50_000, 80_000)}


@pytest.mark.parametrize(("loss", "saved", "is_gentler"), [(600, 9.1, True), (800, 9.1, False), (600, 9.3, False)])
def test_a_setting_that_saves_nearly_as_much_and_loses_less_is_named(loss: int, saved: float, is_gentler: bool) -> None:
    losses, costs = {33_000: 300, 50_000: loss, 60_000: 1_000}, {33_000: 10.0, 50_000: saved, 60_000: 9.0}
    rows = [
        build_row(f"s{number}", reserve, cost)._replace(drops=SettingDrops(3, 900, 2, losses[reserve], {}))
        for number in range(4)
        for reserve, cost in costs.items()
    ]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in costs]
    found = recommend_setting(Sweep(grid, rows, current=grid[0].name, saving_unit="money"))
    sentence = "trigger_reserve=50000 saves 90% as much and loses 40% less of what was needed later."
    assert (sentence in format_recommendation(found)) == is_gentler == (found.gentler is not None)


def test_what_is_fetched_again_is_part_of_the_cost() -> None:
    rows = [build_row(f"s{number}", 33_000, 10.0) for number in range(3)]
    rows += [build_row(f"s{number}", 60_000, 9.0, refetch=1.5) for number in range(3)]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in (33_000, 60_000)]
    found = recommend_setting(Sweep(grid, rows, current=grid[0].name, saving_unit="money"))
    assert found.verdict == "no better" and "no other setting costs less" in format_recommendation(found)[0]


def test_more_calls_over_the_window_are_not_recommended() -> None:
    rows = [build_row(f"s{number}", 33_000, 10.0) for number in range(3)]
    rows += [build_row(f"s{number}", 20_000, 5.0, over=1) for number in range(3)]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in (33_000, 20_000)]
    assert recommend_setting(Sweep(grid, rows, current=grid[0].name)).verdict == "no better"


@pytest.mark.parametrize(
    ("sessions", "changes", "verdict"),
    [
        (2, {}, "too little evidence"),  # fewer than three sessions
        (3, {"firings": 0}, "never fires"),
    ],
)
def test_too_little_evidence_is_the_answer(sessions: int, changes: dict[str, int], verdict: str) -> None:
    costs = {f"s{number}": {33_000: 10.0, 60_000: 9.0} for number in range(sessions)}
    assert recommend(costs, **changes).verdict == verdict


def test_one_session_that_decides_is_too_little_evidence() -> None:
    costs = {f"s{number}": {33_000: 10.0, 60_000: 10.1} for number in range(5)} | {"big": {33_000: 90.0, 60_000: 80.0}}
    found = recommend(costs)
    assert found.verdict == "too little evidence" and found.largest[0] == "big"
    assert "100% of the saving is from one session, big." in format_recommendation(found)


def test_both_ends_of_an_interval_say_whether_they_save() -> None:
    costs = {f"s{number}": {33_000: 10.0, 60_000: 10.1} for number in range(5)} | {"big": {33_000: 90.0, 60_000: 80.0}}
    words = " ".join(format_recommendation(recommend(costs)))
    assert re.search(r"of the sessions it costs \$0\.\d+ more at worst, saves \$\d+\.\d+ at best; it is", words)
    costs = {f"s{number}": {33_000: 10.0, 60_000: 9.0 - number / 10} for number in range(8)}
    assert re.search(r"of the sessions it saves \$\d+\.\d+ to \$\d", " ".join(format_recommendation(recommend(costs))))


def test_of_one_session_nothing_is_said_that_needs_several() -> None:
    sentences = " ".join(format_recommendation(recommend({"one": {33_000: 10.0, 60_000: 9.0}})))
    assert (
        sentences.startswith("Too little evidence")
        and "The cost of 1 session changes, and a recommendation needs 3." in sentences
    )
    assert "resamples" not in sentences and "of the saving is from one session" not in sentences


def test_too_few_sessions_are_no_reason_for_resamples() -> None:
    costs = {f"s{number}": {33_000: 10.0, 60_000: 9.0} for number in range(3)}
    rows = [build_row(session, each, cost) for session, by in costs.items() for each, cost in by.items()]
    same = SettingCost(10.0, 12.0, "USD")
    rows = [row._replace(cost=same) if row.session == "s2" else row for row in rows]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in (33_000, 60_000)]
    sweep = Sweep(grid, rows, current=grid[0].name, saving_unit="money")
    few = "he cost of 2 sessions changes, and a recommendation needs 3."
    assert f"T{few}" in format_recommendation(recommend_setting(sweep))
    (ranked,) = recommend_setting(sweep).ranking
    assert ranked.format("x", "USD").endswith(f"; t{few}") and "resample" not in ranked.format("x", "USD")
    rows = [row._replace(cost=rows[1].cost) if row.setting == grid[1].name else row for row in rows]
    (ranked,) = recommend_setting(replace(sweep, rows=rows)).ranking
    assert ranked.format("x", "USD").endswith("; it is the best in 1,000 of 1,000 resamples.")


def test_sessions_without_a_price_are_counted() -> None:
    costs = {f"s{number}": {33_000: 10.0, 60_000: 9.0} for number in range(3)}
    rows = [build_row(session, each, cost) for session, by in costs.items() for each, cost in by.items()]
    unpriced = SettingCost(99.0, 99.0, "input tokens")
    rows = [row._replace(cost=unpriced) if row.session == "s2" else row._replace(firings=0) for row in rows]
    grid = [build_grid(AUTO, [f"trigger_reserve={each}"])[0] for each in (33_000, 60_000)]
    found = recommend_setting(Sweep(grid, rows, current=grid[0].name, saving_unit="money"))
    assert found.unit == "USD"  # although only the other one has firings
    assert "Costs of 2 of 3 sessions; 1 has no price." in format_recommendation(found)


def test_only_parameters_that_the_agent_can_be_given_are_tuned() -> None:
    assert [each.name for each in list_configurable_parameters(AUTO, WINDOW)] == ["trigger_reserve"]
    assert list_configurable_parameters(POLICIES["koda"], WINDOW) == []
    for policy in POLICIES.values():
        list_configurable_parameters(policy, WINDOW)


def write_session(folder: Path, turns: int, size: int, version: str = "2.1.100") -> None:
    made = recordings.Recording()
    for turn in range(turns):
        made.user(f"turn {turn}")
        made.assistant(call(f"c{turn}", "Read", file_path=f"{turn}.py"), use=usage(0, read=size))
        made.results(result(f"c{turn}", f"{turn} line\n" * 3_000))
        made.assistant(text("done"), use=usage(0, read=size + 6_000))
        size += 6_020
    folder.mkdir(parents=True)
    path = made.write(folder)
    path.write_text(path.read_text().replace('"2.1.100"', f'"{version}"'))


def tune(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["tune", *map(str, arguments), "--jobs", "1"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "internal error" not in err
    return code, out, err


def test_the_command_recommends_and_says_how_to_set_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(4):
        write_session(tmp_path / f"s{number}", 30 + number, 20_000)
    code, out, _ = tune(capsys, tmp_path, "--window", 200_000, "--json")
    report = json.loads(out)
    assert code == 0 and report["schema"] == "context-tui.tune/1" and report["agent"] == "claude-code"
    assert report["recommendation"]["policy"] == "claude-code-auto" and report["evidence"]["fired_in"] == 4
    reserve = report["recommendation"]["params"]["trigger_reserve"]
    native = " ".join(report["recommendation"]["native"])
    assert f"autoCompactWindow = {200_000 - reserve + 33_000}" in native
    best, current = (
        sum(
            row["totals"]["cost"]["cost"] + row["totals"]["cost"]["refetch"]
            for row in report["rows"]
            if row["setting"] == report[name]
        )
        for name in ("best", "current")
    )
    assert report["saved"] == pytest.approx(current - best) and report["saved"] > 0
    code, out, err = tune(capsys, tmp_path, "--window", 200_000)
    assert "context-tui: refining around trigger_reserve=100000: 4 of 4 sessions done, with " in err
    assert code == 0 and f"Recommended: trigger_reserve={reserve} in place of" in out and native.split(" (")[0] in out


def test_sessions_with_another_window_are_left_out_if_the_setting_depends_on_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_session(tmp_path / "large", 60, 20_000)
    for number in range(3):
        write_session(tmp_path / f"s{number}", 26, 20_000)
    code, out, _ = tune(capsys, tmp_path)
    left_out = "Left out: 1,000,000 tokens (1 session), as a setting means another threshold there"
    assert code == 0 and f"  Context window: 200,000 tokens (3 sessions). {left_out}; name their files" in out
    assert " settings over 3 sessions\n" in out and "in 3 of 3 sessions" in out
    assert all(
        int(line.split()[-1].replace(",", "")) < 200_000 for line in out.splitlines() if "  trigger_reserve=" in line
    )
    report = json.loads(tune(capsys, tmp_path, "--json")[1])
    assert report["windows"] == [
        {"tokens": 200_000, "sessions": 3, "included": True},
        {"tokens": 1_000_000, "sessions": 1, "included": False},
    ]
    assert {row["window"]["tokens"] for row in report["rows"]} == {200_000}
    _, out, _ = tune(capsys, tmp_path / "large")
    assert "Context window: 1,000,000 tokens (1 session).\n" in out
    _, out, _ = tune(capsys, tmp_path, "-P", "anthropic-clear-tool-uses", "-p", "trigger_tokens=50000,100000")
    assert "Context window: 200,000 tokens (3 sessions) and 1,000,000 tokens (1 session).\n" in out
    page = tmp_path / "page.md"
    assert main(["report", str(tmp_path), "-o", str(page)]) == 0 and left_out in page.read_text()


def test_the_settings_fit_on_80_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(3):
        write_session(tmp_path / f"s{number}", 30, 20_000)
    _, out, _ = tune(capsys, tmp_path, "--window", 200_000)
    lines = out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.split()[:1] == ["setting"]]
    assert "change (" in lines[head] and max(map(len, lines[head : head + 5])) < 80


@pytest.mark.parametrize(
    ("version", "reserve", "saving"),
    [("2.1.17", 45_000, "as recorded"), ("2.1.100", 33_000, "as recorded"), ("2.1.219", 33_000, "today")],
)
def test_the_current_setting_is_one_row_with_the_values_of_the_version_that_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, version: str, reserve: int, saving: str
) -> None:
    for number in range(3):
        write_session(tmp_path / f"s{number}", 30, 20_000, version)
    _, out, _ = tune(capsys, tmp_path, "--window", 200_000, "-P", AUTO.name, "-p", "trigger_reserve=33000,45000,50000")
    rows = [re.split("  +", line.strip())[:2] for line in out.splitlines() if line.startswith("  trigger_reserve=")]
    assert rows.count([f"trigger_reserve={reserve}", saving]) == 1
    assert [name for name, _ in rows] == [f"trigger_reserve={each}" for each in (33_000, 45_000, 50_000)]


def test_without_evidence_the_command_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_session(tmp_path / "one", 3, 10_000)
    code, out, _ = tune(capsys, tmp_path)
    assert code == 4 and "No session reaches the threshold (1 session): there is nothing to learn from." in out
    (tmp_path / "chat.json").write_text('{"messages": [{"role": "user", "content": "hello"}]}')
    code, out, err = tune(capsys, tmp_path / "chat.json")
    assert code == 4 and "no policy of its own is known (1 session); name one with -P" in err and not out
