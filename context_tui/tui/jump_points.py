"""Jump points of a session: its peak, trigger firings, context events and costly cache breaks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from context_tui.lab.price.break_report import format_break
from context_tui.lab.price.breaks import find_cache_breaks
from context_tui.session.session import Session
from context_tui.tui.timeline.context_events import find_context_events, format_event_point
from context_tui.tui.timeline.marks import CHANGED_VERDICTS, RowMarker
from context_tui.tui.timeline.rows import WHOLE_MESSAGE, Location, TimelineRows


class JumpPoint(NamedTuple):
    """A message ``at`` that the user may want to jump to and plan before, and the reason."""

    at: int
    reason: str


def find_break_points(session: Session) -> list[JumpPoint]:
    """Return a jump point for the reply to each request with a costly cache break, in order."""
    history = find_cache_breaks(session)
    unit = history.rate_table.unit
    return [JumpPoint(each.message, f"cache: {format_break(each, unit)}") for each in history.costly_breaks]


def find_jump_points(
    session: Session,
    policy: str,
    firings: Sequence[int],
    first_effect: int | None = None,
    break_points: Sequence[JumpPoint] | None = None,
) -> list[JumpPoint]:
    """Return the jump points in order, at most one per message and none for the first message of the session.

    The trigger begins to fire at *firings*; *first_effect* is where the plan first changes something, if that is later.
    """
    reasons: dict[int, list[str]] = {}
    for number, at in enumerate(firings):
        idle = ", but changes nothing yet" if first_effect is not None and at == firings[0] else ""
        reasons.setdefault(at, []).append(f"{policy} {'first ' if not number else ''}fires here{idle}")
    if first_effect is not None:
        effect = "first changes something here" if first_effect in firings else f"{policy} acts here"
        reasons.setdefault(first_effect, []).append(effect)
    for event in find_context_events(session):
        reasons.setdefault(event.message, []).append(format_event_point(event))
    for at, reason in find_break_points(session) if break_points is None else break_points:
        reasons.setdefault(at, []).append(reason)
    if peak := find_peak(session):
        message, tokens = peak
        reason = f"peak of {tokens:,} tokens recorded by the request of message {message:,}"
        reasons.setdefault(message, []).append(reason)
    return [JumpPoint(at, ", ".join(texts)) for at, texts in sorted(reasons.items()) if at > 0]


def find_peak(session: Session) -> tuple[int, int] | None:
    """Return (message, tokens) for the largest recorded context, or None if the session has no recorded sizes."""
    facts = session.facts
    requests = zip(facts.requests, facts.request_message, strict=False)
    sizes = ((usage.context, -message) for usage, message in requests if message < session.length)
    tokens, negative_message = max(sizes, default=(0, 0))  # the first of equal sizes
    return (-negative_message, tokens) if tokens else None


def find_next_changed(
    rows: TimelineRows, marker: RowMarker, cursor: Location, step: int, listed_rows: Collection[int] | None = None
) -> Location | None:
    """Return the next (+1) or previous (-1) changed row in *listed_rows* (default: all), wrapping around, or None."""
    count, row = len(rows), rows.find_row(*cursor)
    for distance in range(1, count + 1):
        at = (row + step * distance) % count
        message, block = rows.message[at], rows.block[at]
        is_listed = block >= WHOLE_MESSAGE and (listed_rows is None or at in listed_rows)
        if is_listed and marker.find_mark(message, block).verdict in CHANGED_VERDICTS:
            return Location(message, block)
    return None


def find_next_jump(points: Sequence[JumpPoint], at: int, step: int) -> JumpPoint | None:
    """Return the next (+1) or previous (-1) point from *at*, wrapping around, or None if there is no other point."""
    by_message = {point.at: point for point in reversed(points) if point.at != at}
    place = find_next(sorted(by_message), at, step)
    return None if place is None else by_message[place]


def find_next(places: Sequence[int], at: int, step: int) -> int | None:
    """Return the next (+1) or previous (-1) of *places* from *at*, wrapping around, or None if there are no places."""
    next_places = [place for place in places if (place > at if step > 0 else place < at)] or places
    return next_places[0 if step > 0 else -1] if next_places else None
