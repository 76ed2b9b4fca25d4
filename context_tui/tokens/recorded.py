"""What the file itself says about size: recorded context, what is not in the file, and how far the estimate is off.

Recorded, estimated and not-in-file numbers are kept apart: differences are taken between numbers of one point only.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from context_tui.session.context import Context
from context_tui.session.facts import BlockFlag, Facts, MessageFlag, Usage
from context_tui.session.session import Session
from context_tui.tokens.measured import measured

FAR_OFF = 0.25
"""Share of the recorded size by which an estimate may be off before the screen says so."""


def last_request(context: Context) -> int:
    """Row of the last request of the context's epoch that ended before its point, or -1: never from before."""
    rows = context.facts.request_message
    row = bisect_left(rows, context.at) - 1
    return row if row >= 0 and rows[row] >= context.epoch_start else -1


def recorded_usage(context: Context) -> Usage | None:
    """The usage of the last request at or before the point, never from before a compaction."""
    row = last_request(context)
    return context.facts.requests[row] if row >= 0 else None


def in_file(facts: Facts) -> int:
    """Estimated tokens of the system prompt and the tool schemas, as far as they are in the file."""
    return facts.system_bytes // 4 + facts.tools_bytes // 4


def not_in_file(session: Session) -> int | None:
    """Tokens of the first request that are not in the file: recorded - estimated; None where it is not positive."""
    facts = session.facts
    if not facts.requests:
        return None
    context = session.context_at(facts.request_message[0])
    hidden = facts.requests[0].context - measured(context).total - in_file(facts)
    return hidden if hidden > 0 else None


@dataclass(frozen=True)
class Fit:
    """The estimate beside the recorded size at the last request: ``expected`` = estimated + not in the file."""

    recorded: int
    expected: int
    cause: str

    @property
    def off(self) -> float:
        """(expected - recorded) / recorded: negative when the estimate is too small."""
        return (self.expected - self.recorded) / self.recorded


def fit_at(session: Session, context: Context) -> Fit | None:
    """How the estimate fits what was recorded, and the likely cause where it does not; None: nothing recorded."""
    row = last_request(context)
    if row < 0 or not context.facts.requests[row].context:
        return None
    facts = context.facts
    recorded = facts.requests[row].context
    before = session.context_at(facts.request_message[row])
    expected = measured(before).total + in_file(facts) + (not_in_file(session) or 0)
    off = (expected - recorded) / recorded
    if abs(off) < FAR_OFF:
        return Fit(recorded, expected, "")
    return Fit(recorded, expected, _cause(before, off))


def _cause(context: Context, off: float) -> str:
    facts = context.facts
    flags = [facts.block_flags[block] for message in context.order for block in facts.blocks_of(message)]
    unseen = sum(1 for flag in flags if flag & BlockFlag.UNKNOWN_SIZE)
    if off > 0:
        if any(flag & BlockFlag.HAS_IMAGE for flag in flags):
            return "images in tool results are counted by their bytes"
        if any(facts.flags[message] & MessageFlag.SUMMARY for message in context.order):
            return "the runtime may send less than the file holds after a compaction"
        return "the runtime may have cleared old results without a record"
    if unseen:
        return f"{unseen} blocks cannot be measured (hidden thinking, images)"
    return "this model's tokenizer makes more tokens of a byte than the ruler, or the runtime added text"
