"""Sweeps over files: the sessions to sweep, and the tasks for local processes or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.errors import NoSessionFile, UnreadableSession, WorkStopped, describe_failure
from context_tui.formats import opening
from context_tui.formats.base import scan
from context_tui.lab.aftermath.measure import measure_aftermaths
from context_tui.lab.aftermath.report import ExtraCalls, SessionAftermath, estimate_extra_calls
from context_tui.lab.sweep.grids import SweepSetting, build_setting
from context_tui.lab.sweep.results import UnreadSession
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SweepOptions, sweep_session
from context_tui.policies.command.policy import PolicyCommand, read_command
from context_tui.policies.command.program import end_programs
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.toml import parse_policy
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import Checkpoint

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")


class SweepSource(NamedTuple):
    """A session to sweep: its name in rows, and its file's size and modification time (ns), which reveal changes."""

    name: str
    info: SessionInfo
    file_size: int
    modified_ns: int


class SweepTask(NamedTuple):
    """A task of a sweep: a session, and the numbers of the settings to replay along it."""

    source: SweepSource
    setting_numbers: Sequence[int]


class TaskResult(NamedTuple):
    """The rows of a session, or the reason why there are none."""

    source: SweepSource
    rows: Sequence[SweepRow]
    failure_reason: str = ""


class SweepWork(NamedTuple):
    """The settings and options of a sweep in a form that can be sent to other processes.

    A setting is a policy's name and its parameters. ``policy_files`` are the paths and texts of TOML policies, and
    ``commands`` the command lines of policies; each process starts its own programs.
    """

    settings: Sequence[tuple[str, dict[str, Any]]]
    options: SweepOptions
    policy_files: Sequence[tuple[str, str]] = ()
    commands: Sequence[PolicyCommand] = ()

    @classmethod
    def from_settings(
        cls, settings: Iterable[SweepSetting], options: SweepOptions, files: Sequence[Path | PolicyCommand] = ()
    ) -> SweepWork:
        """Build the work for these settings; *files* are the TOML files or the commands of their policies.

        Parameters that a setting does not set stay unset, so that the version that recorded a session decides them.
        """
        texts = [(str(path), path.read_text("utf-8-sig")) for path in files if isinstance(path, Path)]
        commands = [each for each in files if isinstance(each, PolicyCommand)]
        values = [(each.policy.name, each.params.model_dump(exclude_unset=True)) for each in settings]
        return cls(values, options, texts, commands)

    def build_settings(self) -> list[SweepSetting]:
        """Rebuild the settings in the process that receives the work, registering policies from TOML files."""
        for path, text in self.policy_files:
            policy = parse_policy(text, path, find_policy)
            if policy.name not in POLICIES:
                POLICIES.add(policy, policy.name, path)
        for command in self.commands:
            POLICIES.add(program := read_command(command), program.name, str(command))
        policies = {name: POLICIES[name] for name, _ in self.settings}
        return [build_setting(policies[name], policies[name].Params(**values)) for name, values in self.settings]


# Sources


class SourceListing(NamedTuple):
    """The sessions to sweep, the sessions that could not be read, and the number of other files in their folders."""

    sources: list[SweepSource]
    unread: list[UnreadSession]
    other_files: int


def find_sources(specs: Sequence[str | Path]) -> SourceListing:
    """Return the sessions in files, at ``PATH#ID`` and in folders (recursively), each only once.

    Files in a folder that belong to an agent but are not sessions are only counted.
    """
    sources: dict[str, SweepSource] = {}
    unread: list[UnreadSession] = []
    other_files: list[str] = []
    for spec in specs:
        try:
            path, _ = opening.split_spec(spec)
            is_folder = os.path.isdir(path)
            for info in _iter_folder_sessions(path, unread, other_files) if is_folder else opening.sessions_in(spec):
                status = os.stat(info.path)
                sources.setdefault(info.spec, SweepSource(info.spec, info, status.st_size, status.st_mtime_ns))
        except Exception as error:
            unread.append(UnreadSession(str(spec), _format_reason(error, str(spec))))
    return SourceListing(list(sources.values()), unread, len(other_files))


