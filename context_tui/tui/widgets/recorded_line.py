"""The recorded context of every request as one line of blocks: epochs apart, drops and the point marked, the peak kept.

Pure. A column shows one request or a stretch of them: of its largest and smallest value the one that is further from
the column before, so that peaks and the dips after a compaction both survive any width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from context_tui.session.session import Session
from context_tui.tui.widgets.canvas import Canvas, eighths
from context_tui.tui.widgets.draw import BAD, HUE, MUTED, WARN, Run, cells

TICKS = (60, 70, 85)
"""Per cent of the window at which runtimes act."""
EPOCH, FALL, POINT = "│", "▾", "◆"
SIGNS = {EPOCH: "new context", FALL: "drop", POINT: "here"}
"""What the signs between the columns are called."""
GAP = 3


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


class Crossing(NamedTuple):
    """Where requests passed a part of the window: the message of the first, and whether all that followed did too."""

    message: int
    since: bool


@lru_cache(maxsize=4)
def crossings(recorded: Recorded, window: int, at: int) -> dict[int, Crossing]:
    """For each tick that requests before message *at* reached, where: since when, or else where first."""
    point, found = bisect_left(recorded.messages, at), {}
    for tick in TICKS:
        limit, since = window * tick / 100, point
        while since and recorded.tokens[since - 1] >= limit:
            since -= 1
        row = since if since < point else next((r for r in range(point) if recorded.tokens[r] >= limit), -1)
        if row >= 0:
            found[tick] = Crossing(recorded.messages[row], since < point)
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
    point, found = _columns_at(recorded, width, at)
    most = (recorded.tokens[recorded.peak] if recorded.tokens else 0) or 1
    canvas = Canvas(len(found))
    for x, column in enumerate(found):
        if column is None:
            canvas.write(x, 0, POINT, f"bold {WARN}")
        elif isinstance(column, Gap):
            after = column.glyph == EPOCH or _is_after(column, point, at)
            canvas.write(x, 0, column.glyph, MUTED if after else f"bold {BAD}")
        else:
            over = column.tokens * 100 >= window * TICKS[0]
            style = MUTED if column.first >= point else WARN if over else HUE
            canvas.column(x, 0, max(eighths(column.tokens, most), 1), style)
    return canvas.line()


def request_at(recorded: Recorded, width: int, at: int, cell: int) -> int | None:
    """The message of the largest request under a cell of the line, or of what happened there."""
    _, found = _columns_at(recorded, width, at)
    column = found[cell] if 0 <= cell < len(found) else None
    if column is None or isinstance(column, Gap):
        return column.message if column else None
    return recorded.messages[max(range(column.first, column.end), key=recorded.tokens.__getitem__)]


def _columns_at(recorded: Recorded, width: int, at: int) -> tuple[int, list[Column | Gap | None]]:
    """The first request after message *at*, and what stands in each cell: None is the mark of the point."""
    point = bisect_left(recorded.messages, at)
    if point >= len(recorded.messages):
        return point, [*columns(recorded, width)]
    found = columns(recorded, width - 1)
    place = next((place for place, each in enumerate(found) if _is_after(each, point, at)), len(found))
    return point, [*found[:place], None, *found[place:]]


def _is_after(column: Column | Gap, point: int, at: int) -> bool:
    """Whether a column reaches beyond request *point*, the first after message *at*, or a gap comes after that."""
    return column.message >= at if isinstance(column, Gap) else column.end > point


def over_words(recorded: Recorded, window: int, at: int, full: bool) -> str:
    """Since when requests are over a part of the window, or where they first were; of all parts, or of the least."""
    found = crossings(recorded, window, at)
    if not found:
        more = at <= max(recorded.messages, default=-1)  # what comes after the point may be larger
        return f"{'not yet' if more else 'never'} over {TICKS[0]} %"
    parts: list[str] = []
    for tick, (where, since) in found.items():
        over = f"over {tick} %{' of the window' if full and not parts else ''}"
        parts.append(f"{over} since #{where:,}" if since else f"first {over} at #{where:,}")
    return ", ".join(parts if full else parts[:1])


def legends(recorded: Recorded, window: int, at: int) -> Iterator[tuple[str, list[Run]]]:
    """What stands before the line and behind it, in fewer and fewer words."""
    if not recorded.tokens:
        for words in ("no usage recorded: sizes are estimates", "no usage recorded"):
            yield "", [(words, MUTED)]
        return
    peak, point = recorded.peak, bisect_left(recorded.messages, at)
    most = [("peak ", MUTED), (f"{recorded.tokens[peak]:,}", ""), (f" at #{recorded.messages[peak]:,}", MUTED)]
    style = WARN if crossings(recorded, window, at) else MUTED
    full, least = ((over_words(recorded, window, at, each), style) for each in (True, False))
    seen = {gap.glyph for gap in recorded.gaps} | ({POINT} if point < len(recorded.messages) else set())
    signs = [(f"   {sign} {name}", MUTED) for sign, name in SIGNS.items() if sign in seen]
    yield "Recorded per request ", [full, ("   ", ""), *most, *signs]
    yield "Recorded per request ", [least, ("   ", ""), *most, *signs]
    yield "Recorded per request ", [least, ("   ", ""), *most]
    yield "Recorded ", [least, ("   ", ""), *most]
    yield "Recorded ", [least]
    yield "Recorded ", most
    yield "Recorded ", most[:2]


def recorded_line(recorded: Recorded, width: int, window: int, at: int, least: int) -> tuple[list[Run], range]:
    """The line with its words in *width* cells, and the cells for the line itself: at least *least* if that can be."""
    name, words, room = "", list[Run](), 0
    least = min(least, len(recorded.tokens) + len(recorded.gaps) + 1)
    for name, words in legends(recorded, window, at):
        room = width - len(name) - cells(words) - (GAP if name else 0)
        if room >= (least if name else 0):
            break
    if not name or room < 2:
        return [(name, MUTED), *words], range(0)
    return [(name, MUTED), *line(recorded, room, window, at), (" " * GAP, ""), *words], range(
        len(name), len(name) + room
    )
