"""Reading in a thread: rows come soon, the screen stays free, and it stops at any moment."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from textual.widgets import Static

from context_tui.errors import UnreadableSession
from context_tui.formats import opening
from context_tui.formats.base import Advance
from context_tui.session.session import Session, SessionInfo
from context_tui.text.numbers import format_percent
from context_tui.tui.inspector.notices import format_notice
from context_tui.tui.inspector.timeline import Timeline
from context_tui.tui.inspector.timeline_frame import ColumnHeads
from context_tui.tui.loading import ReadFailure, SessionLoader, SessionSnapshot
from context_tui.tui.timeline.rows import Location
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app, conversation, file_of, opened, session, settled

INFO = SessionInfo("/tmp/slow.jsonl", "anthropic")


class Slow:
    """A scanner that gives *step* messages at a time, each when it is allowed to."""

    def __init__(self, *, step: int = 5, free: bool = False) -> None:
        self.whole, self.step, self.at = session(20), step, 0
        self.gate = threading.Semaphore(0)
        self.free = free

    @property
    def progress(self) -> float:
        return self.at / len(self.whole)

    def advance(self, budget_s: float | None = None) -> Advance:
        if self.free or self.gate.acquire(timeout=0.02):
            before, self.at = self.at, min(self.at + self.step, len(self.whole))
            return Advance(self.at - before, None, self.at == len(self.whole))
        return Advance(0, None, False)

    def session(self) -> Session:
        return Session(self.whole.facts, self.whole.content, INFO, self.at)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    scanner = Slow()
    monkeypatch.setattr(opening, "make_scanner", lambda info: scanner)
    monkeypatch.setattr("context_tui.tui.loading.SNAPSHOT_INTERVAL_S", 0.0)
    return scanner


@pytest.mark.slow
async def test_rows_come_before_the_end(slow: Slow) -> None:
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_reading)
        assert "Reading: 0 %" in str(screen.query_one("#status", Static).content)
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        timeline = screen.query_one(Timeline)
        assert timeline.listed_count == len(screen.controller.rows) > 0 and screen.controller.is_reading
        await pilot.pause()
        share = re.search(r"Reading: +(\d+ %)", drawn(running))
        assert share and f"{share[1]} read" in drawn(running).splitlines()[0], "the header says the same"
        await pilot.press("down", "down")
        assert timeline.cursor == 2
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert len(screen.view.session) == len(slow.whole) and screen.view.plan is not None
        assert timeline.cursor == 2, "a cursor that was moved stays"


@pytest.mark.slow
async def test_what_was_imported_is_kept_from_the_garbage_collector_once(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for count in (5, 10, 15):
            slow.gate.release()
            await until(pilot, lambda count=count: len(screen.view.session) == count)  # type: ignore[misc]
        assert frozen == [True]


@pytest.mark.slow
async def test_what_is_chosen_while_reading_stays(slow: Slow) -> None:
    running = app(INFO, policy="defect-compact", at=60)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("4")
        assert screen.view.policy == "agent-sdk-prune"
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        await pilot.press("1", "left")
        settings = screen.view.get_settings("defect-microcompact")
        screen.run_command(screen.controller.change_view, screen.view.with_window(64_000))
        screen.run_command(screen.controller.toggle_filter, "tool", "Bash")
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 10)
        assert "Bash" in screen.query_one(ColumnHeads).title, "it is told what is listed"
        await pilot.press("f")
        assert "Show only" in drawn(running) and "verdict" in drawn(running)
        await pilot.press("escape")
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        view = screen.view
        assert len(view.session) == len(slow.whole)
        assert view.policy == "defect-microcompact" and view.get_settings(view.policy) == settings != {}
        assert view.session.window.tokens == 64_000 and view.filter.tool == "Bash"
        assert view.at == 60, "as it was asked for"


@pytest.mark.slow
async def test_a_point_that_is_chosen_while_reading_stays(slow: Slow) -> None:
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        await pilot.press("down", "down", "full_stop")
        chosen = screen.view.at
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert screen.view.at == chosen is not None and screen.view.plan is not None


async def test_a_point_past_the_last_message_is_the_end(slow: Slow) -> None:
    slow.free = True
    running = app(INFO, at=10_000)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: not screen.controller.is_reading)
        assert screen.view.at is None


async def test_it_goes_to_the_end_when_nobody_moved(slow: Slow) -> None:
    slow.free = True
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: not screen.controller.is_reading)
        assert screen.location == Location(len(slow.whole) - 1)


@pytest.mark.slow
async def test_escape_stops_and_shows_what_was_read(slow: Slow) -> None:
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        slow.gate.release()
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 10)
        await pilot.press("escape")
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert len(screen.view.session) == 10 and screen.view.plan is not None
        top, share = drawn(running).splitlines()[0], f"{format_percent(10 / len(slow.whole))} read"
        assert share in top and "at the end" not in top, "nothing is called the end that is none"
        assert f"{share}: 10 messages so far" in str(screen.query_one("#status", Static).content)
        await pilot.press("e")
        assert running.screen is screen, "half a session is not exported"
        await pilot.press("4", "home")
        screen.controller.view = replace(screen.view, session=replace(screen.view.session, origin="chain"))
        assert "e exports" not in format_notice(screen.view, [], progress=screen.controller.progress)
        await pilot.press("r")
        assert not screen.controller.is_reading, "what was applied would be lost"
        screen.controller.view = replace(screen.view, session=replace(screen.view.session, origin=""))
        slow.gate.release()
        await pilot.press("r")
        await until(pilot, lambda: len(screen.view.session) == 15)
        assert screen.controller.is_reading and screen.query_one(Timeline).cursor == 0
        slow.free = True
        await until(pilot, lambda: not screen.controller.is_reading)
        await settled(pilot)
        assert len(screen.view.session) == len(slow.whole) and screen.view.policy == "agent-sdk-prune"
        assert "at the end" in drawn(running).splitlines()[0] and screen.query_one(Timeline).cursor == 0
        await pilot.press("r")
        assert not screen.controller.is_reading, "there is nothing more"


async def test_quitting_while_reading_is_quick(slow: Slow) -> None:
    running = app(INFO)
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        await pilot.press("q")
        await until(pilot, lambda: not running.is_running)


async def test_what_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(info: SessionInfo) -> Slow:
        raise UnreadableSession("/tmp/x: no such file [/]")

    monkeypatch.setattr(opening, "make_scanner", none)
    running = app(INFO)
    async with running.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: not screen.controller.is_reading)
        await pilot.pause()
        assert "no such file [/]" in str(screen.query_one("#status", Static).content)


def test_a_readers_bug_becomes_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Slow):
        def advance(self, budget_s: float | None = None) -> Advance:
            raise KeyError("oops")

    monkeypatch.setattr(opening, "make_scanner", lambda info: Broken())
    posted: list[SessionSnapshot | ReadFailure] = []
    SessionLoader(INFO).read(posted.append, Event(), lambda: None)
    assert isinstance(posted[0], ReadFailure) and "KeyError" in posted[0].reason


def test_every_step_is_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    scanner, rests = Slow(step=1, free=True), list[int]()
    monkeypatch.setattr(opening, "make_scanner", lambda info: scanner)
    SessionLoader(INFO).read(lambda message: None, Event(), lambda: rests.append(scanner.at))
    assert rests == list(range(1, len(scanner.whole)))


def test_posts_are_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "make_scanner", lambda info: Slow(step=1, free=True))
    posted: list[SessionSnapshot | ReadFailure] = []
    SessionLoader(INFO).read(posted.append, Event(), lambda: None)
    assert len(posted) < 10 and isinstance(posted[-1], SessionSnapshot) and posted[-1].is_end
    assert len(posted[-1].rows.first) == len(posted[-1].session)


async def test_a_real_file_is_read(tmp_path: Path) -> None:
    running = app(file_of(tmp_path / "session.jsonl", conversation(4)))
    async with running.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: not screen.controller.is_reading)
        assert len(screen.view.session) == 32
        await asyncio.sleep(0)
