"""Queue that handles keys, pastes and mouse events strictly one after the other.

Textual passes a key to the focused widget, and looks up bindings only after the key has bubbled back to the
application. If two keys arrive together, the second would reach the old widget, even if the first moves the
focus or opens a dialog.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.errors import NoWidget
from textual.events import Key, MouseDown, MouseEvent, MouseMove, Paste
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

UserInput = Key | Paste | MouseEvent
KEY_TIMEOUT_S = 1.0
"""Seconds to wait until a key has been handled, and until a new screen has a focus.

The wait may be in vain, for example if the widget that received the key was removed.
"""
POLL_INTERVAL_S = 0.005
BARRIER_ROUNDS = 3
"""Rounds of a barrier: after the key, after the messages that it posted, and after the calls that these deferred."""


class KeyBarrier(Message):
    """A message sent after a key through the same widgets; its arrival at the application shows the key was handled."""

    def __init__(self, target: MessagePump, rounds: int) -> None:
        super().__init__()
        self.target, self.rounds = target, rounds


class KeyQueue:
    """A queue of user input, to which the application passes every ``UserInput`` and ``KeyBarrier``."""

    def __init__(self, app: App[None], handle: Callable[[UserInput], Awaitable[None]]) -> None:
        """Create a queue; *handle* passes an event on to Textual."""
        self._app, self._handle = app, handle
        self._waiting: deque[UserInput] = deque()
        self._timer: Timer | None = None  # runs while a key is being handled or a screen is being opened
        self._ready_screen: Screen[Any] | None = None  # screen that received the last key
        self._ready_deadline = 0.0
        self._last_press: MouseDown | None = None  # waits until the screen is drawn, with the effects of earlier keys

    async def enqueue(self, key: UserInput) -> None:
        """Handle an event as soon as all events before it have been handled."""
        if self._is_busy:
            self._waiting.append(key)
        elif not self._is_screen_ready():
            self._waiting.appendleft(key)
            self._timer = self._app.set_timer(POLL_INTERVAL_S, self._handle_waiting)
        elif isinstance(key, MouseMove):  # no other input depends on it
            await self._handle(key)
        elif isinstance(key, MouseDown) and key is not self._last_press:
            self._last_press = key
            self._waiting.appendleft(key)
            self._timer = self._app.set_timer(KEY_TIMEOUT_S, self._handle_waiting)
            self._app.screen.call_after_refresh(self._app.post_message, KeyBarrier(self._app, 1))
        else:
            self._timer = self._app.set_timer(KEY_TIMEOUT_S, self._handle_waiting)
            clicked = self._find_widget(key) if isinstance(key, MouseEvent) else None
            await self._handle(key)
            await self._post_barrier(clicked or self._app.focused or self._app.screen, BARRIER_ROUNDS)

    @property
    def _is_busy(self) -> bool:
        return self._timer is not None

    def _find_widget(self, mouse: MouseEvent) -> Widget | None:
        try:
            return self._app.mouse_captured or self._app.get_widget_at(*mouse.screen_offset)[0]
        except NoWidget:
            return None

    def _is_screen_ready(self) -> bool:
        """Return whether the top screen is mounted, and has a focused widget if any can be focused."""
        screen = self._app.screen
        if screen is self._ready_screen:
            return True
        now = time.monotonic()
        self._ready_deadline = self._ready_deadline or now + KEY_TIMEOUT_S
        is_ready = screen.is_mounted and (screen.focused is not None or not screen.focus_chain)
        if is_ready or now >= self._ready_deadline:
            self._ready_screen, self._ready_deadline = screen, 0.0
            return True
        return False

    async def handle_barrier(self, message: KeyBarrier) -> None:
        """Handle a barrier that has reached the application: post it for its next round, or handle the next event."""
        message.stop()
        if self._is_busy:
            await self._post_barrier(message.target, message.rounds - 1)

    async def _post_barrier(self, target: MessagePump, rounds: int) -> None:
        if not rounds or not target.is_running or not target.post_message(KeyBarrier(target, rounds)):
            await self._handle_waiting()

    async def _handle_waiting(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        while self._waiting and not self._is_busy and self._app.is_running:
            await self.enqueue(self._waiting.popleft())
