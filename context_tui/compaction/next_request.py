"""Size of the next request, without a plan and with it: recorded - removed + inserted.

Removed and inserted tokens are estimates, by the estimator of the policy that made the plan. The size of a summary that
is not written yet is unknown and not included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from context_tui.compaction.changes import UniformChanges, collect_bodies
from context_tui.compaction.plan import Plan
from context_tui.session.context import Context
from context_tui.session.values import Kind
from context_tui.tokens.accounting import (
    BelievedSize,
    compute_believed_size,
    compute_not_in_file,
    estimate_prompt,
    find_last_request,
)
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import estimate_text
from context_tui.tokens.measures import TokenTable


class SizeSource(StrEnum):
    """Origin of a size: recorded, estimated, or the sum of both."""

    RECORDED = "recorded"
    PARTLY = "recorded + estimate"
    ESTIMATED = "estimate"


@dataclass(frozen=True)
class NextRequest:
    """Sizes of the next request in tokens, without and with a plan.

    Attributes:
        current_size: size without the plan.
        removed_tokens: estimate of the content that the plan removes, less its replacements.
        inserted_tokens: estimate of the inserted messages, including a summary that is already written.
        summary_pending: whether a summary is not written yet; its size is then unknown.
        estimator: name of the estimator or token measure.
        minimum_tokens: estimate of the system prompt and tools, which no plan can remove.
    """

    current_size: BelievedSize
    removed_tokens: int = 0
    inserted_tokens: int = 0
    summary_pending: bool = False
    estimator: str = "bytes/4"
    minimum_tokens: int = 0

    @property
    def tokens_before(self) -> int:
        """Size without the plan."""
        return self.current_size.tokens

    @property
    def source_before(self) -> SizeSource:
        """Source of the size without the plan."""
        if self.current_size.recorded is None:
            return SizeSource.ESTIMATED
        return SizeSource.PARTLY if self.current_size.estimated else SizeSource.RECORDED

    @property
    def tokens_after(self) -> int:
        """Estimated size with the plan, without a summary that is not written yet."""
        minimum = max(min(self.minimum_tokens, self.tokens_before), 0)
        return max(self.tokens_before - self.removed_tokens, minimum) + self.inserted_tokens

    @property
    def saved_share(self) -> float:
        """Share of the request that the plan saves, 0 to 1; 0 if the request would grow."""
        return max(self.tokens_before - self.tokens_after, 0) / self.tokens_before if self.tokens_before else 0.0


def compute_current_size(context: Context, token_table: TokenTable | None = None) -> BelievedSize:
    """Compute the size of the next request without a plan: the last recorded size plus the appended messages.

    Without a recorded request in this context, it is an estimate of the context, of the system prompt and tools in the
    file, and of the content of the session's first request that is not in the file.

    Args:
        token_table: the token measure (default: ``bytes/4``).
    """
    if token_table is None:
        size = compute_believed_size(context)
        if size.recorded is not None:
            return size
        return BelievedSize(None, size.estimated + estimate_prompt(context.facts) + (compute_not_in_file(context) or 0))
    sums, request = token_table.prefix_sums_in(context), find_last_request(context)
    reply = index_context(context).position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        prompt = token_table.system + token_table.tools
        return BelievedSize(None, sums[-1] + prompt + (token_table.not_in_file_at(context) or 0))
    return BelievedSize(context.facts.requests[request].context, sums[-1] - sums[reply])


def compute_next_request(plan: Plan, summary: str | None = None, token_table: TokenTable | None = None) -> NextRequest:
    """Compute the size of the next request with *plan* applied.

    Args:
        summary: the text of the summary, if it is written already.
        token_table: the token measure (default: the policy's own estimator).
    """
    context, current = plan.context, compute_current_size(plan.context, token_table)
    if token_table is None:
        count: Callable[[str], int] = estimate_text
        estimator, removed = plan.estimator, plan.tokens_removed
        prompt, not_in_file = estimate_prompt(context.facts), compute_not_in_file(context)
    else:
        estimator, count, removed = token_table.name, token_table.count_text, _count_removed_tokens(plan, token_table)
        prompt, not_in_file = token_table.system + token_table.tools, token_table.not_in_file_at(context)
    inserts = [insert for insert in plan.inserts if summary is not None or not insert.holds_summary]
    inserted = sum(count(insert.format_text(summary or "")) for insert in inserts)
    minimum = prompt + max(not_in_file or 0, 0)  # both estimates may be too large together
    minimum = minimum if minimum <= current.tokens else prompt
    return NextRequest(current, removed, inserted, plan.needs_summary and summary is None, estimator, minimum)


def _count_removed_tokens(plan: Plan, table: TokenTable) -> int:
    context, sums, changes = plan.context, table.prefix_sums_in(plan.context), plan.changes
    if isinstance(changes, UniformChanges) and changes and table.uniform:
        rows, kind = changes.rows, context.facts.kind
        only_changes = not plan.dropped_ranges and not context.replacements
        if only_changes and all(kind[row] == Kind.TOOL_RESULT for row in rows):  # a fast path for very many results
            return sum(map(table.blocks.__getitem__, rows)) - len(rows) * table.count_body(rows[0], changes.change.body)
    removed = sum(sums[positions.stop] - sums[positions.start] for positions in plan.dropped_ranges)
    position_of = index_context(context).position_of if plan.dropped_ranges and changes else {}
    for row, body in collect_bodies(changes).items():
        if not plan.dropped_ranges or not plan.find_action(position_of[context.facts.block_message[row]]):
            removed += table.block_tokens(context, row) - table.count_body(row, body)
    return removed
