"""agent-sdk's compaction (system 7 of the seed systems): a summary in place of all but the last messages."""

from __future__ import annotations

from typing import ClassVar

from context_tui.compaction.plan import Insert, Plan, Trigger
from context_tui.policies.agent_sdk_prune import sdk_trigger
from context_tui.policies.base import LoopCurve, Params, nothing, param
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.session.facts import Facts, Kind, Role
from context_tui.session.markers import SDK_SUMMARY, SDK_SUMMARY_END


class AgentSdkCompactParams(Params):
    """Parameters of agent-sdk's compaction."""

    context_budget: int = param(160_000, "input tokens above which it compacts", "tokens", 1, 10_000_000)
    min_keep: int = param(4, "messages at the end that are kept", "messages", 1, 100_000)
    summary_max_tokens: int = param(4_096, "tokens that the summary may have", "tokens", 1, 100_000)


class AgentSdkCompact(LoopCurve):
    """Summarise all but the last messages, without splitting a call from its result."""

    name: ClassVar[str] = "agent-sdk-compact"
    about: ClassVar[str] = "agent-sdk: a model's summary in place of all but the last messages"
    phases: ClassVar[frozenset[str]] = frozenset({"after_tools"})
    Params: ClassVar[type[Params]] = AgentSdkCompactParams
    trigger_only: ClassVar[frozenset[str]] = frozenset({"context_budget", "summary_max_tokens"})

    def trigger(self, state: RuntimeState, params: AgentSdkCompactParams) -> Trigger:
        return sdk_trigger(state, params.context_budget, "the budget")

    def plan(self, context: Context, params: AgentSdkCompactParams, state: RuntimeState) -> Plan:
        trigger, cut = self.trigger(state, params), split(context, params.min_keep)
        if cut == 0:
            reason = f"nothing to summarise: {len(context)} messages, and {params.min_keep} are kept"
            if len(context) > params.min_keep:
                reason += " with the calls that belong to them"
            return nothing(self.name, params, context, trigger, reason)
        late = len(context) - params.min_keep

        def kept(position: int, block: int | None) -> str:
            if position < late:
                return "kept: the call of a kept result"
            return f"kept: within the last {params.min_keep} messages"

        insert = Insert("user", SDK_SUMMARY, SDK_SUMMARY_END)
        return Plan(self.name, params, context, trigger, cut=cut, insert=insert, kept=kept)


def split(context: Context, min_keep: int) -> int:
    """Position of the first kept message; 0 where there is nothing to do. Ids need not match."""
    if len(context) <= min_keep:
        return 0
    facts, order = context.facts, context.order
    at = len(context) - min_keep
    while (
        at > 0
        and facts.role[order[at]] == Role.USER
        and _has(facts, order[at], Kind.TOOL_RESULT)
        and facts.role[order[at - 1]] == Role.ASSISTANT
        and _has(facts, order[at - 1], Kind.TOOL_USE)
    ):
        at -= 1
    return at


def _has(facts: Facts, message: int, kind: Kind) -> bool:
    return any(facts.kind[block] == kind for block in facts.blocks_of(message))
