"""Policies one after another, as the runtimes run them: microcompact first, then full compaction on what is left."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import LoopCurve, Policy, param
from context_tui.policies.base import Params as BaseParams
from context_tui.policies.runtime_state import RuntimeState
from context_tui.policies.values import names
from context_tui.session.context import Context
from context_tui.tokens.measured import measured


class ChainParams(BaseParams):
    """Which policies, in order, and the parameters of each that differ from its defaults."""

    policies: Annotated[tuple[str, ...], BeforeValidator(names)] = param(
        ("defect-microcompact", "defect-compact"), "policies in the order in which they run", "policies"
    )
    options: dict[str, dict[str, Any]] = param({}, "parameters by policy; POLICY.KEY=VALUE sets one", "")


class Chain(LoopCurve):
    """Run each policy on what the one before it leaves."""

    name: ClassVar[str] = "chain"
    about: ClassVar[str] = "several policies in order: microcompact first, then compaction on what is left"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call", "after_tools", "user_turn"})
    Params: ClassVar[type[BaseParams]] = ChainParams

    def __init__(self, policies: dict[str, Policy]) -> None:
        self._policies = policies

    def steps(self, params: ChainParams) -> list[tuple[Policy, BaseParams]]:
        """Each policy with its parameters.

        Raises:
            PlanError: one is unknown, or parameters are given for one that does not run.
        """
        for name in (*params.policies, *params.options):
            if name not in self._policies:
                raise PlanError(f"chain: no policy {name!r}: there are {', '.join(self._policies)}")
        twice = [name for name in params.policies if params.policies.count(name) > 1]
        if twice:
            raise PlanError(f"chain: {twice[0]} is in it twice")
        for name in params.options:
            if name not in params.policies:
                raise PlanError(f"chain: parameters for {name}, which is not one of {', '.join(params.policies)}")
        policies = [(self._policies[name], params.options.get(name, {})) for name in params.policies]
        return [(policy, policy.Params(**options)) for policy, options in policies]

    def trigger(self, state: RuntimeState, params: ChainParams) -> Trigger:
        """Whether any step would fire: what one leaves for the next is not known without planning."""
        triggers = [policy.trigger(state, options) for policy, options in self.steps(params)]
        return _together(list(zip(params.policies, triggers, strict=True)), any(t.fires for t in triggers))

    def plan(self, context: Context, params: ChainParams, state: RuntimeState) -> Plan:
        changes: Mapping[int, Change] = {}
        here, last, reasons, plans = context, None, [], []
        triggers = []
        for policy, options in self.steps(params):
            if last is not None and last.cut:
                raise PlanError(f"chain: {last.policy} drops messages, so nothing can run after it")
            last = policy.plan(here, options, state)
            plans.append(last)
            triggers.append((policy.name, last.trigger))
            reasons.append(f"{policy.name}: {last.reason}")
            if last.changes:
                changes = _over(last.changes, changes) if changes else last.changes
                here = last.after()
                state = replace(state, believed=measured(here).total, rewritten=True)
        if last is None:
            raise PlanError("chain: no policies")

        def kept(position: int, block: int | None) -> str:
            reasons = (f"{plan.policy}: {plan.kept(position, block).removeprefix('kept: ')}" for plan in plans)
            return f"kept: {'; '.join(reasons)}"

        fires = any(trigger.fires for _, trigger in triggers)  # as `trigger` says; its words name each step
        return replace(
            last,
            policy=self.name,
            params=params,
            context=context,
            trigger=_together(triggers, fires),
            changes=changes,
            reason="" if changes or last.cut else "; ".join(reasons),
            report={f"{p.policy}.{key}": value for p in plans for key, value in (p.report or {}).items()} or None,
            kept=kept,
            cut_by=last.policy,
            steps=tuple(plans),
            saved=measured(context).total - last.tokens_after,
        )

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        """Tokens after, for each value of the parameter *name*; ``POLICY.KEY`` is one of a step's."""
        owner, _, key = name.rpartition(".")
        if not owner:
            return super().curve(context, params, state, name, values)
        others = params.options.get(owner, {})
        options = [{**params.options, owner: {**others, key: value}} for value in values]
        return super().curve(context, params, state, "options", options)


def _together(triggers: list[tuple[str, Trigger]], fires: bool) -> Trigger:
    """One trigger for all steps; its numbers are those of the step that decides."""
    if not triggers:
        return Trigger(False, "no policies")
    decides = next((trigger for _, trigger in triggers if trigger.fires == fires), triggers[0][1])
    words = (f"{name} {'fires' if t.fires else 'does not fire'}: {t.reason}" for name, t in triggers)
    return Trigger(fires, "; ".join(words), decides.value, decides.threshold, decides.source)


def _over(newer: Mapping[int, Change], older: Mapping[int, Change]) -> Mapping[int, Change]:
    """Both, where the newer ones count; neither is copied."""
    return ChainMap(cast(MutableMapping[int, Change], newer), cast(MutableMapping[int, Change], older))
