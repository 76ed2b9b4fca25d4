"""Screens that show a long text with a title, such as the keys of another screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Label

from context_tui.text.files import read_toml
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.bindings import KeyFooter, read_bindings
from context_tui.tui.widgets.reading_pane import ReadingPane


class TextScreen(ModalScreen[ScreenResultType]):
    """A screen that shows a long text; a subclass binds the keys that close it."""

    BINDINGS = read_bindings("text-screen")

    DEFAULT_CSS = """
    TextScreen {
        background: $background;
        #text-title { width: 100%; height: 1; padding: 0 1; background: $panel; text-style: bold; }
        #text-pane { padding: 0 1; }
    }
    """

    def __init__(self, title: str, parts: Iterable[TextPart]) -> None:
        super().__init__()
        self._title, self._parts = title, parts

    def compose(self) -> ComposeResult:
        yield Label(self._title, id="text-title", markup=False)
        yield ReadingPane(self._parts, id="text-pane")
        yield KeyFooter()

    def action_jump(self, step: int) -> None:
        self.query_one(ReadingPane).jump_to_heading(step)


KEYS_WIDTH = 16
"""Cells of the column of keys; longer keys get a line of their own."""
HELP_NOTES: dict[str, list[str]] = read_toml("context_tui.tui", "help_notes.toml")


class HelpScreen(TextScreen[None]):
    """A help screen that shows *notes*, and then the keys of each of *nodes* (a screen and its widgets)."""

    BINDINGS = read_bindings("help")

    def __init__(self, nodes: Sequence[DOMNode], *, notes: Sequence[str] = ()) -> None:
        super().__init__("Keys", self._iter_parts())
        self._listed_nodes, self._notes = list(nodes), notes

    def _iter_parts(self) -> Iterator[TextPart]:
        for note in self._notes:
            yield TextPart(note + "\n", "muted")
        width = min(max(self.app.size.width - 8, 40), 92) - KEYS_WIDTH
        listed: set[tuple[str, str]] = set()
        general: list[str] = []  # keys of Textual, which work in every screen
        for node in [*self._listed_nodes, self.app]:
            lines: list[str] = []
            for binding, keys in _group_bindings(node):
                if (key := (keys[0], binding.action)) not in listed:
                    listed.add(key)
                    is_own = bool(binding.id) and node is not self.app
                    group = lines if is_own else general
                    # One by one, as in the footer a binding may stand for several keys.
                    names = dict.fromkeys(self.app.get_key_display(Binding(key_name, "")) for key_name in keys)
                    group += _format_binding_lines(", ".join(names), binding, width)
            if lines:
                class_name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__.removesuffix("Screen"))
                yield TextPart(node.BINDING_GROUP_TITLE or class_name, "heading")
                yield TextPart("\n".join(lines) + "\n")
        yield TextPart("Everywhere", "heading")
        yield TextPart("\n".join(general))


def show_help(app: App[Any]) -> None:
    """Open a list of the keys of the screen and its widgets, below the screen's ``help_notes`` if it has any."""
    screen = app.screen
    widgets = {type(each): each for each in screen.query("*") if each.display}
    app.push_screen(HelpScreen([screen, *widgets.values()], notes=getattr(screen, "help_notes", ())))


def _group_bindings(node: DOMNode) -> Iterable[tuple[Binding, list[str]]]:
    groups: dict[tuple[str, str], tuple[Binding, list[str]]] = {}
    for key, bindings in node._bindings.key_to_bindings.items():
        for binding in bindings:
            if binding.description and not binding.system:
                name = (binding.action, binding.description)
                groups.setdefault(name, (binding, []))[1].append(key)
    return groups.values()


def _format_binding_lines(keys: str, binding: Binding, width: int) -> list[str]:
    about = binding.tooltip or binding.description
    texts = textwrap.wrap(about[:1].upper() + about[1:], width) or [""]
    lines = [f"  {'':{KEYS_WIDTH}}{text}" for text in texts]
    if len(keys) > KEYS_WIDTH - 2:
        return [f"  {keys}", *lines]
    return [f"  {keys:{KEYS_WIDTH}}{texts[0]}", *lines[1:]]
