"""Policies one after another, as the runtimes run them: microcompact first, then full compaction on what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from context_tui.compaction.changes import Change, StackedChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.verdicts import PROTECTED, Kept
from context_tui.errors import PlanError
from context_tui.policies.base import BasePolicy, Policy, param
from context_tui.policies.base import Params as BaseParams
from context_tui.policies.parameters import names
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.measured import measured


class ChainParams(BaseParams):
    """Which policies, in order, and the parameters of each that differ from its defaults."""

    policies: Annotated[tuple[str, ...], BeforeValidator(names)] = param(
        ("defect-microcompact", "defect-compact"),
        "policies in the order in which they run",
        "policies",
        refers_to="policies",
        ordered=True,
    )
    options: dict[str, dict[str, Any]] = param({}, "parameters by policy; POLICY.KEY=VALUE sets one", "")


class Chain(BasePolicy):
    """Run each policy on what the one before it leaves."""

    name: ClassVar[str] = "chain"
    about: ClassVar[str] = "several policies in order: microcompact first, then compaction on what is left"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call", "after_tools", "user_turn"})
    Params: ClassVar[type[BaseParams]] = ChainParams
    nests: ClassVar[str] = "options"

    def runs(self, params: ChainParams) -> Sequence[str]:
        return params.policies

    def steps(self, params: ChainParams) -> list[tuple[Policy, BaseParams]]:
        """Each policy with its parameters.

        Raises:
            PlanError: one is unknown, or parameters are given for one that does not run.
        """
        for name in (*params.policies, *params.options):
            if name == self.name or name not in POLICIES:
                others = ", ".join(each for each in POLICIES if each != self.name)
                raise PlanError(f"chain: unknown policy {name!r}; available: {others}")
        twice = [name for name in params.policies if params.policies.count(name) > 1]
        if twice:
            raise PlanError(f"chain: {twice[0]} is named twice; name it once")
        for name in params.options:
            if name not in params.policies:
                raise PlanError(f"chain: parameters for {name}, which it does not run; name it in policies")
        policies = [(POLICIES[name], params.options.get(name, {})) for name in params.policies]
        return [(policy, policy.Params(**options)) for policy, options in policies]

    def trigger(self, state: RuntimeState, params: ChainParams) -> Trigger:
        """Whether any step would fire: what one leaves for the next is not known without planning."""
        triggers = [policy.trigger(state, options) for policy, options in self.steps(params)]
        return _together(list(zip(params.policies, triggers, strict=True)), any(t.fires for t in triggers))

    def plan(self, context: Context, params: ChainParams, state: RuntimeState) -> Plan:
        """All steps, each on what those before it leave; where the state says ``firing_only`` and one fires, those that
        do.
        """
        changes: Mapping[int, Change] = {}
        here, last, reasons, plans = context, None, [], []
        triggers = []
        before, fires = state, self.trigger(state, params).fires
        firing_only = state.firing_only and fires
        for policy, options in self.steps(params):
            if firing_only and not (trigger := policy.trigger(state, options)).fires:
                triggers.append((policy.name, trigger))
                continue
            if last is not None and (last.dropped or last.inserts):
                raise PlanError(f"chain: {last.policy} drops or adds messages, so nothing runs after it; name it last")
            last = policy.plan(here, options, state)
            plans.append(last)
            triggers.append((policy.name, last.trigger))
            reasons.append(f"{policy.name}: {last.reason}")
            if last.changes:
                changes = StackedChanges(last.changes, changes) if changes else last.changes
                here = last.after()
                state = replace(state, believed=measured(here).total, rewritten=True)
        if last is None:
            raise PlanError("chain: no policies are named")

        def kept(position: int, block: int | None) -> Kept:
            each = [plan.kept(position, block) for plan in plans]
            code = next((why.code for why in each if why.code in PROTECTED), each[-1].code)
            words = (f"{plan.policy}: {why.words}" for plan, why in zip(plans, each, strict=True))
            return Kept(code, "; ".join(words))

        if not fires:  # what a step leaves that did not run is not what the next one would look at
            triggers = [(policy.name, policy.trigger(before, options)) for policy, options in self.steps(params)]
        return replace(
            last,
            policy=self.name,
            params=params,
            context=context,
            trigger=_together(triggers, fires),
            changes=changes,
            reason="" if changes or last.changed else "; ".join(reasons),
            report={f"{p.policy}.{key}": value for p in plans for key, value in (p.report or {}).items()} or None,
            kept=kept,
            dropped_by=last.policy,
            steps=tuple(plans),
            saved=measured(context).total - last.tokens_after,
            estimator=", ".join(dict.fromkeys(plan.estimator for plan in plans)),
        )

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Tokens after, for each value of the parameter *name*; ``POLICY.KEY`` is one of a step's.

        Where ``firing_only`` is asked for and something fires, values at which nothing would fire leave all there is.
        """
        owner, _, key = name.rpartition(".")
        if owner:
            others = params.options.get(owner, {})
            name, values = "options", [{**params.options, owner: {**others, key: value}} for value in values]
        after = super().curve(context, params, state, name, values)
        if not state.firing_only or not self.trigger(state, params).fires:
            return after
        firing = (self.trigger(state, params.model_copy(update={name: value})).fires for value in values)
        total = measured(context).total
        return [left if fires else total for left, fires in zip(after, firing, strict=True)]


def _together(triggers: list[tuple[str, Trigger]], fires: bool) -> Trigger:
    """One trigger for all steps; its numbers are those of the step that decides."""
    if not triggers:
        return Trigger(False, "no policies are named")
    decides = next((trigger for _, trigger in triggers if trigger.fires == fires), triggers[0][1])
    words = (f"{name} {'fires' if t.fires else 'does not fire'}: {t.reason}" for name, t in triggers)
    return replace(decides, fires=fires, reason="; ".join(words))
