"""Outcome of a plan as text: its effect, the next request, the trigger, and the difference from earlier settings.

Independent of widgets. A size with ``~`` is an estimate, at least in part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from context_tui.compaction.next_request import NextRequest, compute_next_request
from context_tui.compaction.plan import Plan, Trigger
from context_tui.lab.fullness import find_full_compaction
from context_tui.policies.registry import POLICIES
from context_tui.policies.scales import format_number
from context_tui.session.values import Kind
from context_tui.text.numbers import format_count, format_saved_share, format_tokens
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.rendering.formatting import format_difference, format_estimate_sign
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, WARN
from context_tui.tui.timeline.turns import ACTION_VERBS, count_actions
from context_tui.tui.widgets.styled_text import Run, format_safe_line

Paragraph = list[list[Run]]
"""Parts of a text; a part is not split over lines unless it is wider than a line."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """Totals of a plan: changed results keyed by verb, dropped messages, the next request, and other changes."""

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


_outcomes_by_plan: WeakKeyDictionary[Plan, dict[TokenTable | None, PlanOutcome]] = WeakKeyDictionary()


def compute_outcome(plan: Plan, token_table: TokenTable | None = None) -> PlanOutcome:
    """Return a plan's totals (cached), the next request measured by *token_table* or the policy's own estimator."""
    outcomes = _outcomes_by_plan.setdefault(plan, {})
    if token_table not in outcomes:
        request = compute_next_request(plan, token_table=token_table)
        outcome = replace(compute_outcome(plan), request=request) if token_table else _count(plan, request)
        outcomes[token_table] = outcome
    return outcomes[token_table]


def _count(plan: Plan, request: NextRequest) -> PlanOutcome:
    rows, kind = list(plan.changes), plan.context.facts.kind
    results = [row for row in rows if kind[row] == Kind.TOOL_RESULT]
    return PlanOutcome(
        {ACTION_VERBS[action]: number for action, number in count_actions(plan, results).items()},
        len(index_context(plan.context).results.block),
        plan.messages_dropped,
        len(plan.context),
        request,
        plan.trigger.fires,
        plan.reason,
        plan.needs_summary,
        len(rows) - len(results),
        sum(1 for insert in plan.inserts if not insert.holds_summary),
    )


def format_effect(outcome: PlanOutcome) -> str:
    """Format what a plan does, as in ``clears 14 of 61 results``, or "" if it does nothing."""
    parts = []
    if outcome.changed_results:
        verbs = " and ".join(f"{verb} {number:,}" for verb, number in outcome.changed_results.items())
        parts.append(f"{verbs} of {format_count(outcome.result_count, 'result')}")
    if outcome.other_blocks:
        parts.append(f"changes {format_count(outcome.other_blocks, 'other block')}")
    if outcome.dropped_messages:
        verb = "summarises" if outcome.needs_summary else "drops"
        parts.append(f"{verb} {outcome.dropped_messages:,} of {format_count(outcome.message_count, 'message')}")
    if outcome.inserted_messages:
        parts.append(f"adds {format_count(outcome.inserted_messages, 'message')}")
    return ", ".join(parts)


def format_result_variants(outcome: PlanOutcome, *, by_hand: bool = False) -> list[Paragraph]:
    """Format a plan's effect and the size of the next request without and with it, longest variant first."""
    request = outcome.request
    before, after = f"{format_estimate_sign(request)}{request.tokens_before:,}", f"~{request.tokens_after:,}"
    if not format_effect(outcome):
        reason = outcome.reason or "no reason given"
        if by_hand:
            return [[[(reason, BOLD)], [(f"next request {before}, as it is", MUTED)]]]
        effect, colon, cause = reason.partition(": ")
        if not (effect.startswith("nothing") and colon):
            effect, cause = "changes nothing", reason
        return [[[(f"{effect}: ", WARN), (cause, "")]]]
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
    """Format the change of the next request as a percentage of its size without the plan, as in ``−40 %``."""
    saved_tokens = request.tokens_before - request.tokens_after
    return format_saved_share(saved_tokens, request.tokens_before, brief=True) if request.tokens_before else "0 %"


def format_limit(trigger: Trigger) -> str:
    """Format the limit at which a trigger fires, as in ``at 112k`` or ``at 300 s``, or "" if it has none."""
    if trigger.threshold is None:
        return ""
    return f"at {_format_quantity(trigger.threshold, trigger.unit)}"


def _format_quantity(number: int, unit: str) -> str:
    if unit == "tokens":
        return format_tokens(number)
    return f"{number:,} {'s' if unit == 'seconds' else unit}"


def format_planned_effect(plan: Plan) -> str:
    """Format the effect of a plan or of the steps of a chain, or "" if there is none.

    The effect of a policy or step that would not fire now is preceded by ``if forced``.
    """
    steps = plan.steps or (plan,)
    effect = format_effect(compute_outcome(plan))
    if not effect or plan.trigger.by_hand:
        return effect
    firing_steps = [step for step in steps if step.trigger.fires]
    if not plan.trigger.fires or not firing_steps:
        return f"if forced: {effect}"
    if len(firing_steps) < len(steps):
        groups = firing_steps, [step for step in steps if not step.trigger.fires]
        effects = ([format_effect(compute_outcome(step)) for step in group] for group in groups)
        firing_effect, idle_effect = (", ".join(filter(None, each)) for each in effects)
        return "; ".join(filter(None, (firing_effect, idle_effect and f"if forced: {idle_effect}")))
    if len(steps) < len(POLICIES[plan.policy].steps(plan.params)):
        return f"only {', '.join(step.policy for step in steps)}: {effect}"
    return effect


