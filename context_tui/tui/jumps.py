"""The points of a session worth planning as of: its peak, where the trigger begins to fire, and what happened to the
context: compactions, clears and drops of the recorded size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from context_tui.session.session import Session
from context_tui.tui.context_events import before, context_events_in
from context_tui.tui.marks import CHANGED, Marker
from context_tui.tui.rows import WHOLE, Rows
from context_tui.tui.view import Location


class Jump(NamedTuple):
    """A point, and what happens there in words."""

    at: int
    why: str


def jumps(session: Session, policy: str, fires: Sequence[int], acts: int | None = None) -> list[Jump]:
    """The points in order, each once, none before the first message.

    Args:
        fires: where the trigger begins to fire.
        acts: where it fires and changes something, if it changes nothing at the first of these.
    """
    found: dict[int, list[str]] = {}
    for number, at in enumerate(fires):
        idle = ", but changes nothing yet" if acts is not None and at == fires[0] else ""
        found.setdefault(at, []).append(f"{policy} {'first ' if not number else ''}fires here{idle}")
    if acts is not None:
        found.setdefault(acts, []).append("first changes something here" if acts in fires else f"{policy} acts here")
    for event in context_events_in(session):
        found.setdefault(event.message, []).append(before(event))
    if peak := peak_of(session):
        found.setdefault(peak[0], []).append(
            f"peak of {peak[1]:,} tokens recorded by the request of message {peak[0]:,}"
        )
    return [Jump(at, ", ".join(why)) for at, why in sorted(found.items()) if at > 0]


def peak_of(session: Session) -> tuple[int, int] | None:
    """The message before which the largest context was recorded, and its tokens; None where nothing is recorded."""
    facts = session.facts
    found = max(
        (
            (usage.context, -message)
            for usage, message in zip(facts.requests, facts.request_message, strict=False)
            if message < session.length
        ),
        default=(0, 0),
    )
    return (-found[1], found[0]) if found[0] else None


def next_changed(
    rows: Rows, marker: Marker, here: Location, step: int, among: Collection[int] | None = None
) -> Location | None:
    """The next (+1) or previous (-1) row that a plan changes, around the ends; None where it changes none.

    Args:
        among: the rows that are looked at; None for all.
    """
    count, row = len(rows), rows.row_of(*here)
    for distance in range(1, count + 1):
        at = (row + step * distance) % count
        message, block = rows.message[at], rows.block[at]
        if block >= WHOLE and (among is None or at in among) and marker.mark(message, block).word in CHANGED:
            return Location(message, block)
    return None


def next_jump(points: Sequence[Jump], at: int, step: int) -> Jump | None:
    """The next (+1) or previous (-1) point from *at*, around the ends; None where there is none but *at*."""
    ahead = [point for point in points if (point.at > at if step > 0 else point.at < at)]
    around = ahead or [point for point in points if point.at != at]
    return (around[0] if step > 0 else around[-1]) if around else None
