"""Tiny PNG pictures, byte for byte the same everywhere: their pixels are stored, not compressed."""

from __future__ import annotations

import base64
import struct
import zlib

Color = tuple[int, int, int]


class Picture:
    """A picture of a few colours."""

    def __init__(self, width: int, height: int, colors: list[Color]) -> None:
        self.width, self.height, self.colors = width, height, colors
        self.rows = [bytearray(width) for _ in range(height)]

    def fill(self, left: int, top: int, width: int, height: int, color: int) -> None:
        """Fill a rectangle with the color of this number."""
        for row in self.rows[top : top + height]:
            row[left : left + width] = bytes([color]) * len(row[left : left + width])

    def encode(self) -> str:
        """The PNG file in base64."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 3, 0, 0, 0)
        palette = b"".join(bytes(color) for color in self.colors)
        pixels = b"".join(b"\0" + bytes(row) for row in self.rows)
        parts = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", _stored(pixels)), (b"IEND", b"")
        return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """A zlib stream of one stored block: what a compressor makes differs between its versions."""
    assert len(data) < 65_536
    head = b"\x78\x01\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF)
    return head + data + struct.pack(">I", zlib.adler32(data))


def bar_chart(heights: list[int]) -> str:
    """A bar chart, 64 x 40."""
    picture = Picture(64, 40, [(250, 250, 247), (60, 60, 70), (48, 120, 180), (214, 102, 70)])
    picture.fill(4, 36, 58, 1, 1)
    picture.fill(4, 2, 1, 34, 1)
    for number, height in enumerate(heights):
        picture.fill(8 + number * 9, 36 - height, 6, height, 3 if height == max(heights) else 2)
    return picture.encode()


def dialog() -> str:
    """A window with a title bar, some lines and two buttons, 72 x 44."""
    picture = Picture(72, 44, [(236, 236, 236), (70, 90, 130), (255, 255, 255), (120, 120, 120), (80, 160, 90)])
    picture.fill(0, 0, 72, 7, 1)
    picture.fill(3, 10, 66, 22, 2)
    for number, width in enumerate((40, 52, 30, 46)):
        picture.fill(6, 13 + number * 5, width, 2, 3)
    picture.fill(30, 35, 17, 6, 3)
    picture.fill(50, 35, 17, 6, 4)
    return picture.encode()
