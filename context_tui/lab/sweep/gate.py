"""Gate for continuous integration, which limits what a change of settings may cost on a set of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.sweep.results import Sweep, Totals, compute_totals
from context_tui.text.numbers import format_count

LIMIT_LABELS = {
    "sent": "tokens sent",
    "cost": "cost",
    "peak": "largest context",
    "regret": "tokens needed later",
    "overflows": "calls over the window",
    "saved": "tokens saved",
    "min_break_even": "extra calls per 1,000 removed tokens at which the saving is gone",
}
"""The measures that can be limited, by name.

Limits on ``sent``, ``cost`` and ``peak`` are on the increase relative to the old setting: 0.02 allows two percent more.
Those on ``regret`` and ``overflows`` are on the absolute increase. ``saved`` is the minimum share of the tokens sent
without a policy that must be saved, and ``min_break_even`` a minimum, too.
"""
MINIMUM_LIMITS = ("saved", "min_break_even")


class RequiredEvidence(NamedTuple):
    """The evidence that a gate needs before it decides.

    ``min_firings`` counts the firings of the setting that fires more often, ``min_sessions`` the sessions in which it
    fires, and ``max_unread`` the sessions that could not be read; None if any number is allowed.
    """

    min_firings: int = 1
    min_sessions: int = 1
    max_unread: int | None = None


class Gate(NamedTuple):
    """Names of an old and a new setting, and limits on the change in total (``all``) and in each session (``each``)."""

    old_setting: str
    new_setting: str
    all: Mapping[str, float]
    each: Mapping[str, float]
    evidence: RequiredEvidence = RequiredEvidence()


class LimitCheck(NamedTuple):
    """The check of one limit, with the values for both settings; ``session`` is empty for the total."""

    session: str
    limit: str
    old: float
    new: float
    allowed: float
    kept: bool

    def __str__(self) -> str:
        """Return the violation of the limit, in a sentence."""
        session = self.session or "all sessions"
        bound = "at least" if self.limit in MINIMUM_LIMITS else "at most"
        allowed = f"allowed: {bound} {_format_number(self.allowed)}"
        return f"{session}: {LIMIT_LABELS[self.limit]}: {_format_change(self.old, self.new)}; {allowed}"


def _format_change(old: float, new: float) -> str:
    return f"{_format_number(new)}, was {_format_number(old)}"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:,.4f}"


def parse_gate(tables: Mapping[str, Any]) -> Gate:
    """Parse a gate from TOML tables, raising PlanError if a value is missing, unknown or not a number."""
    unknown = set(tables) - {"old", "new", "limits"}
    if unknown:
        raise PlanError(f"{min(unknown)}: unknown key; a gate has old, new and [limits]")
    for name in ("old", "new"):
        if not isinstance(tables.get(name), str):
            raise PlanError(f'{name} is missing; write {name} = "POLICY KEY=VALUE"')
    limits = tables.get("limits", {})
    if not isinstance(limits, Mapping) or not limits:
        raise PlanError("limits are missing; write [limits], and one such as regret = 0 below it")
    session_limits = _parse_limits("limits.session", limits.get("session", {}))
    evidence = {name: limits[name] for name in RequiredEvidence._fields if name in limits}
    for name, value in evidence.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise PlanError(f"limits.{name} must be a whole number, 0 or more")
    total_limits = {name: value for name, value in limits.items() if name != "session" and name not in evidence}
    total = _parse_limits("limits", total_limits, RequiredEvidence._fields)
    return Gate(tables["old"], tables["new"], total, session_limits, RequiredEvidence(**evidence))


def _parse_limits(name: str, table: Any, other_names: Sequence[str] = ()) -> Mapping[str, float]:
    names = [*LIMIT_LABELS, *other_names]
    if not isinstance(table, Mapping):
        raise PlanError(f"{name} must be a table; write [{name}]")
    for key, value in table.items():
        if key not in names:
            raise PlanError(f"{name}.{key}: unknown limit; available: {', '.join(names)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PlanError(f"{name}.{key} must be a number")
    return table


def find_missing_evidence(gate: Gate, sweep: Sweep) -> list[str]:
    """Return a sentence for each kind of evidence that the sessions lack, or an empty list if it suffices."""
    old, new = sweep.totals[gate.old_setting], sweep.totals[gate.new_setting]
    firings, sessions = max(old.firings, new.firings), max(old.fired_in, new.fired_in)
    evidence, missing = gate.evidence, list[str]()
    if firings < evidence.min_firings:
        missing.append(f"{format_count(firings, 'firing')}; min_firings is {evidence.min_firings:,}")
    if sessions < evidence.min_sessions:
        count = f"{format_count(sessions, 'session')} of {len(sweep.rows_by_session):,}"
        missing.append(f"a setting fires in {count}; min_sessions is {evidence.min_sessions:,}")
    if evidence.max_unread is not None and len(sweep.unread) > evidence.max_unread:
        count = format_count(len(sweep.unread), "session")
        missing.append(f"{count} could not be read; max_unread is {evidence.max_unread:,}")
    return missing


def build_gate_report(gate: Gate, sweep: Sweep) -> dict[str, Any]:
    """Build the JSON form of a gate's result.

    ``kept`` is None if no limit is exceeded but there is too little evidence.
    """
    checks, missing = check_limits(gate, sweep), find_missing_evidence(gate, sweep)
    limits = []
    for each in checks:
        values = {"limit": each.allowed, "value": each.new, "old": each.old, "kept": each.kept}
        limits.append({"name": each.limit, "session": each.session or None, **values})
    is_kept = all(each.kept for each in checks)
    kept = None if is_kept and missing else is_kept
    return {"old": gate.old_setting, "new": gate.new_setting, "kept": kept, "limits": limits, "missing": missing}


def check_limits(gate: Gate, sweep: Sweep) -> list[LimitCheck]:
    """Compare the values for both settings with each limit, for all sessions together and then for each session.

    Raises PlanError if the value of a limit is unknown: the cost has no price, or regret was not computed.
    """
    checks = list(_check_limits("", gate.all, sweep.totals[gate.old_setting], sweep.totals[gate.new_setting]))
    for session, rows in sorted(sweep.rows_by_session.items()):
        by_name = {row.setting: compute_totals([row], sweep.cost_unit) for row in rows}
        checks += _check_limits(session, gate.each, by_name[gate.old_setting], by_name[gate.new_setting])
    return checks


def list_worse_sessions(case: LimitCheck, gate: Gate, sweep: Sweep) -> list[str]:
    """List the sessions in which the new setting is worse in the measure of *case*, the largest difference first."""
    worse = []
    for session, rows in sweep.rows_by_session.items():
        by_name = {row.setting: compute_totals([row], sweep.cost_unit) for row in rows}
        old = _find_limit_value(case.limit, by_name[gate.old_setting])
        new = _find_limit_value(case.limit, by_name[gate.new_setting])
        if old is not None and new is not None and (new < old if case.limit in MINIMUM_LIMITS else new > old):
            worse.append((-abs(new - old), session, _format_change(old, new)))
    return [f"{session}: {change}" for _, session, change in sorted(worse)]


def _check_limits(session: str, limits: Mapping[str, float], old: Totals, new: Totals) -> Iterator[LimitCheck]:
    for limit in (label for label in LIMIT_LABELS if label in limits):
        allowed = limits[limit]
        if limit == "min_break_even" and new.cost and new.cost.break_even_calls is None:
            continue  # nothing was removed
        old_value, new_value = _get_limit_value(limit, old), _get_limit_value(limit, new)
        if limit in MINIMUM_LIMITS:
            bound = allowed * new.without if limit == "saved" else allowed
            kept = new_value >= bound
        else:
            bound = old_value + allowed if limit in ("regret", "overflows") else old_value * (1 + allowed)
            kept = new_value <= bound
        yield LimitCheck(session, limit, old_value, new_value, bound, kept)


def _get_limit_value(limit: str, totals: Totals) -> float:
    value = _find_limit_value(limit, totals)
    if value is None:
        raise PlanError(f"{LIMIT_LABELS[limit]} of {totals.setting} are unknown; omit the limit or --quick")
    return value


def _find_limit_value(limit: str, totals: Totals) -> float | None:
    if limit == "min_break_even":
        return None if totals.cost is None else totals.cost.break_even_calls or 0.0
    if limit == "cost":
        return None if totals.cost is None else totals.cost.cost
    value: float | None = totals.drops.tokens_used_later if limit == "regret" else getattr(totals, limit)
    return value
