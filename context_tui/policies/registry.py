"""The policies there are, by name: built-in ones are imported when they are asked for, and packages add others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from logging import getLogger
from typing import Any, ParamSpec, TypeVar, cast

from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.verdicts import Code, Kept
from context_tui.errors import PlanError
from context_tui.plugins import Broken, load
from context_tui.policies.base import Belief, Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context

P = ParamSpec("P")
T = TypeVar("T")

GROUP = "context_tui.policies"
"""The entry points by which packages add policies: ``NAME = "module:Class"``."""

BUILT_IN = {
    "defect-microcompact": "defect_microcompact:DefectMicrocompact",
    "defect-compact": "defect_compact:DefectCompact",
    "koda-microcompact": "koda_microcompact:KodaMicrocompact",
    "agent-sdk-prune": "agent_sdk_prune:AgentSdkPrune",
    "agent-sdk-compact": "agent_sdk_compact:AgentSdkCompact",
    "manual": "manual:Manual",
    "chain": "chain:Chain",
}
"""Where the policies are that come with the program, in the order in which they are listed."""

DEFAULT, MANUAL = "defect-microcompact", "manual"
"""The policy to begin with, and the one that marks set by hand go to."""


class Policies(Mapping[str, Policy]):
    """Policies by name, built-in ones first; these are imported, and packages looked at, when they are asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Policy] = {}

    @cached_property
    def _added(self) -> tuple[dict[str, Policy], list[Broken]]:
        found, broken = load(GROUP, BUILT_IN, _wrong_with)
        for each in broken:
            getLogger(__name__).warning("policy %s", each)  # on stderr, where nobody has said otherwise
        return {name: cast(Policy, Guarded(policy)) for name, policy in found.items()}, broken

    @property
    def broken(self) -> list[Broken]:
        """What packages declare and cannot be used; told on stderr once."""
        return self._added[1]

    def __getitem__(self, name: str) -> Policy:
        if name in BUILT_IN:
            if name not in self._made:
                module, _, kind = BUILT_IN[name].partition(":")
                self._made[name] = getattr(import_module(f"context_tui.policies.{module}"), kind)()
            return self._made[name]
        return self._added[0][name]

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._added[0]

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from self._added[0]

    def __len__(self) -> int:
        return len(BUILT_IN) + len(self._added[0])


def _wrong_with(name: str, policy: Any) -> str:
    """What keeps a loaded object from being the policy of this name; empty when nothing does."""
    missing = [each for each in _MEMBERS if not hasattr(policy, each)]
    if missing:
        return f"it has no {', '.join(missing)}"
    if policy.name != name:
        return f"it calls itself {policy.name!r}"
    if not (isinstance(policy.Params, type) and issubclass(policy.Params, Params)):
        return "its Params is no class of policies.base.Params"
    policy.Params()
    return ""


_MEMBERS = tuple(name for name in (*Policy.__annotations__, *vars(Policy)) if not name.startswith("_"))


class Guarded:
    """A policy of another package: what goes wrong in it is an error of the policy, in one line."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def trigger(self, state: RuntimeState, params: Any) -> Trigger:
        """Its trigger."""
        return self._of(Trigger, "trigger", self._safely(self._policy.trigger, state, params))

    def plan(self, context: Context, params: Any, state: RuntimeState) -> Plan:
        """Its plan."""
        plan = self._of(Plan, "plan", self._safely(self._policy.plan, context, params, state))
        self._of(Trigger, "trigger", plan.trigger)
        return replace(plan, kept=lambda position, block: self._kept(plan, position, block))

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Its curve."""
        return self._safely(self._policy.curve, context, params, state, name, values)

    def derived(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """What it derives; nothing where that fails."""
        return self._quietly(self._policy.derived, name, params, context, state)

    def believed(self, state: RuntimeState) -> Belief | None:
        """What it believes; nothing where that fails."""
        return self._quietly(self._policy.believed, state)

    def hint(self, context: Context) -> str:
        """Its hint; nothing where that fails."""
        return self._quietly(self._policy.hint, context) or ""

    def _kept(self, plan: Plan, position: int, block: int | None) -> Kept:
        """Why something is kept; this is asked while the screen is drawn, where nothing may fail."""
        try:
            return self._safely(plan.kept, position, block)
        except PlanError as error:
            return Kept(Code.KEPT, str(error))

    def _of(self, kind: type[T], what: str, answer: object) -> T:
        if not isinstance(answer, kind):
            words = f"its {what} is {type(answer).__name__}, not a {kind.__name__}"
            raise PlanError(f"policy {self._policy.name} failed: {words}")
        return answer

    def _quietly(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return self._safely(ask, *args, **kwargs)
        except PlanError:
            return None

    def _safely(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return ask(*args, **kwargs)
        except PlanError:
            raise
        except Exception as error:
            raise PlanError(f"policy {self._policy.name} failed: {type(error).__name__}: {error}") from error


POLICIES = Policies()


def policy_named(name: str) -> Policy:
    """The policy of this name.

    Raises:
        PlanError: there is none; the message names the nearest.
    """
    if name in POLICIES:
        return POLICIES[name]
    near = get_close_matches(name, POLICIES, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(POLICIES)}"
    raise PlanError(f"no policy {name!r}: {hint}")


def runtimes() -> dict[str, Policy]:
    """The runtimes whose rules there are, each with one of its policies, which says what size it believes."""
    found: dict[str, Policy] = {}
    for policy in POLICIES.values():
        if policy.runtime:
            found.setdefault(policy.runtime, policy)
    return found
