"""A gate for CI: whether a change of settings costs, sends or regrets more than is allowed on given sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from context_tui.errors import PlanError
from context_tui.lab.sweep.results import Sweep, Whole, whole


@dataclass(frozen=True)
class Limits:
    """What a change may do at most; None: anything.

    ``sent``, ``cost`` and ``peak`` are shares of what the old setting has: 0.02 allows two percent more. ``regret`` are
    tokens used later, and ``overflows`` calls over the window, more than with the old setting. ``saved`` is the least
    share of what is sent without a policy that must be saved.
    """

    sent: float | None = None
    cost: float | None = None
    peak: float | None = None
    regret: float | None = None
    overflows: float | None = None
    saved: float | None = None


@dataclass(frozen=True)
class Gate:
    """Two settings by name, and what the change from one to the other may do: in all, and on each session."""

    old: str
    new: str
    all: Limits
    each: Limits


@dataclass(frozen=True)
class Case:
    """A limit that is not kept: ``session`` is empty for all together."""

    session: str
    limit: str
    old: float
    new: float
    allowed: float

    def __str__(self) -> str:
        where = self.session or "all sessions"
        bound = "at least" if self.limit == "saved" else "at most"
        allowed = f"allowed: {bound} {_number(self.allowed)}"
        return f"{where}: {WORDS[self.limit]}: {_number(self.new)}, was {_number(self.old)}; {allowed}"


class Worse(NamedTuple):
    """A session behind a limit that all together do not keep, with its own numbers."""

    session: str
    old: float
    new: float

    def __str__(self) -> str:
        return f"{self.session}: {_number(self.new)}, was {_number(self.old)}"


WORDS = {
    "sent": "tokens sent",
    "cost": "cost",
    "peak": "largest context",
    "regret": "tokens used later",
    "overflows": "calls over the window",
    "saved": "tokens saved",
}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:,.4f}"


def gate_of(tables: Mapping[str, Any]) -> Gate:
    """The gate of a TOML file's tables: ``old``, ``new``, ``[limits]`` and ``[limits.session]``.

    Raises:
        PlanError: something is missing, unknown or no number; the message says which.
    """
    unknown = set(tables) - {"old", "new", "limits"}
    if unknown:
        raise PlanError(f"{min(unknown)}: unknown; a gate has old, new and [limits]")
    for name in ("old", "new"):
        if not isinstance(tables.get(name), str):
            raise PlanError(f'{name} is missing; write {name} = "POLICY KEY=VALUE"')
    limits = tables.get("limits", {})
    if not isinstance(limits, Mapping) or not limits:
        raise PlanError("limits are missing; write [limits], and one such as regret = 0 below it")
    given = dict(limits)
    each = given.pop("session", {})
    return Gate(tables["old"], tables["new"], _limits("limits", given), _limits("limits.session", each))


def _limits(name: str, table: Any) -> Limits:
    known = [field.name for field in fields(Limits)]
    if not isinstance(table, Mapping):
        raise PlanError(f"{name} must be a table; write [{name}]")
    for key, value in table.items():
        if key not in known:
            raise PlanError(f"{name}.{key}: unknown limit; available: {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PlanError(f"{name}.{key} must be a number")
    return Limits(**table)


def cases(gate: Gate, found: Sweep) -> list[Case]:
    """The limits that the change does not keep.

    Raises:
        PlanError: a limit is about what is not known: a cost without a price, or regret that was not looked for.
    """
    result = _cases("", gate.all, found.whole[gate.old], found.whole[gate.new])
    for session, rows in sorted(found.by_session.items()):
        by_name = {row.setting: whole([row], found.unit) for row in rows}
        result += _cases(session, gate.each, by_name[gate.old], by_name[gate.new])
    return result


def behind(case: Case, gate: Gate, found: Sweep) -> list[Worse]:
    """The sessions that make *case* of all together: those on which the change does worse, by how much, most first."""
    worse = list[Worse]()
    for session, rows in found.by_session.items():
        by_name = {row.setting: whole([row], found.unit) for row in rows}
        old, new = _known(case.limit, by_name[gate.old]), _known(case.limit, by_name[gate.new])
        if old is not None and new is not None and (new < old if case.limit == "saved" else new > old):
            worse.append(Worse(session, old, new))
    return sorted(worse, key=lambda each: (-abs(each.new - each.old), each.session))


def _cases(session: str, limits: Limits, old: Whole, new: Whole) -> list[Case]:
    found: list[Case] = []
    for limit in (field.name for field in fields(Limits)):
        allowed = getattr(limits, limit)
        if allowed is None:
            continue
        was, now = _value(limit, old), _value(limit, new)
        if limit == "saved":
            most = allowed * new.without
            bad = now < most
        else:
            most = was + allowed if limit in ("regret", "overflows") else was * (1 + allowed)
            bad = now > most
        if bad:
            found.append(Case(session, limit, was, now, most))
    return found


def _value(limit: str, each: Whole) -> float:
    value = _known(limit, each)
    if value is None:
        raise PlanError(f"{WORDS[limit]} of {each.setting} are not known; leave the limit out, or --quick")
    return value


def _known(limit: str, each: Whole) -> float | None:
    values: dict[str, float | None] = {
        "sent": each.sent,
        "cost": None if each.cost is None else each.cost.cost,
        "peak": each.peak,
        "regret": each.lost.tokens_used_later,
        "overflows": each.overflows,
        "saved": each.saved,
    }
    return values[limit]
