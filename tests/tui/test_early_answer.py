"""The answer that a child process computes is the answer of the screen, and a child that fails costs nothing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.lab.fullness import Fullness, compute_fullness
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tui.early_answer import EarlyAnswer, EarlyAnswerProcess, compute_early_answer
from context_tui.tui.inspector.header import HeaderBar
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app, opened, settled
from tests.tui.test_inspector_loading import INFO, Slow, slow

__all__ = ["slow"]
SAMPLES = Path(__file__).parents[2] / "sample_sessions"
CHILD = """
import os, sys, time
from context_tui.formats.opening import choose_session
from context_tui.tui import early_answer
from context_tui.tui.early_answer import start_early_answer

info = choose_session(sys.argv[1])
process = start_early_answer(info, None, None)
while not process.receive():
    pass
process.close()
print(*process.answer.sentences)

def fail(*arguments):
    print("noise"), sys.stderr.write("noise"), os.write(1, b"noise")
    raise RuntimeError("a bug")

early_answer.compute_early_answer = fail
process = start_early_answer(info, None, None)
while not process.receive():
    pass
process.close()
print(process.answer)

early_answer.compute_early_answer = lambda *arguments: time.sleep(60)
process = start_early_answer(info, None, None)
process.close()
process.close()
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child is left")
"""


class Pipe:
    """A process that has written an answer, as the application sees it."""

    def __init__(self, answer: EarlyAnswer) -> None:
        self.pipe, writer = os.pipe()
        self.answer, self.is_closed = answer, False
        os.close(writer)

    def receive(self) -> bool:
        return True

    def close(self) -> None:
        self.is_closed = True
        os.close(self.pipe)


@pytest.mark.parametrize("name", [path.name for path in sorted(SAMPLES.glob("*.json*"))])
def test_the_answer_is_that_of_the_report(name: str) -> None:
    info = next(info for info in ct.sessions_in(SAMPLES / name) if not info.parent)
    session = ct.open_session(SAMPLES / name if not info.id else f"{SAMPLES / name}#{info.id}")
    for at in (None, len(session) // 2):
        answer = compute_early_answer(info, at, None)
        assert answer.sentences == build_report(session, at)["answer"]["sentences"]
        assert answer.load_fullness().sentences == answer.sentences
    assert compute_early_answer(info, 10**9, 50_000).load_fullness().window.tokens == 50_000


def test_a_child_answers_fails_silently_and_is_ended() -> None:
    path = SAMPLES / "coding-session.jsonl"
    result = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=60)
    sentences = " ".join(build_report(ct.open_session(path))["answer"]["sentences"])
    assert result.stdout.splitlines() == [sentences, "None", "no child is left"] and not result.stderr


@pytest.fixture
def answer() -> EarlyAnswer:
    return compute_early_answer(ct.sessions_in(SAMPLES / "coding-session.jsonl")[0], None, None)


async def test_the_answer_stands_in_the_header_while_the_session_is_read(answer: EarlyAnswer, slow: Slow) -> None:
    process, level = Pipe(answer), answer.sentences[0].replace(" %", "\u00a0%")
    running = app(INFO, early_answer=process)
    async with running.run_test(size=(160, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.controller.is_reading and level in drawn(running))
        assert process.is_closed
        slow.gate.release()
        await until(pilot, lambda: len(screen.view.session) == 5)
        await pilot.pause()
        assert level in drawn(running), "also when some messages are read"
        slow.free = True
        await settled(pilot)
        assert level not in drawn(running), "the screen has its own"


def test_an_answer_about_another_point_is_not_shown(slow: Slow) -> None:
    session = slow.whole
    fullness = compute_fullness_of(session)
    header = HeaderBar(lambda message: None)
    header.show_early_answer(len(session) - 1, fullness._replace(tokens=123_456))
    header.show(session, session.context_at(None))
    text = "".join(run[0] for line in header._build_lines(120, 4) for run in line)
    assert "123k" not in text


def test_an_answer_gives_way_to_what_was_measured_for_good() -> None:
    session = ct.open_session(SAMPLES / "coding-session.jsonl")
    fullness = compute_fullness_of(session)
    header = HeaderBar(lambda message: None)
    header.show_early_answer(len(session), fullness._replace(tokens=123_456))
    header.show(session, session.context_at(None))
    assert "123k" in "".join(run[0] for line in header._build_lines(120, 4) for run in line)
    header.show(session, session.context_at(None), fullness)
    header.show(session, session.context_at(None))  # as a copy whose results are cleared: as long, not measured yet
    assert "123k" not in "".join(run[0] for line in header._build_lines(120, 4) for run in line)


def compute_fullness_of(session: ct.Session) -> Fullness:
    context = session.context_at(None)
    return compute_fullness(session, context, measure_breakdown(context))


def test_an_answer_that_is_cut_off_is_none() -> None:
    process = object.__new__(EarlyAnswerProcess)
    data = pickle.dumps((1, ["a"], b""))
    for end in (0, 5, len(data) - 1):
        process._received = bytearray(data[:end])
        assert process.answer is None
