"""Summaries that were written but not accepted yet: they outlive the screen, by the plan that they are for."""

from __future__ import annotations

from dataclasses import dataclass

from context_tui.compaction.plan import Plan
from context_tui.session.session import Session
from context_tui.summarizer.reply import Summary


@dataclass(frozen=True)
class Draft:
    """A summary by one summarizer; ``text`` differs from the summary's own where it was edited."""

    kind: str
    by: str
    summary: Summary
    text: str

    @property
    def edited(self) -> bool:
        """Whether the text was changed by hand."""
        return self.text != self.summary.text


Drafts = dict[tuple[str, str], Draft]
"""By plan and kind of summarizer. The application keeps one and hands it to every screen."""


def plan_key(session: Session, plan: Plan) -> str:
    """What makes a plan the same one when it is made anew: session, point, policy, settings and what is dropped."""
    info = session.info
    place = f"{info.path}#{info.id} {session.origin}"
    what = f"{plan.dropped} {len(plan.changes)}"
    return f"{place} {plan.policy} {plan.params.model_dump_json()} {plan.context.at} {what}"


def last_kind(drafts: Drafts, key: str, default: str) -> str:
    """The summarizer to begin with: the one whose draft is waiting, a model's before an extract."""
    waiting = [draft for (plan, _), draft in drafts.items() if plan == key]
    worth = [draft.kind for draft in waiting if draft.summary.model or draft.edited]
    return worth[-1] if worth else default
