"""Results of a sweep: rows, totals for each setting, and dominance among the settings, overall and per project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from context_tui.lab.sweep.grids import SweepSetting, build_grid, merge_grids
from context_tui.lab.sweep.rows import (
    TOTAL_NAMES,
    Dominance,
    ParetoPoint,
    SavingUnit,
    SettingCost,
    SettingDrops,
    SweepRow,
    build_row_report,
    compute_dominance,
    find_knee,
)
from context_tui.lab.sweep.session_sweep import SweepOptions, sweep_session
from context_tui.policies.registry import find_policy
from context_tui.policies.versions import list_version_params
from context_tui.session.session import Session
from context_tui.session.values import Checkpoint

BY_VERSION = "by version"
"""Value of a parameter that the version which recorded each session decides, where the versions differ."""


class UnreadSession(NamedTuple):
    """A session that could not be swept, with the reason."""

    session: str
    why: str


class Totals(NamedTuple):
    """A setting's totals over several sessions, in tokens; ``peak`` is the maximum, everything else a sum.

    ``cost`` is the sum over the ``priced_sessions``, those priced in the unit of the sweep, or None if there are none.
    ``fired_in`` is the number of sessions in which the setting fires. ``largest_session`` saves the most tokens, and
    ``share_of_largest`` is its share of the savings; they are empty and None if no session saves any.
    """

    setting: str
    sessions: int
    firings: int
    sent: int
    saved: int
    peak: int
    overflows: int
    without: int
    drops: SettingDrops
    cost: SettingCost | None
    priced_sessions: int
    fired_in: int
    largest_session: str = ""
    share_of_largest: float | None = None

    @property
    def extra_cost(self) -> float:
        """Cost beyond that of the same sessions without a policy; negative if the setting saves."""
        return self.cost.cost - self.cost.without if self.cost else 0.0

    @property
    def break_even_calls(self) -> float:
        """Extra calls per 1,000 removed tokens that would cost all that was saved; 0 if nothing was removed."""
        return self.cost.break_even_calls or 0.0 if self.cost else 0.0

    @property
    def regret_tokens(self) -> int:
        """Dropped tokens that were needed later, or all dropped tokens if later uses were not searched."""
        regret = self.drops.tokens_used_later
        return self.drops.tokens_dropped if regret is None else regret


@dataclass(frozen=True)
class Sweep:
    """The results of replaying many settings along many sessions.

    Attributes:
        rows: one row per session and setting.
        current: name of the setting that the other settings are compared with.
        other_files: number of files in the sessions' folders that are not sessions.
    """

    settings: Sequence[SweepSetting]
    rows: Sequence[SweepRow]
    unread: Sequence[UnreadSession] = ()
    current: str = ""
    saving_unit: SavingUnit = "tokens"
    other_files: int = 0

    @cached_property
    def rows_by_session(self) -> Mapping[str, list[SweepRow]]:
        """The rows grouped by the name of their session."""
        return _group_rows(self.rows, lambda row: row.session)

    @cached_property
    def rows_by_setting(self) -> Mapping[str, list[SweepRow]]:
        """The rows grouped by the name of their setting."""
        return _group_rows(self.rows, lambda row: row.setting)

    @cached_property
    def totals(self) -> Mapping[str, Totals]:
        """Each setting's totals over all sessions."""
        return {name: compute_totals(rows, self.cost_unit) for name, rows in self.rows_by_setting.items()}

    @cached_property
    def cost_unit(self) -> str:
        """Unit of the cost of most sessions; empty without prices. Totals leave out costs in other units."""
        units = Counter({row.session: row.cost.unit for row in self.rows if row.cost}.values())
        return max(units, key=units.__getitem__, default="")

    def format_coverage(self) -> str:
        """Format the number of sessions that the costs cover, or return an empty string if that is none or all."""
        priced, count = max(each.priced_sessions for each in self.totals.values()), len(self.rows_by_session)
        verb = "has" if count - priced == 1 else "have"
        price = f"{verb} no price" if self.cost_unit == "USD" else f"{verb} a price in USD"
        return f"costs of {priced:,} of {count:,} sessions; {count - priced:,} {price}" if 0 < priced < count else ""

    @property
    def point_unit(self) -> str:
        """Unit in which the savings of settings are compared: tokens, or the unit of the costs."""
        return "tokens" if self.saving_unit == "tokens" else self.cost_unit

    @cached_property
    def dominance(self) -> Dominance:
        """Dominance among the settings, judged by their totals over all sessions."""
        return self._compute_dominance(self.rows)

    @cached_property
    def best(self) -> frozenset[str]:
        """The settings on the Pareto front, with only the first of several equal ones."""
        return frozenset(self.dominance.frontier)

    @cached_property
    def idle(self) -> frozenset[str]:
        """The settings that fire in none of the sessions."""
        return frozenset(name for name, totals in self.totals.items() if not totals.firings)

    @cached_property
    def knee(self) -> str | None:
        """The setting on the Pareto front beyond which savings cost much more regret, or None if there is none."""
        return find_knee(self.dominance.points, self.dominance.frontier)

    @cached_property
    def has_prices(self) -> bool:
        """Whether the cost of every setting is known."""
        return bool(self.totals) and all(each.cost is not None for each in self.totals.values())

    @cached_property
    def regret_name(self) -> str:
        """Name for the regret: ``needed later``, or ``dropped`` if later uses were not searched."""
        has_uses = all(each.drops.tokens_used_later is not None for each in self.totals.values())
        return "needed later" if has_uses else "dropped"

    @cached_property
    def cost_digits(self) -> int:
        """Number of decimals needed to tell the costs apart."""
        return 2 if max((abs(each.extra_cost) for each in self.totals.values()), default=0.0) >= 1 else 4

    @cached_property
    def dominance_by_project(self) -> Mapping[str, Dominance]:
        """Dominance among the settings in each project, keyed by project."""
        by_project = sorted(_group_rows(self.rows, lambda row: row.project).items())
        return {name: self._compute_dominance(rows) for name, rows in by_project}

    @cached_property
    def sorted_rows(self) -> list[SweepRow]:
        """The rows sorted by session and setting, each with the setting that dominates it in that session."""
        order = {setting.name: number for number, setting in enumerate(self.settings)}
        sorted_rows = list[SweepRow]()
        for _, rows in sorted(self.rows_by_session.items()):
            dominated_by = self._compute_dominance(rows).dominated_by
            rows = sorted(rows, key=lambda row: order.get(row.setting, len(order)))
            sorted_rows += [row._replace(dominated_by=dominated_by.get(row.setting)) for row in rows]
        return sorted_rows

    def find_param_values(self, setting: SweepSetting) -> dict[str, Any]:
        """Return the parameters with which a setting ran; ``by version`` for those that differ between sessions."""
        values = setting.param_values
        for name in list_version_params(setting.policy.name):
            tested = {row.params.get(name) for row in self.rows_by_setting.get(setting.name, ())}
            values[name] = values[name] if not tested else tested.pop() if len(tested) == 1 else BY_VERSION
        return values

    def _compute_dominance(self, rows: Iterable[SweepRow]) -> Dominance:
        if self.saving_unit == "money":
            rows = [row for row in rows if row.cost is not None and row.cost.unit == self.cost_unit]
        points = dict[str, ParetoPoint]()
        for name, setting_rows in _group_rows(rows, lambda row: row.setting).items():
            saved, regrets = zip(*(row.compute_point(self.saving_unit) for row in setting_rows), strict=True)
            points[name] = ParetoPoint(sum(saved), sum(regrets))
        dominance = compute_dominance(points, self.current)
        return dominance._replace(frontier=[name for name in dominance.frontier if name not in self.idle])


