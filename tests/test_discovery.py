"""Finding sessions on this machine: order, titles, and folders that are not as expected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from context_tui import discovery
from context_tui.discovery import (
    ELSEWHERE,
    HERE,
    entries_of,
    recorded_sessions,
    samples,
    title_of,
)
from context_tui.formats.claude_code.places import project_slug
from context_tui.session.session import SessionInfo


def put(root: Path, name: str, time: int, *records: object) -> Path:
    path = root / "projects" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (time, time))
    return path


def user(content: object, **more: object) -> dict[str, object]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def test_the_samples_of_a_checkout_are_found() -> None:
    found = samples()
    assert found
    assert all(Path(entry.info.path).parent.name == "sample_sessions" for entry in found)


def test_the_samples_of_an_installed_package_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "context_tui"
    (package / "_samples").mkdir(parents=True)
    (package / "_samples" / "demo.jsonl").write_text("{}\n")
    monkeypatch.setattr(discovery, "__file__", str(package / "discovery.py"))
    assert [entry.name for entry in samples()] == ["demo"]
    (package / "_samples" / "demo.jsonl").unlink()
    assert samples() == []


def test_this_project_comes_first_and_the_newest_of_each(tmp_path: Path) -> None:
    cwd = Path("/home/dev/some.project")
    put(tmp_path, "-other/new.jsonl", 900)
    put(tmp_path, "-other/old.jsonl", 100)
    put(tmp_path, "-home-dev-some-project/mine.jsonl", 200)
    put(tmp_path, "-home-dev-some-project/newer.jsonl", 300)
    put(tmp_path, "-home-dev-some-project/agent-1234.jsonl", 999)
    put(tmp_path, "-home-dev-some-project/notes.txt", 999)
    found = recorded_sessions({"CLAUDE_CONFIG_DIR": str(tmp_path)}, cwd)
    assert [entry.name for entry in found] == ["newer", "mine", "new", "old"]
    assert [entry.group for entry in found] == [HERE, HERE, ELSEWHERE, ELSEWHERE]
    assert found[0].place == "some.project"
    assert found[0].info.time == 300


def test_the_usual_root_is_below_home(tmp_path: Path) -> None:
    put(tmp_path / ".claude", "-p/s.jsonl", 1)
    assert [entry.name for entry in recorded_sessions({"HOME": str(tmp_path)}, tmp_path)] == ["s"]


def test_missing_and_unreadable_folders_hold_nothing(tmp_path: Path) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert recorded_sessions(environ, tmp_path) == []
    put(tmp_path, "-p/s.jsonl", 1)
    (tmp_path / "projects" / "file").write_text("no folder")
    (tmp_path / "projects" / "dead").symlink_to(tmp_path / "nowhere")
    (tmp_path / "projects" / "-p" / "dead.jsonl").symlink_to(tmp_path / "nowhere")
    assert [entry.name for entry in recorded_sessions(environ, tmp_path)] == ["s"]


def test_slugs_are_claude_codes() -> None:
    assert project_slug(Path("/home/me/my_app v2.0")) == "-home-me-my-app-v2-0"


def test_the_title_is_the_first_prompt_that_was_typed(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "t.jsonl",
        1,
        {"type": "summary", "summary": "user"},
        user("<command-name>/clear</command-name>"),
        user("Caveat: The messages below were generated"),
        user("<user-prompt-submit-hook>lint passed</user-prompt-submit-hook>"),
        user("skills", isMeta=True),
        user("aside", isSidechain=True),
        user([{"type": "tool_result", "content": "x"}]),
        user([{"type": "text", "text": "  fix\n the [red]bug  "}]),
        user("later"),
    )
    assert title_of(SessionInfo(str(path), "claude-code")) == "fix the [red]bug"


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00user", b'{"user": ' + b"[" * 70_000, b'"user"\n[1, "user"]\n'])
def test_a_file_without_a_prompt_has_no_title(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(data)
    assert title_of(SessionInfo(str(path), "claude-code")) == ""


def test_a_title_that_is_known_is_not_read_again() -> None:
    assert title_of(SessionInfo("/nowhere.jsonl", "", title="known")) == "known"
    assert title_of(SessionInfo("/nowhere.jsonl", "")) == ""


def test_sessions_of_one_file_are_told_apart_by_their_ids() -> None:
    entries = entries_of([SessionInfo("/a.db", "koda", "s1"), SessionInfo("/a.db", "koda", "s2")])
    assert [entry.name for entry in entries] == ["s1", "s2"]
    assert [entry.place for entry in entries] == ["a.db", "a.db"]
    assert [entry.agent for entry in entries] == ["koda", "koda"]


def test_files_of_a_folder_are_told_apart_by_their_names_said_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": "Fix the build"}}) + "\n")
    infos = [
        SessionInfo(str(path), "claude-code", title="a"),
        SessionInfo(f"{tmp_path}/b.db", "koda", "s1", title="s1"),
    ]
    entries = entries_of(infos)
    assert {entry.group for entry in entries} == {"in this folder"}
    assert [(entry.name, entry.place) for entry in entries] == [("a", tmp_path.name), ("s1", "b.db")]
    assert [title_of(info) for info in infos] == ["Fix the build", ""]
    assert entries_of([infos[0], SessionInfo("/c/d.jsonl", "koda")])[0].group == "in these folders"
    assert entries_of(infos[1:])[0].group == "in this file"
