"""What the items of a rollout say, and the history that a compaction leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.codex.records import as_object, parse_rollout_line
from context_tui.formats.codex.scaffolding import is_injected_message, is_summary_message
from context_tui.formats.kit.items import COMPACTION_TYPES, Item, parse_item
from context_tui.formats.kit.line_scanner import LineContent
from context_tui.formats.kit.message_builder import CompactionRecord, MessagePart
from context_tui.formats.kit.values import parse_id
from context_tui.session.memory import Origin
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

NO_SUMMARY = "(no summary available)"
MISSING_SUMMARY = {"type": "compaction", "note": "the summary is not in this file"}
"""What stands in place of a summary that was left out of a file, whose size is unknown."""


def parse_rollout_item(item: Any) -> MessagePart:
    """An item of the conversation; what developers and Codex say is put in.

    Raises:
        ValueError: it is not known.
    """
    part = parse_item(item)
    return mark_injected(replace(part, role=Role.USER, is_injected=True) if part.role == Role.SYSTEM else part)


def mark_injected(part: MessagePart) -> MessagePart:
    """A part, marked where Codex says it as a user: surroundings and instructions, or the summary of a compaction."""
    if part.role != Role.USER or part.has_results:
        return part
    if is_summary_message(part.blocks):
        return replace(part, flags=part.flags | MessageFlag.SUMMARY)
    return replace(part, is_injected=part.is_injected or is_injected_message(part.blocks))


class ItemReference(NamedTuple):
    """An entry of a new history that is an earlier item, by its id."""

    item: str


def find_replacement_history(payload: Record) -> list[Any] | None:
    """The items of the history that a compaction leaves; None where it does not tell them."""
    if isinstance(items := payload.get("replacement_history"), list):
        return items
    entries = payload.get("replacement_history_entries")
    if not isinstance(entries, list):
        return None
    told = map(as_object, entries)
    return [
        each.get("item") if each.get("type") != "reference" else ItemReference(parse_id(each.get("item_id")))
        for each in told
    ]


def format_item_key(item: Any) -> str:
    """What an item with an id of its own is known by to the builder; empty for others."""
    own = as_object(item).get("id")
    return f"item {own}" if isinstance(own, str) and own else ""


def parse_compaction(payload: Record) -> MessagePart:
    """A compaction: its summary first, then everything else of the history it leaves; ``context`` is their order.

    A summary that the file does not hold, as who made it left it out, is a block of unknown size at the end. What is
    only kept for reviews of what the model did (``guardian_history``) is no compaction.
    """
    if find_replacement_history(payload) is None:
        if "guardian_history" in payload:
            return MessagePart()
        text = _get_summary_text(payload) or NO_SUMMARY
        return MessagePart(Role.USER, [{"type": "text", "text": text}], compaction=CompactionRecord())
    history = _parse_history(payload)
    summary, *more = (spoken.part for spoken in history.messages)
    told = CompactionRecord(context=tuple(history.order))
    return replace(summary, is_injected=False, notes=tuple(history.notes), compaction=told, further_parts=tuple(more))


def list_item_keys(payload: Record) -> list[list[str]]:
    """By message of a new history, the summary first, the keys of the items that it is made of."""
    return [
        [own for item in spoken.items if (own := format_item_key(item))] for spoken in _parse_history(payload).messages
    ]


class RolloutItems:
    """The items that messages were read from; those of the newest record are kept, as several messages may be in it."""

    def __init__(self) -> None:
        self._newest: tuple[LineContent | None, int] = (None, -1)
        self._newest_items: list[list[Item]] = []

    def find_items(self, origin: Origin) -> list[Item] | None:
        """The items of a message that was read from a rollout; None for one that was read from something else.

        Of a summary that is told as a text, or not at all, there are none, and it has to be written anew.
        """
        content = origin.session.content
        if not isinstance(content, LineContent) or origin.session.info.format != "codex":
            return None
        facts, message = content.facts, origin.message
        numbers = ((row, facts.ordinal_in_record(message, row)) for row in facts.records_of(message))
        return [item for row, number in numbers for item in self._read_items(content, row)[number]] or None

    def _read_items(self, content: LineContent, row: int) -> list[list[Item]]:
        """By number, the items of the messages in a record; none of one of which it holds only the text."""
        if self._newest != (content, row):
            self._newest, self._newest_items = (content, row), _list_record_items(content.read_record(row))
        return self._newest_items


def _list_record_items(record: Record) -> list[list[Item]]:
    line = parse_rollout_line(record)
    payload = as_object(line.payload)
    if line.kind != "compacted":
        return [[payload]]
    return (
        [[]]
        if find_replacement_history(payload) is None
        else [spoken.items for spoken in _parse_history(payload).messages]
    )


class _HistoryMessage(NamedTuple):
    """A message of a history and the items that it is made of."""

    part: MessagePart
    items: list[Item]


class _History(NamedTuple):
    """The messages of a history, the summary first; what it is in prompt order: their numbers, and the keys of earlier
    items; what was not understood.
    """

    messages: list[_HistoryMessage]
    order: list[int | str]
    notes: list[str]


def _get_summary_text(payload: Record) -> str:
    message = payload.get("message")
    return message if isinstance(message, str) else ""


def _parse_history(payload: Record) -> _History:
    found, notes = list[_HistoryMessage](), list[str]()
    order = list[int | str]()  # the numbers are those in what was found
    for item in find_replacement_history(payload) or ():
        if isinstance(item, ItemReference):
            order.append(format_item_key({"id": item.item}))
            continue
        try:
            part = parse_rollout_item(item)
        except ValueError as error:
            notes.append(str(error))
            continue
        if part.role is None:
            continue
        before = found[-1].part if order and isinstance(order[-1], int) else MessagePart()
        if (
            before.role == part.role
            and before.has_results == part.has_results
            and (part.has_results or part.role != Role.USER)
        ):
            joined = replace(before, blocks=[*before.blocks, *part.blocks])
            found[-1] = _HistoryMessage(joined, [*found[-1].items, item])
        else:
            order.append(len(found))
            found.append(_HistoryMessage(part, [item]))
    text = _get_summary_text(payload)
    at = next((n for n in reversed(range(len(found))) if _is_history_summary(found[n].part, text)), len(found))
    if at == len(found):
        order.append(at)
        found.append(_HistoryMessage(MessagePart(Role.USER, [MISSING_SUMMARY]), []))
    summary = found.pop(at)
    numbers = {at: 0, **{n: n + (n < at) for n in range(len(found) + 1) if n != at}}
    return _History([summary, *found], [numbers[each] if isinstance(each, int) else each for each in order], notes)


def _is_history_summary(part: MessagePart, text: str) -> bool:
    """Whether a message of a new history is the summary: so marked, encrypted, or the text that is told beside."""
    if part.role != Role.USER or part.has_results or not part.blocks:
        return False
    block, marked = part.blocks[0], bool(part.flags & MessageFlag.SUMMARY)
    return marked or str(block.get("type")) in COMPACTION_TYPES or (bool(text) and block.get("text") == text)
