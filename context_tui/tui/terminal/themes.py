"""Themes of the program, their variants for 16 colours, and the choice of a theme at startup."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rich.console import Console
from textual import constants
from textual.theme import Theme

from context_tui.errors import Error
from context_tui.text.files import read_toml

MUTED, BOLD = "$foreground-muted", "bold"
GOOD, WARN, BAD, PRIMARY = "$text-success", "$text-warning", "$text-error", "$text-primary"
"""Styles of texts, by the names of the theme's colours."""


def _read_themes() -> Iterator[Theme]:
    tables = read_toml("context_tui.tui.terminal", "themes.toml")
    few_colours = tables.pop("few-colours")
    for name, table in tables.items():
        track, bar, hover, active = table.pop("scrollbar")
        tracks = ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active")
        colours = {"scrollbar": bar, "scrollbar-hover": hover, "scrollbar-active": active}
        colours |= dict.fromkeys((*tracks, "scrollbar-corner-color"), track)
        few = few_colours if table.get("ansi") else {}
        yield Theme(name, **{**table, "variables": {**table["variables"], **few, **colours}})


DARK, LIGHT, ANSI_DARK, ANSI_LIGHT = _read_themes()


def has_few_colours(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal has sixteen colours or fewer, or should show none because of ``NO_COLOR``."""
    if environment.get("NO_COLOR"):
        return True
    system: Any = constants.COLOR_SYSTEM  # as Textual does for its console
    return Console(color_system=system, force_terminal=True).color_system == "standard"


def choose_theme(
    requested: str | None, environment: Mapping[str, str], names: Collection[str], saved: str | None = None
) -> str:
    """Return a theme's name: *requested*, else ``TEXTUAL_THEME``, *saved* or the dark one; raises Error if unknown."""
    if requested is None:
        requested = environment.get("TEXTUAL_THEME") or saved or DARK.name
    name = {"dark": DARK.name, "light": LIGHT.name}.get(requested, requested)
    if name not in names:
        raise Error(f"unknown theme {requested!r}; available: {', '.join(sorted(names))}")
    return name
