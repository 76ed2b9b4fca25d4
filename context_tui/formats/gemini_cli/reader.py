"""Read Gemini CLI's messages from documents (up to 0.38) and from JSON Lines (since 0.39).

Tool results are recorded with their calls, so one record contains both a reply and the message with its results.
Thoughts are summaries from the API and are not sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.kit import blocks as kit_blocks
from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Element, Run, decode_items, decode_members, make_run
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    HistoryRecord,
    MessageBuilder,
    MessageRecord,
    MetadataRecord,
    MicroCompactionRecord,
    OmittedMessage,
    ParsedRecord,
    ReplacementRecord,
    RewindRecord,
    group_records,
    list_messages,
)
from context_tui.formats.kit.size_note import SIZE_NOTE, parse_size_note
from context_tui.formats.kit.usage import parse_usage
from context_tui.formats.kit.values import as_object, list_objects, parse_id, parse_time_ms, parse_usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.values import MessageFlag, Role

NOTICE_TYPES = ("info", "error", "warning")
SUMMARY_START = "<state_snapshot>"
"""Start of the summary of a compression."""
MASKED_START = "<tool_output_masked>"
"""Start of a result that was removed from the history."""
SETUP_START = "<session_context>"
"""Start of the message that states the folder and the date."""


class _HistoryMessage(NamedTuple):
    is_sent: bool
    version: int
    bare_version: int


class GeminiLineShape:
    """Parser for the records in a JSON Lines file (since 0.39)."""

    def __init__(self) -> None:
        self._history: dict[str, _HistoryMessage] = {}  # by key, in the order of the history
        self._masked_calls: set[str] = set()  # calls whose results were removed
        self._answered_calls: set[str] = set()  # calls that are recorded with their results

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        if isinstance(target := record.get("$rewindTo"), str):
            return RewindRecord(target, or_start=True)
        if isinstance(key := record.get("id"), str):
            first_record, *other_records = parse_message(record, key)
            message = replace(first_record, key=key)
            if isinstance(message, MessageRecord):
                message = replace(message, version=_summarize_message([first_record, *other_records]).version)
            return group_records(ReplacementRecord(key), message, *other_records)
        if isinstance(changed := record.get("$set"), dict):
            if isinstance(messages := changed.get("messages"), list) and messages:
                return _parse_history(messages)
            model = parse_id(as_object(changed.get(SIZE_NOTE)).get("model"))
            return MetadataRecord(model=model, size_basis=parse_size_note(changed))
        if "sessionId" in record and "projectHash" in record:
            return MetadataRecord()
        raise ValueError("neither a message nor anything else that Gemini CLI records")

    def resolve_in_order(self, record: dict[str, Any], parsed: ParsedRecord) -> ParsedRecord:
        """Return *parsed*, or omit it if it repeats results; compare a rewritten history with the known one."""
        if isinstance(parsed, RewindRecord):
            while self._history and self._history.popitem()[0] != parsed.target:
                pass
        elif isinstance(parsed, HistoryRecord):
            return self._place_history(parsed)
        elif messages := list_messages(parsed):
            calls, first = set(_find_answered_calls(messages)), messages[0]
            if isinstance(first, MessageRecord) and first.has_results and calls <= self._answered_calls:
                # These are the responses as sent, recorded again.
                return group_records(ReplacementRecord(first.key), OmittedMessage(key=first.key))
            self._answered_calls |= calls - {""}  # a result without an id repeats no other
            self._history[first.key] = _summarize_message(messages)
        return parsed

    def _place_history(self, parsed: HistoryRecord) -> ParsedRecord:
        """Return a rewritten history, compared with the previous one: a compression if a sent message is missing.

        A message of which only results were removed counts as known. On resuming, Gemini CLI first writes a history
        that holds only its setup message and is ignored, and then the resumed history.
        """
        if self._history and parsed.messages and all(_is_setup(each) for each in parsed.messages):
            return MetadataRecord()
        history: dict[str, _HistoryMessage] = {}
        messages = list[MessageRecord]()
        cleared_calls = list[str]()
        for records in _group_messages(parsed.messages):
            summary, previous = _summarize_message(records), self._history.get(records[0].key)
            masked = [*_find_masked_calls(records)]
            if previous and masked and summary != previous and summary.bare_version == previous.bare_version:
                summary = previous
                cleared_calls += [each for each in masked if each not in self._masked_calls]
            history[records[0].key] = summary
            messages += [replace(records[0], version=summary.version), *records[1:]]
        old_sent, new_sent = ([x for x in entries.items() if x[1].is_sent] for entries in (self._history, history))
        self._history = history
        self._answered_calls = set(_find_answered_calls(messages)) - {""}
        self._masked_calls.update(cleared_calls)
        remaining_entries = iter(new_sent)
        compacted = None if all(each in remaining_entries for each in old_sent) else parsed.compaction
        rewritten = replace(parsed, messages=tuple(messages), compaction=compacted)
        masking = MicroCompactionRecord("masking", cleared_keys=tuple(cleared_calls))
        return group_records(masking, rewritten) if cleared_calls else rewritten


class GeminiDocumentShape(DocumentShape):
    """Parser for the messages in a document (up to 0.38)."""

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Record that Google's input tokens include cached ones. A document has no other metadata."""
        builder.facts.input_includes_cache = True

    def parse(self, value: Any, place: int) -> ParsedRecord:
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        return group_records(*parse_message(value, f"message-{place}"))


