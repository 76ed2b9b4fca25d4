"""Pareto front of settings by saving and regret, and for each other setting the one that dominates it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class ParetoPoint(NamedTuple):
    """Result of a setting: more ``saved`` is better, less ``regret`` is better."""

    saved: float
    regret: float

    def dominates(self, other: ParetoPoint) -> bool:
        """Return whether this point is no worse in both and better in one."""
        return self.saved >= other.saved and self.regret <= other.regret and self != other


def find_dominated(points: Mapping[K, ParetoPoint]) -> dict[K, K]:
    """Map each dominated point to the one that dominates it, has no more regret and saves the most.

    That one is itself on the Pareto front. Equal points do not dominate each other.
    """
    ordered = sorted(points, key=lambda each: (points[each].regret, -points[each].saved))
    dominated_by: dict[K, K] = {}
    best: K | None = None
    for each in ordered:
        if best is None or points[each].saved > points[best].saved:
            best = each
        elif points[best].dominates(points[each]):
            dominated_by[each] = best
    return dominated_by


def find_frontier(points: Mapping[K, ParetoPoint]) -> list[K]:
    """Return the points that no other dominates, by rising regret; of equal ones only the first."""
    dominated = find_dominated(points)
    by_point: dict[ParetoPoint, K] = {}
    for each, point in points.items():
        if each not in dominated:
            by_point.setdefault(point, each)
    return [by_point[point] for point in sorted(by_point, key=lambda point: (point.regret, point.saved))]


def find_best(points: Mapping[K, ParetoPoint], max_regret: float) -> K | None:
    """Return the point that saves most at no more regret than *max_regret*, or None."""
    within = [each for each in find_frontier(points) if points[each].regret <= max_regret]
    return within[-1] if within else None


@dataclass(frozen=True)
class Dominance:
    """Dominance among settings, by name.

    Attributes:
        points: result of each setting.
        dominated_by: dominated settings, each with the one that dominates it.
        frontier: the Pareto front, by rising regret.
        best: the setting that saves most at no more regret than the current one; None without a current one.
    """

    points: Mapping[str, ParetoPoint]
    dominated_by: Mapping[str, str]
    frontier: Sequence[str]
    best: str | None


def compute_dominance(points: Mapping[str, ParetoPoint], current: str | None = None) -> Dominance:
    """Compute the dominance among settings, and the best one compared with *current*."""
    now = points.get(current) if current is not None else None
    return Dominance(
        points, find_dominated(points), find_frontier(points), find_best(points, now.regret) if now else None
    )
