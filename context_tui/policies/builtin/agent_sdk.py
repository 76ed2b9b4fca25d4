"""agent-sdk's two policies: truncating long tool results, and replacing old messages with a summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from context_tui.compaction.changes import Change, LazyChanges
from context_tui.compaction.plan import Insert, KeepReason, Plan, SummaryPrompt, Trigger, VerdictCode
from context_tui.policies.base import BasePolicy, Belief, Params, build_empty_plan, param, token_param
from context_tui.policies.block_index import PrefixSums
from context_tui.policies.runtime_state import RuntimeState, format_comparison
from context_tui.session.blocks import HEAD_BYTES, TAIL_BYTES, bytes_to_tokens, compute_boundary_shifts
from context_tui.session.context import Body, Context, memoize
from context_tui.session.jsontext import compact_json, compact_text, utf8_len
from context_tui.session.markers import SDK_SUMMARY, SDK_SUMMARY_END
from context_tui.session.session import Message
from context_tui.session.values import Kind, Role
from context_tui.text.files import read_text
from context_tui.tokens.context_index import index_context

PRUNE_MARKER = "\n\n[...{} chars pruned...]\n\n"
PRUNE_MARKER_BYTES = len(PRUNE_MARKER) - len("{}")


class AgentSdkPruneParams(Params):
    """Parameters of ``agent-sdk-prune``, which set when it prunes and which tool results are long enough."""

    context_budget: int = token_param(160_000, "input tokens allowed for the context", 1)
    threshold_pct: int = param(70, "share of the budget above which it prunes", "%", 0, 100)
    max_chars: int = param(2_000, "results whose compact JSON is longer are truncated", "bytes", 0, 10_000_000)
    preserve_tail: int = param(4, "messages at the end that stay as they are", "messages", 0, 100_000)


class _AgentSdkPolicy(BasePolicy):
    phases: ClassVar[frozenset[str]] = frozenset({"after_tools"})
    runtime: ClassVar[str] = "agent-sdk"

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """Return the size that agent-sdk assumes: the input tokens that the provider reported for the last request."""
        input_tokens = state.reported_input_tokens
        if input_tokens is None or state.recorded_usage is None:
            return Belief(input_tokens, "no recorded usage")
        cached = "" if input_tokens == state.recorded_usage.context else "uncached "
        return Belief(input_tokens, f"{cached}input tokens of the last reply")


def check_input_tokens(state: RuntimeState, threshold: int, limit_text: str) -> Trigger:
    """Decide whether the input tokens that the provider reported for the last request exceed *threshold*.

    Anthropic does not count cached tokens as input tokens, so the reason also states the size including them.
    """
    input_tokens = state.reported_input_tokens
    if state.recorded_usage is None or input_tokens is None:
        return Trigger(False, "no recorded usage, which is all that it looks at", None, threshold, "unknown")
    size = state.recorded_usage.context
    fires = input_tokens > threshold
    value, limit = f"{input_tokens:,} recorded input tokens", f"{threshold:,}"
    reason = format_comparison(value, limit, fires=fires, exclusive=True, explanation=limit_text)
    if input_tokens != size:
        reason += f"; {size:,} with cached tokens, which {'would' if size > threshold else 'would not'} fire"
    return Trigger(fires, reason, input_tokens, threshold, "recorded input tokens of the last reply")


class AgentSdkPrune(_AgentSdkPolicy):
    """Policy that truncates long tool results to their first 500 and last 200 bytes."""

    name: ClassVar[str] = "agent-sdk-prune"
    about: ClassVar[str] = "agent-sdk: truncate long tool results, keeping both ends"
    Params: ClassVar[type[Params]] = AgentSdkPruneParams
    flat_curves: ClassVar[frozenset[str]] = frozenset({"context_budget", "threshold_pct"})

    def trigger(self, state: RuntimeState, params: AgentSdkPruneParams) -> Trigger:
        threshold = params.context_budget * params.threshold_pct // 100
        return check_input_tokens(state, threshold, f"{params.threshold_pct}% of {params.context_budget:,}")

    def plan(self, context: Context, params: AgentSdkPruneParams, state: RuntimeState) -> Plan:
        facts, end, longest = context.facts, len(context) - params.preserve_tail, params.max_chars
        results = find_prunable_results(context)
        lengths = results.json_bytes[: bisect_left(results.position, end)]
        numbers = [number for number, length in enumerate(lengths) if length > longest]
        sizes = {results.block[number]: results.pruned_bytes[number] for number in numbers}
        removed = sum(lengths[number] for number in numbers) - sum(sizes.values())

        def build_change(block: int) -> Change:
            return Change("truncate", Body(None, sizes[block]), self.name, prune_text)

        def find_keep_reason(position: int, block: int | None) -> KeepReason:
            if position >= end:
                return KeepReason(VerdictCode.RECENT_MESSAGE, f"within the last {params.preserve_tail:,} messages")
            if block is None or facts.kind[block] != Kind.TOOL_RESULT:
                return KeepReason(VerdictCode.NOT_A_RESULT, "only tool results are pruned")
            if count_json_bytes(context, block) <= longest:
                return KeepReason(VerdictCode.SMALL, f"{longest:,} bytes or fewer")
            return KeepReason(VerdictCode.NOT_SHORTER, "pruning would not make it shorter")

        return Plan(
            self.name,
            params,
            context,
            self.trigger(state, params),
            LazyChanges(list(sizes), build_change),
            reason="" if sizes else f"nothing to prune: no older result is longer than {longest:,} bytes",
            report={"removed_bytes": removed},
            keep_reason=find_keep_reason,
            tokens_saved=sum(results.saved_tokens[number] for number in numbers),
        )

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        results, total = find_prunable_results(context), index_context(context).total
        if name == "max_chars":
            end = bisect_left(results.position, len(context) - params.preserve_tail)
            by_length = PrefixSums(results.json_bytes[:end], results.saved_tokens[:end])
            return [total - by_length.sum_above(value) for value in values]
        if name == "preserve_tail":
            pairs = zip(results.json_bytes, results.saved_tokens, strict=True)
            saved = [tokens if length > params.max_chars else 0 for length, tokens in pairs]
            by_position = PrefixSums(results.position, saved)
            return [total - by_position.sum_below(len(context) - value) for value in values]
        return super().curve(context, params, state, name, values)


class PrunableResults(NamedTuple):
    """The tool results that pruning would shorten, in prompt order, with sizes before and after and tokens saved."""

    position: Sequence[int]
    block: Sequence[int]
    json_bytes: Sequence[int]
    pruned_bytes: Sequence[int]
    saved_tokens: Sequence[int]


@memoize
def find_prunable_results(context: Context) -> PrunableResults:
    """Return every tool result that pruning would shorten, including the recent ones that it would keep."""
    results, shifts = index_context(context).results, context.facts.boundary_shifts
    rows = []
    for position, block, tokens in zip(results.position, results.block, results.tokens, strict=True):
        body = context.replacements.get(block)
        if body is not None and body.text is None:
            continue  # the text, and so its size as JSON, is known only when the plan is applied
        length = count_json_bytes(context, block)
        size = compute_pruned_size(length, shifts[block] if block not in context.replacements else 0)
        if size is not None:
            rows.append((position, block, length, size, tokens - bytes_to_tokens(size)))
    return PrunableResults(*zip(*rows, strict=True)) if rows else PrunableResults((), (), (), (), ())


def count_json_bytes(context: Context, block: int) -> int:
    """Count the bytes of a tool result's content as compact JSON."""
    body = context.replacements.get(block)
    if body is None:
        return context.facts.json_bytes[block]
    return len(compact_json(body.text)) if body.text is not None else body.size


