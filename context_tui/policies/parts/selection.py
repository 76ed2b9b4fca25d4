"""Selection of the blocks that a rule changes, by kind, tool, size, age and position."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple

from context_tui.compaction.plan import KeepReason, KeepReasonFinder, VerdictCode
from context_tui.policies.base import param, token_param
from context_tui.policies.block_index import BlockColumns, find_blocks_of_kind, select_block_numbers, slice_between
from context_tui.policies.parts.part import Part
from context_tui.policies.parts.protection import Keep, ProtectedEnd, SizeLimits
from context_tui.session.context import Context
from context_tui.session.facts import Facts
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import START_LENGTH
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import count_block_tokens, count_result_by_characters

BodyKind = Literal["results", "inputs", "thinking"]
"""Kind of body: tool results, inputs of calls, or thinking."""

_BLOCK_KINDS = {"results": Kind.TOOL_RESULT, "inputs": Kind.TOOL_USE, "thinking": Kind.THINKING}
BODY_KIND_LABELS = {"results": "tool results", "inputs": "inputs of calls", "thinking": "thinking"}
LINE_COUNT_PLACEHOLDER, MAX_LINE_COUNT_DIGITS = "{lines}", 4
"""Placeholder in a marker for the number of removed lines, and the maximum digits of that number."""
EMPTY_INPUT_BYTES = 2


class Select(Part):
    """Conditions that select among the unprotected blocks; without any, all of them are selected.

    Only ``tools`` are selected, or all but ``except_tools``. ``larger_than`` and ``at_least`` are in tokens
    (``bytes/4``), ``longer_than`` in bytes, ``older_than`` in seconds before the newest message. With ``stop_at``, only
    blocks after the last summary or cleared block are selected; with ``until``, only enough of the oldest to free that
    many tokens. With ``paired``, a result whose call is missing is kept.
    """

    tools: tuple[str, ...] = param(
        (), "tools whose results may be cleared (case-sensitive)", "tools", refers_to="tools"
    )
    except_tools: tuple[str, ...] = param(
        (), "tools whose results are never cleared (case-sensitive)", "tools", refers_to="tools"
    )
    larger_than: int | None = param(None, "only content larger than this", "tokens", 0, 1_000_000)
    at_least: int | None = param(None, "only content at least as large as this", "tokens", 0, 1_000_000)
    longer_than: int | None = param(None, "only content longer than this", "bytes", 0, 10_000_000)
    older_than: int | None = param(None, "only content older than this", "seconds", 0, 604_800)
    until: int | None = token_param(None, "stop when this much is cleared; 0: clear all")
    stop_at: tuple[Literal["summary", "cleared"], ...] = ()
    paired: bool = False


class BlockSelection(NamedTuple):
    """The blocks that a rule changes, in prompt order: their rows, their tokens, and the sum by the rule's own count.

    ``has_older`` states whether any block precedes the protected end.
    """

    rows: list[int]
    tokens: list[int]
    sum_by_rule: int
    has_older: bool
    keep_reason: KeepReasonFinder


def is_already_cleared(context: Context, row: int, body_kind: BodyKind, marker: str) -> bool:
    """Return whether a block equals the marker, or has the marker's size if the block's text is not stored."""
    if (body := context.replacements.get(row)) is not None:
        if body.source or body.removed:
            return True
        if body_kind == "inputs":
            return body.text == "{}"
        return body.text == marker if body.text is not None else body.size == count_marker_bytes(marker)
    if body_kind != "results":
        return body_kind == "inputs" and context.facts.text_bytes[row] <= EMPTY_INPUT_BYTES
    if marker.startswith("[") and len(marker) <= START_LENGTH and LINE_COUNT_PLACEHOLDER not in marker:
        return context.facts.bracket_starts.get(row) == marker
    difference = context.facts.text_bytes[row] - count_marker_bytes(marker)
    return -1 <= difference <= MAX_LINE_COUNT_DIGITS - 2 if LINE_COUNT_PLACEHOLDER in marker else difference == 0


@lru_cache(maxsize=64)
def count_marker_bytes(marker: str) -> int:
    """Return the marker's size in bytes, counting a placeholder for the number of lines as two digits."""
    return utf8_len(marker.replace(LINE_COUNT_PLACEHOLDER, "00"))


