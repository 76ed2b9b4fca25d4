"""What the inspector has done for it off the paint path: reading, searching, where triggers fire, the curve."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import work
from textual.message import Message
from textual.screen import Screen
from textual.worker import get_current_worker

from context_tui.errors import PlanError
from context_tui.policies.parameters import params_for
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.triggers import runtime_states
from context_tui.session.context import context_at
from context_tui.session.session import SessionInfo
from context_tui.tui.loading import read
from context_tui.tui.searching import search
from context_tui.tui.sizes import Sizes, sizes_of
from context_tui.tui.text import Reader
from context_tui.tui.view import Spot, View


@dataclass
class Fires(Message):
    """Where the trigger of the view's policy begins to fire, and a point where it fires and changes something.

    ``acts`` is looked for where the plan at the first of ``points`` changes nothing; None where none was found.
    """

    view: View
    points: list[int]
    acts: int | None = None


@dataclass
class Measured(Message):
    """The sizes of the view's context."""

    view: View
    sizes: Sizes


@dataclass
class Curve(Message):
    """Tokens after for each value of a setting."""

    view: View
    name: str
    values: Sequence[Any]
    after: list[int]


@dataclass
class Blocks(Message):
    """The blocks of a message that took a while to read."""

    reader: Reader
    spot: Spot


BUSY = 0.15
"""Seconds for which a thread gives way to the screen after something was pressed."""


MANY = 50_000
"""Messages up to which plans are made to find where one changes something."""


def acting(view: View, fired: Sequence[RuntimeState], cancelled: Callable[[], bool]) -> int | None:
    """Of the moments at which the trigger fires, the first whose plan changes something, if the later ones do as well.

    What can be cleared grows with the context, so that steps that double are taken to one, and halved on the way back.
    """
    policy = POLICIES[view.policy]
    try:
        params = params_for(policy, view.settings(view.policy))
    except PlanError:
        return None

    def changes(row: int) -> bool:
        time.sleep(0.001)  # the screen's turn
        # Not by the session: it keeps few contexts, and those on screen would go.
        context = context_at(view.session.facts, fired[row].at)
        try:
            return not cancelled() and policy.plan(context, params, fired[row]).changed
        except PlanError:
            return False

    low, high = -1, 0
    while not changes(high):
        if high == len(fired) - 1:
            return None
        low, high = high, min(2 * high + 1, len(fired) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle) else (middle, high)
    return fired[high].at


class Background(Screen[None]):
    """Thread workers. They are given immutable views and only post messages; late answers are told by their view."""

    touched_at = 0.0

    @work(thread=True, exclusive=True, group="read", exit_on_error=False, description="read the session")
    def read_session(self, info: SessionInfo) -> None:
        """Read a session; posts ``Read`` and ``Failed``."""
        worker = get_current_worker()
        read(info, self.post_message, lambda: worker.is_cancelled, lambda: time.monotonic() - self.touched_at < BUSY)

    @work(thread=True, exclusive=True, group="fires", exit_on_error=False, description="find where triggers fire")
    def find_fires(self, view: View) -> None:
        """Posts ``Fires``."""
        worker, policy, model = get_current_worker(), POLICIES[view.policy], view.model
        found, firing = [], False
        fired: list[RuntimeState] = []
        for number, state in enumerate(runtime_states(view.session, policy.phases)):
            if not number % 256:
                if worker.is_cancelled:
                    return
                time.sleep(0.001)  # the screen's turn
            now = policy.trigger(state, model).fires
            if now and not firing:
                found.append(state.at)
            if now:
                fired.append(state)
            firing = now
        self.post_message(Fires(view, found))
        if fired and len(view.session) <= MANY:
            acts = acting(view, fired, lambda: worker.is_cancelled)
            if acts is not None and acts != found[0]:
                self.post_message(Fires(view, found, acts))

    @work(thread=True, exclusive=True, group="sizes", exit_on_error=False, description="break the context down")
    def break_down(self, view: View) -> None:
        """Posts ``Measured``."""
        self.post_message(Measured(view, sizes_of(view, pause=0.001)))

    @work(thread=True, exclusive=True, group="curve", exit_on_error=False, description="plan for many values")
    def draw_curve(self, view: View, name: str, values: Sequence[Any]) -> None:
        """Posts ``Curve``."""
        worker = get_current_worker()
        after: list[int] = []
        for start in range(0, len(values), 4):
            if worker.is_cancelled:
                return
            after += view.curve(name, values[start : start + 4])
            time.sleep(0.001)  # the screen's turn
        self.post_message(Curve(view, name, values, after))

    @work(thread=True, exclusive=True, group="search", exit_on_error=False, description="search the session")
    def find_text(self, view: View, text: str, number: int) -> None:
        """Posts ``Found``."""
        worker = get_current_worker()
        search(view.session, text, number, self.post_message, lambda: worker.is_cancelled)

    @work(thread=True, exclusive=True, group="blocks", exit_on_error=False, description="read a large message")
    def read_blocks(self, reader: Reader, spot: Spot) -> None:
        """Posts ``Blocks``."""
        reader.blocks(spot.message)
        self.post_message(Blocks(reader, spot))