def compute_pruned_size(length: int, cut: int) -> int | None:
    """Return the size in bytes after pruning, or None if pruning would not make the text shorter."""
    head, tail = _find_cuts(length, cut)
    if tail < head:
        return None
    size = head + PRUNE_MARKER_BYTES + len(str(tail - head)) + length - tail
    return size if size < length else None


def _find_cuts(length: int, shifts: int) -> tuple[int, int]:
    """Return the end of the first kept part and the start of the last kept part of a body of *length* bytes."""
    return HEAD_BYTES - (shifts & 3), length - TAIL_BYTES + (shifts >> 2)


def prune_text(content: Any) -> str:
    """Return the first and last bytes of a tool result's compact JSON, with a marker in place of the middle."""
    encoded = compact_json("" if content is None else content, sort_keys=True)
    head, tail = _find_cuts(len(encoded), compute_boundary_shifts(encoded))
    first, last = (part.decode("utf-8", "surrogatepass") for part in (encoded[:head], encoded[tail:]))
    return first + PRUNE_MARKER.format(tail - head) + last


SUMMARY_SECTIONS = ("Decisions", "Facts & Context", "Paths & Code References", "Tool Outcomes", "Commitments")
"""Headings of an agent-sdk summary, in order."""

MAX_RESULT_BYTES = 500
"""Bytes to which the compact JSON of a tool result is truncated in the transcript."""

