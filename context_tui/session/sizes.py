"""The rules of thumb that turn sizes into tokens: defect's bytes / 4, and koda's bytes / 3.5, both floored.

They stand here, below everything, as folds over columns, readers and summarizers estimate too; the estimators of
``tokens`` are built on them.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""UTF-8 bytes that are taken for one token; loops over columns divide by it themselves, as a call costs as much."""


def bytes_to_tokens(size: int) -> int:
    """Estimated tokens of so many UTF-8 bytes."""
    return size // BYTES_PER_TOKEN


def bytes_to_koda_tokens(size: int) -> int:
    """Estimated tokens of so many UTF-8 bytes by koda's rule, size / 3.5."""
    return size * 2 // 7
