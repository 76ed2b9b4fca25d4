"""What a setting comes to on a session: one row of a sweep, as an object and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from context_tui.lab.sweep.frontier import ParetoPoint
from context_tui.lab.sweep.settings import SweepSetting

SavingUnit = Literal["tokens", "money"]
"""What saving is counted in."""


@dataclass(frozen=True)
class SettingCost:
    """What the prompts and summarizers of a setting cost, ``without`` any policy, and in what unit."""

    cost: float
    without: float
    unit: str


@dataclass(frozen=True)
class SettingDrops:
    """What a setting took out of the context, and what of it the recorded run used later.

    ``dropped`` are blocks and ``tokens_dropped`` their estimated tokens (``bytes/4``). The rest is None where it was
    not looked for; ``by_tier`` are blocks used later, by the tier of their use.
    """

    dropped: int
    tokens_dropped: int
    used_later: int | None = None
    tokens_used_later: int | None = None
    by_tier: Mapping[str, int] | None = None


@dataclass(frozen=True)
class SweepRow:
    """A setting on a session. All sizes are tokens.

    Attributes:
        session: its path, with ``#ID`` where the file holds several.
        project: the folder that the agent worked in, else that of the file.
        setting: the name of the setting (:class:`context_tui.lab.sweep.settings.ReplayKey`).
        policy, params: the same as data.
        calls: calls to the model, ``firings`` what the policy did.
        sent, saved, peak, overflows: the totals of the replay; ``without`` what is sent without a policy.
        lost: what was dropped; ``cost`` what it costs, None where it was not priced.
        dominated_by: the setting that beats this one on this session; None: none does.
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
        """The same for another setting that does the same."""
        return replace(self, setting=setting.name, policy=setting.policy.name, params=setting.param_values)

    def compute_point(self, saving_unit: SavingUnit) -> ParetoPoint:
        """Saving against regret: tokens that were used later, or where that was not looked for, all dropped ones."""
        used = self.drops.tokens_used_later
        saved = self.saved if saving_unit == "tokens" else self.cost.without - self.cost.cost if self.cost else 0.0
        return ParetoPoint(saved, self.drops.tokens_dropped if used is None else used)


def build_row_report(row: SweepRow) -> dict[str, Any]:
    """A row as JSON-ready data (schema ``context-tui.sweep/1``)."""
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
    """The row of what :func:`build_row_report` made.

    Raises:
        KeyError, TypeError, ValueError: it is no such thing.
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
    """A row as columns of a table: texts and numbers only; those of the parameters are ``params.NAME``."""
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
