"""Themes of the program, their variants for 16 colours, and the choice of a theme at startup."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from textual import constants
from textual.theme import Theme

from context_tui.errors import Error


def _build_scrollbar_colours(track: str, bar: str, hover: str, active: str) -> dict[str, str]:
    tracks = ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active")
    colours = {"scrollbar": bar, "scrollbar-hover": hover, "scrollbar-active": active}
    return {**dict.fromkeys((*tracks, "scrollbar-corner-color"), track), **colours}


DARK = Theme(
    name="context-dark",
    primary="#6ea8fe",
    secondary="#8fbcbb",
    accent="#e0af68",
    foreground="#d5d8df",
    background="#14161b",
    surface="#1a1d24",
    panel="#22262f",
    success="#8cc08a",
    warning="#e0af68",
    error="#ea7a82",
    dark=True,
    variables={
        "border": "#343a46",
        "footer-key-foreground": "#e0af68",
        "footer-background": "#1a1d24",
        **_build_scrollbar_colours("#14161b", "#3f434c", "#595e69", "#6ea8fe"),
    },
)
LIGHT = Theme(
    name="context-light",
    primary="#1f5fc4",
    secondary="#25706e",
    accent="#8a5a00",
    foreground="#24272e",
    background="#fbfbf9",
    surface="#f2f2ee",
    panel="#e7e7e1",
    success="#2c7a33",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={
        "border": "#c9c9c1",
        "footer-key-foreground": "#8a5a00",
        "footer-background": "#ececE6",
        **_build_scrollbar_colours("#fbfbf9", "#c8c8c4", "#a9a9a5", "#1f5fc4"),
    },
)


_ANSI_VARIABLES = {
    "ansi-background": "ansi_default",
    "ansi-foreground": "ansi_default",
    "border": "ansi_bright_black",
    "border-blurred": "ansi_bright_black",
    "block-hover-background": "ansi_default",
    "input-cursor-text-style": "reverse",
    "link-color": "ansi_default",
    "link-color-hover": "ansi_default",
    "link-background-hover": "ansi_default",
    "link-style-hover": "reverse",
    "screen-selection-background": "ansi_default",
    "screen-selection-foreground": "ansi_default",
    **dict.fromkeys(("scrollbar", "scrollbar-hover", "scrollbar-active"), "ansi_bright_black"),
    **_build_scrollbar_colours("ansi_default", "ansi_bright_black", "ansi_bright_black", "ansi_default"),
}
ANSI_DARK = Theme(
    name="few-dark",
    ansi=True,
    dark=True,
    primary="ansi_bright_cyan",
    secondary="ansi_cyan",
    accent="ansi_bright_yellow",
    foreground="ansi_white",
    background="ansi_black",
    success="ansi_bright_green",
    warning="ansi_bright_yellow",
    error="ansi_bright_red",
    variables={
        "foreground-muted": "ansi_bright_black",
        "text-muted": "ansi_bright_black",
        "footer-key-foreground": "ansi_bright_yellow",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_white",
        "block-cursor-blurred-background": "ansi_blue",
        **_ANSI_VARIABLES,
    },
)
ANSI_LIGHT = Theme(
    name="few-light",
    ansi=True,
    dark=False,
    primary="ansi_blue",
    secondary="ansi_blue",
    accent="ansi_magenta",
    foreground="ansi_black",
    background="ansi_bright_white",
    success="ansi_blue",
    warning="ansi_magenta",
    error="ansi_red",
    variables={
        "foreground-muted": "ansi_black",  # grey is too faint on white
        "text-muted": "ansi_black",
        "footer-key-foreground": "ansi_magenta",
        "block-cursor-foreground": "ansi_bright_white",
        "block-cursor-background": "ansi_black",
        "block-cursor-blurred-background": "ansi_white",
        **_ANSI_VARIABLES,
    },
)


def has_few_colours(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal has at most sixteen colours, or ``NO_COLOR`` is set."""
    if has_no_colours(environment):
        return True
    system: Any = constants.COLOR_SYSTEM  # as Textual does for its console
    return Console(color_system=system, force_terminal=True).color_system == "standard"


def has_no_colours(environment: Mapping[str, str]) -> bool:
    """Return whether ``NO_COLOR`` is set and not empty."""
    return bool(environment.get("NO_COLOR"))


def choose_theme(
    requested: str | None, environment: Mapping[str, str], names: Collection[str], saved: str | None = None
) -> str:
    """Return the *requested* theme, or TEXTUAL_THEME, the *saved* or the dark one; raises Error if it is unknown."""
    if requested is None:
        requested = environment.get("TEXTUAL_THEME") or saved or DARK.name
    name = {"dark": DARK.name, "light": LIGHT.name}.get(requested, requested)
    if name not in names:
        raise Error(f"unknown theme {requested!r}; available: {', '.join(sorted(names))}")
    return name
