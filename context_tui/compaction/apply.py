"""Carrying out a plan: the runtime's exact history as a new session. The session it came from stays as it was."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.compaction.changes import build_new_texts
from context_tui.compaction.derive import SessionBuilder
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Insert, Plan
from context_tui.errors import PlanError
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag
from context_tui.tokens.accounting import compute_not_in_file, compute_prompt_not_in_file, estimate_prompt
from context_tui.tokens.context_index import index_context


def apply(session: Session, plan: Plan, summary: str | None = None) -> Session:
    """A new session holding the history that *plan* leaves; an unchanged plan gives the same session back.

    Args:
        summary: the text for a plan that summarises, without prefix or suffix.

    Raises:
        PlanError: the plan is of another session, or it summarises and there is no (or only a blank) summary.
    """
    context = plan.context
    if context.facts is not session.facts:
        raise PlanError("the plan was made for another session; make a new plan")
    if not plan.has_changes:
        return session
    if plan.needs_summary and not (summary and summary.strip()):
        raise PlanError(f"{plan.policy}: the summary is missing or empty; give one with text")
    made, touched = SessionBuilder(session), bool(plan.changes or context.replacements)
    for each in iterate_result_entries(plan):
        if isinstance(each, Insert):
            block = {"type": "text", "text": each.format_text(summary or "")}
            flags = MessageFlag.SUMMARY if each.holds_summary else 0
            made.add_message({"role": each.role, "content": [block]}, flags=flags, injected=not each.holds_summary)
        else:
            made.copy_message(each, build_new_texts(session.content, context, plan.changes, each) if touched else None)
    copy = made.build_session(f"{session.origin}, {plan.policy}" if session.origin else plan.policy, context.at)
    request = compute_next_request(plan, summary)
    if request.current_size.recorded is not None or compute_not_in_file(context) is not None:
        left = request.tokens_after - index_context(copy.context_at()).total - estimate_prompt(copy.facts)
        copy.facts.not_in_file = left
        prompt = compute_prompt_not_in_file(context)
        copy.facts.prompt_not_in_file = None if prompt is None else max(min(left, prompt), 0)
    return copy


def iterate_result_entries(plan: Plan) -> Iterator[int | Insert]:
    """What the result consists of, in order: messages (by index) that are kept, and what is put in."""
    inserts: dict[int, list[Insert]] = {}
    for insert in plan.inserts:
        inserts.setdefault(insert.position, []).append(insert)
    gone = {position for each in plan.dropped_ranges for position in each}
    for position in range(len(plan.context) + 1):
        yield from inserts.get(position, ())
        if position < len(plan.context) and position not in gone:
            yield plan.context.order[position]
