"""Sweeps over files: what there is to sweep, and the work on all cores of this machine or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from context_tui.errors import Error, UnreadableSession
from context_tui.formats.base import scan
from context_tui.formats.opening import scanner_for, session_suffixes, sessions_in, split_spec
from context_tui.lab.sweep.measure import How, measured
from context_tui.lab.sweep.results import Unread
from context_tui.lab.sweep.rows import Row
from context_tui.lab.sweep.settings import Setting, setting
from context_tui.policies.registry import POLICIES
from context_tui.policies.toml import policy_of
from context_tui.session.session import SessionInfo

if TYPE_CHECKING:
    from distributed import Client


class Place(NamedTuple):
    """A session to sweep: its name in rows, and the size and time (ns) of its file, by which a change is seen."""

    name: str
    info: SessionInfo
    bytes: int
    modified: int


class Task(NamedTuple):
    """A session, and the numbers of the settings that are wanted of it."""

    place: Place
    settings: Sequence[int]


class Done(NamedTuple):
    """The rows of a session; or ``why`` there are none."""

    place: Place
    rows: Sequence[Row]
    why: str = ""


@dataclass(frozen=True)
class Work:
    """What is done with every session, in a form that goes to other processes: policies by name, with parameters.

    ``files`` are the paths and texts of policies that were given as TOML.
    """

    settings: Sequence[tuple[str, dict[str, Any]]]
    how: How
    files: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, settings: Iterable[Setting], how: How, files: Sequence[Path] = ()) -> Work:
        """The work of these settings; *files* are those of policies that are TOML."""
        texts = [(str(path), path.read_text("utf-8-sig")) for path in files]
        return cls([(each.policy.name, each.params.model_dump()) for each in settings], how, texts)

    def made(self) -> list[Setting]:
        """The settings, in this process."""
        for path, text in self.files:
            policy = policy_of(text, path)
            if policy.name not in POLICIES:
                POLICIES.add(policy, policy.name, path)
        policies = {name: POLICIES[name] for name, _ in self.settings}
        return [setting(policies[name], policies[name].Params(**values)) for name, values in self.settings]


class Stopped(Exception):
    """The sweep was told to stop."""


# What there is


def places(specs: Sequence[str | Path]) -> tuple[list[Place], list[Unread]]:
    """The sessions of files, ``PATH#ID`` and folders with all that is in them, each once; and what cannot be read."""
    found: dict[str, Place] = {}
    unread: list[Unread] = []
    for spec in specs:
        try:
            path, _ = split_spec(spec)
            listed = _within(path, unread) if os.path.isdir(path) else sessions_in(spec)
            for info in listed:
                status = os.stat(info.path)
                name = f"{info.path}#{info.id}" if info.id else info.path
                found.setdefault(name, Place(name, info, status.st_size, status.st_mtime_ns))
        except (Error, OSError) as error:
            unread.append(Unread(str(spec), _why(error, str(spec))))
    return list(found.values()), unread


def _within(folder: Path, unread: list[Unread]) -> Iterator[SessionInfo]:
    """The sessions of all files in a folder and in those in it."""
    suffixes = session_suffixes()

    def closed(error: OSError) -> None:
        unread.append(Unread(str(error.filename), error.strerror or "it cannot be read"))

    for here, folders, files in os.walk(folder, onerror=closed):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(here, name)
            if name.endswith(suffixes) and os.path.isfile(path):
                try:
                    yield from sessions_in(path)
                except (Error, OSError) as error:
                    unread.append(Unread(path, _why(error, path)))


def _why(error: Exception, where: str) -> str:
    return str(error).removeprefix(f"{where}: ")


# One session


def work_on(task: Task, settings: Sequence[Setting], how: How, checkpoint: Callable[[], object]) -> Done:
    """All that is wanted of a session. One that cannot be read or replayed says so."""
    place = task.place
    try:
        session = scan(scanner_for(place.info))
        folder = session.info.cwd or place.info.cwd or os.path.dirname(os.path.abspath(place.info.path))
        session = replace(session, info=replace(session.info, cwd=folder))
        wanted = [settings[number] for number in task.settings]
        return Done(place, list(measured(session, wanted, how, name=place.name, checkpoint=checkpoint)))
    except (UnreadableSession, OSError) as error:
        return Done(place, [], _why(error, place.info.path))
    except Error as error:
        return Done(place, [], str(error))


