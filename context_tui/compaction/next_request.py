"""What the next request would be, without a plan and with it: recorded - what goes + what comes in.

The part that was recorded stays recorded; all else is an estimate, and says so. What goes is estimated by the policy
that takes it. A summary that has yet to be written is unknown, and comes on top of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from context_tui.compaction.changes import AlikeChanges, bodies_of
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


class Known(StrEnum):
    """How a size is known."""

    RECORDED = "recorded"
    PARTLY = "recorded + estimate"
    ESTIMATED = "estimate"


@dataclass(frozen=True)
class NextRequest:
    """Sizes in tokens.

    ``now`` is the request without the plan: recorded of the last request of this context, and estimated of what came
    after it. ``goes`` is an estimate by ``estimator``, less what stands in its place; ``comes`` one of the messages
    that are put in, with the summary where that is written. ``waits`` says that it is not: its size is unknown.
    ``estimator`` is the policy's own, or the name of another ruler by which all three are estimated. ``least`` is an
    estimate of what no plan reaches, the system prompt and tools: where what goes is estimated as more than was
    recorded, that much is left.
    """

    now: BelievedSize
    goes: int = 0
    comes: int = 0
    waits: bool = False
    estimator: str = "bytes/4"
    least: int = 0

    @property
    def before(self) -> int:
        """The request without the plan."""
        return self.now.tokens

    @property
    def before_known(self) -> Known:
        """How the request without the plan is known."""
        if self.now.recorded is None:
            return Known.ESTIMATED
        return Known.PARTLY if self.now.estimated else Known.RECORDED

    @property
    def after(self) -> int:
        """The request with the plan, an estimate; without the summary while that is unknown."""
        return max(self.before - self.goes, min(self.least, self.before), 0) + self.comes

    @property
    def share(self) -> float:
        """The part of the request that would be gone, 0 to 1; 0 too where it would grow."""
        return max(self.before - self.after, 0) / self.before if self.before else 0.0


def size_now(context: Context, sizes: TokenTable | None = None) -> BelievedSize:
    """The next request as things are: recorded and appended; where nothing was recorded in this context, an estimate of
    it, of the system prompt and tools in the file, and of what the session's first request had besides.

    Args:
        sizes: the ruler that estimates; ``bytes/4`` without one.
    """
    if sizes is not None:
        return _size_by(sizes, context)
    size = compute_believed_size(context)
    if size.recorded is not None:
        return size
    return BelievedSize(None, size.estimated + estimate_prompt(context.facts) + (compute_not_in_file(context) or 0))


def _size_by(sizes: TokenTable, context: Context) -> BelievedSize:
    sums, request = sizes.prefix_sums_in(context), find_last_request(context)
    reply = index_context(context).position_of.get(context.facts.request_message[request]) if request >= 0 else None
    if reply is None:
        return BelievedSize(None, sums[-1] + sizes.system + sizes.tools + (sizes.not_in_file_at(context) or 0))
    return BelievedSize(context.facts.requests[request].context, sums[-1] - sums[reply])


def next_request(plan: Plan, summary: str | None = None, sizes: TokenTable | None = None) -> NextRequest:
    """The next request of the session if *plan* were carried out.

    Args:
        summary: its text, for a plan that summarises, where it is written already.
        sizes: the ruler that estimates; the policy's own without one.
    """
    if sizes is not None:
        comes, waits = sum(sizes.count_text(each.text()) for each in plan.inserts if not each.summary), plan.summarises
        if summary is not None:
            comes += sum(sizes.count_text(each.text(summary)) for each in plan.inserts if each.summary)
            waits = False
        now = size_now(plan.context, sizes)
        least = _least(now, sizes.system + sizes.tools, sizes.not_in_file_at(plan.context))
        return NextRequest(now, _goes(plan, sizes), comes, waits, sizes.name, least)
    comes, waits = plan.tokens_in, plan.summarises and summary is None
    if summary is not None:
        comes += sum(bytes_to_tokens(utf8_len(each.text(summary))) for each in plan.inserts if each.summary)
    now = size_now(plan.context)
    least = _least(now, estimate_prompt(plan.context.facts), compute_not_in_file(plan.context))
    return NextRequest(now, plan.tokens_out, comes, waits, plan.estimator, least)


def _least(now: BelievedSize, prompt: int, hidden: int | None) -> int:
    """What no plan reaches: a prompt that is in the file, and what the first request had besides, unless all of the
    request is less by now: that was counted otherwise, as by another model, or is no longer sent.
    """
    whole = prompt + max(hidden or 0, 0)
    return whole if whole <= now.tokens else prompt


def _goes(plan: Plan, sizes: TokenTable) -> int:
    """Tokens that go, less what stands in their place."""
    context, sums, changes = plan.context, sizes.prefix_sums_in(plan.context), plan.changes
    if (
        isinstance(changes, AlikeChanges)
        and changes
        and sizes.uniform
        and not plan.dropped
        and not context.replacements
    ):
        rows, kind = changes.rows, context.facts.kind
        if all(kind[row] == Kind.TOOL_RESULT for row in rows):  # very many are quick so
            return sum(map(sizes.blocks.__getitem__, rows)) - len(rows) * sizes.count_body(rows[0], changes.change.body)
    gone = sum(sums[each.stop] - sums[each.start] for each in plan.dropped)
    position_of = index_context(context).position_of if plan.dropped and changes else {}
    for row, body in bodies_of(changes).items():
        if not plan.dropped or not plan.action_at(position_of[context.facts.block_message[row]]):
            gone += sizes.block_tokens(context, row) - sizes.count_body(row, body)
    return gone
