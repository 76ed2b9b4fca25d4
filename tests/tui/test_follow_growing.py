"""The inspector follows sessions that grow in bursts: no pane ends the program, and nothing is offered meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Static

import context_tui as ct
from context_tui.formats.opening import choose_session
from context_tui.tui.inspector.screen import InspectorScreen
from tests.formats.recordings import Recording, call, result, text, usage
from tests.tui import inspecting
from tests.tui.fakes import until
from tests.tui.inspecting import opened, settled

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
GROWING_S = 10.0


def recorded(seed: int) -> bytes:
    """Turns with replies of several lines, results in several records, rewinds, clearings and full compactions."""
    made, chance, size, calls = Recording(), random.Random(seed), 20_000, list[str]()
    for turn in range(160):
        start = made.user(f"turn {turn} " * chance.randrange(1, 200))
        for step in range(chance.randrange(1, 4)):
            size += chance.randrange(200, 9_000)
            name, ids = f"m{turn}-{step}", [f"c{turn}-{step}-{number}" for number in range(chance.randrange(1, 4))]
            made.assistant(text("thinking about it " * chance.randrange(1, 80)), id=name, use=usage(1, read=size))
            for each in ids:
                made.assistant(call(each, "Read", path=f"src/{turn}.py" * 9), id=name, use=usage(1, read=size))
            for each in ids:
                made.results(result(each, "line of code\n" * chance.randrange(1, 900)))
            calls += ids
        if turn % 23 == 11:
            made.last = start  # a rewind
        if turn % 17 == 9:
            made.microcompact(*calls[-6:-1], tokens=size)
        if turn % 29 == 20:
            made.boundary(size)
            made.summary("what was done " * 200)
            size = 20_000
    return made.data


def sample(name: str) -> Callable[[int], bytes]:
    return lambda seed: (SAMPLES / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [recorded, sample("coding-session.jsonl"), sample("compacted-session.jsonl")],
    ids=["recorded", "coding", "compacted"],
)
async def test_no_pane_fails_while_a_session_grows_in_bursts(
    build: Callable[[int], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, failures = 7, list[str]()
    monkeypatch.setattr(InspectorScreen, "show_work_error", lambda _, message, group: failures.append(message))
    chance, data, path = random.Random(seed), build(seed), tmp_path / "s.jsonl"
    path.write_bytes(data[: data.index(b"\n", len(data) // 10) + 1])
    written = path.stat().st_size
    running = inspecting.app(choose_session(path), follow=True)
    async with running.run_test(size=(140, 44)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_following)
        await pilot.press("b")
        started = time.monotonic()
        with path.open("ab", buffering=0) as file:
            while (passed := time.monotonic() - started) < GROWING_S:
                behind = int(len(data) * passed / GROWING_S) - written
                burst = data[written : written + chance.randrange(1, max(2 * behind, 200))]
                file.write(burst)
                written += len(burst)
                await asyncio.sleep(chance.choice([0.001, 0.02, 0.1, 0.3]))
                if chance.random() < 0.2:
                    await pilot.press(chance.choice(["down", "up", "pagedown", "home", "end", "z", "tab"]))
            file.write(data[written:])
        whole = len(ct.open_session(path))
        await until(pilot, lambda: len(screen.controller.recorded_session) == whole)
        await pilot.pause(0.5)
        await pilot.press("F")
    assert not failures


async def test_no_setting_is_offered_in_a_followed_session(tmp_path: Path) -> None:
    info = inspecting.file_of(tmp_path / "s.jsonl", inspecting.conversation(8))
    running = inspecting.app(info, policy="defect-microcompact")
    async with running.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        screen = await opened(pilot)
        status = screen.query_one("#status", Static)
        assert "Next: b shows what fills it" in str(status.content)
        await pilot.press("F")
        await until(pilot, lambda: screen.controller.is_following)
        await pilot.pause(0.2)
        assert "fire here" not in str(status.content)
        await pilot.press("F")