def find_message_lists(values: list[Element]) -> list[Run]:
    """Return one run, the message list in a file's first JSON value, or [] if that value is not a session."""
    members = (decode_members(values[0]) if values else None) or {}
    messages = decode_items(members.get("messages")) if "sessionId" in members else None
    return [] if messages is None else [make_run(members, "messages", messages)]


def parse_gemini_usage(value: Any) -> Usage | None:
    """Return usage, or None if there is none. Tokens of tools count as input, and those of thoughts as output."""
    usage = parse_usage(value, "input", cache_read="cached", output=("output", "thoughts"), includes_cache=True)
    tools = parse_usage(value, "tool")
    if usage and tools:
        usage.fresh += tools.fresh
    return usage


def parse_message(message: dict[str, Any], name: str) -> list[MessageRecord | OmittedMessage]:
    """Parse a message. A reply is followed by a message with the results of its calls, which are recorded with it.

    Calls without an id get an id that begins with *name*. Raises ValueError if *message* has an unknown type.
    """
    kind, time = message.get("type"), parse_time_ms(message.get("timestamp"))
    if kind == "user":
        return [_parse_user_message(message, time)]
    if kind == "gemini":
        calls = list_objects(message.get("toolCalls"))
        calls_by_id = [(call, parse_id(call.get("id")) or f"{name}-{number}") for number, call in enumerate(calls)]
        usage, notes = parse_usage_or_note(parse_gemini_usage, message.get("tokens"))
        blocks, model = [*_parse_thoughts(message), *_parse_reply(message, calls_by_id)], parse_id(message.get("model"))
        reply = MessageRecord(Role.ASSISTANT, blocks, time=time, usage=usage, notes=notes, model=model)
        results = [_parse_result(call, call_id) for call, call_id in calls_by_id if call.get("result")]
        if not results:
            return [reply]
        time_of_results = max((parse_time_ms(call.get("timestamp")) for call in calls), default=time)
        return [reply, MessageRecord(Role.USER, results, has_results=True, time=time_of_results)]
    if kind in NOTICE_TYPES:
        return [OmittedMessage()]
    raise ValueError(f"unknown type of message {str(kind)[:40]!r}")


def parse_content(content: Any) -> Iterator[kit_blocks.Block]:
    """Yield a block for each of Gemini's content parts. An unsupported part becomes a block of type ``unknown``."""
    for part in content if isinstance(content, list) else [] if content in (None, "") else [content]:
        yield _parse_block(part)


def is_command(text: str) -> bool:
    """Return whether typed text is a Gemini CLI command and so is not sent. A code comment is not a command.

    Source: Gemini CLI, isSlashCommand. Up to 0.1, commands could also begin with ``?``.
    """
    return text.startswith(("/", "?")) and not text.startswith(("//", "/*"))


