"""The real program in a pseudo-terminal: the colours that arrive, on every screen, in many themes, or with none.

What is to be read has a contrast of at least 4.5 with its ground (WCAG), 3 where the terminal dims it. What has the
keys is seen in any case. Bars, borders and scroll bars are drawing: they are known by the characters they are made of.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.pty import Terminal
from tests.tui.cells import Cells, Unreadable

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
SIZE, TINY = (120, 40), (40, 8)
PATIENCE_S = 60.0
QUIET_S = 0.12
"""Longer than the inspector waits before it draws what is not urgent."""
UP, DOWN, RIGHT, TAB, ENTER, PALETTE = "\x1b[A", "\x1b[B", "\x1b[C", "\t", "\r", "\x10"
ESCAPE = "\x1b[27u"
"""As terminals with the kitty protocol send it: it is no other key together with what follows."""
COLOURS = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}
"""Codes that set a colour; 39 and 49 are the terminal's own."""
DARK_TERMINAL, LIGHT_TERMINAL = ("e5e5e5", "000000"), ("000000", "ffffff")
NOTHING_OF_ITS_OWN = ("000000", "000000")
"""A terminal whose own colours would not be seen: all that is to be read has to have been given some."""


class Step(NamedTuple):
    """Keys, a word that is on the screen once they have done what they do, and one that is there no more.

    A screen that has to look different before the step is there does, even where the words are the same.
    """

    name: str
    keys: str
    word: str
    gone: str = ""


