"""Events of the context (compactions, clears and drops), their labels, and news of a followed session."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from context_tui.compaction.recorded_compactions import RecordedCompaction, find_recorded_compactions
from context_tui.session.facts import Compaction, Drop, Epoch, Facts
from context_tui.session.session import Session
from context_tui.session.values import Explanation
from context_tui.text.numbers import format_count
from context_tui.tui.rendering.formatting import format_line


class ContextEvent(NamedTuple):
    """A compaction, clear or drop of the context just before ``message``; for a drop, that is the reply."""

    message: int
    fact: Compaction | Epoch | Drop

    @property
    def begins_context(self) -> bool:
        """Whether ``message`` begins a new context, after a clear or a full compaction."""
        return isinstance(self.fact, Epoch) or (isinstance(self.fact, Compaction) and self.fact.kind == "full")


def find_context_events(session: Session) -> list[ContextEvent]:
    """Return a session's compactions, clears and drops in order, except drops explained by a microcompaction."""
    facts = session.facts
    compactions = (compaction for compaction in facts.compactions if compaction.message <= session.length)
    clears = (epoch for epoch in facts.epochs if epoch.cause == "clear" and epoch.message <= session.length)
    drops = {drop.message: drop for drop in session.drops if drop.explained_by != Explanation.MICROCOMPACTION}
    event_facts: list[Compaction | Epoch | Drop] = [*compactions, *clears, *drops.values()]
    return [ContextEvent(fact.message, fact) for fact in sorted(event_facts, key=lambda fact: fact.message)]


def is_compaction(event: ContextEvent) -> bool:
    """Return whether an event is a compaction, announced by a record or inferred from cleared results."""
    fact = event.fact
    return isinstance(fact, Compaction) or (isinstance(fact, Drop) and bool(fact.cleared_blocks))


def format_event_labels(facts: Facts, event: ContextEvent) -> tuple[str, ...]:
    """Return forms of the text that the timeline shows for an event, longest first."""
    fact = event.fact
    if isinstance(fact, Epoch):
        return ("context cleared (/clear)",)
    if isinstance(fact, Drop):
        reason, short_reason = _format_explanation(fact)
        return (f"recorded context fell by {fact.tokens:,}: {reason}", f"recorded −{fact.tokens:,}: {short_reason}")
    trigger = f" ({format_line(fact.trigger)})" if fact.trigger else ""
    if fact.kind == "full":
        size = f", {fact.pre_tokens:,} tokens before by the agent's count" if fact.pre_tokens else ""
        count = format_count(fact.missing_messages, "kept record")
        missing_records = f"; {count} not in the file" if fact.missing_messages else ""
        full = f"full compaction by the runtime{trigger}{size}{missing_records}"
        short_size = f", {fact.pre_tokens:,} by the agent" if fact.pre_tokens else ""
        return full, f"full compaction{trigger}{missing_records or short_size}"
    results = f"{format_count(len(fact.cleared_blocks), 'result')} cleared"
    fall = _compute_token_drop(facts, fact)
    size = f": recorded context fell by {fall:,}" if fall else ""
    return (f"{results} by the runtime{trigger}{size}", f"{results}{trigger}{f': recorded −{fall:,}' if fall else ''}")


def _format_explanation(drop: Drop) -> tuple[str, str]:
    """Return a long and a short explanation of a drop, which say that it is inferred, or ``unexplained`` twice."""
    if drop.explained_by is None:
        return "unexplained", "unexplained"
    if not drop.cleared_blocks:
        return f"{drop.explained_by} (inferred)", f"{drop.explained_by} (inferred)"
    results = format_count(len(drop.cleared_blocks), "result")
    return f"{drop.explained_by} (inferred, {results})", f"{results} cleared (inferred)"


def _compute_token_drop(facts: Facts, compaction: Compaction) -> int:
    """Return by how many tokens the recorded context fell at the first request after a microcompaction, or 0."""
    row = bisect_left(facts.request_message, compaction.message)
    message = facts.request_message[row] if row < len(facts.requests) else -1
    index = bisect_left(facts.drops, message, key=lambda drop: drop.message)
    drop = facts.drops[index] if index < len(facts.drops) else None
    micro = drop is not None and drop.message == message and drop.explained_by == Explanation.MICROCOMPACTION
    return drop.tokens if drop is not None and micro else 0


def format_event_point(event: ContextEvent) -> str:
    """Format a label for the point before an event, as in ``before the recorded full compaction``."""
    fact = event.fact
    if isinstance(fact, Epoch):
        return "before the context was cleared (/clear)"
    if isinstance(fact, Drop):
        return f"before the recorded context fell by {fact.tokens:,}: {_format_explanation(fact)[1]}"
    return f"before the recorded {'full compaction' if fact.kind == 'full' else 'microcompaction'}"


def format_event_details(facts: Facts, event: ContextEvent) -> Iterator[str]:
    """Yield one or two lines about an event, to be shown above the full text of the message after it."""
    yield format_event_labels(facts, event)[0]
    if isinstance(event.fact, Drop) and event.fact.cleared_blocks:
        owners = [facts.block_message[row] for row in event.fact.cleared_blocks]
        first, last = min(owners), max(owners)
        place = f"message {first:,}" if first == last else f"messages {first:,} to {last:,}"
        yield f"cleared results (inferred): in {place}, marked with a dot"


class SeenState(NamedTuple):
    """The state of a followed session when news was last shown; ``compactions`` holds (kind, message) pairs."""

    compactions: frozenset[tuple[str, int]]
    branches: int
    messages: int

    @classmethod
    def from_session(cls, session: Session) -> SeenState:
        """Return the state of a session as far as it has been read."""
        facts = session.facts
        compactions = (each for each in facts.compactions if each.message <= session.length)  # facts may have grown
        announced = ((compaction.kind, compaction.message) for compaction in compactions)
        silent = (("silent", drop.message) for drop in session.drops if drop.cleared_blocks)
        return cls(frozenset([*announced, *silent]), len(facts.rewound_branches), len(session))


def format_news(old: SeenState, session: Session) -> list[str]:
    """Return a line for each event since *old*: compactions with the lost blocks, rewinds, or a rewritten file."""
    new = SeenState.from_session(session)
    if new.messages < old.messages and new.branches <= old.branches:
        return ["The file was rewritten, and read again from its start"]
    news = []
    if new.branches > old.branches:
        count = sum(branch.messages for branch in session.facts.rewound_branches[old.branches :])
        news.append(f"A rewind left {format_count(count, 'message')} on a branch")
    if new_keys := new.compactions - old.compactions:
        compactions = find_recorded_compactions(session)
        news += [_format_compaction(item) for item in compactions if (item.kind, item.message) in new_keys]
    return news


def _format_compaction(compaction: RecordedCompaction) -> str:
    event = compaction.event
    trigger = f" ({format_line(event.trigger)})" if isinstance(event, Compaction) and event.trigger else ""
    names = {"full": f"Full compaction{trigger}", "micro": f"Microcompaction{trigger}"}
    name = names.get(compaction.kind, "Results cleared without a record (inferred)")
    sizes = "" if compaction.believed_tokens_before is None else f" at {compaction.believed_tokens_before:,} tokens"
    tokens = sum(map(compaction.count_block_tokens, compaction.removed_blocks))
    blocks = format_count(len(compaction.removed_blocks), "block")
    return f"{name}{sizes}: {blocks} lost, {tokens:,} est. tokens; B shows them"