@dataclass(frozen=True)
class BlockSelector:
    """Selector of the blocks that a rule changes in a context.

    With ``longer_than``, only blocks whose text is known and longer than this, in bytes, are selected.
    """

    context: Context
    rule: Select
    keep: Keep
    body_kind: BodyKind
    marker: str
    limits: SizeLimits
    marker_tokens: int = 0
    longer_than: int | None = None

    @property  # not kept: a replay would hold the columns for each of its firings
    def blocks(self) -> BlockColumns:
        """All blocks of the kind that the rule changes."""
        return find_blocks_of_kind(self.context, _BLOCK_KINDS[self.body_kind])

    def select(self) -> BlockSelection:
        """Select the blocks that the rule changes; those that an earlier call rejected are not examined again."""
        rule, keep, blocks, limits = self.rule, self.keep, self.blocks, self.limits
        end = keep.find_protected_start(self.context, limits)
        high = bisect_left(blocks.position, end)
        low = self._find_walk_stop(high)
        first = max(bisect_left(blocks.position, keep.first), low) if keep.first else low
        chosen = self._filter_by_age_and_pairing(slice_between(self._find_candidates(None), first, high))
        count_tokens = self._build_token_counter(by_character=limits.size.by_character)
        excess_count = len(chosen)
        if keep.result_tokens is not None:
            excess_count = _count_beyond_budget(chosen, count_tokens, keep.result_tokens)
        if keep.results is not None and keep.count == "eligible":
            chosen = chosen[: _count_cleared(len(chosen), keep)]
        elif keep.results is not None:
            chosen = slice_between(chosen, 0, _count_cleared(len(blocks.block), keep))
        chosen = chosen[:excess_count]
        enough = False
        if rule.until:
            count = _count_until_freed(chosen, count_tokens, rule.until, self.marker_tokens)
            chosen, enough = chosen[:count], count < len(chosen)
        if self.longer_than is not None and chosen:
            longer = slice_between(self._find_candidates(self.longer_than), chosen[0], chosen[-1] + 1)
            chosen = self._filter_by_age_and_pairing(longer)
        older = bool(blocks.position) and blocks.position[0] < end
        sizes = [*map(self._build_token_counter(), chosen)]
        sum_by_rule = sum(map(count_tokens, chosen) if limits.size.by_character else sizes)
        rows = [blocks.block[number] for number in chosen]
        return BlockSelection(rows, sizes, sum_by_rule, older, KeepReasons(self, low, enough))

    def _find_candidates(self, longer_than: int | None) -> list[int]:
        unmarked, rule = self._find_by_marker(is_cleared=False), self.rule
        limits = rule.tools, rule.except_tools, rule.larger_than, rule.at_least, rule.longer_than, longer_than
        if limits == _NO_LIMITS:
            return unmarked

        def choose(numbers: range) -> list[int]:
            candidates = slice_between(unmarked, numbers.start, numbers.stop)
            return self._filter_by_tool_and_size(candidates, longer_than)

        key = ("fitting", self.body_kind, self.marker, *limits)
        return select_block_numbers(index_context(self.context), key, self.blocks, choose)

    def _find_by_marker(self, *, is_cleared: bool) -> list[int]:
        """Return the numbers of the blocks that are already cleared or, without *is_cleared*, of all others."""
        context, block, body_kind, marker = self.context, self.blocks.block, self.body_kind, self.marker

        def choose(numbers: range) -> list[int]:
            return [n for n in numbers if is_already_cleared(context, block[n], body_kind, marker) == is_cleared]

        return select_block_numbers(index_context(context), (is_cleared, body_kind, marker), self.blocks, choose)

    def _filter_by_tool_and_size(self, chosen: list[int], longer_than: int | None) -> list[int]:
        facts, replaced, block, rule = self.context.facts, self.context.replacements, self.blocks.block, self.rule
        if rule.tools:
            only = _find_tool_rows(facts, rule.tools)
            chosen = [number for number in chosen if facts.tool[block[number]] in only]
        if rule.except_tools:
            excluded_rows = _find_tool_rows(facts, rule.except_tools)
            chosen = [number for number in chosen if facts.tool[block[number]] not in excluded_rows]
        if rule.larger_than is not None or rule.at_least is not None:
            least = max(rule.at_least or 0, -1 if rule.larger_than is None else rule.larger_than + 1)
            count_tokens = self._build_token_counter()
            chosen = [number for number in chosen if count_tokens(number) >= least]
        if rule.longer_than is not None or longer_than is not None:
            max_bytes, text = max(rule.longer_than or 0, longer_than or 0), facts.text_bytes
            sizes = [(body.size if (body := replaced.get(block[number])) else text[block[number]]) for number in chosen]
            chosen = [number for number, size in zip(chosen, sizes, strict=True) if size > max_bytes]
        if longer_than is not None:
            bodies = [replaced.get(block[number]) for number in chosen]
            chosen = [n for n, body in zip(chosen, bodies, strict=True) if body is None or body.text is not None]
        return chosen

    def _filter_by_age_and_pairing(self, chosen: list[int]) -> list[int]:
        context, block, rule = self.context, self.blocks.block, self.rule
        if rule.older_than is not None:
            chosen = [number for number in chosen if _is_old(context, rule.older_than, block[number])]
        if rule.paired:
            calls = index_context(context).tool_of_call
            chosen = [number for number in chosen if context.facts.call[block[number]] in calls]
        return chosen

    def _build_token_counter(self, *, by_character: bool = False) -> Callable[[int], int]:
        context, block = self.context, self.blocks.block
        if self.body_kind != "results":
            return lambda number: count_block_tokens(context, block[number])
        if by_character:
            return lambda number: count_result_by_characters(context.facts, block[number])
        return index_context(context).results.tokens.__getitem__

    def _find_walk_stop(self, high: int) -> int:
        """Return the number of the oldest block before *high* that ``stop_at`` allows, or 0 without a stop."""
        low = 0
        if "summary" in self.rule.stop_at and (summaries := index_context(self.context).summaries):
            low = min(bisect_left(self.blocks.position, summaries[-1] + 1), high)
        if "cleared" in self.rule.stop_at:
            cleared = self._find_by_marker(is_cleared=True)
            cleared_count = bisect_left(cleared, high)
            low = max(low, cleared[cleared_count - 1] + 1) if cleared_count else low
        return low


