"""Read the usual records in a Claude Code file faster than the full parser does.

Nine of ten lines contain one or two blocks of a reply, tool results, or a record outside the conversation.
``parse_usual_lines`` decodes only the fields of these lines that become facts, and stops at the first other line, which
:mod:`~context_tui.formats.claude_code.reader` parses. Both parsers produce the same facts.
"""

from __future__ import annotations

import mmap
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from context_tui.formats.claude_code.parsing import (
    METADATA_TYPES,
    ApiUsage,
    BoundedName,
    find_cache_miss_reason,
    find_read_range,
    is_markup,
    normalize_usage,
)
from context_tui.formats.kit.lines import FAST_PATH_LINES, STEP_BYTES, FastPath
from context_tui.formats.kit.values import compute_epoch_ms
from context_tui.session.blocks import measure_raw_body
from context_tui.session.columns import make_message_appender, make_record_appender
from context_tui.session.jsontext import is_nested_deeper
from context_tui.session.validation import MAX_DEPTH
from context_tui.session.values import RecordKind, Role

if TYPE_CHECKING:
    from context_tui.formats.claude_code.reader import ClaudeCodeScanner

NO_MESSAGE_TYPES = METADATA_TYPES - {"system", "api-request", "api-request-shape"}
"""Types of records that hold no message and only link other records."""
BOUNDARY_SUBTYPES = frozenset({"compact_boundary", "microcompact_boundary"})
Buffer = bytes | mmap.mmap
CONTAINERS = frozenset({dict, list})
_QUOTE = ord('"')
_MESSAGE, _METADATA, _USER, _ASSISTANT = (
    int(kind) for kind in (RecordKind.MESSAGE, RecordKind.METADATA, Role.USER, Role.ASSISTANT)
)


class UsualBlock(msgspec.Struct, gc=False):
    """A message block. The body of a ``tool_result`` is not decoded."""

    type: Literal["text", "thinking", "tool_use", "tool_result"]
    text: str | None = None
    tool_use_id: str | None = None
    content: msgspec.Raw = msgspec.Raw(b'""')
    is_error: bool | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None


class UsualMessage(msgspec.Struct, gc=False):
    """The API message in a usual line."""

    model: BoundedName = None
    id: str | None = None
    content: list[UsualBlock] | str | None = None
    stop_reason: str | None = None
    usage: ApiUsage | None = None
    diagnostics: Any = None


class UsualLine(msgspec.Struct, gc=False):
    """The fields of a usual line, in the order in which Claude Code writes them.

    Fields that only unusual lines contain have the type None, so that decoding fails if one is present.
    """

    parentUuid: str | None = None
    isSidechain: bool = False
    version: str | None = None
    message: UsualMessage | None = None
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    isMeta: bool = False
    isCompactSummary: None = None
    isVisibleInTranscriptOnly: None = None
    isApiErrorMessage: None = None
    origin: None = None


# Created on import, by a single thread: when two threads create the first decoder of a Struct at the same time,
# msgspec 0.22 reads a half-initialized structure and crashes the process.
_decode = msgspec.json.Decoder(UsualLine).decode


