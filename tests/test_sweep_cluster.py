"""A sweep on a Dask cluster: a scheduler and two workers, each a process, one of which is killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.test_sweep_command import COMMAND, written

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs distributed: pip install 'context-tui[dask]'")

GRID = ("-P", "defect-compact", "-p", "compact_ratio=0.2..0.8:0.1", "-p", "compact_soft_ratio=0.1,0.15")


class Cluster:
    """A scheduler with two workers."""

    def __init__(self, folder: Path) -> None:
        self.stack, self.file = ExitStack(), folder / "scheduler.json"
        self._begin("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show", "--no-dashboard")
        until = time.monotonic() + 30
        while not self.file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        worker = ("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        self.workers = [self._begin(*worker) for _ in range(2)]
        self.address: str = json.loads(self.file.read_text())["address"]

    def _begin(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", f"distributed.cli.{what}", *arguments, "--scheduler-file", str(self.file)]
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    with made.stack:
        yield made


def report(arguments: list[str], folder: Path) -> dict[str, Any]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_worker_that_is_killed_costs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(10):
        written(tmp_path / f"{number}", 40)
    out = tmp_path / "rows.jsonl"
    what = [*map(str, range(10)), *GRID, "--window", "30000", "--json"]
    argv = [*COMMAND, *what, "--scheduler", cluster.address, "-o", str(out)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    until = time.monotonic() + 60
    while time.monotonic() < until and (not out.exists() or out.stat().st_size < 1_000):
        time.sleep(0.01)
    cluster.workers[0].kill()
    assert len(out.read_text().splitlines()) < 1 + 8 * 15
    text, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    kept = out.read_text().splitlines()
    assert len(kept) == 1 + 10 * 15
    assert json.loads(text) == report([*what, "--jobs", "1"], tmp_path)
    assert cluster.workers[0].wait(10) == -9 and cluster.workers[1].poll() is None


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, 3)
    argv = [*COMMAND, str(path), *GRID, "--scheduler", "tcp://127.0.0.1:1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no Dask scheduler responds" in done.stderr
    assert "Traceback" not in done.stderr
