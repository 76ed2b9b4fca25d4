"""defect's full compaction (system 4 of the seed systems): a summary in place of all but the last turns."""

from __future__ import annotations

from typing import Any, ClassVar

from context_tui.compaction.plan import Insert, Plan, Trigger
from context_tui.compaction.prompt import SummaryPrompt
from context_tui.compaction.verdicts import KeepReason, VerdictCode
from context_tui.policies.base import BasePolicy, Belief, Params, build_empty_plan, param
from context_tui.policies.defect import (
    build_belief,
    check_threshold,
    explain_few_turns,
    format_window_share,
    get_window_tokens,
)
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.blocks import is_block_list
from context_tui.session.context import Context
from context_tui.session.jsontext import compact_json
from context_tui.session.markers import DEFECT_SUMMARY
from context_tui.session.session import Message
from context_tui.session.values import Kind
from context_tui.tokens.context_index import ContextIndex, index_context, memoize_by_messages

MAX_RESULT_CHARS = 2_000
"""Characters of a tool result that the summarizer is sent (bytes, for the JSON test)."""
TRUNCATION_MARKER = "\n…[truncated for summary]"
IMAGE_OMITTED = "[image omitted from summary]"
SUMMARY_INSERT = Insert("assistant", 0, DEFECT_SUMMARY + "\n")
"""The summary in place of the head."""

SUMMARY_SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Key Context",
    "Relevant Files",
)
"""Headings of a full compaction, in order."""

_SUBHEADINGS = {"Progress": ("### Done", "### In Progress", "### Blocked")}

# No bracketed placeholders anywhere: small models copy them instead of filling them in.
_SYSTEM = """\
You write the notes that take the place of the older part of a conversation between a person and a coding agent. \
The agent will go on with your notes and the newest messages, and with nothing else.

- Summarise only what the conversation holds. Add nothing, guess nothing; what was planned is not what was done.
- If the conversation holds an earlier summary, merge it into yours: what still holds is kept, what is outdated goes.
- Keep every section, even one with nothing in it: write "(none)" there.
- Keep file paths, identifiers, commands and error messages exactly as they stand.
- Write terse bullet points.
- Do not continue the task, answer no question of the conversation, and call no tool.
- Write in the language the person and the agent speak."""

_NEW_SUMMARY_TASK = "Write the summary of the conversation above."
_UPDATE_SUMMARY_TASK = """\
An earlier part of this conversation was summarised before. Update that summary with what happened since: keep what \
still holds, change what has changed, move finished work from In Progress to Done, and drop what no longer matters."""

_SUMMARY_FORM = """\
Use exactly these headings, in this order, and write nothing before or after them:

{headings}"""


class DefectCompactParams(Params):
    """Parameters of defect's full compaction."""

    threshold: int | None = param(
        None, "tokens at which it compacts; default: by compact_ratio", "tokens", 0, 10_000_000, of_window=True
    )
    assistant_boundary: bool = param(False, "also cut a long single turn, at an assistant message", "")
    compact_ratio: float = param(0.85, "share of the window at which it compacts", "of window", 0.01, 1.0)
    compact_soft_ratio: float = param(0.70, "share at which it starts in the background", "of window", 0.01, 1.0)


