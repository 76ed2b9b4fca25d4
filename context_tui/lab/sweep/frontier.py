"""Pareto front of settings by saving and regret, and the settings that it dominates."""

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
        """Return whether this point is at least as good in both values and better in one."""
        return self.saved >= other.saved and self.regret <= other.regret and self != other


def find_dominated(points: Mapping[K, ParetoPoint]) -> dict[K, K]:
    """Map each dominated point to the point on the Pareto front that saves the most at no more regret.

    Equal points do not dominate each other.
    """
    dominated_by: dict[K, K] = {}
    best: K | None = None
    for key, point in sorted(points.items(), key=lambda item: (item[1].regret, -item[1].saved)):
        if best is None or point.saved > points[best].saved:
            best = key
        elif points[best].dominates(point):
            dominated_by[key] = best
    return dominated_by


def find_frontier(points: Mapping[K, ParetoPoint]) -> list[K]:
    """Return the points that no other point dominates, by rising regret; of equal points only the first."""
    dominated = find_dominated(points)
    by_point: dict[ParetoPoint, K] = {}
    for key, point in points.items():
        if key not in dominated:
            by_point.setdefault(point, key)
    return [by_point[point] for point in sorted(by_point, key=lambda point: (point.regret, point.saved))]


def find_best(points: Mapping[K, ParetoPoint], max_regret: float) -> K | None:
    """Return the point that saves the most at no more regret than *max_regret*, or None."""
    allowed = [key for key in find_frontier(points) if points[key].regret <= max_regret]
    return allowed[-1] if allowed else None


@dataclass(frozen=True)
class Dominance:
    """Dominance among settings, by name.

    Attributes:
        dominated_by: for each dominated setting, one on the Pareto front that dominates it.
        frontier: the Pareto front, by rising regret.
        best: the setting that saves the most at no more regret than the current one; None without a current one.
    """

    points: Mapping[str, ParetoPoint]
    dominated_by: Mapping[str, str]
    frontier: Sequence[str]
    best: str | None


def compute_dominance(points: Mapping[str, ParetoPoint], current: str | None = None) -> Dominance:
    """Compute the dominance among settings, and the best one compared with *current*."""
    point = points.get(current) if current is not None else None
    best = find_best(points, point.regret) if point else None
    return Dominance(points, find_dominated(points), find_frontier(points), best)
