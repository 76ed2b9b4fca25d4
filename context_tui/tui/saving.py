"""Small files saved from the screen into the working directory, under unused names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MAX_NUMBERED_NAMES = 1_000
"""Numbers tried after a name that is taken."""


def save_new_file(text: str, name: str, suffix: str) -> Path:
    """Write *text* to a new file, ``NAME.SUFFIX`` or ``NAME-2.SUFFIX`` and so on, and return its path.

    Raises:
        OSError: The file cannot be written.
    """
    for number in range(1, MAX_NUMBERED_NAMES):
        path = Path(f"{name}.{suffix}" if number == 1 else f"{name}-{number}.{suffix}")
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(text)
            return path
    raise FileExistsError(f"{name}.{suffix} and {MAX_NUMBERED_NAMES} more are taken")
