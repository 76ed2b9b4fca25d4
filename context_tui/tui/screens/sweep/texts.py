"""The sweep as text, to read, to scroll and to select in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label

from context_tui.lab.replay.words import REPLAY_LIMITS_TEXT
from context_tui.tui.parts import TextPart
from context_tui.tui.screens.sweep.board import Board
from context_tui.tui.screens.sweep.table import BEST, CURRENT, columns_of
from context_tui.tui.screens.sweep.telling import best_in_projects, native_lines, status, words
from context_tui.tui.text import pluralize
from context_tui.tui.widgets.footer import KeyFooter
from context_tui.tui.widgets.reading_pane import ReadingPane

WIDE = 1_000
"""Cells for lines that are wrapped later."""


def parts(board: Board) -> Iterator[TextPart]:
    """Everything in words: what came out, the setting under the cursor, all settings with their numbers."""
    if board.text:
        yield TextPart(f"{board.current.policy.name} {board.text}\n", "muted")
    yield TextPart("".join(text for text, _ in status(board, "", False, WIDE)).strip() + "\n")
    yield TextPart(f"The setting under the cursor: {board.cursor}", "heading")
    told = ("".join(text for text, _ in line).strip() for line in words(board, WIDE))
    yield TextPart("\n".join(told) + "\n")
    yield TextPart(
        f"{pluralize(len(board.listed), 'setting')} (* nothing beats it, > the current one), in tokens", "heading"
    )
    for name in board.listed:
        yield from _setting(board, name)
    yield TextPart("")
    setting = board.named[board.cursor]
    yield TextPart(f"As the agent's own configuration: {board.cursor}", "heading")
    yield TextPart("\n".join(native_lines(board, setting)) + "\n")
    if not board.is_live:
        yield from project_parts(board)
    yield TextPart(" ".join(REPLAY_LIMITS_TEXT), "muted")


def _setting(board: Board, name: str) -> Iterator[TextPart]:
    """A setting with its numbers below it."""
    whole, beaten = board.wholes[name], board.standing.dominated_by.get(name)
    mark = (CURRENT if name == board.made.current else "") + (BEST if name in board.of.best else "")
    yield TextPart(f"{mark:2} {board.label(name)}")
    numbers = [f"{each.head} {each.told(each.value(whole), True)}" for each in columns_of(board)]
    numbers += [f"beaten by {board.label(beaten)}"] if beaten else []
    yield TextPart("   " + ", ".join(numbers), "muted")


def project_parts(board: Board) -> Iterator[TextPart]:
    """The best setting of each project."""
    yield TextPart("Best in each project: what saves most at no more regret than the current one", "heading")
    found = best_in_projects(board)
    for project, setting, saved in found:
        yield TextPart(project)
        yield TextPart(f"   {setting}: saves {saved}", "muted")
    yield TextPart("" if found else "no project\n")


class TextScreen(ModalScreen[None]):
    """Text in the place of the screen."""

    CSS_PATH = "texts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t,p", "dismiss", "close", key_display="esc", id="sweep-text-close", tooltip="Back"),
    ]

    def __init__(self, title: str, shown: Iterable[TextPart]) -> None:
        super().__init__()
        self._title, self._shown = title, shown

    def compose(self) -> ComposeResult:
        """A title and the text."""
        yield Label(self._title, id="sweep-text-title", markup=False)
        yield ReadingPane(self._shown, id="sweep-text")
        yield KeyFooter()
