"""A plug-in of pytest that notes which test runs which line, or runs tests on mutants.

The environment names the file of the task. A mutant inside a function takes a fork of the process that has collected
the tests, with the code of the function replaced; another one is written to its file, for a process that imports it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from hypothesis import Phase, settings

TASK: dict[str, Any] = json.loads(Path(os.environ["MUTANTS_TASK"]).read_text("utf-8"))
CPU_SECONDS, MEMORY, WALL_SECONDS = 5, 6 << 30, 300
"""Limits of a test on a mutant, beside five times what it takes: one that loops is noticed."""
NOT_STARTED = "(not started)"

_seconds: dict[str, float] = {}
_failures: set[str] = set()
if TASK["mode"] == "map":
    _coverage = coverage.Coverage(data_file=TASK["data"], include=[f"{path}/*" for path in TASK["folders"]])
    _coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
        """Attribute what is run to the test."""
        _coverage.switch_context(item.nodeid)
        start = time.process_time()
        try:
            return (yield)
        finally:
            _seconds[item.nodeid] = time.process_time() - start
            _coverage.switch_context("")

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        """Note tests that fail without a mutation."""
        if report.failed:
            _failures.add(report.nodeid)

    def pytest_sessionfinish() -> None:
        """Write the map and the times."""
        _coverage.stop()
        _coverage.save()
        seconds = {node: value for node, value in _seconds.items() if node not in _failures}
        Path(TASK["seconds"]).write_text(json.dumps(seconds), "utf-8")

else:

    def pytest_configure() -> None:
        """A failure is enough: examples are not made smaller."""
        settings.register_profile("mutants", deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    def pytest_runtestloop(session: pytest.Session) -> bool:
        """Run the tests of each mutant, and of each verdict the test that made it once more without a mutation."""
        items = {item.nodeid: item for item in session.items}
        with open(TASK["results"], "w", encoding="utf-8") as results:
            for mutant in TASK["mutants"]:
                start = time.monotonic()
                killer = _judge(session, items, mutant)
                while killer is not None and killer in items and _is_broken(session, items[killer]):
                    mutant["tests"].remove(killer)  # it fails in a fork: its verdict says nothing
                    killer = _judge(session, items, mutant)
                result = {"number": mutant["number"], "killer": killer, "seconds": time.monotonic() - start}
                print(json.dumps(result), file=results, flush=True)
        return True


def _judge(session: pytest.Session, items: dict[str, pytest.Item], mutant: dict[str, Any]) -> str | None:
    """Return the test that notices the mutant, or None.

    A mutant that is run by imports, too, is not imported anew in a fork: if that notices nothing, a process does it.
    """
    tests = [items[node] for node in mutant["tests"] if node in items]
    killer = _run_in_fork(session, tests, lambda: _replace_code(mutant["path"], mutant["text"])) if tests else None
    if killer == NOT_STARTED or (killer is None and mutant["process_tests"]):
        return _run_in_process(mutant)
    return killer


_broken: dict[str, bool] = {}


def _is_broken(session: pytest.Session, item: pytest.Item) -> bool:
    if item.nodeid not in _broken:
        _broken[item.nodeid] = _run_in_fork(session, [item], lambda: None) is not None
    return _broken[item.nodeid]


def _run_in_fork(session: pytest.Session, items: list[pytest.Item], prepare: Callable[[], None]) -> str | None:
    """Run tests until one fails, in a process of its own; return that one."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            prepare()
            for item, following in zip(items, [*items[1:], None], strict=True):
                os.write(writing, f"{item.nodeid}\n".encode())
                limit = int(time.process_time() + CPU_SECONDS + 5 * TASK["times"].get(item.nodeid, 1))
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os._exit(1)
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(writing)
    status = _wait(child)
    with open(reading, encoding="utf-8") as pipe:
        started = pipe.read().splitlines()
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return None if status == 0 else started[-1] if started else NOT_STARTED


def _wait(child: int) -> int:
    end = time.monotonic() + WALL_SECONDS
    while time.monotonic() < end:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _run_in_process(mutant: dict[str, Any]) -> str | None:
    """Run tests with the mutation in the file."""
    path = Path(mutant["path"])
    text = path.read_text("utf-8")
    arguments = path.with_name("arguments.txt")
    arguments.write_text("\n".join(mutant["process_tests"] or mutant["tests"]), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{arguments}"]
    try:
        path.write_text(mutant["text"], "utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_PLUGINS"}
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=WALL_SECONDS, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return "(time limit)"
    finally:
        path.write_text(text, "utf-8")
        arguments.unlink()
    if run.returncode in (0, 5):
        return None
    failures = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0] if failures else "(import)"


def _replace_code(path: str, text: str) -> None:
    """Give every function of the module the code that it has in *text*, and forget what was cached before."""
    importlib.import_module(str(Path(path).relative_to(Path.cwd()).with_suffix("")).replace("/", "."))
    mutations = {(code.co_qualname, code.co_firstlineno): code for code in _walk(compile(text, path, "exec"))}
    count = 0
    for function in gc.get_objects():
        if isinstance(function, _lru_cache_wrapper):
            function.cache_clear()
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            code = mutations.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None:
                function.__code__ = code
                count += 1
    assert count, f"no function of {path}"


def _walk(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant)
