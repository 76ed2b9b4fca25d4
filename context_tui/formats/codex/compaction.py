"""Parse the compactions that Codex records: a summary, and the history that replaces the context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.codex.rollout import Record, parse_rollout_item
from context_tui.formats.kit import message_builder
from context_tui.formats.kit.blocks import MISSING_SUMMARY, build_text
from context_tui.formats.kit.response_items import COMPACTION_TYPES, Item
from context_tui.formats.kit.values import as_object, as_text, parse_id
from context_tui.session.values import MessageFlag, Role

NO_SUMMARY = "(no summary available)"


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


def parse_compaction(payload: Record) -> message_builder.ParsedRecord:
    """Parse a compaction into its summary, followed by the other messages in its history.

    ``context`` states their order. A summary that the file lacks becomes a block of unknown size at the end of the
    context. A history kept only for reviews of the model's actions (``guardian_history``) becomes metadata.
    """
    if find_replacement_history(payload) is None:
        if "guardian_history" in payload:
            return message_builder.MetadataRecord()
        text = as_text(payload.get("message")) or NO_SUMMARY
        compaction = message_builder.FullCompactionRecord()
        return message_builder.MessageRecord(Role.USER, [build_text(text)], compaction=compaction)
    history = _parse_history(payload)
    summary, *other_records = (message.part for message in history.messages)
    compaction = message_builder.FullCompactionRecord(context=tuple(history.order))
    summary = replace(summary, is_injected=False, notes=tuple(history.notes), compaction=compaction)
    return message_builder.group_records(summary, *other_records)


def list_items(payload: Record) -> list[list[Item]]:
    """Return the items in each message of a compaction's history, with the summary first."""
    return [message.items for message in _parse_history(payload).messages]


def list_item_keys(payload: Record) -> list[list[str]]:
    """Return the keys of the items in each message of a compaction's history, with the summary first."""
    return [[key for item in items if (key := format_item_key(item))] for items in list_items(payload)]


class _HistoryMessage(NamedTuple):
    part: message_builder.MessageRecord
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
        if not isinstance(record, message_builder.MessageRecord):
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
        messages.append(_HistoryMessage(message_builder.MessageRecord(Role.USER, [MISSING_SUMMARY]), []))
    summary = messages.pop(place)
    numbers = {place: 0, **{n: n + (n < place) for n in range(len(messages) + 1) if n != place}}
    return _History([summary, *messages], [numbers[each] if isinstance(each, int) else each for each in order], notes)


def _is_history_summary(record: message_builder.MessageRecord, text: str) -> bool:
    if record.role != Role.USER or record.has_results or not record.blocks:
        return False
    block, marked = record.blocks[0], bool(record.flags & MessageFlag.SUMMARY)
    return marked or str(block.get("type")) in COMPACTION_TYPES or (bool(text) and block.get("text") == text)
