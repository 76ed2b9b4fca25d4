"""Parse the records and items in a rollout: envelopes, session metadata, injected text and compacted histories."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.kit.blocks import build_text
from context_tui.formats.kit.line_scanner import LineContent
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.kit.response_items import COMPACTION_TYPES, Item, parse_item
from context_tui.formats.kit.values import as_object, as_text, parse_id, parse_time_ms
from context_tui.session.memory import Origin
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

META, ITEM = "session_meta", "response_item"
RECORD_TYPES = frozenset({META, ITEM, "turn_context", "event_msg", "compacted"})
IGNORED_TYPES = frozenset(
    {
        *("world_state", "inter_agent_communication", "inter_agent_communication_metadata", "token_usage_record"),
        *("security_risk_score", "realtime_item", "state"),
    }
)
"""Types of records outside the context. Any content that the model sees is also recorded as items."""
_OLD_META_MEMBERS = ("id", "timestamp", "instructions")


class RolloutLine(NamedTuple):
    """A line of a rollout: its type, its payload, and its time in epoch milliseconds (-1 if unknown)."""

    kind: str
    payload: Any
    time: int = -1


def parse_rollout_line(record: Record) -> RolloutLine:
    """Parse a line of a new or an old rollout. Any other line gets the type ""."""
    kind = record.get("type")
    if "payload" in record and isinstance(kind, str):
        return RolloutLine(kind, record["payload"], parse_time_ms(record.get("timestamp")))
    if isinstance(state := record.get("record_type"), str):
        return RolloutLine(state, record)
    if isinstance(kind, str):
        return RolloutLine(ITEM, record)
    if all(name in record for name in _OLD_META_MEMBERS):
        return RolloutLine(META, record, parse_time_ms(record.get("timestamp")))
    return RolloutLine("", record)


class SessionMeta(NamedTuple):
    """Metadata of a session, which begins with the first ``base_bytes`` bytes of the rollout ``continued_from``.

    Further fields are the session's id, its folder, and the ids of the session it was forked from and of its parent.
    """

    base_bytes: int

    id: str
    cwd: str
    forked_from: str
    parent: str
    continued_from: str


def parse_session_meta(payload: Any) -> SessionMeta:
    """Parse the metadata of a session. A missing id or folder becomes ""."""
    meta = as_object(payload)
    source = as_object(meta.get("source"))
    spawned = as_object(as_object(source.get("subagent")).get("thread_spawn"))
    parent = meta.get("parent_thread_id") or spawned.get("parent_thread_id")
    base = as_object(meta.get("history_base"))
    members = (meta.get("id"), meta.get("cwd"), meta.get("forked_from_id"), parent, base.get("thread_id"))
    base_bytes = base.get("end_byte_offset")
    return SessionMeta(base_bytes if type(base_bytes) is int else 0, *map(parse_id, members))


NO_SUMMARY = "(no summary available)"
MISSING_SUMMARY = {"type": "compaction", "note": "the summary is not in this file"}
"""Placeholder of a summary that is not in the file; its size is unknown."""


def parse_rollout_item(item: Any) -> MessageRecord | MetadataRecord:
    """Parse an item of the conversation. Developer messages and text from Codex are marked as injected."""
    record = parse_item(item)
    if not isinstance(record, MessageRecord):
        return record
    return mark_injected(replace(record, role=Role.USER, is_injected=True) if record.role == Role.SYSTEM else record)


def mark_injected(record: MessageRecord) -> MessageRecord:
    """Return a record, marked as injected text or as a compaction's summary if it is user text that Codex wrote."""
    if record.role != Role.USER or record.has_results or not record.blocks:
        return record
    are_texts = [block.get("type") == "text" for block in record.blocks]
    if are_texts[0] and _get_text(record.blocks[0]).startswith(SUMMARY_PREFIX):
        return replace(record, flags=record.flags | MessageFlag.SUMMARY)
    is_only_scaffolding = all(are_texts) and all(is_scaffolding(_get_text(block)) for block in record.blocks)
    return replace(record, is_injected=record.is_injected or is_only_scaffolding)


class ItemReference(NamedTuple):
    """A reference by id to an earlier item, in the history after a compaction."""

    item: str


def find_replacement_history(payload: Record) -> list[Any] | None:
    """Return the items and references in the history after a compaction, or None if it is not recorded."""
    if isinstance(items := payload.get("replacement_history"), list):
        return items
    entries = payload.get("replacement_history_entries")
    if not isinstance(entries, list):
        return None
    pairs = ((each.get("type") == "reference", each) for each in map(as_object, entries))
    return [ItemReference(parse_id(each.get("item_id"))) if refers else each.get("item") for refers, each in pairs]


def format_item_key(item: Any) -> str:
    """Return the key by which records refer to an item, or "" if the item has no id."""
    item_id = as_object(item).get("id")
    return f"item {item_id}" if isinstance(item_id, str) and item_id else ""


def parse_compaction(payload: Record) -> ParsedRecord:
    """Parse a compaction into its summary, followed by the other messages in its history.

    ``context`` states their order. A summary that the file lacks becomes a block of unknown size at the end of the
    context. A history kept only for reviews of the model's actions (``guardian_history``) becomes metadata.
    """
    if find_replacement_history(payload) is None:
        if "guardian_history" in payload:
            return MetadataRecord()
        text = as_text(payload.get("message")) or NO_SUMMARY
        return MessageRecord(Role.USER, [build_text(text)], compaction=FullCompactionRecord())
    history = _parse_history(payload)
    summary, *other_records = (message.part for message in history.messages)
    compaction = FullCompactionRecord(context=tuple(history.order))
    summary = replace(summary, is_injected=False, notes=tuple(history.notes), compaction=compaction)
    return group_records(summary, *other_records)


