"""defect's two policies: clearing large tool results, and replacing old turns with a summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from context_tui.compaction.changes import Change, UniformChanges
from context_tui.compaction.plan import Insert, KeepReason, Plan, SummaryPrompt, Trigger, VerdictCode, prepare_messages
from context_tui.policies.base import (
    BasePolicy,
    Belief,
    ClearingRule,
    Params,
    build_empty_plan,
    explain_few_turns,
    param,
    token_param,
)
from context_tui.policies.block_index import PrefixSums, find_blocks_of_kind, select_block_numbers, slice_between
from context_tui.policies.runtime_state import ASSUMED_WINDOW_NOTE, RuntimeState, format_comparison
from context_tui.session.context import Body, Context, memoize
from context_tui.session.markers import DEFECT_PLACEHOLDER, DEFECT_SUMMARY
from context_tui.session.session import Message
from context_tui.session.values import Kind, MessageFlag
from context_tui.text.files import read_text
from context_tui.tokens.context_index import ContextIndex, ToolResults, index_context, memoize_by_messages

DEFAULT_KEPT_TURNS = 3
"""Default number of turns at the end in which nothing is cleared."""
ASSUMED_WINDOW = 128_000
"""Window in tokens that defect assumes if the actual window is unknown."""


def get_window_tokens(state: RuntimeState) -> int:
    """Return the size of the context window in tokens, or the size that defect assumes if it is unknown."""
    return state.window.tokens if state.window.is_known else ASSUMED_WINDOW


def format_window_share(state: RuntimeState, ratio: float) -> str:
    """Format a share of the context window, noting when the window's size is the one that defect assumes."""
    fallback = "" if state.window.is_known else ASSUMED_WINDOW_NOTE
    return f"{ratio:.0%} of {get_window_tokens(state):,}{fallback}"


def check_threshold(state: RuntimeState, threshold: int, explanation: str) -> Trigger:
    """Decide whether the context size that defect assumes reaches *threshold* tokens."""
    fires = state.believed_tokens >= threshold
    source = "estimated: nothing is recorded in this context"
    if state.context_rewritten:
        source = "estimated: what was recorded is forgotten when something is cleared"
    elif state.recorded_usage:
        source = "last recorded + estimate since then"
    value, limit = f"{state.believed_tokens:,} tokens", f"{threshold:,}"
    reason = format_comparison(value, limit, fires=fires, explanation=explanation)
    return Trigger(fires, reason, state.believed_tokens, threshold, source)


class _DefectPolicy(BasePolicy):
    phases: ClassVar[frozenset[str]] = frozenset({"before_call"})
    runtime: ClassVar[str] = "defect"

    def believed_size(self, state: RuntimeState) -> Belief | None:
        """Return the size that defect assumes: the last recorded size plus an estimate of later messages."""
        recorded = state.recorded_usage is not None
        unrecorded = "an estimate, as nothing was recorded before it"
        return Belief(state.believed_tokens, "last recorded + estimate" if recorded else unrecorded)

    def hint(self, context: Context) -> str:
        """Return advice if the context has fewer turns than defect keeps by default, or an empty string."""
        turns = len(index_context(context).turn_starts)
        if turns >= DEFAULT_KEPT_TURNS:
            return ""
        turns_text = "A single turn" if turns == 1 else f"{turns} turns"
        rule_text = f"defect-microcompact keeps the last {DEFAULT_KEPT_TURNS} by default (keep_recent_turns)"
        return f"{turns_text} here: {rule_text}; assistant_boundary lets defect-compact cut within one"


CLEARED_BODY = Body.from_text(DEFECT_PLACEHOLDER)
CLEARED_TOKENS = CLEARED_BODY.tokens


class DefectMicrocompactParams(Params):
    """Parameters of ``defect-microcompact``, which set when it clears and which tool results it keeps."""

    keep_recent_turns: int = param(DEFAULT_KEPT_TURNS, "turns at the end whose results are kept", "turns", 1, 1_000)
    min_clear_tokens: int = param(512, "a result is cleared when it is larger than this", "tokens", 0, 1_000_000)
    microcompact_ratio: float = param(0.60, "share of the window at which it acts", "of window", 0.01, 1.0)