def sweep(
    sessions: Iterable[Session],
    policies: Mapping[str, Mapping[str, Any]],
    *,
    how: SweepOptions | None = None,
    by: SavingUnit = "tokens",
    checkpoint: Checkpoint = lambda: None,
) -> Sweep:
    """Replay every combination of parameter values along every session, and compare the results.

    The defaults of each policy are always among the settings; those of the first policy are the current setting.

    Raises PlanError if a policy or parameter is unknown, a value is not allowed, or a policy cannot be replayed.

    Args:
        policies: keyed by policy name, the values of each parameter: a list, or a text such as ``1..8``
            (:func:`context_tui.lab.sweep.grids.build_grid`).
        how: options for all replays.
        by: the unit in which savings are compared.
    """
    grids = []
    for name, values in policies.items():
        policy = find_policy(name)
        texts = [f"{key}={_format_values(parameter_values)}" for key, parameter_values in values.items()]
        grids += [build_grid(policy), build_grid(policy, texts)]
    settings = merge_grids(grids)
    rows = [row for session in sessions for row in sweep_session(session, settings, how, checkpoint=checkpoint)]
    return Sweep(settings, rows, current=settings[0].name, saving_unit=by)


def _format_values(values: Any) -> str:
    return ",".join(map(str, values)) if isinstance(values, list | tuple | range) else str(values)


