"""Which settings nothing beats: as much saved with as little regret. And for each of the others, what beats it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class ParetoPoint(NamedTuple):
    """What a setting comes to: ``saved`` is the more the better, ``regret`` the less."""

    saved: float
    regret: float

    def dominates(self, other: ParetoPoint) -> bool:
        """Whether it is no worse in both, and better in one."""
        return self.saved >= other.saved and self.regret <= other.regret and self != other


def find_dominated(points: Mapping[K, ParetoPoint]) -> dict[K, K]:
    """The points that others beat, each with the one that does so at no more regret and saves the most.

    That one is itself beaten by none. Of equal points none beats another; the first stands for all.
    """
    ordered = sorted(points, key=lambda each: (points[each].regret, -points[each].saved))
    found: dict[K, K] = {}
    best: K | None = None
    for each in ordered:
        if best is None or points[each].saved > points[best].saved:
            best = each
        elif points[best].dominates(points[each]):
            found[each] = best
    return found


def find_frontier(points: Mapping[K, ParetoPoint]) -> list[K]:
    """The points that no other beats, the least regret first; of equal ones the first only."""
    beaten = find_dominated(points)
    left: dict[ParetoPoint, K] = {}
    for each, point in points.items():
        if each not in beaten:
            left.setdefault(point, each)
    return [left[point] for point in sorted(left, key=lambda point: (point.regret, point.saved))]


def find_best(points: Mapping[K, ParetoPoint], max_regret: float) -> K | None:
    """The point that saves most at no more regret than *most*; None where there is none."""
    within = [each for each in find_frontier(points) if points[each].regret <= max_regret]
    return within[-1] if within else None


@dataclass(frozen=True)
class Dominance:
    """How settings stand to each other, by name.

    Attributes:
        points: what each comes to.
        dominated_by: those that are beaten, each with what beats it.
        frontier: those that nothing beats, the least regret first.
        best: the one that saves most at no more regret than the current one has; None where that is not among them.
    """

    points: Mapping[str, ParetoPoint]
    dominated_by: Mapping[str, str]
    frontier: Sequence[str]
    best: str | None


def compute_dominance(points: Mapping[str, ParetoPoint], current: str | None = None) -> Dominance:
    """How these settings stand to each other, and to the *current* one."""
    now = points.get(current) if current is not None else None
    return Dominance(
        points, find_dominated(points), find_frontier(points), find_best(points, now.regret) if now else None
    )
