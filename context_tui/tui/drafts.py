"""Drafts of summaries, complete or not, kept in memory until the program ends and never written to disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this module is imported before the first paint
    from context_tui.compaction.plan import Plan
    from context_tui.session.session import Session
    from context_tui.summarizer.reply import Summary


class DraftEnding(Enum):
    """Reason why the writing of a draft ended."""

    FINISHED = "finished"
    STOPPED = "stopped by you"
    CUT_OFF = "cut off"


@dataclass(frozen=True)
class Draft:
    """Summary written by one summarizer, possibly edited.

    Attributes:
        number: position among the drafts of the plan, from 1.
        author: name shown for the summarizer: a model, or ``extract``.
        summary: reply, as far as it was received.
        text: text of the reply, or the edited text.
        cause: reason if it was cut off, else empty.
    """

    number: int
    kind: str
    author: str
    summary: Summary
    text: str
    ending: DraftEnding = DraftEnding.FINISHED
    cause: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the summarizer finished."""
        return self.ending is DraftEnding.FINISHED

    @property
    def is_edited(self) -> bool:
        """Whether the text was edited."""
        return self.text != self.summary.text


class Drafts:
    """Drafts of every plan, by :func:`compute_plan_key`.

    ``requested_server`` is the model and the base URL that the user named last, each None for the default. A reopened
    apply screen thus sends messages to the same server.
    """

    def __init__(self) -> None:
        self._by_plan: dict[str, list[Draft]] = {}
        self._accepted: set[str] = set()  # plans
        self.requested_server: tuple[str | None, str | None] = (None, None)

    def list_drafts(self, plan: str) -> list[Draft]:
        """Return the drafts of a plan, newest first."""
        return self._by_plan.get(plan, [])[::-1]

    def accept(self, plan: str) -> None:
        """Record that a draft of a plan was accepted; its other drafts no longer count as unaccepted."""
        self._accepted.add(plan)

    @property
    def unaccepted_count(self) -> int:
        """Number of drafts, written by a model or edited by the user, of plans without an accepted draft."""
        plans = self._by_plan.keys() - self._accepted
        return sum(1 for plan in plans for draft in self._by_plan[plan] if draft.summary.model or draft.is_edited)

    def add(
        self,
        plan: str,
        kind: str,
        author: str,
        summary: Summary,
        ending: DraftEnding = DraftEnding.FINISHED,
        cause: str = "",
    ) -> Draft:
        """Add a draft and return it; if the plan already has an equal one, return that."""
        drafts = self._by_plan.setdefault(plan, [])
        new_draft = Draft(len(drafts) + 1, kind, author, summary, summary.text, ending, cause)
        for draft in drafts:
            if (draft.kind, draft.author, draft.text, draft.ending) == (kind, author, new_draft.text, ending):
                return draft
        drafts.append(new_draft)
        return new_draft

    def edit(self, plan: str, draft: Draft, text: str) -> Draft:
        """Store an edited text and return its draft; the summarizer's own text remains a separate draft."""
        drafts = self._by_plan.setdefault(plan, [])
        if draft.is_edited:
            edited_draft = drafts[draft.number - 1] = replace(draft, text=text)
        else:
            edited_draft = replace(draft, number=len(drafts) + 1, text=text)
            drafts.append(edited_draft)
        return edited_draft


def compute_plan_key(session: Session, plan: Plan) -> str:
    """Compute a key that is the same for equal plans: session, point, policy, settings and dropped messages."""
    info = session.info
    place = f"{info.path}#{info.id} {session.origin}"
    effect = f"{plan.dropped_ranges} {len(plan.changes)} {plan.tokens_before}"
    return f"{place} {plan.policy} {plan.params.model_dump_json()} {plan.context.at} {effect}"


def find_initial_draft(drafts: list[Draft]) -> Draft | None:
    """Return the newest draft that a model wrote or the user edited; None if there are only extracts."""
    return next((draft for draft in drafts if draft.summary.model or draft.is_edited), None)
