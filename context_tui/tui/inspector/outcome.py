"""Outcome of a plan as text: the next request, the trigger, and the difference from the setting before.

Independent of widgets. A size with ``~`` is an estimate, or recorded only in part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from context_tui.compaction.changes import UniformChanges
from context_tui.compaction.next_request import NextRequest, compute_next_request
from context_tui.compaction.plan import Plan, Trigger
from context_tui.policies.registry import POLICIES
from context_tui.policies.scales import format_number
from context_tui.session.values import Kind
from context_tui.text.numbers import format_percent, format_tokens
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.rendering.formatting import format_difference, format_estimate_sign, pluralize
from context_tui.tui.widgets.styled_text import BAD, BOLD, GOOD, MUTED, WARN, Run, format_safe_line

Paragraph = list[list[Run]]
"""Parts that are kept on one line where the width allows."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """Totals of a plan: changed results by action, other blocks, removed messages, and the next request.
    ``tokens_before`` and ``tokens_after`` are the tokens of the context without and with the plan (``bytes/4``).
    """

    changed_results: dict[str, int]
    result_count: int
    dropped_messages: int
    message_count: int
    request: NextRequest
    fires: bool
    reason: str = ""
    needs_summary: bool = True
    other_blocks: int = 0
    inserted_messages: int = 0
    tokens_before: int = 0
    tokens_after: int = 0

    def compute_request_sizes(self, tokens_after: Sequence[int]) -> list[int]:
        """Return the next request for each size of the remaining context; an empty context stays 0."""
        removed_tokens, request = self.tokens_before - self.tokens_after, self.request
        # A policy's own estimator differs from bytes/4 by this factor.
        factor = (request.removed_tokens - request.inserted_tokens) / removed_tokens if removed_tokens else 1.0
        return [
            max(round(request.tokens_before - (self.tokens_before - each) * factor), 0) if each else 0
            for each in tokens_after
        ]


_VERBS = {"clear": "clears", "truncate": "truncates", "drop": "drops"}
_outcome_cache: WeakKeyDictionary[Plan, PlanOutcome] = WeakKeyDictionary()
_measured_outcome_cache: WeakKeyDictionary[Plan, tuple[TokenTable, PlanOutcome]] = WeakKeyDictionary()


def compute_outcome(plan: Plan, token_table: TokenTable | None = None) -> PlanOutcome:
    """Compute the totals of a plan, with the next request by the policy's estimator or a token measure; cached for
    each.
    """
    if token_table is None:
        return _compute_outcome(plan)
    entry = _measured_outcome_cache.get(plan)
    if entry is None or entry[0] is not token_table:
        outcome = replace(_compute_outcome(plan), request=compute_next_request(plan, token_table=token_table))
        entry = _measured_outcome_cache[plan] = token_table, outcome
    return entry[1]


def _compute_outcome(plan: Plan) -> PlanOutcome:
    outcome = _outcome_cache.get(plan)
    if outcome is None:
        rows = list(plan.changes)
        kind, changes = plan.context.facts.kind, plan.changes
        results = [row for row in rows if kind[row] == Kind.TOOL_RESULT]
        if isinstance(changes, UniformChanges):
            actions = Counter({changes.change.action: len(results)} if results else {})
        else:
            actions = Counter(changes[row].action for row in results)
        outcome = _outcome_cache[plan] = PlanOutcome(
            {_VERBS[action]: number for action, number in actions.items()},
            len(index_context(plan.context).results.block),
            plan.messages_dropped,
            len(plan.context),
            compute_next_request(plan),
            plan.trigger.fires,
            plan.reason,
            plan.needs_summary,
            len(rows) - len(results),
            sum(1 for each in plan.inserts if not each.holds_summary),
            plan.tokens_before,
            plan.tokens_after,
        )
    return outcome


def format_effect(outcome: PlanOutcome) -> str:
    """Format the effect in short: ``clears 14 of 61 results``."""
    parts = []
    if outcome.changed_results:
        each = " and ".join(f"{verb} {number:,}" for verb, number in outcome.changed_results.items())
        parts.append(f"{each} of {pluralize(outcome.result_count, 'result')}")
    if outcome.other_blocks:
        parts.append(f"changes {pluralize(outcome.other_blocks, 'other block')}")
    if outcome.dropped_messages:
        verb = "summarises" if outcome.needs_summary else "drops"
        parts.append(f"{verb} {outcome.dropped_messages:,} of {pluralize(outcome.message_count, 'message')}")
    if outcome.inserted_messages:
        parts.append(f"adds {pluralize(outcome.inserted_messages, 'message')}")
    return ", ".join(parts)


def format_result_variants(outcome: PlanOutcome, *, by_hand: bool = False) -> list[Paragraph]:
    """Format the result, longest variant first: effect, next request before and after, saved share."""
    request = outcome.request
    before, after = f"{format_estimate_sign(request)}{request.tokens_before:,}", f"~{request.tokens_after:,}"
    if not format_effect(outcome):
        nothing, unchanged = outcome.reason or "no reason given", f"next request {before}, as it is"
        if by_hand:
            return [[[(nothing, BOLD)], [(unchanged, MUTED)]]]
        effect, colon, why = nothing.partition(": ")
        if not (effect.startswith("nothing") and colon):
            effect, why = "changes nothing", nothing
        return [[[(f"{effect}: ", WARN), (why, "")]]]
    summary_suffix = " + summary" if request.summary_pending else ""
    style = GOOD if request.saved_share else WARN
    sizes_run: list[Run] = [("next request ", MUTED), (f"{before} → ", ""), (after, BOLD), (summary_suffix, MUTED)]
    sizes = f"{format_estimate_sign(request)}{format_tokens(request.tokens_before)} → "
    short_after = f"~{format_tokens(request.tokens_after)}"
    short_sizes: list[Run] = [("next ", MUTED), (sizes, ""), (short_after, BOLD), (summary_suffix, MUTED)]
    share: Run = (f" ({format_size_change(request)})", style)
    difference = format_difference(request.tokens_after - request.tokens_before)
    effect_runs = [(format_effect(outcome), BOLD)]
    longest = [effect_runs, sizes_run, [(f"({difference}, {format_size_change(request)})", style)]]
    return [longest, [effect_runs, [*sizes_run, share]], [effect_runs, [*short_sizes, share]]]


def format_size_change(request: NextRequest) -> str:
    """Format the share by which the request shrinks or grows: ``−40 %``."""
    more = request.tokens_after - request.tokens_before
    if more > 0 and request.tokens_before:
        return f"+{format_percent(more / request.tokens_before)}"
    return f"−{format_percent(request.saved_share)}" if request.saved_share else "0 %"


def format_limit(trigger: Trigger) -> str:
    """Format the limit of a trigger: ``at 112k``, ``at 300 s``; empty without one."""
    if trigger.threshold is None:
        return ""
    return f"at {_format_quantity(trigger.threshold, trigger.unit)}"


def _format_quantity(number: int, unit: str) -> str:
    """Format a number with its unit; tokens have none."""
    if unit == "tokens":
        return format_tokens(number)
    return f"{number:,} {'s' if unit == 'seconds' else unit}"


def format_planned_effect(plan: Plan) -> str:
    """Format what a plan would do; empty for nothing. An effect that needs force is marked, and the firing steps of a
    chain are named if some do not fire.
    """
    steps = plan.steps or (plan,)
    effect = format_effect(compute_outcome(plan))
    if not effect or plan.trigger.by_hand:
        return effect
    firing = [step for step in steps if step.trigger.fires]
    if not plan.trigger.fires or not firing:
        return f"if forced: {effect}"
    if len(firing) < len(steps):
        idle = [step for step in steps if not step.trigger.fires]
        effects = ([format_effect(compute_outcome(step)) for step in each] for each in (firing, idle))
        parts = [", ".join(filter(None, each)) for each in effects]
        return "; ".join(filter(None, (parts[0], parts[1] and f"if forced: {parts[1]}")))
    if len(steps) < len(POLICIES[plan.policy].steps(plan.params)):
        return f"only {', '.join(step.policy for step in steps)}: {effect}"
    return effect


def format_trigger_variants(plan: Plan, first: int | None) -> list[Paragraph]:
    """Format whether the policy would fire now and where it first would have, longest variant first."""
    trigger = plan.trigger
    verdict, style = ("would fire now", f"bold {GOOD}") if trigger.fires else ("would not fire now", f"bold {WARN}")
    runs: list[Run] = [(verdict, style)]
    shortest: list[list[Run]] = []
    if not trigger.fires and first is not None:
        point = f"first at #{first:,}, press\u00a0}}" if first >= 0 else "never in this session"
        runs = [(f"{verdict}; ", style), (point, style if first >= 0 else MUTED)]
        shortest = [[(f"fires {point}" if first >= 0 else "never fires in this session", style)]]
    # The colon is part of the run before it, as lines are broken between words of a run.
    opening: list[Run] = [*runs[:-1], (f"{runs[-1][0]}: ", runs[-1][1])]
    why: list[Run] = [*opening, (trigger.reason, "")]
    forms = [[*why, (f" ({trigger.source})", MUTED)]] if trigger.source and trigger.value is not None else []
    running = [step for step in plan.steps if step.trigger.fires]
    firing_steps = [", ".join(filter(None, (step.policy, _format_trigger_numbers(step.trigger)))) for step in running]
    shorter = [_format_trigger_numbers(trigger)]
    if plan.steps:
        shorter = ["; ".join(firing_steps), ", ".join(step.policy for step in running)]
    short_forms = ([*opening, (numbers, "")] for numbers in shorter if numbers)
    return [[form] for form in (*forms, why, *short_forms, runs, *shortest)]


def _format_trigger_numbers(trigger: Trigger) -> str:
    if trigger.value is None or trigger.threshold is None:
        return ""
    value, limit = _format_quantity(trigger.value, trigger.unit), _format_quantity(trigger.threshold, trigger.unit)
    return f"{'idle' if trigger.unit == 'seconds' else 'has'} {value}, limit {limit}"


def format_value(value: Any) -> str:
    """Format a value of a setting."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return f"{len(value)} chosen"
    return "none" if value is None else format_number(value)