PROBLEM = "could not be read"
STEPS = [
    Step("picker", "", "compacted-session"),
    Step("picker, second row", DOWN, "compacted-session"),
    Step("inspector", UP + ENTER, PROBLEM),
    Step("timeline", UP + UP, PROBLEM),
    Step("as of", ".", "Planned before"),
    Step("at the end again", ".", PROBLEM, "Planned before"),
    Step("detail", " ", PROBLEM),
    Step("settings", TAB, PROBLEM),
    Step("setting, changed", RIGHT, PROBLEM),
    Step("further", TAB, PROBLEM),
    Step("timeline again", ESCAPE, PROBLEM),
    Step("a copied message", "y", "lipboard"),
    Step("breakdown", "b" + DOWN, "by tool"),
    Step("search", ESCAPE + "/", PROBLEM, "by tool"),
    Step("found", "test" + ENTER, "test"),
    Step("filter", ESCAPE + "f" + DOWN, "esc"),
    Step("filtered", ENTER + ESCAPE, PROBLEM),
    Step("help", ESCAPE + "?", "List all keys"),
    Step("problems", ESCAPE + "p", "broken", "List all keys"),
    Step("calibration", ESCAPE + "C", "Factors are", "broken"),
    Step("replay", ESCAPE + "l", "as recorded", "Factors are"),
    Step("replay, settings", TAB + RIGHT, "as recorded"),
    Step("list of firings", "t", "Firings in the replay"),
    Step("needed later", ESCAPE + "l", "Needed later", "Firings in the replay"),
    Step("the agent's configuration", ESCAPE + "c", "Configuration of the agent", "Needed later"),
    Step("sweep", ESCAPE + "s", "on the Pareto front", "Configuration of the agent"),
    Step("sweep, another setting", DOWN, "on the Pareto front"),
    Step("sweep, a wrong grid", "=x" + ENTER, "is not a number"),
    Step("sweep as text", ESCAPE + "t", "under the cursor", "is not a number"),
    Step("window", ESCAPE + "qqw", "Context window in tokens"),
    Step("wrong window", "x", "is not a number"),
    Step("palette", ESCAPE + PALETTE, "Export", "Context window in"),
    Step("palette, searched", "the" + DOWN, "the"),
    Step("apply", ESCAPE + "1a", "a accept"),
    Step("apply, further", TAB, "extract"),
    Step("summary, edited", "=", "finish editing"),
    Step("apply again", ESCAPE, "accept", "finish editing"),
    Step("inspector again", ESCAPE, PROBLEM, "accept"),
    Step("applied", "2a", "Applied"),
    Step("export", "e", "Export"),
    Step("quit dialog", ESCAPE + "q", "Quit?"),
    Step("back", ESCAPE, "Applied", "Quit?"),
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

    def __init__(self, terminal: Terminal, cells: Cells, *, uncoloured: bool) -> None:
        self.terminal, self.cells, self.uncoloured = terminal, cells, uncoloured

    def go(self, step: Step) -> None:
        """Press the keys of a step in one write, and read until it is there and nothing more comes."""
        text, looks = self.cells.text(), self.cells.looks()
        self.terminal.send(step.keys)
        deadline = time.monotonic() + PATIENCE_S
        while missing := self._missing(step, text, looks):
            assert time.monotonic() < deadline, f"{missing} at {step.name!r}:\n{self.cells.text()}"
            self.terminal.read(0.1)
            self.cells.read(self.terminal.output)
        self.terminal.settle(QUIET_S)
        self.cells.read(self.terminal.output)

    def _missing(self, step: Step, text: str, looks: Sequence[object]) -> str:
        """What a step still lacks that was begun at this text and these looks."""
        now = self.cells.text()
        if step.word not in now:
            return f"no {step.word!r}"
        if step.gone and step.gone in now:
            return f"still {step.gone!r}"
        if step.keys and now == text and not self.cells.differ(looks):
            return "no change"
        if step.name in MOVES and self.cells.differ(looks) < 2:
            return "no cursor"
        if self.uncoloured and step.name in BARS and not self.cells.reversed():
            return "no bar"
        return ""


@contextmanager
def walking(case: Case, folder: Path, size: tuple[int, int] = SIZE) -> Iterator[Walk]:
    """The program with two sessions, one of which has a problem."""
    one = folder / "coding.jsonl"
    one.write_bytes((SAMPLES / "coding-session.jsonl").read_bytes() + b'{"broken": \n')
    argv = [sys.executable, "-m", "context_tui", str(one), str(SAMPLES / "compacted-session.jsonl"), *case.arguments]
    environment = {**_HERE, **case.environment}
    columns, rows = size
    with Terminal(argv, columns=columns, rows=rows, env=environment) as terminal:
        yield Walk(terminal, Cells(columns, rows, case.default), uncoloured=bool(environment["NO_COLOR"]))


def check(case: Case, folder: Path, steps: Sequence[Step], size: tuple[int, int] = SIZE) -> None:
    """Walk through the screens: everything is readable, and the cursor is seen."""
    wrong: dict[Unreadable, str] = {}
    with walking(case, folder, size) as walk:
        for step in steps:
            walk.go(step)
            for each in walk.cells.unreadable():
                wrong.setdefault(each, step.name)
        cells = walk.cells
    assert not wrong, "\n".join(f"{name}: {each}" for each, name in islice(wrong.items(), 40))
    if case.environment.get("NO_COLOR"):
        assert not cells.codes & COLOURS, "colours were sent"
    else:
        assert cells.hues(), "all is grey"
    if "--ascii" in case.arguments:
        outside = {char for char in cells.seen - SAID if not char.isascii()}
        assert not outside, f"not in the table of plain characters: {outside}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_everything_is_readable(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path, STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT)
def test_no_colours_at_all(name: str, tmp_path: Path) -> None:
    """NO_COLOR holds for every theme: nothing sets a colour, and what has the keys is a bar."""
    check(WITHOUT[name], tmp_path, STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("case", [Case(), Case(environment=_16), WITHOUT["dark"]], ids=["dark", "16", "none"])
def test_a_terminal_too_small(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path, [Step("picker", "", "these folders"), Step("too small", ENTER, "enlarge")], TINY)


@pytest.mark.parametrize(
    "case", [Case(), pytest.param(WITHOUT["dark"], marks=pytest.mark.slow)], ids=["colours", "none"]
)
def test_the_first_screens(case: Case, tmp_path: Path) -> None:
    """The same on the way that everybody goes; the rest is slow."""
    check(case, tmp_path, FEW)
