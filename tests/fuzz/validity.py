"""What must hold of a session whatever file it was read from: types, ranges, links, depths, and records that add up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

from context_tui.formats.claude_code.reader import ClaudeCodeContent
from context_tui.session.facts import Facts
from context_tui.session.jsontext import is_nested_deeper
from context_tui.session.session import Session
from context_tui.session.validation import MAX_DEPTH, MAX_TIME_MS, MAX_TOKENS
from context_tui.session.values import BlockFlag, Kind, MessageFlag, RecordKind, Role
from context_tui.text.sanitize import MAX_NAME_LENGTH

MESSAGE_FLAGS, BLOCK_FLAGS = (
    reduce(or_, (value for name, value in vars(flags).items() if name.isupper())) for flags in (MessageFlag, BlockFlag)
)
TOLD = 400
"""Characters that a problem is told in, at most."""


def invalid(session: Session) -> Iterator[str]:
    """Everything about a session that no reader may let through, in words."""
    facts = session.facts
    if len(session) != len(facts):
        yield f"{len(session)} messages, but {len(facts)} in the facts"
    yield from _columns(facts)
    yield from _links(facts)
    yield from _sizes(facts)
    yield from _contexts(facts)
    yield from _info(session)
    yield from _content(session)
    if isinstance(session.content, ClaudeCodeContent):
        yield from _covered(session.content)


def _columns(facts: Facts) -> Iterator[str]:
    records, messages, blocks = len(facts.record_kind), len(facts), len(facts.kind)
    for length, names in (
        (records, "record_place record_length record_message record_next"),
        (messages, "flags time end_time first_block last_block first_record last_record"),
        (blocks, "block_message block_next block_flags size text_bytes json_bytes boundary_shifts tool call path"),
        (len(facts.requests), "request_message request_time request_model"),
        (len(facts.calls), "call_use call_result"),
    ):
        for name in names.split():
            if len(getattr(facts, name)) != length:
                yield f"{name} is {len(getattr(facts, name))} long, not {length}"
    for name, allowed in (("record_kind", RecordKind), ("role", Role), ("kind", Kind)):
        if unknown := set(getattr(facts, name)) - {int(member) for member in allowed}:
            yield f"{name} is {unknown}"
    for name, flags in (("flags", MESSAGE_FLAGS), ("block_flags", BLOCK_FLAGS)):
        if any(value & ~int(flags) for value in getattr(facts, name)):
            yield f"{name} has unknown flags"


def _links(facts: Facts) -> Iterator[str]:
    records, messages, blocks = len(facts.record_kind), len(facts), len(facts.kind)
    for name, end in (
        *(("record_message", messages), ("record_next", records), ("first_block", blocks), ("last_block", blocks)),
        *(("first_record", records), ("last_record", records), ("block_message", messages), ("block_next", blocks)),
        *(("tool", len(facts.tools)), ("call", len(facts.calls)), ("path", len(facts.paths))),
        *(("call_use", blocks), ("call_result", blocks)),
        *(("request_message", messages), ("request_model", len(facts.models))),
    ):
        if any(not -1 <= row < end for row in getattr(facts, name)):
            yield f"{name} points outside"
    if [*facts.request_message] != sorted(facts.request_message):
        yield "requests are not in the order of messages"
    seen = [row for message in range(messages) for row in facts.blocks_of(message)]
    if sorted(seen) != [*range(blocks)]:
        yield "blocks are not each part of one message"
    for message in range(messages):
        rows = [*facts.blocks_of(message)]
        if rows != sorted(rows) or any(facts.block_message[row] != message for row in rows):
            yield f"blocks of message {message} are {rows}"
    for problem in facts.problems:
        if not -1 <= problem.raw < records:
            yield f"a problem is of record {problem.raw}"
        if not (type(problem.what) is type(problem.where) is str) or len(problem.what) + len(problem.where) > TOLD:
            yield f"a problem is told in {len(problem.what)} characters: {problem.what[:80]}"


def _sizes(facts: Facts) -> Iterator[str]:
    for usage in facts.requests:
        parts = (usage.fresh, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h, usage.output)
        if any(type(part) is not int or not 0 <= part <= MAX_TOKENS for part in parts) or usage.context > MAX_TOKENS:
            yield f"a request records {parts}"
    for what, tokens in (
        ("window", facts.window),
        *(("pre_tokens", compaction.pre_tokens) for compaction in facts.compactions),
        *(("saved", compaction.saved_tokens) for compaction in facts.compactions),
    ):
        if tokens is not None and (type(tokens) is not int or not 0 <= tokens <= MAX_TOKENS):
            yield f"{what} is {str(tokens)[:40]}"
    for name in ("time", "end_time", "request_time"):
        if any(not (time == -1 or 0 < time <= MAX_TIME_MS) for time in getattr(facts, name)):
            yield f"{name} is {[*getattr(facts, name)]}"
    for row, part in facts.read_range.items():
        if any(type(number) is not int or not 0 <= number <= MAX_TOKENS for number in part):
            yield f"the read of block {row} is of lines {str(part)[:80]}"
    for name in (*facts.tools, *facts.models, *([] if facts.model is None else [facts.model])):
        if type(name) is not str or len(name) > MAX_NAME_LENGTH:
            yield f"a tool or a model is named {str(name)[:80]!r}"
    if any(type(text) is not str for text in (*facts.calls, *facts.paths)):
        yield "a call's id or a path is no text"


def _contexts(facts: Facts) -> Iterator[str]:
    messages = len(facts)
    for compaction in facts.compactions:
        if not 0 <= compaction.message <= messages or compaction.kind not in ("full", "micro"):
            yield f"a {compaction.kind} compaction at {compaction.message}"
        if not (
            compaction.trigger is None
            or (type(compaction.trigger) is str and len(compaction.trigger) <= MAX_NAME_LENGTH)
        ):
            yield f"a compaction's trigger is {str(compaction.trigger)[:80]!r}"
        if any(not 0 <= message < messages for message in compaction.prefix):
            yield f"a compaction keeps {compaction.prefix}"
        if any(facts.kind[row] not in (Kind.TEXT, Kind.TOOL_RESULT) for row in compaction.cleared_blocks):
            yield "a compaction cleared what is no result"
    begun = [epoch.message for epoch in facts.epochs]
    if begun != sorted(begun) or any(not 0 <= message <= messages for message in begun):
        yield f"epochs begin at {begun}"


def _info(session: Session) -> Iterator[str]:
    info = session.info
    for name in ("path", "format", "id", "title", "parent", "cwd", "note"):
        if type(getattr(info, name)) is not str:
            yield f"info.{name} is no text"
    if len(info.title) > MAX_NAME_LENGTH or not 0 <= info.time <= MAX_TIME_MS / 1000 or info.bytes < 0:
        yield f"info is {info.title[:80]!r}, {info.time}, {info.bytes}"


def _content(session: Session) -> Iterator[str]:
    for message in range(len(session)):
        found = session.content.blocks(message)
        kinds = [session.facts.kind[row] for row in session.facts.blocks_of(message)]
        if len(found) != len(kinds):
            yield f"message {message} has {len(kinds)} blocks, and {len(found)} in full"
        for block in found:
            yield from _block(block)
    for tool in session.content.tools():
        if type(tool) is not dict or type(tool.get("name", "")) is not str or is_nested_deeper(tool, MAX_DEPTH):
            yield f"a tool is {str(tool)[:80]}"
    if type(session.content.system()) is not str:
        yield "the system prompt is no text"


TEXTS = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}


def _block(block: Any) -> Iterator[str]:
    if type(block) is not dict or type(block.get("type")) is not str:
        yield f"a block is {str(block)[:80]}"
        return
    if any(is_nested_deeper(value, MAX_DEPTH + 1) for value in block.values()):  # an unknown one holds a block
        yield f"a {block['type']} block is nested too deeply"
    for name in TEXTS.get(block["type"], ()):
        if type(block.get(name, "")) is not str:
            yield f"{name} of a {block['type']} block is {str(block[name])[:80]}"
    if block["type"] == "image" and type(block.get("source")) is not dict:
        yield f"the source of an image is {str(block.get('source'))[:80]}"


def _covered(content: ClaudeCodeContent) -> Iterator[str]:
    """Every byte of a file of lines that is no blank is part of exactly one record."""
    facts, data, at = content.facts, bytes(content.file.data), 0
    for place, length in sorted(zip(facts.record_place, facts.record_length, strict=True)):
        if place < at or data[at:place].strip(b" \t\r\n"):
            yield f"records do not add up at byte {min(at, place)}"
            return
        at = place + length
    if data[at:].strip(b" \t\r\n"):
        yield f"records end at byte {at} of {len(data)}"
