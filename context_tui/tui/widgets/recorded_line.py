"""The recorded context of every request as one line of blocks: epochs apart, drops and the point marked, the peak kept.

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
from context_tui.tui.widgets.draw import BAD, HUE, LEVELS, MUTED, WARN, Run

TICKS = (60, 70, 85)
"""Per cent of the window at which runtimes act."""


EPOCH, FALL = "│", "▾"


@dataclass(frozen=True)
class Gap:
    """Something that happened to the context before request ``request``, or showed there; ``message`` is where.

    ``glyph`` is what is drawn between the columns: ``EPOCH`` where a context begins anew, ``FALL`` for a drop.
    """

    request: int
    message: int
    glyph: str = EPOCH


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recorded tokens of each request, the message it ended at, and what happened between requests, in order."""

    tokens: Sequence[int]
    messages: Sequence[int]
    gaps: Sequence[Gap] = ()

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
    found = [Gap(bisect_left(messages, drop.message), drop.message, FALL) for drop in session.drops]
    found += (Gap(bisect_left(messages, each.message), each.message) for each in facts.epochs)
    gaps = {gap.request: gap for gap in found if 0 < gap.request < end}
    return Recorded([usage.context for usage in facts.requests[:end]], messages, [gaps[row] for row in sorted(gaps)])


@dataclass(frozen=True)
class Column:
    """Requests ``first`` to ``end`` (not included), and the value that stands for them."""

    first: int
    end: int
    tokens: int


@lru_cache(maxsize=8)
def columns(recorded: Recorded, width: int) -> list[Column | Gap]:
    """At most *width* columns in order, with the gaps between them as long as these leave most of the width."""
    count = len(recorded.tokens)
    if not count or width < 1:
        return []
    gaps = list(recorded.gaps)
    if len(gaps) > width // 4:
        gaps = [gap for gap in gaps if gap.glyph == EPOCH]
    if len(gaps) > width // 4:
        gaps = []
    edges = [0, *(gap.request for gap in gaps), count]
    room = width - len(gaps)
    found: list[Column | Gap] = []
    peak, before = recorded.peak, 0
    for number, (first, end) in enumerate(pairwise(edges)):
        if number:
            found.append(gaps[number - 1])
        # Each stretch gets its share of the room, by where it starts and ends.
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
        if not marked and _is_after(column, point, at):
            runs.append(("◆", f"bold {WARN}"))
            marked = True
        if isinstance(column, Gap):
            after = column.glyph == EPOCH or _is_after(column, point, at)
            runs.append((column.glyph, MUTED if after else f"bold {BAD}"))
            continue
        style = MUTED if column.first >= point else WARN if column.tokens * 100 >= window * TICKS[0] else HUE
        runs.append((LEVELS[min(7, column.tokens * 8 // top)], style))
    return runs


def request_at(recorded: Recorded, width: int, at: int, cell: int) -> int | None:
    """The message of the largest request under a cell of the line, or of what happened there."""
    point = bisect_left(recorded.messages, at)
    ends = point >= len(recorded.messages)
    place = 0
    marked = ends
    for column in columns(recorded, width if ends else width - 1):
        if not marked and _is_after(column, point, at):
            place, marked = place + 1, True
        if place == cell:
            if isinstance(column, Gap):
                return column.message
            return recorded.messages[max(range(column.first, column.end), key=recorded.tokens.__getitem__)]
        place += 1
    return None


def _is_after(column: Column | Gap, point: int, at: int) -> bool:
    """Whether a column reaches beyond request *point*, the first after message *at*, or a gap comes after that."""
    return column.message >= at if isinstance(column, Gap) else column.end > point


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
        (f" at #{recorded.messages[peak]:,}", MUTED),
    ]
    if level == 3:
        return [*most[:2], (" recorded", MUTED)]
    if level == 2:
        return [*most, (" recorded", MUTED)]
    runs: list[Run] = [("recorded per request  ", MUTED)]
    for tick in TICKS:
        first = first_at(recorded, window)[tick]
        where = "" if level else f" from #{first:,} " if first is not None else " never "
        runs += [(f" ┊{tick} %", WARN if first is not None else MUTED), (where, MUTED)]
    return [*runs, ("  ", ""), *most]