MAX_THINKING_BYTES = 200
"""Maximum bytes of thinking in the transcript; longer thinking is omitted."""

_SYSTEM = read_text("context_tui.policies.builtin", "prompts/agent-sdk-system.txt")


class AgentSdkCompactParams(Params):
    """Parameters of ``agent-sdk-compact``, which set when it compacts, what it keeps and how long a summary may be."""

    context_budget: int = token_param(160_000, "input tokens above which it compacts", 1)
    min_keep: int = param(4, "messages kept at the end", "messages", 1, 100_000)
    summary_max_tokens: int = token_param(4_096, "most tokens that the summary may have", 1, 100_000)


class AgentSdkCompact(_AgentSdkPolicy):
    """Policy that summarises all but the last messages without separating a tool call from its result."""

    name: ClassVar[str] = "agent-sdk-compact"
    about: ClassVar[str] = "agent-sdk: summarise all but the last messages"
    Params: ClassVar[type[Params]] = AgentSdkCompactParams
    flat_curves: ClassVar[frozenset[str]] = frozenset({"context_budget", "summary_max_tokens"})

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
    """Return the position of the first message to keep, or 0; as in agent-sdk, ids of calls are not compared."""
    if len(context) <= min_keep:
        return 0
    facts, order = context.facts, context.order
    at = len(context) - min_keep
    while (
        at > 0
        and facts.role[order[at]] == Role.USER
        and context.has_kind(order[at], Kind.TOOL_RESULT)
        and facts.role[order[at - 1]] == Role.ASSISTANT
        and context.has_kind(order[at - 1], Kind.TOOL_USE)
    ):
        at -= 1
    return at


def build_summary_request(old_messages: list[Message], previous: str | None) -> list[Message]:
    """Build the user message that asks for a summary, with a transcript of the old messages and any earlier summary."""
    return [{"role": "user", "content": f"The conversation to condense:\n\n{format_transcript(old_messages)}"}]


def format_transcript(messages: list[Message]) -> str:
    """Format messages as agent-sdk does for its summarizer: full text under each role, and other blocks abridged."""
    roles = ("Assistant" if message.get("role") == "assistant" else "User" for message in messages)
    texts = ("\n".join(_abridge_content(message.get("content"))) for message in messages)
    return "\n\n".join(f"{role}:\n{text}" for role, text in zip(roles, texts, strict=True))


def _abridge_content(content: Any) -> Iterator[str]:
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
                yield f"Tool call: {block.get('name', '')} {compact_text(block.get('input'), sort_keys=True)}"
            case {"type": "tool_result"}:
                label = "Tool error" if block.get("is_error") else "Tool result"
                yield f"{label}: {_truncate_bytes(compact_text(block.get('content', ''), sort_keys=True))}"
            case {"type": "image"}:
                yield "[image]"


def _truncate_bytes(text: str) -> str:
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
