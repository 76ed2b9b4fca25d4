"""The recorded context of every request as one line of blocks: epochs apart, the peak kept, the point marked.

Pure. A column shows one request or a stretch of them: of its largest and smallest value the one that is further from
the column before, so that peaks and the dips after a compaction both survive any width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from context_tui.session.session import Session
from context_tui.tui.widgets.draw import HUE, LEVELS, MUTED, WARN, Run

TICKS = (60, 70, 85)
"""Per cent of the window at which runtimes act."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recorded tokens of each request, the message it ended at, and the first request of each later epoch."""

    tokens: Sequence[int]
    messages: Sequence[int]
    epochs: Sequence[int] = ()

    @cached_property
    def peak(self) -> int:
        """The request with the largest context, or -1."""
        return max(range(len(self.tokens)), key=self.tokens.__getitem__, default=-1)


@lru_cache(maxsize=4)
def first_at(recorded: Recorded, window: int) -> dict[int, int | None]:
    """For each tick, the message at which a request first had that part of the window."""
    most = recorded.tokens[recorded.peak] if recorded.tokens else 0
    found: dict[int, int | None] = {}
    for tick in TICKS:
        limit = window * tick / 100
        rows = (row for row, tokens in enumerate(recorded.tokens) if tokens >= limit) if most >= limit else iter(())
        row = next(rows, None)
        found[tick] = None if row is None else recorded.messages[row]
    return found


def recorded_of(session: Session) -> Recorded:
    """What a session's file recorded, up to the session's length."""
    facts = session.facts
    end = bisect_left(facts.request_message, session.length)
    messages = facts.request_message[:end]
    starts = (bisect_left(messages, each.message) for each in facts.compactions if each.kind == "full")
    epochs = sorted({start for start in starts if 0 < start < end})
    return Recorded([usage.context for usage in facts.requests[:end]], messages, epochs)


@dataclass(frozen=True)
class Column:
    """Requests ``first`` to ``end`` (not included), and the value that stands for them."""

    first: int
    end: int
    tokens: int


@lru_cache(maxsize=8)
def columns(recorded: Recorded, width: int) -> list[Column | None]:
    """At most *width* columns in order; None between two epochs, as long as these leave most of the width."""
    count = len(recorded.tokens)
    if not count or width < 1:
        return []
    epochs = list(recorded.epochs) if len(recorded.epochs) <= width // 4 else []
    edges = [0, *epochs, count]
    room = width - len(epochs)
    found: list[Column | None] = []
    peak, before = recorded.peak, 0
    for number, (first, end) in enumerate(pairwise(edges)):
        if number:
            found.append(None)
        # Each epoch gets its share of the room, by where it starts and ends.
        share = end - first if count <= room else max(1, end * room // count - first * room // count)
        share = min(share, end - first, width - len(found))
        for index in range(share):
            low, high = first + (end - first) * index // share, first + (end - first) * (index + 1) // share
            values = recorded.tokens[low:high]
            top, bottom = max(values), min(values)
            before = top if low <= peak < high or top - before >= before - bottom else bottom
            found.append(Column(low, high, before))
    return found


def line(recorded: Recorded, width: int, window: int, at: int) -> list[Run]:
    """The line in at most *width* cells, as of message *at*; requests after the point are muted, behind a mark."""
    point = bisect_left(recorded.messages, at)
    ends = point >= len(recorded.messages)
    found = columns(recorded, width if ends else width - 1)
    top = (recorded.tokens[recorded.peak] if recorded.tokens else 0) or 1
    runs: list[Run] = []
    marked = ends
    for column in found:
        if not marked and column is not None and column.end > point:
            runs.append(("◆", f"bold {WARN}"))
            marked = True
        if column is None:
            runs.append(("│", MUTED))
            continue
        style = MUTED if column.first >= point else WARN if column.tokens * 100 >= window * TICKS[0] else HUE
        runs.append((LEVELS[min(7, column.tokens * 8 // top)], style))
    return runs


def request_at(recorded: Recorded, width: int, at: int, cell: int) -> int | None:
    """The message of the largest request under a cell of the line."""
    point = bisect_left(recorded.messages, at)
    ends = point >= len(recorded.messages)
    place = 0
    marked = ends
    for column in columns(recorded, width if ends else width - 1):
        if not marked and column is not None and column.end > point:
            place, marked = place + 1, True
        if place == cell and column is not None:
            return recorded.messages[max(range(column.first, column.end), key=recorded.tokens.__getitem__)]
        place += 1
    return None


def legend(recorded: Recorded, window: int, level: int) -> list[Run]:
    """What stands beside the line, shorter with each *level* from 0 to 3."""
    if not recorded.tokens:
        return [
            (("no usage recorded: sizes are estimates", "no usage recorded", "none recorded")[min(level, 2)], MUTED)
        ]
    peak = recorded.peak
    most: list[Run] = [
        ("peak ", MUTED),
        (f"{recorded.tokens[peak]:,}", ""),
        (f" at {recorded.messages[peak]:,}", MUTED),
    ]
    if level == 3:
        return [*most[:2], (" recorded", MUTED)]
    if level == 2:
        return [*most, (" recorded", MUTED)]
    runs: list[Run] = [("recorded per request  ", MUTED)]
    for tick in TICKS:
        first = first_at(recorded, window)[tick]
        where = "" if level else f" at {first:,} " if first is not None else " never "
        runs += [(f" ┊{tick}", WARN if first is not None else MUTED), (where, MUTED)]
    return [*runs, ("  ", ""), *most]
