"""Small dialogs whose keys come in one write, or fast: the real program in a pseudo-terminal takes each in turn."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import context_tui as ct
from benchmarks.pty import Terminal
from tests.tui.inspecting import conversation, file_of

pytestmark = pytest.mark.slow

ENTER, ESCAPE, DOWN, RIGHT, START = "\r", "\x1b", "\x1b[B", "\x1b[C", "\x15"
"""Keys; the last one clears an entry."""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session's file."""
    file_of(tmp_path / "session.jsonl", conversation())
    return tmp_path / "session.jsonl"


@pytest.fixture
def terminal(session: Path) -> Iterator[Terminal]:
    """The inspector on it."""
    with Terminal([sys.executable, "-m", "context_tui", str(session)], columns=150, rows=44) as opened:
        opened.wait_for("clears 6 of 36 results")
        opened.settle(0.3)
        opened.output = b""
        yield opened


def typed(terminal: Terminal, keys: str, pace: float) -> None:
    """Press keys: all in one write, or one every *pace* seconds."""
    if not pace:
        terminal.send(keys)
        return
    for key in keys:
        terminal.send(key)
        time.sleep(pace)


PACES = pytest.mark.parametrize(
    "pace", [0.0, pytest.param(0.02, marks=pytest.mark.slow)], ids=["one write", "fifty a second"]
)


def appears(path: Path, terminal: Terminal, seconds: float = 10.0) -> bool:
    """Whether a file is there after a while."""
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        terminal.read(0.05)
    return path.exists()


@PACES
def test_an_unchanged_export_to_a_path(terminal: Terminal, session: Path, tmp_path: Path, pace: float) -> None:
    out = tmp_path / "elsewhere" / "mine.jsonl"
    out.parent.mkdir()
    typed(terminal, f"ee{START}{out}{ENTER}", pace)
    assert appears(out, terminal)
    assert out.read_bytes() == session.read_bytes()
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["session.jsonl"]


def test_the_name_that_is_proposed_is_that_of_a_copy(terminal: Terminal, session: Path) -> None:
    terminal.send(f"ee{ENTER}")
    copy = session.with_name("session.copy.jsonl")
    assert appears(copy, terminal)
    assert copy.read_bytes() == session.read_bytes()


def test_nothing_is_exported_when_the_question_is_closed(terminal: Terminal, session: Path) -> None:
    terminal.send("e")
    terminal.wait_for("Nothing is applied")
    terminal.settle(0.3)
    terminal.send(ESCAPE)
    terminal.settle(0.5)
    terminal.send(ENTER)
    terminal.settle(0.5)
    assert [path.name for path in session.parent.iterdir()] == ["session.jsonl"]


def test_what_is_applied_first_is_exported_then(terminal: Terminal, session: Path) -> None:
    terminal.send("ea")
    terminal.wait_for("Export the copy")
    terminal.settle(0.3)
    terminal.send(ENTER)
    compacted = session.with_name("session.compacted.json")
    assert appears(compacted, terminal)
    assert len(compacted.read_bytes()) < len(session.read_bytes()) / 1.2
    assert len(ct.open_session(compacted)) == len(ct.open_session(session))


@PACES
def test_a_window(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"w{START}345678{ENTER}", pace)
    terminal.wait_for("345,678")


@PACES
def test_a_value_that_takes_the_place_of_the_one_that_is_there(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"w456789{ENTER}", pace)
    terminal.wait_for("456,789")


@PACES
def test_a_message_to_go_to(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"t15{ENTER}", pace)
    terminal.wait_for("Step 1 is done")


@PACES
def test_a_text_to_find(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"/rotate{ENTER}", pace)
    terminal.wait_for("Step 0: rotate")


@PACES
def test_a_filter(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"fj{ENTER}", pace)
    terminal.wait_for("user: 6 of 66 rows")


@PACES
def test_a_filter_of_what_another_policy_does_not_do(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"f{'j' * 10}{ENTER}2", pace)
    terminal.wait_for("No rows match: cleared by defect-compact")
    terminal.output = b""
    typed(terminal, "1", pace)
    terminal.wait_for("cleared: 6 of 66 rows")


@PACES
def test_a_part_of_the_breakdown(terminal: Terminal, pace: float) -> None:
    typed(terminal, f"b{ENTER}", pace)
    terminal.wait_for("results, in context: 36 of 66 rows")


def test_leaving_by_way_of_an_export(terminal: Terminal, session: Path) -> None:
    terminal.send(f"aqe{ENTER}")
    assert appears(session.with_name("session.compacted.json"), terminal)
    terminal.settle(0.5)
    terminal.quit(ENTER)


def test_leaving_without_one(terminal: Terminal, session: Path) -> None:
    terminal.quit("aqq")
    assert [path.name for path in session.parent.iterdir()] == ["session.jsonl"]
