"""Fast path for the usual records of a Claude Code file.

Nine of ten lines hold one or two blocks of a reply, the results of its calls, or a record outside the conversation.
``parse_usual_lines`` decodes them once, into only the fields that facts are made of, and stops at the first line with
anything unusual, which is left to :mod:`~context_tui.formats.claude_code.reader`. Both produce the same facts.
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
    Diagnostics,
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
"""Types of records that only link other records."""
BOUNDARY_SUBTYPES = frozenset({"compact_boundary", "microcompact_boundary"})
Buffer = bytes | mmap.mmap
CONTAINERS = frozenset({dict, list})
_QUOTE = ord('"')
_MESSAGE, _METADATA, _USER, _ASSISTANT = (
    int(kind) for kind in (RecordKind.MESSAGE, RecordKind.METADATA, Role.USER, Role.ASSISTANT)
)


class UsualBlock(msgspec.Struct, gc=False):
    """Block of a message; the body of a tool_result stays JSON text."""

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
    """API message of a record."""

    model: BoundedName = None
    id: str | None = None
    content: list[UsualBlock] | str | None = None
    stop_reason: str | None = None
    usage: ApiUsage | None = None
    diagnostics: Diagnostics | None = None


class UsualLine(msgspec.Struct, gc=False):
    """Line, with its fields in the order in which they are written.

    Fields that only unusual lines have are of type None, so that decoding fails.
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
    """Return a function that reads usual lines from an offset up to the first unusual one.

    It returns the offset of that line and the number of lines read. All that the loop uses is looked up once, here.
    """
    facts, node, forks = scanner.facts, scanner._message_by_uuid, scanner._forks
    parents, forked = forks.parents, forks.forked
    begin_message, add_record = make_message_appender(facts), make_record_appender(facts)
    add_text, add_thinking, add_call, add_result = facts.add_text, facts.add_thinking, facts.add_call, facts.add_result
    add_request, times, end_times = facts.add_request, facts.time, facts.end_time
    requests, of_id, results_of = scanner._usage_by_message, scanner._message_by_api_id, scanner._results_by_reply
    call_row, call_use, block_message = facts.call_row, facts.call_use, facts.block_message
    path_of, read_range = facts.path, facts.read_range

    def begin(role: int, record: UsualLine) -> int:
        message = begin_message(role, 0, compute_epoch_ms(record.timestamp) if record.timestamp is not None else -1)
        parents.append(node.get(record.parentUuid or "", -1))
        if scanner._epoch_start is not None:
            scanner._begin_epoch(message, scanner._epoch_start)
        return message

    def parse_usual_lines(data: Buffer, start: int) -> tuple[int, int]:
        find = data.find
        for count in range(FAST_PATH_LINES):
            end = find(b"\n", start, start + STEP_BYTES)
            if end < 0:
                return start, count
            try:
                record = _decode(data[start:end])
            except (ValueError, RecursionError):
                return start, count
            kind, api = record.type, record.message
            if record.isSidechain or record.uuid in node:
                return start, count

            if kind == "user":
                content = api.content if api is not None else None
                if not content:
                    return start, count
                if isinstance(content, str):
                    if record.isMeta or is_markup(content):
                        return start, count
                    message = begin(_USER, record)
                    add_text(message, content)
                    forks.add_prompt(message)
                else:
                    bodies = []
                    try:
                        for block in content:
                            if block.type != "tool_result":
                                return start, count
                            body = bytes(block.content)
                            if body[0] != _QUOTE and body.count(b"[") + body.count(b"{") > MAX_DEPTH:
                                return start, count
                            bodies.append(measure_raw_body(body))
                    except ValueError:
                        return start, count
                    if len(content) == 1:
                        call = call_row(content[0].tool_use_id or "")
                    else:
                        call = scanner.find_answered_call([block.tool_use_id or "" for block in content])
                    use = call_use[call] if call >= 0 else -1
                    owner = block_message[use] if use >= 0 else -1
                    message = results_of.get(owner, -1) if owner >= 0 else -1
                    if message < 0:
                        message = begin(_USER, record)
                        if owner >= 0:
                            results_of[owner] = message
                            parents[message] = owner
                    elif message < scanner._first_revised:
                        scanner._first_revised = message
                    row = -1
                    for block, measure in zip(content, bodies, strict=True):
                        row = add_result(message, block.tool_use_id or "", bool(block.is_error), measure)
                    if use >= 0 and path_of[use] >= 0 and len(content) == 1:
                        lines = find_read_range(data, start, end)
                        if lines is not None:
                            read_range[row] = lines

            elif kind == "assistant":
                if api is None or type(api.content) is not list or not api.id or api.model == "<synthetic>":
                    return start, count
                for block in api.content:
                    if block.type == "tool_result":
                        return start, count
                    if block.type == "tool_use":
                        arguments = block.input
                        for value in arguments.values() if type(arguments) is dict else (arguments,):
                            if type(value) in CONTAINERS and is_nested_deeper(arguments):
                                return start, count
                message = of_id.get(api.id, -1)
                if message < 0:
                    message = of_id[api.id] = begin(_ASSISTANT, record)
                else:
                    if record.timestamp is not None and (time := compute_epoch_ms(record.timestamp)) >= 0:
                        end_times[message] = time
                    if message < scanner._first_revised:
                        scanner._first_revised = message
                for block in api.content:
                    if block.type == "tool_use":
                        add_call(message, block.id or "", block.name or "", block.input)
                    elif block.type == "text":
                        add_text(message, block.text or "")
                    else:
                        add_thinking(message, block.thinking or "", block.signature or "")
                if api.model:
                    facts.model = api.model
                if api.diagnostics is not None and (why := api.diagnostics.cache_miss):
                    facts.cache_misses[message] = why
                if api.usage is not None:
                    output = api.usage.output_tokens or 0
                    usage_so_far = requests.get(message)
                    if usage_so_far is None:
                        usage = normalize_usage(api.usage, api.stop_reason is not None, record.version)
                        if usage is not None:
                            requests[message] = usage
                            add_request(message, usage, times[message])
                    elif output > usage_so_far.output or not usage_so_far.output_trusted:  # most lines repeat it
                        scanner._update_usage(
                            message, normalize_usage(api.usage, api.stop_reason is not None, record.version)
                        )

            elif kind == "progress" and record.parentUuid is None:
                return start, count
            elif kind in NO_MESSAGE_TYPES or (kind == "system" and record.subtype not in BOUNDARY_SUBTYPES):
                add_record(start, end - start, _METADATA, -1)
                if record.uuid:
                    node[record.uuid] = node.get(record.parentUuid or "", -1)
                start = end + 1
                continue
            else:
                return start, count

            add_record(start, end - start, _MESSAGE, message)
            if record.uuid:
                node[record.uuid] = message
            if forked:
                forks.move_to(message)
            else:
                forks.leaf = message
            start = end + 1
        return start, FAST_PATH_LINES

    return parse_usual_lines