def format_difference_variants(
    changes: list[tuple[str, Any, Any]], old: PlanOutcome, new: PlanOutcome
) -> list[Paragraph]:
    """Format the changes between two settings of a policy on one context: old and new values and the effect; the
    shorter variant omits the names.
    """
    effects = []
    results = sum(old.changed_results.values()), sum(new.changed_results.values())
    for word, before, after in (("result", *results), ("message", old.dropped_messages, new.dropped_messages)):
        if after != before:
            count = pluralize(abs(after - before), f"more {word}" if after > before else f"fewer {word}")
            larger = new if new.dropped_messages > old.dropped_messages else old
            verb = "summarised" if larger.needs_summary else "dropped"
            effects.append(count if word == "result" else f"{count} {verb}")
    tokens = new.request.tokens_after - old.request.tokens_after
    if tokens:
        effects.append(f"{format_difference(tokens)} {'token' if abs(tokens) == 1 else 'tokens'}")
    if new.fires != old.fires:
        effects.append("would fire now" if new.fires else "would no longer fire")
    style = BAD if tokens > 0 else GOOD if tokens < 0 else MUTED
    effect = (", ".join(effects) or "no difference", style)
    short = [_format_change(old, new) for _, old, new in changes]
    full = [f"{name} {text}" for (name, _, _), text in zip(changes, short, strict=True)]
    return [[[("Δ ", MUTED), (f"{', '.join(texts)}: ", ""), effect]] for texts in (full, short)]


def _format_change(old: Any, new: Any) -> str:
    """Format the old and new value; for lists the removed and added items, or the new order."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        if sorted(old) == sorted(new):
            return f"now {', '.join(map(_format_item, new))}"
        removed = [_format_item(each) for each in old if each not in new]
        added = [_format_item(each) for each in new if each not in old]
        if len(removed) + len(added) <= 3:
            return " ".join([*(f"−{each}" for each in removed), *(f"+{each}" for each in added)])
    return f"{format_value(old)} → {format_value(new)}"


def _format_item(value: Any) -> str:
    return ":".join(map(str, value)) if isinstance(value, tuple) else format_safe_line(str(value), 24)
