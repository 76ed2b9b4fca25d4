"""What both policies of defect go by: its window, what it believes, and when it acts."""

from __future__ import annotations

from context_tui.compaction.plan import Trigger
from context_tui.policies.base import Belief
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.context_index import index_context

DEFAULT_KEPT_TURNS = 3
"""Turns at the end that a microcompaction leaves alone, by default."""
ASSUMED_WINDOW = 128_000
"""The window that defect takes where it knows none, in tokens."""


def get_window_tokens(state: RuntimeState) -> int:
    """The window as defect sees it, in tokens."""
    return state.window.tokens if state.window.is_known else ASSUMED_WINDOW


def format_window_share(state: RuntimeState, ratio: float) -> str:
    """A share of the window in words, which say so where the window is defect's own fallback."""
    fallback = "" if state.window.is_known else ", which defect assumes where the window is unknown"
    return f"{ratio:.0%} of {get_window_tokens(state):,}{fallback}"


def build_belief(state: RuntimeState) -> Belief:
    """The size that defect believes: an estimate of what is new is added to the last recorded size."""
    recorded = state.recorded_usage is not None
    return Belief(
        state.believed_tokens,
        "last recorded + estimate" if recorded else "an estimate, as nothing was recorded before it",
    )


def check_threshold(state: RuntimeState, threshold: int, what: str) -> Trigger:
    """defect acts when what it believes reaches *threshold* tokens."""
    fires = state.believed_tokens >= threshold
    says = "at least" if fires else "under"
    source = (
        "last recorded + estimate since then"
        if state.recorded_usage
        else "estimated: nothing is recorded in this context"
    )
    if state.context_rewritten:
        source = "estimated: what was recorded is forgotten when something is cleared"
    reason = f"thinks it has {state.believed_tokens:,}, {says} {what} = {threshold:,}"
    return Trigger(fires, reason, state.believed_tokens, threshold, source)


def explain_few_turns(context: Context) -> str:
    """What can be done about a context that has too few turns for defect's defaults; empty where it has enough."""
    turns = len(index_context(context).turn_starts)
    if turns >= DEFAULT_KEPT_TURNS:
        return ""
    few = "A single turn" if turns == 1 else f"{turns} turns"
    kept = f"defect-microcompact keeps the last {DEFAULT_KEPT_TURNS} by default (keep_recent_turns)"
    return f"{few} here: {kept}; assistant_boundary lets defect-compact cut within one"
