"""The replay screen's keys: its help, the palette and the footer are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from textual.binding import Binding

from context_tui.policies.base import Policy
from context_tui.tui.screens.inspector_keys import digits, policy_about
from context_tui.tui.widgets.scoreboard import DIGITS

NOTES = (
    "A replay shows what would have been dropped, and whether the recorded run used it later; it does not show what an "
    "agent with that context would have done.",
    "Chart: blocks are the context under the policy, shade what it is without, both in tokens as the provider counts. "
    "▲ the policy fires, │ a recorded compaction, ▾ results cleared or the recorded size fell, ! over the window.",
    "Sizes under a policy are the recorded ones less what it took out, by calibrated size, which is scaled down where "
    "recorded prompts are smaller than what they hold by it; a session without recorded sizes has estimates. A "
    "threshold is what the runtime holds its own count against.",
    "A threshold (↕) is pulled up and down with the mouse, which sets the parameter behind it; anywhere else the "
    "mouse moves the cursor. Below the settings of the policy are those of every replay: recorded compactions, and how "
    "large summaries are and how late.",
    "Back-test: whether the policy of the agent itself, as it is known, fires where the recording compacted, or a call "
    "earlier. It is told at the top, and at each recorded compaction.",
    "The selected policy and its settings go back to the inspector with you; q leaves the inspector as it was.",
)
"""What help says above the keys."""


def _key(keys: str, action: str, description: str, name: str, tooltip: str, display: str | None = None) -> Binding:
    shown = display is not None
    return Binding(keys, action, description, show=shown, key_display=display, id=f"replay-{name}", tooltip=tooltip)


def keys(policies: Mapping[str, Policy]) -> list[Binding]:
    """All bindings, in the order of the footer; the digits choose the first nine of *policies*."""
    return [*_SHOWN, *_policy_keys(policies), *_OTHERS]


def _policy_keys(policies: Mapping[str, Policy]) -> list[Binding]:
    return [
        _key(
            str(number),
            f"policy('{name}')",
            "policy" if number == 1 else f"Policy: {name}",
            f"policy-{number}",
            policy_about(name, policy).replace("Plan with", "Replay", 1),
            digits(len(policies)) if number == 1 else None,
        )
        for number, (name, policy) in enumerate(islice(policies.items(), DIGITS), 1)
    ]


_SHOWN = [
    _key("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _key("left", "move(-1)", "call", "call-previous", "Go to the call before", "←→"),
    _key("right", "move(1)", "Next call", "call-next", "Go to the next call"),
    _key("left_square_bracket", "firing(-1)", "fires", "firing-previous", "Go to the firing before", "[]"),
    _key("right_square_bracket", "firing(1)", "Next firing", "firing-next", "Go to the next firing"),
    _key("enter", "inspect", "inspect", "inspect", "Plan there in the inspector, with these settings", "enter"),
    _key("escape", "back", "back", "back", "Back to the inspector, with the selected policy and its settings", "esc"),
    _key("minus", "value(-1)", "value", "value-less", "Lower the selected parameter by a step", "−+"),
    _key("plus", "value(1)", "Raise value", "value-more", "Raise the selected parameter by a step"),
    _key("a", "add", "add", "add", "Compare one more policy; the same one again begins with its settings", "a"),
    _key("s", "sweep", "sweep", "sweep", "Sweep settings of the selected policy: which of them nothing beats", "s"),
    _key("u", "regrets", "regrets", "regrets", "Show what was dropped beside where it was used later", "u"),
    _key("t", "table", "table", "table", "Show all firings as text", "t"),
    _key("r", "recorded", "recorded", "recorded", "Keep recorded compactions, or undo them", "r"),
]
_OTHERS = [
    _key("tab", "app.focus_next", "pane", "pane", "Go to the parameters, or back to the chart", "tab"),
    _key("shift+tab", "app.focus_previous", "Previous pane", "pane-previous", "Go to the pane before"),
    _key("up,k", "select(-1)", "Policy above", "select-up", "Select the policy above"),
    _key("down,j", "select(1)", "Policy below", "select-down", "Select the policy below"),
    _key("shift+left", "move(-10)", "Ten calls back", "calls-back", "Go ten calls back"),
    _key("shift+right", "move(10)", "Ten calls on", "calls-on", "Go ten calls on"),
    _key("home,g", "go(0)", "First call", "first", "Go to the first call"),
    _key("end,G", "go(-1)", "Last call", "last", "Go to the last call"),
    _key("z", "zoom(1)", "Zoom in", "zoom-in", "Show half as many calls, around the cursor"),
    _key("Z", "zoom(-1)", "Zoom out", "zoom-out", "Show twice as many calls"),
    _key("equals_sign", "type", "Type a value", "type", "Type a value for the selected parameter"),
    _key("d,delete", "remove", "Remove", "remove", "Compare the selected policy no longer"),
    _key("y", "copy", "Copy", "copy", "Copy the command that replays the same"),
    _key("c", "configuration", "Configuration", "configuration", "Show the settings as the agent's own configuration"),
    _key("x", "picture", "Picture", "picture", "Save the screen as a picture (SVG) in the working directory"),
    _key("q", "leave", "Leave as it was", "leave", "Back to the inspector, which stays as it was"),
]
