"""How much of one record is read, and how much of it is shown: the same for lines, elements of documents and rows."""

from __future__ import annotations

MAX_RECORD_BYTES = 256 << 20
"""Bytes of the largest record that is read. A request holds 32 MB at most."""
MAX_RAW_BYTES = 1 << 20
"""Bytes of a record that are shown as they are."""
TOO_LARGE = "too large to read"
"""What is wrong with a record whose size is not known."""


def format_too_large(length: int) -> str:
    """What is wrong with a record of so many bytes; nothing where it can be read."""
    return (
        f"too large to read: {length / 1e6:,.0f} MB (at most {MAX_RECORD_BYTES / 1e6:,.0f} MB)"
        if length > MAX_RECORD_BYTES
        else ""
    )


def format_beginning(data: bytes | memoryview, length: int) -> str:
    """The text of a record of *length* bytes of which *data* are the first, saying so where there are more."""
    text = bytes(data[:MAX_RAW_BYTES]).decode("utf-8", "replace")
    return text if length <= MAX_RAW_BYTES else f"{text}\n[the first {MAX_RAW_BYTES:,} of {length:,} bytes]"