def _group_rows(rows: Iterable[SweepRow], key: Callable[[SweepRow], str]) -> dict[str, list[SweepRow]]:
    groups: dict[str, list[SweepRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def compute_totals(rows: Sequence[SweepRow], unit: str) -> Totals:
    """Compute a setting's totals over several sessions, leaving out costs that are not in *unit*."""
    costs = [row.cost for row in rows if row.cost is not None and row.cost.unit == unit]
    largest, gains = max(rows, key=lambda row: row.saved), sum(max(row.saved, 0) for row in rows)
    return Totals(
        setting=rows[0].setting,
        sessions=len(rows),
        **_sum_values(rows, ("firings", "sent", "saved", "overflows", "without")),
        peak=max(row.peak for row in rows),
        drops=_sum_drops([row.drops for row in rows]),
        cost=SettingCost(unit=unit, **_sum_values(costs, _COST_NAMES)) if costs else None,
        priced_sessions=len(costs),
        fired_in=sum(bool(row.firings) for row in rows),
        largest_session=largest.session if gains else "",
        share_of_largest=largest.saved / gains if gains else None,
    )


_COST_NAMES = ("cost", "without", "refetch", "extra_calls")


def _sum_values(objects: Sequence[object], names: Iterable[str]) -> dict[str, Any]:
    return {name: sum(getattr(each, name) for each in objects) for name in names}


def _sum_drops(all_drops: Sequence[SettingDrops]) -> SettingDrops:
    dropped = _sum_values(all_drops, ("dropped", "tokens_dropped"))
    if any(drops.tokens_used_later is None for drops in all_drops):
        return SettingDrops(**dropped)
    tiers = Counter[str]()
    for drops in all_drops:
        tiers.update(drops.by_tier or {})
    return SettingDrops(**dropped, **_sum_values(all_drops, ("used_later", "tokens_used_later")), by_tier=dict(tiers))


def build_sweep_report(sweep: Sweep) -> dict[str, Any]:
    """Build the JSON document that describes a sweep (schema ``context-tui.sweep/1``)."""
    return {
        "schema": "context-tui.sweep/1",
        "by": sweep.saving_unit,
        "current": sweep.current,
        "settings": [
            {
                "setting": setting.name,
                "policy": setting.policy.name,
                "params": sweep.find_param_values(setting),
                **(_build_totals_report(sweep.totals[setting.name]) if setting.name in sweep.totals else {}),
                "dominated_by": sweep.dominance.dominated_by.get(setting.name),
            }
            for setting in sweep.settings
        ],
        "frontier": list(sweep.dominance.frontier),
        "best": sweep.dominance.best,
        "knee": sweep.knee,
        "projects": [
            {"project": name, "frontier": list(each.frontier), "best": each.best, "dominated_by": {**each.dominated_by}}
            for name, each in sweep.dominance_by_project.items()
        ],
        "rows": [build_row_report(row) for row in sweep.sorted_rows],
        "unread": [session._asdict() for session in sweep.unread],
        "other_files": sweep.other_files,
    }


def _build_totals_report(totals: Totals) -> dict[str, Any]:
    cost = None if totals.cost is None else {**totals.cost._asdict(), "sessions": totals.priced_sessions}
    return {
        **{name: getattr(totals, name) for name in ("sessions", "firings", "fired_in")},
        "largest_session": totals.largest_session or None,
        "share_of_largest": totals.share_of_largest,
        "totals": {**{name: getattr(totals, name) for name in TOTAL_NAMES}, "cost": cost},
        "break_even_calls_per_1000": totals.cost.break_even_calls if totals.cost else None,
        "regret": totals.drops._asdict(),
    }
