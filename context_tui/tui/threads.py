"""Threads that yield to the screen, stop soon when they are cancelled, and do not delay the exit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Thread
from typing import TypeVar
from weakref import WeakSet

from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from context_tui.errors import WorkStopped
from context_tui.tui.saving import notify_briefly

WORK_SLICE_S, MAX_YIELD_S = 0.008, 0.05
"""Seconds of work between two yields to the screen, and the longest duration of a yield."""

Result = TypeVar("Result")


class Cancelled(WorkStopped):
    """Raised from ``ThreadJob.checkpoint`` once the work has been cancelled."""


class ThreadJob:
    """Handle through which work in a thread yields to the screen and learns that it was cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pause: Callable[[], object]) -> None:
        self._loop, self._pause = loop, pause
        self.stop_event = Event()
        self._slice_end = time.monotonic() + WORK_SLICE_S

    @property
    def is_cancelled(self) -> bool:
        """Whether the work has been cancelled."""
        return self.stop_event.is_set()

    def checkpoint(self) -> None:
        """Yield to the screen when a time slice ends, or raise Cancelled if the work was cancelled; call this often."""
        if time.monotonic() >= self._slice_end:
            if self.is_cancelled:
                raise Cancelled
            self.yield_to_screen()
            self._slice_end = time.monotonic() + WORK_SLICE_S

    def yield_to_screen(self) -> None:
        """Pause, then wait for one turn of the event loop, so that this thread does not slow down the screen."""
        self._pause()
        has_turned = Event()
        with suppress(RuntimeError):  # the loop may be closed
            self._loop.call_soon_threadsafe(has_turned.set)
            has_turned.wait(MAX_YIELD_S)


_threads: WeakSet[Thread] = WeakSet()


async def run_in_thread(work: Callable[[ThreadJob], Result], pause: Callable[[], object] = lambda: None) -> Result:
    """Run *work* in a daemon thread, which does not delay the exit; *pause* is called after each slice of work."""
    job = ThreadJob(asyncio.get_running_loop(), pause)
    future = Future[Result]()
    future.set_running_or_notify_cancel()  # so that it cannot be cancelled

    def run() -> None:
        try:
            future.set_result(work(job))
        except Exception as error:
            future.set_exception(error)

    thread = Thread(target=run, daemon=True)
    _threads.add(thread)
    thread.start()
    try:
        return await asyncio.wrap_future(future)
    finally:
        job.stop_event.set()


def join_threads(seconds: float) -> None:
    """Wait up to *seconds* for all threads to end, because a thread that still runs at exit may print errors."""
    deadline = time.monotonic() + seconds
    for thread in list(_threads):
        thread.join(max(deadline - time.monotonic(), 0.0))


class WorkErrorHandler:
    """Mixin for a screen that shows unexpected errors from its workers instead of letting them end the program."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            error = type(event.worker.error).__name__
            self.show_work_error(f"Could not {event.worker.description}: {error}; please report it", event.worker.group)

    def show_work_error(self, message: str, group: str) -> None:
        """Show *message*, by default in a notification, after an error has ended the work of worker group *group*."""
        assert isinstance(self, Screen)
        notify_briefly(self, message, warn=True)


def start_work(
    node: DOMNode,
    group: str,
    description: str,
    work: Callable[[ThreadJob], Result],
    show: Callable[[Result], object] = lambda result: None,
    pause: Callable[[], object] = lambda: None,
) -> None:
    """Start *work* in a thread as a worker of *node*, and later call *show* with its result.

    The node's earlier work in the same group is cancelled, and its result is not shown.
    """

    async def run() -> None:
        node.call_later(show, await run_in_thread(work, pause))

    _: Worker[None] = node.run_worker(run, group=group, description=description, exclusive=True, exit_on_error=False)