def make_fast_path(scanner: ClaudeCodeScanner) -> FastPath:
    """Return a function that reads usual lines from an offset on and stops at the first unusual line.

    That function returns the offset at which it stopped and the number of lines that it read. For speed, attributes
    that its loop needs are looked up only once, here.
    """
    facts, message_by_uuid, forks = scanner.facts, scanner._message_by_uuid, scanner._forks
    parents, sibling_prompts = forks.parents, forks.forked
    append_message, add_record = make_message_appender(facts), make_record_appender(facts)
    add_text, add_thinking, add_call, add_result = facts.add_text, facts.add_thinking, facts.add_call, facts.add_result
    add_request, times, end_times = facts.add_request, facts.time, facts.end_time
    usage_by_message, message_by_api_id = scanner._usage_by_message, scanner._message_by_api_id
    results_by_reply = scanner._results_by_reply
    call_row, call_use, block_message = facts.find_call_row, facts.call_use, facts.block_message
    block_path, read_range = facts.path, facts.read_range

    def add_message(role: int, record: UsualLine) -> int:
        message = append_message(role, 0, compute_epoch_ms(record.timestamp) if record.timestamp is not None else -1)
        parents.append(message_by_uuid.get(hash(record.parentUuid), -1))
        if scanner._epoch_start is not None:
            scanner._begin_epoch(message, scanner._epoch_start)
        return message

    def parse_usual_lines(data: Buffer, start: int) -> tuple[int, int]:
        find = data.find
        for line_count in range(FAST_PATH_LINES):
            end = find(b"\n", start, start + STEP_BYTES)
            if end < 0:
                return start, line_count
            line = data[start:end]
            try:
                record = _decode(line)
            except (ValueError, RecursionError):
                return start, line_count
            record_type, api_message = record.type, record.message
            if record.isSidechain or hash(record.uuid) in message_by_uuid:
                return start, line_count

            if record_type == "user":
                content = api_message.content if api_message is not None else None
                if not content:
                    return start, line_count
                if isinstance(content, str):
                    if record.isMeta or is_markup(content):
                        return start, line_count
                    message = add_message(_USER, record)
                    add_text(message, content)
                    forks.add_prompt(message)
                else:
                    body_sizes = []
                    try:
                        for block in content:
                            if block.type != "tool_result":
                                return start, line_count
                            body = bytes(block.content)
                            if body[0] != _QUOTE and body.count(b"[") + body.count(b"{") > MAX_DEPTH:
                                return start, line_count
                            body_sizes.append(measure_raw_body(body))
                    except ValueError:
                        return start, line_count
                    if len(content) == 1:
                        call = call_row(content[0].tool_use_id or "")
                    else:
                        call = scanner.find_answered_call([block.tool_use_id or "" for block in content])
                    call_block = call_use[call] if call >= 0 else -1
                    reply = block_message[call_block] if call_block >= 0 else -1
                    message = results_by_reply.get(reply, -1) if reply >= 0 else -1
                    if message < 0:
                        message = add_message(_USER, record)
                        if reply >= 0:
                            results_by_reply[reply] = message
                            parents[message] = reply
                    elif message < scanner._first_revised:
                        scanner._first_revised = message
                    row = -1
                    for block, body_size in zip(content, body_sizes, strict=True):
                        row = add_result(message, block.tool_use_id or "", bool(block.is_error), body_size)
                    if call_block >= 0 and block_path[call_block] >= 0 and len(content) == 1:
                        lines = find_read_range(data, start, end)
                        if lines is not None:
                            read_range[row] = lines

            elif record_type == "assistant":
                if (
                    api_message is None
                    or type(api_message.content) is not list
                    or not api_message.id
                    or api_message.model == "<synthetic>"
                ):
                    return start, line_count
                for block in api_message.content:
                    if block.type == "tool_result":
                        return start, line_count
                    if block.type == "tool_use":
                        arguments = block.input
                        for value in arguments.values() if type(arguments) is dict else (arguments,):
                            if type(value) in CONTAINERS and is_nested_deeper(arguments):
                                return start, line_count
                message = message_by_api_id.get(api_message.id, -1)
                if message < 0:
                    message = message_by_api_id[api_message.id] = add_message(_ASSISTANT, record)
                else:
                    if record.timestamp is not None and (time := compute_epoch_ms(record.timestamp)) >= 0:
                        end_times[message] = time
                    if message < scanner._first_revised:
                        scanner._first_revised = message
                for block in api_message.content:
                    if block.type == "tool_use":
                        add_call(message, block.id or "", block.name or "", block.input)
                    elif block.type == "text":
                        add_text(message, block.text or "")
                    else:
                        add_thinking(message, block.thinking or "", block.signature or "")
                if api_message.model:
                    facts.model = api_message.model
                if api_message.diagnostics and (reason := find_cache_miss_reason(api_message.diagnostics)):
                    facts.cache_misses[message] = reason
                if api_message.usage is not None:
                    output = api_message.usage.output_tokens or 0
                    usage_so_far = usage_by_message.get(message)
                    if usage_so_far is None:
                        usage = normalize_usage(api_message.usage, api_message.stop_reason is not None, record.version)
                        if usage is not None:
                            usage_by_message[message] = usage
                            add_request(message, usage, times[message])
                    elif output > usage_so_far.output or not usage_so_far.output_trusted:  # most lines repeat it
                        is_final = api_message.stop_reason is not None
                        scanner._update_usage(message, normalize_usage(api_message.usage, is_final, record.version))

            elif record_type == "progress" and record.parentUuid is None:
                return start, line_count
            elif record_type in NO_MESSAGE_TYPES or (
                record_type == "system" and record.subtype not in BOUNDARY_SUBTYPES
            ):
                if line.count(b"[") + line.count(b"{") > MAX_DEPTH:  # perhaps nested too deeply
                    return start, line_count
                add_record(start, end - start, _METADATA, -1)
                if record.uuid:
                    message_by_uuid[hash(record.uuid)] = message_by_uuid.get(hash(record.parentUuid), -1)
                start = end + 1
                continue
            else:
                return start, line_count

            add_record(start, end - start, _MESSAGE, message)
            if record.uuid:
                message_by_uuid[hash(record.uuid)] = message
            if sibling_prompts:
                forks.move_to(message)
            else:
                forks.leaf = message
            start = end + 1
        return start, FAST_PATH_LINES

    return parse_usual_lines
