"""Reader of Gemini CLI's messages and records, in documents (up to 0.38) and in JSON Lines (since 0.39).

Results are recorded with their calls, so that one record holds a message of the model and the message with its results.
Thoughts are summaries from the API; they are not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Element, Run, decode_items, decode_members
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
from context_tui.formats.kit.usage import parse_usage
from context_tui.formats.kit.values import parse_arguments, parse_id, parse_time_ms, parse_usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_text
from context_tui.session.values import MessageFlag, Role

Block = dict[str, Any]
NOTICE_TYPES = ("info", "error", "warning")
SUMMARY_START = "<state_snapshot>"
"""Start of the summary of a compression."""
MASKED_START = "<tool_output_masked>"
"""Start of a result that was removed from the history."""
SETUP_START = "<session_context>"
"""Start of the message that states the folder and the date."""


class _HistoryMessage(NamedTuple):
    """Message of the history: whether it is sent, its signature, and its signature without results."""

    sent: bool
    version: int
    bare: int


class GeminiLineShape:
    """Records of a JSON Lines file (since 0.39)."""

    def __init__(self) -> None:
        self._history: dict[str, _HistoryMessage] = {}  # by key, in the order of the history
        self._masked_calls: set[str] = set()  # calls whose results were removed
        self._answered_calls: set[str] = set()  # calls that are recorded with their results

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        """Parse a record."""
        if isinstance(target := record.get("$rewindTo"), str):
            return RewindRecord(target, or_start=True)
        if isinstance(key := record.get("id"), str):
            first, *more = parse_message(record, key)
            own = replace(first, key=key)
            if isinstance(own, MessageRecord):
                own = replace(own, version=_summarize_message([first, *more]).version)
            return group_records(ReplacementRecord(key), own, *more)
        changed = record.get("$set")
        if isinstance(changed, dict):
            messages = changed.get("messages")
            return _parse_history(messages) if isinstance(messages, list) and messages else MetadataRecord()
        if "sessionId" in record and "projectHash" in record:
            return MetadataRecord()
        raise ValueError("neither a message nor anything else that Gemini CLI records")

    def resolve_in_order(self, record: dict[str, Any], part: ParsedRecord) -> ParsedRecord:
        """Resolve a record by those before it; a rewritten history is compared with the known one."""
        if isinstance(part, RewindRecord):
            while self._history and self._history.popitem()[0] != part.target:
                pass
        elif isinstance(part, HistoryRecord):
            return self._place_history(part)
        elif messages := list_messages(part):
            calls = set(_find_answered_calls(messages))
            first = messages[0]
            if (
                isinstance(first, MessageRecord) and first.has_results and calls <= self._answered_calls
            ):  # the responses as sent, recorded again
                return group_records(ReplacementRecord(first.key), OmittedMessage(key=first.key))
            self._answered_calls |= calls
            self._history[first.key] = _summarize_message(messages)
        return part

    def _place_history(self, part: HistoryRecord) -> ParsedRecord:
        """Resolve a rewritten history, which is a compression if anything of the previous one is missing.

        A message that differs only by removed results is the known message. A program that resumes a session begins
        with a history of its setup, and then writes the one that it resumes.
        """
        if self._history and part.messages and all(_is_setup(each) for each in part.messages):
            return MetadataRecord()
        history: dict[str, _HistoryMessage] = {}
        then = list[MessageRecord]()
        cleared = list[str]()
        for own in _group_messages(part.messages):
            now, before = _summarize_message(own), self._history.get(own[0].key)
            masked = [*_find_masked_calls(own)]
            if before and masked and now != before and now.bare == before.bare:
                now = before
                cleared += [each for each in masked if each not in self._masked_calls]
            history[own[0].key] = now
            first = own[0] if own[0].version == now.version else replace(own[0], version=now.version)
            then += [first, *own[1:]]
        was, now_is = ([each for each in told.items() if each[1].sent] for told in (self._history, history))
        self._history = history
        self._answered_calls = set(_find_answered_calls(then))
        self._masked_calls.update(cleared)
        following = iter(now_is)
        compacted = None if all(each in following for each in was) else part.compaction
        rewritten = replace(part, messages=tuple(then), compaction=compacted)
        masking = MicroCompactionRecord("masking", cleared_keys=tuple(cleared))
        return group_records(masking, rewritten) if cleared else rewritten


class GeminiDocumentShape(DocumentShape):
    """Message list of a document (up to 0.38)."""

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Set the accounting: the context consists of the messages alone; Google's input tokens include cached ones."""
        builder.facts.input_includes_cache = True

    def parse(self, value: Any, place: int) -> ParsedRecord:
        """Parse a message."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        return group_records(*parse_message(value, f"message-{place}"))


def find_message_lists(values: list[Element]) -> list[Run]:
    """Return the message list of the document that some JSON values form."""
    runs = []
    for value in values[:1]:
        members = decode_members(value) or {}
        if "sessionId" in members and (listed := decode_items(members.get("messages"))) is not None:
            beside = {name: each for name, each in members.items() if name != "messages"}
            runs.append(Run(beside, listed, "", "messages"))
    return runs


def parse_gemini_usage(value: Any) -> Usage | None:
    """Parse recorded tokens: input includes cached tokens but not those of tools; output excludes thoughts.

    Raises:
        ValueError: a size is invalid; the message names it.
    """
    usage = parse_usage(value, "input", cache_read="cached", output=("output", "thoughts"), includes_cache=True)
    tools = parse_usage(value, "tool")
    if usage and tools:
        usage.fresh += tools.fresh
    return usage


def parse_message(message: dict[str, Any], name: str) -> list[MessageRecord | OmittedMessage]:
    """Parse a message, and for a message of the model also the results of its calls.

    Args:
        name: The prefix of the ids made for calls without one.

    Raises:
        ValueError: the value is not a message.
    """
    kind, time = message.get("type"), parse_time_ms(message.get("timestamp"))
    if kind == "user":
        return [_parse_user_message(message, time)]
    if kind == "gemini":
        calls = [call for call in _get_list(message.get("toolCalls")) if isinstance(call, dict)]
        named = [(call, parse_id(call.get("id")) or f"{name}-{number}") for number, call in enumerate(calls)]
        usage, notes = parse_usage_or_note(parse_gemini_usage, message.get("tokens"))
        reply = MessageRecord(
            Role.ASSISTANT,
            [*_parse_thoughts(message), *_parse_reply(message, named)],
            time=time,
            usage=usage,
            notes=notes,
            model=parse_id(message.get("model")),
        )
        results = [_parse_result(call, own) for call, own in named if call.get("result")]
        if not results:
            return [reply]
        ended = max((parse_time_ms(call.get("timestamp")) for call in calls), default=time)
        return [reply, MessageRecord(Role.USER, results, has_results=True, time=ended)]
    if kind in NOTICE_TYPES:
        return [OmittedMessage()]
    raise ValueError(f"unknown type of message {str(kind)[:40]!r}")


def parse_content(content: Any) -> Iterator[Block]:
    """Convert Gemini's parts to blocks; a part without counterpart is kept, unknown to every estimator."""
    for part in content if isinstance(content, list) else [] if content in (None, "") else [content]:
        yield _parse_block(part)


