"""Compact storage for plans that clear or truncate, because a replay may hold one for every call."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter, is_
from typing import Any

import msgspec

from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.plan import Plan
from context_tui.lab.replay.history import BodiesSnapshot, OrderPrefix
from context_tui.policies.parts.selection import KeepReasons

_get_shared_parts = attrgetter(
    *("params", "dropped_ranges", "inserts", "steps", "changes.change", "context.facts", "context.order.shared"),
    *("context.replacements.versions", "keep_reason.selector.rule", "keep_reason.freed_enough"),
)
_get_limits = attrgetter("policy", "keep_reason.selector.limits", "keep_reason.selector.longer_than")
_get_own_parts = attrgetter(
    *("context.at", "context.epoch_start", "context.last_rewrite", "context.order.length", "trigger.reason"),
    *("trigger.source", "trigger.value", "trigger.threshold", "changes.rows", "tokens_saved", "report"),
    *("keep_reason.first_number", "context.replacements.changes", "context.replacements.length"),
)


class PackedPlan:
    """A plan that is stored as its differences from another plan of the same replay, and built when called."""

    __slots__ = ("_own_parts", "_template")

    def __init__(self, plan: Plan, template: Plan) -> None:
        self._own_parts, self._template = msgspec.msgpack.encode(_get_own_parts(plan)), template

    def __call__(self) -> Plan:
        at, epoch_start, rewrite, length, *others = msgspec.msgpack.decode(self._own_parts)
        reason, source, value, threshold, rows, saved, report, first, *body = others
        plan: Any = self._template
        order = OrderPrefix(plan.context.order.shared, length)
        bodies = BodiesSnapshot(plan.context.replacements.versions, *body)
        places = {"at": at, "order": order, "epoch_start": epoch_start, "last_rewrite": rewrite}
        context = replace(plan.context, **places, replacements=bodies, memo={})
        trigger = replace(plan.trigger, reason=reason, source=source, value=value, threshold=threshold)
        changes = UniformChanges(rows, plan.changes.change)
        selector = replace(plan.keep_reason.selector, context=context)
        reasons = KeepReasons(selector, first, plan.keep_reason.freed_enough)
        parts = {"changes": changes, "report": report, "keep_reason": reasons, "tokens_saved": saved}
        built: Plan = replace(plan, context=context, trigger=trigger, **parts)
        return built


def pack_plan(plan: Plan, template: Plan | None) -> Plan | PackedPlan:
    """Return a plan in compact form, or the plan itself if it has more differences from *template* than are stored."""
    if template is None:
        return plan
    try:
        is_similar = all(map(is_, _get_shared_parts(plan), _get_shared_parts(template)))
        return PackedPlan(plan, template) if is_similar and _get_limits(plan) == _get_limits(template) else plan
    except AttributeError:  # made in another way
        return plan
