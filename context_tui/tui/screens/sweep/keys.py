"""The sweep screen's keys: its help, the palette and the footer are made from them."""

from __future__ import annotations

from textual.binding import Binding

from context_tui.lab.replay.words import REPLAY_LIMITS_TEXT

NOTES = (
    " ".join(REPLAY_LIMITS_TEXT),
    "Table and plot: * nothing beats the setting: none saves as much with as little that was used later; > the current "
    "one, · another beats it, ◆ the one under the cursor. A setting that is best here may be so by chance: try more "
    "sessions (context-tui sweep FOLDER).",
    "Values of the grid are typed as for context-tui sweep -p: 1..8, 1..8:2 with a step, 256,512,1024, or one. A word "
    "without = names another policy, whose values follow it.",
    "Used later are tokens (bytes / 4) that the setting drops and the recorded run used again; cost is that of prompts "
    "and summaries against no policy, at cache prices.",
)
"""What help says above the keys."""


def _key(keys: str, action: str, description: str, name: str, tooltip: str, display: str | None = None) -> Binding:
    shown = display is not None
    return Binding(keys, action, description, show=shown, key_display=display, id=f"sweep-{name}", tooltip=tooltip)


def keys(*, live: bool) -> list[Binding]:
    """All bindings, in the order of the footer: of a sweep of the session that is open, or of one over sessions."""
    return [*_FIRST, *(_LIVE if live else _OVER_SESSIONS), *_REST]


_FIRST = [
    _key("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _key("up,k", "move(-1)", "setting", "up", "Go to the setting above", "↑↓"),
    _key("down,j", "move(1)", "Next setting", "down", "Go to the setting below"),
]
_LIVE = [
    _key("enter", "take", "take over", "take", "Go back with this policy and its settings", "enter"),
    _key("escape", "back", "back", "back", "Stop what is being measured; then go back, changing nothing", "esc"),
    _key("e", "edit", "grid", "edit", "Type another grid", "e"),
]
_OVER_SESSIONS = [
    _key("enter", "take", "sessions", "take", "List the sessions of this setting", "enter"),
    _key("escape", "back", "leave", "back", "Leave", "esc"),
    _key("p", "projects", "projects", "projects", "Show the best setting of each project", "p"),
]
_REST = [
    _key("o", "sort(1)", "sort", "sort", "List by the next number; a click on its head does so too", "o"),
    _key("m", "money", "money", "money", "Count what is saved in money, or in tokens again", "m"),
    _key("f", "best", "best", "best", "List only what nothing beats, or everything again", "f"),
    _key("t", "text", "text", "text", "Show everything as text", "t"),
    _key("c", "copy_native", "copy", "copy-native", "Copy the setting as the agent's own configuration", "c"),
    _key("y", "copy", "Copy command", "copy", "Copy the command that makes the same sweep"),
    _key("O", "sort(-1)", "Sort back", "sort-back", "List by the number before"),
    _key("i", "reverse", "Reverse", "reverse", "List the other way round"),
    _key("pageup", "page(-1)", "Page up", "page-up", "One page up"),
    _key("pagedown", "page(1)", "Page down", "page-down", "One page down"),
    _key("home,g", "ends(0)", "First", "first", "Go to the first setting"),
    _key("end,G", "ends(-1)", "Last", "last", "Go to the last setting"),
    _key("greater_than_sign", "to_current", "Current", "current", "Go to the current setting"),
    _key("asterisk", "next_best", "Next best", "next-best", "Go to the next setting that nothing beats"),
    _key("r", "go_on", "Go on", "go-on", "Go on with what was stopped"),
    _key("tab", "app.focus_next", "Pane", "pane", "Go to the grid, or back to the table"),
    _key("x", "picture", "Picture", "picture", "Save the screen as a picture (SVG) in the working directory"),
    _key("q", "leave", "Leave", "leave", "Go back, changing nothing"),
]