def _iter_folder_sessions(folder: Path, unread: list[UnreadSession], other_files: list[str]) -> Iterator[SessionInfo]:
    suffixes = opening.list_session_suffixes()

    def add_unread(error: OSError) -> None:
        unread.append(UnreadSession(str(error.filename), error.strerror or "cannot be read"))

    for current, folders, files in os.walk(folder, onerror=add_unread):
        folders.sort()
        try:
            folder_sessions = opening.list_folder_sessions(Path(current))
        except Exception as error:
            unread.append(UnreadSession(current, _format_reason(error, current)))
            continue
        yield from folder_sessions
        for name in () if folder_sessions else sorted(files):
            path = os.path.join(current, name)
            if name.endswith(suffixes) and os.path.isfile(path):
                try:
                    yield from opening.sessions_in(path)
                except NoSessionFile:
                    other_files.append(path)
                except Exception as error:
                    unread.append(UnreadSession(path, _format_reason(error, path)))


class Analysis(NamedTuple, Generic[T]):
    """The name, format and working folder of a session, with the result of a function for it."""

    name: str
    format: str
    folder: str
    value: T


def analyze_sessions(
    specs: Sequence[str | Path], analyze: Callable[[Session], T]
) -> tuple[list[Analysis[T]], list[UnreadSession]]:
    """Read all sessions in files, at ``PATH#ID`` and in folders; return the results of *analyze* and unread sessions.

    A session for which *analyze* fails counts as unread. Raises UnreadableSession if none can be read.
    """
    sources, unread, _ = find_sources(specs)
    results, failures = analyze_sources(sources, analyze)
    unread += failures
    if not results:
        reasons = "".join(f"; {each.session}: {each.why}" for each in unread[:1])
        raise UnreadableSession(
            f"there is no session to read{reasons}; `context-tui formats` lists the readable formats"
        )
    return results, unread


def analyze_sources(
    sources: Iterable[SweepSource], analyze: Callable[[Session], T]
) -> tuple[list[Analysis[T]], list[UnreadSession]]:
    """Return the results of *analyze* for the session of each source, and the sessions for which it fails."""
    results, unread = list[Analysis[T]](), list[UnreadSession]()
    for source in sources:
        try:
            session = _read_session(source)
            results.append(Analysis(source.name, session.info.format, session.info.cwd, analyze(session)))
        except Exception as error:  # a defect costs one session, not the listing
            unread.append(UnreadSession(source.name, _format_reason(error, source.name)))
    return results, unread


def measure_extra_calls(sources: Iterable[SweepSource]) -> ExtraCalls | None:
    """Estimate the extra calls after recorded compactions (None if unknown), leaving out sessions that fail."""
    analyses, _ = analyze_sources(sources, lambda each: (measure_aftermaths(each), find_recorded_compactions(each)))
    rows = [SessionAftermath(each.name, each.format, found) for each in analyses for found in each.value[0]]
    return estimate_extra_calls(rows, sum(len(each.value[1]) for each in analyses))


def _read_session(source: SweepSource) -> Session:
    """Read a session, whose working folder defaults to the folder of its file."""
    session = scan(opening.make_scanner(source.info))
    folder = session.info.cwd or source.info.cwd or os.path.dirname(os.path.abspath(source.info.path))
    return replace(session, info=replace(session.info, cwd=folder))


def _format_reason(error: Exception, name: str) -> str:
    return describe_failure(error).removeprefix(f"{name}: ")


# One session


def run_task(
    task: SweepTask, settings: Sequence[SweepSetting], options: SweepOptions, checkpoint: Checkpoint
) -> TaskResult:
    """Replay a task's settings along its session; if that fails, the result is the reason instead of rows."""
    source = task.source
    try:
        session = _read_session(source)
        task_settings = [settings[number] for number in task.setting_numbers]
        rows = sweep_session(session, task_settings, options, name=source.name, checkpoint=checkpoint)
        return TaskResult(source, list(rows))
    except WorkStopped:
        raise
    except Exception as error:  # a defect costs one session, not the sweep
        return TaskResult(source, [], _format_reason(error, source.info.path))


# On this machine

_worker_state: dict[str, Any] = {}
"""State of a worker process: its settings, and whether it is to stop."""


