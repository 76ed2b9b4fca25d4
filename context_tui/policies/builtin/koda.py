"""koda's policy: clearing older tool results once the session has been idle."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, compress, islice
from typing import Any, ClassVar, NamedTuple

from context_tui.compaction.changes import Change, UniformChanges
from context_tui.compaction.plan import KeepReason, Plan, Trigger, VerdictCode
from context_tui.policies.base import BasePolicy, Params, build_empty_plan, param
from context_tui.policies.block_index import PrefixSums
from context_tui.policies.runtime_state import RuntimeState, check_idle
from context_tui.session.context import Body, Context, find_removed_blocks, memoize
from context_tui.session.markers import RESULT_STUB
from context_tui.session.values import Kind
from context_tui.tokens.breakdown import RERUNNABLE_TOOLS
from context_tui.tokens.context_index import index_context, memoize_by_messages
from context_tui.tokens.estimators import bytes_to_tokens35

STUB_BODY = Body.from_text(RESULT_STUB)
ESTIMATOR = "bytes/3.5"


class KodaMicrocompactParams(Params):
    """Parameters of ``koda-microcompact``, which set the idle time and which tool results are kept."""

    gap_seconds: int = param(300, "idle time since the last assistant message at which it acts", "seconds", 0, 604_800)
    keep_recent: int = param(5, "eligible results at the end that are kept", "results", 0, 10_000)
    min_tokens: int = param(50, "a result is eligible from this size on (by bytes / 3.5)", "tokens", 0, 1_000_000)
    compactable_tools: tuple[str, ...] = param(
        RERUNNABLE_TOOLS, "tools whose results may be cleared (case-sensitive)", "tools", refers_to="tools"
    )


def count_result_tokens(context: Context, block: int) -> int:
    """Estimate the tokens of a tool result as koda does: its bytes divided by 3.5, rounded down."""
    body = context.replacements.get(block)
    return bytes_to_tokens35(body.size if body else context.facts.text_bytes[block])


@memoize_by_messages
def count_rows(context: Context) -> int:
    """Count the rows that the context takes in koda's database.

    Each tool result is one row, and the other blocks of a message are one row together.
    """
    facts, result, removed = context.facts, int(Kind.TOOL_RESULT), find_removed_blocks(context)
    rows = facts.system_records if context.epoch_start == 0 else 0  # a compaction archives system records
    for message in context.order:
        count = results = 0
        for block in facts.blocks_of(message):
            if block not in removed:
                count += 1
                results += facts.kind[block] == result
        rows += results + (results < count or not count)
    return rows


class ClearableResults(NamedTuple):
    """The tool results that koda could clear, in prompt order, with their tools, sizes and saved tokens."""

    block: Sequence[int]
    tool: Sequence[str]
    tokens: Sequence[int]
    saved_tokens: Sequence[int]


@memoize
def find_clearable_results(context: Context) -> ClearableResults:
    """Return all tool results that koda has not cleared yet, whatever their tool and size."""
    index, call = index_context(context), context.facts.call
    rows = [
        (block, index.tool_of_call.get(call[block], ""), count_result_tokens(context, block), tokens - STUB_BODY.tokens)
        for block, tokens in zip(index.results.block, index.results.tokens, strict=True)
        if not is_cleared(context, block)
    ]
    return ClearableResults(*zip(*rows, strict=True)) if rows else ClearableResults((), (), (), ())


@memoize
def _group_sizes_by_tool(context: Context) -> dict[str, list[int]]:
    results, by_tool = find_clearable_results(context), dict[str, list[int]]()
    for tool, tokens in zip(results.tool, results.tokens, strict=True):
        by_tool.setdefault(tool, []).append(tokens)
    return {tool: sorted(sizes) for tool, sizes in by_tool.items()}


def is_cleared(context: Context, block: int) -> bool:
    """Return whether a tool result is already replaced by koda's placeholder."""
    return context.has_exact_text(block, RESULT_STUB, in_blocks=True)