# On this machine

_here: dict[str, Any] = {}
"""In a worker process: its settings, and whether it is to stop."""


def _begin(work: Work, stop: Any) -> None:
    """Begin a worker process. Interrupts are for the one that started it, and when that has gone, it goes too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        Thread(target=follow, daemon=True).start()
    _here.update(settings=work.made(), how=work.how, stop=stop)


def _in_worker(task: Task) -> Done:
    def checkpoint() -> None:
        if _here["stop"].is_set():
            raise Stopped

    return work_on(task, _here["settings"], _here["how"], checkpoint)


def on_processes(tasks: Sequence[Task], work: Work, jobs: int | None = None) -> Generator[Done, None, None]:
    """Do all tasks, the largest files first, in processes of their own; in this one for a single job or task.

    Closing the iterator, or an interrupt, ends them. A session on which a process ends is told, and the others go on.

    Args:
        jobs: processes at a time (default: one for each core).
    """
    waiting = sorted(tasks, key=lambda task: -task.place.bytes)
    jobs = min(jobs or cores(), len(waiting))
    if jobs <= 1:
        settings = work.made()
        for task in waiting:
            yield work_on(task, settings, work.how, lambda: None)
        return
    left = yield from _in_processes(waiting, work, jobs)
    for task in left:  # a process ended: one at a time tells on which
        if (yield from _in_processes([task], work, 1)):
            yield Done(task.place, [], "the process that read it ended; it may need more memory than there is")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(tasks: Sequence[Task], work: Work, jobs: int) -> Generator[Done, None, list[Task]]:
    """Do tasks in processes; returns those that are left when one of these ends."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    left = {id(task): task for task in tasks}
    pool = ProcessPoolExecutor(jobs, context, _begin, (work, stop))
    try:
        for task, future in _ahead(tasks, lambda task: pool.submit(_in_worker, task), 2 * jobs):
            done = future.result()
            del left[id(task)]
            yield done
    except BrokenProcessPool:
        pass
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return list(left.values())


def _ahead(
    tasks: Iterable[Task], submit: Callable[[Task], Future[Done]], most: int
) -> Iterator[tuple[Task, Future[Done]]]:
    """Tasks with their results as they are done; a few are submitted ahead, so that results do not pile up."""
    waiting = iter(tasks)
    going = {submit(task): task for task in islice(waiting, most)}
    while going:
        for future in wait(going, return_when=FIRST_COMPLETED).done:
            task = going.pop(future)
            following = next(waiting, None)
            if following is not None:
                going[submit(following)] = following
            yield task, future


# On a cluster


def on_cluster(client: Client, tasks: Sequence[Task], work: Work) -> Generator[Done, None, None]:
    """Do all tasks on the workers of a Dask cluster, which must see the files under the same paths.

    A task whose worker ends is done by another one. Closing the iterator cancels what is left.
    """
    from distributed import as_completed

    there = client.scatter(work, broadcast=True, hash=False)
    waiting = [_anywhere(task) for task in sorted(tasks, key=lambda task: -task.place.bytes)]
    futures = {client.submit(_in_cluster, task, there, pure=False): task for task in waiting}
    try:
        for future in as_completed(list(futures)):
            yield _of_cluster(future, futures[future])
            future.release()
    finally:
        with suppress(Exception):
            client.cancel([future for future in futures if not future.done()])


def _anywhere(task: Task) -> Task:
    """A task for a process with another current folder."""
    info = task.place.info
    return task._replace(place=task.place._replace(info=replace(info, path=os.path.abspath(info.path))))


def _of_cluster(future: Any, task: Task) -> Done:
    """The rows of a task that has come to its end on a cluster, or what went wrong with it there."""
    try:
        done: Done = future.result()
    except (Exception, CancelledError) as error:  # whatever its workers raise
        return Done(task.place, [], f"failed on the cluster: {type(error).__name__}: {error}")
    return done


def _in_cluster(task: Task, work: Work) -> Done:
    return work_on(task, work.made(), work.how, lambda: None)
