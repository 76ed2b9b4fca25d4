"""Keys that come faster than the screen is drawn: the real program in a pseudo-terminal, given several in one write."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pty import Terminal
from tests.tui.cells import Cells
from tests.tui.inspecting import conversation, file_of

pytestmark = pytest.mark.slow

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
SHIFT_LEFT = "\x1b[1;2D"
TO_SETTINGS = "\t\t\t"


def click(x: int, y: int) -> str:
    """What a terminal sends for a click in a cell."""
    place = f"{x + 1};{y + 1}"
    return f"\x1b[<35;{place}M\x1b[<0;{place}M\x1b[<0;{place}m"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """The inspector on a session of which six results are cleared at the defaults, and ten at one turn kept."""
    file_of(tmp_path / "session.jsonl", conversation())
    with Terminal(
        [sys.executable, "-m", "context_tui", str(tmp_path / "session.jsonl")], columns=150, rows=44
    ) as opened:
        opened.wait_for("clears 6 of 36 results")
        opened.settle(0.3)
        yield opened


@pytest.mark.parametrize(
    ("keys", "cleared"),
    [
        (f"{LEFT}a", 8),
        pytest.param(f"{LEFT}{LEFT}a", 10, marks=pytest.mark.slow),
        (f"{TO_SETTINGS}=1a", 10),
        pytest.param(f"{TO_SETTINGS}=1\ta", 10, marks=pytest.mark.slow),
        pytest.param(f"{TO_SETTINGS}\r2\ra", 8, marks=pytest.mark.slow),
        pytest.param(f"{TO_SETTINGS}{DOWN}{RIGHT}{UP}{LEFT}a", 8, marks=pytest.mark.slow),
        (f"4{LEFT}1{LEFT}a", 8),
        pytest.param(f"\t\t{DOWN}{UP}{LEFT}a", 8, marks=pytest.mark.slow),
        (f"7{TO_SETTINGS}{RIGHT}{RIGHT} {SHIFT_LEFT}{RIGHT} a", 13),
        (f"{UP}{UP} vv{DOWN}v{LEFT}a", 8),
    ],
    ids=[
        *("a step", "two steps", "an entry", "an entry left by tab", "an entry after enter"),
        *("another setting and back", "another policy and back", "in the table of policies", "a chain", "in a message"),
    ],
)
def test_what_is_applied_is_what_was_set(terminal: Terminal, keys: str, cleared: int) -> None:
    terminal.send(keys)
    terminal.wait_for(f"{cleared} blocks cleared")


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("w64k\r", "of 64,000"),
        pytest.param("t0\r", "Step 0: rotate", marks=pytest.mark.slow),
        pytest.param("/Step 0\r", "Step 0: rotate", marks=pytest.mark.slow),
        ("t\x1b[200~0\x1b[201~\r", "Step 0: rotate"),
        ("\x1b[D/Step 4\ra", "8 blocks"),
    ],
    ids=["a window", "a message", "a search", "a message, pasted", "a search, then applied"],
)
def test_what_is_typed_goes_to_the_dialog_that_a_key_opens(terminal: Terminal, keys: str, shown: str) -> None:
    terminal.send(keys)
    terminal.wait_for(shown)


def test_an_entry_that_is_no_value_is_refused_before_anything_else(terminal: Terminal) -> None:
    terminal.send(f"{TO_SETTINGS}=0a")
    terminal.wait_for("invalid: ")
    terminal.settle(0.3)
    assert b"blocks cleared" not in terminal.output
    terminal.send("\x1b")
    terminal.settle(0.3)
    terminal.send("a")
    terminal.wait_for("6 blocks cleared")


def test_no_key_is_lost_at_fifty_a_second(terminal: Terminal) -> None:
    for key in [RIGHT] * 20 + [LEFT] * 22:
        terminal.send(key)
        time.sleep(0.02)
    terminal.send("a")
    terminal.wait_for("10 blocks cleared")


def test_a_click_waits_for_the_key_before_it(terminal: Terminal) -> None:
    """A policy by its digit, another by a click on its row, and that one is applied."""
    cells = Cells(150, 44)
    cells.read(terminal.output)
    name = "▸1 defect-microcompact"
    while name not in cells.text():
        assert terminal.read(10), f"{name} does not appear"
        cells.read(terminal.output)
    row, line = next((row, line) for row, line in enumerate(cells.text().splitlines()) if name in line)
    column = line.index(name)
    terminal.send(f"4{click(column, row)}{LEFT}a")
    terminal.wait_for("8 blocks cleared")
