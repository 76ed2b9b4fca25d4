"""defect's microcompact (system 3 of the seed systems): clear big tool results of old turns."""

from __future__ import annotations

from typing import ClassVar

from context_tui.compaction.plan import Change, Plan, Trigger
from context_tui.policies.base import LoopCurve, Params, believed_trigger, nothing, param
from context_tui.policies.moment import Moment
from context_tui.session.context import Body, Context
from context_tui.session.facts import BlockFlag, Kind
from context_tui.session.markers import DEFECT_PLACEHOLDER
from context_tui.tokens.measured import measured

UNKNOWN_WINDOW = 128_000
"""The window that defect takes where it knows none, in tokens."""


def window_tokens(moment: Moment) -> int:
    """The window as defect sees it, in tokens."""
    return moment.window.tokens if moment.window.known else UNKNOWN_WINDOW


class DefectMicrocompactParams(Params):
    """Parameters of defect's microcompact."""

    keep_recent_turns: int = param(3, "turns at the end whose results are kept", "turns", 1, 1_000)
    min_clear_tokens: int = param(512, "a result is cleared when it is larger than this", "tokens", 0, 1_000_000)
    microcompact_ratio: float = param(0.60, "share of the window at which it acts", "of window", 0.01, 1.0)


class DefectMicrocompact(LoopCurve):
    """Clear tool results larger than a minimum in all but the last turns."""

    name: ClassVar[str] = "defect-microcompact"
    about: ClassVar[str] = "defect: clear big tool results of all but the last turns"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = DefectMicrocompactParams

    def trigger(self, moment: Moment, params: DefectMicrocompactParams) -> Trigger:
        window = window_tokens(moment)
        threshold = int(params.microcompact_ratio * window)
        return believed_trigger(moment, threshold, f"{params.microcompact_ratio:.0%} of {window:,}")

    def plan(self, context: Context, params: DefectMicrocompactParams, moment: Moment) -> Plan:
        sums, trigger = measured(context), self.trigger(moment, params)
        starts, keep = sums.turn_starts, params.keep_recent_turns
        if len(starts) < keep:
            turns = "one turn" if len(starts) == 1 else f"{len(starts)} turns"
            reason = f"nothing to clear: only {turns} here, and the last {keep} are kept"
            return nothing(self.name, params, context, trigger, reason)
        first_kept = starts[-keep]
        results = sums.results
        change = Change("clear", Body.of(DEFECT_PLACEHOLDER), self.name)
        rows = [
            block
            for position, block, tokens in zip(results.position, results.block, results.tokens, strict=True)
            if tokens > params.min_clear_tokens and position < first_kept
        ]
        changes = dict.fromkeys(
            (row for row in rows if not context.is_text(row, DEFECT_PLACEHOLDER, BlockFlag.DEFECT_CLEARED)), change
        )

        def kept(position: int, block: int | None) -> str:
            if position >= first_kept:
                return f"kept: within the last {keep} turns"
            if block is None or context.facts.kind[block] != Kind.TOOL_RESULT:
                return "kept: only tool results are cleared"
            if context.is_text(block, DEFECT_PLACEHOLDER, BlockFlag.DEFECT_CLEARED):
                return "kept: cleared before"
            return f"kept: {params.min_clear_tokens:,} tokens or fewer"

        plan = Plan(self.name, params, context, trigger, changes, kept=kept)
        if not changes:
            old = sum(1 for position in results.position if position < first_kept)
            none = "no tool results" if not len(results.block) else f"no tool results before the last {keep} turns"
            small = f"none of the {old} older results is larger than {params.min_clear_tokens:,} tokens"
            return Plan(self.name, params, context, trigger, reason=small if old else none, kept=kept)
        report = {"tokens_before": plan.tokens_before, "tokens_after": plan.tokens_after, "cleared": len(changes)}
        return Plan(self.name, params, context, trigger, changes, report=report, kept=kept)
