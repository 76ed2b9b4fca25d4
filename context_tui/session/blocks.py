"""Read, replace and measure the content of message blocks, which have the form of the Messages API."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeGuard

from context_tui.session.jsontext import compact_json, compact_text, loads, utf8_len
from context_tui.session.markers import START_LENGTH
from context_tui.session.values import BlockFlag

BYTES_PER_TOKEN = 4
"""UTF-8 bytes per estimated token; loops over columns divide by it directly, to save a call."""


def bytes_to_tokens(size: int) -> int:
    """Estimate the tokens in *size* UTF-8 bytes: bytes / 4, rounded down."""
    return size // BYTES_PER_TOKEN


BodySize = tuple[int, int, int, int, int, str, int]
"""Sizes of a tool_result body: estimator bytes, text bytes, JSON bytes, boundary shifts, flags, bracket start, and the
bytes of its text beyond one per UTF-16 unit."""

HEAD_BYTES, TAIL_BYTES = 500, 200
"""Offsets from the start and the end of a body's compact JSON near which facts record character boundaries."""
MAX_LINES = 10**9
"""Maximum lines of a read; a read of more lines counts as a read of the whole file."""
_QUOTE, _BRACKET = b'"['
_find_odd_escape = re.compile(rb"\\[u/\\]").search
"""Finds escapes that compact JSON may write differently, and escaped backslashes, which complicate counting."""


def is_block_list(content: object) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether a ``tool_result`` body is a list that contains only ``text`` and ``image`` blocks."""
    return isinstance(content, list) and all(
        isinstance(item, dict) and item.get("type") in ("text", "image") for item in content
    )


def body_to_text(content: object) -> str:
    """Return a ``tool_result`` body as text: the text in its blocks joined, "" for None, and other values as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if is_block_list(content):
        return "".join(str(part.get("text") or "") for part in content if part["type"] == "text")
    return compact_text(content)


def replace_texts(blocks: list[dict[str, Any]], texts: Mapping[int, str | None]) -> list[dict[str, Any]]:
    """Return the blocks with the new *texts*, which are keyed by block ordinal; None removes the block."""
    return [
        block if ordinal not in texts else _replace_text(block, texts[ordinal] or "")
        for ordinal, block in enumerate(blocks)
        if texts.get(ordinal, "") is not None
    ]


def _replace_text(block: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a block with *text* as its text, or as the JSON of a call's input; thinking loses its signature."""
    kind = str(block.get("type"))
    if kind in ("thinking", "redacted_thinking"):
        return {"type": "thinking", "thinking": text}
    if kind not in TEXT_MEMBERS:
        return {"type": "text", "text": text}
    return {**block, TEXT_MEMBERS[kind]: loads(text) if kind == "tool_use" else text}


TEXT_MEMBERS = {"tool_result": "content", "tool_use": "input", "text": "text", "thinking": "thinking"}
"""Member of a block that can be replaced, keyed by block type."""


def get_text(block: dict[str, Any]) -> Any:
    """Return the part of a block that can be replaced: a result's content, a call's input, or another block's text."""
    return block.get(TEXT_MEMBERS.get(str(block.get("type")), "text"))


def parse_read_range(arguments: dict[str, Any]) -> tuple[int, int] | None:
    """Return the first line (from 1) and the number of lines (0: to the end) to read, or None for the whole file."""
    get = arguments.get
    first, count, last = get("offset") or get("start_line"), get("limit"), get("end_line")
    if type(lines := get("view_range")) is list and len(lines) == 2:
        first, last = lines
    first = first if type(first) is int and 0 < first <= MAX_LINES else 0
    if type(count) is not int or count <= 0:
        count = max(last - max(first, 1) + 1, 0) if type(last) is int else 0
    count = count if count <= MAX_LINES else 0
    return (first or 1, count) if first or count else None


def count_image_bytes(block: dict[str, Any]) -> int:
    """Return the length of an image's base64 data or URL in bytes, or 0 if it has neither."""
    source = block.get("source")
    if not isinstance(source, dict):
        return 0
    data = source.get("data") if source.get("data") is not None else source.get("url")
    return utf8_len(data) if isinstance(data, str) else 0


def measure_raw_body(raw: bytes) -> BodySize:
    """Return the sizes of a ``tool_result`` body given as JSON text, or raise ValueError if the JSON is invalid.

    A string in which every escape has two bytes is already compact JSON, and each escape stands for one byte. Any
    other value is decoded.
    """
    if raw[0] != _QUOTE or raw[1] == _BRACKET or _find_odd_escape(raw):
        return measure_body(loads(raw))
    size = len(raw) - 2 - raw.count(b"\\")
    if raw.isascii():
        return size, size, len(raw), 0, 0, "", 0
    try:
        wide = len(raw) - _count_utf16_units(str(raw, "utf-8"))  # msgspec does not validate undecoded bytes
    except UnicodeDecodeError:
        return measure_body(loads(raw))
    return size, size, len(raw), compute_boundary_shifts(raw), 0, "", wide


def measure_body(content: object) -> BodySize:
    """Return the sizes of a decoded ``tool_result`` body (see :data:`BodySize`)."""
    flags, start, wide = 0, "", 0
    if content is None:
        content = ""
    if isinstance(content, str):
        encoded = compact_json(content)
        size = text = len(content) if content.isascii() else utf8_len(content)
        wide = size - _count_utf16_units(content)
        start = get_bracket_start(content)
    else:
        encoded = compact_json(content, sort_keys=True)
        if is_block_list(content):
            flags |= BlockFlag.BODY_LIST
            texts = [str(part.get("text") or "") for part in content if part["type"] == "text"]
            images = [count_image_bytes(part) for part in content if part["type"] == "image"]
            text = sum(map(utf8_len, texts))
            wide = text - sum(map(_count_utf16_units, texts))
            size = text + sum(images)
            if images:
                flags |= BlockFlag.HAS_IMAGE | BlockFlag.UNKNOWN_SIZE
            if texts and texts[0].startswith("["):
                start = get_bracket_start("".join(texts))
        else:
            flags |= BlockFlag.BODY_JSON
            size = text = len(encoded)
    shifts = 0 if encoded.isascii() else compute_boundary_shifts(encoded)
    return size, text, len(encoded), shifts, flags, start, wide


def _count_utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def get_bracket_start(text: str) -> str:
    """Return the start of a text that begins with ``[``, as runtimes' placeholders do, or "" for any other text."""
    # Equal starts are one object, because a session may hold thousands of one placeholder.
    return sys.intern(text[:START_LENGTH]) if text.startswith("[") else ""


def compute_boundary_shifts(encoded: bytes) -> int:
    """Return two distances to character boundaries in one integer, or 0 if *encoded* has at most 500 bytes.

    Bits 0 and 1 hold the distance back from byte 500, bits 2 and 3 the distance forward from 200 bytes before the end.
    """
    if len(encoded) <= HEAD_BYTES:
        return 0
    head_distance = tail_distance = 0
    while encoded[HEAD_BYTES - head_distance] & 0xC0 == 0x80:
        head_distance += 1
    tail = len(encoded) - TAIL_BYTES
    while encoded[tail + tail_distance] & 0xC0 == 0x80:
        tail_distance += 1
    return head_distance | tail_distance << 2