def is_command(text: str) -> bool:
    """Return whether typed text is a command to Gemini CLI, which is not sent; comments in code are not commands.

    Source: Gemini CLI, isSlashCommand; up to 0.1 also commands with ``?``.
    """
    return text.startswith(("/", "?")) and not text.startswith(("//", "/*"))


def _parse_user_message(message: dict[str, Any], time: int) -> MessageRecord:
    """Parse a message of the user role: typed text, injected text, or results."""
    blocks = list(parse_content(message.get("content")))
    text = next((parse_id(block.get("text")) for block in blocks if block.get("type") == "text"), "").lstrip()
    results = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
    command = is_command(text)
    return MessageRecord(
        Role.USER,
        blocks,
        has_results=results,
        time=time,
        flags=MessageFlag.SUMMARY if text.startswith(SUMMARY_START) else MessageFlag.NOT_SENT if command else 0,
        is_injected=command or text.startswith(SETUP_START),
    )


def _parse_history(messages: list[Any]) -> HistoryRecord:
    """Parse a rewritten history: compressed to a summary, with results removed, or with more messages."""
    listed = [message for message in messages if isinstance(message, dict)]
    ids = {parse_id(message.get("id")) for message in listed}
    listed = [_drop_results(each) if f"{parse_id(each.get('id'))}_response" in ids else each for each in listed]
    answered = {parse_id(call.get("id")) for message in listed for call in _list_calls(message) if call.get("result")}
    found: list[MessageRecord | OmittedMessage] = []
    notes: list[str] = []
    keys: list[str] = []
    for number, message in enumerate(listed):
        key = parse_id(message.get("id")) or f"message-{number}"
        try:
            first, *more = parse_message(message, key)
        except ValueError as error:
            notes.append(str(error))
            continue
        if isinstance(first, OmittedMessage) or (
            first.has_results and {block.get("tool_use_id") for block in first.blocks} <= answered
        ):
            continue  # a notice, or results that are also recorded with their calls
        if keys and key == f"{keys[-1]}_response":  # the results that the record of a message held
            found += [replace(first, usage=None), *more]
            continue
        found += [replace(first, key=key, usage=None), *more]
        keys.append(key)
    versions = {own[0].key: _summarize_message(own).version for own in _group_messages(found)}
    found = [
        replace(each, version=versions.get(each.key)) if isinstance(each, MessageRecord) else each for each in found
    ]
    return HistoryRecord(
        compaction=FullCompactionRecord("compression", context=tuple(keys)), messages=tuple(found), notes=tuple(notes)
    )


