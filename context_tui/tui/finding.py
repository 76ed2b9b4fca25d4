"""Where a text stands in another, as every search here takes it: capitals count when the text to find has any."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

LOWERCASE_CHUNK = 1 << 20
"""Characters that are looked at in lower case at once, so that no copy of a long text is made."""


def find_text(text: str, needle: str, start: int = 0) -> int:
    """The first place of *needle* in *text* from *start* on, or -1."""
    if needle != needle.lower():
        return text.find(needle, start)
    for at in range(start, len(text), LOWERCASE_CHUNK):
        part = text[at : at + LOWERCASE_CHUNK + len(needle) - 1]
        lower = part.lower()
        found = lower.find(needle)
        if found >= 0:
            if len(lower) != len(part):  # a capital may become two letters
                found = sum(end <= found for end in accumulate(len(char.lower()) for char in part))
            return at + found
    return -1


def find_all_text(text: str, needle: str) -> Iterator[int]:
    """All places of *needle* in *text*, none inside another."""
    at = find_text(text, needle)
    while at >= 0:
        yield at
        at = find_text(text, needle, at + len(needle))
