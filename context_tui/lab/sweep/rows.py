"""Row of a sweep: the result of one setting on one session, as an object and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from context_tui.lab.sweep.frontier import ParetoPoint
from context_tui.lab.sweep.settings import SweepSetting

SavingUnit = Literal["tokens", "money"]
"""Unit of savings."""


@dataclass(frozen=True)
class SettingCost:
    """Cost of the prompts and summarizers of a setting, and ``without`` any policy, in ``unit``."""

    cost: float
    without: float
    unit: str


@dataclass(frozen=True)
class SettingDrops:
    """Content that a setting removed from the context, and how much of it the recorded run needed later.

    ``dropped`` counts blocks, ``tokens_dropped`` their estimated tokens (``bytes/4``). The other members are None
    where regret was not computed; ``by_tier`` counts blocks needed later by the tier of their use.
    """

    dropped: int
    tokens_dropped: int
    used_later: int | None = None
    tokens_used_later: int | None = None
    by_tier: Mapping[str, int] | None = None


@dataclass(frozen=True)
class SweepRow:
    """Setting on a session. All sizes are tokens.

    Attributes:
        session: its path, with ``#ID`` where the file holds several.
        project: working folder of the agent, else folder of the file.
        setting: name of the setting (:class:`context_tui.lab.sweep.settings.SweepSetting`).
        policy, params: the setting as data.
        calls: calls to the model; ``firings`` counts the changes by the policy.
        sent, saved, peak, overflows: totals of the replay; ``without`` is what is sent without a policy.
        drops: removed content; ``cost`` is None where it was not priced.
        dominated_by: setting that dominates this one on this session, if any.
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

    def copy_for(self, setting: SweepSetting) -> SweepRow:
        """Copy the row for another setting that decides the same."""
        return replace(self, setting=setting.name, policy=setting.policy.name, params=setting.param_values)

    def compute_point(self, saving_unit: SavingUnit) -> ParetoPoint:
        """Return saving and regret: tokens needed later or, where regret was not computed, all dropped tokens."""
        used_tokens = self.drops.tokens_used_later
        saved = self.saved if saving_unit == "tokens" else self.cost.without - self.cost.cost if self.cost else 0.0
        return ParetoPoint(saved, self.drops.tokens_dropped if used_tokens is None else used_tokens)


def build_row_report(row: SweepRow) -> dict[str, Any]:
    """Build the JSON form of a row (schema ``context-tui.sweep/1``)."""
    return {
        "session": row.session,
        "project": row.project,
        "setting": row.setting,
        "policy": row.policy,
        "params": row.params,
        "calls": row.calls,
        "firings": row.firings,
        "totals": {
            "sent": row.sent,
            "saved": row.saved,
            "peak": row.peak,
            "overflows": row.overflows,
            "without": row.without,
            "cost": None if row.cost is None else {**vars(row.cost)},
        },
        "regret": {**vars(row.drops)},
        "dominated_by": row.dominated_by,
    }


def parse_row_report(report: Mapping[str, Any]) -> SweepRow:
    """Parse the JSON form of a row.

    Raises:
        KeyError, TypeError, ValueError: the report is not a row.
    """
    totals = dict(report["totals"])
    cost = totals.pop("cost")
    return SweepRow(
        **{key: report[key] for key in ("session", "project", "setting", "policy", "params", "calls", "firings")},
        **totals,
        drops=SettingDrops(**report["regret"]),
        cost=None if cost is None else SettingCost(**cost),
        dominated_by=report["dominated_by"],
    )


def flatten_row(row: SweepRow) -> dict[str, Any]:
    """Flatten a row to table columns of texts and numbers; parameters become ``params.NAME``."""
    report = build_row_report(row)
    totals, regret = report.pop("totals"), report.pop("regret")
    cost, tiers = totals.pop("cost") or {}, regret.pop("by_tier") or {}
    params = report.pop("params")
    return {
        **report,
        **totals,
        **{f"cost.{name}": cost.get(name) for name in ("cost", "without", "unit")},
        **{f"regret.{name}": value for name, value in regret.items()},
        **{f"regret.{name}": value for name, value in tiers.items()},
        **{f"params.{name}": value if _is_scalar(value) else str(value) for name, value in params.items()},
    }


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
