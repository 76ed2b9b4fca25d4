"""Small files saved from the screen into the working directory, under unused names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

MAX_NUMBERED_NAMES = 1_000
"""Numbers tried after a name that is taken."""


def save_new_file(text: str, name: str, suffix: str) -> Path:
    """Write *text* to a new file, ``NAME.SUFFIX`` or ``NAME-2.SUFFIX`` and so on, and return its path.

    Raises:
        OSError: The file cannot be written.
    """
    names: Iterable[str] = (
        f"{name}.{suffix}",
        *(f"{name}-{number}.{suffix}" for number in range(2, MAX_NUMBERED_NAMES)),
    )
    for each in names:
        try:
            with Path(each).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        return Path(each)
    raise FileExistsError(f"{name}.{suffix} and {MAX_NUMBERED_NAMES} more are taken")
