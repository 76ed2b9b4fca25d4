"""Interface of a compaction policy: its parameters, its trigger, and the plan that it makes without side effects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from context_tui.compaction.plan import KeepReason, Plan, Trigger, VerdictCode
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

PHASES = ("before_call", "after_tools", "user_turn")
"""Names of the moments at which a runtime may check its trigger."""
ReferenceKind = Literal["", "tools", "policies", "marks", "message"]
"""Kind of object to which the values of a parameter refer."""


def parse_names(value: Any) -> Any:
    """Parse a comma-separated or JSON list of names into a tuple, and return any other value unchanged."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        with suppress(ValueError, RecursionError):
            return tuple(json.loads(value))
    return tuple(name.strip() for name in value.split(",") if name.strip())


class Params(BaseModel):
    """Base class for the parameters of a policy; names that are not fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _parse_list(cls, value: Any, info: ValidationInfo) -> Any:
        is_list = cls.model_fields[info.field_name or ""].annotation == tuple[str, ...]
        return parse_names(value) if is_list else value


def param(
    default: Any,
    about: str,
    unit: str,
    ge: float | None = None,
    le: float | None = None,
    *,
    of_window: bool = False,
    refers_to: ReferenceKind = "",
    ordered: bool = False,
) -> Any:
    """Declare a parameter of a policy with its default, description, unit and inclusive bounds.

    Args:
        of_window: whether the slider of a token parameter ends at the size of the context, not of the largest result.
        refers_to: ``tools`` or ``policies`` for a list of names, ``marks`` for marks in the timeline, ``message`` for
            the number of a message.
        ordered: whether the order of a list matters.
    """
    flags = {"of_window": of_window, "ordered": ordered}
    extra: dict[str, Any] = {"unit": unit, "refers_to": refers_to, **{name: True for name in flags if flags[name]}}
    return Field(default, description=about, ge=ge, le=le, json_schema_extra=extra)


def token_param(default: Any, about: str, ge: int = 0, le: int = 10_000_000) -> Any:
    """Declare a parameter in tokens whose slider ends at the size of the context."""
    return param(default, about, "tokens", ge, le, of_window=True)


class Belief(NamedTuple):
    """The size in tokens that a runtime computes for its context, or None if unknown, and how it is computed."""

    tokens: int | None
    source: str


class Policy(Protocol):
    """A rule by which a runtime compacts. All members but name, about, phases, Params, trigger and plan have defaults.

    Attributes:
        name: name on the command line, in lower case with hyphens.
        about: description in one line that begins with the runtime: ``koda: clear aged results``.
        runtime: the agent program that uses this policy, or empty; it owns the sessions of a format of that name.
        kind: what the policy does as an agent's own: ``full`` compactions, or ``micro`` ones if it only clears.
        phases: when the runtime checks the trigger (before_call, after_tools, user_turn); empty if applied by hand.
        flat_curves: parameters that change only the trigger or the summary request, never the tokens after a plan.
        needs_trigger: whether the plan is empty unless the trigger fires.
        replan_on: the ``MessageFlag`` of messages after which a plan without changes is computed again; 0 for any.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    runtime: ClassVar[str] = ""
    kind: ClassVar[str] = "full"
    phases: ClassVar[frozenset[str]]
    Params: ClassVar[type[Params]]
    flat_curves: ClassVar[frozenset[str]] = frozenset()
    needs_trigger: ClassVar[bool] = False
    replan_on: ClassVar[int] = 0

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        """Decide in constant time whether the runtime would compact now."""

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """Plan the changes to the context, whether or not the trigger fires, without reading any text from the file."""

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Return the size of the context in tokens after a plan for each value of the parameter *name*."""
        if name in self.flat_curves:
            return [self.plan(context, params, state).tokens_after] * len(values)
        return [self.plan(context, params.model_copy(update={name: value}), state).tokens_after for value in values]

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """Return the number that the policy uses while the parameter *name* is not set, or None if there is none."""
        return None

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """Return the value above which the parameter changes nothing here, or None if only its unit sets the limit."""
        return None

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """Return the size that the runtime would compute for its context, or None if it computes none."""
        return None

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        """Return whether the policy, if it fires in this state, summarises in the background while calls continue."""
        return False

    def hint(self, context: Context) -> str:
        """Return advice for the user if the policy can change little in this context, or an empty string."""
        return ""

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        """Return the policies that this policy runs, with their parameters, in order; empty if it runs none."""
        return []


class BasePolicy(Policy):
    """Base class for policies, with the defaults of :class:`Policy`."""


def get_bounds(field: FieldInfo) -> tuple[Any, Any]:
    """Return the inclusive lower and upper bound of a field, each None if it is not set."""
    low, high = (next((getattr(m, end) for m in field.metadata if hasattr(m, end)), None) for end in ("ge", "le"))
    return low, high


@cache
def _find_references(params: type[BaseModel]) -> Mapping[str, str]:
    """Map each parameter to its :data:`ReferenceKind`, or to ``options`` if it holds settings of other policies."""
    references = {}
    for name, field in params.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        references[name] = "options" if isinstance(field.get_default(), Mapping) else str(extra.get("refers_to") or "")
    return references


def is_session_bound(policy: Policy) -> bool:
    """Return whether any parameter of the policy names messages or blocks, so that its value fits one session only."""
    return not {"marks", "message"}.isdisjoint(_find_references(policy.Params).values())


def find_nested_field(policy: Policy) -> str:
    """Return the name of the parameter that holds the parameters of other policies, or an empty string."""
    return next((name for name, kind in _find_references(policy.Params).items() if kind == "options"), "")


def list_nested_policies(policy: Policy, params: BaseModel) -> Sequence[str]:
    """List the names of the policies that this policy would run with these parameters."""
    if not find_nested_field(policy):
        return ()
    lists = (getattr(params, name) for name, kind in _find_references(policy.Params).items() if kind == "policies")
    return list(chain.from_iterable(lists))


def explain_few_turns(count: int, keep: int) -> str:
    """Explain that nothing can be compacted because the context has *count* turns and the last *keep* are kept."""
    counts = {0: "no turn starts in this context", 1: "only one turn"}
    return f"{counts.get(count, f'only {count:,} turns')}, and the last {keep:,} are kept"


def build_empty_plan(policy: str, params: Params, context: Context, trigger: Trigger, reason: str) -> Plan:
    """Build a plan that changes nothing and states *reason* for every message and block."""
    keep_reason = KeepReason(VerdictCode.NOTHING_TO_DO, reason)
    return Plan(policy, params, context, trigger, reason=reason, keep_reason=lambda position, block: keep_reason)


class ClearingRule(NamedTuple):
    """A rule that clears large tool results in older turns.

    A policy with this rule acts before a call, once the last recorded size plus an estimate of later messages reaches
    ``window_share`` of the context window. It replaces with ``placeholder`` every tool result that is larger than
    ``min_clear_tokens``, precedes the last ``keep_recent_turns`` turns, and is not cleared yet. ``assumed_window`` is
    the window in tokens that the runtime assumes if the actual window is unknown.
    """

    keep_recent_turns: int
    min_clear_tokens: int
    window_share: float
    assumed_window: int
    placeholder: str


@runtime_checkable
class HasClearingRule(Protocol):
    """A policy whose trigger and plan a :class:`ClearingRule` describes completely."""

    def clearing_rule(self, params: Any) -> ClearingRule:
        """Return the rule that the policy applies with these parameters."""