def _parse_user_message(message: dict[str, Any], time: int) -> MessageRecord:
    blocks = list(parse_content(message.get("content")))
    text = next((parse_id(block.get("text")) for block in blocks if block.get("type") == "text"), "").lstrip()
    command = is_command(text)
    flags = MessageFlag.SUMMARY if text.startswith(SUMMARY_START) else MessageFlag.NOT_SENT if command else 0
    injected = command or text.startswith(SETUP_START)
    return MessageRecord(Role.USER, blocks, kit_blocks.are_results(blocks), flags, time, is_injected=injected)


def _parse_history(messages: list[Any]) -> HistoryRecord:
    """Parse a rewritten history. Its messages may be compressed to a summary, lack results, or include new ones."""
    objects = list_objects(messages)
    ids = {parse_id(message.get("id")) for message in objects}
    objects = [_drop_results(each) if f"{parse_id(each.get('id'))}_response" in ids else each for each in objects]
    calls = (call for message in objects for call in list_objects(message.get("toolCalls")))
    answered_ids = {parse_id(call.get("id")) for call in calls if call.get("result")} - {""}
    parsed: list[MessageRecord | OmittedMessage] = []
    notes, keys, response_counts = list[str](), list[str](), Counter[str]()
    for number, message in enumerate(objects):
        key = parse_id(message.get("id")) or f"message-{number}"
        try:
            first_record, *other_records = parse_message(message, key)
        except ValueError as error:
            notes.append(str(error))
            continue
        if isinstance(first_record, OmittedMessage):
            continue  # a notice
        if first_record.has_results and set(_find_answered_calls([first_record])) <= answered_ids:
            continue  # these results are also recorded with their calls
        if key.endswith("_response"):
            response_counts[key] += 1
            if (count := response_counts[key]) > 1:  # each further resume records the results again
                key = f"{key}-{count}"
        if keys and key == f"{keys[-1]}_response":  # results that belong to the message before them
            parsed += [replace(first_record, usage=None), *other_records]
            continue
        parsed += [replace(first_record, key=key, usage=None), *other_records]
        keys.append(key)
    versions = {records[0].key: _summarize_message(records).version for records in _group_messages(parsed)}
    for number, each in enumerate(parsed):
        if isinstance(each, MessageRecord):
            parsed[number] = replace(each, version=versions.get(each.key))
    compression = FullCompactionRecord("compression", context=tuple(keys))
    return HistoryRecord(compaction=compression, messages=tuple(parsed), notes=tuple(notes))


def _drop_results(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "toolCalls": [{**call, "result": None} for call in list_objects(message.get("toolCalls"))]}


def _summarize_message(parts: Sequence[MessageRecord | OmittedMessage]) -> _HistoryMessage:
    """Return whether a message is sent, and its hashes. These ignore thoughts, since histories have none."""
    blocks = [block for block in _list_blocks(parts) if block.get("type") != "thinking"]
    bare_version = [{**block, "content": None} if block.get("type") == "tool_result" else block for block in blocks]
    is_sent = isinstance(parts[0], MessageRecord) and not parts[0].flags & MessageFlag.NOT_SENT
    return _HistoryMessage(is_sent, hash(compact_text(blocks)), hash(compact_text(bare_version)))


def _list_blocks(parts: Iterable[MessageRecord | OmittedMessage]) -> list[kit_blocks.Block]:
    return [block for record in parts if isinstance(record, MessageRecord) for block in record.blocks]


def _group_messages(records: Iterable[MessageRecord | OmittedMessage]) -> Iterator[list[MessageRecord]]:
    """Yield the records of each message in a history: one with a key, and the following ones without a key."""
    group = list[MessageRecord]()
    for record in records:
        if isinstance(record, OmittedMessage):
            continue
        if record.key and group:
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _is_setup(record: MessageRecord | OmittedMessage) -> bool:
    texts = (str(block.get("text") or "") for block in _list_blocks([record]))
    return any(text.lstrip().startswith(SETUP_START) for text in texts)


def _find_answered_calls(parts: Iterable[MessageRecord | OmittedMessage]) -> Iterator[str]:
    for block in _list_blocks(parts):
        if block.get("type") == "tool_result":
            yield parse_id(block.get("tool_use_id"))


