"""agent-sdk's compaction (system 7 of the seed systems): a summary in place of all but the last messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from context_tui.compaction.plan import Insert, Plan, Trigger
from context_tui.compaction.prompt import SummaryPrompt
from context_tui.compaction.verdicts import KeepReason, VerdictCode
from context_tui.policies.agent_sdk_prune import build_belief, check_input_tokens
from context_tui.policies.base import BasePolicy, Belief, Params, build_empty_plan, param
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import compact_text, utf8_len
from context_tui.session.markers import SDK_SUMMARY, SDK_SUMMARY_END
from context_tui.session.session import Message
from context_tui.session.values import Kind, Role

SUMMARY_SECTIONS = (
    "Decisions",
    "Facts & Context",
    "Paths & Code References",
    "Tool Outcomes",
    "Commitments",
)
"""Headings of an agent-sdk summary, in order."""

MAX_RESULT_BYTES = 500
"""A tool result longer than this many bytes of compact JSON is cut."""

MAX_THINKING_BYTES = 200
"""Thinking longer than this many bytes is left out."""

_SYSTEM = """\
You condense the older part of a conversation between a person and an agent, so that the agent can go on without it. \
Write a structured summary with one section for each of these, in this order:

{headings}

Decisions are what was settled and why; facts and context are what the agent must know; name files, paths, functions \
and other code references exactly; say what each tool call that mattered brought to light or changed; commitments are \
what was promised or is still to be done. Summarise only what is there, leave no section out, and do not continue the \
conversation."""


class AgentSdkCompactParams(Params):
    """Parameters of agent-sdk's compaction."""

    context_budget: int = param(
        160_000, "input tokens above which it compacts", "tokens", 1, 10_000_000, of_window=True
    )
    min_keep: int = param(4, "messages kept at the end", "messages", 1, 100_000)
    summary_max_tokens: int = param(
        4_096, "most tokens that the summary may have", "tokens", 1, 100_000, of_window=True
    )


class AgentSdkCompact(BasePolicy):
    """Summarise all but the last messages, without splitting a call from its result."""

    name: ClassVar[str] = "agent-sdk-compact"
    about: ClassVar[str] = "agent-sdk: summarise all but the last messages"
    phases: ClassVar[frozenset[str]] = frozenset({"after_tools"})
    Params: ClassVar[type[Params]] = AgentSdkCompactParams
    runtime: ClassVar[str] = "agent-sdk"
    flat_curves: ClassVar[frozenset[str]] = frozenset({"context_budget", "summary_max_tokens"})

    def believed_size(self, state: RuntimeState) -> Belief | None:
        return build_belief(state)

    def trigger(self, state: RuntimeState, params: AgentSdkCompactParams) -> Trigger:
        return check_input_tokens(state, params.context_budget, "the budget")

    def plan(self, context: Context, params: AgentSdkCompactParams, state: RuntimeState) -> Plan:
        trigger, cut = self.trigger(state, params), find_split(context, params.min_keep)
        if cut == 0:
            reason = f"nothing to summarise: {len(context):,} messages, and the last {params.min_keep:,} are kept"
            if len(context) > params.min_keep:
                reason += " with the calls that belong to them"
            return build_empty_plan(self.name, params, context, trigger, reason)
        protected_start = len(context) - params.min_keep

        def find_keep_reason(position: int, block: int | None) -> KeepReason:
            if position < protected_start:
                return KeepReason(VerdictCode.PAIR, "the call of a kept result")
            return KeepReason(VerdictCode.RECENT_MESSAGE, f"within the last {params.min_keep:,} messages")

        return Plan(
            self.name,
            params,
            context,
            trigger,
            dropped_ranges=(range(cut),),
            inserts=(Insert("user", 0, SDK_SUMMARY, SDK_SUMMARY_END),),
            keep_reason=find_keep_reason,
            prompt=replace(SUMMARY_PROMPT, max_tokens=params.summary_max_tokens),
        )


def find_split(context: Context, min_keep: int) -> int:
    """Position of the first kept message; 0 where there is nothing to do. Ids need not match."""
    if len(context) <= min_keep:
        return 0
    facts, order = context.facts, context.order
    at = len(context) - min_keep
    while (
        at > 0
        and facts.role[order[at]] == Role.USER
        and _has_kind(facts, order[at], Kind.TOOL_RESULT)
        and facts.role[order[at - 1]] == Role.ASSISTANT
        and _has_kind(facts, order[at - 1], Kind.TOOL_USE)
    ):
        at -= 1
    return at


def _has_kind(facts: Facts, message: int, kind: Kind) -> bool:
    return any(facts.kind[block] == kind for block in facts.blocks_of(message))


def build_summary_request(old_messages: list[Message], previous: str | None) -> list[Message]:
    """The old messages as one user message of plain text; an earlier summary is one of them."""
    return [{"role": "user", "content": f"The conversation to condense:\n\n{format_transcript(old_messages)}"}]


def format_transcript(messages: list[Message]) -> str:
    """The messages as agent-sdk hands them to its summarizer: text under each role, everything else abridged."""
    parts = []
    for message in messages:
        role = "Assistant" if message.get("role") == "assistant" else "User"
        said = "\n".join(_abridge_content(message.get("content")))
        parts.append(f"{role}:\n{said}")
    return "\n\n".join(parts)


def _abridge_content(content: Any) -> Iterator[str]:
    """The lines that stand for one message's content."""
    if isinstance(content, str):
        yield content
        return
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "thinking", "thinking": str(text)} if text and utf8_len(text) <= MAX_THINKING_BYTES:
                yield f"({text})"
            case {"type": "tool_use"}:
                yield f"Tool call: {block.get('name', '')} {_encode_json(block.get('input'))}"
            case {"type": "tool_result"}:
                label = "Tool error" if block.get("is_error") else "Tool result"
                yield f"{label}: {_truncate_bytes(_encode_json(block.get('content', '')))}"
            case {"type": "image"}:
                yield "[image]"


def _encode_json(value: Any) -> str:
    """agent-sdk's compact JSON: object keys are sorted."""
    return compact_text(value, sort_keys=True)


def _truncate_bytes(text: str) -> str:
    """At most ``MAX_RESULT_BYTES`` bytes, back to the start of a character, and ``...`` when something is missing."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_RESULT_BYTES:
        return text
    end = MAX_RESULT_BYTES
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass") + "..."


SUMMARY_PROMPT = SummaryPrompt(
    _SYSTEM.format(headings="\n".join(f"## {name}" for name in SUMMARY_SECTIONS)),
    build_summary_request,
    sections=SUMMARY_SECTIONS,
    max_tokens=4_096,
    sends_messages=False,
    retries_with_session_model=True,
)
