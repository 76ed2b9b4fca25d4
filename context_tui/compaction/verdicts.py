"""What becomes of a message or block, and why: a code for programs, and words for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class VerdictCode(StrEnum):
    """Why a verdict is what it is. Programs compare these; the words beside a code say it in full."""

    # Kept, as it is recent or protected by another rule: PROTECTED holds these.
    RECENT_TURN = "recent_turn"
    RECENT_MESSAGE = "recent_message"
    RECENT_RESULT = "recent_result"
    TAIL = "tail"
    NEWEST_TURN = "newest_turn"
    PROTECTED = "protected"
    # Kept, as the policy does not touch it.
    KEPT = "kept"
    PAIR = "pair"
    SMALL = "small"
    NOT_COMPACTABLE = "not_compactable"
    NOT_A_RESULT = "not_a_result"
    NOT_SHORTER = "not_shorter"
    NOT_MARKED = "not_marked"
    ALREADY_CLEARED = "already_cleared"
    NOTHING_TO_DO = "nothing_to_do"
    NOT_IN_CONTEXT = "not_in_context"
    # Changed or gone.
    SELECTED = "selected"
    BEFORE_BOUNDARY = "before_boundary"
    DROPPED_RANGE = "dropped_range"


PROTECTED_CODES = frozenset(
    {
        VerdictCode.RECENT_TURN,
        VerdictCode.RECENT_MESSAGE,
        VerdictCode.RECENT_RESULT,
        VerdictCode.TAIL,
        VerdictCode.NEWEST_TURN,
        VerdictCode.PROTECTED,
    }
)
"""The codes of what a policy keeps because of where it stands."""

ACTION_PAST_TENSE = {"clear": "cleared", "truncate": "truncated", "drop": "dropped", "summarise": "summarised"}
"""What an action makes of a message or block."""


class KeepReason(NamedTuple):
    """Why something is kept."""

    code: VerdictCode
    explanation: str


KeepReasonFinder = Callable[[int, int | None], KeepReason]
"""Why something is kept: position in the context, and block row (None for the message)."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a message or block (kept, cleared, truncated, dropped or summarised), and why."""

    outcome: str
    code: VerdictCode
    explanation: str

    @property
    def reason(self) -> str:
        """The verdict and its words."""
        return self.explanation if self.code == VerdictCode.NOT_IN_CONTEXT else f"{self.outcome}: {self.explanation}"
