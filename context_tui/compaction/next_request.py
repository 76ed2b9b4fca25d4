"""Size of the next request, without a plan and with it: recorded - removed + inserted.

The part that was recorded stays recorded; all else is an estimate, and says so. What goes is estimated by the policy
that takes it. A summary that has yet to be written is unknown, and comes on top of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from context_tui.compaction.changes import UniformChanges, collect_bodies
from context_tui.compaction.plan import Plan
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.context import Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.values import Kind
from context_tui.tokens.accounting import (
    BelievedSize,
    compute_believed_size,
    compute_not_in_file,
    estimate_prompt,
    find_last_request,
)
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable


class SizeSource(StrEnum):
    """Origin of a size: recorded, estimated, or the sum of both."""

    RECORDED = "recorded"
    PARTLY = "recorded + estimate"
    ESTIMATED = "estimate"


@dataclass(frozen=True)
class NextRequest:
    """Sizes of the next request in tokens, without and with a plan.

    ``current_size`` is the request without the plan. ``removed_tokens`` estimates what the plan removes, less
    replacements; ``inserted_tokens`` what it inserts, including a written summary; ``summary_pending`` means that the
    summary is not written yet, so its size is unknown. ``estimator`` is the policy's own, or the token measure of all
    three. ``minimum_tokens`` estimates what no plan can remove, the system prompt and tools, and bounds the result if
    more is estimated to be removed than was recorded.
    """

    current_size: BelievedSize
    removed_tokens: int = 0
    inserted_tokens: int = 0
    summary_pending: bool = False
    estimator: str = "bytes/4"
    minimum_tokens: int = 0

    @property
    def tokens_before(self) -> int:
        """The request without the plan."""
        return self.current_size.tokens

    @property
    def source_before(self) -> SizeSource:
        """Source of the size without the plan."""
        if self.current_size.recorded is None:
            return SizeSource.ESTIMATED
        return SizeSource.PARTLY if self.current_size.estimated else SizeSource.RECORDED

    @property
    def tokens_after(self) -> int:
        """The request with the plan, an estimate; without the summary while that is unknown."""
        return (
            max(self.tokens_before - self.removed_tokens, min(self.minimum_tokens, self.tokens_before), 0)
            + self.inserted_tokens
        )

    @property
    def saved_share(self) -> float:
        """Share of the request that would be removed, 0 to 1; 0 too where it would grow."""
        return max(self.tokens_before - self.tokens_after, 0) / self.tokens_before if self.tokens_before else 0.0


def compute_current_size(context: Context, token_table: TokenTable | None = None) -> BelievedSize:
    """Compute the size of the next request without a plan: recorded plus appended.

    Without a recorded request in this context it is an estimate of the context, of the system prompt and tools in the
    file, and of what else the session's first request had.

    Args:
        token_table: the token measure (default: ``bytes/4``).
    """
    if token_table is not None:
        return _measure_current_size(token_table, context)
    size = compute_believed_size(context)
    if size.recorded is not None:
        return size
    return BelievedSize(None, size.estimated + estimate_prompt(context.facts) + (compute_not_in_file(context) or 0))


def _measure_current_size(sizes: TokenTable, context: Context) -> BelievedSize:
    sums, request = sizes.prefix_sums_in(context), find_last_request(context)
    reply = index_context(context).position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        return BelievedSize(None, sums[-1] + sizes.system + sizes.tools + (sizes.not_in_file_at(context) or 0))
    return BelievedSize(context.facts.requests[request].context, sums[-1] - sums[reply])


def compute_next_request(plan: Plan, summary: str | None = None, token_table: TokenTable | None = None) -> NextRequest:
    """Return the next request of the session with *plan* applied.

    Args:
        summary: its text, for a plan that summarises, if it is written already.
        token_table: the token measure (default: the policy's own estimator).
    """
    context, current = plan.context, compute_current_size(plan.context, token_table)
    count: Callable[[str], int] = _estimate_text
    if token_table is None:
        estimator, removed = plan.estimator, plan.tokens_removed
        prompt, not_in_file = estimate_prompt(context.facts), compute_not_in_file(context)
    else:
        estimator, count, removed = token_table.name, token_table.count_text, _count_removed_tokens(plan, token_table)
        prompt, not_in_file = token_table.system + token_table.tools, token_table.not_in_file_at(context)
    inserts = [each for each in plan.inserts if summary is not None or not each.holds_summary]
    inserted = sum(count(each.format_text(summary or "")) for each in inserts)
    minimum = _compute_minimum_tokens(current, prompt, not_in_file)
    return NextRequest(current, removed, inserted, plan.needs_summary and summary is None, estimator, minimum)


def _estimate_text(text: str) -> int:
    return bytes_to_tokens(utf8_len(text))


def _compute_minimum_tokens(current: BelievedSize, prompt: int, hidden: int | None) -> int:
    """Return the tokens that no plan removes: a prompt in the file and, if the request is as large, what is not in
    it.
    """
    total = prompt + max(hidden or 0, 0)
    return total if total <= current.tokens else prompt


def _count_removed_tokens(plan: Plan, sizes: TokenTable) -> int:
    context, sums, changes = plan.context, sizes.prefix_sums_in(plan.context), plan.changes
    if (
        isinstance(changes, UniformChanges)
        and changes
        and sizes.uniform
        and not plan.dropped_ranges
        and not context.replacements
    ):
        rows, kind = changes.rows, context.facts.kind
        if all(kind[row] == Kind.TOOL_RESULT for row in rows):  # very many are quick so
            return sum(map(sizes.blocks.__getitem__, rows)) - len(rows) * sizes.count_body(rows[0], changes.change.body)
    removed = sum(sums[each.stop] - sums[each.start] for each in plan.dropped_ranges)
    position_of = index_context(context).position_of if plan.dropped_ranges and changes else {}
    for row, body in collect_bodies(changes).items():
        if not plan.dropped_ranges or not plan.find_action(position_of[context.facts.block_message[row]]):
            removed += sizes.block_tokens(context, row) - sizes.count_body(row, body)
    return removed
