"""defect's microcompact (system 3 of the seed systems): clear big tool results of old turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, ClassVar

from context_tui.compaction.changes import Change, UniformChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.verdicts import KeepReason, VerdictCode
from context_tui.policies.base import BasePolicy, Belief, Params, build_empty_plan, param
from context_tui.policies.defect import (
    DEFAULT_KEPT_TURNS,
    build_belief,
    check_threshold,
    explain_few_turns,
    format_window_share,
    get_window_tokens,
)
from context_tui.policies.parts.candidates import find_blocks_of_kind, select_block_numbers, slice_between
from context_tui.policies.prefix_sums import PrefixSums
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Body, Context, memoize
from context_tui.session.markers import DEFECT_PLACEHOLDER
from context_tui.session.values import Kind, MessageFlag
from context_tui.tokens.context_index import ToolResults, index_context

CLEARED_BODY = Body.from_text(DEFECT_PLACEHOLDER)
CLEARED_TOKENS = CLEARED_BODY.tokens


class DefectMicrocompactParams(Params):
    """Parameters of defect's microcompact."""

    keep_recent_turns: int = param(DEFAULT_KEPT_TURNS, "turns at the end whose results are kept", "turns", 1, 1_000)
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
    replan_on: ClassVar[int] = MessageFlag.TURN_START

    def believed_size(self, state: RuntimeState) -> Belief | None:
        return build_belief(state)

    def hint(self, context: Context) -> str:
        return explain_few_turns(context)

    def trigger(self, state: RuntimeState, params: DefectMicrocompactParams) -> Trigger:
        threshold = int(params.microcompact_ratio * get_window_tokens(state))
        return check_threshold(state, threshold, format_window_share(state, params.microcompact_ratio))

    def plan(self, context: Context, params: DefectMicrocompactParams, state: RuntimeState) -> Plan:
        sums, trigger = index_context(context), self.trigger(state, params)
        keep, minimum = params.keep_recent_turns, params.min_clear_tokens
        if len(sums.turn_starts) < keep:
            few = {0: "no turn starts in this context", 1: "only one turn"}
            turns = few.get(len(sums.turn_starts), f"only {len(sums.turn_starts):,} turns")
            reason = f"nothing to clear: {turns}, and the last {keep:,} are kept"
            return build_empty_plan(self.name, params, context, trigger, reason)
        end = find_protected_start(context, keep)
        results = sums.results
        numbers = _find_larger_numbers(context, minimum)
        numbers = numbers[: bisect_left(numbers, bisect_left(results.position, end))]
        rows = [results.block[number] for number in numbers]
        saved = sum([results.tokens[number] for number in numbers]) - len(rows) * CLEARED_TOKENS

        def find_keep_reason(position: int, block: int | None) -> KeepReason:
            if position >= end:
                return KeepReason(VerdictCode.RECENT_TURN, f"within the last {keep:,} turns")
            if block is None or context.facts.kind[block] != Kind.TOOL_RESULT:
                return KeepReason(VerdictCode.NOT_A_RESULT, "only tool results are cleared")
            if is_cleared(context, block):
                return KeepReason(VerdictCode.ALREADY_CLEARED, "already cleared")
            return KeepReason(VerdictCode.SMALL, f"{minimum:,} tokens or fewer")

        if not rows:
            every = sums.results.position
            count = bisect_left(every, end)
            none = f"no tool results before the last {keep:,} turns" if every else "no tool results"
            small = f"none of the {count:,} older results is larger than {minimum:,} tokens"
            return Plan(
                self.name,
                params,
                context,
                trigger,
                reason=small if count else none,
                keep_reason=find_keep_reason,
                tokens_saved=0,
            )
        changes = UniformChanges(rows, Change("clear", CLEARED_BODY, self.name))
        report = {"tokens_before": sums.total, "tokens_after": sums.total - saved, "cleared": len(rows)}
        return Plan(
            self.name,
            params,
            context,
            trigger,
            changes,
            report=report,
            keep_reason=find_keep_reason,
            tokens_saved=saved,
        )

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        results, total = find_uncleared_results(context), index_context(context).total
        if name == "min_clear_tokens":
            old = results.tokens[
                : bisect_left(results.position, find_protected_start(context, params.keep_recent_turns))
            ]
            by_size = PrefixSums(old, (size - CLEARED_TOKENS for size in old))
            return [total - by_size.sum_above(value) for value in values]
        if name == "keep_recent_turns":
            saved = [size - CLEARED_TOKENS if size > params.min_clear_tokens else 0 for size in results.tokens]
            by_position = PrefixSums(results.position, saved)
            return [total - by_position.sum_below(find_protected_start(context, value)) for value in values]
        return super().curve(context, params, state, name, values)


def find_protected_start(context: Context, keep: int) -> int:
    """Position at which the last *keep* turns start; 0 where there are fewer, so that nothing is older."""
    starts = index_context(context).turn_starts
    return starts[-keep] if keep <= len(starts) else 0


def is_cleared(context: Context, block: int) -> bool:
    """Whether a tool_result has been cleared before."""
    return context.has_exact_text(block, DEFECT_PLACEHOLDER, in_blocks=False)


def _find_uncleared_numbers(context: Context) -> list[int]:
    """Numbers of the tool_results that have not been cleared before."""
    blocks = find_blocks_of_kind(context, Kind.TOOL_RESULT)

    def choose(numbers: range) -> list[int]:
        return [number for number in numbers if not is_cleared(context, blocks.block[number])]

    return select_block_numbers(index_context(context), is_cleared, blocks, choose)


def _find_larger_numbers(context: Context, minimum: int) -> list[int]:
    """Numbers of those that are larger than so many tokens."""
    uncleared, tokens = _find_uncleared_numbers(context), index_context(context).results.tokens

    def choose(numbers: range) -> list[int]:
        return [each for each in slice_between(uncleared, numbers.start, numbers.stop) if tokens[each] > minimum]

    return select_block_numbers(
        index_context(context), (is_cleared, minimum), find_blocks_of_kind(context, Kind.TOOL_RESULT), choose
    )


@memoize
def find_uncleared_results(context: Context) -> ToolResults:
    """The tool_results that have not been cleared before."""
    results, numbers = index_context(context).results, _find_uncleared_numbers(context)
    return ToolResults(
        *([column[number] for number in numbers] for column in (results.position, results.block, results.tokens))
    )
