"""What has to be changed of a session before it is written, and nothing else; the session itself stays as it was.

A policy may split a call from its result; that is mended and told for every format. What was unpaired in the recording
stays so, unless a provider is to take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from context_tui.compaction.derive import Derivation
from context_tui.compaction.tool_pairing import (
    RENAMED,
    Orphan,
    compare,
    problems,
    repair_minimally,
    repair_orphans,
    unique_ids,
)
from context_tui.losses import Refuses, losses_in
from context_tui.session.context import Context
from context_tui.session.derived import DerivedContent, Origin
from context_tui.session.session import Message, Session

PENDING = "it ends with calls without results; add the results before you send it"
ENDS_WITH_ASSISTANT = (
    "it ends with an assistant message, which a provider would continue; add a user message before you send it"
)


@dataclass(frozen=True)
class Exportable:
    """A session that is fit to be written: notes on what was changed, and the new ids of calls with their old ones."""

    session: Session
    notes: list[str]
    renamed: Mapping[str, str]


@dataclass(frozen=True)
class PairCheck:
    """What is unpaired in what was written: inherited from the recording, or introduced, which is a defect."""

    inherited: tuple[Orphan, ...] = ()
    introduced: tuple[Orphan, ...] = ()


def recording_of(session: Session) -> Session:
    """The recording behind any number of plans carried out."""
    while isinstance(session.content, DerivedContent):
        session = session.content.parent
    return session


def unpaired(messages: list[Message]) -> PairCheck:
    """What is unpaired in a recording as it is."""
    found = problems(messages)
    return PairCheck((*found.orphan_calls, *found.orphan_results))


def check_pairs(session: Session, written: list[Message], renamed: Mapping[str, str]) -> PairCheck:
    """Compare what was written of *session* with the recording that it was made from."""
    if not problems(written):
        return PairCheck()
    inherited, introduced = compare(_recorded(session)[1], written, renamed)
    return PairCheck(tuple(inherited), tuple(introduced))


def exportable(session: Session, messages: list[Message], refuses: Refuses | None = None) -> Exportable:
    """The context at the end of *session* as a session that can be written.

    Args:
        messages: its messages.
        refuses: what a provider's format cannot hold; None for a format whose runtime mends pairs itself.
    """
    context, facts = session.context_at(), session.facts
    counted = Counter[str]()
    named, renamed = unique_ids(messages)
    if renamed:
        counted[RENAMED] = len(renamed)
    untouched = {id(message): at for at, message in enumerate(messages)}
    as_read = {id(block) for message in messages for block in message["content"]}
    rows = {
        id(block): row
        for index, message in zip(context.order, named, strict=True)
        for row, block in zip(facts.blocks_of(index), message["content"], strict=True)
    }
    if refuses is not None:
        history = [_without_refused(message, refuses, counted) for message in named]
        history, notes = repair_minimally(history)
        if notes:  # images come out of results that became text
            history = [_without_refused(message, refuses, counted) for message in history]
        notes += _end(history)
    else:
        history, notes = repair_orphans(named, _introduced(session, named))
    made = Derivation(session)
    for message in history:
        at = untouched.get(id(message))
        if at is not None:
            made.keep(context.order[at], _bodies(context, context.order[at]))
            continue
        own = [rows.get(id(block), -1) for block in message["content"]]
        same = [
            row if id(block) in as_read and row not in context.replaced else -1
            for row, block in zip(own, message["content"], strict=True)
        ]
        sources = list(dict.fromkeys(facts.block_message[row] for row in own if row >= 0))
        flags = reduce(or_, (facts.flags[source] for source in sources), 0)
        time = facts.time[sources[0]] if sources else -1
        made.add(message, flags=flags, time=time, rows=same, injected=refuses is None)
    return Exportable(made.session(session.origin), [*losses_in(counted), *notes], renamed)


def _bodies(context: Context, message: int) -> dict[int, str | None]:
    """Bodies that stand in place of recorded ones, by block ordinal."""
    if not context.replaced:
        return {}
    rows = enumerate(context.facts.blocks_of(message))
    return {ordinal: context.replaced[row].text for ordinal, row in rows if row in context.replaced}


def _without_refused(message: Message, refuses: Refuses, counted: Counter[str]) -> Message:
    why = [refuses(message["role"], block) for block in message["content"]]
    if not any(why):
        return message
    counted.update(reason for reason in why if reason)
    return {**message, "content": [block for block, reason in zip(message["content"], why, strict=True) if not reason]}


def _end(history: list[Message]) -> list[str]:
    """What a provider would make of the end of a history."""
    if not history or history[-1]["role"] != "assistant":
        return []
    pending = any(block.get("type") == "tool_use" for block in history[-1]["content"])
    return [PENDING if pending else ENDS_WITH_ASSISTANT]


def _introduced(session: Session, messages: list[Message]) -> list[Orphan]:
    """The orphans in the messages of a session whose very blocks were none in the recording."""
    found = problems(messages)
    if not found or not isinstance(session.content, DerivedContent):
        return []
    order, recorded = _recorded(session)
    had = problems(recorded)
    inherited = {(o.kind, order[o.message], o.block) for o in (*had.orphan_calls, *had.orphan_results)}
    entries = [session.content.entries[message] for message in session.context_at().order]
    return [
        orphan
        for orphan in (*found.orphan_calls, *found.orphan_results)
        if not isinstance(entry := entries[orphan.message], Origin)
        or (orphan.kind, entry.message, orphan.block) not in inherited
    ]


def _recorded(session: Session) -> tuple[list[int], list[Message]]:
    """The context of the recording at the point that a session was derived at: message numbers, and messages."""
    root = recording_of(session)
    if root is session or not isinstance(session.content, DerivedContent):
        context = root.context_at()
    else:
        kept = [entry.message for entry in session.content.entries if isinstance(entry, Origin)]
        context = root.context_at(max(kept, default=-1) + 1)
    return list(context.order), root.messages_of(context)
