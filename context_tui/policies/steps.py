"""Run several policies one after another as one plan with one trigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from context_tui.compaction.changes import Change, StackedChanges
from context_tui.compaction.plan import PROTECTED_CODES, KeepReason, Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.context_index import index_context

PolicySteps = Sequence[tuple[Policy, Any]]
"""Policies with their parameters, in the order in which they run."""


def combine_step_triggers(steps: PolicySteps, state: RuntimeState) -> Trigger:
    """Combine the triggers of all steps: what one step leaves for the next is unknown without planning."""
    triggers = [(policy.name, policy.trigger(state, params)) for policy, params in steps]
    return _combine_triggers(triggers, any(trigger.fires for _, trigger in triggers))


def is_any_step_in_background(steps: PolicySteps, state: RuntimeState) -> bool:
    """Return whether one of the steps would start a summary in the background."""
    fires = (
        policy.trigger(state, params).fires and policy.runs_in_background(state, params) for policy, params in steps
    )
    return any(fires)


def plan_steps(name: str, params: Params, steps: PolicySteps, context: Context, state: RuntimeState) -> Plan:
    """Plan all steps, each on the context after the previous one; where ``firing_only`` and one fires, only those that
    do.

    Raises:
        PlanError: there are no steps, or one drops or adds messages and is not the last.
    """
    changes: Mapping[int, Change] = {}
    current, last, reasons, plans = context, None, [], []
    triggers = []
    before, fires = state, combine_step_triggers(steps, state).fires
    firing_only = state.firing_only and fires
    for policy, options in steps:
        if firing_only and not (trigger := policy.trigger(state, options)).fires:
            triggers.append((policy.name, trigger))
            continue
        if last is not None and (last.dropped_ranges or last.inserts):
            raise PlanError(f"{name}: {last.policy} drops or adds messages, so nothing runs after it; name it last")
        last = policy.plan(current, options, state)
        plans.append(last)
        triggers.append((policy.name, last.trigger))
        reasons.append(f"{policy.name}: {last.reason}")
        if last.changes:
            changes = StackedChanges(last.changes, changes) if changes else last.changes
            current = last.build_context_after()
            tokens = index_context(current).total
            state = replace(state, believed_tokens=tokens, estimated_tokens=tokens, context_rewritten=True)
    if last is None:
        raise PlanError(f"{name}: no policies are named")

    def find_keep_reason(position: int, block: int | None) -> KeepReason:
        keep_reasons = [plan.keep_reason(position, block) for plan in plans]
        code = next(
            (keep_reason.code for keep_reason in keep_reasons if keep_reason.code in PROTECTED_CODES),
            keep_reasons[-1].code,
        )
        explanations = (
            f"{plan.policy}: {keep_reason.explanation}" for plan, keep_reason in zip(plans, keep_reasons, strict=True)
        )
        return KeepReason(code, "; ".join(explanations))

    if not fires:  # triggers after planning refer to contexts that no runtime would see
        triggers = [(policy.name, policy.trigger(before, options)) for policy, options in steps]
    return replace(
        last,
        policy=name,
        params=params,
        context=context,
        trigger=_combine_triggers(triggers, fires),
        changes=changes,
        reason="" if changes or last.has_changes else "; ".join(reasons),
        report={f"{p.policy}.{key}": value for p in plans for key, value in (p.report or {}).items()} or None,
        keep_reason=find_keep_reason,
        dropping_policy=last.policy,
        steps=tuple(plans),
        tokens_saved=index_context(context).total - last.tokens_after,
        estimator=", ".join(dict.fromkeys(plan.estimator for plan in plans)),
    )


def _combine_triggers(triggers: list[tuple[str, Trigger]], fires: bool) -> Trigger:
    """Combine triggers; the numbers are those of the step that decides."""
    if not triggers:
        return Trigger(False, "no policies are named")
    decides = next((trigger for _, trigger in triggers if trigger.fires == fires), triggers[0][1])
    reasons = (f"{name} {'fires' if t.fires else 'does not fire'}: {t.reason}" for name, t in triggers)
    return replace(decides, fires=fires, reason="; ".join(reasons))
