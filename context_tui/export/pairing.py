"""Pairs of calls and results in an export: repaired in a copy before it is written, and checked afterwards.

Calls that a policy separated from their results are repaired for every format, and reported. Blocks that were unpaired
in the recording remain so, except in formats for a provider. An export with other unpaired blocks is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from context_tui.compaction import tool_pairing
from context_tui.compaction.apply import SessionBuilder
from context_tui.compaction.tool_pairing import BlockPosition, MessageSource, Orphan
from context_tui.errors import ExportError
from context_tui.session.losses import Losses, UnsupportedReason
from context_tui.session.memory import DerivedContent, Origin, find_recording
from context_tui.session.session import Message, Session
from context_tui.session.values import MessageFlag

ENDS_WITH_PENDING_CALLS = "it ends with calls without results; add the results before you send it"
ENDS_WITH_ASSISTANT = (
    "it ends with an assistant message, which a provider would continue; add a user message before you send it"
)


class ExportableSession(NamedTuple):
    """A session that is ready to be written, with the changes made to it and the old id of each renamed call."""

    session: Session
    losses: Losses
    renamed_ids: Mapping[str, str]


class PairCheck(NamedTuple):
    """The unpaired blocks in a written file, inherited from the recording or introduced by the export (a defect)."""

    inherited: tuple[Orphan, ...] = ()
    introduced: tuple[Orphan, ...] = ()


def check_message_pairs(messages: list[Message]) -> PairCheck:
    """Return the unpaired blocks in recorded messages, all of which count as inherited."""
    return PairCheck(tool_pairing.find_unpaired(messages))


def check_pairs(session: Session, written: list[Message], renamed_ids: Mapping[str, str]) -> PairCheck:
    """Return the unpaired blocks in *written*, split into those in the recording of *session* and new ones."""
    if not tool_pairing.find_unpaired(written):
        return PairCheck()
    inherited, introduced = tool_pairing.compare_orphans(_find_recorded_context(session)[1], written, renamed_ids)
    return PairCheck(tuple(inherited), tuple(introduced))


def refuse_unpaired(check: PairCheck, format_name: str) -> None:
    """Raise ExportError if an export in the named format introduced unpaired blocks."""
    if introduced := len(check.introduced):
        problem = f"{introduced:,} calls or results would be unpaired; nothing was written"
        raise ExportError(f"{format_name}: {problem}; choose another boundary")


def build_exportable(
    session: Session, messages: list[Message], unsupported_reason: UnsupportedReason | None = None
) -> ExportableSession:
    """Build a session that can be written from *session*, whose context at the end is *messages*.

    *unsupported_reason* returns why a provider's format cannot hold a block. It is None for agents, which repair pairs.
    """
    context, facts, losses = session.context_at(), session.facts, Losses()
    replaced = context.replacements
    unique_messages, renamed = tool_pairing.assign_unique_ids(messages)
    losses.add(tool_pairing.NOTE_CALLS_RENAMED, len(renamed))
    if unsupported_reason is not None:
        selections = [_select_blocks(message, unsupported_reason, losses) for message in unique_messages]
        summaries = {at for at, index in enumerate(context.order) if facts.flags[index] & MessageFlag.SUMMARY}
        kept_messages = [*map(_keep_blocks, unique_messages, selections)]
        history, sources, notes = tool_pairing.repair_minimally(kept_messages, summaries)
        sources = [_map_source(source, selections) for source in sources]
        if notes:  # results that became text release their images
            selected = [_select_blocks(message, unsupported_reason, losses) for message in history]
            history = [*map(_keep_blocks, history, selected)]
            pairs = zip(sources, selected, strict=True)
            sources = [MessageSource(each.message, [each.blocks[n] for n in numbers]) for each, numbers in pairs]
        _note_history_end(history, losses)
    else:
        introduced = _find_introduced(session, unique_messages)
        history, sources, notes = tool_pairing.repair_orphans(unique_messages, introduced)
    for loss, number in notes.items():
        losses.add(loss, number)

    @lru_cache(maxsize=64)
    def list_rows(at: int) -> list[int]:
        return list(facts.blocks_of(context.order[at]))

    builder = SessionBuilder(session)
    for message, (at, places) in zip(history, sources, strict=True):
        if at is not None and message is messages[at]:
            rows_of_message = enumerate(list_rows(at) if replaced else ())
            texts = {ordinal: replaced[row].text for ordinal, row in rows_of_message if row in replaced}
            builder.copy_message(context.order[at], texts)
            continue
        origin_rows = [list_rows(place.message)[place.block] if place else -1 for place in places]
        copied_rows = [
            row if place and block is messages[place.message]["content"][place.block] and row not in replaced else -1
            for row, place, block in zip(origin_rows, places, message["content"], strict=True)
        ]
        owners = list(dict.fromkeys(facts.block_message[row] for row in origin_rows if row >= 0))
        flags = reduce(or_, (facts.flags[owner] for owner in owners), 0)
        time = facts.time[owners[0]] if owners else -1
        builder.add_message(message, flags=flags, time=time, rows=copied_rows, injected=unsupported_reason is None)
    return ExportableSession(builder.build_session(session.origin), losses, renamed)


def _select_blocks(message: Message, unsupported_reason: UnsupportedReason, losses: Losses) -> list[int]:
    """Return the numbers of the blocks that a provider accepts, and count the other blocks as losses."""
    reasons = [unsupported_reason(message["role"], block) for block in message["content"]]
    for reason in filter(None, reasons):
        losses.add(reason)
    return [number for number, reason in enumerate(reasons) if not reason]


def _keep_blocks(message: Message, numbers: list[int]) -> Message:
    """Return the message with only the blocks *numbers*, or the same object if it has no others."""
    content = message["content"]
    return message if len(numbers) == len(content) else {**message, "content": [content[n] for n in numbers]}


def _map_source(source: MessageSource, selected: list[list[int]]) -> MessageSource:
    positions = [each and BlockPosition(each.message, selected[each.message][each.block]) for each in source.blocks]
    return MessageSource(source.message, positions)


def _note_history_end(history: list[Message], losses: Losses) -> None:
    """Add a note if the last message is one that a provider would refuse at the end, or would continue."""
    if history and history[-1]["role"] == "assistant":
        pending = any(block.get("type") == "tool_use" for block in history[-1]["content"])
        losses.add_note(ENDS_WITH_PENDING_CALLS if pending else ENDS_WITH_ASSISTANT)


def _find_introduced(session: Session, messages: list[Message]) -> list[Orphan]:
    orphans = tool_pairing.find_unpaired(messages)
    if not orphans or not isinstance(session.content, DerivedContent):
        return []
    order, recorded = _find_recorded_context(session)
    inherited = {(orphan.kind, order[orphan.message], orphan.block) for orphan in tool_pairing.find_unpaired(recorded)}
    entries = [session.content.entries[message] for message in session.context_at().order]
    places: dict[int, list[BlockPosition]] = {}  # by message, where its blocks were recorded
    for message in {orphan.message for orphan in orphans}:
        if isinstance(entry := entries[message], Origin):
            places[message] = [BlockPosition(entry.message, ordinal) for ordinal in entry.remaining_blocks]
    return [o for o in orphans if o.message not in places or (o.kind, *places[o.message][o.block]) not in inherited]


def _find_recorded_context(session: Session) -> tuple[list[int], list[Message]]:
    root = find_recording(session)
    if root is session or not isinstance(session.content, DerivedContent):
        context = root.context_at()
    else:
        numbers = [entry.message for entry in session.content.entries if isinstance(entry, Origin)]
        context = root.context_at(max(numbers, default=-1) + 1)
    return list(context.order), root.messages_in(context)
