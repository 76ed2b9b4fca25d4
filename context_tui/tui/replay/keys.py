"""Key bindings of the replay screen, for its help, the palette and the footer."""

from __future__ import annotations

from textual.binding import BindingType

from context_tui.tui.widgets.bindings import MAX_POLICY_DIGIT, build_policy_bindings, read_bindings

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


def build_bindings() -> list[BindingType]:
    """Build all bindings, in the order of the footer."""
    return [*_FOOTER_BINDINGS, *build_policy_bindings("Replay", "replay-", f"1–{MAX_POLICY_DIGIT}"), *_OTHER_BINDINGS]


_FOOTER_BINDINGS = read_bindings("replay-footer")
_OTHER_BINDINGS = read_bindings("replay-other")
