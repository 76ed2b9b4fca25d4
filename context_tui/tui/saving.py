"""Functions that save files under new names in the working directory, and show brief notifications."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from textual.screen import Screen

from context_tui.text.sanitize import make_visible

MAX_NUMBERED_NAMES = 1_000


def save_new_file(text: str, name: str, suffix: str) -> Path:
    """Write *text* to the new file ``NAME.SUFFIX`` (or ``NAME-2.SUFFIX`` and so on) and return its relative path."""
    for number in range(1, MAX_NUMBERED_NAMES):
        path = Path(f"{name}.{suffix}" if number == 1 else f"{name}-{number}.{suffix}")
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(text)
            return path
    raise FileExistsError(f"{name}.{suffix} and {MAX_NUMBERED_NAMES} more are taken")


def notify_briefly(screen: Screen[Any], text: str, *, warn: bool = False) -> None:
    """Show *text*, never parsed as markup, in a notification that lasts four seconds and replaces earlier ones."""
    screen.app.clear_notifications()
    screen.notify(make_visible(text), severity="warning" if warn else "information", markup=False, timeout=4)


def save_and_report(screen: Screen[Any], text: str, name: str, suffix: str, noun: str = "file") -> None:
    """Save *text* to a new file and notify the user of the path, or of an error that calls the file *noun*."""
    try:
        path = save_new_file(text, name, suffix)
    except OSError as error:
        notify_briefly(screen, f"The {noun} cannot be written: {error.strerror or error}", warn=True)
    else:
        notify_briefly(screen, f"Saved {path}")


def save_picture(screen: Screen[Any], path: str, kind: str) -> None:
    """Save the screen as an SVG file whose name is built from the session file's *path* and the screen's *kind*."""
    name = Path(path).stem or "session"
    picture = screen.app.export_screenshot(title=make_visible(f"{name}: {kind}"))
    save_and_report(screen, picture, f"{name}-{kind}", "svg", "picture")
