"""Predict the size of the next request with and without a plan, as recorded - removed + inserted.

The recorded size is used unchanged; all other content is measured. Only the upper end of the range includes a summary
that is not written yet.
"""

from __future__ import annotations

from typing import NamedTuple

from context_tui.compaction.changes import UniformChanges, collect_bodies
from context_tui.compaction.plan import Plan
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.tokens import context_size
from context_tui.tokens.accounting import find_fixed_blocks
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import estimate_text
from context_tui.tokens.measures import TokenTable, build_calibrated_table
from context_tui.tokens.restored_files import RESTORED_ERROR, use_estimate


class NextRequest(NamedTuple):
    """The size of the next request, without a plan and with it.

    Attributes:
        account: the context without the plan.
        after: size of the request with the plan, without a summary that is not written yet; only its ``high``
            includes one, of twice the usual length.
        inserted_tokens: measured tokens that the plan inserts, including a written summary and ``restored_tokens``.
        summary_pending: whether the summary is not written yet, so that its size is unknown.
        restored_tokens: estimated tokens of files and skills that the agent puts back after the summary.
        put_back: tokens that remain of those that the last compaction put back.
    """

    account: context_size.ContextAccount
    after: context_size.ContextSize
    inserted_tokens: int = 0
    summary_pending: bool = False
    restored_tokens: int = 0
    put_back: int = 0

    @property
    def tokens_before(self) -> int:
        """Size of the request without the plan, in tokens."""
        return self.account.tokens

    @property
    def tokens_after(self) -> int:
        """Size of the request with the plan, in tokens."""
        return self.after.tokens

    @property
    def removed_tokens(self) -> int:
        """Tokens that the plan removes, minus the tokens of replacements."""
        return self.tokens_before + self.inserted_tokens - self.tokens_after

    @property
    def saved_share(self) -> float:
        """The share of the request that the plan saves, from 0 to 1. It is 0 if the request would grow."""
        return max(self.tokens_before - self.tokens_after, 0) / self.tokens_before if self.tokens_before else 0.0


def compute_next_request(plan: Plan, summary: str | None = None, token_table: TokenTable | None = None) -> NextRequest:
    """Return the size of the next request with *plan* applied, including *summary* if it is written already."""
    account = context_size.measure_context(plan.context, token_table)
    inserts = [insert for insert in plan.inserts if summary is not None or not insert.holds_summary]
    count = token_table.count_text if token_table else estimate_text
    convert = token_table.convert_estimate if token_table else use_estimate
    restored = plan.estimate_restored(convert)
    inserted = sum(count(insert.format_text(summary or "")) for insert in inserts)
    requests = context_size.count_requests_before(plan.context)
    removed_requests = sum(requests[positions.stop] - requests[positions.start] for positions in plan.dropped_ranges)
    base = account.remove_put_back() if account.put_back and _drops_summary(plan) else account
    rest = base.resize(_count_removed_tokens(plan, token_table), removed_requests)
    unsure = restored + account.put_back - base.put_back
    after = rest.add(inserted + restored, round(account.error * inserted + RESTORED_ERROR * unsure))
    if pending := plan.needs_summary and summary is None:
        usual_tokens = convert(context_size.estimate_summary(plan.context), Kind.TEXT)
        after = after._replace(high=after.high + 2 * round(usual_tokens))
    return NextRequest(account, after, inserted + restored, pending, restored, base.put_back)


def measure(source: Session | Context | Plan, summary: str | None = None) -> context_size.ContextSize:
    """Return the next request's size in tokens: at the end of a session, with a context, or after a plan is applied.

    The size is the one that the command line and the inspector show: recorded, or else measured with factors that are
    calibrated on the session. *summary* is that of the plan, if it is written already.
    """
    if isinstance(source, Plan):
        return compute_next_request(source, summary, build_calibrated_table(source.context.facts)).after
    context = source.context_at() if isinstance(source, Session) else source
    return context_size.measure_context(context, build_calibrated_table(context.facts)).size


def _drops_summary(plan: Plan) -> bool:
    """Return whether *plan* drops the summary of the last compaction, and with it what the agent put back."""
    position = index_context(plan.context).position_of.get(context_size.find_last_summary(plan.context))
    return any(position in places for places in plan.dropped_ranges)


def _count_removed_tokens(plan: Plan, table: TokenTable | None) -> int:
    """Count the measured tokens that *plan* removes, minus replacements and content that the agent inserts again."""
    if table is None:
        removed = plan.tokens_before - plan.tokens_after + plan.tokens_inserted
    else:
        removed = _measure_removed_tokens(plan, table)
    if not plan.dropped_ranges:
        return removed
    positions = index_context(plan.context).position_of
    standing_tokens = context_size.find_standing_tokens(plan.context, table)
    remaining = (message for message in standing_tokens if message in positions)
    return removed - sum(standing_tokens[each] for each in remaining if plan.find_action(positions[each]))


def _measure_removed_tokens(plan: Plan, table: TokenTable) -> int:
    context, sums, changes = plan.context, table.compute_prefix_sums(plan.context), plan.changes
    if isinstance(changes, UniformChanges) and changes and table.uniform:
        rows, kind = changes.rows, context.facts.kind
        only_changes = not plan.dropped_ranges and not context.replacements
        if only_changes and all(kind[row] == Kind.TOOL_RESULT for row in rows):  # a fast path for very many results
            return sum(map(table.blocks.__getitem__, rows)) - len(rows) * table.count_body(rows[0], changes.change.body)
    removed = sum(sums[positions.stop] - sums[positions.start] for positions in plan.dropped_ranges)
    position_of = index_context(context).position_of if plan.dropped_ranges and changes else {}
    fixed_blocks = find_fixed_blocks(context.facts)
    for row, body in collect_bodies(changes).items():
        is_dropped = plan.dropped_ranges and plan.find_action(position_of[context.facts.block_message[row]])
        if not is_dropped and row not in fixed_blocks:
            removed += table.count_block_tokens(context, row) - table.count_body(row, body)
    return removed
