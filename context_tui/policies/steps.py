"""Planning of several policies that run one after another, as one plan with one trigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from context_tui.compaction.changes import Change, StackedChanges
from context_tui.compaction.plan import PROTECTED_CODES, KeepReason, Plan, Trigger
from context_tui.errors import PlanError
from context_tui.policies.base import Params, Policy
from context_tui.policies.runtime_state import RuntimeState, count_context_images
from context_tui.session.context import Context
from context_tui.tokens.context_index import index_context

PolicySteps = Sequence[tuple[Policy, Any]]
"""Policies with their parameters, in the order in which they run."""


def combine_step_triggers(steps: PolicySteps, state: RuntimeState) -> Trigger:
    """Return a trigger that fires if that of any step does; all are checked before any step changes the context."""
    triggers = [(policy.name, policy.trigger(state, params)) for policy, params in steps]
    return _combine_triggers(triggers, any(trigger.fires for _, trigger in triggers))


def is_any_step_in_background(steps: PolicySteps, state: RuntimeState) -> bool:
    """Return whether a step would fire in this state and start its summary in the background."""
    return any(
        policy.trigger(state, params).fires and policy.runs_in_background(state, params) for policy, params in steps
    )


def plan_steps(name: str, params: Params, steps: PolicySteps, context: Context, state: RuntimeState) -> Plan:
    """Plan all steps, each on the result of the step before; with ``firing_only``, only those that fire, if any do.

    Raises PlanError if there are no steps, or a step that drops or adds messages is not the last one.
    """
    changes: Mapping[int, Change] = {}
    current, last_plan, plans = context, None, list[Plan]()
    triggers = []
    state_before, fires = state, combine_step_triggers(steps, state).fires
    firing_only = state.firing_only and fires
    for policy, step_params in steps:
        if firing_only and not (trigger := policy.trigger(state, step_params)).fires:
            triggers.append((policy.name, trigger))
            continue
        if last_plan is not None and (last_plan.dropped_ranges or last_plan.inserts):
            reason = f"{last_plan.policy} drops or adds messages, so nothing runs after it"
            raise PlanError(f"{name}: {reason}; name it last")
        last_plan = policy.plan(current, step_params, state)
        plans.append(last_plan)
        triggers.append((policy.name, last_plan.trigger))
        if last_plan.changes:
            changes = StackedChanges(last_plan.changes, changes) if changes else last_plan.changes
            current = last_plan.build_context_after()
            tokens, images = index_context(current).total, count_context_images(current)
            state = replace(
                state, believed_tokens=tokens, estimated_tokens=tokens, images=images, context_rewritten=True
            )
    if last_plan is None:
        raise PlanError(f"{name}: no policies are named")

    def find_keep_reason(position: int, block: int | None) -> KeepReason:
        keep_reasons = [plan.keep_reason(position, block) for plan in plans]
        codes = [reason.code for reason in keep_reasons]
        code = next((code for code in codes if code in PROTECTED_CODES), codes[-1])
        pairs = zip(plans, keep_reasons, strict=True)
        return KeepReason(code, "; ".join(f"{plan.policy}: {reason.explanation}" for plan, reason in pairs))

    if not fires:  # the triggers of the plans refer to contexts that no runtime would see
        triggers = [(policy.name, policy.trigger(state_before, step_params)) for policy, step_params in steps]
    return replace(
        last_plan,
        policy=name,
        params=params,
        context=context,
        trigger=_combine_triggers(triggers, fires),
        changes=changes,
        reason="" if changes or last_plan.has_changes else "; ".join(f"{p.policy}: {p.reason}" for p in plans),
        report={f"{p.policy}.{key}": value for p in plans for key, value in (p.report or {}).items()} or None,
        keep_reason=find_keep_reason,
        dropping_policy=last_plan.policy,
        steps=tuple(plans),
        tokens_saved=index_context(context).total - last_plan.tokens_after,
        estimator=", ".join(dict.fromkeys(plan.estimator for plan in plans)),
    )


def _combine_triggers(triggers: list[tuple[str, Trigger]], fires: bool) -> Trigger:
    if not triggers:
        return Trigger(False, "no policies are named")
    decisive = next((trigger for _, trigger in triggers if trigger.fires == fires), triggers[0][1])
    reasons = (f"{name} {'fires' if t.fires else 'does not fire'}: {t.reason}" for name, t in triggers)
    return replace(decisive, fires=fires, reason="; ".join(reasons))