def _drop_results(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the results of its calls, which are a message of their own."""
    return {**message, "toolCalls": [{**call, "result": None} for call in _list_calls(message)]}


def _summarize_message(parts: Sequence[MessageRecord | OmittedMessage]) -> _HistoryMessage:
    """Summarize a message by its parts, in any notation; thoughts are left out, since histories have none."""
    blocks = [block for block in _list_blocks(parts) if block.get("type") != "thinking"]
    bare = [{**block, "content": None} if block.get("type") == "tool_result" else block for block in blocks]
    sent = isinstance(parts[0], MessageRecord) and not parts[0].flags & MessageFlag.NOT_SENT
    return _HistoryMessage(sent, hash(compact_text(blocks)), hash(compact_text(bare)))


def _list_blocks(parts: Iterable[MessageRecord | OmittedMessage]) -> list[Block]:
    return [block for part in parts if isinstance(part, MessageRecord) for block in part.blocks]


def _group_messages(parts: Iterable[MessageRecord | OmittedMessage]) -> Iterator[list[MessageRecord]]:
    """Group the messages of a history: one with a key, and the following ones without."""
    own = list[MessageRecord]()
    for part in parts:
        if isinstance(part, OmittedMessage):
            continue
        if part.key and own:
            yield own
            own = []
        own.append(part)
    if own:
        yield own


def _is_setup(part: MessageRecord | OmittedMessage) -> bool:
    """Return whether a message states the folder and the date."""
    return isinstance(part, MessageRecord) and any(
        str(block.get("text") or "").lstrip().startswith(SETUP_START) for block in part.blocks
    )


def _find_answered_calls(parts: Iterable[MessageRecord | OmittedMessage]) -> Iterator[str]:
    """Return the calls whose results are in some messages."""
    for block in _list_blocks(parts):
        if block.get("type") == "tool_result":
            yield parse_id(block.get("tool_use_id"))


def _find_masked_calls(parts: list[MessageRecord]) -> Iterator[str]:
    """Return the calls of a message whose results were removed."""
    for block in (block for block in _list_blocks(parts) if block.get("type") == "tool_result"):
        body = block.get("content")
        if isinstance(body, str) and body.lstrip().startswith(MASKED_START):
            yield parse_id(block.get("tool_use_id"))


def _list_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [call for call in _get_list(message.get("toolCalls")) if isinstance(call, dict)]


def _get_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parse_thoughts(message: dict[str, Any]) -> Iterator[Block]:
    for thought in _get_list(message.get("thoughts")):
        if isinstance(thought, dict):
            told = [parse_id(thought.get(name)) for name in ("subject", "description")]
            yield {"type": "thinking", "thinking": "\n".join(filter(None, told))}


def _parse_reply(message: dict[str, Any], calls: list[tuple[dict[str, Any], str]]) -> Iterator[Block]:
    """Parse a reply and its calls; calls recorded in both places count once, with the id that has a result."""
    ids = set[str]()
    for block in parse_content(message.get("content")):
        if block.get("type") == "tool_use":
            if not block["id"]:
                asked = _format_signature(block["name"], block["input"])
                block["id"] = next(
                    (own for call, own in calls if own not in ids and _format_call_signature(call) == asked), ""
                )
            ids.add(block["id"])
        yield block
    for call, own in calls:
        if own not in ids:
            yield {
                "type": "tool_use",
                "id": own,
                "name": parse_id(call.get("name")),
                "input": parse_arguments(call.get("args")),
            }


def _format_call_signature(call: dict[str, Any]) -> str:
    return _format_signature(parse_id(call.get("name")), parse_arguments(call.get("args")))


def _format_signature(name: str, given: dict[str, Any]) -> str:
    return compact_text([name, given])


def _parse_result(call: dict[str, Any], own: str) -> Block:
    """Parse the result of a call, which may be several parts."""
    given = call.get("result")
    if isinstance(given, str):
        body: Any = given
        failed = False
    else:
        blocks = [_parse_block(part) for part in (given if isinstance(given, list) else [given])]
        if any(block.get("tool_use_id") == own for block in blocks):  # results of parallel calls may be there too
            blocks = [block for block in blocks if block.get("tool_use_id", own) == own]
        failed = any(block.get("is_error") for block in blocks)
        bodies = [block["content"] if block.get("type") == "tool_result" else [block] for block in blocks]
        body = bodies[0] if len(bodies) == 1 else [each for one in bodies for each in _as_block_list(one)]
    result = {"type": "tool_result", "tool_use_id": own, "content": body}
    return {**result, "is_error": True} if failed or call.get("status") in ("error", "cancelled") else result


def _as_block_list(body: Any) -> list[Any]:
    if isinstance(body, list):
        return body
    return [{"type": "text", "text": body if isinstance(body, str) else compact_text(body)}]


def _parse_block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "unknown", "value": part}
    if isinstance(text := part.get("text"), str):
        return {"type": "thinking", "thinking": text} if part.get("thought") is True else {"type": "text", "text": text}
    if isinstance(call := part.get("functionCall"), dict):
        given = parse_arguments(call.get("args"))
        return {"type": "tool_use", "id": parse_id(call.get("id")), "name": parse_id(call.get("name")), "input": given}
    if isinstance(answer := part.get("functionResponse"), dict):
        return _parse_function_response(answer)
    if isinstance(data := part.get("inlineData"), dict) and parse_id(data.get("mimeType")).startswith("image/"):
        source = {"type": "base64", "media_type": parse_id(data.get("mimeType")), "data": parse_id(data.get("data"))}
        return {"type": "image", "source": source}
    return {"type": "unknown", "value": part}


def _parse_function_response(answer: dict[str, Any]) -> Block:
    """Parse a functionResponse: its output or error as text if that is all, else its JSON; and other parts."""
    response = answer.get("response")
    members = response if isinstance(response, dict) else {}
    [only] = members if len(members) == 1 else [""]
    text = members.get(only) if only in ("output", "error") else None
    body: Any = text if isinstance(text, str) else "" if response is None else response
    if isinstance(parts := answer.get("parts"), list) and parts:
        body = [*_as_block_list(body), *map(_parse_block, parts)]
    result = {"type": "tool_result", "tool_use_id": parse_id(answer.get("id")), "content": body}
    return {**result, "is_error": True} if only == "error" else result
