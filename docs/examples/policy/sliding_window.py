"""A policy for context-tui: keep the first turn and the newest ones, drop what is between, and leave a note there."""

from __future__ import annotations

from typing import ClassVar

from context_tui.compaction.plan import Insert, KeepReason, Plan, Trigger, VerdictCode
from context_tui.policies.base import BasePolicy, Params, build_empty_plan, param
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.tokens.context_index import index_context

NOTE = "[{} earlier messages were left out to save context.]"


class SlidingWindowParams(Params):
    """Parameters of the sliding window; listings, sliders and error messages are made from this."""

    keep_turns: int = param(4, "turns at the end that are kept", "turns", 1, 1_000)
    share: float = param(0.5, "share of the window at which it acts", "of window", 0.01, 1.0)


class SlidingWindow(BasePolicy):
    """Drop the turns between the first one and the newest ones."""

    name: ClassVar[str] = "sliding-window"
    about: ClassVar[str] = "example: drop the turns between the first and the newest ones"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = SlidingWindowParams
    flat_curves: ClassVar[frozenset[str]] = frozenset({"share"})

    def trigger(self, state: RuntimeState, params: SlidingWindowParams) -> Trigger:
        """Fires where the believed size has reached the share of the window."""
        threshold = int(params.share * state.window.tokens)
        fires = state.believed_tokens >= threshold
        says = "has reached" if fires else "is below"
        return Trigger(
            fires,
            f"{state.believed_tokens:,} tokens {says} {threshold:,}",
            state.believed_tokens,
            threshold,
            "believed",
        )

    def plan(self, context: Context, params: SlidingWindowParams, state: RuntimeState) -> Plan:
        """Turns begin with a question, so that a cut before one splits no call from its result."""
        starts, trigger = index_context(context).turn_starts, self.trigger(state, params)
        if len(starts) < params.keep_turns + 2:
            reason = f"nothing to drop: only {len(starts)} turns"
            return build_empty_plan(self.name, params, context, trigger, reason)
        first, last = starts[1], starts[-params.keep_turns]

        def kept(position: int, block: int | None) -> KeepReason:
            if position < first:
                return KeepReason(VerdictCode.PROTECTED, "in the first turn")
            return KeepReason(VerdictCode.RECENT_TURN, f"within the last {params.keep_turns} turns")

        return Plan(
            self.name,
            params,
            context,
            trigger,
            dropped_ranges=(range(first, last),),
            inserts=(Insert("user", first, NOTE.format(last - first), holds_summary=False),),
            keep_reason=kept,
        )
