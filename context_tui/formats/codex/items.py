"""What the items of a rollout say, and the history that a compaction leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.codex.records import line_of, members
from context_tui.formats.codex.scaffolding import is_injected, is_summary
from context_tui.formats.kit.items import COMPACTIONS, Item, item_part
from context_tui.formats.kit.line_scanner import LinesContent
from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.values import as_id
from context_tui.session.memory import Origin
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

NO_SUMMARY = "(no summary available)"
MISSING = {"type": "compaction", "note": "the summary is not in this file"}
"""What stands in place of a summary that was left out of a file, whose size is unknown."""


def said(item: Any) -> Part:
    """An item of the conversation; what developers and Codex say is put in.

    Raises:
        ValueError: it is not known.
    """
    part = item_part(item)
    return put_in(replace(part, role=Role.USER, injected=True) if part.role == Role.SYSTEM else part)


def put_in(part: Part) -> Part:
    """A part, marked where Codex says it as a user: surroundings and instructions, or the summary of a compaction."""
    if part.role != Role.USER or part.results:
        return part
    if is_summary(part.blocks):
        return replace(part, flags=part.flags | MessageFlag.SUMMARY)
    return replace(part, injected=part.injected or is_injected(part.blocks))


class Reference(NamedTuple):
    """An entry of a new history that is an earlier item, by its id."""

    item: str


def replacement_in(payload: Record) -> list[Any] | None:
    """The items of the history that a compaction leaves; None where it does not tell them."""
    if isinstance(items := payload.get("replacement_history"), list):
        return items
    entries = payload.get("replacement_history_entries")
    if not isinstance(entries, list):
        return None
    told = map(members, entries)
    return [
        each.get("item") if each.get("type") != "reference" else Reference(as_id(each.get("item_id"))) for each in told
    ]


def key_of(item: Any) -> str:
    """What an item with an id of its own is known by to the builder; empty for others."""
    own = members(item).get("id")
    return f"item {own}" if isinstance(own, str) and own else ""


def compaction_part(payload: Record) -> Part:
    """A compaction: its summary first, then everything else of the history it leaves; ``context`` is their order.

    A summary that the file does not hold, as who made it left it out, is a block of unknown size at the end. What is
    only kept for reviews of what the model did (``guardian_history``) is no compaction.
    """
    if replacement_in(payload) is None:
        if "guardian_history" in payload:
            return Part()
        text = _message(payload) or NO_SUMMARY
        return Part(Role.USER, [{"type": "text", "text": text}], compacted=Compacted())
    history = _history(payload)
    summary, *more = (spoken.part for spoken in history.messages)
    told = Compacted(context=tuple(history.order))
    return replace(summary, injected=False, notes=tuple(history.notes), compacted=told, then=tuple(more))


def keys_in(payload: Record) -> list[list[str]]:
    """By message of a new history, the summary first, the keys of the items that it is made of."""
    return [[own for item in spoken.items if (own := key_of(item))] for spoken in _history(payload).messages]


class RolloutItems:
    """The items that messages were read from; those of the newest record are kept, as several messages may be in it."""

    def __init__(self) -> None:
        self._newest: tuple[LinesContent | None, int] = (None, -1)
        self._held: list[list[Item]] = []

    def behind(self, origin: Origin) -> list[Item] | None:
        """The items of a message that was read from a rollout; None for one that was read from something else.

        Of a summary that is told as a text, or not at all, there are none, and it has to be written anew.
        """
        content = origin.session.content
        if not isinstance(content, LinesContent) or origin.session.info.format != "codex":
            return None
        facts, message = content.facts, origin.message
        numbers = ((row, facts.ordinal_in_record(message, row)) for row in facts.records_of(message))
        return [item for row, number in numbers for item in self._items(content, row)[number]] or None

    def _items(self, content: LinesContent, row: int) -> list[list[Item]]:
        """By number, the items of the messages in a record; none of one of which it holds only the text."""
        if self._newest != (content, row):
            self._newest, self._held = (content, row), _items_in(content.record(row))
        return self._held


def _items_in(record: Record) -> list[list[Item]]:
    line = line_of(record)
    payload = members(line.payload)
    if line.kind != "compacted":
        return [[payload]]
    return [[]] if replacement_in(payload) is None else [spoken.items for spoken in _history(payload).messages]


class _Spoken(NamedTuple):
    """A message of a history and the items that it is made of."""

    part: Part
    items: list[Item]


class _History(NamedTuple):
    """The messages of a history, the summary first; what it is in prompt order: their numbers, and the keys of earlier
    items; what was not understood.
    """

    messages: list[_Spoken]
    order: list[int | str]
    notes: list[str]


def _message(payload: Record) -> str:
    message = payload.get("message")
    return message if isinstance(message, str) else ""


def _history(payload: Record) -> _History:
    found, notes = list[_Spoken](), list[str]()
    order = list[int | str]()  # the numbers are those in what was found
    for item in replacement_in(payload) or ():
        if isinstance(item, Reference):
            order.append(key_of({"id": item.item}))
            continue
        try:
            part = said(item)
        except ValueError as error:
            notes.append(str(error))
            continue
        if part.role is None:
            continue
        before = found[-1].part if order and isinstance(order[-1], int) else Part()
        if before.role == part.role and before.results == part.results and (part.results or part.role != Role.USER):
            joined = replace(before, blocks=[*before.blocks, *part.blocks])
            found[-1] = _Spoken(joined, [*found[-1].items, item])
        else:
            order.append(len(found))
            found.append(_Spoken(part, [item]))
    text = _message(payload)
    at = next((n for n in reversed(range(len(found))) if _is_summary(found[n].part, text)), len(found))
    if at == len(found):
        order.append(at)
        found.append(_Spoken(Part(Role.USER, [MISSING]), []))
    summary = found.pop(at)
    numbers = {at: 0, **{n: n + (n < at) for n in range(len(found) + 1) if n != at}}
    return _History([summary, *found], [numbers[each] if isinstance(each, int) else each for each in order], notes)


def _is_summary(part: Part, text: str) -> bool:
    """Whether a message of a new history is the summary: so marked, encrypted, or the text that is told beside."""
    if part.role != Role.USER or part.results or not part.blocks:
        return False
    block, marked = part.blocks[0], bool(part.flags & MessageFlag.SUMMARY)
    return marked or str(block.get("type")) in COMPACTIONS or (bool(text) and block.get("text") == text)
