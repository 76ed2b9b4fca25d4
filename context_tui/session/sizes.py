"""The rule of thumb that turns sizes into tokens: defect's bytes / 4, floored.

It stands here, below everything, as folds over columns, readers and summarizers estimate too; the estimators of
``tokens`` are built on it.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""UTF-8 bytes that are taken for one token; loops over columns divide by it themselves, as a call costs as much."""


def tokens_of_bytes(size: int) -> int:
    """Estimated tokens of so many UTF-8 bytes."""
    return size // BYTES_PER_TOKEN
