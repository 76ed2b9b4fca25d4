"""Which settings nothing beats: as much saved with as little regret. And for each of the others, what beats it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Point(NamedTuple):
    """What a setting comes to: ``saved`` is the more the better, ``regret`` the less."""

    saved: float
    regret: float

    def beats(self, other: Point) -> bool:
        """Whether it is no worse in both, and better in one."""
        return self.saved >= other.saved and self.regret <= other.regret and self != other


def dominated(points: Mapping[K, Point]) -> dict[K, K]:
    """The points that others beat, each with the one that does so at no more regret and saves the most.

    That one is itself beaten by none. Of equal points none beats another; the first stands for all.
    """
    ordered = sorted(points, key=lambda each: (points[each].regret, -points[each].saved))
    found: dict[K, K] = {}
    best: K | None = None
    for each in ordered:
        if best is None or points[each].saved > points[best].saved:
            best = each
        elif points[best].beats(points[each]):
            found[each] = best
    return found


def frontier(points: Mapping[K, Point]) -> list[K]:
    """The points that no other beats, the least regret first; of equal ones the first only."""
    beaten = dominated(points)
    left: dict[Point, K] = {}
    for each, point in points.items():
        if each not in beaten:
            left.setdefault(point, each)
    return [left[point] for point in sorted(left, key=lambda point: (point.regret, point.saved))]


def best(points: Mapping[K, Point], most: float) -> K | None:
    """The point that saves most at no more regret than *most*; None where there is none."""
    within = [each for each in frontier(points) if points[each].regret <= most]
    return within[-1] if within else None


@dataclass(frozen=True)
class Standing:
    """How settings stand to each other, by name.

    Attributes:
        points: what each comes to.
        dominated_by: those that are beaten, each with what beats it.
        frontier: those that nothing beats, the least regret first.
        best: the one that saves most at no more regret than the current one has; None where that is not among them.
    """

    points: Mapping[str, Point]
    dominated_by: Mapping[str, str]
    frontier: Sequence[str]
    best: str | None


def standing(points: Mapping[str, Point], current: str | None = None) -> Standing:
    """How these settings stand to each other, and to the *current* one."""
    now = points.get(current) if current is not None else None
    return Standing(points, dominated(points), frontier(points), best(points, now.regret) if now else None)
