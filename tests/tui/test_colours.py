"""The real program in a pseudo-terminal: the colours that arrive, on every screen, in many themes, or with none.

What is to be read has a contrast of at least 4.5 with its ground (WCAG), 3 where the terminal dims it. What has the
keys is seen in any case. Bars, borders and scroll bars are drawing: they are known by the characters they are made of.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.pty import Terminal
from tests.tui.cells import Cells

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
SIZE, TINY = (120, 40), (40, 8)
PATIENCE_S = 20.0
UP, DOWN, ESCAPE, TAB, ENTER, PALETTE = "\x1b[A", "\x1b[B", "\x1b", "\t", "\r", "\x10"
COLOURS = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}
"""Codes that set a colour; 39 and 49 are the terminal's own."""
DARK_TERMINAL, LIGHT_TERMINAL = ("e5e5e5", "000000"), ("000000", "ffffff")
NOTHING_OF_ITS_OWN = ("000000", "000000")
"""A terminal whose own colours would not be seen: all that is to be read has to have been given some."""


class Step(NamedTuple):
    """Keys, and a word that is on the screen once they have done what they do."""

    name: str
    keys: str
    word: str


STEPS = [
    Step("picker", "", "compacted-session"),
    Step("picker, second row", DOWN, "compacted-session"),
    Step("inspector", UP + ENTER, "microcompact"),
    Step("timeline", UP + UP, "microcompact"),
    Step("as of", ".", "microcompact"),
    Step("at the end again", ".", "at the end"),
    Step("detail", " ", "microcompact"),
    Step("settings", TAB, "microcompact"),
    Step("setting, changed", "\x1b[C", "microcompact"),
    Step("further", TAB, "microcompact"),
    Step("timeline again", ESCAPE, "microcompact"),
    Step("a copied message", "y", "lipboard"),
    Step("breakdown", "b" + DOWN, "by tool"),
    Step("search", ESCAPE + "/", "microcompact"),
    Step("found", "test" + ENTER, "test"),
    Step("filter", ESCAPE + "f" + DOWN, "esc"),
    Step("filtered", ENTER + ESCAPE, "microcompact"),
    Step("help", ESCAPE + "?", "Keys"),
    Step("problems", ESCAPE + "p", "broken"),
    Step("window", ESCAPE + "w", "esc"),
    Step("wrong window", "x", "esc"),
    Step("palette", ESCAPE + PALETTE, "Export"),
    Step("palette, searched", "the" + DOWN, "the"),
    Step("apply", ESCAPE + "2a", "extract"),
    Step("apply, further", TAB, "extract"),
    Step("summary, edited", "e", "finish"),
    Step("apply again", ESCAPE, "accept"),
    Step("inspector again", ESCAPE, "recorded"),
    Step("applied", "1a", "applied"),
    Step("export", "e", "Export"),
    Step("quit dialog", ESCAPE + "q", "Quit"),
    Step("back", ESCAPE, "microcompact"),
]
FEW = [each for each in STEPS if each.name in ("picker", "inspector", "timeline", "detail", "breakdown")]


MOVES = {"picker, second row", "timeline"}
"""Where nothing changes but which row has the keys: two rows look different."""
BARS = {"picker", "timeline", "filter", "palette, searched", "quit dialog"}
"""Where a row or a button has the keys."""
SAID = set((SAMPLES / "coding-session.jsonl").read_text() + (SAMPLES / "compacted-session.jsonl").read_text())
"""What the sessions themselves say is shown as they say it."""