def _find_masked_calls(parts: list[MessageRecord]) -> Iterator[str]:
    for block in (block for block in _list_blocks(parts) if block.get("type") == "tool_result"):
        if isinstance(body := block.get("content"), str) and body.lstrip().startswith(MASKED_START):
            yield parse_id(block.get("tool_use_id"))


def _parse_thoughts(message: dict[str, Any]) -> Iterator[kit_blocks.Block]:
    for thought in list_objects(message.get("thoughts")):
        texts = [parse_id(thought.get(name)) for name in ("subject", "description")]
        yield {"type": "thinking", "thinking": "\n".join(filter(None, texts))}


def _parse_reply(message: dict[str, Any], calls: list[tuple[dict[str, Any], str]]) -> Iterator[kit_blocks.Block]:
    """Yield the blocks of a reply, then its calls. A call that is both in the content and in *calls* counts once."""
    ids = set[str]()
    for block in parse_content(message.get("content")):
        if block.get("type") == "tool_use":
            if not block["id"]:
                signature = compact_text([block["name"], block["input"]])
                unmatched = ((call, call_id) for call, call_id in calls if call_id not in ids)
                block["id"] = next((call_id for call, call_id in unmatched if _format_signature(call) == signature), "")
            ids.add(block["id"])
        yield block
    for call, call_id in calls:
        if call_id not in ids:
            yield kit_blocks.build_tool_use(call_id, *_parse_name_and_arguments(call))


def _format_signature(call: dict[str, Any]) -> str:
    return compact_text(_parse_name_and_arguments(call))


def _parse_name_and_arguments(call: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return parse_id(call.get("name")), kit_blocks.parse_arguments(call.get("args"))


def _parse_result(call: dict[str, Any], call_id: str) -> kit_blocks.Block:
    value, failed = call.get("result"), False
    body: Any = value
    if not isinstance(value, str):
        blocks = [_parse_block(part) for part in (value if isinstance(value, list) else [value])]
        if any(block.get("tool_use_id") == call_id for block in blocks):  # results of parallel calls may be there too
            blocks = [block for block in blocks if block.get("tool_use_id", call_id) == call_id]
        failed = any(block.get("is_error") for block in blocks)
        bodies = [block["content"] if block.get("type") == "tool_result" else [block] for block in blocks]
        body = bodies[0] if len(bodies) == 1 else [each for one in bodies for each in _as_block_list(one)]
    return kit_blocks.build_tool_result(call_id, body, is_error=failed or call.get("status") in ("error", "cancelled"))


def _as_block_list(body: Any) -> list[Any]:
    if isinstance(body, list):
        return body
    return [kit_blocks.build_text(body if isinstance(body, str) else compact_text(body))]


def _parse_block(part: Any) -> Any:
    if isinstance(part, str):
        return kit_blocks.build_text(part)
    if not isinstance(part, dict):
        return {"type": "unknown", "value": part}
    if isinstance(text := part.get("text"), str):
        return {"type": "thinking", "thinking": text} if part.get("thought") is True else kit_blocks.build_text(text)
    if isinstance(call := part.get("functionCall"), dict):
        return kit_blocks.build_tool_use(parse_id(call.get("id")), *_parse_name_and_arguments(call))
    if isinstance(answer := part.get("functionResponse"), dict):
        return _parse_function_response(answer)
    if isinstance(data := part.get("inlineData"), dict) and parse_id(data.get("mimeType")).startswith("image/"):
        return kit_blocks.build_image(parse_id(data.get("mimeType")), parse_id(data.get("data")))
    return {"type": "unknown", "value": part}


def _parse_function_response(answer: dict[str, Any]) -> kit_blocks.Block:
    response = answer.get("response")
    members = as_object(response)
    [only] = members if len(members) == 1 else [""]
    text = members.get(only) if only in ("output", "error") else None
    body: Any = text if isinstance(text, str) else "" if response is None else response
    if isinstance(parts := answer.get("parts"), list) and parts:
        body = [*_as_block_list(body), *map(_parse_block, parts)]
    return kit_blocks.build_tool_result(parse_id(answer.get("id")), body, is_error=only == "error")
