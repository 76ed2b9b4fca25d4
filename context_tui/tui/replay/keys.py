"""Key bindings of the replay screen, for its help, the palette and the footer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from textual.binding import Binding

from context_tui.policies.base import Policy
from context_tui.tui.view import MAX_POLICY_DIGIT, format_policy_digits, format_policy_tooltip
from context_tui.tui.widgets.bindings import build_binding

HELP_NOTES = (
    "A replay shows what would have been dropped, and whether the recorded session needed it later. It does not show "
    "what an agent with that context would have done.",
    "Chart: blocks show the context under the policy, shade the context without it, both in the provider's tokens. "
    "▲ the policy fires, │ a recorded compaction, ▾ results cleared or the recorded size fell, ! over the window.",
    "Sizes under a policy are recorded sizes minus the calibrated size of the removed content, scaled down where "
    "recorded prompts are smaller than their calibrated content; without recorded sizes they are estimates. The "
    "runtime compares a threshold with its own count.",
    "Drag a threshold (↕) up or down to set its parameter; anywhere else the mouse moves the cursor. Below the "
    "settings of the policy are the options for all policies: recorded compactions, and the size and delay of "
    "summaries.",
    "Back-test: whether the agent's own policy fires where the recording compacted, or one call earlier. The result is "
    "shown at the top and at each recorded compaction.",
    "The selected policy and its settings go back to the inspector with you; q leaves the inspector as it was.",
)


_build_binding = partial(build_binding, prefix="replay-")


def build_bindings(policies: Mapping[str, Policy]) -> list[Binding]:
    """Build all bindings, in the order of the footer; the digits choose the first nine of *policies*."""
    return [*_FOOTER_BINDINGS, *_build_policy_bindings(policies), *_OTHER_BINDINGS]


def _build_policy_bindings(policies: Mapping[str, Policy]) -> list[Binding]:
    return [
        _build_binding(
            str(number),
            f"policy('{name}')",
            "policy" if number == 1 else f"Policy: {name}",
            f"policy-{number}",
            format_policy_tooltip(name, policy).replace("Plan with", "Replay", 1),
            format_policy_digits(len(policies)) if number == 1 else None,
        )
        for number, (name, policy) in enumerate(islice(policies.items(), MAX_POLICY_DIGIT), 1)
    ]


_FOOTER_BINDINGS = [
    _build_binding("question_mark,f1", "help", "help", "help", "List all keys", "?"),
    _build_binding("left", "move(-1)", "call", "call-previous", "Go to the previous call", "←→"),
    _build_binding("right", "move(1)", "Next call", "call-next", "Go to the next call"),
    _build_binding("left_square_bracket", "firing(-1)", "fires", "firing-previous", "Go to the previous firing", "[]"),
    _build_binding("right_square_bracket", "firing(1)", "Next firing", "firing-next", "Go to the next firing"),
    _build_binding(
        "enter", "inspect", "inspect", "inspect", "Plan there in the inspector, with these settings", "enter"
    ),
    _build_binding(
        "escape", "back", "back", "back", "Back to the inspector, with the selected policy and its settings", "esc"
    ),
    _build_binding("minus", "change_value(-1)", "value", "value-less", "Lower the selected parameter by a step", "−+"),
    _build_binding("plus", "change_value(1)", "Raise value", "value-more", "Raise the selected parameter by a step"),
    _build_binding(
        "a", "add", "add", "add", "Compare another policy; a policy added again starts with its settings", "a"
    ),
    _build_binding(
        "s", "sweep", "sweep", "sweep", "Sweep settings of the selected policy and find the Pareto front", "s"
    ),
    _build_binding("u", "regrets", "needed later", "regrets", "Show dropped content that was needed later", "u"),
    _build_binding("t", "table", "table", "table", "Show all firings as text", "t"),
    _build_binding("r", "recorded", "recorded", "recorded", "Keep recorded compactions, or undo them", "r"),
]
_OTHER_BINDINGS = [
    _build_binding("tab", "app.focus_next", "pane", "pane", "Go to the parameters, or back to the chart", "tab"),
    _build_binding("shift+tab", "app.focus_previous", "Previous pane", "pane-previous", "Go to the previous pane"),
    _build_binding("up,k", "select(-1)", "Policy above", "select-up", "Select the policy above"),
    _build_binding("down,j", "select(1)", "Policy below", "select-down", "Select the policy below"),
    _build_binding("shift+left", "move(-10)", "Ten calls back", "calls-back", "Go ten calls back"),
    _build_binding("shift+right", "move(10)", "Ten calls on", "calls-on", "Go ten calls on"),
    _build_binding("home,g", "go(0)", "First call", "first", "Go to the first call"),
    _build_binding("end,G", "go(-1)", "Last call", "last", "Go to the last call"),
    _build_binding("z", "zoom(1)", "Zoom in", "zoom-in", "Show half as many calls, around the cursor"),
    _build_binding("Z", "zoom(-1)", "Zoom out", "zoom-out", "Show twice as many calls"),
    _build_binding("equals_sign", "type", "Type a value", "type", "Type a value for the selected parameter"),
    _build_binding("d,delete", "remove", "Remove", "remove", "Remove the selected policy from the comparison"),
    _build_binding("y", "copy", "Copy", "copy", "Copy the command for this replay"),
    _build_binding(
        "c", "configuration", "Configuration", "configuration", "Show the settings as the agent's own configuration"
    ),
    _build_binding("x", "picture", "Picture", "picture", "Save the screen as a picture (SVG) in the working directory"),
    _build_binding("q", "leave", "Leave as it was", "leave", "Back to the inspector, without changes"),
]