_NO_LIMITS = ((), (), None, None, None, None)


def _find_tool_rows(facts: Facts, tools: Sequence[str]) -> frozenset[int]:
    return frozenset(row for row, name in enumerate(facts.tools) if name in tools)


def _is_old(context: Context, seconds: int, block: int) -> bool:
    time = context.facts.time
    return 0 <= time[context.facts.block_message[block]] < time[context.order[-1]] - seconds * 1_000


@dataclass
class KeepReasons:
    """Function object that explains why a rule leaves a block unchanged; its lookups are built on demand."""

    selector: BlockSelector
    first_number: int
    freed_enough: bool

    @cached_property
    def _protected_ends(self) -> list[ProtectedEnd]:
        return self.selector.keep.find_protected_ends(self.selector.context, self.selector.limits)

    @cached_property
    def _unreached_rows(self) -> frozenset[int]:
        return frozenset(self.selector.blocks.block[: self.first_number])

    @cached_property
    def _not_shorter_rows(self) -> frozenset[int]:
        if self.selector.longer_than is None:
            return frozenset()
        return frozenset(replace(self.selector, longer_than=None).select().rows)

    def __call__(self, position: int, block: int | None) -> KeepReason:
        context, rule, keep = self.selector.context, self.selector.rule, self.selector.keep
        body_kind = self.selector.body_kind
        for end in self._protected_ends:
            if position >= end.start:
                return KeepReason(end.code, end.explanation)
        if position < (keep.first or 0):
            return KeepReason(VerdictCode.PROTECTED, f"within the first {keep.first or 0:,} messages")
        if block is None or context.facts.kind[block] != _BLOCK_KINDS[body_kind]:
            verb = "is" if body_kind == "thinking" else "are"
            explanation = f"only {BODY_KIND_LABELS[body_kind]} {verb} {BODY_ACTION_LABELS[body_kind]}"
            return KeepReason(VerdictCode.NOT_A_RESULT, explanation)
        if is_already_cleared(context, block, body_kind, self.selector.marker):
            return KeepReason(VerdictCode.ALREADY_CLEARED, "already cleared")
        if block in self._unreached_rows:
            return KeepReason(VerdictCode.KEPT, f"before {' or '.join(_STOP_LABELS[stop] for stop in rule.stop_at)}")
        if reason := _explain_tool_or_size(context, rule, block) or _explain_age_or_pairing(context, rule, block):
            return reason
        if block in self._not_shorter_rows:
            return KeepReason(VerdictCode.NOT_SHORTER, "truncating would not make it shorter")
        if self.freed_enough:
            return KeepReason(VerdictCode.KEPT, f"at least {rule.until or 0:,} tokens are freed without it")
        results = f"{keep.results:,} results" if keep.results is not None else ""
        tokens = f"{keep.result_tokens:,} tokens of results" if keep.result_tokens is not None else ""
        return KeepReason(VerdictCode.RECENT_RESULT, f"within the last {' or '.join(filter(None, (results, tokens)))}")


