"""Policy that runs several policies in order, each on the result of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import BasePolicy, Policy, param
from context_tui.policies.base import Params as BaseParams
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.steps import combine_step_triggers, is_any_step_in_background, plan_steps
from context_tui.session.context import Context
from context_tui.tokens.context_index import index_context


class ChainParams(BaseParams):
    """The names of the policies to run, in order, and the parameters of each that differ from the defaults."""

    policies: tuple[str, ...] = param(
        ("defect-microcompact", "defect-compact"),
        "policies in the order in which they run",
        "policies",
        refers_to="policies",
        ordered=True,
    )
    options: dict[str, dict[str, Any]] = param({}, "parameters by policy; POLICY.KEY=VALUE sets one", "")


class Chain(BasePolicy):
    """Policy that runs other policies in order, each on the context that the one before leaves."""

    name: ClassVar[str] = "chain"
    about: ClassVar[str] = "several policies in order: microcompact first, then compaction on what is left"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call", "after_tools", "user_turn"})
    Params: ClassVar[type[BaseParams]] = ChainParams

    def steps(self, params: ChainParams) -> list[tuple[Policy, BaseParams]]:
        """Return each policy that the chain runs, in order, with its validated parameters.

        Raises PlanError if a policy is unknown, named twice, or does not run although it has parameters.
        """
        for name in (*params.policies, *params.options):
            if name == self.name or name not in POLICIES:
                names = ", ".join(policy for policy in POLICIES if policy != self.name)
                raise PlanError(f"chain: unknown policy {name!r}; available: {names}")
        if duplicates := [name for name in params.policies if params.policies.count(name) > 1]:
            raise PlanError(f"chain: {duplicates[0]} is named twice; name it once")
        for name in params.options:
            if name not in params.policies:
                raise PlanError(f"chain: parameters for {name}, which it does not run; name it in policies")
        policies = [(POLICIES[name], params.options.get(name, {})) for name in params.policies]
        return [(policy, policy.Params(**options)) for policy, options in policies]

    def trigger(self, state: RuntimeState, params: ChainParams) -> Trigger:
        return combine_step_triggers(self.steps(params), state)

    def runs_in_background(self, state: RuntimeState, params: ChainParams) -> bool:
        return is_any_step_in_background(self.steps(params), state)

    def plan(self, context: Context, params: ChainParams, state: RuntimeState) -> Plan:
        """Plan all steps or, with ``firing_only``, only those whose triggers fire."""
        return plan_steps(self.name, params, self.steps(params), context, state)

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Return the size in tokens after a plan for each value of *name*, which may be nested (``POLICY.KEY``).

        With ``firing_only``, a value at which no policy would fire leaves the size unchanged if any policy fires now.
        """
        owner, _, key = name.rpartition(".")
        if owner:
            options = params.options.get(owner, {})
            name, values = "options", [{**params.options, owner: {**options, key: value}} for value in values]
        after = super().curve(context, params, state, name, values)
        if not state.firing_only or not self.trigger(state, params).fires:
            return after
        firing = (self.trigger(state, params.model_copy(update={name: value})).fires for value in values)
        total = index_context(context).total
        return [tokens if fires else total for tokens, fires in zip(after, firing, strict=True)]
