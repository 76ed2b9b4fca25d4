"""Several threads read sessions for the first time in a process at once, as the picker does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct

SAMPLES = Path(__file__).parents[1] / "sample_sessions"
PROCESSES = 12
"""Where two threads made the same decoder, about every third ended with SIGSEGV."""
READ = """
import os, sys, threading
import context_tui as ct  # no format is imported by this
sys.setswitchinterval(1e-6)
spec, processes = sys.argv[1], int(sys.argv[2])

def read_at_once():
    ready, found = threading.Barrier(4), []
    def read():
        ready.wait()
        found.append(len(ct.open_session(spec)))
    threads = [threading.Thread(target=read) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return len(found) == 4 and len(set(found)) == 1 and found[0] > 0

for _ in range(processes):
    child = os.fork()
    if not child:
        os._exit(0 if read_at_once() else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        sys.exit(f"a process ended with {status}")
"""


def samples() -> list[Any]:
    """Each by its name; one of them in every run."""
    names = sorted(path.name for path in SAMPLES.iterdir() if path.suffix != ".md")
    return [pytest.param(name, marks=() if name.startswith("coding") else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", samples())
def test_threads_that_read_for_the_first_time_do_not_get_into_each_others_way(name: str) -> None:
    listed = ct.sessions_in(path := SAMPLES / name)
    spec = f"{path}#{listed[0].id}" if len(listed) > 1 else str(path)
    ran = subprocess.run(
        [sys.executable, "-c", READ, spec, str(PROCESSES)],
        cwd=SAMPLES.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
