"""Keys one after the other, also where one moves the focus or takes away the widget that it was handed to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import events, on, work
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from context_tui.tui.terminal import key_queue
from context_tui.tui.terminal.key_queue import KeyBarrier, KeyQueue
from tests.tui.fakes import until


class Form(App[None]):
    """Two entries; enter goes from the first to the second, escape takes away the one with the focus."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = KeyQueue(self, super().on_event)
        self.taken: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(), Vertical(), Vertical():  # a key comes back by way of all of them
            yield Input(id="first", select_on_focus=False)
            yield Input(id="second", select_on_focus=False)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, key_queue.UserInput) and not event.is_forwarded:
            await self.keys.enqueue(event)
        else:
            await super().on_event(event)

    @on(KeyBarrier)
    async def handled(self, event: KeyBarrier) -> None:
        await self.keys.handle_barrier(event)

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        self.query_one("#second").focus()

    def on_key(self, event: events.Key) -> None:
        self.taken.append(event.key)
        if event.key == "escape" and self.focused:
            self.focused.remove()


def burst(app: App[Any], *keys: str | events.Event) -> None:
    """Press keys, paste or click without waiting for what they do."""
    driver = app._driver
    assert isinstance(driver, Driver)
    for key in keys:
        event = events.Key(key, key if len(key) == 1 else None) if isinstance(key, str) else key
        event.set_sender(app)
        driver.send_message(event)


async def test_a_key_goes_where_the_keys_before_it_moved_the_focus() -> None:
    app = Form()
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, "a", "b", "enter", "c", "tab", "tab", "d", "shift+tab", "e")
        second = app.query_one("#second", Input)
        await until(pilot, lambda: second.value == "cd")
        await until(pilot, lambda: app.query_one("#first", Input).value.endswith("e"))


async def test_keys_go_on_where_the_widget_of_one_has_gone() -> None:
    app = Form()
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, "escape", "f5", "f6")
        await until(pilot, lambda: app.taken == ["escape", "f5", "f6"])


async def test_what_is_pasted_goes_where_the_keys_before_it_moved_the_focus() -> None:
    app = Form()
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, "a", events.Paste("bc"), "d", "enter", events.Paste("ef"), "g")
        await until(pilot, lambda: app.query_one("#second", Input).value == "efg")
        assert app.query_one("#first", Input).value == "abcd"


def click(x: int, y: int) -> list[events.Event]:
    """What the mouse tells when it is clicked at a place."""
    return [
        kind(None, x, y, delta_x=0, delta_y=0, button=1, shift=False, meta=False, ctrl=False)
        for kind in (events.MouseMove, events.MouseDown, events.MouseUp)
    ]


async def test_a_click_comes_between_the_keys_before_and_after_it() -> None:
    app = Form()
    async with app.run_test() as pilot:
        first, second = app.query_one("#first", Input), app.query_one("#second", Input)
        first.focus()
        await pilot.pause()
        burst(app, "a", "b", "enter", "c", *click(first.region.right - 3, first.region.y + 1), "d", "enter", "e")
        await until(pilot, lambda: second.value == "ce")
        assert first.value == "abd"


class Ask(ModalScreen[str]):
    """Any letter is an answer, and so is the button in the corner."""

    def compose(self) -> ComposeResult:
        yield Button("answer")

    def on_key(self, event: events.Key) -> None:
        if event.key != "enter":
            self.dismiss(event.key)

    def on_button_pressed(self) -> None:
        self.dismiss("clicked")


class Entry(ModalScreen[str]):
    """A text, which enter takes."""

    def compose(self) -> ComposeResult:
        with Vertical(), Vertical():
            yield Input()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class Wizard(Form):
    """One dialog after the other, each opened by what waited for the one before."""

    answers: tuple[str, ...] = ()

    @work
    async def action_ask(self) -> None:
        answers = []
        for screen in (Ask(), Ask(), Entry()):
            answers.append(await self.push_screen_wait(screen))
            for _ in range(8):  # as much as one that asks does before it asks again
                await asyncio.sleep(0)
        self.answers = tuple(answers)

    def on_key(self, event: events.Key) -> None:
        if event.key == "f2":
            self.action_ask()


async def test_a_dialog_that_closes_is_followed_by_the_one_that_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "KEY_TIMEOUT_S", 60.0)  # no key is followed in vain
    app = Wizard()
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, "f2", "a", "b", *"text", "enter", "x")
        await until(pilot, lambda: app.answers == ("a", "b", "text"))
        await until(pilot, lambda: app.query_one("#first", Input).value == "x")


async def test_a_click_is_for_what_a_key_before_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "KEY_TIMEOUT_S", 60.0)  # nothing is followed in vain
    app = Wizard()
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, "f2", *click(2, 1), "y", "b", *"text", "enter", "x")
        await until(pilot, lambda: app.answers == ("clicked", "y", "btext"))
        await until(pilot, lambda: app.query_one("#first", Input).value == "x")


@pytest.mark.slow
async def test_many_keys_are_all_taken_in_order() -> None:
    app, text = Form(), "the quick brown fox jumps over the lazy dog" * 5
    async with app.run_test() as pilot:
        app.query_one("#first").focus()
        await pilot.pause()
        burst(app, *text)
        await until(pilot, lambda: app.query_one("#first", Input).value == text)
