"""Key bindings of the replay screen, for its help, the palette and the footer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from textual.binding import BindingType

from context_tui.policies.base import Policy
from context_tui.tui.view import MAX_POLICY_DIGIT, format_policy_digits, format_policy_tooltip
from context_tui.tui.widgets.bindings import build_binding, read_bindings

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


def build_bindings(policies: Mapping[str, Policy]) -> list[BindingType]:
    """Build all bindings, in the order of the footer; the digits choose the first nine of *policies*."""
    return [*_FOOTER_BINDINGS, *_build_policy_bindings(policies), *_OTHER_BINDINGS]


def _build_policy_bindings(policies: Mapping[str, Policy]) -> list[BindingType]:
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


_FOOTER_BINDINGS = read_bindings("replay-footer")
_OTHER_BINDINGS = read_bindings("replay-other")