class Case(NamedTuple):
    """Arguments, the environment, and what the terminal's own two colours are."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    default: tuple[str, str] = NOTHING_OF_ITS_OWN


_HERE = {"NO_COLOR": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "SSH_TTY": "/dev/pts/0", "COLUMNS": "", "LINES": ""}
_16, _256 = {"TERM": "xterm", "COLORTERM": ""}, {"COLORTERM": ""}
CASES = {
    "dark": Case(),
    "light": Case(["--theme", "light"]),
    "empty NO_COLOR": Case(environment={"NO_COLOR": ""}),
    "textual-dark": Case(["--theme", "textual-dark"]),
    "textual-light": Case(["--theme", "textual-light"]),
    "nord": Case(["--theme", "nord"]),
    "dracula": Case(["--theme", "dracula"]),
    "monokai": Case(["--theme", "monokai"]),
    "solarized-light": Case(["--theme", "solarized-light"]),
    "catppuccin-latte": Case(["--theme", "catppuccin-latte"]),
    "ansi-dark": Case(["--theme", "ansi-dark"], default=DARK_TERMINAL),
    "ansi-light": Case(["--theme", "ansi-light"], default=LIGHT_TERMINAL),
    "256 colours": Case(environment=_256),
    "256 colours, light": Case(["--theme", "light"], _256),
    "256 colours, nord": Case(["--theme", "nord"], _256),
    "16 colours": Case(environment=_16),
    "16 colours, light": Case(["--theme", "light"], _16),
    "16 colours, nord": Case(["--theme", "nord"], _16),
    "plain": Case(["--ascii"]),
    "plain, light": Case(["--ascii", "--theme", "light"]),
    "plain, 16 colours": Case(["--ascii"], _16),
}
WITHOUT = {
    name: Case(arguments, {"NO_COLOR": "1", **environment}, DARK_TERMINAL)
    for name, arguments, environment in [
        ("dark", (), {}),
        ("light", ("--theme", "light"), {}),
        ("nord", ("--theme", "nord"), {}),
        ("ansi-dark", ("--theme", "ansi-dark"), {}),
        ("16 colours", (), _16),
        ("plain", ("--ascii",), {}),
    ]
}


class Walk:
    """The program, the screen it is seen on, and the way through it."""

    def __init__(self, terminal: Terminal, cells: Cells) -> None:
        self.terminal, self.cells = terminal, cells

    def go(self, step: Step) -> None:
        """Press the keys of a step, one after the other as a person does, until it is there."""
        self.press(*_keys(step.keys))
        deadline = time.monotonic() + PATIENCE_S
        while step.word not in self.cells.text() and time.monotonic() < deadline:
            self.press()
        assert step.word in self.cells.text(), f"not at {step.name!r}:\n{self.cells.text()}"

    def press(self, *keys: str) -> None:
        """Press keys, and read what comes of each."""
        for key in keys or ("",):
            self.terminal.send(key)
            self.terminal.settle(0.4 if key == ESCAPE else 0.15)  # escape and a letter at once are another key
        self.terminal.settle(0.25)
        self.cells.read(self.terminal.output)


def _keys(keys: str) -> list[str]:
    """Escape sequences are one key; so is what is typed in one go."""
    found: list[str] = []
    for char in keys:
        follows = found and found[-1].startswith("\x1b") and char in "[ABC" and len(found[-1]) < 3
        if follows and (char == "[") == (len(found[-1]) == 1):
            found[-1] += char
        else:
            found.append(char)
    return found


@contextmanager
def walking(case: Case, folder: Path, size: tuple[int, int] = SIZE) -> Iterator[Walk]:
    """The program with two sessions, one of which has a problem."""
    one = folder / "coding.jsonl"
    one.write_bytes((SAMPLES / "coding-session.jsonl").read_bytes() + b'{"broken": \n')
    argv = [sys.executable, "-m", "context_tui", str(one), str(SAMPLES / "compacted-session.jsonl"), *case.arguments]
    environment = {**_HERE, **case.environment}
    columns, rows = size
    with Terminal(argv, columns=columns, rows=rows, env=environment) as terminal:
        terminal.wait_for("compacted-session")
        walk = Walk(terminal, Cells(columns, rows, case.default))
        walk.press()
        yield walk


def check(case: Case, folder: Path, steps: Sequence[Step], size: tuple[int, int] = SIZE) -> None:
    """Walk through the screens: everything is readable, and the cursor is seen."""
    wrong: list[object] = []
    with walking(case, folder, size) as walk:
        for step in steps:
            looks = walk.cells.looks()
            walk.go(step)
            wrong += [(step.name, each) for each in walk.cells.unreadable()]
            if step.name in MOVES and sum(a != b for a, b in zip(looks, walk.cells.looks(), strict=True)) < 2:
                wrong.append((step.name, "the cursor is not seen"))
            if case.environment.get("NO_COLOR") and step.name in BARS and not walk.cells.reversed():
                wrong.append((step.name, "no bar"))
        sent, hues = walk.cells.codes & COLOURS, walk.cells.hues()
        outside = set(walk.cells.seen) - {chr(code) for code in range(128)} - SAID
    assert not wrong, "\n".join(map(str, wrong[:40]))
    if case.environment.get("NO_COLOR"):
        assert not sent, "colours were sent"
    else:
        assert hues, "all is grey"
    if "--ascii" in case.arguments:
        assert not outside, f"not in the table of plain characters: {outside}"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "dark" else pytest.mark.matrix) for name in CASES]
)
def test_everything_is_readable(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path, STEPS)


@pytest.mark.matrix
@pytest.mark.parametrize("name", WITHOUT)
def test_no_colours_at_all(name: str, tmp_path: Path) -> None:
    """NO_COLOR holds for every theme: nothing sets a colour, and what has the keys is a bar."""
    check(WITHOUT[name], tmp_path, STEPS)


@pytest.mark.matrix
@pytest.mark.parametrize("case", [Case(), Case(environment=_16), WITHOUT["dark"]], ids=["dark", "16", "none"])
def test_a_terminal_too_small(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path, [STEPS[0], Step("too small", ENTER, "enlarge")], TINY)


@pytest.mark.parametrize("case", [Case(), WITHOUT["dark"]], ids=["colours", "none"])
def test_the_first_screens(case: Case, tmp_path: Path) -> None:
    """The same on the way that everybody goes; the rest is slow."""
    check(case, tmp_path, FEW)
