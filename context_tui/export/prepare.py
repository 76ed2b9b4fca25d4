"""What has to be changed of a session before it is written, and nothing else; the session itself stays as it was.

A policy may split a call from its result; that is mended and told for every format. What was unpaired in the recording
stays so, unless a provider is to take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from context_tui.compaction.derive import Derivation
from context_tui.compaction.tool_pairing import (
    RENAMED,
    Orphan,
    Place,
    Source,
    compare,
    problems,
    repair_minimally,
    repair_orphans,
    unique_ids,
)
from context_tui.session.context import Context
from context_tui.session.losses import Losses, UnsupportedReason
from context_tui.session.memory import DerivedContent, Origin, find_recording
from context_tui.session.session import Message, Session
from context_tui.session.values import MessageFlag

PENDING = "it ends with calls without results; add the results before you send it"
ENDS_WITH_ASSISTANT = (
    "it ends with an assistant message, which a provider would continue; add a user message before you send it"
)


@dataclass(frozen=True)
class Exportable:
    """A session that is fit to be written: what was changed for it, and the new ids of calls with their old ones."""

    session: Session
    losses: Losses
    renamed: Mapping[str, str]


@dataclass(frozen=True)
class PairCheck:
    """What is unpaired in what was written: inherited from the recording, or introduced, which is a defect."""

    inherited: tuple[Orphan, ...] = ()
    introduced: tuple[Orphan, ...] = ()


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


def exportable(session: Session, messages: list[Message], refuses: UnsupportedReason | None = None) -> Exportable:
    """The context at the end of *session* as a session that can be written.

    Args:
        messages: its messages.
        refuses: what a provider's format cannot hold; None for a format whose runtime mends pairs itself.
    """
    context, facts = session.context_at(), session.facts
    losses = Losses()
    named, renamed = unique_ids(messages)
    losses.add(RENAMED, len(renamed))
    if refuses is not None:
        taken = [_taken(message, refuses, losses) for message in named]
        summaries = {at for at, index in enumerate(context.order) if facts.flags[index] & MessageFlag.SUMMARY}
        left = [_only(message, of) for message, of in zip(named, taken, strict=True)]
        history, sources, notes = repair_minimally(left, summaries)
        sources = [_before(source, taken) for source in sources]
        if notes:  # images come out of results that became text
            still = [_taken(message, refuses, losses) for message in history]
            history = [_only(message, of) for message, of in zip(history, still, strict=True)]
            sources = [Source(s.message, [s.blocks[n] for n in of]) for s, of in zip(sources, still, strict=True)]
        _tell_end(history, losses)
    else:
        history, sources, notes = repair_orphans(named, _introduced(session, named))
    losses.add_counts(notes)
    rows = [list(facts.blocks_of(index)) for index in context.order]
    made = Derivation(session)
    for message, (at, places) in zip(history, sources, strict=True):
        if at is not None and message is messages[at]:
            made.keep(context.order[at], _bodies(context, context.order[at]))
            continue
        own = [rows[place.message][place.block] if place else -1 for place in places]
        same = [
            row if place and block is _block(messages, place) and row not in context.replacements else -1
            for row, place, block in zip(own, places, message["content"], strict=True)
        ]
        owners = list(dict.fromkeys(facts.block_message[row] for row in own if row >= 0))
        flags = reduce(or_, (facts.flags[owner] for owner in owners), 0)
        time = facts.time[owners[0]] if owners else -1
        made.add(message, flags=flags, time=time, rows=same, injected=refuses is None)
    return Exportable(made.session(session.origin), losses, renamed)


def _bodies(context: Context, message: int) -> dict[int, str | None]:
    """Bodies that stand in place of recorded ones, by block ordinal."""
    if not context.replacements:
        return {}
    rows = enumerate(context.facts.blocks_of(message))
    return {ordinal: context.replacements[row].text for ordinal, row in rows if row in context.replacements}


def _taken(message: Message, refuses: UnsupportedReason, losses: Losses) -> list[int]:
    """The blocks of a message that a provider takes, by number; the others are counted."""
    why = [refuses(message["role"], block) for block in message["content"]]
    for reason in filter(None, why):
        losses.add(reason)
    return [number for number, reason in enumerate(why) if not reason]


def _only(message: Message, numbers: list[int]) -> Message:
    """The message with only these of its blocks; itself, when these are all."""
    content = message["content"]
    return message if len(numbers) == len(content) else {**message, "content": [content[n] for n in numbers]}


def _before(source: Source, taken: list[list[int]]) -> Source:
    """A source in messages of which only these blocks were taken, as one in the whole messages."""
    return Source(source.message, [p and Place(p.message, taken[p.message][p.block]) for p in source.blocks])


def _block(messages: list[Message], place: Place) -> dict[str, Any]:
    block: dict[str, Any] = messages[place.message]["content"][place.block]
    return block


def _tell_end(history: list[Message], losses: Losses) -> None:
    """Say what a provider would make of the end of a history."""
    if history and history[-1]["role"] == "assistant":
        pending = any(block.get("type") == "tool_use" for block in history[-1]["content"])
        losses.add_note(PENDING if pending else ENDS_WITH_ASSISTANT)


def _introduced(session: Session, messages: list[Message]) -> list[Orphan]:
    """The orphans in the messages of a session whose very blocks were none in the recording."""
    found = problems(messages)
    if not found or not isinstance(session.content, DerivedContent):
        return []
    order, recorded = _recorded(session)
    had = problems(recorded)
    inherited = {(o.kind, order[o.message], o.block) for o in (*had.orphan_calls, *had.orphan_results)}
    entries = [session.content.entries[message] for message in session.context_at().order]
    orphans = (*found.orphan_calls, *found.orphan_results)
    places: dict[int, list[Place]] = {}  # by message, where its blocks were recorded
    for message in {orphan.message for orphan in orphans}:
        if isinstance(entry := entries[message], Origin):
            places[message] = [Place(entry.message, ordinal) for ordinal in entry.remaining_blocks]
    return [o for o in orphans if o.message not in places or (o.kind, *places[o.message][o.block]) not in inherited]


def _recorded(session: Session) -> tuple[list[int], list[Message]]:
    """The context of the recording at the point that a session was derived at: message numbers, and messages."""
    root = find_recording(session)
    if root is session or not isinstance(session.content, DerivedContent):
        context = root.context_at()
    else:
        kept = [entry.message for entry in session.content.entries if isinstance(entry, Origin)]
        context = root.context_at(max(kept, default=-1) + 1)
    return list(context.order), root.messages_in(context)