class DefectMicrocompact(_DefectPolicy):
    """Policy that clears tool results above a minimum size in all but the last turns."""

    name: ClassVar[str] = "defect-microcompact"
    about: ClassVar[str] = "defect: clear big tool results of all but the last turns"
    Params: ClassVar[type[Params]] = DefectMicrocompactParams
    flat_curves: ClassVar[frozenset[str]] = frozenset({"microcompact_ratio"})
    replan_on: ClassVar[int] = MessageFlag.TURN_START

    def trigger(self, state: RuntimeState, params: DefectMicrocompactParams) -> Trigger:
        threshold = int(params.microcompact_ratio * get_window_tokens(state))
        return check_threshold(state, threshold, format_window_share(state, params.microcompact_ratio))

    def clearing_rule(self, params: DefectMicrocompactParams) -> ClearingRule:
        """Return the policy as a rule, from which a sweep computes many settings at once."""
        keep, minimum, share = params.keep_recent_turns, params.min_clear_tokens, params.microcompact_ratio
        return ClearingRule(keep, minimum, share, ASSUMED_WINDOW, DEFECT_PLACEHOLDER)

    def plan(self, context: Context, params: DefectMicrocompactParams, state: RuntimeState) -> Plan:
        sums, trigger = index_context(context), self.trigger(state, params)
        keep, minimum = params.keep_recent_turns, params.min_clear_tokens
        if len(sums.turn_starts) < keep:
            reason = f"nothing to clear: {explain_few_turns(len(sums.turn_starts), keep)}"
            return build_empty_plan(self.name, params, context, trigger, reason)
        end = find_protected_start(context, keep)
        results = sums.results
        older_count = bisect_left(results.position, end)
        numbers = _find_larger_numbers(context, minimum)
        numbers = numbers[: bisect_left(numbers, older_count)]
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

        make_plan = partial(Plan, self.name, params, context, trigger, keep_reason=find_keep_reason)
        if not rows:
            no_results = f"no tool results before the last {keep:,} turns" if results.position else "no tool results"
            too_small = f"none of the {older_count:,} older results is larger than {minimum:,} tokens"
            return make_plan(reason=too_small if older_count else no_results, tokens_saved=0)
        changes = UniformChanges(rows, Change("clear", CLEARED_BODY, self.name))
        report = {"tokens_before": sums.total, "tokens_after": sums.total - saved, "cleared": len(rows)}
        return make_plan(changes, report=report, tokens_saved=saved)

    def curve(self, context: Context, params: Any, state: RuntimeState, name: str, values: Sequence[Any]) -> list[int]:
        results, total = find_uncleared_results(context), index_context(context).total
        if name == "min_clear_tokens":
            protected_start = find_protected_start(context, params.keep_recent_turns)
            older_sizes = results.tokens[: bisect_left(results.position, protected_start)]
            by_size = PrefixSums(older_sizes, (size - CLEARED_TOKENS for size in older_sizes))
            return [total - by_size.sum_above(value) for value in values]
        if name == "keep_recent_turns":
            saved = [size - CLEARED_TOKENS if size > params.min_clear_tokens else 0 for size in results.tokens]
            by_position = PrefixSums(results.position, saved)
            return [total - by_position.sum_below(find_protected_start(context, value)) for value in values]
        return super().curve(context, params, state, name, values)


def find_protected_start(context: Context, keep: int) -> int:
    """Return the position where the last *keep* turns start, or 0 if the context has fewer turns."""
    starts = index_context(context).turn_starts
    return starts[-keep] if keep <= len(starts) else 0


def is_cleared(context: Context, block: int) -> bool:
    """Return whether a tool result is already replaced by defect's placeholder."""
    return context.has_exact_text(block, DEFECT_PLACEHOLDER, in_blocks=False)


