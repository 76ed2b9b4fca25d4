"""Small dialogs: ask for a value, or let one of a few answers be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label

from context_tui.errors import Error
from context_tui.sanitize import sanitize_line, visible

_PYTHON_SAYS = ("invalid literal", "could not convert")


class InputPrompt(ModalScreen[str | None]):
    """Ask for a value: its text, or None when the question was closed.

    ``check`` is given the text and raises ``ct.Error`` or ``ValueError`` with what is wrong with it.
    """

    CSS_PATH = "prompts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="prompt-cancel", tooltip="Close without a value"),
    ]

    def __init__(
        self, title: str, hint: str = "", value: str = "", *, check: Callable[[str], object] | None = None
    ) -> None:
        super().__init__()
        self._heading, self._hint, self._value, self._check = title, hint, value, check

    def compose(self) -> ComposeResult:
        """The title, the line to type in, and below it the hint or what is wrong."""
        with Vertical(id="prompt"):
            yield Label(sanitize_line(self._heading), id="prompt-title", markup=False)
            yield Input(self._value, id="prompt-value")
            yield Label(sanitize_line(self._hint), id="prompt-hint", markup=False)
            yield Label("enter accept   esc cancel", id="prompt-keys", markup=False)

    @on(Input.Changed)
    def look(self) -> None:
        """Say what is wrong while typing; an untouched question is not wrong yet."""
        value = self.query_one(Input).value
        self._tell(self._wrong(value) if value and value != self._value else "")

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        """Close with the value if it will do."""
        if wrong := self._wrong(event.value):
            self._tell(wrong)
        else:
            self.dismiss(event.value)

    def _wrong(self, value: str) -> str:
        try:
            if self._check is not None:
                self._check(value)
        except (Error, ValueError) as error:
            said = str(error)
            return "this is not a number" if said.startswith(_PYTHON_SAYS) else said or "this value cannot be used"
        return ""

    def _tell(self, wrong: str) -> None:
        hint = self.query_one("#prompt-hint", Label)
        hint.update(sanitize_line(wrong or self._hint))
        hint.set_class(bool(wrong), "wrong")


class Answer(NamedTuple):
    """One answer: the key that gives it, what is returned, and the words on it."""

    key: str
    name: str
    label: str


class ChoicePrompt(ModalScreen[str | None]):
    """Let one of a few answers be chosen: its name, or None when the question was closed. The first is the safe one."""

    CSS_PATH = "prompts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="choice-cancel", tooltip="Close without an answer"),
        Binding("left", "app.focus_previous", "previous", show=False, id="choice-previous", tooltip="Previous answer"),
        Binding("right", "app.focus_next", "next", show=False, id="choice-next", tooltip="Next answer"),
    ]

    def __init__(self, title: str, detail: str, answers: Sequence[Answer]) -> None:
        super().__init__()
        self._heading, self._detail, self._answers = title, detail, answers

    def compose(self) -> ComposeResult:
        """The question and a button for each answer."""
        with Vertical(id="prompt"):
            yield Label(sanitize_line(self._heading), id="prompt-title", markup=False)
            yield Label(visible(self._detail), id="prompt-hint", markup=False)
            with Horizontal(id="prompt-answers"):
                for number, answer in enumerate(self._answers):
                    label = Content(f"{answer.key}  {answer.label}")
                    yield Button(label, "default" if number else "primary", name=answer.name, compact=True)

    def on_mount(self) -> None:
        """Bind each answer's key."""
        for answer in self._answers:
            self._bindings.bind(answer.key, f"answer('{answer.name}')", answer.label, show=False)

    def action_answer(self, name: str) -> None:
        """Give an answer by its key."""
        self.dismiss(name)

    @on(Button.Pressed)
    def pressed(self, event: Button.Pressed) -> None:
        """Give the answer on the button."""
        self.dismiss(event.button.name)


def quit_prompt(what: str = "The compacted session") -> ChoicePrompt:
    """Asked once when quitting with a result that was not exported: ``export``, ``quit``, or None to stay."""
    answers = [Answer("e", "export", "export"), Answer("q", "quit", "quit without it"), Answer("s", "stay", "stay")]
    return ChoicePrompt("Quit?", f"{what} is not exported yet and will be lost.", answers)