def compute_tail_budget(threshold: int) -> int:
    """Tokens that the kept tail may have: a quarter of the threshold, within 2,000 and 8,000."""
    return min(max(threshold // 4, 2_000), 8_000)


class DefectCompact(BasePolicy):
    """Summarise everything before the last turns that fit a tail budget."""

    name: ClassVar[str] = "defect-compact"
    about: ClassVar[str] = "defect: summarise all but the last turns"
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    Params: ClassVar[type[Params]] = DefectCompactParams
    runtime: ClassVar[str] = "defect"
    flat_curves: ClassVar[frozenset[str]] = frozenset({"compact_soft_ratio"})

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        """A threshold that is not set is the share of the window."""
        unset = params.model_copy(update={"threshold": None})
        return self.compute_hard_limit(state, unset) if name == "threshold" else None

    def believed_size(self, state: RuntimeState) -> Belief | None:
        return build_belief(state)

    def hint(self, context: Context) -> str:
        return explain_few_turns(context)

    def compute_hard_limit(self, state: RuntimeState, params: DefectCompactParams) -> int:
        """Tokens at which it must compact."""
        return (
            params.threshold if params.threshold is not None else int(params.compact_ratio * get_window_tokens(state))
        )

    def runs_in_background(self, state: RuntimeState, params: DefectCompactParams) -> bool:
        """From the soft share of the window on, and below the hard one."""
        return (
            int(params.compact_soft_ratio * get_window_tokens(state))
            <= state.believed_tokens
            < self.compute_hard_limit(state, params)
        )

    def trigger(self, state: RuntimeState, params: DefectCompactParams) -> Trigger:
        window, hard = get_window_tokens(state), self.compute_hard_limit(state, params)
        soft = int(params.compact_soft_ratio * window)
        if state.believed_tokens >= hard or hard <= soft:
            absolute = params.threshold is not None
            what = "the threshold" if absolute else format_window_share(state, params.compact_ratio)
            return check_threshold(state, hard, what)
        what = f"{format_window_share(state, params.compact_soft_ratio)} (in the background)"
        return check_threshold(state, soft, what)

    def plan(self, context: Context, params: DefectCompactParams, state: RuntimeState) -> Plan:
        sums, trigger = index_context(context), self.trigger(state, params)
        budget = compute_tail_budget(self.compute_hard_limit(state, params))
        starts = sums.turn_starts
        by_assistant = params.assistant_boundary and (not starts or starts[-1] == 0)
        if by_assistant:
            starts = [position for position in sums.assistants if position > 0]
        cut = find_boundary(sums, starts, budget)
        if cut == 0:
            what = "no turn starts in this context" if not starts else "the only turn starts at the first message"
            reason = f"nothing to summarise: {what}"
            if not params.assistant_boundary:
                reason += " (assistant_boundary would cut within it)"
            return build_empty_plan(self.name, params, context, trigger, reason)
        over = sums.total - sums.prefix[cut] > budget
        tail = KeepReason(VerdictCode.TAIL, f"in the tail of at most {budget:,} tokens")
        why = KeepReason(VerdictCode.NEWEST_TURN, f"the newest turn, though over {budget:,} tokens") if over else tail
        return Plan(
            self.name,
            params,
            context,
            trigger,
            dropped_ranges=(range(cut),),
            inserts=(SUMMARY_INSERT,),
            keep_reason=lambda position, block: why,
            prompt=SUMMARY_PROMPT,
            previous_summary_row=find_earlier_summary_row(context, cut),
        )


def find_boundary(sums: ContextIndex, starts: list[int], budget: int) -> int:
    """Position of the first kept message, or 0: whole turns from the newest back, while they fit the budget."""
    if not starts or starts[-1] == 0:
        return 0
    found, end = 0, len(sums.tokens)
    for start in reversed(starts):
        if sums.prefix[end] - sums.prefix[start] > budget or start == 0:
            break
        found = start
    return found or starts[-1]


def find_earlier_summary_row(context: Context, cut: int) -> int:
    """Row of the first assistant text in the head that starts with the summary prefix, or -1."""
    position, block = _find_first_summary(context)
    return block if position < cut else -1


@memoize_by_messages
def _find_first_summary(context: Context) -> tuple[int, int]:
    """Position and row of the first assistant text of the context that starts with the summary prefix, or -1."""
    facts = context.facts
    for position in index_context(context).assistants:
        for block in context.blocks_of(context.order[position]):
            if facts.kind[block] == Kind.TEXT and facts.starts_with(block, DEFECT_SUMMARY):
                return position, block
    return -1, -1


def prepare_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The head as it is sent to the summarizer: long results cut, images named (before pair repair)."""
    return [{**message, "content": [_prepare_block(block) for block in message["content"]]} for message in messages]


def _prepare_block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image":
        return {"type": "text", "text": IMAGE_OMITTED}
    if block.get("type") != "tool_result":
        return block
    body = block.get("content")
    if body is None:
        body = ""
    if is_block_list(body):
        body = "".join(_format_part(part) for part in body)
    elif not isinstance(body, str):
        encoded = compact_json(body)
        if len(encoded) <= MAX_RESULT_CHARS:
            return block
        body = encoded.decode("utf-8", "surrogatepass")
    return {**block, "content": body if len(body) <= MAX_RESULT_CHARS else body[:MAX_RESULT_CHARS] + TRUNCATION_MARKER}


def _format_part(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return str(part.get("text") or "")
    source = part.get("source")
    media_type = source.get("media_type") if isinstance(source, dict) else None
    return f"\n[image: {media_type or 'image'}]"


def build_summary_request(head: list[Message], previous: str | None) -> list[Message]:
    """The head, and one more user message that asks for its summary, or to update the one that it holds."""
    task = (
        _NEW_SUMMARY_TASK
        if previous is None
        else f"{_UPDATE_SUMMARY_TASK}\n\n<previous-summary>\n{previous}\n</previous-summary>"
    )
    headings = "\n".join(line for name in SUMMARY_SECTIONS for line in (f"## {name}", *_SUBHEADINGS.get(name, ())))
    text = f"{task}\n\n{_SUMMARY_FORM.format(headings=headings)}"
    return [*head, {"role": "user", "content": [{"type": "text", "text": text}]}]


SUMMARY_PROMPT = SummaryPrompt(_SYSTEM, build_summary_request, prepare_messages, SUMMARY_SECTIONS)
