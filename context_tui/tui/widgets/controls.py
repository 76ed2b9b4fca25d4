"""What can be set about a policy: one control a pydantic field, with its range, its default and what it means here.

Pure, without Textual. A control is built from the field and the context that is open: the track of a slider ends where
nothing would change any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.measured import measured
from context_tui.tui.widgets.sliders import Scale, number, scale_of

CHAIN = "chain"


class Entry(NamedTuple):
    """Something to tick: its name, and what stands beside it."""

    name: str
    note: str = ""


@dataclass(frozen=True)
class Control:
    """A setting: ``kind`` is number, switch, list (things to tick) or marks (made in the timeline, only shown)."""

    name: str
    kind: str
    about: str
    unit: str
    default: Any
    scale: Scale | None = None
    optional: bool = False
    derived: int | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def label(self) -> str:
        """The name without the policy that a chain puts before it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The policy of a chain that this setting belongs to, or nothing."""
        return self.name.rpartition(".")[0]

    def shown(self, value: Any) -> Any:
        """The number that stands for the value: what is derived where nothing is set."""
        return self.derived if value is None else value

    def range_words(self) -> str:
        """Unit, range and default, in words."""
        if self.scale is None:
            return ""
        unit = f"{self.unit}, " if self.unit else ""
        default = "none" if self.default is None else number(self.default)
        return f"{unit}{number(self.scale.low)} to {number(self.scale.high)}, default {default}"


def controls_of(policy: str, params: BaseModel, context: Context, state: RuntimeState) -> list[Control]:
    """The controls of a policy in the order of its fields; a chain's are followed by those of its policies."""
    if policy != CHAIN:
        return [_control(policy, name, params, context, state) for name in type(params).model_fields]
    others = tuple(Entry(name) for name in POLICIES if name not in (CHAIN, "manual"))
    field = type(params).model_fields["policies"]
    found = [Control("policies", "list", field.description or "", "policies", field.get_default(), entries=others)]
    for name in dict.fromkeys(value_of(params, "policies")):
        if name in POLICIES and name not in (CHAIN, "manual"):
            inner = POLICIES[name].Params(**value_of(params, "options").get(name, {}))
            found += [_control(name, each, inner, context, state, f"{name}.") for each in type(inner).model_fields]
    return found


def value_of(params: BaseModel, name: str) -> Any:
    """The value of a setting; ``POLICY.NAME`` is one of a chain's."""
    owner, _, inner = name.rpartition(".")
    if not owner:
        return getattr(params, name)
    options: Mapping[str, Any] = getattr(params, "options", {}).get(owner, {})
    return options[inner] if inner in options else POLICIES[owner].Params.model_fields[inner].get_default()


def _control(
    policy: str, name: str, params: BaseModel, context: Context, state: RuntimeState, prefix: str = ""
) -> Control:
    field = type(params).model_fields[name]
    extra = field.json_schema_extra
    unit = str(extra.get("unit") or "") if isinstance(extra, dict) else ""
    default, about, full = field.get_default(), field.description or "", prefix + name
    if isinstance(default, bool):
        return Control(full, "switch", about, unit, default)
    if isinstance(default, tuple):
        if unit != "tools":
            return Control(full, "marks", about, unit, default)
        return Control(full, "list", about, unit, default, entries=_tools(context))
    low, high = _bound(field, "ge", 0), _bound(field, "le", max(context.at, 1))
    if unit == "message":
        low, high = min(context.epoch_start, context.at), context.at
    derived = _derived(policy, name, params, context, state)
    relevant = max(relevant_end(unit, name, context, state), derived or 0, value_of(params, name) or 0)
    scale = scale_of(low, high, default if default is not None else derived, relevant, unit)
    return Control(full, "number", about, unit, default, scale, default is None, derived)


def _bound(field: FieldInfo, name: str, fallback: float) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), fallback)


def _derived(policy: str, name: str, params: BaseModel, context: Context, state: RuntimeState) -> int | None:
    """The number that a policy takes where nothing is set."""
    if (policy, name) == ("defect-compact", "threshold"):
        unset = params.model_copy(update={"threshold": None})
        return int(POLICIES[policy].hard(state, unset))  # type: ignore[attr-defined]
    return context.at if (policy, name) == ("manual", "cut") else None


def relevant_end(unit: str, name: str, context: Context, state: RuntimeState) -> int:
    """The value beyond which a setting in this unit changes nothing in this context."""
    sums = measured(context)
    if unit == "turns":
        return len(sums.turn_starts) + 1
    if unit == "results":
        return len(sums.results.block)
    if unit == "messages":
        return len(context)
    if unit == "tokens" and name in ("threshold", "context_budget"):
        return max(state.window.tokens, state.believed)
    if unit == "tokens":
        return _largest(context)[0]
    if unit == "bytes":
        return _largest(context)[1]
    return 3_600 if unit == "seconds" else 0


@lru_cache(maxsize=4)
def _largest(context: Context) -> tuple[int, int]:
    """The largest tool result: in tokens, and in bytes of compact JSON."""
    results = measured(context).results
    return max(results.tokens, default=0), max((context.facts.json_bytes[row] for row in results.block), default=0)


@lru_cache(maxsize=4)
def _tools(context: Context) -> tuple[Entry, ...]:
    """The tools with results in the context and the tokens of these, largest first."""
    facts, results = context.facts, measured(context).results
    tokens: dict[int, int] = {}
    for block, size in zip(results.block, results.tokens, strict=True):
        row = facts.tool[block]
        tokens[row] = tokens.get(row, 0) + size
    named = sorted(((size, facts.tools[row]) for row, size in tokens.items() if row >= 0), key=lambda t: (-t[0], t[1]))
    return tuple(Entry(name, f"{size:,}") for size, name in named)
