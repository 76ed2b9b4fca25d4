"""defect's full compaction (system 4 of the seed systems): a summary in place of all but the last turns."""

from __future__ import annotations

from typing import Any, ClassVar

from context_tui.compaction.plan import Insert, Plan, Trigger
from context_tui.policies.base import LoopCurve, Params, believed_trigger, nothing, param
from context_tui.policies.defect_microcompact import share_of_window, window_tokens
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Context, once_for_messages
from context_tui.session.facts import Kind, is_block_list
from context_tui.session.jsontext import compact_json
from context_tui.session.markers import DEFECT_SUMMARY
from context_tui.tokens.measured import Measured, measured

RESULT_LIMIT = 2_000
"""Characters of a tool result that the summarizer is sent (bytes, for the JSON test)."""
TRUNCATED = "\n…[truncated for summary]"
IMAGE_OMITTED = "[image omitted from summary]"


class DefectCompactParams(Params):
    """Parameters of defect's full compaction."""

    threshold: int | None = param(
        None, "tokens at which it compacts; default: the ratio below", "tokens", 0, 10_000_000
    )
    assistant_boundary: bool = param(False, "also cut a long single turn, at an assistant message", "")
    compact_ratio: float = param(0.85, "share of the window at which it compacts", "of window", 0.01, 1.0)
    compact_soft_ratio: float = param(0.70, "share at which it starts to in the background", "of window", 0.01, 1.0)


def tail_budget(threshold: int) -> int:
    """Tokens that the kept tail may have: a quarter of the threshold, within 2,000 and 8,000."""
    return min(max(threshold // 4, 2_000), 8_000)


class DefectCompact(LoopCurve):
    """Summarise everything before the last turns that fit a tail budget."""

    name: ClassVar[str] = "defect-compact"
    about: ClassVar[str] = "defect: a model's summary in place of all but the last turns"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = DefectCompactParams
    trigger_only: ClassVar[frozenset[str]] = frozenset({"compact_soft_ratio"})

    def hard(self, state: RuntimeState, params: DefectCompactParams) -> int:
        """Tokens at which it must compact."""
        return params.threshold if params.threshold is not None else int(params.compact_ratio * window_tokens(state))

    def trigger(self, state: RuntimeState, params: DefectCompactParams) -> Trigger:
        window, hard = window_tokens(state), self.hard(state, params)
        soft = int(params.compact_soft_ratio * window)
        if state.believed >= hard or hard <= soft:
            absolute = params.threshold is not None
            what = "the threshold" if absolute else share_of_window(state, params.compact_ratio)
            return believed_trigger(state, hard, what)
        what = f"{share_of_window(state, params.compact_soft_ratio)} (in the background)"
        return believed_trigger(state, soft, what)

    def plan(self, context: Context, params: DefectCompactParams, state: RuntimeState) -> Plan:
        sums, trigger = measured(context), self.trigger(state, params)
        budget = tail_budget(self.hard(state, params))
        starts = sums.turn_starts
        by_assistant = params.assistant_boundary and (not starts or starts[-1] == 0)
        if by_assistant:
            starts = [position for position in sums.assistants if position > 0]
        cut = boundary(sums, starts, budget)
        if cut == 0:
            what = "no turn starts here" if not starts else "the only turn starts at the first message"
            reason = f"nothing to summarise: {what}"
            if not params.assistant_boundary:
                reason += " (assistant_boundary would cut within it)"
            return nothing(self.name, params, context, trigger, reason)
        over = sums.total - sums.prefix[cut] > budget
        why = f"the newest turn, though over {budget:,} tokens" if over else f"in the tail of at most {budget:,} tokens"
        return Plan(
            self.name,
            params,
            context,
            trigger,
            cut=cut,
            insert=Insert("assistant", DEFECT_SUMMARY + "\n"),
            kept=lambda position, block: f"kept: {why}",
            prepare=prepare_head,
            previous=previous_summary(context, cut),
        )


def boundary(sums: Measured, starts: list[int], budget: int) -> int:
    """Position of the first kept message, or 0: whole turns from the newest back, while they fit the budget."""
    if not starts or starts[-1] == 0:
        return 0
    found, end = 0, len(sums.tokens)
    for start in reversed(starts):
        if sums.prefix[end] - sums.prefix[start] > budget or start == 0:
            break
        found = start
    return found or starts[-1]


def previous_summary(context: Context, cut: int) -> int:
    """Row of the first assistant text in the head that starts with the summary prefix, or -1."""
    position, block = _first_summary(context)
    return block if position < cut else -1


@once_for_messages
def _first_summary(context: Context) -> tuple[int, int]:
    """Position and row of the first assistant text of the context that starts with the summary prefix, or -1."""
    facts = context.facts
    for position in measured(context).assistants:
        for block in facts.blocks_of(context.order[position]):
            if facts.kind[block] == Kind.TEXT and facts.begins(block, DEFECT_SUMMARY):
                return position, block
    return -1, -1


def prepare_head(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The head as it is sent to the summarizer: long results cut, images named (before pair repair)."""
    return [{**message, "content": [_prepare(block) for block in message["content"]]} for message in messages]


def _prepare(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image":
        return {"type": "text", "text": IMAGE_OMITTED}
    if block.get("type") != "tool_result":
        return block
    body = block.get("content")
    if body is None:
        body = ""
    if is_block_list(body):
        body = "".join(_part(part) for part in body if isinstance(part, dict))
    elif not isinstance(body, str):
        encoded = compact_json(body)
        if len(encoded) <= RESULT_LIMIT:
            return block
        body = encoded.decode("utf-8", "surrogatepass")
    return {**block, "content": body if len(body) <= RESULT_LIMIT else body[:RESULT_LIMIT] + TRUNCATED}


def _part(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return str(part.get("text") or "")
    source = part.get("source")
    media_type = source.get("media_type") if isinstance(source, dict) else None
    return f"\n[image: {media_type or 'image'}]"
