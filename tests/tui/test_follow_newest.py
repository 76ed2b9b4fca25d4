"""Following the newest session of a folder: what is found, and the way over to a session that starts later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from context_tui.cli import main
from context_tui.formats.claude_code.paths import format_project_slug
from context_tui.library.discovery import find_newest_session
from context_tui.session.session import Session, SessionInfo
from context_tui.tui import app as application
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from context_tui.tui.options import InspectorOptions
from tests.formats import recordings
from tests.formats.recordings import text, usage
from tests.tui.fakes import until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without sessions, on a machine without agents."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def record(folder: Path, name: str, seconds: int) -> Path:
    """Write a session that was last written at this time."""
    made = recordings.Recording()
    made.user(f"start {name}")
    made.assistant(text("done"), use=usage(0, read=9_000))
    folder.mkdir(parents=True, exist_ok=True)
    path = made.write(folder).rename(folder / f"{name}.jsonl")
    os.utime(path, (seconds, seconds))
    return path


def projects(project: Path) -> Path:
    return project.parent / ".claude" / "projects" / format_project_slug(project)


def test_the_newest_of_this_folder_is_found(project: Path) -> None:
    assert find_newest_session() is None
    record(projects(project), "old", 1_000)
    newest = record(projects(project), "new", 2_000)
    record(projects(project).with_name("-somewhere-else"), "other", 3_000)
    (projects(project) / "empty.jsonl").touch()
    found = find_newest_session()
    assert found is not None and found.info.path == str(newest) and found.info.format == "claude-code"


def test_a_session_whose_file_names_the_folder_is_found(project: Path) -> None:
    day = project.parent / ".codex" / "sessions" / "2026" / "11" / "24"
    day.mkdir(parents=True)
    meta = '{{"timestamp": "2026-11-24T10:00:00Z", "type": "session_meta", "payload": {{"id": "a", "cwd": "{}"}}}}\n'
    path = day / "rollout-2026-11-24T10-00-00-a.jsonl"
    path.write_text(meta.format(project))
    (day / "rollout-2026-11-24T11-00-00-b.jsonl").write_text(meta.format("/elsewhere"))
    os.utime(path, (1_000, 1_000))
    found = find_newest_session()
    assert found is not None and found.info.path == str(path)


def test_without_a_session_it_waits_for_the_first_one(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps, opened = list[float](), list[str]()

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            record(projects(project), "first", 1_000)

    def run(app: ContextTuiApp, **_: object) -> int:
        assert not isinstance(app.target, Session | SessionInfo)
        opened.extend(Path(info.path).stem for info in app.target)
        return 0

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("time.sleep", nap)
    monkeypatch.setattr(application, "run", run)
    assert main(["--follow"]) == 0
    assert opened == ["first"] and len(naps) == 3
    assert capsys.readouterr().err.count("waiting for one") == 1


@pytest.mark.slow
async def test_a_session_that_starts_is_followed_and_the_old_one_is_left(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "NEWEST_INTERVAL_S", 0.1)
    first = record(projects(project), "first", 1_000)
    entry = find_newest_session()
    assert entry is not None
    app = ContextTuiApp([entry.info], InspectorOptions(follow=True), follow_newest=True)

    def followed() -> str:
        screen = app.screen
        is_following = isinstance(screen, InspectorScreen) and screen.controller.is_following
        return Path(screen.controller.recorded_session.info.path).stem if is_following else ""  # type: ignore[attr-defined]

    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: followed() == "first")
        second = record(projects(project), "second", 2_000)
        await until(pilot, lambda: followed() == "second")
        with second.open("a") as file:
            file.write(second.read_text().splitlines(keepends=True)[-1].replace('"done"', '"more"'))
        inspector = app.screen
        assert isinstance(inspector, InspectorScreen)
        await until(pilot, lambda: len(app._notifications) > 0)
        inspector.draw()  # as whenever the file grows
        await pilot.pause()
        said = [str(each.message) for each in app._notifications]
        assert len(said) == 1 and said[0].startswith("Now following second.jsonl (started 20"), said
        os.utime(first, (3_000, 3_000))  # it is written again: it was followed already
        await pilot.pause(0.5)
        assert followed() == "second"
        await pilot.press("F")
        record(projects(project), "third", 4_000)
        await pilot.pause(0.5)
        assert isinstance(app.screen, InspectorScreen) and not app.screen.controller.is_following
        assert app.screen.controller.recorded_session.info.path.endswith("second.jsonl")


@pytest.mark.slow
async def test_it_rings_once_before_the_agent_compacts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr(ContextTuiApp, "bell", lambda self: rung.append("bell"))
    made = recordings.Recording()

    def write(*sizes: int) -> Path:
        for size in sizes:
            made.user("more")
            made.assistant(text("done"), use=usage(10, read=size))
        folder = projects(project)
        folder.mkdir(parents=True, exist_ok=True)
        return made.write(folder, "grows.jsonl")

    write(20_000, 40_000, 60_000, 80_000)
    entry = find_newest_session()
    assert entry is not None
    app = ContextTuiApp([entry.info], InspectorOptions(follow=True))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen) and app.screen.controller.is_following)
        screen = app.screen
        assert isinstance(screen, InspectorScreen) and not rung
        for count, sizes in ((8, (100_000, 120_000)), (10, (130_000, 145_000)), (12, (155_000, 160_000))):
            write(*sizes)
            await until(pilot, lambda count=count: len(screen.controller.view.session) >= 2 * count - 4)  # type: ignore[misc]
            await pilot.pause(1)
    assert rung == ["bell"]