def list_item_keys(payload: Record) -> list[list[str]]:
    """Return the keys of the items in each message of a compaction's history, with the summary first."""
    messages = _parse_history(payload).messages
    return [[key for item in message.items if (key := format_item_key(item))] for message in messages]


class RolloutItems:
    """Finds the items from which a message was read. The items of the newest record are cached."""

    def __init__(self) -> None:
        self._newest: tuple[LineContent | None, int] = (None, -1)
        self._newest_items: list[list[Item]] = []

    def find_items(self, origin: Origin) -> list[Item] | None:
        """Return the items of a message that was read from a rollout, or None for any other message.

        A summary that is recorded as text, or not at all, has no items and must be written as a new item.
        """
        content = origin.session.content
        if not isinstance(content, LineContent) or origin.session.info.format != "codex":
            return None
        items: list[Item] = []
        for row in content.facts.records_of(origin.message):
            if self._newest != (content, row):
                self._newest, self._newest_items = (content, row), _list_record_items(content.read_record(row))
            items += self._newest_items[content.facts.ordinal_in_record(origin.message, row)]
        return items or None


def _list_record_items(record: Record) -> list[list[Item]]:
    line = parse_rollout_line(record)
    payload = as_object(line.payload)
    if line.kind != "compacted":
        return [[payload] if line.kind == ITEM else []]
    if find_replacement_history(payload) is None:
        return [[]]
    return [message.items for message in _parse_history(payload).messages]


class _HistoryMessage(NamedTuple):
    part: MessageRecord
    items: list[Item]


class _History(NamedTuple):
    """History after a compaction: messages (summary first), order (message numbers and keys of items), and notes."""

    messages: list[_HistoryMessage]
    order: list[int | str]
    notes: list[str]


def _parse_history(payload: Record) -> _History:
    messages, notes = list[_HistoryMessage](), list[str]()
    order = list[int | str]()  # numbers index the messages of this history
    for item in find_replacement_history(payload) or ():
        if isinstance(item, ItemReference):
            order.append(format_item_key({"id": item.item}))
            continue
        try:
            record = parse_rollout_item(item)
        except ValueError as error:
            notes.append(str(error))
            continue
        if not isinstance(record, MessageRecord):
            continue
        newest = messages[-1].part if order and isinstance(order[-1], int) else None
        is_same_kind = newest and (newest.role, newest.has_results) == (record.role, record.has_results)
        if newest and is_same_kind and (record.has_results or record.role != Role.USER):
            joined = replace(newest, blocks=[*newest.blocks, *record.blocks])
            messages[-1] = _HistoryMessage(joined, [*messages[-1].items, item])
        else:
            order.append(len(messages))
            messages.append(_HistoryMessage(record, [item]))
    text = as_text(payload.get("message"))
    summary_places = (n for n, message in enumerate(messages) if _is_history_summary(message.part, text))
    place = max(summary_places, default=len(messages))
    if place == len(messages):
        order.append(place)
        messages.append(_HistoryMessage(MessageRecord(Role.USER, [MISSING_SUMMARY]), []))
    summary = messages.pop(place)
    numbers = {place: 0, **{n: n + (n < place) for n in range(len(messages) + 1) if n != place}}
    return _History([summary, *messages], [numbers[each] if isinstance(each, int) else each for each in order], notes)


def _is_history_summary(record: MessageRecord, text: str) -> bool:
    if record.role != Role.USER or record.has_results or not record.blocks:
        return False
    block, marked = record.blocks[0], bool(record.flags & MessageFlag.SUMMARY)
    return marked or str(block.get("type")) in COMPACTION_TYPES or (bool(text) and block.get("text") == text)


SUMMARY_PREFIX = "Another language model started to solve this problem and produced a summary of its thinking process"
"""First words of the user message that holds the summary of a compaction."""
INSTRUCTIONS_START = "# AGENTS.md instructions"
_ELEMENT_NAME = re.compile(r"[a-z][a-z0-9]*[_ ][a-z0-9_ ]*")
"""Element name of several words, as Codex's elements have, unlike HTML's."""
_SINGLE_WORD_ELEMENTS = ("skill", "hook", "recommended")
MAX_TAG_LENGTH = 200


def is_scaffolding(text: str) -> bool:
    """Return whether Codex wrote a text in a user message: project instructions, or an XML element of Codex."""
    text = text.strip()
    if text.startswith(INSTRUCTIONS_START):
        return True
    end = text.find(">", 0, MAX_TAG_LENGTH) if text.startswith("<") else -1
    tag = text[1:end] if end > 0 else ""
    names = (tag, tag.partition(" ")[0])  # it may have attributes
    known = (name for name in names if name in _SINGLE_WORD_ELEMENTS or _ELEMENT_NAME.fullmatch(name))
    return any(text.endswith(f"</{name}>") for name in known)


def _get_text(block: dict[str, Any]) -> str:
    return str(block.get("text") or "")
