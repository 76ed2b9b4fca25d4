"""Encode compact JSON, decode JSON tolerantly, and measure text in UTF-8 bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from context_tui.session.validation import MAX_DEPTH

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
BOM = b"\xef\xbb\xbf"
"""Byte-order mark, which some programs write before the first value."""
_SPACE = re.compile(r"[ \t\r\n]*")


class OversizedRecord(ValueError):
    """Raised for a record whose values would take too much memory. It must not be decoded in any other way."""


def utf8_len(text: str) -> int:
    """Return the length of a text in UTF-8 bytes. A lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def compact_json(value: object, *, sort_keys: bool = False) -> bytes:
    """Return a value as compact JSON in UTF-8. A lone surrogate is encoded as three bytes."""
    try:
        return _encode_sorted(value) if sort_keys else _encode(value)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys, default=str)
        return text.encode("utf-8", "surrogatepass")


def compact_text(value: object, *, sort_keys: bool = False) -> str:
    """Return a value as compact JSON text."""
    return compact_json(value, sort_keys=sort_keys).decode("utf-8", "surrogatepass")


def loads(data: bytes | str | memoryview) -> Any:
    """Decode JSON, tolerating lone surrogates, NaN, a BOM and invalid UTF-8. Raises ValueError for other errors."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError, UnicodeError):
        text = data if isinstance(data, str) else _decode_text(bytes(data))
        try:
            return _lenient_decoder.decode(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def try_loads(data: bytes | str) -> Any:
    """Decode JSON as :func:`loads` does, or return None if that fails."""
    try:
        return loads(data)
    except ValueError:
        return None


def _decode_text(data: bytes) -> str:
    """Decode UTF-8 that may contain lone surrogates; if that fails, replace invalid bytes with U+FFFD."""
    try:
        return data.decode("utf-8-sig", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", "replace")


def _parse_integer(digits: str) -> int | float:
    """Parse an integer; return a float if it has too many digits for Python."""
    return int(digits) if len(digits) < 4_000 else float(digits)


_lenient_decoder = json.JSONDecoder(parse_int=_parse_integer)


def is_nested_deeper(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return whether arrays and objects in *value* are nested more than *levels* deep. This does not use recursion."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return bool(layer)


def find_value_ranges(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield the byte range of each JSON value on a line. Raises ValueError if there is any other text on it."""
    mark = len(BOM) if line.startswith(BOM) else 0
    text = line[mark:].decode("utf-8", "surrogateescape")  # keeps invalid bytes, so that offsets are exact
    end, offset = 0, mark
    while True:
        start = _skip_space(text, end)
        offset += start - end
        if start == len(text):
            return
        try:
            _, end = _lenient_decoder.raw_decode(text, start)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        length = len(text[start:end].encode("utf-8", "surrogateescape"))
        yield (0 if offset == mark else offset), offset + length
        offset += length


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def loads_all(line: bytes) -> list[Any]:
    """Decode each JSON value on a line that may hold several. Raises ValueError if there is other text between them."""
    return [loads(line[begin:end]) for begin, end in find_value_ranges(line)]
