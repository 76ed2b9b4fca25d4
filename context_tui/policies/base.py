"""What a policy is: parameters, a trigger, a pure plan, and the curve of one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from context_tui.compaction.plan import Plan, Trigger
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context


class Params(BaseModel):
    """Parameters of a policy: each with a unit, a range and one line about it. Unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def param(default: Any, about: str, unit: str, ge: float | None = None, le: float | None = None) -> Any:
    """A parameter with its default, description, unit and inclusive range."""
    return Field(default, description=about, ge=ge, le=le, json_schema_extra={"unit": unit})


class Policy(Protocol):
    """A compaction policy. ``phases`` says when its runtime looks: before_call, after_tools, user_turn."""

    name: ClassVar[str]
    about: ClassVar[str]
    phases: ClassVar[frozenset[str]]
    Params: ClassVar[type[Params]]

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        """Whether the runtime would act at this moment. O(1); looks at no message."""

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """What it would do, whether or not the trigger fires. Reads facts, never text."""

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Tokens after, for each value of the parameter *name*."""


class LoopCurve:
    """The curve by planning once for each value; parameters that only the trigger reads change no plan."""

    trigger_only: ClassVar[frozenset[str]] = frozenset()

    def curve(
        self: Any, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]
    ) -> list[int]:
        if name in self.trigger_only:
            return [self.plan(context, params, state).tokens_after] * len(values)
        return [self.plan(context, params.model_copy(update={name: value}), state).tokens_after for value in values]


def believed_trigger(state: RuntimeState, threshold: int, what: str) -> Trigger:
    """The trigger of a runtime that acts when what it believes reaches *threshold* tokens."""
    fires = state.believed >= threshold
    says = "has reached" if fires else "is below"
    source = "recorded baseline + estimated delta" if state.recorded else "estimated: no recorded usage in this epoch"
    if state.rewritten:
        source = "estimated: the recorded baseline is forgotten when something is cleared"
    return Trigger(
        fires, f"believed {state.believed:,} {says} {what} = {threshold:,}", state.believed, threshold, source
    )


def nothing(policy: str, params: Params, context: Context, trigger: Trigger, reason: str) -> Plan:
    """A plan that changes nothing, for one reason."""
    return Plan(policy, params, context, trigger, reason=reason, kept=lambda position, block: f"kept: {reason}")
