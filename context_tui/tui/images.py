"""What can be said about an image without drawing it: type, bytes, and the size in pixels where that is cheap."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from context_tui.text.sanitize import sanitize_line


def describe_image(block: Mapping[str, Any]) -> str:
    """An image block in words."""
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    data, url = source.get("data"), source.get("url")
    parts = [sanitize_line(str(source.get("media_type") or "image"))[:40]]
    if isinstance(data, str):
        parts.append(f"{len(data) * 3 // 4 / 1024:,.0f} KB")
        if pixels := read_image_size(data):
            parts.append(f"{pixels[0]:,} × {pixels[1]:,} pixels")
    elif isinstance(url, str):
        parts.append(sanitize_line(url[:200]))
    return ", ".join(parts)


def read_image_size(data: str) -> tuple[int, int] | None:
    """Width and height of a base64 PNG, GIF or JPEG, from its first bytes; None where they do not tell."""
    try:
        head = base64.b64decode(data[:65_536])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _read_jpeg_size(head)
    return None


def _read_jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None