def _find_uncleared_numbers(context: Context) -> list[int]:
    blocks = find_blocks_of_kind(context, Kind.TOOL_RESULT)

    def choose(numbers: range) -> list[int]:
        return [number for number in numbers if not is_cleared(context, blocks.block[number])]

    return select_block_numbers(index_context(context), is_cleared, blocks, choose)


def _find_larger_numbers(context: Context, minimum: int) -> list[int]:
    uncleared, tokens = _find_uncleared_numbers(context), index_context(context).results.tokens

    def choose(numbers: range) -> list[int]:
        candidates = slice_between(uncleared, numbers.start, numbers.stop)
        return [number for number in candidates if tokens[number] > minimum]

    index, blocks = index_context(context), find_blocks_of_kind(context, Kind.TOOL_RESULT)
    return select_block_numbers(index, (is_cleared, minimum), blocks, choose)


@memoize
def find_uncleared_results(context: Context) -> ToolResults:
    """Return the tool results that are not yet replaced by defect's placeholder."""
    results, numbers = index_context(context).results, _find_uncleared_numbers(context)
    columns = (results.position, results.block, results.tokens)
    return ToolResults(*([column[number] for number in numbers] for column in columns))


SUMMARY_INSERT = Insert("assistant", 0, DEFECT_SUMMARY + "\n")
"""Insert of the summary in place of the dropped messages."""

SUMMARY_SECTIONS = (
    *("Goal", "Constraints & Preferences", "Progress", "Key Decisions"),
    *("Next Steps", "Key Context", "Relevant Files"),
)
"""Headings of a full compaction, in order."""

_SUBHEADINGS = {"Progress": ("### Done", "### In Progress", "### Blocked")}

# No bracketed placeholders anywhere: small models copy them instead of filling them in.
_SYSTEM, _UPDATE_SUMMARY_TASK, _SUMMARY_FORM = (
    read_text("context_tui.policies.builtin", f"prompts/defect-{name}.txt") for name in ("system", "update", "form")
)
_NEW_SUMMARY_TASK = "Write the summary of the conversation above."


class DefectCompactParams(Params):
    """Parameters of ``defect-compact``, which set when it compacts and where it may cut."""

    threshold: int | None = token_param(None, "tokens at which it compacts; default: by compact_ratio")
    assistant_boundary: bool = param(False, "also cut a long single turn, at an assistant message", "")
    compact_ratio: float = param(0.85, "share of the window at which it compacts", "of window", 0.01, 1.0)
    compact_soft_ratio: float = param(0.70, "share at which it starts in the background", "of window", 0.01, 1.0)


