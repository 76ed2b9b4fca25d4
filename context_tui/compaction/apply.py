"""Carrying out a plan: the runtime's exact history as a new session. The session it came from stays as it was."""

from __future__ import annotations

from typing import Any

from context_tui.compaction.derive import Derivation
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError
from context_tui.session.context import Body
from context_tui.session.session import Message, Session


def head_of(session: Session, plan: Plan) -> list[Message]:
    """The messages that a plan drops, as the summarizer is to see them (the vectors' shape, before pair repair)."""
    order = plan.context.order[: plan.cut]
    messages = [{"role": session.message(m)["role"], "content": _blocks(session, plan, m)} for m in order]
    return plan.prepare(messages) if plan.prepare else messages


def previous_summary_of(session: Session, plan: Plan) -> str | None:
    """The body of the earlier summary that the new one is to update, or None."""
    if plan.previous < 0 or plan.insert is None:
        return None
    facts = session.facts
    message = facts.block_message[plan.previous]
    ordinal = list(facts.blocks_of(message)).index(plan.previous)
    text = str(session.content.blocks(message)[ordinal].get("text") or "")
    return text.removeprefix(plan.insert.prefix.rstrip("\n")).lstrip()


def apply(session: Session, plan: Plan, summary: str | None = None) -> Session:
    """A new session holding the history that *plan* leaves; an unchanged plan gives the same session back.

    Args:
        summary: the text for a plan that summarises, without prefix or suffix.

    Raises:
        PlanError: the plan is of another session, or it summarises and there is no (or only a blank) summary.
    """
    if plan.context.facts is not session.facts:
        raise PlanError("this plan was made for another session")
    if not plan.changed:
        return session
    made = Derivation(session)
    if plan.cut and plan.insert:
        if not summary or not summary.strip():
            raise PlanError(f"{plan.policy} needs a summary, and this one is empty")
        text = plan.insert.text(summary)
        made.add({"role": plan.insert.role, "content": [{"type": "text", "text": text}]})
    touched = plan.changes or plan.context.replaced
    for message in plan.context.order[plan.cut :]:
        made.keep(message, _bodies(session, plan, message) if touched else None)
    return made.session(f"{session.origin}, {plan.policy}" if session.origin else plan.policy)


def _bodies(session: Session, plan: Plan, message: int) -> dict[int, str]:
    """New bodies of a message's results, by ordinal: what the plan changes, else what the context had replaced."""
    bodies: dict[int, str] = {}
    blocks: list[dict[str, Any]] | None = None
    for ordinal, block in enumerate(session.facts.blocks_of(message)):
        body: Body | None = plan.context.replaced.get(block)
        change = plan.changes.get(block)
        if change:
            body = change.body
            if body.text is None and change.render:
                blocks = blocks or session.content.blocks(message)
                earlier = plan.context.replaced.get(block)
                bodies[ordinal] = change.render(earlier.text if earlier else blocks[ordinal].get("content"))
                continue
        if body and body.text is not None:
            bodies[ordinal] = body.text
    return bodies


def _blocks(session: Session, plan: Plan, message: int) -> list[dict[str, Any]]:
    blocks = session.content.blocks(message)
    for ordinal, text in _bodies(session, plan, message).items():
        blocks[ordinal] = {**blocks[ordinal], "content": text}
    return blocks