class KodaMicrocompact(BasePolicy):
    """Policy that clears all but the newest results of re-runnable tools once the session has been idle."""

    name: ClassVar[str] = "koda-microcompact"
    about: ClassVar[str] = "koda: clear old results of re-runnable tools once idle"
    phases: ClassVar[frozenset[str]] = frozenset({"user_turn"})
    Params: ClassVar[type[Params]] = KodaMicrocompactParams
    runtime: ClassVar[str] = "koda"
    needs_trigger: ClassVar[bool] = True

    def trigger(self, state: RuntimeState, params: KodaMicrocompactParams) -> Trigger:
        return check_idle(state, params.gap_seconds, hint="; set it with idle_seconds")

    def plan(self, context: Context, params: KodaMicrocompactParams, state: RuntimeState) -> Plan:
        trigger = self.trigger(state, params)
        if not trigger.fires and not state.forced:
            return build_empty_plan(self.name, params, context, trigger, f"nothing to clear: {trigger.reason}")
        results = find_clearable_results(context)
        tools = frozenset(params.compactable_tools)
        minimum = params.min_tokens
        pairs = enumerate(zip(results.tool, results.tokens, strict=True))
        candidates = [number for number, (tool, tokens) in pairs if tokens >= minimum and tool in tools]
        row_count, keep_count = count_rows(context), params.keep_recent
        has_enough_rows = row_count >= keep_count + 2
        cleared_numbers = candidates[: max(0, len(candidates) - keep_count)] if has_enough_rows else []
        recent = frozenset(results.block[number] for number in candidates[len(cleared_numbers) :])

        def find_keep_reason(position: int, block: int | None) -> KeepReason:
            if block is None or context.facts.kind[block] != Kind.TOOL_RESULT:
                return KeepReason(VerdictCode.NOT_A_RESULT, "only tool results are cleared")
            if not has_enough_rows:
                return KeepReason(VerdictCode.NOTHING_TO_DO, f"fewer than {keep_count + 2:,} rows")
            if block in recent:
                return KeepReason(VerdictCode.RECENT_RESULT, f"within the last {keep_count:,} eligible results")
            tool = index_context(context).tool_of_call.get(context.facts.call[block], "")
            if tool not in tools:
                explanation = f"{tool} is not compactable" if tool else "its call is missing, so its tool is unknown"
                return KeepReason(VerdictCode.NOT_COMPACTABLE, explanation)
            if is_cleared(context, block):
                return KeepReason(VerdictCode.ALREADY_CLEARED, "already cleared")
            return KeepReason(VerdictCode.SMALL, f"fewer than {minimum:,} tokens")

        make_plan = partial(Plan, self.name, params, context, trigger, keep_reason=find_keep_reason)
        if not cleared_numbers:
            count_text = "1 eligible result" if len(candidates) == 1 else f"{len(candidates):,} eligible results"
            too_few = f"{count_text}, and the last {keep_count:,} are kept"
            reason = f"nothing to clear: {too_few if has_enough_rows else f'only {row_count:,} rows'}"
            return make_plan(reason=reason, tokens_saved=0)
        rows = [results.block[number] for number in cleared_numbers]
        changes = UniformChanges(rows, Change("clear", STUB_BODY, self.name))
        report = {"cleared": len(rows), "tokens_saved": sum(results.tokens[number] for number in cleared_numbers)}
        saved = sum(results.saved_tokens[number] for number in cleared_numbers)
        freed_tokens = report["tokens_saved"] - len(rows) * bytes_to_tokens35(STUB_BODY.size)
        return make_plan(changes, report=report, tokens_saved=saved, estimator=ESTIMATOR, tokens_freed=freed_tokens)

    def slider_max(self, name: str, params: Any, context: Context) -> int | None:
        """Return a value above the largest clearable result or, for ``keep_recent``, the number of large results."""
        if name not in ("keep_recent", "min_tokens"):
            return None
        sizes = _group_sizes_by_tool(context)
        tool_sizes = [sizes[tool] for tool in set(params.compactable_tools) if tool in sizes]
        if name == "min_tokens":
            return max((ascending[-1] for ascending in tool_sizes), default=0) + 1
        return sum(len(ascending) - bisect_left(ascending, params.min_tokens) for ascending in tool_sizes)

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        total, is_active = index_context(context).total, state.forced or self.trigger(state, params).fires
        if name == "gap_seconds":
            tokens_after = self.plan(context, params, replace(state, forced=True)).tokens_after
            settings = (params.model_copy(update={name: value}) for value in values)
            firing = (state.forced or self.trigger(state, setting).fires for setting in settings)
            return [tokens_after if fires else total for fires in firing]
        if name not in ("keep_recent", "min_tokens"):
            return super().curve(context, params, state, name, values)
        if not is_active:
            return [total] * len(values)
        results, rows, keep = find_clearable_results(context), count_rows(context), params.keep_recent
        tools = frozenset(params.compactable_tools)
        of_tools = [tool in tools for tool in results.tool]
        sizes, amounts = list(compress(results.tokens, of_tools)), list(compress(results.saved_tokens, of_tools))
        if name == "keep_recent":
            eligible = [saved for size, saved in zip(sizes, amounts, strict=True) if size >= params.min_tokens]
            sums = list(accumulate(eligible, initial=0))
            return [total - sums[max(0, len(eligible) - value)] * (rows >= value + 2) for value in values]
        if rows < keep + 2:
            return [total] * len(values)
        by_size = PrefixSums(sizes, amounts)
        after = []
        for value in values:
            newest = (saved for size, saved in zip(reversed(sizes), reversed(amounts), strict=True) if size >= value)
            after.append(total - by_size.sum_above(value - 1) + sum(islice(newest, keep)))  # sizes are whole numbers
        return after
