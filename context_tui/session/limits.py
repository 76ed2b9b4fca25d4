"""Limits of what is taken for real: a recorded value beyond them is told as a problem, and never becomes a number."""

from __future__ import annotations

MAX_TOKENS = 10**9
"""More tokens than any request or window ever had."""
MAX_DEPTH = 200
"""Levels of arrays and objects in a value; what is nested deeper cannot be measured and written everywhere."""
MAX_TIME_MS = 32_503_680_000_000
"""Epoch milliseconds of the year 3000: every clock and calendar can show what is before it."""
MAX_NAME_LENGTH = 200
"""Characters of a name that is shown: of a tool, a model, a session."""


def truncate_name(text: str, length: int = MAX_NAME_LENGTH) -> str:
    """A name as it is shown: cut to *length* characters."""
    return text if len(text) <= length else text[: length - 1] + "…"
