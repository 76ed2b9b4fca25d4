"""Two themes of our own, and which one to begin with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from textual.theme import Theme

from context_tui.errors import Error


def _scrollbars(track: str, bar: str, hover: str, active: str) -> dict[str, str]:
    """Quiet scroll bars: the track is the background."""
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
        **_scrollbars("#14161b", "#3f434c", "#595e69", "#6ea8fe"),
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
        **_scrollbars("#fbfbf9", "#c8c8c4", "#a9a9a5", "#1f5fc4"),
    },
)


def theme_for(
    asked: str | None, environment: Mapping[str, str], names: Collection[str], kept: str | None = None
) -> str:
    """The theme asked for (``dark`` and ``light`` are ours), else one without colours under NO_COLOR, else the *kept*.

    Raises:
        Error: there is no theme of that name.
    """
    if asked is None:
        asked = environment.get("TEXTUAL_THEME") or None
    if asked is None:
        # An empty NO_COLOR means unset; Textual would only turn everything grey and still send colours.
        if environment.get("NO_COLOR"):
            return "ansi-dark"
        asked = kept or DARK.name
    name = {"dark": DARK.name, "light": LIGHT.name}.get(asked, asked)
    if name not in names:
        raise Error(f"unknown theme {asked!r}; available: {', '.join(sorted(names))}")
    return name
