"""Threads that give the screen its turn, stop soon when cancelled, and hold up no exit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TypeVar
from weakref import WeakSet

from textual.dom import DOMNode
from textual.worker import Worker, WorkerState

WORK_SLICE_S, MAX_YIELD_S = 0.008, 0.05
"""Seconds of work, and at most of waiting for the screen to have its turn."""

Result = TypeVar("Result")


class Cancelled(Exception):
    """The work is not wanted any more."""


class ThreadJob:
    """Job in a thread: it knows whether it is still wanted, and lets the screen take its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pause: Callable[[], object]) -> None:
        self._loop, self._pause = loop, pause
        self.stop_event = Event()
        """Set when the work is not wanted any more."""
        self._slice_end = time.monotonic() + WORK_SLICE_S

    @property
    def is_cancelled(self) -> bool:
        """Whether the job is no longer wanted."""
        return self.stop_event.is_set()

    def cancel(self) -> None:
        """Have the work stop at its next checkpoint."""
        self.stop_event.set()

    def checkpoint(self) -> None:
        """Let the screen take its turn where that is due. Call it often: it checks the clock, not a count.

        Raises:
            Cancelled: the work is to stop.
        """
        if time.monotonic() >= self._slice_end:
            if self.is_cancelled:
                raise Cancelled
            self.yield_to_screen()
            self._slice_end = time.monotonic() + WORK_SLICE_S

    def yield_to_screen(self) -> None:
        """Wait until the event loop has gone round: two threads at once would make it take twice as long."""
        self._pause()
        turned = Event()
        with suppress(RuntimeError):  # the loop may be gone by now
            self._loop.call_soon_threadsafe(turned.set)
            turned.wait(MAX_YIELD_S)


_threads: WeakSet[Thread] = WeakSet()


def _skip_pause() -> None:
    """Skip the pause, for work that somebody waits for."""


async def run_in_thread(work: Callable[[ThreadJob], Result], pause: Callable[[], object] = _skip_pause) -> Result:
    """Do *work* in a thread that ends with the program: it would wait for those of an executor.

    Args:
        pause: called between two turns of the work; it may wait for something better to do it in.

    Raises:
        Exception: whatever the work raised.
    """
    loop = asyncio.get_running_loop()
    job = ThreadJob(loop, pause)
    done: asyncio.Future[Result] = loop.create_future()

    def finish(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work(job)
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop may be gone by now
            loop.call_soon_threadsafe(finish, result, error)

    thread = Thread(target=run, daemon=True)
    _threads.add(thread)
    thread.start()
    try:
        return await done
    finally:
        job.cancel()


def join_threads(seconds: float) -> None:
    """Wait for cancelled work to stop, at most so long: the interpreter ends more quietly without threads."""
    deadline = time.monotonic() + seconds
    for thread in list(_threads):
        thread.join(max(deadline - time.monotonic(), 0.0))


def format_worker_error(event: Worker.StateChanged) -> str:
    """Format an unforeseen error of a worker; empty for any other event of it."""
    if event.state is not WorkerState.ERROR:
        return ""
    return f"Could not {event.worker.description}: {type(event.worker.error).__name__}; please report it"


def start_work(
    node: DOMNode,
    group: str,
    description: str,
    work: Callable[[ThreadJob], None],
    pause: Callable[[], object] = _skip_pause,
) -> None:
    """Have *work* done in a thread, in place of what was started in this group of the node before."""

    async def run() -> None:
        await run_in_thread(work, pause)

    _: Worker[None] = node.run_worker(run, group=group, description=description, exclusive=True, exit_on_error=False)
