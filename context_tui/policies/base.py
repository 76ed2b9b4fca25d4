"""What a policy is: parameters, a trigger, a pure plan, the curve of one parameter, and what else only it knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from context_tui.compaction.plan import KeepReason, Plan, Trigger, VerdictCode
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

ReferenceKind = Literal["", "tools", "policies", "marks", "message"]
"""What the values of a parameter can be names or numbers of."""


class Params(BaseModel):
    """Parameters of a policy: each with a unit, a range and one line about it. Unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
    """A parameter with its default, description, unit and inclusive range.

    Args:
        of_window: a number of tokens that goes up to the size of the whole context, not of one result.
        refers_to: what its values are names or numbers of: ``tools`` or ``policies``, of which a list is ticked,
            ``marks`` that are set in the timeline, or the ``message`` of a number.
        ordered: a list whose order means something, and can be changed.
    """
    flags = {"of_window": of_window, "ordered": ordered}
    extra: dict[str, Any] = {"unit": unit, "refers_to": refers_to, **{name: True for name in flags if flags[name]}}
    return Field(default, description=about, ge=ge, le=le, json_schema_extra=extra)


class Belief(NamedTuple):
    """The size that a runtime believes a context to have: tokens (None: it knows none), and by what."""

    tokens: int | None
    source: str


class Policy(Protocol):
    """A compaction policy: one file with a class like this; :class:`BasePolicy` has all but name and plan.

    Attributes:
        name: its name on the command line, lower case with hyphens.
        about: one line, the runtime first: ``koda: clear aged results``.
        runtime: the program whose rule this is; nothing for one that belongs to none.
        phases: when its runtime looks: before_call, after_tools, user_turn; none for what is done by hand.
        flat_curves: parameters over which tokens after stay the same: only the trigger reads them, or the request for a
            summary.
        needs_trigger: whether its plan is empty where the trigger does not fire.
        nests: the parameter that holds those of other policies by name, so that ``POLICY.KEY`` sets one of them.
        marked: whether its parameters name messages, so that they mean nothing in another session.
        source: where its rule is described, and ``version`` of what; empty where it is a rule of nobody's runtime.
        limits: what it cannot say of its runtime, a sentence each.
        waits_for: the flag (``MessageFlag``) of messages that make a plan change something which changed nothing before
            one of them was appended; 0 where any message may.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    runtime: ClassVar[str]
    phases: ClassVar[frozenset[str]]
    Params: ClassVar[type[Params]]
    flat_curves: ClassVar[frozenset[str]]
    needs_trigger: ClassVar[bool]
    nested_field: ClassVar[str]
    is_session_bound: ClassVar[bool]
    source: ClassVar[str]
    version: ClassVar[str]
    limits: ClassVar[tuple[str, ...]]
    replan_on: ClassVar[int]

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        """Whether the runtime would act at this moment. O(1); looks at no message."""

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """What it would do, whether or not the trigger fires. Reads facts, never text."""

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Tokens after, for each value of the parameter *name*."""

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """The number that it takes for a parameter that is not set; None where there is none."""

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """The value from which on a parameter changes nothing in this context, where that is another than what is said
        by its unit: all turns, all results, the largest of these.
        """

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """What its runtime takes the context's size to be; None where it looks at none."""

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        """Whether it writes its summary in the background where it fires now, while calls go on."""

    def hint(self, context: Context) -> str:
        """What to try where its plan changes nothing, in words; empty where there is nothing to say."""

    def nested_policies(self, params: Any) -> Sequence[str]:
        """Names of the policies that it runs, where it runs others."""

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        """The policies that it is made of with their parameters, in the order in which they run; none: just itself."""


class BasePolicy:
    """What most policies have in common: a curve by planning once for each value, and nothing special besides."""

    runtime: ClassVar[str] = ""
    flat_curves: ClassVar[frozenset[str]] = frozenset()
    needs_trigger: ClassVar[bool] = False
    nested_field: ClassVar[str] = ""
    is_session_bound: ClassVar[bool] = False
    source: ClassVar[str] = ""
    version: ClassVar[str] = ""
    limits: ClassVar[tuple[str, ...]] = ()
    replan_on: ClassVar[int] = 0

    def curve(
        self: Any, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]
    ) -> list[int]:
        """Tokens after by a plan for each value; one plan does for parameters with a flat curve."""
        if name in self.flat_curves:
            return [self.plan(context, params, state).tokens_after] * len(values)
        return [self.plan(context, params.model_copy(update={name: value}), state).tokens_after for value in values]

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """Nothing is derived."""
        return None

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """What its unit says."""
        return None

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """It looks at no size."""
        return None

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        """What it does is done before the next call."""
        return False

    def hint(self, context: Context) -> str:
        """Nothing to say."""
        return ""

    def nested_policies(self, params: Any) -> Sequence[str]:
        """It runs no others."""
        return ()

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        """It is made of no others."""
        return []


def build_empty_plan(policy: str, params: Params, context: Context, trigger: Trigger, reason: str) -> Plan:
    """A plan that changes nothing, for one reason."""
    kept = KeepReason(VerdictCode.NOTHING_TO_DO, reason)
    return Plan(policy, params, context, trigger, reason=reason, keep_reason=lambda position, block: kept)
