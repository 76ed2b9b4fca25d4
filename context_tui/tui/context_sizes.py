"""What is computed of a context off the paint path: its parts, how the estimate fits, what recorded sizes suggest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from context_tui.text.numbers import format_percent
from context_tui.tokens.accounting import compute_prompt_not_in_file
from context_tui.tokens.breakdown import Breakdown, compute_breakdown
from context_tui.tokens.estimate_check import EstimateCheck, SuggestedSizes, check_estimate, suggest_sizes
from context_tui.tokens.measures import TokenTable
from context_tui.tui.view import View


@dataclass(frozen=True)
class ContextSizes:
    """A context in parts, by estimates and as recorded sizes suggest, and its estimate beside the recorded size.

    By another ruler (``token_table``) there are only the parts.
    """

    breakdown: Breakdown
    suggested_sizes: SuggestedSizes | None = None
    estimate_check: EstimateCheck | None = None
    token_table: TokenTable | None = None


def compute_context_sizes(
    view: View, checkpoint: Callable[[], object] = lambda: None, token_table: TokenTable | None = None
) -> ContextSizes:
    """The sizes of a view's context, by another ruler where one is given; *checkpoint* is called meanwhile, and may
    raise to stop.
    """
    session, context = view.session, view.context
    if token_table is not None:
        return ContextSizes(
            compute_breakdown(context, token_table.not_in_file_at(context), checkpoint, token_table),
            token_table=token_table,
        )
    parts = compute_breakdown(context, compute_prompt_not_in_file(context), checkpoint)
    checkpoint()
    fit = check_estimate(session, context)
    checkpoint()
    return ContextSizes(parts, suggest_sizes(session, context), fit)


def format_estimate_error(check: EstimateCheck) -> str:
    """How far the estimate is off: ``19 % below the 515,912 recorded``; nothing where it is near enough."""
    if not check.is_far_off:
        return ""
    side = "below" if check.relative_error < 0 else "above"
    return f"{format_percent(abs(check.relative_error))} {side} the {check.recorded:,} recorded"


def format_estimate_check(check: EstimateCheck | None, width: int) -> str:
    """How far the estimate is off and what it comes from, with as many causes as fit in *width* cells."""
    off = format_estimate_error(check) if check else ""
    if check is None or not off:
        return ""
    causes = check.format_causes()
    for count in range(len(causes), 0, -1):
        words = f"Estimate {off}: " + ", ".join([*causes[:count], *(["…"] if count < len(causes) else [])])
        if len(words) <= width:
            return words
    return f"Estimate {off}: {causes[0]}" if causes else ""
