"""Rows of a sweep, each for one setting on one session, and the Pareto front among settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from context_tui.lab.price.pricing import compute_break_even_calls
from context_tui.session.window import Window


class ParetoPoint(NamedTuple):
    """A setting's savings and regret; more ``saved`` and less ``regret`` are better."""

    saved: float
    regret: float

    def dominates(self, other: ParetoPoint) -> bool:
        """Return whether this point is at least as good as *other* in both values and better in one."""
        return self.saved >= other.saved and self.regret <= other.regret and self != other


def find_knee(points: Mapping[str, ParetoPoint], frontier: Sequence[str]) -> str | None:
    """Return the point of the front that is farthest above the straight line from its first to its last point.

    Both axes are scaled to the front. Returns None if the front has fewer than three points or none above the line.
    """
    if len(frontier) < 3:
        return None
    first, last = points[frontier[0]], points[frontier[-1]]
    regret, saved = last.regret - first.regret, last.saved - first.saved
    inner = ((key, points[key]) for key in frontier[1:-1])
    heights = {key: (at.saved - first.saved) / saved - (at.regret - first.regret) / regret for key, at in inner}
    knee = max(heights, key=heights.__getitem__)
    return knee if heights[knee] > 0 else None


class Dominance(NamedTuple):
    """The dominance among settings, keyed by name, with the Pareto front and the best setting.

    Attributes:
        dominated_by: for each dominated setting, the one on the Pareto front that saves the most with no more regret.
        frontier: the settings that no other dominates, in order of increasing regret, and only the first of equal ones.
        best: the setting that saves the most with no more regret than the current one, or None if none is current.
    """

    points: Mapping[str, ParetoPoint]
    dominated_by: Mapping[str, str]
    frontier: Sequence[str]
    best: str | None


def compute_dominance(points: Mapping[str, ParetoPoint], current: str = "") -> Dominance:
    """Find which settings dominate which others, and the best one with no more regret than *current*.

    Equal points do not dominate each other.
    """
    dominated_by, most = dict[str, str](), ""
    for name, point in sorted(points.items(), key=lambda item: (item[1].regret, -item[1].saved)):
        if not most or point.saved > points[most].saved:
            most = name
        elif points[most].dominates(point):
            dominated_by[name] = most
    by_point: dict[ParetoPoint, str] = {}
    for name, point in points.items():
        if name not in dominated_by:
            by_point.setdefault(point, name)
    frontier = [by_point[point] for point in sorted(by_point, key=lambda point: point.regret)]
    allowed = [name for name in frontier if current in points and points[name].regret <= points[current].regret]
    return Dominance(points, dominated_by, frontier, allowed[-1] if allowed else None)


SavingUnit = Literal["tokens", "money"]


class SettingCost(NamedTuple):
    """Cost of all prompts and summaries with a setting, and ``without`` a policy, in ``unit``.

    ``refetch`` is the estimated cost of fetching again what was needed later: for each of these blocks, a call at the
    mean cost of the session's calls, and the block's tokens at the price of input. ``extra_calls`` is the cost of one
    extra call for every 1,000 removed tokens (:attr:`.pricing.ReplayPrice.extra_call_cost`).
    """

    cost: float
    without: float
    unit: str
    refetch: float = 0.0
    extra_calls: float = 0.0

    @property
    def total(self) -> float:
        """Cost with the setting, including that of fetching content again."""
        return self.cost + self.refetch

    @property
    def break_even_calls(self) -> float | None:
        """Extra calls per 1,000 removed tokens that would cost all that was saved, or None if nothing was removed."""
        return compute_break_even_calls(self.without - self.cost, self.extra_calls)


class SettingDrops(NamedTuple):
    """Number and estimated tokens (``bytes/4``) of the blocks that a setting dropped and of those needed later.

    The values for those needed later are None if regret was not computed.
    """

    dropped: int
    tokens_dropped: int
    used_later: int | None = None
    tokens_used_later: int | None = None
    by_tier: Mapping[str, int] | None = None


class SweepRow(NamedTuple):
    """The result of one setting on one session; sizes are in tokens.

    Attributes:
        session: path of the file, followed by ``#ID`` if the file contains several sessions.
        project: the agent's working folder, or the file's folder if that is unknown.
        setting: name of the setting (:class:`context_tui.lab.sweep.grids.SweepSetting`).
        calls, firings: number of model calls, and of changes by the policy.
        without: tokens sent without a policy.
        cost: cost of the replay, or None if it was not priced.
        window: context window at the session's end, without alternatives; None if the row does not state it.
    """

    session: str
    project: str
    setting: str
    policy: str
    params: Mapping[str, Any]
    calls: int
    firings: int
    sent: int
    saved: int
    peak: int
    overflows: int
    without: int
    drops: SettingDrops
    cost: SettingCost | None = None
    dominated_by: str | None = None
    window: Window | None = None

    def compute_point(self, saving_unit: SavingUnit) -> ParetoPoint:
        """Return the savings and the regret; if regret was not computed, all dropped tokens count as regret."""
        used_tokens = self.drops.tokens_used_later
        saved = self.saved if saving_unit == "tokens" else self.cost.without - self.cost.cost if self.cost else 0.0
        return ParetoPoint(saved, self.drops.tokens_dropped if used_tokens is None else used_tokens)


_WINDOW_NAMES = ("tokens", "source", "full_tokens")
_ROW_NAMES = ("session", "project", "setting", "policy", "params", "calls", "firings")
TOTAL_NAMES = ("sent", "saved", "peak", "overflows", "without")


def build_row_report(row: SweepRow) -> dict[str, Any]:
    """Build the JSON form of a row (schema ``context-tui.sweep/1``)."""
    totals = {name: getattr(row, name) for name in TOTAL_NAMES}
    return {
        **{name: getattr(row, name) for name in _ROW_NAMES},
        "totals": {**totals, "cost": None if row.cost is None else row.cost._asdict()},
        "break_even_calls_per_1000": row.cost.break_even_calls if row.cost else None,
        "regret": row.drops._asdict(),
        "dominated_by": row.dominated_by,
        "window": row.window and {name: getattr(row.window, name) for name in _WINDOW_NAMES},
    }


def parse_row_report(report: Mapping[str, Any]) -> SweepRow:
    """Parse a row from its JSON form, raising KeyError, TypeError or ValueError if it is invalid."""
    totals = dict(report["totals"])
    cost, window = totals.pop("cost"), report.get("window")
    return SweepRow(
        **{name: report[name] for name in _ROW_NAMES},
        **totals,
        drops=SettingDrops(**report["regret"]),
        cost=None if cost is None else SettingCost(**cost),
        dominated_by=report["dominated_by"],
        window=Window(**window) if window else None,
    )


def flatten_row(row: SweepRow) -> dict[str, Any]:
    """Return the row as table columns that hold texts and numbers, with parameters as ``params.NAME``."""
    report = build_row_report(row)
    totals, regret = report.pop("totals"), report.pop("regret")
    cost, tiers = totals.pop("cost") or {}, regret.pop("by_tier") or {}
    params, window = report.pop("params"), report.pop("window") or {}
    columns = {
        **report,
        "window": window.get("tokens"),
        **totals,
        **{f"cost.{name}": cost.get(name) for name in ("cost", "without", "unit")},
    }
    columns |= {f"regret.{name}": value for name, value in (*regret.items(), *tiers.items())}
    for name, value in params.items():
        columns[f"params.{name}"] = value if isinstance(value, str | int | float | None) else str(value)
    return columns
