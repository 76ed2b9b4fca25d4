"""Following a session: whatever is done to the file is seen, and the facts are those of a fresh scan each time."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.formats.base import scan
from context_tui.formats.opening import choose_session, make_scanner
from context_tui.library.follow import GrowingSession, SessionWatch, follow_session
from context_tui.session.session import Session
from context_tui.tui import loading
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.loading import ReadFailure, SessionLoader, SessionSnapshot
from context_tui.tui.options import InspectorOptions
from context_tui.tui.timeline.rows import TimelineRows
from tests.formats.recordings import Recording, call, result, text
from tests.fuzz.seeds import compacted_recording, plain_recording
from tests.test_kept_truth import TREES
from tests.test_recorded_compactions import compacted
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import opened, settled

SECONDS = 20
"""After which a test gives up."""


def told(session: Session) -> str:
    """Everything that is said of a session."""
    return json.dumps(build_report(session, timeline=True), sort_keys=True)


class Followed:
    """A session that is followed in a thread; ``next`` waits for it as it is after one more change."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        self.stop = threading.Event()
        self._ready = threading.Semaphore(0)
        self._seen: list[str] = []
        info = choose_session(str(path))
        watch = SessionWatch(info, self.stop)
        self._thread = threading.Thread(
            target=self._run, args=(follow_session(info, watch, self.said.append),), daemon=True
        )
        self._thread.start()

    def _run(self, sessions: Iterator[Session]) -> None:
        for session in sessions:
            self._seen.append(told(session))
            self._ready.release()

    def until(self, wanted: Callable[[], str]) -> None:
        """Wait until what is told is what is *wanted*."""
        for _ in range(200):
            assert self._ready.acquire(timeout=SECONDS), "no change was seen"
            if self._seen[-1] == wanted():
                return
        raise AssertionError("it was never told")

    def end(self) -> None:
        self.stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def fresh(path: Path) -> str:
    return told(scan(make_scanner(choose_session(str(path)))))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in compacted().lines[:3]))
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_whatever_is_done_to_the_file_is_seen(recording: Path) -> None:
    lines = compacted().lines
    followed = Followed(recording)
    followed.until(lambda: fresh(recording))
    append(recording, lines[3] + b"\n" + lines[4][:20])  # a half-written line
    followed.until(lambda: fresh(recording))
    append(recording, lines[4][20:] + b"\n")
    followed.until(lambda: fresh(recording))
    whole = b"".join(line + b"\n" for line in lines)
    other = recording.with_name("other")
    other.write_bytes(whole)
    other.replace(recording)  # rotated: another file takes its place
    followed.until(lambda: fresh(recording))
    recording.write_bytes(whole[: len(whole) // 2])  # cut
    followed.until(lambda: fresh(recording))
    recording.write_bytes(whole.replace(b"Fix it.", b"Do not."))  # written anew, and longer
    followed.until(lambda: fresh(recording))
    recording.unlink()
    recording.write_bytes(whole)  # removed, and there again
    followed.until(lambda: fresh(recording))
    followed.end()


def test_a_file_that_is_empty_for_a_while_is_waited_for(recording: Path) -> None:
    whole = recording.read_bytes()
    followed = Followed(recording)
    followed.until(lambda: fresh(recording))
    recording.write_bytes(b"")
    for _ in range(200):
        if followed.said:
            break
        threading.Event().wait(0.05)
    assert len(followed.said) == 1 and str(recording) in followed.said[0]
    recording.write_bytes(whole)
    followed.until(lambda: fresh(recording))
    followed.end()


@pytest.mark.parametrize("name", ["opencode", "openhands", "cline"])
def test_what_stands_in_files_beside_it_is_seen(name: str, tmp_path: Path) -> None:
    whole, there = tmp_path / "whole", tmp_path / "there"
    whole.mkdir()
    main = TREES[name](whole)
    shutil.copytree(whole, there)
    path = there / main.relative_to(whole)
    files = sorted(each for each in there.rglob("*.json") if each != path)
    later = [each for each in files if "ui_messages" in each.name or name != "cline"][-3:]
    assert later
    for each in later:
        each.unlink()
        if not list(each.parent.iterdir()):
            each.parent.rmdir()
    before = fresh(path)
    followed = Followed(path)
    followed.until(lambda: before)
    for each in later:
        each.parent.mkdir(exist_ok=True)
        shutil.copy(whole / each.relative_to(there), each)
        followed.until(lambda: fresh(path))
    assert fresh(path) != before
    followed.end()


WRITER = """
import sqlite3, sys, time
base = sqlite3.connect(sys.argv[1])
base.execute("PRAGMA journal_mode=WAL")
base.execute("PRAGMA wal_autocheckpoint=0")
print("ready", flush=True)
for line in sys.stdin:
    base.execute("INSERT INTO messages (session_id, role, content) VALUES ('s', 'user', ?)", (line,))
    base.commit()
    print("done", flush=True)
"""


def test_rows_in_a_write_ahead_log_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "koda.db"
    with sqlite3.connect(path) as base:
        columns = "id INTEGER PRIMARY KEY, session_id, role, content, tool_calls, tool_call_id, compacted_at"
        base.execute(f"CREATE TABLE messages ({columns})")
        base.execute("INSERT INTO messages (session_id, role, content) VALUES ('s', 'user', 'hello')")
    base.close()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], text=True, **pipes) as writer:  # type: ignore[call-overload]
        assert writer.stdout.readline() == "ready\n"
        followed = Followed(path)
        followed.until(lambda: fresh(path))
        for number in range(3):
            writer.stdin.write(f"message {number}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            followed.until(lambda: fresh(path))
        assert path.with_name("koda.db-wal").stat().st_size > 0
        followed.end()
        writer.stdin.close()


def compacted_sample() -> list[object]:
    path = Path(__file__).parents[1] / "sample_sessions" / "compacted-session.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("made", [plain_recording, compacted_recording, compacted_sample])
def test_growing_line_by_line_gives_the_same_facts(made: Callable[[], list[object]], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [json.dumps(record).encode() + b"\n" for record in made()]
    path.write_bytes(b"".join(lines[:3]))
    growing = GrowingSession(choose_session(str(path)))
    for line in [*lines[3:], b""]:
        while not growing.advance().end:
            pass
        assert told(growing.session()) == fresh(path)
        append(path, line)


def test_inspect_follows(recording: Path) -> None:
    command = [sys.executable, "-m", "context_tui", "inspect", str(recording), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        size = ct.measure(ct.open_session(recording)).tokens
        assert process.stdout.readline().startswith(f"3 messages   {size:,} of ")
        append(recording, b"".join(line + b"\n" for line in compacted().lines[3:6]))
        line = process.stdout.readline()
        assert line.startswith("5 messages") and "last compaction: micro, before message 5, lost" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130


@pytest.mark.slow
async def test_the_inspector_follows(recording: Path) -> None:
    lines = compacted().lines
    running = ContextTuiApp(choose_session(str(recording)), InspectorOptions(follow=True))
    async with running.run_test(size=(140, 44)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_following)
        assert "● following" in drawn(running) and len(screen.view.session) == 3
        append(recording, b"".join(line + b"\n" for line in lines[3:6]))
        await until(pilot, lambda: len(screen.view.session) == 5)
        await until(
            pilot, lambda: any("Microcompaction (auto)" in str(each.message) for each in running._notifications)
        )
        assert screen.view.cursor.message == 4 and screen.view.at is None  # it was at the end, and stays there
        await pilot.press("g")
        append(recording, b"".join(line + b"\n" for line in lines[6:8]))
        await until(pilot, lambda: len(screen.view.session) == 7)
        assert screen.view.cursor.message == 0
        await pilot.press("F")
        await settled(pilot)  # nothing is waited for any more
        assert not screen.controller.is_following and "● following" not in drawn(running)
        append(recording, b"".join(line + b"\n" for line in lines[8:]))
        await asyncio.sleep(0.6)
        assert len(screen.view.session) == 7
        await pilot.press("F")
        await until(pilot, lambda: len(screen.view.session) == len(scan(make_scanner(choose_session(str(recording))))))


async def test_a_rewind_is_followed(tmp_path: Path) -> None:
    made = Recording()
    made.user("start")
    fork = made.assistant(text("one"))
    made.user("a way that is left")
    made.assistant(text("left"), call("t1"))
    made.results(result("t1", "long " * 400))
    path = made.write(tmp_path)
    running = ContextTuiApp(choose_session(str(path)), InspectorOptions(follow=True))
    async with running.run_test(size=(140, 44)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_following)
        assert "a way that is left" in drawn(running)
        made.user("taken", parent=fork)
        append(path, made.lines[-1] + b"\n")
        await until(pilot, lambda: "taken" in drawn(running))
        made.assistant(text("two"))
        append(path, made.lines[-1] + b"\n")
        await until(pilot, lambda: len(screen.view.session) == 4)
        assert "a way that is left" not in drawn(running)
        assert any("A rewind left 3 messages" in str(each.message) for each in running._notifications)
        fresh = TimelineRows()
        fresh.grow(scan(make_scanner(choose_session(str(path)))))
        assert vars(screen.controller.estimated_rows) == vars(fresh)


def test_a_stream_of_changes_is_drawn_at_a_pace(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "FOLLOWED_MESSAGES_PER_S", 3)
    monkeypatch.setattr(loading, "MAX_FOLLOW_INTERVAL_S", 0.5)
    reports: list[SessionSnapshot | ReadFailure] = []
    stop, seen = threading.Event(), threading.Event()

    def post(report: SessionSnapshot | ReadFailure) -> None:
        reports.append(report)
        seen.set()

    follower = SessionLoader(choose_session(str(recording)))
    thread = threading.Thread(target=follower.follow, args=(post, stop, lambda: None), daemon=True)
    thread.start()
    assert seen.wait(SECONDS)
    begun = time.monotonic()
    for line in compacted().lines[3:]:
        append(recording, line + b"\n")
        time.sleep(0.06)
    wanted = fresh(recording)
    while not (isinstance(reports[-1], SessionSnapshot) and told(reports[-1].session) == wanted):
        assert time.monotonic() - begun < SECONDS
        time.sleep(0.01)
    assert len(reports) <= 2 + (time.monotonic() - begun) / 0.5
    stop.set()
    thread.join(SECONDS)


async def test_what_comes_while_a_plan_is_applied_waits(recording: Path) -> None:
    lines = compacted().lines
    running = ContextTuiApp(choose_session(str(recording)), InspectorOptions(follow=True))
    async with running.run_test(size=(140, 44)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_following)
        plan = screen.view.plan
        assert plan is not None
        copy = screen.view.session.__class__(
            screen.view.session.facts, screen.view.session.content, screen.view.session.info, 3, origin="manual"
        )
        screen.run_command(screen.controller.show_applied_copy, plan, copy)
        append(recording, b"".join(line + b"\n" for line in lines[3:5]))
        await until(pilot, lambda: screen.controller._pending_snapshot is not None)
        assert screen.view.session.origin
        await pilot.press("u")
        await until(pilot, lambda: len(screen.view.session) == 5)


def test_watching_touches_nothing(recording: Path) -> None:
    before, listed = recording.stat(), sorted(os.listdir(recording.parent))
    followed = Followed(recording)
    followed.until(lambda: fresh(recording))
    followed.end()
    after = recording.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_ino) == (before.st_mtime_ns, before.st_size, before.st_ino)
    assert sorted(os.listdir(recording.parent)) == listed
