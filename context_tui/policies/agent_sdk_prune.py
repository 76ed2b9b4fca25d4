"""agent-sdk's pruning (system 6 of the seed systems): cut the middle out of long tool results."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from context_tui.compaction.changes import Change, LazyChanges
from context_tui.compaction.plan import Plan, Trigger
from context_tui.compaction.verdicts import KeepReason, VerdictCode
from context_tui.policies.base import BasePolicy, Belief, Params, param
from context_tui.policies.prefix_sums import PrefixSums
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.blocks import CUT_HEAD, CUT_TAIL, bytes_to_tokens, compute_cut_shifts
from context_tui.session.context import Body, Context, memoize
from context_tui.session.jsontext import compact_json
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context

PRUNE_MARKER = "\n\n[...{} chars pruned...]\n\n"
PRUNE_MARKER_BYTES = len(PRUNE_MARKER) - len("{}")


class AgentSdkPruneParams(Params):
    """Parameters of agent-sdk's pruning."""

    context_budget: int = param(
        160_000, "input tokens allowed for the context", "tokens", 1, 10_000_000, of_window=True
    )
    threshold_pct: int = param(70, "share of the budget above which it prunes", "%", 0, 100)
    max_chars: int = param(2_000, "results whose compact JSON is longer are truncated", "bytes", 0, 10_000_000)
    preserve_tail: int = param(4, "messages at the end that stay as they are", "messages", 0, 100_000)


def check_input_tokens(state: RuntimeState, threshold: int, what: str) -> Trigger:
    """Fires above *threshold*, by the input tokens of the last reply as agent-sdk reads them.

    At Anthropic these leave out cached tokens, so the reason names the real size too.
    """
    read = state.reported_input_tokens
    if state.recorded_usage is None or read is None:
        return Trigger(False, "no recorded usage, which is all that it looks at", None, threshold, "unknown")
    real = state.recorded_usage.context
    fires = read > threshold
    reason = f"recorded input tokens {read:,}, {'above' if fires else 'not above'} {what} = {threshold:,}"
    if read != real:
        reason += f"; {real:,} with cached tokens, which {'would' if real > threshold else 'would not'} fire"
    return Trigger(fires, reason, read, threshold, "recorded input tokens of the last reply")


def build_belief(state: RuntimeState) -> Belief:
    """agent-sdk believes the input tokens of the last reply."""
    read = state.reported_input_tokens
    if read is None or state.recorded_usage is None:
        return Belief(read, "no recorded usage")
    cached = "" if read == state.recorded_usage.context else "uncached "
    return Belief(read, f"{cached}input tokens of the last reply")


class AgentSdkPrune(BasePolicy):
    """Cut long tool results to their first 500 and last 200 bytes."""

    name: ClassVar[str] = "agent-sdk-prune"
    about: ClassVar[str] = "agent-sdk: truncate long tool results, keeping both ends"
    phases: ClassVar[frozenset[str]] = frozenset({"after_tools"})
    Params: ClassVar[type[Params]] = AgentSdkPruneParams
    runtime: ClassVar[str] = "agent-sdk"
    flat_curves: ClassVar[frozenset[str]] = frozenset({"context_budget", "threshold_pct"})

    def believed_size(self, state: RuntimeState) -> Belief | None:
        return build_belief(state)

    def trigger(self, state: RuntimeState, params: AgentSdkPruneParams) -> Trigger:
        threshold = params.context_budget * params.threshold_pct // 100
        what = f"{params.threshold_pct}% of {params.context_budget:,}"
        return check_input_tokens(state, threshold, what)

    def plan(self, context: Context, params: AgentSdkPruneParams, state: RuntimeState) -> Plan:
        facts, end, longest = context.facts, len(context) - params.preserve_tail, params.max_chars
        found = find_prunable_results(context)
        lengths = found.json_bytes[: bisect_left(found.position, end)]
        chosen = [number for number, length in enumerate(lengths) if length > longest]
        sizes = {found.block[number]: found.pruned_bytes[number] for number in chosen}
        removed = sum(lengths[number] for number in chosen) - sum(sizes.values())

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
            tokens_saved=sum(found.saved_tokens[number] for number in chosen),
        )

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        found, total = find_prunable_results(context), index_context(context).total
        if name == "max_chars":
            old = bisect_left(found.position, len(context) - params.preserve_tail)
            by_length = PrefixSums(found.json_bytes[:old], found.saved_tokens[:old])
            return [total - by_length.sum_above(value) for value in values]
        if name == "preserve_tail":
            saved = [
                saved if length > params.max_chars else 0
                for length, saved in zip(found.json_bytes, found.saved_tokens, strict=True)
            ]
            by_position = PrefixSums(found.position, saved)
            return [total - by_position.sum_below(len(context) - value) for value in values]
        return super().curve(context, params, state, name, values)


@dataclass(frozen=True)
class PrunableResults:
    """The tool_results that pruning makes shorter, in prompt order: bytes before and after, and tokens it saves."""

    position: Sequence[int]
    block: Sequence[int]
    json_bytes: Sequence[int]
    pruned_bytes: Sequence[int]
    saved_tokens: Sequence[int]


@memoize
def find_prunable_results(context: Context) -> PrunableResults:
    """Every tool_result that pruning would make shorter, however long results may be."""
    results, cuts = index_context(context).results, context.facts.cut
    found = []
    for position, block, tokens in zip(results.position, results.block, results.tokens, strict=True):
        body = context.replacements.get(block)
        if body is not None and body.text is None:
            continue  # its text is made when it is carried out: nobody knows yet what it takes as JSON
        length = count_json_bytes(context, block)
        size = compute_pruned_size(length, cuts[block] if block not in context.replacements else 0)
        if size is not None:
            found.append((position, block, length, size, tokens - bytes_to_tokens(size)))
    return PrunableResults(*zip(*found, strict=True)) if found else PrunableResults((), (), (), (), ())


def count_json_bytes(context: Context, block: int) -> int:
    """Bytes of a tool_result's body as compact JSON."""
    body = context.replacements.get(block)
    if body is None:
        return context.facts.json_bytes[block]
    return len(compact_json(body.text)) if body.text is not None else body.size


def compute_pruned_size(length: int, cut: int) -> int | None:
    """Bytes of the pruned text, or None where it is not made: the cuts would overlap, or it would not be shorter."""
    head, tail = _find_cuts(length, cut)
    if tail < head:
        return None
    size = head + PRUNE_MARKER_BYTES + len(str(tail - head)) + length - tail
    return size if size < length else None


def _find_cuts(length: int, shifts: int) -> tuple[int, int]:
    """Where a body of *length* bytes is cut: the end of what is kept of its start, and the start of its end."""
    return CUT_HEAD - (shifts & 3), length - CUT_TAIL + (shifts >> 2)


def prune_text(content: Any) -> str:
    """The pruned body of a tool_result: its compact JSON with the middle cut out, both cuts at character boundaries."""
    encoded = compact_json("" if content is None else content, sort_keys=True)
    head, tail = _find_cuts(len(encoded), compute_cut_shifts(encoded))
    first, last = (part.decode("utf-8", "surrogatepass") for part in (encoded[:head], encoded[tail:]))
    return first + PRUNE_MARKER.format(tail - head) + last
