"""The command line of DESIGN §4: what goes to stdout and stderr, exit codes, one-line errors."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_tui import __version__
from context_tui.cli import COMMANDS, main
from context_tui.cli.options import CommandParser, build_study_settings
from context_tui.errors import Error
from context_tui.lab.study import StudySettings
from context_tui.policies.registry import PRESETS
from context_tui.session.window import ASSUMED_WINDOW
from context_tui.summarizer.checks.facts import MAX_FACTS_PER_KIND
from context_tui.summarizer.plan_summary import EXTRACT, SUMMARIZER_KINDS
from context_tui.summarizer.reply import ReplyUsage, Summary
from context_tui.text.files import read_toml
from tests.formats.recordings import Recording, call, result, text, usage

ESC = "\x1b[31m\x1b]0;title\x07"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line here; returns exit code, stdout, stderr. No output may hold a control character."""

    def ran(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err and "internal error" not in err
        assert not any(ord(char) < 32 and char != "\n" for char in out + err)
        return code, out, err

    return ran


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session of six turns, whose names and paths try to write on the terminal."""
    recording = Recording()
    for turn in range(6):
        recording.user(f"turn {turn}")
        recording.assistant(call(f"t{turn}", f"Re{ESC}ad", file_path=f"a{ESC}.py"), use=usage(100_000 + turn))
        recording.results(result(f"t{turn}", f"line {turn}\n" * 900))
    recording.assistant(text("é done"), model=f"claude-{ESC}é", use=usage(130_000))
    recording.line(b'{"type":"of-\x1b[2Jtomorrow"}'.replace(b"\x1b", b"\\u001b"))
    return recording.write(tmp_path)


def document(out: str) -> dict[str, Any]:
    """The one JSON document on stdout, which is ASCII."""
    assert out.isascii() and out.endswith("}\n")
    found: dict[str, Any] = json.loads(out)
    return found


def one_line(err: str) -> str:
    """An error: one line on stderr that begins with the program's name."""
    assert err.startswith("context-tui") and err.count("\n") == 1 and err.endswith("\n")
    return err


# -- help


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"context-tui {__version__}\n", "")
    code, out, err = run("--help")
    assert (code, err) == (0, "") and all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(run: Run, command: str) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "") and out.startswith("usage: context-tui ")


def test_defaults_and_names_in_the_help_are_those_of_the_code() -> None:
    parse = {command: CommandParser(command).parse for command in ("policies", "replay", "sweep", "tune")}
    assert build_study_settings(parse["replay"](["x"])) == StudySettings()
    assert build_study_settings(parse["tune"](["x"])) == StudySettings(recorded="ignore")
    assert build_study_settings(parse["sweep"](["x"])) == StudySettings()
    assert parse["policies"]([]).window == ASSUMED_WINDOW
    texts = read_toml("context_tui.cli", "options.toml")
    assert f"At most {MAX_FACTS_PER_KIND} facts" in texts["compare"]["epilog"]
    rows = [row for row in texts["apply"]["options"] if isinstance(row, dict)]
    summarizer = next(row for row in rows if row.get("names") == "--summarizer")
    assert summarizer["default"] == EXTRACT and ", ".join(SUMMARIZER_KINDS) in summarizer["help"]


# -- inspect


def test_inspect(run: Run, session: Path) -> None:
    code, out, err = run("inspect", session)
    assert (code, err) == (0, "")
    assert "19 messages   6 turns   7 requests" in out
    assert "20 records: 19 message records, 0 metadata records, 1 problem\n" in out
    assert "130,000" in out and "tomorrow" in out


