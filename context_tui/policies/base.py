"""Protocol of a policy: parameters, a trigger, a pure plan, and the curve of one parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

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
    """Return a parameter with its default, description, unit and inclusive range.

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
    """Size that a runtime believes a context to have: tokens (None: unknown), and its source."""

    tokens: int | None
    source: str


class Policy(Protocol):
    """Compaction policy: one file with a class like this; :class:`BasePolicy` has defaults for all but name and plan.

    Attributes:
        name: its name on the command line, lower case with hyphens.
        about: one line, the runtime first: ``koda: clear aged results``.
        runtime: the program whose rule this is; empty if none.
        phases: when its runtime checks the trigger: before_call, after_tools, user_turn; empty if it is applied by
            hand.
        flat_curves: parameters that do not change the tokens after a plan: only the trigger or the summary request
            reads them.
        needs_trigger: whether its plan is empty unless the trigger fires.
        replan_on: message flag (``MessageFlag``) that can make an empty plan change something once such a message is
            appended; 0 for any message.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    runtime: ClassVar[str]
    phases: ClassVar[frozenset[str]]
    Params: ClassVar[type[Params]]
    flat_curves: ClassVar[frozenset[str]]
    needs_trigger: ClassVar[bool]
    replan_on: ClassVar[int]

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        """Decide whether the runtime would act at this moment. O(1); reads no message."""

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """Plan the changes, whether or not the trigger fires. Reads facts, never text."""

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Tokens after, for each value of the parameter *name*."""

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """Return the number that the policy uses for a parameter that is not set; None where there is none."""

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """Return the value from which on a parameter changes nothing in this context, where it differs from the default
        for its unit: all turns, all results, the largest result.
        """

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """Return the size that its runtime believes the context to have; None where it considers none."""

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        """Return whether the policy, firing now, writes its summary in the background while calls go on."""

    def hint(self, context: Context) -> str:
        """Suggest what to try where the plan changes nothing; empty where there is no advice."""

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        """Return the policies that this one consists of with their parameters, in order; none: just itself."""


class BasePolicy:
    """Defaults of optional members: a curve by planning once for each value, and no special behaviour."""

    runtime: ClassVar[str] = ""
    flat_curves: ClassVar[frozenset[str]] = frozenset()
    needs_trigger: ClassVar[bool] = False
    replan_on: ClassVar[int] = 0

    def curve(
        self: Any, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]
    ) -> list[int]:
        """Tokens after by a plan for each value; one plan does for parameters with a flat curve."""
        if name in self.flat_curves:
            return [self.plan(context, params, state).tokens_after] * len(values)
        return [self.plan(context, params.model_copy(update={name: value}), state).tokens_after for value in values]

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """Return None: nothing is implied."""
        return None

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """Return None: the unit decides."""
        return None

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """Return None: the policy considers no size."""
        return None

    def runs_in_background(self, state: RuntimeState, params: Any) -> bool:
        """Return False: the work is done before the next call."""
        return False

    def hint(self, context: Context) -> str:
        """Return no hint."""
        return ""

    def steps(self, params: Any) -> Sequence[tuple[Policy, Any]]:
        """Return no steps."""
        return []


def get_bounds(field: FieldInfo) -> tuple[Any, Any]:
    """Return the inclusive bounds of a field; None without one."""
    low, high = (next((getattr(m, end) for m in field.metadata if hasattr(m, end)), None) for end in ("ge", "le"))
    return low, high


@cache
def _find_references(params: type[BaseModel]) -> Mapping[str, str]:
    """Return by parameter what its values refer to; ``options`` for the settings of other policies by name."""
    references = {}
    for name, field in params.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        references[name] = "options" if isinstance(field.get_default(), Mapping) else str(extra.get("refers_to") or "")
    return references


def is_session_bound(policy: Policy) -> bool:
    """Return whether parameters of a policy name messages, so that they mean nothing in another session."""
    return not {"marks", "message"}.isdisjoint(_find_references(policy.Params).values())


def find_nested_field(policy: Policy) -> str:
    """Return the parameter that holds those of other policies by name (``POLICY.KEY`` sets one); empty for none."""
    return next((name for name, kind in _find_references(policy.Params).items() if kind == "options"), "")


def list_nested_policies(policy: Policy, params: BaseModel) -> Sequence[str]:
    """List the names of the policies that a policy runs with these parameters; none where it runs no others."""
    if not find_nested_field(policy):
        return ()
    listed = (name for name, kind in _find_references(policy.Params).items() if kind == "policies")
    return [each for name in listed for each in getattr(params, name)]


def explain_few_turns(count: int, keep: int) -> str:
    """Explain why nothing precedes the protected turns."""
    counts = {0: "no turn starts in this context", 1: "only one turn"}
    return f"{counts.get(count, f'only {count:,} turns')}, and the last {keep:,} are kept"


def build_empty_plan(policy: str, params: Params, context: Context, trigger: Trigger, reason: str) -> Plan:
    """Return a plan that changes nothing, for one reason."""
    keep_reason = KeepReason(VerdictCode.NOTHING_TO_DO, reason)
    return Plan(policy, params, context, trigger, reason=reason, keep_reason=lambda position, block: keep_reason)
