"""The anonymous memory that a whole journey through a file adds, against the size of the file.

A journey opens the file, plans, replays a policy that fires at every call, and exports what is left. It runs in a
process of its own, and what an empty session takes is not counted. The floor is what the columns of the session and of
its written copy take, which are in memory together when an export is checked. It is printed and not the goal.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.generate import generate
from benchmarks.measures import MB, watched
from context_tui.formats.opening import open_session

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
    return f"{text}  floor {floor / size:>4.1f}  budget {budget:g}  {'ok' if good else 'over'}", good
