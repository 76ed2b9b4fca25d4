"""defect's microcompact (system 3 of the seed systems): clear big tool results of old turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, ClassVar

from context_tui.compaction.changes import AlikeChanges, Change
from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.verdicts import Code, Kept
from context_tui.policies.base import BasePolicy, Belief, Params, nothing, param
from context_tui.policies.defect import (
    KEPT_TURNS,
    baseline_and_delta,
    believed_trigger,
    few_turns,
    share_of_window,
    window_tokens,
)
from context_tui.policies.parts.candidates import between, blocks_of_kind, kept_numbers
from context_tui.policies.prefix_sums import PrefixSums
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Body, Context, memoize
from context_tui.session.markers import DEFECT_PLACEHOLDER
from context_tui.session.values import Kind, MessageFlag
from context_tui.tokens.context_index import ToolResults, index_context

CLEARED = Body.from_text(DEFECT_PLACEHOLDER)
CLEARED_TOKENS = CLEARED.tokens


class DefectMicrocompactParams(Params):
    """Parameters of defect's microcompact."""

    keep_recent_turns: int = param(KEPT_TURNS, "turns at the end whose results are kept", "turns", 1, 1_000)
    min_clear_tokens: int = param(512, "a result is cleared when it is larger than this", "tokens", 0, 1_000_000)
    microcompact_ratio: float = param(0.60, "share of the window at which it acts", "of window", 0.01, 1.0)


class DefectMicrocompact(BasePolicy):
    """Clear tool results larger than a minimum in all but the last turns."""

    name: ClassVar[str] = "defect-microcompact"
    about: ClassVar[str] = "defect: clear big tool results of all but the last turns"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = DefectMicrocompactParams
    runtime: ClassVar[str] = "defect"
    flat_curves: ClassVar[frozenset[str]] = frozenset({"microcompact_ratio"})
    waits_for: ClassVar[int] = MessageFlag.TURN_START

    def believed(self, state: RuntimeState) -> Belief | None:
        return baseline_and_delta(state)

    def hint(self, context: Context) -> str:
        return few_turns(context)

    def trigger(self, state: RuntimeState, params: DefectMicrocompactParams) -> Trigger:
        threshold = int(params.microcompact_ratio * window_tokens(state))
        return believed_trigger(state, threshold, share_of_window(state, params.microcompact_ratio))

    def plan(self, context: Context, params: DefectMicrocompactParams, state: RuntimeState) -> Plan:
        sums, trigger = index_context(context), self.trigger(state, params)
        keep, minimum = params.keep_recent_turns, params.min_clear_tokens
        if len(sums.turn_starts) < keep:
            few = {0: "no turn starts in this context", 1: "only one turn"}
            turns = few.get(len(sums.turn_starts), f"only {len(sums.turn_starts):,} turns")
            reason = f"nothing to clear: {turns}, and the last {keep:,} are kept"
            return nothing(self.name, params, context, trigger, reason)
        end = first_kept(context, keep)
        results = sums.results
        numbers = _larger(context, minimum)
        numbers = numbers[: bisect_left(numbers, bisect_left(results.position, end))]
        rows = [results.block[number] for number in numbers]
        saved = sum([results.tokens[number] for number in numbers]) - len(rows) * CLEARED_TOKENS

        def kept(position: int, block: int | None) -> Kept:
            if position >= end:
                return Kept(Code.RECENT_TURN, f"within the last {keep:,} turns")
            if block is None or context.facts.kind[block] != Kind.TOOL_RESULT:
                return Kept(Code.NOT_A_RESULT, "only tool results are cleared")
            if is_cleared(context, block):
                return Kept(Code.ALREADY_CLEARED, "already cleared")
            return Kept(Code.SMALL, f"{minimum:,} tokens or fewer")

        if not rows:
            every = sums.results.position
            count = bisect_left(every, end)
            none = f"no tool results before the last {keep:,} turns" if every else "no tool results"
            small = f"none of the {count:,} older results is larger than {minimum:,} tokens"
            return Plan(self.name, params, context, trigger, reason=small if count else none, kept=kept, saved=0)
        changes = AlikeChanges(rows, Change("clear", CLEARED, self.name))
        report = {"tokens_before": sums.total, "tokens_after": sums.total - saved, "cleared": len(rows)}
        return Plan(self.name, params, context, trigger, changes, report=report, kept=kept, saved=saved)

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        results, total = uncleared(context), index_context(context).total
        if name == "min_clear_tokens":
            old = results.tokens[: bisect_left(results.position, first_kept(context, params.keep_recent_turns))]
            by_size = PrefixSums(old, (size - CLEARED_TOKENS for size in old))
            return [total - by_size.above(value) for value in values]
        if name == "keep_recent_turns":
            saved = [size - CLEARED_TOKENS if size > params.min_clear_tokens else 0 for size in results.tokens]
            by_position = PrefixSums(results.position, saved)
            return [total - by_position.below(first_kept(context, value)) for value in values]
        return super().curve(context, params, state, name, values)


def first_kept(context: Context, keep: int) -> int:
    """Position at which the last *keep* turns start; 0 where there are fewer, so that nothing is older."""
    starts = index_context(context).turn_starts
    return starts[-keep] if keep <= len(starts) else 0


def is_cleared(context: Context, block: int) -> bool:
    """Whether a tool_result has been cleared before."""
    return context.has_exact_text(block, DEFECT_PLACEHOLDER, in_blocks=False)


def _uncleared(context: Context) -> list[int]:
    """Numbers of the tool_results that have not been cleared before."""
    blocks = blocks_of_kind(context, Kind.TOOL_RESULT)

    def choose(numbers: range) -> list[int]:
        return [number for number in numbers if not is_cleared(context, blocks.block[number])]

    return kept_numbers(index_context(context), is_cleared, blocks, choose)


def _larger(context: Context, minimum: int) -> list[int]:
    """Numbers of those that are larger than so many tokens."""
    uncleared, tokens = _uncleared(context), index_context(context).results.tokens

    def choose(numbers: range) -> list[int]:
        return [each for each in between(uncleared, numbers.start, numbers.stop) if tokens[each] > minimum]

    return kept_numbers(
        index_context(context), (is_cleared, minimum), blocks_of_kind(context, Kind.TOOL_RESULT), choose
    )


@memoize
def uncleared(context: Context) -> ToolResults:
    """The tool_results that have not been cleared before."""
    results, numbers = index_context(context).results, _uncleared(context)
    return ToolResults(
        *([column[number] for number in numbers] for column in (results.position, results.block, results.tokens))
    )
