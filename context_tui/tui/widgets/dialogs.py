"""Dialogs that ask for a value or for one of a few answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label

from context_tui.errors import Error
from context_tui.policies.scales import parse_number
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible, sanitize_line
from context_tui.tui.widgets.bindings import read_bindings


class InputPrompt(ModalScreen[str | None]):
    """A dialog that returns a line of text, or None if cancelled; *check* raises Error or ValueError for bad text."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS = read_bindings("input-prompt")

    def __init__(self, title: str, hint: str = "", value: str = "", *, check: Callable[[str], object] = str) -> None:
        super().__init__()
        self._heading, self._hint, self._value, self._check = title, hint, value, check

    def compose(self) -> ComposeResult:
        with Vertical(id="prompt"):
            yield Label(sanitize_line(self._heading), id="prompt-title", markup=False)
            yield Input(self._value, id="prompt-value")
            yield Label(sanitize_line(self._hint), id="prompt-hint", markup=False)
            yield Label("enter accept   esc cancel", id="prompt-keys", markup=False)

    @on(Input.Changed)
    def validate_input(self) -> None:
        """Show an error while the typed text is not valid; an empty text and the initial value are not checked."""
        value = self.query_one(Input).value
        self._show_hint(self._find_error(value) if value and value != self._value else "")

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        if error := self._find_error(event.value):
            self._show_hint(error)
        else:
            self.dismiss(event.value)

    def _find_error(self, value: str) -> str:
        try:
            self._check(value)
        except (Error, ValueError) as error:
            return str(error)
        return ""

    def _show_hint(self, error: str) -> None:
        hint = self.query_one("#prompt-hint", Label)
        hint.update(sanitize_line(error or self._hint))
        hint.set_class(bool(error), "wrong")


class Answer(NamedTuple):
    """An answer in a dialog: the key that chooses it, the name that the dialog returns, and the label shown."""

    key: str
    name: str
    label: str


class ChoicePrompt(ModalScreen[str | None]):
    """A dialog that returns the name of the chosen answer, or None if cancelled; the first answer is preselected."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS = read_bindings("choice-prompt")

    def __init__(self, title: str, detail: str, answers: Sequence[Answer]) -> None:
        super().__init__()
        self._heading, self._detail, self._answers = title, detail, answers

    def compose(self) -> ComposeResult:
        with Vertical(id="prompt"):
            yield Label(sanitize_line(self._heading), id="prompt-title", markup=False)
            yield Label(make_visible(self._detail), id="prompt-hint", markup=False)
            with Horizontal(id="prompt-answers"):
                for number, answer in enumerate(self._answers):
                    label = Content(f"{answer.key}  {answer.label}")
                    yield Button(label, "default" if number else "primary", name=answer.name, compact=True)
            yield Label("←→ choose   enter accept   esc cancel", id="prompt-keys", markup=False)

    def on_mount(self) -> None:
        for answer in self._answers:
            self._bindings.bind(answer.key, f"dismiss('{answer.name}')", answer.label, show=False)

    @on(Button.Pressed)
    def handle_button(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.name)


def build_quit_prompt(unexported: bool = True, drafts: int = 0) -> ChoicePrompt:
    """Build the dialog shown before quitting; it returns ``export``, ``quit`` or ``stay``, or None if cancelled."""
    answers = [Answer("q", "quit", "quit anyway"), Answer("s", "stay", "stay")]
    reasons = []
    if unexported:
        answers.insert(0, Answer("e", "export", "export"))
        reasons.append("The compacted session is not exported.")
    else:
        answers.reverse()
    if drafts:
        count = format_count(drafts, "summary that was written is", "summaries that were written are")
        reasons.append(f"{count} not accepted.")
    return ChoicePrompt("Quit?", f"{' '.join(reasons)} Quitting discards {'it' if not drafts else 'this'}.", answers)


def build_unchanged_prompt(plan_changes: bool) -> ChoicePrompt:
    """Build the dialog shown before the export of an unchanged session; it returns ``apply``, ``export`` or None."""
    export = Answer("e", "export", "export unchanged")
    if plan_changes:
        answers = [Answer("a", "apply", "apply first"), export]
        return ChoicePrompt("Nothing is applied", "Apply the plan first, or export the session unchanged?", answers)
    return ChoicePrompt("Nothing is applied", "The plan changes nothing here. Export the session unchanged?", [export])


def parse_window_tokens(text: str) -> int | None:
    """Parse a token count such as ``200k``; return None for an empty text and raise ValueError for invalid text."""
    number = parse_number(text, 1, 100_000_000) if text.strip() else None
    return None if number is None else int(number)


def parse_message_number(text: str, last: int) -> int:
    """Parse a message number; raises ValueError if *text* is not a number from 0 to *last*."""
    return int(parse_number(text, 0, last) or 0)
