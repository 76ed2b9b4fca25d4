"""The edge of the process: hostile names, empty ones, closed streams, folders and files that cannot be opened."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import COMMANDS, main
from context_tui.errors import ExportError
from context_tui.export.files import export, suggest_path
from context_tui.library.discovery import find_recorded_sessions
from context_tui.session.session import SessionInfo
from tests.formats.recordings import Recording, four_turns

CLIPBOARD = "\x1b]52;c;T1dORUQ=\x07"
HIDDEN = "a\u202eb\u200dc\u200bd\ufe0fe\u2066f"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return four_turns(tmp_path)


def ran(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "context_tui", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


# -- names


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", CLIPBOARD, CLIPBOARD],
        ["inspect", f"--{CLIPBOARD}"],
        ["inspect", "S", "--window", CLIPBOARD],
        ["inspect", "S", "--at", CLIPBOARD],
        ["apply", "S", "-P", "manual", "-o", "OUT", "--to", CLIPBOARD],
        ["apply", "S", "-P", "manual", "-o", "OUT", "--summarizer", CLIPBOARD],
        ["formats", CLIPBOARD],
        ["policies", CLIPBOARD],
        ["policies", "a", f"\x9b31m{HIDDEN}\udcff\n"],
        [f"no-such-{CLIPBOARD}"],
        ["demo", CLIPBOARD],
        ["plan", "S", "-P", CLIPBOARD],
        ["plan", "S", "-P", "manual", "-p", CLIPBOARD],
        ["plan", "S", "-P", "manual", "-p", f"{CLIPBOARD}=1"],
    ],
)
def test_what_was_typed_is_repeated_only_made_safe(
    session: Path, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"S": str(session), "OUT": str(tmp_path / "out")}.get(argument, argument) for argument in arguments]
    assert main(given) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.removesuffix("\n").isprintable()


@pytest.mark.slow
def test_a_name_hides_nothing(tmp_path: Path, session: Path) -> None:
    shown = "a·b·c·d·e·f"
    assert f"{shown}: no such file" in ran("inspect", HIDDEN, cwd=tmp_path).stderr
    assert shown in ran("inspect", session, HIDDEN, cwd=tmp_path).stderr
    out = tmp_path / f"{HIDDEN}.jsonl"
    made = ran("apply", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "-o", out)
    assert made.returncode == 0 and f"{shown}.jsonl" in made.stdout and HIDDEN not in made.stdout
    assert f"{shown}.jsonl: already exists" in ran("apply", session, "-P", "manual", "-o", out).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", ""],
        ["plan", "", "-P", "manual"],
        ["plan", "S", "-P", ""],
        ["plan", "S", "-P", "manual", "-p", ""],
        ["apply", "S", "-P", "manual", "-o", ""],
        ["apply", "", "-P", "manual", "-o", "OUT"],
        ["apply", "S", "-P", "manual", "-o", "OUT", "--to", ""],
        ["apply", "S", "-P", "manual", "-o", "OUT", "--model", ""],
        ["policies", ""],
        ["", "S"],
        [""],
        ["#agent"],
        ["S", "--theme", ""],
    ],
)
def test_an_empty_name_is_bad_usage(
    session: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(session.parent)
    given = [{"S": session.name, "OUT": "out"}.get(argument, argument) for argument in arguments]
    assert main(given) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert os.listdir() == [session.name]


@pytest.mark.parametrize("spec", ["", "#agent", "#"])
def test_an_empty_path_names_no_session(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ct.UnreadableSession, match="names no file"):
        ct.open_session(spec)
    with pytest.raises(ct.UnreadableSession, match="names no file"):
        ct.sessions_in(spec)


@pytest.mark.parametrize(
    "name", ["lone\ud800", "x" * 300, "x/" * 3_000 + "x", "é" * 200, "x" * 300 + "#agent", "nul\0"]
)
def test_names_that_no_system_takes(session: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ct.UnreadableSession) as caught:
        ct.open_session(tmp_path / name)
    assert "\n" not in str(caught.value)
    with pytest.raises(ExportError, match=r"cannot be written|no such folder"):
        export(ct.open_session(session), tmp_path / name / "out.json", "anthropic")
    with pytest.raises(ExportError, match=r"cannot be written|no such folder"):
        export(ct.open_session(session), tmp_path / name, "anthropic")
    assert os.listdir(tmp_path) == [session.name]


def test_the_longest_names_there_are(session: Path, tmp_path: Path) -> None:
    long = "😀" * 60 + "x" * 9  # 249 bytes
    path = session.rename(tmp_path / f"{long}.jsonl")
    assert len(path.name.encode()) == 255
    read = ct.open_session(path)
    suggested = suggest_path(read, "claude-code")
    assert suggested.name.endswith("x.copy.jsonl")
    assert export(read, suggested, "claude-code").path.exists()
    assert export(read, tmp_path / (long[1:] + "😀.json")[-70:], "anthropic").path.exists()
    assert export(read, tmp_path / f"{'y' * 255}", "anthropic").path.exists()
    assert suggest_path(ct.open_session(tmp_path / f"{'y' * 255}"), "openai").name == "y" * 245 + ".copy.json"


# -- what fails beside OUT


@pytest.mark.slow
@pytest.mark.parametrize("cwd", ["/" + "d" * 400, "/nul\0", "/" + "é" * 150, "relative", "/lone\udcff"])
def test_a_recorded_folder_of_any_name(tmp_path: Path, cwd: str) -> None:
    recording = Recording()
    recording.user("one", cwd=cwd)
    recording.assistant({"type": "text", "text": "two"}, cwd=cwd)
    recording.user("three", cwd=cwd)
    path = recording.write(tmp_path)
    result = export(ct.open_session(path), tmp_path / "out.jsonl", "claude-code")
    assert result.path.exists() and len(ct.open_session(result.path)) == 3
    done = ran("apply", path, "-P", "manual", "-p", "cut=2", "-o", tmp_path / "again.jsonl")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert len(cwd) < 200 or "resume:" not in done.stdout


def test_nothing_fails_once_out_is_there(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        assert not (tmp_path / "out.jsonl").exists()
        raise OSError(36, "File name too long")

    monkeypatch.setattr("context_tui.formats.claude_code.paths._read_session_id_and_cwd", fails)
    result = export(ct.open_session(session), tmp_path / "out.jsonl", "claude-code")
    assert result.resume_command == "" and result.path.exists()


# -- streams that are closed


@pytest.mark.parametrize(
    "closed", ["<&-", *(pytest.param(each, marks=pytest.mark.slow) for each in (">&-", "2>&-", "<&- >&- 2>&-"))]
)
def test_streams_that_are_closed(session: Path, tmp_path: Path, closed: str) -> None:
    commands: dict[str, list[object]] = {
        "inspect": ["inspect", session],
        "json": ["inspect", session, "--json"],
        "browse": [session],
        "plan": ["plan", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=1"],
        "sessions": ["sessions", session],
        "apply": ["apply", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "-o", tmp_path / "out"],
        "policies": ["policies"],
        "formats": ["formats", "--json"],
        "demo": ["demo"],
        "replay": ["replay", session, "-P", "defect-microcompact"],
        "compare": ["compare", session, "--at", 8, "--summarizer", "extract", "--summarizer", "extract,bytes=900"],
        "sweep": ["sweep", session, "-P", "defect-microcompact", "-p", "keep_recent_turns=1..2", "--jobs", 1],
        "tune": ["tune", session, "--jobs", 1],
        "cache": ["cache", session],
        "aftermath": ["aftermath", session],
        "completion": ["completion", "zsh"],
        "report": ["report", session, "-o", tmp_path / "report.md"],
        "version": ["--version"],
        "help": ["inspect", "--help"],
    }
    assert set(COMMANDS) <= set(commands)
    few = ("json", "apply")
    for name, arguments in commands.items() if ">&-" in closed.split() else ((each, commands[each]) for each in few):
        line = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "context_tui", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        talk = re.sub(
            r"context-tui: (1 of 1 session done, with \d+ settings each|.* written|.* nothing to explain)\n",
            "",
            done.stderr,
        )
        code = 4 if name == "tune" else 0  # nothing fires in one short session
        assert done.returncode == code and talk == "", name
        prints = ">&-" not in closed.replace("2>&-", "") and name != "report"
        assert bool(done.stdout) == prints, name
    assert ct.open_session(tmp_path / "out").facts.problems == []
    wrong = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "context_tui", "inspect", "no-such-file"]
    done = subprocess.run(wrong, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_standard_input_that_is_closed_is_empty() -> None:
    line = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "context_tui", "inspect", "-"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "the file is empty" in done.stderr


@pytest.mark.parametrize("text", ["[]", " [ ]\n", '{"messages": []}'])
def test_a_session_without_messages_whose_format_nothing_tells_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ct.UnreadableSession, match="an empty list, without any messages"):
        ct.open_session(path)


@pytest.mark.parametrize("text", ["{}", '{"messages": {}}', "[[]]", "[" * 50_000])
def test_what_is_no_session_is_not_said_to_be_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ct.UnreadableSession, match="unknown session format"):
        ct.open_session(path)


# -- what may not be read


@pytest.mark.slow
def test_a_database_that_is_locked(tmp_path: Path, session: Path) -> None:
    path = export(ct.open_session(session), tmp_path / "koda.db", "koda").path
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        done = ran("inspect", path)
        other.execute("ROLLBACK")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "is locked by another program; try again" in done.stderr


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="context-tui-tests-"))
    folder.chmod(0o755)
    yield folder
    for each in [folder, *folder.rglob("*")]:
        if each.is_dir():
            each.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_searched(open_to_all: Path, session: Path) -> None:
    """As another user where this is root, who may search them all."""
    places = {0o000: "closed", 0o444: "listed", 0o111: "searched"}
    for mode, name in places.items():
        folder = open_to_all / name
        folder.mkdir()
        shutil.copy(session, folder / "s.jsonl")
        (folder / "s.jsonl").chmod(0o644)
        folder.chmod(mode)
    (open_to_all / "around").mkdir()
    (open_to_all / "around" / "inner").mkdir()
    (open_to_all / "around" / "inner").chmod(0)
    lines = ["import sys, os, json", "from context_tui.cli import main"]
    lines += ["sys.stderr = open(os.devnull, 'w')"]  # what is imported late is imported before it cannot be
    lines += ["for arguments in json.loads(sys.stdin.readline()): main(arguments)", "sys.stderr = sys.__stderr__"]
    if os.geteuid() == 0:
        lines += ["os.setgid(65534)", "os.setuid(65534)"]
    lines += ["os.chdir('/')", "for arguments in json.load(sys.stdin): print(main(arguments), file=sys.stderr)"]
    closed, listed, searched = (open_to_all / name for name in ("closed", "listed", "searched"))
    asked = [
        (["inspect", f"{closed}"], "Permission denied"),
        (["inspect", f"{closed}/s.jsonl"], "Permission denied"),
        (["inspect", f"{closed}/s.jsonl#agent"], "Permission denied"),
        (["inspect", f"{listed}"], "Permission denied"),
        (["inspect", f"{searched}"], "Permission denied"),
        (["inspect", f"{open_to_all}/around"], "unreadable folders in it: 1"),
        (["apply", f"{searched}/s.jsonl", "-P", "manual", "-p", "cut=4", "-o", f"{closed}/o"], "Permission denied"),
        (["apply", f"{searched}/s.jsonl", "-P", "manual", "-p", "cut=4", "-o", f"{closed}/o/p"], "Permission denied"),
        (["apply", f"{searched}/s.jsonl", "-P", "manual", "-p", "cut=4", "-o", f"{searched}/o"], "Permission denied"),
    ]
    before = [
        ["inspect", str(session)],
        ["apply", str(session), "-P", "manual", "-p", "cut=4", "-o", str(session.parent / "o")],
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        input=f"{json.dumps(before)}\n{json.dumps([arguments for arguments, _ in asked])}",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    said = done.stderr.splitlines()
    assert len(said) == 2 * len(asked), done.stderr
    for (arguments, why), line, code in zip(asked, said[::2], said[1::2], strict=True):
        assert why in line and code == ("1" if arguments[0] == "apply" else "2"), (arguments, line, code)


def test_listing_survives_what_it_may_not_look_at(tmp_path: Path, session: Path) -> None:
    projects = tmp_path / "config" / "projects"
    (projects / "-one").mkdir(parents=True)
    shutil.copy(session, projects / "-one" / "s.jsonl")
    (projects / "loop").symlink_to("loop")
    (projects / "-one" / "loop.jsonl").symlink_to("loop.jsonl")
    found = find_recorded_sessions({"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    assert [Path(entry.info.path).name for entry in found] == ["s.jsonl"]
    assert found[0].info == SessionInfo(found[0].info.path, "", time=found[0].info.time, bytes=found[0].info.bytes)