_STOP_LABELS = {"summary": "the last summary", "cleared": "what was cleared last"}
BODY_ACTION_LABELS = {"results": "cleared", "inputs": "cleared", "thinking": "dropped"}
"""Outcome of a change for each kind of body."""


def _explain_tool_or_size(context: Context, rule: Select, block: int) -> KeepReason | None:
    facts, body = context.facts, context.replacements.get(block)
    tool = facts.tool_name(block) if rule.tools or rule.except_tools else ""
    if (rule.tools and tool not in rule.tools) or tool in rule.except_tools:
        explanation = f"{tool} is not compactable" if tool else "its call is missing, so its tool is unknown"
        return KeepReason(VerdictCode.NOT_COMPACTABLE, explanation)
    tokens = count_block_tokens(context, block)
    if rule.larger_than is not None and tokens <= rule.larger_than:
        return KeepReason(VerdictCode.SMALL, f"{rule.larger_than:,} tokens or fewer")
    if rule.at_least is not None and tokens < rule.at_least:
        return KeepReason(VerdictCode.SMALL, f"fewer than {rule.at_least:,} tokens")
    if rule.longer_than is not None and (body.size if body else facts.text_bytes[block]) <= rule.longer_than:
        return KeepReason(VerdictCode.SMALL, f"{rule.longer_than:,} bytes or fewer")
    return None


def _explain_age_or_pairing(context: Context, rule: Select, block: int) -> KeepReason | None:
    if rule.paired and context.facts.call[block] not in index_context(context).tool_of_call:
        return KeepReason(VerdictCode.NOT_COMPACTABLE, "its call is missing")
    if rule.older_than is not None and not _is_old(context, rule.older_than, block):
        return KeepReason(VerdictCode.KEPT, f"not older than {rule.older_than:,} seconds")
    return None


def _count_cleared(count: int, keep: Keep) -> int:
    """Return how many of *count* blocks to clear in batches of ``every``, where the task counts as the first block."""
    every = keep.every or 1
    return max((count + 1) // every * every - 1 - (keep.results or 0), 0)


def _count_beyond_budget(chosen: Sequence[int], tokens: Callable[[int], int], budget: int) -> int:
    """Count the blocks before the newest *budget* tokens, including the block that crosses the limit."""
    totals = accumulate(map(tokens, reversed(chosen)))
    return next((len(chosen) - newer for newer, total in enumerate(totals) if total > budget), 0)


def _count_until_freed(chosen: Sequence[int], tokens: Callable[[int], int], enough: int, marker_tokens: int) -> int:
    """Return how many of the oldest blocks free *enough* tokens together, or the number of all blocks."""
    totals = accumulate(tokens(number) - marker_tokens for number in chosen)
    return next((count for count, freed_tokens in enumerate(totals, 1) if freed_tokens >= enough), len(chosen))
