"""The picker in a pseudo-terminal: keys that come in one write, or faster than anybody looks, do what they say."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pty import DOWN, END, PAGE_DOWN, Terminal
from tests.tui.test_picker import write

UP, RIGHT = "\x1b[A", "\x1b[C"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where an agent keeps sixty sessions, the newest first by their numbers; the second has a sub-agent."""
    for number in range(60):
        path = Path(write(tmp_path / "projects" / "-p" / f"session-{number:02}.jsonl", f"prompt {number}"))
        stamp = 1_700_000_000 - number
        os.utime(path, (stamp, stamp))
    below = tmp_path / "projects" / "-p" / "session-01" / "subagents" / "agent-abc.jsonl"
    write(below, "look around", agent="abc", session="session-01")
    return tmp_path


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    """The picker on these sessions, ready for keys."""
    env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home), "CONTEXT_TUI_CONFIG": ""}
    with Terminal([sys.executable, "-m", "context_tui"], columns=100, rows=24, env=env) as running:
        running.wait_for("prompt 3")
        running.settle(0.5)
        running.output = b""
        yield running


def slow(keys: str, opened: str) -> Any:
    """Keys and what they open, tried where there is time."""
    return pytest.param(keys, opened, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("keys", "opened"),
    [
        (f"{DOWN}{DOWN}\r", "session-02"),
        ("/session-42\r", "session-42"),
        slow(f"{END}{UP}\x1b[H{DOWN}\r", "session-01"),
        slow(f"{PAGE_DOWN}\r", "session-17"),
        slow("/session-49\x7f8\r", "session-48"),
        slow(f"{DOWN}{DOWN}/session-3{DOWN}\r", "session-31"),
        slow("jj/qj\x15session-05\r", "session-05"),
        slow(f"{DOWN}{RIGHT}{DOWN}\r", "agent-abc"),
    ],
)
def test_keys_in_one_write_open_what_they_say(terminal: Terminal, keys: str, opened: str) -> None:
    terminal.send(keys)
    terminal.wait_for(f"{opened}.jsonl", 20)
    terminal.settle(0.3)
    assert terminal.alive()


@pytest.mark.slow
def test_at_fifty_keys_a_second_none_is_lost(terminal: Terminal) -> None:
    for key in [DOWN] * 40 + [UP] * 5 + [*"/session-1"] + ["\x7f"] * 2 + [*"-23"] + ["\r"]:
        terminal.send(key)
        time.sleep(0.02)
        terminal.read(0)
    terminal.wait_for("session-23.jsonl", 20)


@pytest.mark.slow
def test_escape_clears_the_filter_and_then_leaves(terminal: Terminal) -> None:
    terminal.send("/nothing like this")
    terminal.wait_for("No session matches", 20)
    terminal.send("\x1b")
    terminal.settle(0.5)
    assert terminal.alive()
    terminal.quit("\x1b")
    assert terminal.status == 0
