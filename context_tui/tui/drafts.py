"""Drafts of summaries, complete or not, kept in memory until the program ends and never written to disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # this module is imported before the first paint
    from context_tui.compaction.plan import Plan
    from context_tui.session.session import Session
    from context_tui.summarizer.reply import Summary


class DraftEnding(Enum):
    """The way in which the writing of a draft ended."""

    FINISHED = "finished"
    STOPPED = "stopped by you"
    CUT_OFF = "cut off"


@dataclass(frozen=True)
class Draft:
    """A summary as written by a summarizer, or as edited by the user.

    Attributes:
        number: position among the drafts for the same plan, starting at 1.
        author: name shown for the summarizer: a model, or ``extract``.
        summary: the part of the reply that was received.
        text: text from the reply, or the user's edited version.
        cause: reason why the reply was cut off; empty if it was not.
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
        """Whether the summarizer finished, rather than being stopped or cut off."""
        return self.ending is DraftEnding.FINISHED

    @property
    def is_edited(self) -> bool:
        """Whether the text differs from the summarizer's reply."""
        return self.text != self.summary.text


class RequestedServer(NamedTuple):
    """The model and the base URL of the server that the user requested last; None means the default."""

    model: str | None = None
    base_url: str | None = None


class Drafts:
    """Drafts keyed by plan, as given by :func:`compute_plan_key`, and the model and server requested for new ones.

    ``requested_server`` is here so that a reopened apply screen uses the same server.
    """

    def __init__(self) -> None:
        self._by_plan: dict[str, list[Draft]] = {}
        self._accepted: set[str] = set()  # plans
        self.requested_server = RequestedServer()

    def list_drafts(self, plan: str) -> list[Draft]:
        """Return the drafts for a plan, newest first; empty if there are none."""
        return self._by_plan.get(plan, [])[::-1]

    def accept(self, plan: str) -> None:
        """Record that a draft was accepted for *plan*, after which no draft for that plan counts as unaccepted."""
        self._accepted.add(plan)

    @property
    def unaccepted_count(self) -> int:
        """Number of drafts that a model wrote or the user edited, in all plans without an accepted draft."""
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
        """Add a draft for *plan* and return it, or return the existing draft if an equal one was added before."""
        drafts = self._by_plan.setdefault(plan, [])
        new_draft = Draft(len(drafts) + 1, kind, author, summary, summary.text, ending, cause)
        for draft in drafts:
            if (draft.kind, draft.author, draft.text, draft.ending) == (kind, author, new_draft.text, ending):
                return draft
        drafts.append(new_draft)
        return new_draft

    def edit(self, plan: str, draft: Draft, text: str) -> Draft:
        """Store *text* in *draft* if that was edited before, or else in a new draft, and return the stored draft."""
        drafts = self._by_plan.setdefault(plan, [])
        if draft.is_edited:
            edited_draft = drafts[draft.number - 1] = replace(draft, text=text)
        else:
            edited_draft = replace(draft, number=len(drafts) + 1, text=text)
            drafts.append(edited_draft)
        return edited_draft


def compute_plan_key(session: Session, plan: Plan) -> str:
    """Return a key of the session, point, policy, settings and effect of a plan, which is the same for equal plans."""
    info = session.info
    place = f"{info.path}#{info.id} {session.origin}"
    effect = f"{plan.dropped_ranges} {len(plan.changes)} {plan.tokens_before}"
    return f"{place} {plan.policy} {plan.params.model_dump_json()} {plan.context.at} {effect}"


def find_initial_draft(drafts: list[Draft]) -> Draft | None:
    """Return the first of *drafts* that came from a model or was edited, or None if all are unedited extracts."""
    return next((draft for draft in drafts if draft.summary.model or draft.is_edited), None)
