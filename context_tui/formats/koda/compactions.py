"""koda's full compactions, told from the rows they archived.

A compaction stamps the rows it archives and appends two more: the summary, and a hint to go on. Rows are sent by id,
so the context after it is what was left, then the summary, then the hint.
"""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.formats.values import epoch_ms
from context_tui.session.epochs import order_at
from context_tui.session.facts import Compaction, Epoch, Facts, Kind, MessageFlag, Role

Stamp = tuple[int, str]


def begin_epochs(facts: Facts, archived: Sequence[str | None]) -> None:
    """Take the compactions of a session, and the contexts that they begin, anew."""
    found = compactions_in(facts, archived)
    facts.compactions, facts.rewrites, facts.epochs = [], [], [Epoch(0, "start")]
    for compaction in found:
        facts.add_compaction(compaction)
    leave_out_archived(facts, archived)


def compactions_in(facts: Facts, archived: Sequence[str | None]) -> list[Compaction]:
    """The compactions of a session; ``archived`` holds, per message, when it was archived."""
    stamps = [None if when is None else (epoch_ms(when), when) for when in archived]
    last_with = {stamp: message for message, stamp in enumerate(stamps) if stamp is not None}
    summaries = [m for m in range(len(facts)) if facts.flags[m] & MessageFlag.SUMMARY and facts.role[m] == Role.SYSTEM]
    found: list[Compaction] = []
    before: Stamp | None = None
    for summary in reversed(summaries):
        own = max((s for s in last_with if _may_be(s, summary, stamps[summary], last_with[s], before)), default=None)
        tail = [m for m, stamp in enumerate(stamps[:summary]) if stamp is None or own is None or stamp > own]
        found.append(Compaction(summary, "full", prefix=(*tail, summary, *_hint(facts, summary))))
        before = own or before
    return found[::-1]


def leave_out_archived(facts: Facts, archived: Sequence[str | None]) -> None:
    """Mark as not sent what is archived and yet would be in the context at the end: its summary is gone."""
    for message in order_at(facts, len(facts))[1]:
        if archived[message] is not None:
            facts.flags[message] |= MessageFlag.NOT_SENT


def _may_be(stamp: Stamp, summary: int, archived: Stamp | None, last: int, before: Stamp | None) -> bool:
    """Whether rows archived at *stamp* can be those of *summary*: older than it, and archived before it was."""
    return last < summary and (archived is None or stamp < archived) and (before is None or stamp < before)


def _hint(facts: Facts, summary: int) -> list[int]:
    """The hint behind a summary: a text of the assistant that no model was asked for."""
    hint = summary + 1
    if hint >= len(facts) or facts.role[hint] != Role.ASSISTANT or hint in facts.request_message:
        return []
    return [hint] if all(facts.kind[block] == Kind.TEXT for block in facts.blocks_of(hint)) else []
