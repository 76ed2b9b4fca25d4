"""Append-only columns that one pass over a session fills: records, messages, blocks, requests.

No text is kept. What a policy must know about the text without reading it (is it exactly a known placeholder, does it
start with a known summary prefix, which path was read, where a cut would fall) is measured here, once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from context_tui.session import markers
from context_tui.session.jsontext import compact_json, loads, utf8_len


class Role(IntEnum):
    """Who a message is from; SYSTEM is one in the middle of a history (a leading one is the session's prompt)."""

    USER = 0
    ASSISTANT = 1
    SYSTEM = 2


class Kind(IntEnum):
    """What a block is; OTHER is hosted activity and anything unknown, which no ruler sees."""

    TEXT = 0
    THINKING = 1
    TOOL_USE = 2
    TOOL_RESULT = 3
    IMAGE = 4
    OTHER = 5


class RecordKind(IntEnum):
    """What became of a record: these three counts add up to the number of records."""

    MESSAGE = 0
    SIDE = 1
    PROBLEM = 2


class BlockFlag:
    """What is known of a block's text without reading it: bits of a plain integer (an IntFlag costs 1 µs a use)."""

    INJECTED = 1  # the runtime put it there, nobody typed it
    ERROR = 2  # is_error
    BODY_JSON = 4  # a tool_result body that is neither text nor a list of blocks
    BODY_LIST = 8  # a tool_result body that is a list of only text and image objects
    DEFECT_CLEARED = 16  # the body is exactly defect's placeholder, as text
    KODA_CLEARED = 32  # the text is exactly koda's stub
    DEFECT_SUMMARY = 64  # a text that starts with defect's summary prefix
    UNKNOWN_SIZE = 128  # rulers cannot see it: hidden thinking, encrypted or binary parts
    HAS_IMAGE = 256  # a tool_result with an image in it


class MessageFlag:
    """What is known of a message beyond its role: bits of a plain integer."""

    TURN_START = 1  # a user message with a block that is neither a tool_result nor injected
    SUMMARY = 2  # the summary of an earlier compaction
    SYNTHETIC = 4  # written by the client, not by a model
    NOT_SENT = 8  # in the file, never in the model's context
    SIDECHAIN = 16  # of another agent's context
    REWOUND = 32  # on a branch that was left


# Bound once: an attribute of an enum class costs as much as the arithmetic around it.
_TEXT, _TOOL_USE, _TOOL_RESULT, _USER = int(Kind.TEXT), int(Kind.TOOL_USE), int(Kind.TOOL_RESULT), int(Role.USER)

READ_TOOLS = frozenset({"Read", "read", "read_file", "ReadFile"})
_CUT_HEAD, _CUT_TAIL = 500, 200


@dataclass(slots=True)
class Usage:
    """Recorded tokens of one request; ``output_trusted`` is False where the file holds a placeholder."""

    fresh: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    output_trusted: bool = True

    def take(self, other: Usage) -> None:
        """Become *other*, of a later line about the same request; what was trusted once stays so."""
        self.fresh, self.cache_read, self.output = other.fresh, other.cache_read, other.output
        self.cache_write_5m, self.cache_write_1h = other.cache_write_5m, other.cache_write_1h
        self.output_trusted = self.output_trusted or other.output_trusted

    @property
    def context(self) -> int:
        """Tokens that the model was given: fresh + cache read + cache written."""
        return self.fresh + self.cache_read + self.cache_write_5m + self.cache_write_1h


@dataclass(slots=True, frozen=True)
class Problem:
    """A record that could not be read or understood: where it is and what is wrong."""

    where: str
    what: str
    raw: int = -1  # record number, for showing its text


@dataclass(slots=True)
class Compaction:
    """A compaction that the recording itself holds.

    ``message`` is where it happened: a full one's summary, or the next message after a micro one. ``prefix`` are the
    messages that a full one left in context, in prompt order; ``cleared`` the calls whose results a micro one cleared.
    """

    message: int
    kind: str
    trigger: str | None = None
    pre_tokens: int | None = None
    prefix: tuple[int, ...] = ()
    cleared: frozenset[str] = frozenset()


class Facts:
    """The columns. Lengths are UTF-8 bytes, times epoch milliseconds (-1: unknown), links row numbers (-1: none)."""

    def __init__(self) -> None:
        self.record_place = array("Q")  # byte offset, row id or element number; means something to the format only
        self.record_length = array("Q")
        self.record_kind = array("B")
        self.record_message = array("l")
        self.record_next = array("l")

        self.role = array("B")
        self.flags = array("H")
        self.time = array("q")
        self.first_block = array("l")
        self.last_block = array("l")
        self.first_record = array("l")
        self.last_record = array("l")

        self.block_message = array("l")
        self.block_next = array("l")
        self.kind = array("B")
        self.block_flags = array("H")
        self.size = array("Q")  # what the bytes/4 ruler divides
        self.text_bytes = array("Q")  # without images
        self.json_bytes = array("Q")  # of a tool_result: its content as compact JSON
        self.cut = array("B")  # of a tool_result: bytes that agent-sdk's cuts move, 500 back | 200 forward << 2
        self.tool = array("l")  # of calls and results: row of `tools`
        self.call = array("l")  # of calls and results: row of `calls`
        self.path = array("l")  # of a call that reads a file: row of `paths`

        self.tools: list[str] = []
        self.calls: list[str] = []
        self.paths: list[str] = []
        self.call_use = array("l")  # per call, the newest block that made it
        self.call_result = array("l")  # per call, the newest block that answered it
        self._tool_ids: dict[str, int] = {}
        self._call_ids: dict[str, int] = {}
        self._path_ids: dict[str, int] = {}

        self.request_message = array("l")
        self.request_time = array("q")
        self.requests: list[Usage] = []
        self.problems: list[Problem] = []
        self.compactions: list[Compaction] = []
        self.model: str | None = None
        self.window: int | None = None
        self.system_bytes = 0
        self.tools_bytes = 0
        self.system_rows = 0  # rows that hold the system prompt among the messages; koda's rule counts them
        self.input_includes_cache = False  # how this provider reports input tokens to a runtime

    def __len__(self) -> int:
        return len(self.role)

    def add_message(self, role: Role, flags: int = 0, time: int = -1) -> int:
        """Begin a message; returns its index."""
        self.role.append(role)
        self.flags.append(flags)
        self.time.append(time)
        for column in (self.first_block, self.last_block, self.first_record, self.last_record):
            column.append(-1)
        return len(self.role) - 1

    def add_record(self, place: int, length: int, kind: int, message: int = -1) -> int:
        """Account for a record, as part of *message* if it is one; returns its row."""
        row = len(self.record_kind)
        self.record_place.append(place)
        self.record_length.append(length)
        self.record_kind.append(kind)
        self.record_message.append(message)
        self.record_next.append(-1)
        if message >= 0:
            if self.first_record[message] < 0:
                self.first_record[message] = row
            else:
                self.record_next[self.last_record[message]] = row
            self.last_record[message] = row
        return row

    def drop_last_record(self) -> None:
        """Take back the last record, which must be part of no message."""
        for column in (self.record_place, self.record_length, self.record_kind, self.record_message, self.record_next):
            column.pop()

    def add_request(self, message: int, usage: Usage, time: int = -1) -> int:
        """Record one call to the model that ended at *message*; returns its row. Rows are in the order of messages."""
        row = len(self.requests)
        if row and self.request_message[-1] > message:
            row = bisect_right(self.request_message, message)
        self.request_message.insert(row, message)
        self.request_time.insert(row, time)
        self.requests.insert(row, usage)
        return row

    def add_block(self, message: int, block: dict[str, Any], *, injected: bool = False) -> int:
        """Measure one Anthropic-shaped block and append it to *message*; returns its row."""
        tool = call = path = -1
        name = block.get("type")
        flags = BlockFlag.INJECTED if injected else 0
        if name == "text":
            kind = _TEXT
            body = block.get("text")
            if not isinstance(body, str):
                body = ""
            size = text = len(body) if body.isascii() else utf8_len(body)
            if body.startswith("["):
                flags |= self._summary_flag(message, body)
        elif name == "tool_result":
            kind = _TOOL_RESULT
            body = _measure_body(block.get("content"))
            return self._add_result(message, block.get("tool_use_id"), bool(block.get("is_error")), flags, body)
        elif name == "tool_use":
            kind = _TOOL_USE
            tool_name = str(block.get("name") or "")
            arguments = block.get("input")
            text = len(compact_json(arguments if arguments is not None else {}))
            size = utf8_len(tool_name) + text
            tool = self._intern(tool_name, self.tools, self._tool_ids)
            call = self._call(block.get("id"))
            if tool_name in READ_TOOLS and isinstance(arguments, dict):
                target = arguments.get("file_path") or arguments.get("path")
                if isinstance(target, str):
                    path = self._intern(target, self.paths, self._path_ids)
            self.call_use[call] = len(self.kind)
        else:
            kind, size, text, more = self._rare(block, name)
            flags |= more

        if not injected and self.role[message] == _USER and not self.flags[message] & MessageFlag.SUMMARY:
            self.flags[message] |= MessageFlag.TURN_START
        return self._append(message, kind, flags, size, text, 0, 0, tool, call, path)

    def add_raw_result(self, message: int, call_id: object, is_error: bool, content: bytes) -> int:
        """Append a tool_result whose content is still JSON text; most need no decoding to be measured."""
        return self._add_result(message, call_id, is_error, 0, _measure_raw_body(content))

    def _add_result(self, message: int, call_id: object, is_error: bool, flags: int, body: Measure) -> int:
        call = self._call(call_id)
        use = self.call_use[call]
        tool = self.tool[use] if use >= 0 else -1
        size, text, json_size, cut, more = body
        flags |= more | BlockFlag.ERROR if is_error else more
        self.call_result[call] = len(self.kind)
        return self._append(message, _TOOL_RESULT, flags, size, text, json_size, cut, tool, call, -1)

    def _rare(self, block: dict[str, Any], name: object) -> tuple[int, int, int, int]:
        """Kind, ruler bytes, text bytes and flags of thinking, images, and what no ruler knows."""
        if name == "thinking":
            text = utf8_len(str(block.get("thinking") or ""))
            size = text + utf8_len(str(block.get("signature") or ""))
            return Kind.THINKING, size, text, 0 if text else BlockFlag.UNKNOWN_SIZE
        kind = {"redacted_thinking": Kind.THINKING, "image": Kind.IMAGE}.get(str(name), Kind.OTHER)
        return kind, 0, 0, BlockFlag.UNKNOWN_SIZE

    def _summary_flag(self, message: int, body: str) -> int:
        """Mark *message* as a summary where its text starts as one; returns the block's flag."""
        if body.startswith(markers.DEFECT_SUMMARY):
            if self.role[message] == Role.ASSISTANT:
                self.flags[message] |= MessageFlag.SUMMARY
            return BlockFlag.DEFECT_SUMMARY
        if body.startswith((markers.SDK_SUMMARY, markers.KODA_SUMMARY)) and self.first_block[message] < 0:
            self.flags[message] |= MessageFlag.SUMMARY
        return 0

    def copy_block(self, message: int, source: Facts, row: int) -> int:
        """Append a block of other facts to *message* as it is; returns its row."""
        return self._copy(
            message,
            source,
            row,
            source.size[row],
            source.text_bytes[row],
            source.json_bytes[row],
            source.cut[row],
            source.block_flags[row],
        )

    def copy_result(self, message: int, source: Facts, row: int, body: str) -> int:
        """Append a tool_result of other facts to *message* with another body; returns its row."""
        size, text, json_size, cut, flags = _measure_body(body)
        flags |= source.block_flags[row] & (BlockFlag.ERROR | BlockFlag.INJECTED)
        return self._copy(message, source, row, size, text, json_size, cut, flags)

    def _copy(
        self, message: int, source: Facts, row: int, size: int, text: int, json_size: int, cut: int, flags: int
    ) -> int:
        tool = call = path = -1
        kind = source.kind[row]
        if source.call[row] >= 0:
            call = self._intern_call(source.calls[source.call[row]])
            column = self.call_use if kind == Kind.TOOL_USE else self.call_result
            column[call] = len(self.kind)
        if source.tool[row] >= 0:
            tool = self._intern(source.tools[source.tool[row]], self.tools, self._tool_ids)
        if source.path[row] >= 0:
            path = self._intern(source.paths[source.path[row]], self.paths, self._path_ids)
        return self._append(message, kind, flags, size, text, json_size, cut, tool, call, path)

    def _append(
        self,
        message: int,
        kind: int,
        flags: int,
        size: int,
        text: int,
        json_size: int,
        cut: int,
        tool: int,
        call: int,
        path: int,
    ) -> int:
        row = len(self.kind)
        self.block_message.append(message)
        self.block_next.append(-1)
        self.kind.append(kind)
        self.block_flags.append(flags)
        self.size.append(size)
        self.text_bytes.append(text)
        self.json_bytes.append(json_size)
        self.cut.append(cut)
        self.tool.append(tool)
        self.call.append(call)
        self.path.append(path)
        last = self.last_block[message]
        if last < 0:
            self.first_block[message] = row
        else:
            self.block_next[last] = row
        self.last_block[message] = row
        return row

    def blocks_of(self, message: int) -> Iterator[int]:
        """Rows of the blocks of *message*, in order."""
        row = self.first_block[message]
        while row >= 0:
            yield row
            row = self.block_next[row]

    def records_of(self, message: int) -> Iterator[int]:
        """Rows of the records that *message* was put together from, in order."""
        row = self.first_record[message]
        while row >= 0:
            yield row
            row = self.record_next[row]

    def tool_name(self, block: int) -> str:
        """Name of the tool that *block* calls or answers; empty when the call is not in the file."""
        row = self.tool[block]
        return self.tools[row] if row >= 0 else ""

    def call_id(self, block: int) -> str:
        """Id of the call that *block* makes or answers; empty for other blocks."""
        row = self.call[block]
        return self.calls[row] if row >= 0 else ""

    def _intern(self, value: str, values: list[str], ids: dict[str, int]) -> int:
        row = ids.get(value)
        if row is None:
            row = ids[value] = len(values)
            values.append(value)
        return row

    def _call(self, call_id: object) -> int:
        """Row of a call id, which anything may stand for in a broken file."""
        text = call_id if isinstance(call_id, str) else str(call_id or "")
        row = self._call_ids.get(text)
        return self._intern_call(text) if row is None else row

    def _intern_call(self, call_id: str) -> int:
        row = self._call_ids.get(call_id)
        if row is None:
            row = self._call_ids[call_id] = len(self.calls)
            self.calls.append(call_id)
            self.call_use.append(-1)
            self.call_result.append(-1)
        return row

    def call_row(self, call_id: str) -> int:
        """Row of *call_id* in ``calls``, or -1."""
        return self._call_ids.get(call_id, -1)


def is_block_list(content: object) -> bool:
    """Whether a tool_result body is a list of blocks: only ``text`` and ``image`` objects."""
    return isinstance(content, list) and all(
        isinstance(item, dict) and item.get("type") in ("text", "image") for item in content
    )


def image_bytes(block: dict[str, Any]) -> int:
    """Length of an image's base64 string or URL, in bytes."""
    source = block.get("source")
    if not isinstance(source, dict):
        return 0
    data = source.get("data") if source.get("data") is not None else source.get("url")
    return utf8_len(data) if isinstance(data, str) else 0


Measure = tuple[int, int, int, int, int]
"""Of a tool_result body: ruler bytes, text bytes, compact JSON bytes, cut shifts, flags."""


def _measure_raw_body(raw: bytes) -> Measure:
    """Measure a body that is JSON text: a plain string with only two-byte escapes by counting, anything else decoded.

    Such a string is its own compact JSON, and every escape stands for one byte. A run of n backslashes starts
    ceil(n / 2) escapes.
    """
    if raw[:1] != b'"' or raw[:2] == b'"[' or b"\\u" in raw or b"\\/" in raw:
        return _measure_body(loads(raw))
    size = len(raw) - 2 - raw.count(b"\\") + raw.count(b"\\\\")
    return size, size, len(raw), 0 if raw.isascii() else _cut_shifts(raw), 0


def _measure_body(content: object) -> Measure:
    """Measure a decoded body."""
    flags = 0
    if content is None:
        content = ""
    if isinstance(content, str):
        encoded = compact_json(content)
        size = text = len(content) if content.isascii() else utf8_len(content)
        if content.startswith("["):
            if content == markers.DEFECT_PLACEHOLDER:
                flags |= BlockFlag.DEFECT_CLEARED
            elif content == markers.KODA_STUB:
                flags |= BlockFlag.KODA_CLEARED
    else:
        encoded = compact_json(content, sort_keys=True)
        if is_block_list(content):
            flags |= BlockFlag.BODY_LIST
            parts: list[dict[str, Any]] = content  # type: ignore[assignment]
            texts = [str(part.get("text") or "") for part in parts if part["type"] == "text"]
            images = [image_bytes(part) for part in parts if part["type"] == "image"]
            text = sum(map(utf8_len, texts))
            size = text + sum(images)
            if images:
                flags |= BlockFlag.HAS_IMAGE | BlockFlag.UNKNOWN_SIZE
            if texts and "".join(texts) == markers.KODA_STUB:
                flags |= BlockFlag.KODA_CLEARED
        else:
            flags |= BlockFlag.BODY_JSON
            size = text = len(encoded)
    return size, text, len(encoded), 0 if encoded.isascii() else _cut_shifts(encoded), flags


def _cut_shifts(encoded: bytes) -> int:
    """How far agent-sdk's two cuts move to a character boundary: bytes back at 500, bytes forward at length - 200."""
    if len(encoded) <= _CUT_HEAD:
        return 0
    back = forward = 0
    while encoded[_CUT_HEAD - back] & 0xC0 == 0x80:
        back += 1
    tail = len(encoded) - _CUT_TAIL
    while encoded[tail + forward] & 0xC0 == 0x80:
        forward += 1
    return back | forward << 2
