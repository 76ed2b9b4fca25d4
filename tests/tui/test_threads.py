"""Work in threads: it stops when cancelled, and the end of the program does not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from textual.screen import Screen

from context_tui.policies.registry import POLICIES
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.session import SessionInfo
from context_tui.tui.analysis import AnalysisCache, compute_context_sizes, compute_runtime_sizes, find_first_effect
from context_tui.tui.inspector.workers import INPUT_QUIET_S, LONG_PAUSE_S, SHORT_PAUSE_S, InspectorWorkers
from context_tui.tui.search import SearchReport, search_session
from context_tui.tui.threads import Cancelled, ThreadJob, run_in_thread
from context_tui.tui.timeline.rows import TimelineRows
from context_tui.tui.view import View
from tests.tui.inspecting import session


def test_cancelled_work_stops_at_its_next_checkpoint_however_cheap_its_steps() -> None:
    steps, ended = threading.Event(), threading.Event()

    def work(job: ThreadJob) -> None:
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

    def work(job: ThreadJob) -> None:
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

    def work(job: ThreadJob) -> None:
        job.yield_to_screen()
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

    monkeypatch.setattr(
        "context_tui.tui.inspector.workers.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    )
    pauses = list[Callable[[], object]]()

    def start(*_: object, pause: Callable[[], object] = lambda: None) -> None:
        pauses.append(pause)

    monkeypatch.setattr("context_tui.tui.inspector.workers.start_work", start)
    computed = InspectorWorkers(Screen(), AnalysisCache(), lambda view, error: None)
    computed.compute_runtime_sizes(VIEW.session, bool)
    computed.compute_runtime_sizes(VIEW.session, bool)  # it has begun
    computed.compute_context_sizes(VIEW, TimelineRows(), bool)
    computed.compute_context_sizes(VIEW.with_policy("manual"), TimelineRows(), bool)  # of the same context
    assert len(pauses) == 2
    aside, waited_for = pauses
    aside()
    assert not slept
    computed.last_input_at = now[0]
    waited_for()
    assert not slept
    aside()
    assert INPUT_QUIET_S <= sum(slept) <= INPUT_QUIET_S + SHORT_PAUSE_S, "until nothing was pressed for a while"
    slept.clear()
    computed.last_input_at = now[0] + 1_000  # a key is held
    aside()
    assert LONG_PAUSE_S <= sum(slept) <= LONG_PAUSE_S + SHORT_PAUSE_S, "and then goes on all the same"


async def test_results_and_errors_come_back() -> None:
    assert await run_in_thread(lambda job: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda job: 1 // 0)


def stop() -> None:
    """A checkpoint of cancelled work."""
    raise Cancelled


POSTED: list[SearchReport] = []
VIEW = View(session())
FIRED = find_firing_runs(session(usage=False).with_window(4_000), POLICIES[VIEW.policy], VIEW.policy_params)[0]


def counted(work: Callable[[Callable[[], object]], object]) -> int:
    """How often some work calls its checkpoint."""
    calls: list[None] = []
    work(lambda: calls.append(None))
    return len(calls)


def test_checkpoints_come_with_every_message_also_of_a_policy_whose_runtime_never_looks() -> None:
    manual = VIEW.with_policy("manual")
    assert counted(lambda each: find_firing_runs(VIEW.session, POLICIES["manual"], manual.policy_params, each)) > len(
        VIEW.session
    )
    assert counted(lambda each: compute_context_sizes(VIEW, each)) >= len(VIEW.session)
    assert counted(lambda each: search_session(VIEW.session, "auth", 1, lambda found: None, each)) == len(VIEW.session)


@pytest.mark.parametrize(
    "work",
    [
        lambda: search_session(VIEW.session, "auth", 1, POSTED.append, stop),
        lambda: find_firing_runs(VIEW.session, POLICIES[VIEW.policy], VIEW.policy_params, stop),
        lambda: find_first_effect(VIEW, FIRED, stop),
        lambda: compute_runtime_sizes(replace(VIEW.session, info=SessionInfo("", "defect")), stop),
        lambda: compute_context_sizes(VIEW, stop),
    ],
    ids=["search", "fires", "first change", "runtime sizes", "context sizes"],
)
def test_everything_that_is_computed_in_a_thread_looks_whether_it_is_wanted(work: Callable[[], object]) -> None:
    with pytest.raises(Cancelled):
        work()
    assert not POSTED
