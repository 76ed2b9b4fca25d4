"""The sweep screen's keys: its help, the palette and the footer are made from them."""

from __future__ import annotations

from textual.binding import Binding

from context_tui.lab.replay.words import REPLAY_LIMITS_TEXT

HELP_NOTES = (
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


def _build_binding(keys: str, action: str, description: str, name: str, tooltip: str, display: str | None = None) -> Binding:
    shown = display is not None
    return Binding(keys, action, description, show=shown, key_display=display, id=f"sweep-{name}", tooltip=tooltip)


def build_bindings(*, live: bool) -> list[Binding]:
    """All bindings, in the order of the footer: of a sweep of the session that is open, or of one over sessions."""
    return [*_FIRST_BINDINGS, *(_LIVE_BINDINGS if live else _SESSIONS_BINDINGS), *_OTHER_BINDINGS]


_FIRST_BINDINGS = [
    _build_binding("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _build_binding("up,k", "move(-1)", "setting", "up", "Go to the setting above", "↑↓"),
    _build_binding("down,j", "move(1)", "Next setting", "down", "Go to the setting below"),
]
_LIVE_BINDINGS = [
    _build_binding("enter", "take", "take over", "take", "Go back with this policy and its settings", "enter"),
    _build_binding("escape", "back", "back", "back", "Stop what is being measured; then go back, changing nothing", "esc"),
    _build_binding("e", "edit", "grid", "edit", "Type another grid", "e"),
]
_SESSIONS_BINDINGS = [
    _build_binding("enter", "take", "sessions", "take", "List the sessions of this setting", "enter"),
    _build_binding("escape", "back", "leave", "back", "Leave", "esc"),
    _build_binding("p", "projects", "projects", "projects", "Show the best setting of each project", "p"),
]
_OTHER_BINDINGS = [
    _build_binding("o", "sort(1)", "sort", "sort", "List by the next number; a click on its head does so too", "o"),
    _build_binding("m", "money", "money", "money", "Count what is saved in money, or in tokens again", "m"),
    _build_binding("f", "best", "best", "best", "List only what nothing beats, or everything again", "f"),
    _build_binding("t", "text", "text", "text", "Show everything as text", "t"),
    _build_binding("c", "copy_native", "copy", "copy-native", "Copy the setting as the agent's own configuration", "c"),
    _build_binding("y", "copy", "Copy command", "copy", "Copy the command that makes the same sweep"),
    _build_binding("O", "sort(-1)", "Sort back", "sort-back", "List by the number before"),
    _build_binding("i", "reverse", "Reverse", "reverse", "List the other way round"),
    _build_binding("pageup", "page(-1)", "Page up", "page-up", "One page up"),
    _build_binding("pagedown", "page(1)", "Page down", "page-down", "One page down"),
    _build_binding("home,g", "ends(0)", "First", "first", "Go to the first setting"),
    _build_binding("end,G", "ends(-1)", "Last", "last", "Go to the last setting"),
    _build_binding("greater_than_sign", "to_current", "Current", "current", "Go to the current setting"),
    _build_binding("asterisk", "next_best", "Next best", "next-best", "Go to the next setting that nothing beats"),
    _build_binding("r", "go_on", "Go on", "go-on", "Go on with what was stopped"),
    _build_binding("tab", "app.focus_next", "Pane", "pane", "Go to the grid, or back to the table"),
    _build_binding("x", "picture", "Picture", "picture", "Save the screen as a picture (SVG) in the working directory"),
    _build_binding("q", "leave", "Leave", "leave", "Go back, changing nothing"),
]
