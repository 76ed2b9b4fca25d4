"""Summaries that were written and not accepted, whole or not: they outlive the screen that shows them.

They are kept in memory for as long as the program runs. Nothing here writes to disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this is imported before the first paint
    from context_tui.compaction.plan import Plan
    from context_tui.session.session import Session
    from context_tui.summarizer.reply import Summary


class DraftEnding(Enum):
    """Ending of a draft."""

    FINISHED = "finished"
    STOPPED = "stopped by you"
    CUT_OFF = "cut off"


@dataclass(frozen=True)
class Draft:
    """Summary by one summarizer.

    Attributes:
        number: counts the drafts of a plan, from 1.
        kind: the kind of summarizer.
        by: who wrote it, for display: a model, or ``extract``.
        summary: the reply, as far as it came.
        text: the reply's text, or what was made of it by hand.
        ending, why: how the writing ended; the cause where it was cut off.
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
        """Whether the text was edited by hand."""
        return self.text != self.summary.text


class Drafts:
    """The drafts of every plan, by its :func:`compute_plan_key`. The application owns one for all of its screens.

    ``requested_server`` is the model and the server (base URL) that were named on a screen last, None where the usual one was
    wanted: writing a draft again must not go to another server because the screen was closed meanwhile.
    """

    def __init__(self) -> None:
        self._by_plan: dict[str, list[Draft]] = {}
        self._accepted: set[str] = set()  # plans
        self.requested_server: tuple[str | None, str | None] | None = None

    def list_drafts(self, plan: str) -> list[Draft]:
        """The drafts of a plan, newest first."""
        return self._by_plan.get(plan, [])[::-1]

    def accept(self, plan: str) -> None:
        """Accept one of the drafts of a plan; the others no longer matter."""
        self._accepted.add(plan)

    @property
    def unaccepted_count(self) -> int:
        """Number of drafts by a model or edited by hand, for plans without an accepted one."""
        drafts = (each for plan, found in self._by_plan.items() if plan not in self._accepted for each in found)
        return sum(1 for each in drafts if each.summary.model or each.is_edited)

    def add(
        self,
        plan: str,
        kind: str,
        author: str,
        summary: Summary,
        ending: DraftEnding = DraftEnding.FINISHED,
        cause: str = "",
    ) -> Draft:
        """Add a draft, unless the same text is there already."""
        drafts = self._by_plan.setdefault(plan, [])
        made = Draft(len(drafts) + 1, kind, author, summary, summary.text, ending, cause)
        for each in drafts:
            if (each.kind, each.author, each.text, each.ending) == (kind, author, made.text, ending):
                return each
        drafts.append(made)
        return made

    def edit(self, plan: str, draft: Draft, text: str) -> Draft:
        """Keep a text that was made of a draft by hand; what the summarizer wrote stays a draft of its own."""
        drafts = self._by_plan.setdefault(plan, [])
        if draft.is_edited:
            made = replace(draft, text=text)
            drafts[draft.number - 1] = made
        else:
            made = replace(draft, number=len(drafts) + 1, text=text)
            drafts.append(made)
        return made


def compute_plan_key(session: Session, plan: Plan) -> str:
    """Return the key that identifies a plan when it is computed again: session, point, policy, settings and dropped
    messages.
    """
    info = session.info
    place = f"{info.path}#{info.id} {session.origin}"
    what = f"{plan.dropped_ranges} {len(plan.changes)} {plan.tokens_before}"
    return f"{place} {plan.policy} {plan.params.model_dump_json()} {plan.context.at} {what}"


def find_initial_draft(drafts: list[Draft]) -> Draft | None:
    """Return the newest draft by a model or edited by hand; an extract is quickly made again."""
    return next((each for each in drafts if each.summary.model or each.is_edited), None)
