"""Finding sessions on this machine: order, titles, and folders that are not as expected."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.errors import UnreadableSession
from context_tui.formats import opening
from context_tui.formats.claude_code.paths import format_project_slug
from context_tui.library import discovery
from context_tui.library.cache import SessionCache
from context_tui.library.discovery import (
    OTHER_PROJECTS,
    THIS_PROJECT,
    build_entries,
    find_choices,
    find_project_name,
    find_recorded_sessions,
    find_samples,
    find_session_infos,
    find_title,
)
from context_tui.library.overview import OverviewReader
from context_tui.session.session import SessionInfo
from tests.formats.opencode_records import rich


def put(root: Path, name: str, time: int, *records: object) -> Path:
    path = root / "projects" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (time, time))
    return path


def user(content: object, **more: object) -> dict[str, object]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def test_the_samples_of_a_checkout_are_found() -> None:
    found = find_samples()
    assert found
    assert all(Path(entry.info.path).parent.name == "sample_sessions" for entry in found)


def test_the_samples_of_an_installed_package_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "context_tui"
    (package / "_samples").mkdir(parents=True)
    (package / "_samples" / "demo.jsonl").write_text("{}\n")
    monkeypatch.setattr(discovery, "__file__", str(package / "library" / "discovery.py"))
    assert [entry.name for entry in find_samples()] == ["demo"]
    (package / "_samples" / "demo.jsonl").unlink()
    assert find_samples() == []


def test_this_project_comes_first_and_the_newest_of_each(tmp_path: Path) -> None:
    cwd = Path("/home/dev/some.project")
    put(tmp_path, "-other/new.jsonl", 900)
    put(tmp_path, "-other/old.jsonl", 100)
    put(tmp_path, "-home-dev-some-project/mine.jsonl", 200)
    put(tmp_path, "-home-dev-some-project/newer.jsonl", 300)
    put(tmp_path, "-home-dev-some-project/agent-1234.jsonl", 999)
    put(tmp_path, "-home-dev-some-project/notes.txt", 999)
    found = find_recorded_sessions({"CLAUDE_CONFIG_DIR": str(tmp_path)}, cwd)
    assert [entry.name for entry in found] == ["newer", "mine", "new", "old"]
    assert [entry.group for entry in found] == [THIS_PROJECT, THIS_PROJECT, OTHER_PROJECTS, OTHER_PROJECTS]
    assert found[0].place == "some.project"
    assert found[0].info.time == 300


def test_the_usual_root_is_below_home(tmp_path: Path) -> None:
    put(tmp_path / ".claude", "-p/s.jsonl", 1)
    assert [entry.name for entry in find_recorded_sessions({"HOME": str(tmp_path)}, tmp_path)] == ["s"]


def test_missing_and_unreadable_folders_hold_nothing(tmp_path: Path) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert find_recorded_sessions(environ, tmp_path) == []
    put(tmp_path, "-p/s.jsonl", 1)
    (tmp_path / "projects" / "file").write_text("no folder")
    (tmp_path / "projects" / "dead").symlink_to(tmp_path / "nowhere")
    (tmp_path / "projects" / "-p" / "dead.jsonl").symlink_to(tmp_path / "nowhere")
    assert [entry.name for entry in find_recorded_sessions(environ, tmp_path)] == ["s"]


def test_slugs_are_claude_codes() -> None:
    assert format_project_slug(Path("/home/me/my_app v2.0")) == "-home-me-my-app-v2-0"


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
    assert find_title(SessionInfo(str(path), "claude-code")) == "fix the [red]bug"


def test_the_newest_title_goes_before_the_prompt_and_the_users_before_others(tmp_path: Path) -> None:
    prompt = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "fix it"}}
    foreign, own = ({"type": "summary", "summary": f"of {leaf}", "leafUuid": leaf} for leaf in ("elsewhere", "u1"))
    given = [{"type": "custom-title", "customTitle": name} for name in ("old", "new")]
    made, padding = {"type": "ai-title", "aiTitle": "made"}, {"type": "system", "content": "x" * 200_000}
    cases = [([foreign], "fix it"), ([foreign, own], "of u1"), ([own, padding, made], "made")]
    for number, (records, title) in enumerate([*cases, ([made, given[0], padding, given[1], made], "new")]):
        path = tmp_path / f"{number}.jsonl"
        lines = [json.dumps(record, separators=(",", ":")) for record in (prompt, *records)]
        path.write_text("\n".join(lines) + "\n")
        assert find_title(SessionInfo(str(path), "claude-code")) == title


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00user", b'{"user": ' + b"[" * 70_000, b'"user"\n[1, "user"]\n'])
def test_a_file_without_a_prompt_has_no_title(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(data)
    assert find_title(SessionInfo(str(path), "claude-code")) == ""


def test_a_title_that_is_known_is_not_read_again() -> None:
    assert find_title(SessionInfo("/nowhere.jsonl", "", title="known")) == "known"
    assert find_title(SessionInfo("/nowhere.jsonl", "")) == ""


def test_sessions_of_one_file_are_told_apart_by_their_ids() -> None:
    entries = build_entries([SessionInfo("/a.db", "koda", "s1"), SessionInfo("/a.db", "koda", "s2")])
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
    entries = build_entries(infos)
    assert {entry.group for entry in entries} == {"in this folder"}
    assert [(entry.name, entry.place) for entry in entries] == [("a", tmp_path.name), ("s1", "b.db")]
    assert [find_title(info) for info in infos] == ["Fix the build", ""]
    assert build_entries([infos[0], SessionInfo("/c/d.jsonl", "koda")])[0].group == "in these folders"
    assert build_entries(infos[1:])[0].group == "in this file"


def test_files_of_one_name_are_called_by_their_folders(tmp_path: Path) -> None:
    for task in ("17", "18"):
        folder = tmp_path / ".cline" / "data" / "tasks" / task
        folder.mkdir(parents=True)
        (folder / "api_conversation_history.json").write_text("[]")
        events = tmp_path / ".openhands" / "sessions" / f"run-{task}" / "events"
        events.mkdir(parents=True)
        (events / "0.json").write_text("{}")
    found = find_recorded_sessions({"HOME": str(tmp_path)}, tmp_path)
    assert sorted(entry.name for entry in found) == ["17", "18", "run-17", "run-18"]


def test_the_page_beside_the_samples_is_none_of_them() -> None:
    assert len(find_samples()) == 7 and all(entry.name != "README" for entry in find_samples())


def test_the_project_of_a_session_is_the_folder_it_was_in() -> None:
    """Not the folder of the file, which may be named by a hash, where the file tells the other."""
    told = SessionInfo("/x/98f0326ae559/a.json", "opencode", cwd="/src/app/")
    assert [entry.place for entry in build_entries([told, replace(told, cwd="")])] == ["app", "98f0326ae559"]


def test_a_large_folder_is_listed_by_names_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("b", "a", "c")):
        put(tmp_path, f"{name}.jsonl", 1_000 - age, user("hi", uuid="u", sessionId="s", parentUuid=None))
    (tmp_path / "projects" / "agent-x.jsonl").write_text("belongs to another")
    assert {info.format for info in find_session_infos(str(tmp_path))} == {"claude-code"}
    monkeypatch.setattr(discovery, "MAX_FILES_READ", 2)
    monkeypatch.setattr(discovery, "SAMPLED_FILES", 1)
    assert [(Path(info.path).stem, info.format) for info in find_session_infos(str(tmp_path))] == [
        ("b", ""),
        ("a", ""),
        ("c", ""),
    ]


def test_a_folder_of_folders_has_the_trees_and_the_files_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rich().tree(tmp_path / "opencode" / "storage")
    put(tmp_path, "mine.jsonl", 200, user("hi", uuid="u", sessionId="s", parentUuid=None))
    assert {Path(info.path).name for info in find_session_infos(str(tmp_path))} == {"ses_1.json", "mine.jsonl"}
    monkeypatch.setattr(discovery, "MAX_FILES_READ", 1)
    assert {Path(info.path).name for info in find_session_infos(str(tmp_path))} == {"ses_1.json", "mine.jsonl"}


def test_folders_are_looked_into_as_deep_as_they_go(tmp_path: Path) -> None:
    record = user("hi", uuid="u", sessionId="s", parentUuid=None)
    put(tmp_path / "2026" / "01" / "02", "day.jsonl", 300, record)
    put(tmp_path / "2026" / "01" / "02" / "projects", "left-to-it.jsonl", 300, record)
    put(tmp_path / "other", "shallow.jsonl", 300, record)
    put(tmp_path / "node_modules", "package.jsonl", 300, record)
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "2026" / "again").symlink_to(tmp_path / "2026")
    assert [Path(info.path).stem for info in find_session_infos(str(tmp_path))] == ["day", "shallow"]
    assert [Path(info.path).stem for info in ct.sessions_in(tmp_path / "2026")] == ["day"]


def test_too_many_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    monkeypatch.setattr(opening, "MAX_FOLDERS", 3)
    with pytest.raises(UnreadableSession, match="has more than 3 folders in it; name one of them"):
        find_session_infos(str(tmp_path))


def test_files_that_only_have_names_like_sessions_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MAX_FILES_READ", 2)
    monkeypatch.setattr(discovery, "SAMPLED_FILES", 3)
    for number in range(9):
        (tmp_path / f"{number}.json").write_text('{"name": "no session"}')
        put(tmp_path, f"{number}.json", 100, {"name": "no session"})
    put(tmp_path, "mine.jsonl", 200, user("hi", uuid="u", sessionId="s", parentUuid=None))
    assert [Path(info.path).stem for info in find_session_infos(str(tmp_path))] == ["mine"]


def test_what_is_found_is_told_while_more_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "REPORT_INTERVAL_S", 0.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    claude, codex = tmp_path / ".claude/projects/-x/one.jsonl", tmp_path / ".codex/sessions/rollout-2026-01-01T0.jsonl"
    for file, age in ((claude, 2), (codex, 1)):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        os.utime(file, (1_000 - age, 1_000 - age))
    found = [[entry.agent for entry in known if entry.group == OTHER_PROJECTS] for known in find_choices(())]
    assert found == [[], ["claude-code"], ["codex", "claude-code"], ["codex", "claude-code"]]
    given = SessionInfo(str(codex), "codex")
    known = find_choices([given, SessionInfo(str(claude), "claude-code")], given)
    assert [entry.info.path for entry in next(known)] == [str(codex), str(claude)], "at once"
    assert [entry.info.path for entry in [*known][-1]][-2:] == [str(codex), str(claude)], "together"


def test_where_koda_and_aider_keep_theirs(tmp_path: Path) -> None:
    config, project = tmp_path / "config", tmp_path / "work" / "app"
    (project / "src").mkdir(parents=True)
    (config / "koda" / "db").mkdir(parents=True)
    for path in (config / "koda/db/koda.db", config / "koda/koda.db", project / ".aider.chat.history.md"):
        path.write_text("")
    (tmp_path / "chat.md").write_text("")
    environ = {"HOME": str(tmp_path / "none"), "XDG_CONFIG_HOME": str(config)}

    def found(agent: str, environ: dict[str, str]) -> list[tuple[str, str, str]]:
        entries = [each for each in find_recorded_sessions(environ, project / "src") if each.agent == agent]
        return sorted((Path(each.info.path).name, each.place, each.group) for each in entries)

    assert found("koda", environ) == [("koda.db", "all projects", OTHER_PROJECTS)] * 2
    assert found("aider", environ) == [(".aider.chat.history.md", "app", THIS_PROJECT)]
    named = environ | {"AIDER_CHAT_HISTORY_FILE": str(tmp_path / "chat.md")}
    assert [name for name, *_ in found("aider", named)] == [".aider.chat.history.md", "chat.md"]
    assert found("koda", {"HOME": str(tmp_path)}) == []


def test_the_project_of_claude_code_is_the_folder_that_its_file_names(tmp_path: Path) -> None:
    put(
        tmp_path,
        "-home-me-my-proj/a.jsonl",
        1,
        {"type": "summary"},
        user("hello", cwd="/home/me/my.proj", uuid="1", sessionId="s"),
    )
    (entry,) = find_recorded_sessions({"CLAUDE_CONFIG_DIR": str(tmp_path)}, Path("/elsewhere"))
    overview = OverviewReader(SessionCache(None)).read_overview(entry)
    assert find_project_name(entry, overview.cwd) == "my.proj"
