"""What happened since a followed session was last on screen, in words. Pure."""

from __future__ import annotations

from typing import NamedTuple

from context_tui.compaction.recorded import RecordedCompaction, find_recorded_compactions
from context_tui.session.facts import Compaction
from context_tui.session.session import Session
from context_tui.tui.text import format_line, pluralize


class SeenState(NamedTuple):
    """What of a session has been told: the kinds and places of its compactions, rewound branches, messages."""

    compactions: frozenset[tuple[str, int]]
    branches: int
    messages: int

    @classmethod
    def from_session(cls, session: Session) -> SeenState:
        """All that there is."""
        facts = session.facts
        announced = ((each.kind, each.message) for each in facts.compactions)
        silent = (("silent", drop.message) for drop in session.drops if drop.cleared_blocks)
        return cls(frozenset([*announced, *silent]), len(facts.branches), len(session))


def format_news(seen: SeenState, session: Session) -> list[str]:
    """What there is that was not *seen* before: compactions with what they dropped, rewinds, a file written anew."""
    now = SeenState.from_session(session)
    if now.messages < seen.messages and now.branches <= seen.branches:
        return ["The file was written anew, and read from its start"]
    found = []
    if now.branches > seen.branches:
        left = sum(branch.messages for branch in session.facts.branches[seen.branches :])
        found.append(f"A rewind left {pluralize(left, 'message')} on a branch")
    if fresh := now.compactions - seen.compactions:
        found += [
            _format_compaction(each)
            for each in find_recorded_compactions(session)
            if (each.kind, each.message) in fresh
        ]
    return found


def _format_compaction(compaction: RecordedCompaction) -> str:
    """A compaction in a line: what it was, from how much to how much, what was lost."""
    what = compaction.event
    how = f" ({format_line(what.trigger)})" if isinstance(what, Compaction) and what.trigger else ""
    name = {"full": f"Full compaction{how}", "micro": f"Microcompaction{how}"}.get(
        compaction.kind, "Results cleared without a record (inferred)"
    )
    sizes = "" if compaction.believed_tokens_before is None else f" at {compaction.believed_tokens_before:,} tokens"
    tokens = sum(map(compaction.count_block_tokens, compaction.removed_blocks))
    return f"{name}{sizes}: {pluralize(len(compaction.removed_blocks), 'block')} lost, {tokens:,} est. tokens; B shows them"
