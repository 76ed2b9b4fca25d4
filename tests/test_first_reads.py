"""Several threads read sessions for the first time in a process at once, as the picker does."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.app.plugins import Plugins

SAMPLES = Path(__file__).parents[1] / "sample_sessions"
PROCESSES = 12
"""Where two threads made the same decoder, about every third ended with SIGSEGV."""
AT_ONCE = """
import os, random, sys, threading
import context_tui as ct  # no format is imported by these
from context_tui.formats.registry import FORMATS
sys.setswitchinterval(1e-6)

def all_at_once(works):
    ready, found = threading.Barrier(len(works)), []
    def run(work):
        ready.wait()
        found.append(work())
    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return len(found) == len(works) and len(set(found)) == 1 and found[0] > 0

def in_processes(many, works_of):
    for number in range(many):
        child = os.fork()
        if not child:
            os._exit(0 if all_at_once(works_of(number)) else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            sys.exit(f"process {number} ended with {status}")
"""
READ = "in_processes(int(sys.argv[1]), lambda number: [lambda: len(ct.open_session(sys.argv[2]))] * 4)"
IMPORT = """
def in_an_order_of_its_own(seed):
    names = list(FORMATS.built_in)
    random.Random(seed).shuffle(names)
    return lambda: len([FORMATS[name] for name in names])

in_processes(int(sys.argv[1]), lambda number: [in_an_order_of_its_own(4 * number + each) for each in range(4)])
"""


def run(script: str, *arguments: object) -> None:
    """Run a script in a process of its own, which must do what it is for."""
    command = [sys.executable, "-c", AT_ONCE + script, *map(str, arguments)]
    done = subprocess.run(command, cwd=SAMPLES.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def samples() -> list[Any]:
    """Each by its name; one of them in every run."""
    names = sorted(path.name for path in SAMPLES.iterdir() if path.suffix != ".md")
    return [pytest.param(name, marks=() if name.startswith("coding") else pytest.mark.slow) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", samples())
def test_threads_that_read_for_the_first_time_do_not_get_into_each_others_way(name: str) -> None:
    listed = ct.sessions_in(path := SAMPLES / name)
    spec = f"{path}#{listed[0].id}" if len(listed) > 1 else str(path)
    run(READ, PROCESSES, spec)


@pytest.mark.slow
def test_threads_that_import_formats_at_once_do_not_get_into_each_others_way() -> None:
    run(IMPORT, 8 * PROCESSES)


def test_one_thread_imports_at_a_time_and_each_is_made_once() -> None:
    at_it, most, made = 0, 0, list[str]()

    def make(name: str) -> str:
        nonlocal at_it, most
        at_it += 1
        made.append(name)
        most = max(most, at_it)
        time.sleep(0.02)
        at_it -= 1
        return name

    names = ["a", "b", "c", "d"]
    plugins: Plugins[str] = Plugins("thing", "context_tui.things", dict.fromkeys(names, make), lambda name, made: "")
    with ThreadPoolExecutor(2 * len(names)) as pool:
        assert list(pool.map(plugins.__getitem__, names * 2)) == names * 2
    assert most == 1 and sorted(made) == names
