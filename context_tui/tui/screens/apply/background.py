"""Work beside the screen that must not hold up the way out."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


async def in_background(work: Callable[[], Result]) -> Result:
    """Do *work* in a thread that dies with the program: executors make a program wait for theirs when it ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop may be gone by now
            loop.call_soon_threadsafe(tell, result, error)

    Thread(target=run, daemon=True).start()
    try:
        return await done
    except sqlite3.ProgrammingError:  # a database can be read only from where it was opened
        return work()
