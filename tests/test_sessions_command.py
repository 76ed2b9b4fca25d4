"""`context-tui sessions`: what is on this machine, and at paths."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.formats.registry import FORMATS
from context_tui.library import overview

SAMPLES = Path(__file__).parents[1] / "sample_sessions"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for project, name, time in (("-p-one", "compacted-session", 300), ("-p-two", "coding-session", 200)):
        folder = tmp_path / ".claude" / "projects" / project
        folder.mkdir(parents=True)
        shutil.copy(SAMPLES / f"{name}.jsonl", folder)
        os.utime(folder / f"{name}.jsonl", (time, time))
    (tmp_path / ".claude" / "projects" / "-p-two" / "odd.jsonl").write_bytes(b"\0\1")
    os.utime(tmp_path / ".claude" / "projects" / "-p-two" / "odd.jsonl", (100, 100))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["sessions", "--json", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "context-tui.sessions/1"
    found: list[dict[str, Any]] = report["sessions"]
    return found


def names(sessions: list[dict[str, Any]]) -> list[str]:
    return [Path(each["path"]).stem + ("#" if each["id"] else "") for each in sessions]


def test_what_is_known_of_each_newest_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(capsys, "--agent", "claude-code")
    mains = [each for each in found if not each["parent"]]
    assert names(mains) == ["compacted-session", "coding-session", "odd"]
    first, coding, odd = mains
    assert (first["project"], first["agent"], first["compactions"]) == ("ledger", "claude-code", 2)
    assert coding["context"] == {"recorded_tokens": 58_472, "window": 65_536}
    assert coding["model"] == "deepseek-chat" and coding["bytes"] > 100_000 and coding["time"] == 200
    assert "binary data" in odd["problem"] and odd["context"]["recorded_tokens"] is None
    below = [each for each in found if each["parent"]]
    assert below and all(each["parent"] == first["path"] for each in below)


def test_a_defect_of_ours_costs_one_session_or_one_format(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: Path, *rest: object) -> None:
        raise TypeError("odd")

    read, list_sessions = overview._read_session, ClaudeCodeFormat.make_lister
    monkeypatch.setattr(
        overview, "_read_session", lambda info, *rest: (read if "one" in info.path else fail)(info, *rest)
    )
    monkeypatch.setattr(FORMATS["pi"], "find_sessions", fail)
    monkeypatch.setenv("CONTEXT_TUI_CACHE", "")
    mains = [each for each in listed(capsys, "--agent", "claude-code") if not each["parent"]]
    assert [each["problem"] for each in mains][:2] == [None, "internal error (TypeError: odd); please report it"]
    assert caplog.messages == ["pi: sessions cannot be listed: internal error (TypeError: odd); please report it"]
    caplog.clear()
    monkeypatch.setattr(
        ClaudeCodeFormat,
        "make_lister",
        lambda form: lambda path: (fail if "two" in str(path) else list_sessions(form))(path),
    )
    assert names(listed(capsys, str(home / ".claude")))[0] == "compacted-session"
    assert [message.split(": ", 1)[1] for message in caplog.messages] == [
        "internal error (TypeError: odd); please report it"
    ]


def test_filters_and_a_limit(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(listed(capsys, "--project", "TWO", "--brief")) == ["coding-session", "odd"]
    assert "compacted-session" in names(listed(capsys, "--text", "bank csv", "--agent", "claude-code"))
    assert names(listed(capsys, "--agent", "claude-code", "--limit", "1", "--brief")) == ["compacted-session"]
    assert main(["sessions", "--limit", "1", "--brief", "--agent", "claude-code"]) == 0
    assert "1 of 3 sessions; --limit 0 lists all" in capsys.readouterr().err
    assert listed(capsys, "--here") == []


def test_paths_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    database = listed(capsys, str(SAMPLES / "koda.db"))
    assert len(database) == 3 and all(each["id"] and each["title"] for each in database)
    several = listed(capsys, str(SAMPLES), "--limit", "0")
    assert {"anthropic", "claude-code", "koda", "openai"} <= {each["agent"] for each in several}
    keys = [(each["path"], each["id"]) for each in several]
    assert len(keys) == len(set(keys)), "each once"
    assert main(["sessions", str(SAMPLES / "none")]) == 2


def test_the_table_is_for_people(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "--agent", "claude-code"]) == 0
    out = capsys.readouterr().out
    assert "89 %" in out and "58.5k" in out and "cannot be read" in out and "└" in out


@pytest.mark.parametrize("given", [("--limit", "-1"), ("--limit", "x"), ("--agent", "none"), ("--text", "")])
def test_bad_usage(given: tuple[str, ...]) -> None:
    assert main(["sessions", *given]) == 2
