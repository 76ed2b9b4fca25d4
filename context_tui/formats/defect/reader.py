"""Read defect's journals, which record turns, and snapshots that replace the history.

Usage is recorded per turn, as the sum of its requests. A failed turn is reverted. defect does not record compactions
while it runs (0.1.0-alpha.6), but its loader takes a snapshot between the lines as the history at that point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from context_tui.formats.kit import message_builder
from context_tui.formats.kit.blocks import Block, build_image, build_text, build_tool_result, build_tool_use
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import MessageLists, Run
from context_tui.formats.kit.usage import parse_anthropic_usage
from context_tui.formats.kit.values import as_text, parse_id, parse_usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.markers import DEFECT_PLACEHOLDER
from context_tui.session.values import Role

Record = dict[str, Any]
ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}
_OUTPUT_MEMBERS = {"text": "text", "json": "value", "content": "blocks"}
"""Member that holds the body of a tool result, keyed by the kind of the result."""


def is_journal_line(value: Record) -> bool:
    """Return whether a JSON object is a line of a journal."""
    return "schema_version" in value and "seq" in value and isinstance(value.get("record"), dict)


class JournalShape:
    """Parser for the lines of a journal. It adds only those messages of a snapshot that are new.

    Lines numbered up to ``base_seq`` repeat messages from the history before the journal, and are left out.
    """

    def __init__(self, base_seq: int = -1) -> None:
        self._base_seq = base_seq
        self._seq: int | None = None
        self._turn_end = 0  # length of the history at the end of the last turn
        self._key_count = 0
        self._turn_replies = 0  # number of replies in this turn
        self._history: list[tuple[str, message_builder.MessageRecord]] = []

    def parse(self, record: Record) -> message_builder.ParsedRecord:
        inner_record = record.get("record")
        if not isinstance(inner_record, dict):
            raise ValueError("a line of a journal without a record")
        match inner_record.get("type"):
            case "message":
                return parse_message(inner_record.get("message"))
            case "snapshot":
                history = inner_record.get("history")
                if not isinstance(history, list):
                    raise ValueError("a snapshot without a history")
                return message_builder.HistoryRecord(tuple(map(parse_message, history)))
            case "turn_ended":
                usage, notes = parse_usage_or_note(_parse_usage, inner_record.get("usage"))
                return message_builder.UsageRecord(usage=usage, notes=notes)
            case "turn_started" | "turn_aborted":
                return message_builder.MetadataRecord()
        raise ValueError(f"a record of unknown type {str(inner_record.get('type'))[:40]!r}")

    def resolve_in_order(self, record: Record, parsed: message_builder.ParsedRecord) -> message_builder.ParsedRecord:
        """Return *parsed*, completed from earlier lines. A snapshot is compared with the history that it replaces."""
        assert not isinstance(parsed, message_builder.RecordGroup)
        notes, seq = parsed.notes, record.get("seq")
        if type(seq) is int and self._seq is not None and seq <= self._base_seq:
            return message_builder.MetadataRecord()
        if type(seq) is not int:
            notes = (*notes, "seq is no number; defect refuses to load such a journal")
        else:
            if self._seq is not None and seq != self._seq + 1:
                notes = (*notes, f"seq goes from {self._seq} to {seq}; defect refuses to load such a journal")
            self._seq = seq
        parsed = replace(parsed, notes=notes)
        kind = record["record"].get("type")
        if kind in ("turn_started", "turn_ended"):
            # The usage of a turn with several requests cannot be assigned to any one of them.
            if isinstance(parsed, message_builder.UsageRecord) and self._turn_replies != 1:
                parsed = replace(parsed, usage=None)
            self._turn_replies = 0
        if kind == "turn_ended":
            self._turn_end = len(self._history)
        elif kind == "turn_aborted" and len(self._history) > self._turn_end:
            failed_key, self._turn_replies = self._history[self._turn_end][0], 0
            del self._history[self._turn_end :]
            return message_builder.RewindRecord(failed_key, notes=notes)
        if isinstance(parsed, message_builder.MessageRecord):
            self._turn_replies += parsed.role == Role.ASSISTANT
            parsed = replace(parsed, key=self._make_key())
            self._history.append((parsed.key, parsed))
        elif isinstance(parsed, message_builder.HistoryRecord):
            return self._place_snapshot(parsed)
        return parsed

    def _make_key(self) -> str:
        self._key_count += 1
        return str(self._key_count)

    def _place_snapshot(self, parsed: message_builder.HistoryRecord) -> message_builder.ParsedRecord:
        """Return a snapshot with only its new messages, and a clearing of the results removed from known messages."""
        old, next_place = self._history, 0
        exact_index, bare_index = (_index_history(old, _format_signature), _index_history(old, _format_bare_signature))
        history: list[tuple[str, message_builder.MessageRecord]] = []
        messages: list[message_builder.MessageRecord | message_builder.OmittedMessage] = []
        cleared_keys: list[str] = []
        for each in parsed.messages:
            assert isinstance(each, message_builder.MessageRecord)
            place = _pop_place(exact_index.get(_format_signature(each), []), next_place)
            cleared_calls: list[str] | None = [] if place >= 0 else None
            if place < 0 and (place := _pop_place(bare_index.get(_format_bare_signature(each), []), next_place)) >= 0:
                cleared_calls = _find_cleared_calls(old[place][1], each)
            if cleared_calls is not None:
                cleared_keys += cleared_calls
                history.append((old[place][0], each))
                messages.append(message_builder.OmittedMessage())
                next_place = place + 1
            else:
                record = replace(each, key=self._make_key())
                history.append((record.key, record))
                messages.append(record)
        context, old_context = (tuple(key for key, _ in each) for each in (history, old))
        self._history, self._turn_end = history, len(history)
        is_compacted = bool(old) and context != old_context
        compacted = message_builder.FullCompactionRecord("snapshot", context=context) if is_compacted else None
        snapshot = replace(parsed, messages=tuple(messages), compaction=compacted)
        clearing = message_builder.MicroCompactionRecord("microcompact", cleared_keys=tuple(cleared_keys))
        return message_builder.group_records(clearing, snapshot) if cleared_keys else snapshot


def parse_message(value: Any) -> message_builder.MessageRecord:
    """Parse a message in a journal or a snapshot. Raises ValueError for any other value."""
    if not isinstance(value, dict):
        raise ValueError("not a message: not a JSON object")
    name, content = value.get("role"), value.get("content")
    role = ROLES.get(as_text(name))
    if role is None or not isinstance(content, list | str):
        raise ValueError(f"not a message: unknown role {str(name)[:40]!r}, or no content")
    items = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [_parse_block(item) if isinstance(item, dict) else item for item in items]
    return message_builder.MessageRecord(role, blocks)


class SnapshotShape(DocumentShape):
    """Parser for the history in a snapshot that has no journal."""

    lists: ClassVar[MessageLists] = MessageLists(keys=("history",), required_keys=("role",), excluded_keys=("history",))

    def read_metadata(self, run: Run, builder: message_builder.MessageBuilder) -> None:
        """Do nothing, as a snapshot has no metadata."""

    def parse(self, value: Any, place: int) -> message_builder.ParsedRecord:
        return parse_message(value)


def _parse_usage(value: Any) -> Usage | None:
    is_reported = isinstance(value, dict) and any(size is not None for size in value.values())
    return parse_anthropic_usage(value) if is_reported else None


def _parse_block(item: Block) -> Block:
    match item.get("type"):
        case "thinking":
            signature = {"signature": item["signature"]} if item.get("signature") is not None else {}
            return {"type": "thinking", "thinking": item.get("text"), **signature}
        case "tool_use":
            return build_tool_use(item.get("id"), item.get("name"), item.get("args"))
        case "tool_result":
            body, is_error = _parse_output(item.get("output")), item.get("is_error") is True
            return build_tool_result(item.get("tool_use_id"), body, is_error=is_error)
        case "image":
            return _parse_image(item)
    return item


def _parse_image(item: Block) -> Block:
    match item.get("data"):
        case {"kind": "base64", "encoded": str() as data}:
            return build_image(parse_id(item.get("mime")) or "image/png", data)
        case {"kind": "url", "url": str() as url}:
            return {"type": "image", "source": {"type": "url", "url": url}}
    return item


def _parse_output(output: Any) -> Any:
    if not isinstance(output, dict) or not isinstance(kind := output.get("kind"), str):
        return output
    if kind not in _OUTPUT_MEMBERS or _OUTPUT_MEMBERS[kind] not in output:
        return output
    body = output[_OUTPUT_MEMBERS[kind]]
    return [_parse_output_block(each) for each in body] if kind == "content" and isinstance(body, list) else body


def _parse_output_block(item: Any) -> Any:
    match item:
        case {"kind": "text", "text": str() as text}:
            return build_text(text)
        case {"kind": "image"}:
            return _parse_image({**item, "type": "image"})
    return item


def _format_signature(message: message_builder.MessageRecord) -> str:
    return compact_text([message.role, message.blocks])


def _format_bare_signature(message: message_builder.MessageRecord) -> str:
    blocks = [{**block, "content": None} if block.get("type") == "tool_result" else block for block in message.blocks]
    return compact_text([message.role, blocks])


def _index_history(history: list[tuple[str, message_builder.MessageRecord]], format_key: Any) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, (_, message) in enumerate(history):
        places.setdefault(format_key(message), []).append(place)
    return places


def _pop_place(places: list[int], start: int) -> int:
    while places and places[0] < start:
        places.pop(0)
    return places[0] if places else -1


def _find_cleared_calls(
    old_message: message_builder.MessageRecord, new_message: message_builder.MessageRecord
) -> list[str] | None:
    """Return the ids of calls whose results *new_message* clears, or None if the messages differ in any other way."""
    calls: list[str] = []
    for old_block, new_block in zip(old_message.blocks, new_message.blocks, strict=True):
        if old_block != new_block:
            if new_block.get("content") != DEFECT_PLACEHOLDER:
                return None
            calls.append(parse_id(new_block.get("tool_use_id")))
    return calls