def test_inspect_lists_at_most_twenty_of_several_sessions(run: Run, session: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(23):
        (folder / f"{number}.jsonl").write_bytes(session.read_bytes())
    code, out, err = run("inspect", folder)
    lines = err.splitlines()
    assert code and not out and "holds 23 sessions; name one" in lines[0]
    assert len([line for line in lines if line.endswith(".jsonl")]) == 20
    assert lines[-1].startswith("and 3 more; `context-tui sessions")


def test_inspect_json(run: Run, session: Path) -> None:
    code, out, err = run("inspect", session, "--json")
    report = document(out)
    assert (code, err) == (0, "")
    assert report["schema"] == "context-tui.inspect/1"
    assert report["session"] == {
        "path": str(session),
        "format": "claude-code",
        "id": "",
        "model": f"claude-{ESC}é",
        "context_window": 200_000,
        "context_window_source": "model",
        "context_window_others": [],
        "note": None,
    }
    assert report["records"] == {"total": 20, "messages": 19, "side": 0, "problems": 1}
    assert [set(problem) for problem in report["problems"]] == [{"where", "what"}]
    assert [report[name] for name in ("messages", "turns", "requests", "compactions")] == [19, 6, 7, []]
    window = report["window"]
    assert window["indices"] == list(range(19)) and window["recorded_tokens"] == 130_000
    assert window["not_in_file_tokens"] == 100_000 - 1
    assert window["not_in_file_kinds"] == ["system prompt", "instruction files", "reminders", "tool schemas"]
    categories = "system tools not_in_file user assistant thinking tool_use tool_result injected summary image put_back"
    assert list(report["by_category"]) == categories.split()
    (tool,) = report["by_tool"]
    assert tool == {"tool": f"Re{ESC}ad", "calls": 6, "result_tokens": report["by_category"]["tool_result"]}
    assert sum(report["by_category"].values()) == window["next_request_tokens"]
    assert report["duplicate_reads"] == [] and report["diagnosis"] is None
    assert "timeline" not in report


def test_inspect_messages(run: Run, session: Path) -> None:
    report = document(run("inspect", session, "--json", "--messages", "--at", 3, "--ruler", "own")[1])
    assert report["at"] == 3 and report["window"]["indices"] == [0, 1, 2]
    assert [entry["in_context"] for entry in report["timeline"]] == [True] * 3 + [False] * 16
    assert report["timeline"][2] == {
        "index": 2,
        "role": "user",
        "turn": 1,
        "tokens": 1_575,
        "in_context": True,
        "recorded_tokens": None,
        "dropped_tokens": None,
        "believed_tokens": None,
        "blocks": [{"kind": "tool_result", "tokens": 1_575, "tool": f"Re{ESC}ad"}],
    }
    code, out, _ = run("inspect", session, "--messages")
    assert code == 0 and out.count("tool_result Re") == 6


def test_inspect_compactions(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("x" * 400)
    recording.assistant(call("t1"), use=usage(9_000))
    recording.results(result("t1", "x" * 400))
    recording.microcompact("t1", tokens=100)
    recording.boundary(9_200)
    recording.summary()
    recording.user("go on")
    recording.assistant(text("done"), use=usage(3_000))
    report = document(run("inspect", recording.write(tmp_path), "--json")[1])
    wanted = ("message", "kind", "trigger", "tokens_before", "tokens_after")
    assert [tuple(each[name] for name in wanted) for each in report["compactions"]] == [
        (3, "micro", "auto", 9_000 + 1 + 100, None),
        (3, "full", "auto", 9_000 + 1 + 100, 3_000),
    ]


def test_without_a_terminal_the_inspector_prints_the_report(run: Run, session: Path) -> None:
    assert run(session) == run("inspect", session)
    assert run(session, "--at", "4", "--window", "50k") == run("inspect", session, "--at", "4", "--window", "50k")
    code, out, err = run("demo")
    assert (code, err) == (0, "") and "messages" in out
    assert "name a session" in one_line(run()[2]) and run()[0] == 2


# -- plan


def test_plan_json(run: Run, session: Path) -> None:
    code, out, err = run("plan", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=2", "--json")
    report = document(out)
    assert (code, err) == (0, "")
    assert report["schema"] == "context-tui.plan/1" and report["policy"] == "defect-microcompact"
    assert report["params"] == {"keep_recent_turns": 2, "min_clear_tokens": 512, "microcompact_ratio": 0.6}
    assert report["at"] == 19 and report["changed"] is True and report["reason"] is None and report["boundary"] is None
    assert set(report["trigger"]) == {"fires", "reason", "value", "threshold", "unit", "source"}
    assert report["trigger"]["fires"] is True and report["trigger"]["threshold"] == 120_000
    tokens = report["tokens"]
    assert tokens["summary"] is None and tokens["estimator"] == "bytes/4"
    assert report["report"] == {"tokens_before": tokens["before"], "tokens_after": tokens["after"], "cleared": 4}
    assert report["edits"][0] == {
        "action": "clear",
        "message": 2,
        "block": 0,
        "tool": f"Re{ESC}ad",
        "call_id": "t0",
        "tokens_before": 1_575,
        "tokens_after": 21,
        "source": "defect-microcompact",
    }
    assert len(report["verdicts"]) == 19 + 6
    assert report["verdicts"][-1] == {
        "message": 18,
        "block": None,
        "verdict": "kept",
        "code": "recent_turn",
        "reason": "kept: within the last 2 turns",
    }


def test_a_plan_says_what_the_next_request_would_be(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    for turn in range(5):
        recording.user(f"turn {turn}")
        recording.assistant(call(f"t{turn}"), use=usage(140_004 + 10_000 * turn))
        recording.results(result(f"t{turn}", "x" * 40_000))
    path = recording.write(tmp_path)
    report = document(run("plan", path, "-P", "defect-microcompact", "--json")[1])
    request, sizes = report["next_request"], report["next_size"]
    assert request == {
        "recorded": 180_004,
        "appended": request["before"] - 180_004,
        "before": sizes["before"]["tokens"],
        "before_source": "recorded + estimate",
        "goes": request["before"] - request["after"],
        "estimator": "typical factors",
        "comes": 0,
        "restored": 0,
        "summary_unknown": False,
        "after": sizes["after"]["tokens"],
        "share": round(request["goes"] / request["before"], 4),
    }
    assert request["appended"] == pytest.approx(1.25 * 10_001, rel=0.01) and request["goes"] == pytest.approx(
        1.25 * 19_958, rel=0.01
    )
    for size in sizes.values():
        assert size["low"] < size["tokens"] < size["high"] and size["source"] == "estimated"
    assert report["tokens"]["after"] == report["tokens"]["before"] - 19_958
    line = f"next request: ~{request['before']:,} -> ~{request['after']:,} tokens, 13% less"
    parts = f" (180,004 recorded + ~{request['appended']:,} appended since - ~{request['goes']:,} removed; "
    text = run("plan", path, "-P", "defect-microcompact")[1]
    assert line + parts in text
    assert f"; typical factors: between {sizes['after']['low']:,} and {sizes['after']['high']:,})\n" in text
    text = run("plan", path, "-P", "defect-compact", "-p", "threshold=500000", "-p", "compact_soft_ratio=1")[1]
    assert f"next request, if forced: ~{request['before']:,} -> " in text and ", plus a summary (" in text
    assert re.search(
        rf"{request['before']:,}  next request +last recorded \+ everything after it, calibrated\n",
        run("inspect", path)[1],
    )
    window = document(run("inspect", path, "--json")[1])["window"]
    assert (window["next_request_tokens"], window["next_request_source"]) == (request["before"], "recorded + estimate")


def test_what_is_nearly_all_is_not_all(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("go")
    recording.assistant(call("t0"))
    recording.results(result("t0", "x" * 400_000))
    recording.assistant(text("done"))
    out = run("plan", recording.write(tmp_path), "-P", "manual", "-p", "clear=2:0")[1]
    assert ", >99% less\n" in out and "100%" not in out


def test_the_system_prompt_and_tools_stay_however_much_goes(run: Run, tmp_path: Path) -> None:
    """Where what goes is estimated as more than was recorded: no request is nothing."""
    recording = Recording()
    for turn in range(5):
        recording.user(f"turn {turn}")
        recording.assistant(call(f"t{turn}"), use=usage(9_000 + 1_000 * turn))
        recording.results(result(f"t{turn}", "x" * 40_000))
    path = recording.write(tmp_path)
    request = document(run("plan", path, "-P", "codex", "--json")[1])["next_request"]
    assert 8_900 < request["after"] < 9_100


def test_a_written_summary_counts_in_the_next_request(run: Run, session: Path, tmp_path: Path) -> None:
    given = ("-P", "defect-compact", "-p", "threshold=8000")
    planned = document(run("plan", session, *given, "--json")[1])["next_request"]
    applied = document(run("apply", session, *given, "-o", tmp_path / "out.jsonl", "--json")[1])
    request, tokens = applied["next_request"], applied["tokens"]
    assert planned["summary_unknown"] and not request["summary_unknown"]
    assert request["comes"] >= tokens["summary"] > 0
    assert request["after"] == planned["after"] + request["comes"]
    text = run("apply", session, *given, "-o", tmp_path / "other.jsonl")[1]
    assert f"-> ~{request['after']:,} tokens" in text and f"+ ~{request['comes']:,} inserted" in text


def test_of_a_chain_only_what_fires_is_run_when_asked(run: Run, session: Path) -> None:
    tiers = ("-p", "defect-microcompact.microcompact_ratio=1", "-p", "defect-compact.threshold=1")
    chain = ("plan", session, "-P", "chain", *tiers)
    every, code = run(*chain)[1], run(*chain)[0]
    assert code == 0 and "here defect-microcompact would not fire; --firing-only leaves out those policies" in every
    assert "next request, with defect-microcompact forced: " in every
    assert "next request: " in run(*chain, "--firing-only")[1]
    report = document(run(*chain, "--firing-only", "--json")[1])
    assert {edit["source"] for edit in report["edits"]} == {"defect-compact"} and report["trigger"]["fires"]
    alone = document(run("plan", session, "-P", "defect-compact", "-p", "threshold=1", "--json")[1])
    assert report["next_request"] == alone["next_request"] and report["edits"] == alone["edits"]


def test_a_trigger_that_is_met_is_no_firing_where_nothing_changes(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("go")
    recording.assistant(text("done"), use=usage(150_000))
    for policy in ("defect", "chain", "defect-microcompact"):
        given = ("plan", recording.write(tmp_path), "-P", policy, "--window", 200_000)
        out, report = run(*given)[1], document(run(*given, "--json")[1])
        assert "\nits trigger is met, but it changes nothing: " in out and "would fire" not in out
        assert report["trigger"]["fires"] and not report["changed"]


def test_plans_that_summarise(run: Run, session: Path) -> None:
    report = document(run("plan", session, "-P", "defect-compact", "-p", "threshold=8000", "--json")[1])
    assert report["boundary"] == 15 and report["report"] is None
    assert {edit["action"] for edit in report["edits"]} == {"summarise"}
    assert {verdict["verdict"] for verdict in report["verdicts"]} == {"summarised", "kept"}


@pytest.mark.parametrize(
    ("policy", "keys"),
    [("koda-microcompact", {"cleared", "tokens_saved"}), ("agent-sdk-prune", {"removed_bytes"})],
)
def test_reports_of_the_runtimes(run: Run, tmp_path: Path, policy: str, keys: set[str]) -> None:
    recording = Recording()
    recording.user()
    for number in range(8):
        recording.assistant(call(f"t{number}", "Bash"))
        recording.results(result(f"t{number}", "x" * 4_000))
    report = document(run("plan", recording.write(tmp_path), "-P", policy, "--json")[1])
    assert set(report["report"]) == keys and report["changed"]


def test_a_plan_that_changes_nothing(run: Run, session: Path) -> None:
    code, out, err = run("plan", session, "-P", "manual", "--json")
    report = document(out)
    assert code == 0 and one_line(err) == "context-tui: nothing is marked\n"
    assert report["changed"] is False and report["reason"] == "nothing is marked" and report["edits"] == []
    assert report["tokens"]["before"] == report["tokens"]["after"]


def test_plan_as_text(run: Run, session: Path) -> None:
    code, out, err = run("plan", session, "-P", "defect-microcompact", "--window", "1m")
    assert (code, err) == (0, "")
    assert "would not fire" in out and "never fires in this session" in out and "3 %" not in out
    assert (
        "first fires before message" in run("plan", session, "-P", "defect-compact", "--at", "1", "--window", "120k")[1]
    )


def test_chains_and_marks(run: Run, session: Path) -> None:
    chain = ("-P", "chain", "-p", "policies=defect-microcompact,defect-compact", "-p", "defect-compact.threshold=1")
    report = document(run("plan", session, *chain, "--json")[1])
    assert {edit["source"] for edit in report["edits"]} == {"defect-microcompact", "defect-compact"}
    marks = ("-P", "manual", "-p", "clear=2:0,5:0", "-p", "cut=3")
    report = document(run("plan", session, *marks, "--json")[1])
    assert [edit["message"] for edit in report["edits"] if edit["action"] == "clear"] == [2, 5]
    assert report["boundary"] == 3


def test_koda_with_an_idle_time(run: Run, session: Path) -> None:
    koda = ("plan", session, "-P", "koda-microcompact", "--at", 18, "--json")
    assert document(run(*koda, "--idle", "300")[1])["trigger"]["fires"] is True
    assert document(run(*koda, "--idle", "299.9")[1])["trigger"]["fires"] is False


@pytest.mark.parametrize(
    ("policy", "param", "hint"),
    [
        ("koda-microcompact", "at=5", "did you mean --at?"),
        ("koda-microcompact", "idle_seconds=5", "did you mean --idle?"),
        ("manual", "window=9000", "did you mean --window?"),
        ("manual", "force=1", "did you mean --ignore-trigger?"),
        ("manual", "session=x", "available: clear, cut"),
        ("manual", "policy=x", "available: clear, cut"),
        ("chain", "at=5", "did you mean --at?"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_an_option_is_no_parameter(
    run: Run, session: Path, tmp_path: Path, command: str, policy: str, param: str, hint: str
) -> None:
    to = ("-o", tmp_path / "out") if command == "apply" else ()
    code, out, err = run(command, session, "-P", policy, "-p", param, *to)
    name = param.partition("=")[0]
    assert (code, out) == (2, "") and one_line(err) == f"context-tui: {policy}: unknown parameter {name!r}; {hint}\n"


@pytest.mark.parametrize("given", [("options=5",), ("options=5", "manual.cut=3")])
def test_a_chains_options_are_set_one_by_one(run: Run, session: Path, given: tuple[str, ...]) -> None:
    code, out, err = run("plan", session, "-P", "chain", *(word for each in given for word in ("-p", each)))
    assert (code, out) == (2, "") and "options='5'" in one_line(err)


def test_koda_though_its_trigger_does_not_fire(run: Run, session: Path, tmp_path: Path) -> None:
    params = ("-p", "keep_recent=1", "-p", f"compactable_tools=Re{ESC}ad")
    koda = (session, "-P", "koda-microcompact", "--at", 18, *params, "--json")
    assert document(run("plan", *koda)[1])["changed"] is False
    code, planned, err = run("plan", *koda, "--ignore-trigger")
    assert (code, err) == (0, "") and document(planned)["changed"] and not document(planned)["trigger"]["fires"]
    assert run("plan", *koda, "--force") == (
        0,
        planned,
        "context-tui: plan --force is deprecated; use --ignore-trigger\n",
    )
    assert "--force" not in run("plan", "--help")[1]
    out_file = tmp_path / "out.jsonl"
    assert document(run("apply", *koda, "-o", out_file, "--force")[1])["out"] is None and not out_file.exists()
    report = document(run("apply", *koda, "-o", out_file, "--ignore-trigger")[1])
    assert report["tokens"] == document(planned)["tokens"] and out_file.exists()


# -- apply


def test_apply_json(run: Run, session: Path, tmp_path: Path) -> None:
    out_file = tmp_path / "out.jsonl"
    given = ("apply", session, "-P", "defect-compact", "-p", "threshold=8000", "-o", out_file, "--json")
    code, out, err = run(*given)
    report = document(out)
    assert (code, err) == (0, "")
    wanted = {"schema", "policy", "params", "out", "format", "tokens", "summary", "check", "losses"}
    assert wanted <= set(report) and report["schema"] == "context-tui.apply/1"
    assert (report["out"], report["format"]) == (str(out_file), "claude-code")
    assert set(report["summary"]) == {"kind", "model", "text"}
    assert (report["summary"]["kind"], report["summary"]["model"]) == ("extract", None)
    assert report["check"] == {"inherited": [], "introduced": []}
    again = document(run("inspect", out_file, "--json", "--ruler", "own")[1])
    assert again["window"]["estimated_tokens"] == report["tokens"]["after"]


@pytest.mark.parametrize("name", ["claude-code", "koda", "anthropic", "openai"])
def test_apply_to_every_format(run: Run, session: Path, tmp_path: Path, name: str) -> None:
    out_file = tmp_path / "out"
    code, out, _ = run("apply", session, "-P", "defect-microcompact", "-o", out_file, "--to", name)
    assert code == 0 and f"written: {out_file} ({name})" in out
    report = document(run("inspect", out_file, "--json")[1])
    assert report["session"]["format"] == name and report["messages"] >= 19


@pytest.mark.parametrize("name", ["claude-code", "openai"])
def test_a_dry_run_tells_what_an_export_does_and_writes_nothing(
    run: Run, session: Path, tmp_path: Path, name: str
) -> None:
    given = ("apply", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "--to", name)
    before = sorted(tmp_path.rglob("*"))
    dry = document(run(*given, "--dry-run", "--json")[1])
    code, text, _ = run(*given, "--dry-run")
    assert code == 0 and f"nothing was written; {name} can represent" in text and sorted(tmp_path.rglob("*")) == before
    done = document(run(*given, "-o", tmp_path / "out", "--json")[1])
    assert dry == {**done, "out": None, "resume": None}
    assert run(*given, "--dry-run", "--force")[0] == 2


def test_apply_that_has_nothing_to_do(run: Run, session: Path, tmp_path: Path) -> None:
    code, out, err = run("apply", session, "-P", "manual", "-o", tmp_path / "out")
    assert (code, out) == (0, "") and "context-tui: nothing is marked; nothing was written" in one_line(err)
    assert not (tmp_path / "out").exists()


def test_an_extract_of_a_recording_that_repeats_itself(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    for _ in range(12):
        recording.user("never touch the database in /srv/data/production.db, use the copy")
        recording.assistant(text("understood"))
    given = ("-P", "agent-sdk-compact", "-p", "min_keep=1", "-o", tmp_path / "out.jsonl")
    code, out, err = run("apply", recording.write(tmp_path), *given)
    assert code == 0 and "written" in out and "warning: repetition" in err and "error" not in err


def test_a_models_summary_that_fails_a_check_is_refused_and_kept(
    run: Run, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "- the same line\n" * 5
    monkeypatch.setattr(
        "context_tui.summarizer.plan_summary.write_summary_blocking",
        lambda *_: Summary(loop, "m", ReplyUsage(), "end_turn", seconds=1),
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    out_file = tmp_path / "out.jsonl"
    given = ("-P", "defect-compact", "-p", "threshold=8000", "--summarizer", "openai", "--model", "m", "-o", out_file)
    code, out, err = run("apply", session, *given)
    assert (code, out) == (3, "") and "error: repetition" in err and not out_file.exists()
    assert "fails a check (repetition); OUT was not written; the draft is in " in err
    assert [path.read_text() for path in tmp_path.glob("context-tui-summary-*")] == [loop]


def test_where_apply_may_write(run: Run, session: Path, tmp_path: Path) -> None:
    before = session.read_bytes()
    taken = tmp_path / "taken"
    taken.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(session)
    given = ("apply", session, "-P", "defect-microcompact", "-o")
    for out_file, code in ((session, 2), (link, 2), (taken, 1), (tmp_path, 1), (tmp_path / "no" / "out", 1)):
        found, out, err = run(*given, out_file)
        assert (found, out) == (code, ""), out_file
        one_line(err)
        assert run(*given, session, "--force")[0] == 2
    assert taken.read_text() == "mine" and session.read_bytes() == before
    assert run(*given, taken, "--force")[0] == 0 and taken.read_text() != "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", session.name, "taken"]


def test_a_failing_endpoint_is_exit_3(run: Run, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret-4711")
    given = ("-P", "defect-compact", "-o", tmp_path / "out", "--summarizer", "openai", "--model", "m")
    code, out, err = run("apply", session, *given, "--base-url", "http://127.0.0.1:9/v1")
    assert (code, out) == (3, "") and "k-secret-4711" not in err and "127.0.0.1" in err
    assert not (tmp_path / "out").exists()


def test_an_empty_address_is_not_the_services_own(
    run: Run, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret-4711")
    given = ("-P", "defect-compact", "-o", tmp_path / "out", "--summarizer", "openai")
    code, out, err = run("apply", session, *given, "--base-url", "")
    assert (code, out) == (3, "") and "--base-url is empty" in one_line(err)
    assert not (tmp_path / "out").exists()


# -- what there is


def test_policies(run: Run) -> None:
    report = document(run("policies", "--json")[1])
    assert report["schema"] == "context-tui.policies/1"
    names = "defect-microcompact defect-compact koda-microcompact agent-sdk-prune agent-sdk-compact manual chain"
    assert [policy["name"] for policy in report["policies"]] == [*names.split(), *PRESETS]
    for policy in report["policies"]:
        for param in policy["params"]:
            assert set(param) >= {"name", "type", "default", "min", "max", "unit", "about"} and param["about"]
    (one,) = document(run("policies", "defect-microcompact", "--json")[1])["policies"]
    assert one["params"][0] | {"about": ""} == {
        "name": "keep_recent_turns",
        "type": "integer",
        "default": 3,
        "min": 1,
        "max": 1_000,
        "unit": "turns",
        "about": "",
    }
    for name in names.split():
        code, out, err = run("policies", name)
        assert (code, err) == (0, "") and name in out
    assert "did you mean" in one_line(run("policies", "defect-micro")[2])


def test_formats(run: Run) -> None:
    report = document(run("formats", "--json")[1])
    assert report["schema"] == "context-tui.formats/1"
    assert {"claude-code", "koda", "anthropic", "openai"} <= {each["name"] for each in report["formats"]}
    code, out, err = run("formats")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    unseen = "; from source, not yet verified on a real file"
    assert unseen not in lines["swe-agent"] and lines["goose"].endswith(unseen)
    assert lines["openhands"].endswith(f"{unseen}: V1")


# -- names of sessions


def test_a_session_from_standard_input(run: Run, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(session.read_bytes()))
    monkeypatch.setattr(sys, "stdin", piped)
    report = document(run("inspect", "-", "--json")[1])
    assert report["messages"] == 19 and report["session"]["path"] == "-"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    code, _, err = run("inspect", "-")
    assert code == 2 and "standard input" in one_line(err), "not the name of a temporary file"


def test_several_sessions(run: Run, session: Path, tmp_path: Path) -> None:
    other = Recording()
    other.user("other")
    other.write(tmp_path, "b.jsonl")
    code, out, err = run("inspect", tmp_path)
    assert (code, out) == (2, "")
    assert err.splitlines()[1:] == [str(tmp_path / "b.jsonl"), str(session)]
    assert run("inspect", err.splitlines()[1])[0] == 0
    code, out, err = run(session, tmp_path / "b.jsonl")
    assert (code, out) == (2, "") and err.splitlines()[1:] == [str(session), str(tmp_path / "b.jsonl")]


def test_many_sessions_are_listed_up_to_a_limit(run: Run, tmp_path: Path) -> None:
    for number in range(25):
        recording = Recording()
        recording.user("Hi")
        recording.write(tmp_path, f"{number}.jsonl")
    code, _, err = run("inspect", tmp_path)
    assert code == 2 and len(err.splitlines()) == 22
    assert "5 more" in err.splitlines()[-1] and "context-tui sessions PATH" in err.splitlines()[-1]


def test_a_sidechain_by_its_id(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("main")
    recording.user("aside", isSidechain=True, agentId="abc")
    path = recording.write(tmp_path, "a#b.jsonl")
    assert document(run("inspect", path, "--json")[1])["session"]["id"] == ""
    report = document(run("inspect", f"{path}#abc", "--json")[1])
    assert (report["session"]["id"], report["messages"]) == ("abc", 1)
    code, out, err = run("inspect", f"{path}#xyz")
    assert (code, out) == (2, "") and "unknown session 'xyz'; available: abc" in one_line(err)


# -- errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect"], "required: SESSION"),
        (["inspect", "S", "S"], "unrecognized arguments"),
        (["inspect", "S", "--nonsense"], "unrecognized arguments"),
        (["inspect", "S", "--window", "many"], "--window: 'many' is not a number of tokens; give 1 to 1,000,000,000"),
        (["inspect", "S", "--window", "0"], "--window: '0' is not a number of tokens"),
        (["inspect", "S", "--window", "infk"], "--window: 'infk' is not a number of tokens"),
        (["inspect", "S", "--window", ""], "--window: '' is not a number of tokens"),
        (["inspect", "S", "--at", "x"], "--at: 'x' is not a message number; give a whole number"),
        (["inspect", "S", "--at", "99"], "message 99 is not in the session"),
        (["inspect", "S", "--at", "-1"], "message -1 is not in the session"),
        (["plan", "S"], "-P"),
        (["plan", "S", "-P", "nonsense"], "unknown policy 'nonsense'"),
        (["plan", "S", "-P", "manual", "-p", "cut"], "write KEY=VALUE"),
        (["plan", "S", "-P", "manual", "-p", "=5"], "write KEY=VALUE"),
        (["plan", "S", "-P", "manual", "-p", "cut=\x1b[2J"], "cut="),
        (["plan", "S", "-P", "koda-microcompact", "--idle", "nan"], "idle"),
        (["plan", "S", "-P", "koda-microcompact", "--idle", "inf"], "idle"),
        (["plan", "S", "-P", "koda-microcompact", "--idle", "soon"], "--idle: 'soon' is not a number of seconds; give"),
        (["apply", "S", "-P", "manual"], "-o"),
        (
            ["apply", "S", "-P", "manual", "-o", "o", "--summarizer", "nobody"],
            "--summarizer: unknown summarizer 'nobody'; available: extract, anthropic, openai",
        ),
        (
            ["apply", "S", "-P", "defect-microcompact", "-o", "OUT", "--to", "nonsense"],
            "unknown format 'nonsense'; available: claude-code, koda",
        ),
        (["policies", "nonsense"], "unknown policy"),
        (["formats", "x"], "unrecognized arguments"),
        (["no-such-file\x1b[2J"], "no such file"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_bad_usage_is_exit_2(run: Run, session: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    given = [{"S": str(session), "OUT": str(tmp_path / "out")}.get(argument, argument) for argument in arguments]
    code, out, err = run(*given)
    assert said in one_line(err)
    assert (code, out) == (2, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("missing", None),
        ("empty.jsonl", b""),
        ("blank.jsonl", b"\n \n"),
        ("binary.bin", bytes(range(256)) * 300),
        ("zeros.jsonl", b"\0" * 100_000),
        ("prose.txt", b"Once upon a time\nthere was a file\n"),
        ("numbers.json", b"[1, 2, 3]"),
        ("nothing.json", b"{}"),
        ("torn.jsonl", b'{"type":"user","uuid":"u","sessionId":"s","mess'),
        ("deep.json", b"[" * 100_000),
        ("database.db", b"SQLite format 3\0" + b"\0" * 4_000),
        ("bom.txt", b"\xef\xbb\xbf"),
        ("utf16.jsonl", '{"type":"user"}\n'.encode("utf-16")),
        ("new\nline.jsonl", b""),
        ("esc\x1b[2J.jsonl", b""),
    ],
)
def test_nothing_readable_is_exit_2(run: Run, tmp_path: Path, name: str, data: bytes | None) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    for command in (["inspect", path], ["inspect", path, "--json"], [path], ["plan", path, "-P", "manual"]):
        code, out, err = run(*command)
        assert (code, out) == (2, ""), name
        one_line(err)


def test_problems_beside_a_record_are_no_failure(run: Run, tmp_path: Path) -> None:
    recording = Recording()
    recording.user("fine")
    recording.line(b"broken")
    path = recording.write(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"torn":')
    code, out, err = run("inspect", path, "--json")
    assert (code, err) == (0, "")
    assert [problem["where"] for problem in document(out)["problems"]] == ["line 2", "line 3"]


def test_a_defect_of_ours_is_one_line_and_a_log(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("context_tui.cli.inspect.measure_breakdown", lambda *_, **__: 1 / 0)
    assert main(["inspect", str(session)]) == 1
    err = one_line(capsys.readouterr().err)
    (log,) = tmp_path.glob("*.log")
    assert str(log) in err and "ZeroDivisionError" in log.read_text()


def test_a_defect_without_a_place_for_its_log(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(session / "no-folder"))
    monkeypatch.setattr("context_tui.cli.inspect.measure_breakdown", lambda *_: 1 / 0)
    assert main(["inspect", str(session)]) == 1
    assert "the log cannot be written" in one_line(capsys.readouterr().err)


def test_a_working_folder_that_was_deleted(
    run: Run, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder.rmdir()
    assert run("sessions")[0] == run("sessions", "--here")[0] == run("sessions", session)[0] == 0
    clear = ("-P", "manual", "-p", "clear=2:0")
    for name in ("claude-code", "pi", "defect", "gemini-cli"):
        assert run("apply", session, *clear, "--to", name, "-o", tmp_path / name)[0] == 0
    for arguments in (("inspect", "."), ("sessions", "."), ("apply", session, *clear, "-o", "out")):
        assert run(*arguments) == (1, "", "context-tui: the working folder was deleted; change to another one\n")


def test_errors_are_bounded(run: Run, session: Path) -> None:
    long = "x" * 100_000
    for arguments in (
        ("inspect", long),
        ("inspect", f"{session}#{long}"),
        ("plan", session, "-P", long),
        ("plan", session, "-P", "chain", "-p", f"policies={long}"),
        ("plan", session, "--window", long),
        ("apply", session, "--to", long, "--dry-run"),
    ):
        code, _, err = run(*arguments)
        assert code and 100 < len(one_line(err)) < 2_200
    assert str(Error("/place: is wrong; mend it")) == "/place: is wrong; mend it"
    assert str(Error(f"/place: {long}; mend it")).startswith("/place: ") and str(Error(f"{long}; b")).endswith("; b")


# -- the process itself


def process(*arguments: object, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "context_tui", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_a_closed_pipe_ends_silently(session: Path) -> None:
    recording = Recording()
    for number in range(3_000):
        recording.user(str(number))
    path = recording.write(session.parent, "long.jsonl")
    running = process("inspect", path, "--messages")
    assert running.stdout is not None and running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b"" and running.wait(20) == 0
    running.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_is_told(session: Path) -> None:
    command = [sys.executable, "-m", "context_tui", "inspect", str(session)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"context-tui: standard output: No space left on device\n")


def test_an_interrupt_is_exit_130(tmp_path: Path) -> None:
    running = process("inspect", "-", stdin=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 20
    while not any(path.is_file() for path in tmp_path.rglob("*")) and time.monotonic() < deadline:
        time.sleep(0.02)  # until it spools standard input
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out, err) == (130, b"", b"context-tui: interrupted\n")
    assert not any(tmp_path.iterdir())


def test_text_that_the_terminal_cannot_show(session: Path) -> None:
    recording = Recording()
    recording.user("x")
    path = recording.write(session.parent, "naïve-日本.jsonl")
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, err = process("inspect", path, env=plain).communicate(timeout=20)
    assert err == b"" and b"1 message" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "sign", "minus"), [("utf-8", "≥", "−"), ("ascii", ">=", "-"), ("latin-1", ">=", "-")]
)
def test_signs_that_the_encoding_lacks_are_ascii(session: Path, encoding: str, sign: str, minus: str) -> None:
    arguments = ("plan", session, "-P", "claude-code-auto", "--window", "33001")
    out, _ = process(*arguments, env=os.environ | {"PYTHONIOENCODING": encoding}).communicate()
    assert f" tokens {sign} limit 1 (33,001 {minus} 33,000 reserve)" in out.decode(encoding)


def test_names_that_are_not_utf_8(session: Path) -> None:
    odd = os.fsencode(session.parent) + b"/\xff.jsonl"
    with open(odd, "wb") as file:
        file.write(session.read_bytes())
    running = subprocess.run(
        [sys.executable.encode(), b"-m", b"context_tui", b"inspect", b"--json", odd], capture_output=True, check=False
    )
    assert running.returncode == 0 and running.stderr == b"" and running.stdout.isascii()