def format_trigger_variants(plan: Plan, next_firing: int | None) -> list[Paragraph]:
    """Format whether the policy would fire now, and why, or where it would have fired, in several lengths.

    *next_firing* is the message before which the policy would next have fired, -1 for never, or None if unknown.
    """
    trigger = plan.trigger
    verdict, style = f"{plan.verdict} now", f"bold {GOOD if trigger.fires and plan.has_changes else WARN}"
    verdict_runs: list[Run] = [(verdict, style)]
    shortest: list[list[Run]] = []
    if not trigger.fires and next_firing is not None:
        idle = "the recording compacts here" if find_full_compaction(plan.context) else "nor so far"
        point = f"fires at #{next_firing:,}, press\u00a0!" if next_firing >= 0 else idle
        verdict_runs = [(verdict, style), (f" ({point})", style if next_firing >= 0 else MUTED)]
        shortest = [[(point if next_firing >= 0 else "would not have fired so far", style)]]
    # The colon belongs to the run before it, because lines are broken between the words of a run.
    opening: list[Run] = [*verdict_runs[:-1], (f"{verdict_runs[-1][0]}: ", verdict_runs[-1][1])]
    with_reason: list[Run] = [*opening, (trigger.reason, "")]
    has_source = trigger.source and trigger.value is not None
    longest = [[*with_reason, (f" ({trigger.source})", MUTED)]] if has_source else []
    short_reasons = [_format_trigger_numbers(trigger)]
    if plan.steps:
        firing_steps = [step for step in plan.steps if step.trigger.fires]
        names = [step.policy for step in firing_steps]
        numbers = [_format_trigger_numbers(step.trigger) for step in firing_steps]
        with_numbers = (", ".join(filter(None, pair)) for pair in zip(names, numbers, strict=True))
        short_reasons = ["; ".join(with_numbers), ", ".join(names)]
    short_forms = ([*opening, (reason, "")] for reason in short_reasons if reason)
    return [[form] for form in (*longest, with_reason, *short_forms, verdict_runs, *shortest)]


def _format_trigger_numbers(trigger: Trigger) -> str:
    if trigger.value is None or trigger.threshold is None:
        return ""
    value, limit = _format_quantity(trigger.value, trigger.unit), _format_quantity(trigger.threshold, trigger.unit)
    return f"{'idle' if trigger.unit == 'seconds' else 'counts'} {value}, limit {limit}"


def format_value(value: Any) -> str:
    """Format a setting's value: on or off for a switch, the number of entries chosen for a list."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return f"{len(value)} chosen"
    return "none" if value is None else format_number(value)


def format_difference_variants(
    changes: list[tuple[str, Any, Any]], old: PlanOutcome, new: PlanOutcome
) -> list[Paragraph]:
    """Format *changes*, as (name, old, new), with their effect on the outcome: one variant with names, one without."""
    effects = []
    old_results, new_results = sum(old.changed_results.values()), sum(new.changed_results.values())
    if old_results != new_results:
        effects.append(_format_count_change("result", old_results, new_results))
    if old.dropped_messages != new.dropped_messages:
        larger = new if new.dropped_messages > old.dropped_messages else old
        verb = "summarised" if larger.needs_summary else "dropped"
        effects.append(f"{_format_count_change('message', old.dropped_messages, new.dropped_messages)} {verb}")
    tokens = new.request.tokens_after - old.request.tokens_after
    if tokens:
        effects.append(f"{format_difference(tokens)} {'token' if abs(tokens) == 1 else 'tokens'}")
    if new.fires != old.fires:
        effects.append("would fire now" if new.fires else "would no longer fire")
    style = BAD if tokens > 0 else GOOD if tokens < 0 else MUTED
    effect = (", ".join(effects) or "no difference", style)
    short = [_format_change(old_value, new_value) for _, old_value, new_value in changes]
    full = [f"{name} {text}" for (name, _, _), text in zip(changes, short, strict=True)]
    return [[[("Δ ", MUTED), (f"{', '.join(texts)}: ", ""), effect]] for texts in (full, short)]


def _format_count_change(noun: str, old: int, new: int) -> str:
    return format_count(abs(new - old), f"{'more' if new > old else 'fewer'} {noun}")


def _format_change(old: Any, new: Any) -> str:
    if isinstance(old, tuple) and isinstance(new, tuple):
        if sorted(old) == sorted(new):
            return f"now {', '.join(map(_format_item, new))}"
        removed = [f"−{_format_item(item)}" for item in old if item not in new]
        added = [f"+{_format_item(item)}" for item in new if item not in old]
        if len(removed) + len(added) <= 3:
            return " ".join([*removed, *added])
    return f"{format_value(old)} → {format_value(new)}"


def _format_item(value: Any) -> str:
    return ":".join(map(str, value)) if isinstance(value, tuple) else format_safe_line(str(value), 24)