def compute_tail_budget(threshold: int) -> int:
    """Return how many tokens to keep at the end: a quarter of the threshold, but between 2,000 and 8,000."""
    return min(max(threshold // 4, 2_000), 8_000)


class DefectCompact(_DefectPolicy):
    """Policy that summarises everything before the last turns that fit in a token budget."""

    name: ClassVar[str] = "defect-compact"
    about: ClassVar[str] = "defect: summarise all but the last turns"
    Params: ClassVar[type[Params]] = DefectCompactParams
    flat_curves: ClassVar[frozenset[str]] = frozenset({"compact_soft_ratio"})

    def implied_value(self, name: str, params: Any, context: Context, state: RuntimeState) -> int | None:
        unset = params.model_copy(update={"threshold": None})
        return self.compute_hard_limit(state, unset) if name == "threshold" else None

    def compute_hard_limit(self, state: RuntimeState, params: DefectCompactParams) -> int:
        """Return the size in tokens at which defect compacts at once instead of in the background."""
        by_ratio = int(params.compact_ratio * get_window_tokens(state))
        return by_ratio if params.threshold is None else params.threshold

    def runs_in_background(self, state: RuntimeState, params: DefectCompactParams) -> bool:
        soft_limit = int(params.compact_soft_ratio * get_window_tokens(state))
        return soft_limit <= state.believed_tokens < self.compute_hard_limit(state, params)

    def trigger(self, state: RuntimeState, params: DefectCompactParams) -> Trigger:
        window, hard_limit = get_window_tokens(state), self.compute_hard_limit(state, params)
        soft_limit = int(params.compact_soft_ratio * window)
        if state.believed_tokens >= hard_limit or hard_limit <= soft_limit:
            absolute = params.threshold is not None
            explanation = "the threshold" if absolute else format_window_share(state, params.compact_ratio)
            return check_threshold(state, hard_limit, explanation)
        explanation = f"{format_window_share(state, params.compact_soft_ratio)} (in the background)"
        return check_threshold(state, soft_limit, explanation)

    def plan(self, context: Context, params: DefectCompactParams, state: RuntimeState) -> Plan:
        sums, trigger = index_context(context), self.trigger(state, params)
        budget = compute_tail_budget(self.compute_hard_limit(state, params))
        starts = sums.turn_starts
        if params.assistant_boundary and (not starts or starts[-1] == 0):
            starts = [position for position in sums.assistants if position > 0]
        cut = find_boundary(sums, starts, budget)
        if cut == 0:
            cause = "no turn starts in this context" if not starts else "the only turn starts at the first message"
            reason = f"nothing to summarise: {cause}"
            if not params.assistant_boundary:
                reason += " (assistant_boundary would cut within it)"
            return build_empty_plan(self.name, params, context, trigger, reason)
        keep_reason = KeepReason(VerdictCode.TAIL, f"in the tail of at most {budget:,} tokens")
        if sums.total - sums.prefix[cut] > budget:
            keep_reason = KeepReason(VerdictCode.NEWEST_TURN, f"the newest turn, though over {budget:,} tokens")
        return Plan(
            self.name,
            params,
            context,
            trigger,
            dropped_ranges=(range(cut),),
            inserts=(SUMMARY_INSERT,),
            keep_reason=lambda position, block: keep_reason,
            prompt=SUMMARY_PROMPT,
            previous_summary_row=find_earlier_summary_row(context, cut),
        )


def find_boundary(index: ContextIndex, starts: list[int], budget: int) -> int:
    """Return the position of the first message to keep, or 0 if there is nothing to summarise.

    This is the start of the oldest turn that fits in the budget, or of the newest turn if none fits.
    """
    if not starts or starts[-1] == 0:
        return 0
    boundary = 0
    for start in reversed(starts):
        if index.total - index.prefix[start] > budget or start == 0:
            break
        boundary = start
    return boundary or starts[-1]


def find_earlier_summary_row(context: Context, cut: int) -> int:
    """Return the row of the last summary block before the cut, or -1 if there is none."""
    position, block = _find_first_summary(context)
    return block if position < cut else -1


@memoize_by_messages
def _find_first_summary(context: Context) -> tuple[int, int]:
    facts = context.facts
    for position in index_context(context).assistants:
        for block in context.blocks_of(context.order[position]):
            if facts.kind[block] == Kind.TEXT and facts.starts_with(block, DEFECT_SUMMARY):
                return position, block
    return -1, -1


def build_summary_request(head: list[Message], previous: str | None) -> list[Message]:
    """Append a user message to *head* that asks for a new summary or, given *previous*, for an update of it."""
    task = _NEW_SUMMARY_TASK
    if previous is not None:
        task = f"{_UPDATE_SUMMARY_TASK}\n\n<previous-summary>\n{previous}\n</previous-summary>"
    headings = "\n".join(line for name in SUMMARY_SECTIONS for line in (f"## {name}", *_SUBHEADINGS.get(name, ())))
    text = f"{task}\n\n{_SUMMARY_FORM.format(headings=headings)}"
    return [*head, {"role": "user", "content": [{"type": "text", "text": text}]}]


SUMMARY_PROMPT = SummaryPrompt(_SYSTEM, build_summary_request, prepare_messages, SUMMARY_SECTIONS)
