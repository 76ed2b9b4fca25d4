"""Work in threads: it stops when cancelled, and the end of the program does not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from textual.screen import Screen

from context_tui.policies.registry import POLICIES
from context_tui.policies.triggers import firing_runs
from context_tui.tui.computed import Computed, first_change
from context_tui.tui.context_sizes import context_sizes_of
from context_tui.tui.rows import Rows
from context_tui.tui.runtime_sizes import runtime_sizes_of
from context_tui.tui.search import Found, search
from context_tui.tui.threads import Cancelled, Job, run_in_thread
from context_tui.tui.view import View
from context_tui.tui.workers import BUSY, GIVE_WAY, STAND_BACK, InspectorWorkers
from tests.tui.inspecting import session


def test_cancelled_work_stops_at_its_next_checkpoint_however_cheap_its_steps() -> None:
    steps, ended = threading.Event(), threading.Event()

    def work(job: Job) -> None:
        try:
            while True:
                steps.set()
                job.checkpoint()
        finally:
            ended.set()

    async def cancel_it() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.to_thread(steps.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    assert ended.wait(20)


def test_the_end_does_not_wait_for_work_that_cannot_be_stopped() -> None:
    stuck, free = threading.Event(), threading.Event()

    def work(job: Job) -> None:
        stuck.set()
        free.wait()

    async def leave() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.to_thread(stuck.wait)
        task.cancel()

    asyncio.run(leave())  # with an executor's thread this would not return
    assert not free.is_set()
    free.set()


async def test_work_rests_until_the_screen_has_had_its_turn() -> None:
    turns: list[str] = []

    def work(job: Job) -> None:
        job.rest()
        turns.append("work")

    working = asyncio.create_task(run_in_thread(work))
    await asyncio.sleep(0)  # it has begun, and waits for the loop
    turns.append("screen")
    await working
    assert turns == ["screen", "work"]


async def test_work_that_nobody_waits_for_pauses_while_something_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("context_tui.tui.workers.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    pauses = list[Callable[[], object]]()
    monkeypatch.setattr("context_tui.tui.workers.start_work", lambda *given: pauses.append(given[-1]))
    computed = InspectorWorkers(Screen(), Computed())
    computed.find_runtime_sizes(VIEW.session)
    computed.find_runtime_sizes(VIEW.session)  # it has begun
    computed.find_sizes(VIEW, Rows())
    computed.find_sizes(VIEW.with_policy("manual"), Rows())  # of the same context
    assert len(pauses) == 2
    aside, waited_for = pauses
    aside()
    assert not slept
    computed.touched_at = now[0]
    waited_for()
    assert not slept
    aside()
    assert BUSY <= sum(slept) <= BUSY + GIVE_WAY, "until nothing was pressed for a while"
    slept.clear()
    computed.touched_at = now[0] + 1_000  # a key is held
    aside()
    assert STAND_BACK <= sum(slept) <= STAND_BACK + GIVE_WAY, "and then goes on all the same"


async def test_results_and_errors_come_back() -> None:
    assert await run_in_thread(lambda job: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda job: 1 // 0)


def stop() -> None:
    """A checkpoint of cancelled work."""
    raise Cancelled


POSTED: list[Found] = []
VIEW = View(session())
FIRED = firing_runs(session(usage=False).with_window(4_000), POLICIES[VIEW.policy], VIEW.model)[0]


def counted(work: Callable[[Callable[[], object]], object]) -> int:
    """How often some work calls its checkpoint."""
    calls: list[None] = []
    work(lambda: calls.append(None))
    return len(calls)


def test_checkpoints_come_with_every_message_also_of_a_policy_whose_runtime_never_looks() -> None:
    manual = VIEW.with_policy("manual")
    assert counted(lambda each: firing_runs(VIEW.session, POLICIES["manual"], manual.model, each)) > len(VIEW.session)
    assert counted(lambda each: context_sizes_of(VIEW, each)) >= len(VIEW.session)
    assert counted(lambda each: search(VIEW.session, "auth", 1, lambda found: None, each)) == len(VIEW.session)


@pytest.mark.parametrize(
    "work",
    [
        lambda: search(VIEW.session, "auth", 1, POSTED.append, stop),
        lambda: firing_runs(VIEW.session, POLICIES[VIEW.policy], VIEW.model, stop),
        lambda: first_change(VIEW, FIRED, stop),
        lambda: runtime_sizes_of(VIEW.session, stop),
        lambda: context_sizes_of(VIEW, stop),
    ],
    ids=["search", "fires", "first change", "runtime sizes", "context sizes"],
)
def test_everything_that_is_computed_in_a_thread_looks_whether_it_is_wanted(work: Callable[[], object]) -> None:
    with pytest.raises(Cancelled):
        work()
    assert not POSTED
