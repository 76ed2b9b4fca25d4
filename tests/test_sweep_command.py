"""`context-tui sweep`: over folders, in processes, interrupted and gone on with, as text, JSON, CSV and a gate."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from context_tui.batch import workers
from context_tui.cli import main
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.lab.aftermath.report import ExtraCalls
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import sweep_session
from context_tui.session.session import Session
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage

ESC = "\x1b]0;title\x07"
ROOT = Path(__file__).parents[1]
GRID = ("-P", "defect-microcompact", "-p", "keep_recent_turns=1..3", "-p", "min_clear_tokens=100,512")
COMMAND = (sys.executable, "-m", "context_tui", "sweep")


def written(folder: Path, turns: int, model: str = "claude-sonnet-4-5") -> Path:
    """Each turn reads 2,000 tokens that the next one quotes; names try to write on the terminal."""
    made, size = recordings.Recording(), 10_000
    for turn in range(turns):
        made.user(f"turn {turn}")
        made.assistant(call(f"c{turn}", f"Re{ESC}ad", file_path=f"{turn}.py"), use=usage(0, read=size), model=model)
        made.results(result(f"c{turn}", f"{turn} line\n" * 1_000))
        made.assistant(text("done"), use=usage(0, read=size + 2_000), model=model)
        size += 2_020
    folder.mkdir(parents=True, exist_ok=True)
    made.lines = [line.replace(b'"/project"', f'"/{folder.name}"'.encode()) for line in made.lines]
    return made.write(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sessions in folders in a folder, beside files that are none."""
    found = tmp_path / "sessions"
    for name, turns in (("one", 6), ("two", 8), ("two/deep", 10)):
        written(found / name, turns)
    (found / "broken.jsonl").write_text("")
    (found / "settings.json").write_text('{"no": "session"}\n')
    (found / "notes.txt").write_text("nothing")
    return found


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["sweep", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "internal error" not in err, err
    assert not any(ord(char) < 32 and char != "\n" for char in out + err)
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, _ = ran(capsys, *arguments, "--json", "--window", 30_000, "--jobs", 1)
    assert code == 0 and out.isascii()
    found: dict[str, Any] = json.loads(out)
    return found


def test_the_current_setting_can_be_another_than_the_default(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    current = "defect-microcompact min_clear_tokens=100 keep_recent_turns=1"
    report = document(capsys, folder, *GRID, "--current", current)
    assert report["current"] == "defect-microcompact keep_recent_turns=1 min_clear_tokens=100"
    names = [each["setting"] for each in report["settings"]]
    assert names[:2] == [report["current"], "defect-microcompact"] and len(names) == len(set(names)) == 6
    code, _, err = ran(capsys, folder, *GRID, "--current", 'defect-microcompact keep="1')
    assert code == 2 and "quote is not closed" in err


def test_a_screen_needs_a_terminal(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = ran(capsys, folder, *GRID, "--screen")
    assert code == 2 and not out and "--screen needs a terminal" in err


def test_every_session_below_a_folder_under_every_setting(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    report = document(capsys, folder, *GRID)
    assert report["schema"] == "context-tui.sweep/1"
    assert len(report["settings"]) == 6 and report["current"] == "defect-microcompact"
    assert len(report["rows"]) == 18 and len({row["session"] for row in report["rows"]}) == 3
    assert [each["session"] for each in report["unread"]] == [str(folder / "broken.jsonl")]
    assert report["other_files"] == 1  # settings.json is not a session that could not be read
    assert {"session", "policy", "params", "totals", "regret", "dominated_by"} <= report["rows"][0].keys()
    (path,) = (folder / "one").glob("*.jsonl")
    main(["replay", str(path), "--window", "30000", "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "--json"])
    (alone,) = json.loads(capsys.readouterr().out)["policies"]
    (row,) = [each for each in report["rows"] if each["session"] == str(path) and each["params"] == alone["params"]]
    totals = row["totals"]
    assert {name: totals[name] for name in ("sent", "saved", "peak", "overflows")} == {
        name: alone["totals"][name] for name in ("sent", "saved", "peak", "overflows")
    }
    assert totals["saved"] > 0 and row["firings"] == len(alone["firings"])
    assert totals["cost"]["cost"] == pytest.approx(alone["totals"]["cost"])
    assert row["regret"]["tokens_dropped"] == alone["regret"]["tokens_dropped"]
    names = {each["setting"] for each in report["settings"]}
    assert set(report["frontier"]) <= names and report["best"] in names
    beaten = {each["setting"]: each["dominated_by"] for each in report["settings"]}
    assert all(beaten[name] is None for name in report["frontier"]) and any(beaten.values())


def test_a_defect_of_ours_costs_one_session(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session, *rest: Any, **options: Any) -> Iterator[SweepRow]:
        if len(session) < 25:
            raise KeyError(session.info.path)
        return sweep_session(session, *rest, **options)

    monkeypatch.setattr(workers, "sweep_session", fail)
    monkeypatch.setattr(ClaudeCodeFormat, "list_sessions", fail_at("deep", ClaudeCodeFormat.list_sessions))
    assert main(["sweep", str(folder), *GRID, "--json", "--jobs", "1"]) == 0
    unread = json.loads(capsys.readouterr().out)["unread"]
    reasons = {Path(each["session"]).parent.name: each["why"] for each in unread}
    assert reasons["one"].startswith("internal error (KeyError: ") and reasons["one"].endswith("; please report it")
    assert reasons["deep"] == "internal error (TypeError: deep); please report it" and "two" not in reasons


def fail_at(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def fail(form: ClaudeCodeFormat, path: Path) -> Any:
        if path.parent.name == name:
            raise TypeError(name)
        return function(form, path)

    return fail


def test_processes_give_the_same_rows(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = ran(capsys, folder, *GRID, "--json", "--window", 30_000, "--jobs", 2)
    assert code == 0
    assert json.loads(out) == document(capsys, folder, *GRID)


def test_the_text_names_the_frontier_and_where_the_current_setting_stands(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, err = ran(capsys, folder, *GRID, "--window", 30_000, "--jobs", 1)
    assert code == 0
    assert "6 settings over 3 sessions; 1 session could not be read; 1 other file in their folders" in out
    assert "(default)): dominated by" in out and "best setting (keep_recent_turns=1" in out
    assert "best in each project" in out
    assert f"{folder}/broken.jsonl: the file is empty" in err
    assert "3 of 3 sessions done, with 6 settings each" in err and "\r" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no policy is named"),
        (("-P", "defect-microcompact", "-p", "keep_recent_turns=0..2"), "at least 1"),
        ((*GRID, "--resume"), "name it with -o"),
        ((*GRID, "--jobs", "0"), "1 or more"),
        (("-P", "manual"), "applied by hand"),
    ],
)
def test_bad_usage_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = ran(capsys, folder / "one", *arguments)
    assert (code, out) == (2, "") and says in err


@pytest.mark.slow
def test_a_policy_of_a_file_in_processes(folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"
    text = (ROOT / "context_tui" / "policies" / "presets" / "swe-agent-last-n.toml").read_text()
    policy.write_text(text.replace('name = "swe-agent-last-n"', 'name = "my-own"'))
    line = [
        sys.executable,
        "-m",
        "context_tui",
        "sweep",
        str(folder),
        "--policy-file",
        str(policy),
        "--jobs",
        "2",
        "--json",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)  # here the policy would stay
    assert done.returncode == 0, done.stderr
    assert {row["policy"] for row in json.loads(done.stdout)["rows"]} == {"my-own"}


def test_nothing_readable_is_bad_usage(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, _, err = ran(capsys, folder / "broken.jsonl", folder / "none", *GRID)
    assert code == 2 and "there is no session to sweep" in err and "none: " in err


# -- files


def test_settings_are_ranked_by_cost_without_extra_calls_and_with_them(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = "-P", "defect-microcompact", "-p", "keep_recent_turns=1..3", "--by", "money"
    assert "extra calls after" not in ran(capsys, folder, *grid, "--jobs", 1)[1]  # no recorded compaction
    measured = ExtraCalls(0.5, 0.1, 9e9, 12, 6, None, "more calls")
    monkeypatch.setattr("context_tui.batch.workers.measure_extra_calls", lambda sources: measured)
    found = document(capsys, folder, *grid)
    assert found["extra_calls"]["value"] == 0.5
    assert [each["extra_calls"] for each in found["ranking"]] == [0.0, 0.5, 9e9]
    settings = {each["setting"]: each["totals"]["cost"] for each in found["settings"]}
    for each in found["ranking"]:
        costs = {
            name: cost["cost"] + cost["refetch"] + each["extra_calls"] * cost["extra_calls"]
            for name, cost in settings.items()
        }
        assert costs[each["setting"]] == pytest.approx(min(costs.values()))
        assert each["saved"] == pytest.approx(costs[found["current"]] - min(costs.values()))
    out = ran(capsys, folder, *grid, "--jobs", 1, "--window", 30_000)[1]
    assert "With +0.500 extra calls per 1,000 removed tokens" in out and "Without extra calls" in out


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_killed_sweep_goes_on_where_it_was(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    first = document(capsys, folder, *GRID, "-o", out)
    whole = lines(out)
    assert len(whole) == 19 and whole[0]["schema"] == "context-tui.sweep/1"
    marked = whole[1]["totals"]
    marked["saved"] += 1  # tells a row that was kept from one that was made anew
    kept = [json.dumps(each) for each in whole[:9]]
    out.write_text("\n".join(kept) + "\n" + json.dumps(whole[9])[:40])
    code, text, err = ran(capsys, folder, *GRID, "-o", out, "--resume", "--json", "--window", 30_000, "--jobs", 1)
    assert code == 0 and "8 rows of" in err and "still valid; 2 sessions to do" in err
    rows = json.loads(text)["rows"]
    assert rows[0]["totals"] == marked and rows[1:] == first["rows"][1:]
    assert lines(out)[1]["totals"] == marked and len(lines(out)) == 19


def test_what_changed_is_made_anew(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    document(capsys, folder, *GRID, "-o", out)
    (path,) = (folder / "one").glob("*.jsonl")
    os.utime(path, (1, 1))
    code, _, err = ran(capsys, folder, *GRID, "-o", out, "--resume", "--window", 30_000, "--jobs", 1)
    assert code == 0 and "12 rows of" in err and "still valid; 1 session to do" in err
    code, _, err = ran(capsys, folder, *GRID, "-o", out, "--resume", "--window", 40_000)
    assert code == 1 and "made with other options" in err
    (folder / "one" / "other.txt").write_text("x\n")
    code, _, err = ran(capsys, folder, *GRID, "-o", folder / "one" / "other.txt", "--resume")
    assert code == 1 and "not a row of a sweep" in err


def test_files_are_not_written_over(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    (path,) = (folder / "one").glob("*.jsonl")
    before = path.read_bytes()
    for option in ("-o", "--csv"):
        code, _, err = ran(capsys, folder, *GRID, option, path, "--force")
        assert code == 2 and "is one of the sessions" in err
        other = tmp_path / "there"
        other.write_text("mine")
        code, _, err = ran(capsys, folder, *GRID, option, other)
        assert code == 1 and "exists" in err and other.read_text() == "mine"
    assert path.read_bytes() == before


def test_tables(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    report = document(capsys, folder, *GRID, "--csv", table)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["session"] for row in rows] == [row["session"] for row in report["rows"]]
    assert [int(row["saved"]) for row in rows] == [row["totals"]["saved"] for row in report["rows"]]
    assert {row["params.keep_recent_turns"] for row in rows} == {"1", "2", "3"}


def test_parquet_without_its_library_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("context_tui.batch.row_files.find_spec", lambda name: None)
    code, _, err = ran(capsys, folder, *GRID, "--parquet", tmp_path / "rows.parquet")
    assert code == 1 and "pip install 'context-tui[parquet]'" in err


def test_parquet(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'context-tui[parquet]'")
    table = tmp_path / "rows.parquet"
    report = document(capsys, folder, *GRID, "--parquet", table)
    assert parquet.read_table(table)["saved"].to_pylist() == [row["totals"]["saved"] for row in report["rows"]]


# -- the gate


def test_the_example_of_the_docs_is_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "sweep.md").read_text()
    assert (ROOT / "docs" / "examples" / "gate.toml").read_text() in page
    _, _, example = page.partition("$ context-tui sweep ")
    command, *told = example.partition("\n```")[0].splitlines()
    assert "--recorded undo" in command
    monkeypatch.chdir(ROOT)
    code, _, err = ran(capsys, *command.split(), "--jobs", 1)
    assert code == 0
    assert [about(line) for line in err.splitlines() if ": gate: " in line] == [about(line) for line in told]


def test_the_workflow_of_the_docs_passes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "sweep.md").read_text()
    steps = re.findall(r"- run: context-tui sweep (.*)", page.partition("```yaml")[2].partition("```")[0])
    assert len(steps) == 1 and "--recorded undo" in steps[0]
    shutil.copytree(ROOT / "sample_sessions", tmp_path / "sessions")
    shutil.copy(ROOT / "docs" / "examples" / "gate.toml", tmp_path / "gate.toml")
    monkeypatch.chdir(tmp_path)
    assert ran(capsys, *steps[0].split(), "--jobs", 1)[0] == 0


def about(line: str) -> str:
    """A line with its large numbers to three digits: a better calibration moves the rest."""
    return re.sub(r"\d+(?:,\d{3})+", lambda found: f"{int(found[0].replace(',', '')):.3g}", line)


def test_a_gate_that_is_kept(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate.toml"
    limits = "[limits]\nsent = 0\ncost = 1\n[limits.session]\nsent = 0\n"
    gate.write_text(f'old = "none-such"\nnew = "defect-microcompact"\n{limits}')
    code, _, err = ran(capsys, folder, "--gate", gate)
    assert code == 2 and f"{gate}: unknown policy 'none-such'" in err
    gate.write_text(f'old = "defect-microcompact"\nnew = "defect-microcompact keep_recent_turns=1"\n{limits}')
    code, out, err = ran(capsys, folder, "--gate", gate, "--window", 30_000, "--jobs", 1, "--json")
    assert code == 0 and "all limits are met" in err
    report = json.loads(out)["gate"]
    assert report["kept"] is True and report["missing"] == []
    assert [(each["name"], each["session"] is None) for each in report["limits"][:3]] == [
        ("sent", True),
        ("cost", True),
        ("sent", False),
    ]
    assert all(each["value"] <= each["limit"] and each["kept"] for each in report["limits"])
    assert [each["setting"] for each in json.loads(out)["settings"]] == [
        "defect-microcompact",
        "defect-microcompact keep_recent_turns=1",
    ]


@pytest.mark.parametrize("recorded", ["keep", "undo"])
def test_every_text_says_what_becomes_of_recorded_compactions(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, recorded: str
) -> None:
    judged = {
        "keep": "kept: a setting is judged only by the firings between them",
        "undo": "undone: a setting is judged as if there were none",
    }
    hint = "; --recorded undo judges it as if there were none" if recorded == "keep" else ""
    said, gate, session = f"recorded compactions {judged[recorded]}{hint}\n", tmp_path / "gate.toml", folder / "two"
    gate.write_text('old = "defect-microcompact"\nnew = "defect-microcompact"\n[limits]\nsent = 0\n')
    _, out, err = ran(capsys, session, "--gate", gate, "--recorded", recorded, "--jobs", 1)
    assert f"\n{said}" in out and f"context-tui: gate: {said}" in err
    main(["tune", str(session), "--recorded", recorded, "--jobs", "1"])
    assert said in capsys.readouterr().out
    shutil.copy(ROOT / "sample_sessions" / "compacted-session.jsonl", tmp_path)
    replayed, page = str(tmp_path / "compacted-session.jsonl"), tmp_path / "page.html"
    main(["replay", replayed, "-P", "codex", "--recorded", recorded])
    assert f"   2 {said}" in capsys.readouterr().out
    main(["report", replayed, "-P", "codex", "--recorded", recorded, "-o", str(page)])
    assert f"In the replays, recorded compactions are {judged[recorded]}." in page.read_text()


@pytest.mark.parametrize(
    "policy, current, grid",
    [
        ("anthropic-clear-tool-uses", "trigger_tokens=5000 except_tools=Bash", ()),
        ("defect-compact", "threshold=20000", ("-p", "threshold=400000,900000", "--recorded", "undo")),
    ],
)
def test_a_current_setting_with_a_list_or_without_a_number_is_ranked(
    capsys: pytest.CaptureFixture[str], policy: str, current: str, grid: tuple[str, ...]
) -> None:
    session = ROOT / "sample_sessions" / "coding-session.jsonl"
    chosen = "-P", policy, *grid, "--current", f"{policy} {current}"
    code, out, _ = ran(capsys, session, *chosen, "--by", "money", "--jobs", 1)
    assert code == 0 and "is the best one" in out


def test_sessions_without_a_price_are_counted_where_money_is_shown(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    written(folder / "unpriced", 6, "unheard-of")
    gate, new = tmp_path / "gate.toml", "defect-microcompact keep_recent_turns=1"
    for limit, is_told in (("cost = 1", True), ("sent = 1", False)):
        gate.write_text(f'old = "defect-microcompact"\nnew = "{new}"\n[limits]\n{limit}\n')
        _, out, err = ran(capsys, folder, "--gate", gate, "--window", 30_000, "--jobs", 1)
        assert ("gate: costs of 3 of 4 sessions; 1 has no price" in err) == is_told
        assert "\ncosts of 3 of 4 sessions; 1 has no price, at cache prices\n" in out


@pytest.mark.parametrize(
    ("window", "evidence", "sentence"),
    [
        (1_000_000, "", "too little evidence: 0 firings; min_firings is 1"),
        (30_000, "min_sessions = 4", "too little evidence: a setting fires in 3 sessions of 3; min_sessions is 4"),
        (30_000, "max_unread = 0", "too little evidence: 1 session could not be read; max_unread is 0"),
    ],
)
def test_a_gate_without_evidence_is_not_passed(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, window: int, evidence: str, sentence: str
) -> None:
    gate = tmp_path / "gate.toml"
    new = "defect-microcompact keep_recent_turns=1"
    gate.write_text(f'old = "defect-microcompact"\nnew = "{new}"\n[limits]\nsent = 0\n{evidence}\n')
    code, out, err = ran(capsys, folder, "--gate", gate, "--window", window, "--jobs", 1, "--json")
    assert code == 4 and f"gate: {sentence}" in err
    assert json.loads(out)["gate"]["kept"] is None
    gate.write_text(gate.read_text().replace("sent = 0", "saved = 2"))
    assert ran(capsys, folder, "--gate", gate, "--window", window, "--jobs", 1)[0] == 1  # a violation needs no more


class Running:
    """A sweep in two processes that takes some seconds, once it has made its first rows."""

    def __init__(self, folder: Path, out: Path) -> None:
        for number in range(12):
            written(folder / f"more{number}", 40)
        grid = ("-P", "defect-compact", "-p", "compact_ratio=0.2..0.8:0.01", "-p", "compact_soft_ratio=0.1,0.15")
        argv = [*COMMAND, str(folder), *grid, "--window", "30000", "-o", str(out), "--jobs", "2", "--quick"]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        until = time.monotonic() + 30
        while time.monotonic() < until and (not out.exists() or out.stat().st_size < 1_000):
            time.sleep(0.02)

    def end(self) -> str:
        """What it says on stderr until it has ended."""
        return self.child.communicate(timeout=60)[1]


ROWS = 15 * (61 * 2 + 1)


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_done(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    sweep = Running(folder, out)
    os.killpg(sweep.child.pid, signal.SIGINT)
    err = sweep.end()
    assert sweep.child.returncode == 130, err
    assert "done and saved; continue with -o" in err and "interrupted" in err and "Traceback" not in err
    kept = lines(out)
    assert 1 < len(kept) < ROWS and {row["policy"] for row in kept[1:]} == {"defect-compact"}
    until = time.monotonic() + 10
    while (left := running(sweep.child.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


@pytest.mark.slow
def test_a_process_that_is_killed_costs_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    sweep = Running(folder, out)
    workers = [pid for pid in running(sweep.child.pid) if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(workers) == 2
    os.kill(int(workers[0]), signal.SIGKILL)
    assert len(lines(out)) < 1 + ROWS
    err = sweep.end()
    assert sweep.child.returncode == 0, err
    assert len(lines(out)) == 1 + ROWS and "Traceback" not in err


def running(group: int) -> list[str]:
    """The processes of a group that still run; one that has ended may still be listed until somebody looks."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state != "Z":
                found.append(status.parent.name)
    return found
