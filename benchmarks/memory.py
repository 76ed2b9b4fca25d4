"""The anonymous memory that a whole journey through a file adds, against the size of the file.

A journey opens the file, plans, replays a policy that fires at every call, and exports what is left. It runs in a
process of its own, and what an empty session takes is not counted. The floor is what the columns of the session and of
its written copy take, which are in memory together when an export is checked. It is printed and not the goal. A row
that is over also says what Python objects are held when the copy has been read.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import context_tui as ct
from benchmarks.generate import generate
from benchmarks.measures import MB, watched
from context_tui.export.files import export, list_writable_formats
from context_tui.formats.opening import open_session
from context_tui.lab.replay.walk import replay

SMALL_BYTES, SMALL_BUDGET = 1_200_000, 10
LARGE_BYTES, LARGE_BUDGET = 55_000_000, 0.2
"""Sizes of the measured files, and how many times that size a journey may take."""

Making = Callable[[int, Path], Path]


def journeys(makers: dict[str, Making]) -> Iterator[tuple[str, bool]]:
    """Yield a line of the table for each shape, and for a large session, and whether its budget holds."""
    for name, make in makers.items():
        with tempfile.TemporaryDirectory(prefix="context-tui-memory-") as folder:
            yield _measure(name, _fit(make, Path(folder)), SMALL_BUDGET)
    with tempfile.TemporaryDirectory(prefix="context-tui-memory-") as folder:
        path = Path(folder, "session.jsonl")
        generate(path, size=LARGE_BYTES)
        yield _measure("a large session", path, LARGE_BUDGET)


def _fit(make: Making, folder: Path) -> Path:
    """Make a file of about the size of small ones."""
    sizes = []
    for n in (100, 200):
        (at := folder / str(n)).mkdir()
        sizes.append(make(n, at).stat().st_size)
    (at := folder / "fitted").mkdir()
    return make(100 + round((SMALL_BYTES - sizes[0]) * 100 / (sizes[1] - sizes[0])), at)


def _measure(name: str, path: Path, budget: float) -> tuple[str, bool]:
    size = path.stat().st_size
    try:
        added = watched("journey", path).anonymous
    except ValueError as error:  # the process ended without a result
        return f"memory: {name:<50}   failed: {error}", False
    good = added <= budget * size
    columns = [each for each in vars(open_session(path).facts).values() if isinstance(each, array)]
    floor = 2 * sum(len(each) * each.itemsize for each in columns)
    text = f"memory: {name:<50}{size / MB:>8.1f} MB{added / MB:>8.1f} MB{added / size:>8.1f} ×"
    line = f"{text}  floor {floor / size:>4.1f}  budget {budget:g}  {'ok' if good else 'over'}"
    return (line if good else f"{line}: {_describe_held(path)}"), good


def _describe_held(path: Path) -> str:
    """What Python objects are in memory together when a written copy is checked, against the size of the file."""
    list(_hold(path))  # what it imports is there
    tracemalloc.start()
    held = [0, *_hold(path)]
    tracemalloc.stop()
    parts = [(after - before) / path.stat().st_size for before, after in pairwise(held)]
    return f"session {parts[0]:.2f} + replay {parts[1]:.2f} + copy {parts[2]:.2f} are held at once"


def _hold(path: Path) -> Iterator[int]:
    session = open_session(path)
    yield _count_traced()
    kept: object = replay(session, "openhands-masking")
    yield _count_traced()
    format_name = session.info.format if session.info.format in list_writable_formats() else "agent-sdk"
    out = path.with_name("copy")
    export(ct.apply(session, ct.plan(session, "openhands-masking", force=True)), out, format_name, force=True)
    kept = [kept, open_session(out)]
    yield _count_traced()


def _count_traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
