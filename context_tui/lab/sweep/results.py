"""A sweep: the rows of all sessions, and what each setting comes to over all of them and in each project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from context_tui.lab.sweep.frontier import Point, Standing, standing
from context_tui.lab.sweep.measure import How, measured
from context_tui.lab.sweep.rows import Cost, Lost, Measure, Row, row_report
from context_tui.lab.sweep.settings import Setting, grid, together
from context_tui.policies.registry import policy_named
from context_tui.session.session import Session


class Unread(NamedTuple):
    """A session that is not in a sweep, and why."""

    session: str
    why: str


@dataclass(frozen=True)
class Whole:
    """A setting over several sessions: sums, but for ``peak``, which is the largest; tokens.

    ``cost`` is that of the ``priced`` sessions whose prices are in the unit of the sweep; None where there are none.
    """

    setting: str
    sessions: int
    firings: int
    sent: int
    saved: int
    peak: int
    overflows: int
    without: int
    lost: Lost
    cost: Cost | None
    priced: int


@dataclass(frozen=True)
class Sweep:
    """Settings along sessions.

    Attributes:
        settings: all of them, in order.
        rows: one for each session and setting.
        unread: sessions that could not be read or replayed.
        current: the name of the setting that the others are held against.
        by: what saving is counted in.
    """

    settings: Sequence[Setting]
    rows: Sequence[Row]
    unread: Sequence[Unread] = ()
    current: str = ""
    by: Measure = "tokens"

    @cached_property
    def by_session(self) -> Mapping[str, list[Row]]:
        """The rows of each session."""
        return _grouped(self.rows, lambda row: row.session)

    @cached_property
    def whole(self) -> Mapping[str, Whole]:
        """Every setting over all sessions."""
        by_setting = _grouped(self.rows, lambda row: row.setting)
        return {name: whole(rows, self.unit) for name, rows in by_setting.items()}

    @cached_property
    def unit(self) -> str:
        """The unit in which most sessions are priced; empty where none is. Costs in another one cannot be added."""
        units = Counter(row.cost.unit for row in self.rows if row.cost is not None)
        return max(units, key=lambda unit: units[unit], default="")

    @cached_property
    def standing(self) -> Standing:
        """How the settings stand to each other over all sessions."""
        return self._standing(self.rows)

    @cached_property
    def projects(self) -> Mapping[str, Standing]:
        """The same in each project."""
        return {name: self._standing(rows) for name, rows in sorted(_grouped(self.rows, lambda r: r.project).items())}

    @cached_property
    def told(self) -> list[Row]:
        """The rows in the order of sessions and settings, with which other setting beats each on its session."""
        order = {each.name: number for number, each in enumerate(self.settings)}
        found = list[Row]()
        for _, rows in sorted(self.by_session.items()):
            beaten = self._standing(rows).dominated_by
            rows = sorted(rows, key=lambda row: order.get(row.setting, len(order)))
            found += [replace(row, dominated_by=beaten.get(row.setting)) for row in rows]
        return found

    def _standing(self, rows: Iterable[Row]) -> Standing:
        if self.by == "money":
            rows = [row for row in rows if row.cost is not None and row.cost.unit == self.unit]
        points = {name: _point(each, self.by) for name, each in _grouped(rows, lambda row: row.setting).items()}
        return standing(points, self.current)


def sweep(
    sessions: Iterable[Session],
    policies: Mapping[str, Mapping[str, Any]],
    *,
    how: How | None = None,
    by: Measure = "tokens",
    checkpoint: Callable[[], object] = lambda: None,
) -> Sweep:
    """Every combination of the values of parameters, of each policy by its name, along every session.

    The values of a parameter are a list, or a text such as ``1..8`` (:func:`context_tui.lab.sweep.settings.grid`). The
    defaults of each policy are always among the settings, and those of the first one are the current ones.

    Raises:
        PlanError: no such policy or parameter, a value that is not allowed, or a policy that cannot be replayed.
    """
    grids = []
    for name, values in policies.items():
        policy = policy_named(name)
        texts = [f"{key}={_text(each)}" for key, each in values.items()]
        grids += [grid(policy), grid(policy, texts)]
    settings = together(grids)
    rows = [row for session in sessions for row in measured(session, settings, how, checkpoint=checkpoint)]
    return Sweep(settings, rows, current=settings[0].name, by=by)


def _text(values: Any) -> str:
    return ",".join(map(str, values)) if isinstance(values, list | tuple | range) else str(values)


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _point(rows: Iterable[Row], by: Measure) -> Point:
    points = [row.point(by) for row in rows]
    return Point(sum(each.saved for each in points), sum(each.regret for each in points))


def whole(rows: Sequence[Row], unit: str) -> Whole:
    """One setting over several sessions, with the cost of those that are priced in *unit*."""
    costs = [row.cost for row in rows if row.cost is not None and row.cost.unit == unit]
    return Whole(
        rows[0].setting,
        len(rows),
        sum(row.firings for row in rows),
        sum(row.sent for row in rows),
        sum(row.saved for row in rows),
        max(row.peak for row in rows),
        sum(row.overflows for row in rows),
        sum(row.without for row in rows),
        _lost([row.lost for row in rows]),
        Cost(sum(each.cost for each in costs), sum(each.without for each in costs), unit) if costs else None,
        len(costs),
    )


def _lost(each: Sequence[Lost]) -> Lost:
    dropped, tokens = sum(lost.dropped for lost in each), sum(lost.tokens_dropped for lost in each)
    if any(lost.tokens_used_later is None for lost in each):
        return Lost(dropped, tokens)
    tiers: dict[str, int] = {}
    for lost in each:
        for tier, count in (lost.by_tier or {}).items():
            tiers[tier] = tiers.get(tier, 0) + count
    used = sum(lost.used_later or 0 for lost in each)
    return Lost(dropped, tokens, used, sum(lost.tokens_used_later or 0 for lost in each), tiers)


def sweep_report(found: Sweep) -> dict[str, Any]:
    """A sweep as JSON-ready data (schema ``context-tui.sweep/1``)."""
    return {
        "schema": "context-tui.sweep/1",
        "by": found.by,
        "current": found.current,
        "settings": [
            {
                "setting": each.name,
                "policy": each.policy.name,
                "params": each.values,
                **(_whole_report(found.whole[each.name]) if each.name in found.whole else {}),
                "dominated_by": found.standing.dominated_by.get(each.name),
            }
            for each in found.settings
        ],
        "frontier": list(found.standing.frontier),
        "best": found.standing.best,
        "projects": [
            {
                "project": name,
                "frontier": list(each.frontier),
                "best": each.best,
                "dominated_by": dict(each.dominated_by),
            }
            for name, each in found.projects.items()
        ],
        "rows": [row_report(row) for row in found.told],
        "unread": [each._asdict() for each in found.unread],
    }


def _whole_report(each: Whole) -> dict[str, Any]:
    return {
        "sessions": each.sessions,
        "firings": each.firings,
        "totals": {
            "sent": each.sent,
            "saved": each.saved,
            "peak": each.peak,
            "overflows": each.overflows,
            "without": each.without,
            "cost": None if each.cost is None else {**vars(each.cost), "sessions": each.priced},
        },
        "regret": {**vars(each.lost)},
    }
