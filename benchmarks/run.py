"""Print every budget beside what was measured.

    python -m benchmarks.run             all of them and the growth table, about ten minutes
    python -m benchmarks.run scan keys   some of them

Exits with 1 where a budget is exceeded or could not be measured.
"""

from __future__ import annotations

import argparse

from benchmarks import growth
from benchmarks.finding import finding
from benchmarks.following import following
from benchmarks.measures import MEASURES as SCREENS
from benchmarks.measures import Row
from benchmarks.sweeps import asking, replaying, sweeping

MEASURES = {
    **SCREENS,
    "picker": finding,
    "following": following,
    "replays": replaying,
    "programs": asking,
    "sweeps": sweeping,
}


def line(row: Row) -> str:
    """A row of the table."""
    return f"{row.name:<32}{row.value:>9.2f}{row.budget:>9g}  {row.unit:<9} {row.verdict:<6}{row.detail}".rstrip()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure the budgets.")
    parser.add_argument("measure", nargs="*", help=f"one or more of: {', '.join(MEASURES)}")
    names = parser.parse_args().measure
    measures = names or list(MEASURES)
    if unknown := set(measures) - set(MEASURES):
        parser.error(f"unknown measure {', '.join(sorted(unknown))}; available: {', '.join(MEASURES)}")
    print(f"{'':<32}{'measured':>9}{'budget':>9}")
    good = True
    for name in measures:
        try:
            rows = MEASURES[name]()
        except Exception as error:  # one that fails says so, and the others still run
            print(f"{name:<32} failed: {error}", flush=True)
            good = False
            continue
        print(*map(line, rows), sep="\n", flush=True)
        good = good and all(row.verdict != "over" for row in rows)
    if not names:
        good = growth.table() and good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
