"""koda's microcompact (system 5 of the seed systems): clear aged tool results after an idle time."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from context_tui.compaction.plan import Change, Plan, Trigger
from context_tui.policies.base import LoopCurve, Params, nothing, param
from context_tui.policies.moment import Moment
from context_tui.session.context import Body, Context
from context_tui.session.facts import BlockFlag, Kind
from context_tui.session.markers import KODA_COMPACTABLE, KODA_STUB
from context_tui.tokens.measured import measured


def _split(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


class KodaMicrocompactParams(Params):
    """Parameters of koda's microcompact."""

    gap_seconds: int = param(300, "idle time since the last assistant message at which it acts", "seconds", 0, 604_800)
    keep_recent: int = param(5, "eligible results at the end that are kept", "results", 0, 10_000)
    min_tokens: int = param(50, "a smaller result is not eligible (by bytes / 3.5)", "tokens", 0, 1_000_000)
    compactable_tools: Annotated[tuple[str, ...], BeforeValidator(_split)] = param(
        KODA_COMPACTABLE, "tools whose results may be cleared; case counts", "tools"
    )


def result_tokens(context: Context, block: int) -> int:
    """Tokens of a tool_result's text as koda counts them: bytes / 3.5, floored."""
    body = context.replaced.get(block)
    return (body.size if body else context.facts.text_bytes[block]) * 2 // 7


def row_count(context: Context) -> int:
    """Rows that the context has as koda stores it: one a tool_result, one for the rest of a message."""
    facts, result = context.facts, int(Kind.TOOL_RESULT)
    rows = facts.system_rows if context.epoch_start == 0 else 0  # a compaction archives them first
    for message in context.order:
        rest = facts.first_block[message] < 0
        for block in facts.blocks_of(message):
            if facts.kind[block] == result:
                rows += 1
            else:
                rest = True
        rows += rest
    return rows


class KodaMicrocompact(LoopCurve):
    """Clear all but the newest results of re-runnable tools, once the session has been idle."""

    name: ClassVar[str] = "koda-microcompact"
    about: ClassVar[str] = "koda: clear aged results of re-runnable tools after an idle time"
    phases: ClassVar[frozenset[str]] = frozenset({"user_turn"})
    Params: ClassVar[type[Params]] = KodaMicrocompactParams

    def trigger(self, moment: Moment, params: KodaMicrocompactParams) -> Trigger:
        gap = params.gap_seconds
        if not moment.has_assistant:
            return Trigger(False, "no assistant message yet", None, gap, "recorded times")
        if moment.at_end:
            return Trigger(True, "the end of the recording counts as idle", None, gap, "end of the recording")
        if moment.idle_seconds is None:
            return Trigger(
                False, "the file does not say how long it idled (idle_seconds sets it)", None, gap, "unknown"
            )
        idle = int(moment.idle_seconds)
        says = "has reached" if idle >= gap else "is below"
        return Trigger(idle >= gap, f"idle {idle:,} s {says} {gap:,} s", idle, gap, "recorded times")

    def plan(self, context: Context, params: KodaMicrocompactParams, moment: Moment) -> Plan:
        trigger = self.trigger(moment, params)
        if not trigger.fires and not moment.forced:
            return nothing(self.name, params, context, trigger, f"nothing to clear: {trigger.reason}")
        sums = measured(context)
        tools, facts = frozenset(params.compactable_tools), context.facts
        candidates = [
            block
            for block in sums.results.block
            if sums.tool_of_call.get(facts.call[block], "") in tools
            and result_tokens(context, block) >= params.min_tokens
            and not context.is_text(block, KODA_STUB, BlockFlag.KODA_CLEARED)
        ]
        rows = row_count(context)
        enough = rows >= params.keep_recent + 2
        cleared = candidates[: max(0, len(candidates) - params.keep_recent)] if enough else []
        recent = frozenset(candidates[len(cleared) :])

        def kept(position: int, block: int | None) -> str:
            if block is None or facts.kind[block] != Kind.TOOL_RESULT:
                return "kept: only tool results are cleared"
            if not enough:
                return f"kept: fewer than {params.keep_recent + 2} rows"
            if block in recent:
                return f"kept: within the last {params.keep_recent} eligible results"
            tool = sums.tool_of_call.get(facts.call[block], "")
            if tool not in tools:
                return f"kept: {tool or 'its call is not here, so its tool'} is not compactable"
            if context.is_text(block, KODA_STUB, BlockFlag.KODA_CLEARED):
                return "kept: cleared before"
            return f"kept: fewer than {params.min_tokens:,} tokens"

        if not cleared:
            few = f"{len(candidates)} eligible results, and the last {params.keep_recent} are kept"
            reason = f"nothing to clear: {few if enough else f'only {rows} rows'}"
            return Plan(self.name, params, context, trigger, reason=reason, kept=kept)
        change = Change("clear", Body.of(KODA_STUB), self.name)
        report = {"cleared": len(cleared), "tokens_saved": sum(result_tokens(context, block) for block in cleared)}
        return Plan(self.name, params, context, trigger, dict.fromkeys(cleared, change), report=report, kept=kept)
