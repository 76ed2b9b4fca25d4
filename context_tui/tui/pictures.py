"""Pictures of the screen, as files in the working directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PICTURES = 1_000
"""Numbers that are tried for the name of a picture."""


def save_picture(text: str, name: str) -> Path:
    """Write a new file in the working directory, whose name is not taken.

    Raises:
        OSError: it cannot be written.
    """
    names: Iterable[str] = (f"{name}.svg", *(f"{name}-{number}.svg" for number in range(2, PICTURES)))
    for each in names:
        try:
            with Path(each).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        return Path(each)
    raise FileExistsError(f"{name}.svg and {PICTURES} more are taken")