def _init_worker(work: SweepWork, stop: Any) -> None:
    """Initialize a worker process, which ignores interrupts and exits with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := multiprocessing.parent_process()) is not None:

        def exit_with_parent() -> None:
            parent.join()
            end_programs()
            os._exit(1)

        Thread(target=exit_with_parent, daemon=True).start()
    _worker_state.update(settings=work.build_settings(), how=work.options, stop=stop)


def _run_in_worker(task: SweepTask) -> TaskResult:
    def checkpoint() -> None:
        if _worker_state["stop"].value:
            raise WorkStopped

    return run_task(task, _worker_state["settings"], _worker_state["how"], checkpoint)


def run_on_processes(
    tasks: Sequence[SweepTask], work: SweepWork, jobs: int | None = None
) -> Generator[TaskResult, None, None]:
    """Run all tasks in worker processes, from the largest file to the smallest, and yield the results.

    At most *jobs* processes run at a time (default: one per core); a single job or task runs in this process. An
    interrupt, or closing the iterator, ends the processes. If a process dies, its session is reported and the rest go
    on.
    """
    queue = sorted(tasks, key=lambda task: -task.source.file_size)
    jobs = min(jobs or count_cores(), len(queue))
    if jobs <= 1:
        settings = work.build_settings()
        for task in queue:
            yield run_task(task, settings, work.options, lambda: None)
        return
    remaining = yield from _run_in_pool(queue, work, jobs)
    for task in remaining:  # a process died: running one at a time shows which task did it
        if (yield from _run_in_pool([task], work, 1)):
            yield TaskResult(task.source, [], "its worker process died, perhaps for lack of memory")


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_in_pool(
    tasks: Sequence[SweepTask], work: SweepWork, jobs: int
) -> Generator[TaskResult, None, list[SweepTask]]:
    context = multiprocessing.get_context("spawn")
    stop = context.RawValue("b", False)  # without a lock, which a process that dies could hold for ever
    remaining = {id(task): task for task in tasks}
    pool = ProcessPoolExecutor(jobs, context, _init_worker, (work, stop))
    try:
        for task, future in _submit_ahead(tasks, lambda task: _submit_to_pool(pool, task), 2 * jobs):
            result = future.result()
            del remaining[id(task)]
            yield result
    except BrokenProcessPool:
        pass
    finally:
        stop.value = True
        pool.shutdown(wait=True, cancel_futures=True)
    return list(remaining.values())


def _submit_to_pool(pool: ProcessPoolExecutor, task: SweepTask) -> Future[TaskResult]:
    """Submit a task while interrupts are blocked, so that a new worker process ignores them during its imports."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(_run_in_worker, task)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_run_in_worker, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _submit_ahead(
    tasks: Iterable[SweepTask], submit: Callable[[SweepTask], Future[TaskResult]], max_pending: int
) -> Iterator[tuple[SweepTask, Future[TaskResult]]]:
    """Yield tasks with their results as they finish; at most *max_pending* are submitted ahead, to limit memory."""
    queue = iter(tasks)
    pending = {submit(task): task for task in islice(queue, max_pending)}
    while pending:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            task = pending.pop(future)
            if (next_task := next(queue, None)) is not None:
                pending[submit(next_task)] = next_task
            yield task, future


# On a cluster


def run_on_cluster(client: Client, tasks: Sequence[SweepTask], work: SweepWork) -> Generator[TaskResult, None, None]:
    """Run all tasks on the workers of a Dask cluster, which must see the files at the same paths; yield the results.

    A task whose worker dies runs on another one. Closing the iterator cancels all unfinished tasks.
    """
    from distributed import as_completed

    shared_work = client.scatter(work, broadcast=True, hash=False)
    queue = []
    for task in sorted(tasks, key=lambda task: -task.source.file_size):
        info = replace(task.source.info, path=os.path.abspath(task.source.info.path))
        queue.append(task._replace(source=task.source._replace(info=info)))
    futures = {client.submit(_run_on_cluster_worker, task, shared_work, pure=False): task for task in queue}
    try:
        for future in as_completed(list(futures)):
            yield _get_cluster_result(future, futures[future])
            future.release()
    finally:
        with suppress(Exception):
            client.cancel([future for future in futures if not future.done()])


def _get_cluster_result(future: Any, task: SweepTask) -> TaskResult:
    try:
        result: TaskResult = future.result()
    except (Exception, CancelledError) as error:  # any error of its workers
        return TaskResult(task.source, [], f"failed on the cluster: {type(error).__name__}: {error}")
    return result


def _run_on_cluster_worker(task: SweepTask, work: SweepWork) -> TaskResult:
    return run_task(task, work.build_settings(), work.options, lambda: None)
