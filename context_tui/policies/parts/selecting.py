"""Which bodies a rule changes: tool results, the inputs of calls, or thinking, by tool, size, age and place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from context_tui.compaction.verdicts import Code, Kept, Why
from context_tui.policies.base import param
from context_tui.policies.parameters import names
from context_tui.policies.parts.candidates import Blocks, between, blocks_of_kind, kept_numbers
from context_tui.policies.parts.keeping import Keep, Limits, Protected
from context_tui.policies.parts.part import Part
from context_tui.session.context import Context
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import START_LENGTH
from context_tui.session.values import Kind
from context_tui.tokens.context_index import index_context
from context_tui.tokens.estimators import bytes4

Of = Literal["results", "inputs", "thinking"]
"""What is changed: bodies of tool results, inputs of calls, thinking."""

_KINDS = {"results": Kind.TOOL_RESULT, "inputs": Kind.TOOL_USE, "thinking": Kind.THINKING}
NOUNS = {"results": "tool results", "inputs": "inputs of calls", "thinking": "thinking"}
"""What they are called in words."""
LINES, MOST_DIGITS = "{lines}", 4
"""What stands in a marker for how many lines went, which is known when it is carried out, and its usual digits."""
EMPTY_INPUT = 2
"""Bytes of the input ``{}``."""


class Select(Part):
    """Which of what is not kept is changed; without a limit all of it.

    ``tools`` are the only ones, or all but ``except_tools``. ``larger_than`` and ``at_least`` are tokens (``bytes/4``),
    ``longer_than`` bytes; ``older_than`` seconds before the newest message. Walking back from the newest one,
    ``stop_at`` ends at a summary or at what has been cleared before. Oldest first, ``until`` ends where so many tokens
    are freed. With ``paired`` a result whose call is missing stays.
    """

    tools: Annotated[tuple[str, ...], BeforeValidator(names)] = param(
        (), "tools whose results may be cleared (case-sensitive)", "tools", refers_to="tools"
    )
    except_tools: Annotated[tuple[str, ...], BeforeValidator(names)] = param(
        (), "tools whose results are never cleared (case-sensitive)", "tools", refers_to="tools"
    )
    larger_than: int | None = param(None, "only what is larger than this", "tokens", 0, 1_000_000)
    at_least: int | None = param(None, "only what is at least as large as this", "tokens", 0, 1_000_000)
    longer_than: int | None = param(None, "only what is longer than this", "bytes", 0, 10_000_000)
    older_than: int | None = param(None, "only what is older than this", "seconds", 0, 604_800)
    until: int | None = param(None, "stop when so much is freed; 0: clear all", "tokens", 0, 10_000_000, of_window=True)
    stop_at: tuple[Literal["summary", "cleared"], ...] = ()
    paired: bool = False


class Selection(NamedTuple):
    """What a rule changes, and why it does not change the rest.

    ``chosen`` are rows of blocks in prompt order, ``tokens`` what they have now; ``older`` says whether there are any
    before what is kept, ``why`` why one of them is not chosen.
    """

    chosen: list[int]
    tokens: list[int]
    older: bool
    why: Why


def is_marked(context: Context, row: int, of: Of, marker: str) -> bool:
    """Whether a block has been cleared before: it is the marker; where facts keep no such text, takes as many bytes."""
    body = context.replacements.get(row)
    if body is not None:
        if body.source or body.removed:
            return True
        if of == "inputs":
            return body.text == "{}"
        return body.text == marker if body.text is not None else body.size == marker_bytes(marker)
    if of != "results":
        return of == "inputs" and context.facts.text_bytes[row] <= EMPTY_INPUT
    if marker.startswith("[") and len(marker) <= START_LENGTH and LINES not in marker:
        return context.facts.bracket_starts.get(row) == marker
    more = context.facts.text_bytes[row] - marker_bytes(marker)
    return -1 <= more <= MOST_DIGITS - 2 if LINES in marker else more == 0


@lru_cache(maxsize=64)
def marker_bytes(marker: str) -> int:
    """Bytes that a marker takes, with the usual two digits where it says how many lines went."""
    return utf8_len(marker.replace(LINES, "00"))


def select(
    context: Context,
    rule: Select,
    keep: Keep,
    of: Of,
    marker: str,
    limits: Limits,
    gain: int = 0,
    longer_than: int | None = None,
) -> Selection:
    """The blocks that a rule changes. It looks at those that it could change, and at what is new since the last look.

    Args:
        gain: tokens that stand in the place of one of them.
        longer_than: of those that it would choose, only the ones are changed whose text is known and has more bytes.
    """
    blocks, end = blocks_of_kind(context, _KINDS[of]), keep.start(context, limits)
    found = _candidates(context, rule, of, marker, blocks)
    high = bisect_left(blocks.position, end)
    low = _stopped(context, rule, of, marker, blocks, high)
    first = max(bisect_left(blocks.position, keep.first), low) if keep.first else low
    chosen, tokens = _now(context, rule, blocks, found, first, high), _tokens_of(context, of, blocks)
    beyond = len(chosen) if keep.result_tokens is None else _beyond(chosen, tokens, keep.result_tokens)
    if keep.results is not None:
        if keep.count == "eligible":
            chosen = chosen[: _cleared(len(chosen), keep)]
        else:
            chosen = between(chosen, 0, _cleared(len(blocks.block), keep))
    chosen = chosen[:beyond]
    enough = False
    if rule.until:
        count = _until(chosen, tokens, rule.until, gain)
        chosen, enough = chosen[:count], count < len(chosen)
    if longer_than is not None and chosen:
        longer = _candidates(context, rule, of, marker, blocks, longer_than)
        chosen = _now(context, rule, blocks, longer, chosen[0], chosen[-1] + 1)
    older = bool(blocks.position) and blocks.position[0] < end
    why = Reasons(context, rule, keep, of, marker, limits, gain, low, enough=enough, truncates=longer_than is not None)
    return Selection([blocks.block[number] for number in chosen], [tokens(number) for number in chosen], older, why)


def _candidates(
    context: Context, rule: Select, of: Of, marker: str, blocks: Blocks, longer_than: int | None = None
) -> list[int]:
    """Numbers of the blocks that the rule could change, whatever is kept now."""
    block = blocks.block
    unmarked = kept_numbers(
        index_context(context),
        ("unmarked", of, marker),
        blocks,
        lambda numbers: [number for number in numbers if not is_marked(context, block[number], of, marker)],
    )
    limits = rule.tools, rule.except_tools, rule.larger_than, rule.at_least, rule.longer_than, longer_than
    if limits == _NO_LIMITS:
        return unmarked

    def choose(numbers: range) -> list[int]:
        return _fitting(context, rule, of, blocks, between(unmarked, numbers.start, numbers.stop), longer_than)

    return kept_numbers(index_context(context), ("fitting", of, marker, *limits), blocks, choose)


_NO_LIMITS = ((), (), None, None, None, None)


def _fitting(
    context: Context, rule: Select, of: Of, blocks: Blocks, chosen: list[int], longer_than: int | None
) -> list[int]:
    """Those of the right tool and size."""
    facts, replaced, block = context.facts, context.replacements, blocks.block
    if rule.tools:
        only = _rows(context, rule.tools)
        chosen = [number for number in chosen if facts.tool[block[number]] in only]
    if rule.except_tools:
        never = _rows(context, rule.except_tools)
        chosen = [number for number in chosen if facts.tool[block[number]] not in never]
    if rule.larger_than is not None or rule.at_least is not None:
        least = max(rule.at_least or 0, -1 if rule.larger_than is None else rule.larger_than + 1)
        tokens = _tokens_of(context, of, blocks)
        chosen = [number for number in chosen if tokens(number) >= least]
    if rule.longer_than is not None or longer_than is not None:
        most, text = max(rule.longer_than or 0, longer_than or 0), facts.text_bytes
        sizes = [(body.size if (body := replaced.get(block[number])) else text[block[number]]) for number in chosen]
        chosen = [number for number, size in zip(chosen, sizes, strict=True) if size > most]
    if longer_than is not None:
        bodies = [replaced.get(block[number]) for number in chosen]
        chosen = [n for n, body in zip(chosen, bodies, strict=True) if body is None or body.text is not None]
    return chosen


def _rows(context: Context, tools: Sequence[str]) -> frozenset[int]:
    """Rows of these tools."""
    return frozenset(row for row, name in enumerate(context.facts.tools) if name in tools)


def _now(context: Context, rule: Select, blocks: Blocks, found: list[int], first: int, end: int) -> list[int]:
    """The candidates from one number to another that fit at this moment: old enough, and their calls are there."""
    chosen, facts = between(found, first, end), context.facts
    if rule.older_than is not None:
        chosen = [number for number in chosen if _is_old(context, rule.older_than, blocks.block[number])]
    if rule.paired:
        calls = index_context(context).tool_of_call
        chosen = [number for number in chosen if facts.call[blocks.block[number]] in calls]
    return chosen


def _tokens_of(context: Context, of: Of, blocks: Blocks) -> Callable[[int], int]:
    """Tokens of blocks as they stand in the context, by their numbers."""
    if of == "results":
        return index_context(context).results.tokens.__getitem__
    facts, replaced, rows = context.facts, context.replacements, blocks.block

    def tokens(number: int) -> int:
        body = replaced.get(rows[number])
        return body.tokens if body else bytes4(facts, rows[number])

    return tokens


def _is_old(context: Context, seconds: int, block: int) -> bool:
    """Whether a block is so many seconds older than the newest message; no where its time is not known."""
    time = context.facts.time
    return 0 <= time[context.facts.block_message[block]] < time[context.order[-1]] - seconds * 1_000


class Reasons:
    """Why a block is not changed. What that takes is looked up when somebody asks: the context is what it was then."""

    def __init__(
        self,
        context: Context,
        rule: Select,
        keep: Keep,
        of: Of,
        marker: str,
        limits: Limits,
        gain: int,
        low: int,
        *,
        enough: bool,
        truncates: bool,
    ) -> None:
        self._context, self._rule, self._keep, self._of, self._marker = context, rule, keep, of, marker
        self._limits, self._gain, self._low, self._enough, self._truncates = limits, gain, low, enough, truncates

    @cached_property
    def _ends(self) -> list[Protected]:
        return self._keep.ends(self._context, self._limits)

    @cached_property
    def _behind(self) -> frozenset[int]:
        """Rows of what the walk back did not come to."""
        return frozenset(blocks_of_kind(self._context, _KINDS[self._of]).block[: self._low])

    @cached_property
    def _not_shorter(self) -> frozenset[int]:
        """Rows of what is chosen, and would be no shorter."""
        if not self._truncates:
            return frozenset()
        of, marker, limits, gain = self._of, self._marker, self._limits, self._gain
        return frozenset(select(self._context, self._rule, self._keep, of, marker, limits, gain).chosen)

    def __call__(self, position: int, block: int | None) -> Kept:
        context, rule, keep, of = self._context, self._rule, self._keep, self._of
        for each in self._ends:
            if position >= each.start:
                return Kept(each.code, each.words)
        if position < (keep.first or 0):
            return Kept(Code.PINNED, f"within the first {keep.first or 0:,} messages")
        if block is None or context.facts.kind[block] != _KINDS[of]:
            return Kept(Code.NOT_A_RESULT, f"only {NOUNS[of]} {'is' if of == 'thinking' else 'are'} {DONE[of]}")
        if is_marked(context, block, of, self._marker):
            return Kept(Code.ALREADY_CLEARED, "already cleared")
        if block in self._behind:
            return Kept(Code.KEPT, f"before {' or '.join(_STOPS[stop] for stop in rule.stop_at)}")
        if wrong := _unfit(context, rule, block) or _unfit_now(context, rule, block):
            return wrong
        if block in self._not_shorter:
            return Kept(Code.NOT_SHORTER, "truncating would not make it shorter")
        if self._enough:
            return Kept(Code.KEPT, f"at least {rule.until or 0:,} tokens are freed without it")
        results = f"{keep.results:,} results" if keep.results is not None else ""
        tokens = f"{keep.result_tokens:,} tokens of results" if keep.result_tokens is not None else ""
        return Kept(Code.RECENT_RESULT, f"within the last {' or '.join(filter(None, (results, tokens)))}")


_STOPS = {"summary": "the last summary", "cleared": "what was cleared last"}
DONE = {"results": "cleared", "inputs": "cleared", "thinking": "dropped"}
"""What becomes of what is changed."""


def _unfit(context: Context, rule: Select, block: int) -> Kept | None:
    """Why a body is not of the right tool or size."""
    facts, body = context.facts, context.replacements.get(block)
    tool = facts.tool_name(block) if rule.tools or rule.except_tools else ""
    if (rule.tools and tool not in rule.tools) or tool in rule.except_tools:
        what = f"{tool} is not compactable" if tool else "its call is missing, so its tool is unknown"
        return Kept(Code.NOT_COMPACTABLE, what)
    tokens = body.tokens if body else bytes4(facts, block)
    if rule.larger_than is not None and tokens <= rule.larger_than:
        return Kept(Code.SMALL, f"{rule.larger_than:,} tokens or fewer")
    if rule.at_least is not None and tokens < rule.at_least:
        return Kept(Code.SMALL, f"fewer than {rule.at_least:,} tokens")
    if rule.longer_than is not None and (body.size if body else facts.text_bytes[block]) <= rule.longer_than:
        return Kept(Code.SMALL, f"{rule.longer_than:,} bytes or fewer")
    return None


def _unfit_now(context: Context, rule: Select, block: int) -> Kept | None:
    """Why a body is not changed at this moment."""
    if rule.paired and context.facts.call[block] not in index_context(context).tool_of_call:
        return Kept(Code.NOT_COMPACTABLE, "its call is missing")
    if rule.older_than is not None and not _is_old(context, rule.older_than, block):
        return Kept(Code.KEPT, f"not older than {rule.older_than:,} seconds")
    return None


def _stopped(context: Context, rule: Select, of: Of, marker: str, blocks: Blocks, high: int) -> int:
    """The number of the first block behind which nothing stops the walk back from *high*."""
    low = 0
    if "summary" in rule.stop_at and (summaries := index_context(context).summaries):
        low = min(bisect_left(blocks.position, summaries[-1] + 1), high)
    if "cleared" in rule.stop_at:
        block = blocks.block
        marked = kept_numbers(
            index_context(context),
            ("marked", of, marker),
            blocks,
            lambda numbers: [number for number in numbers if is_marked(context, block[number], of, marker)],
        )
        before = bisect_left(marked, high)
        low = max(low, marked[before - 1] + 1) if before else low
    return low


def _cleared(count: int, keep: Keep) -> int:
    """How many of so many are cleared: in batches, where the first batch has the task before them as one more."""
    every = keep.every or 1
    return max((count + 1) // every * every - 1 - (keep.results or 0), 0)


def _beyond(chosen: Sequence[int], tokens: Callable[[int], int], budget: int) -> int:
    """How many of them lie beyond the newest *budget* tokens, with the one that crosses the line."""
    total = 0
    for at in range(len(chosen) - 1, -1, -1):
        total += tokens(chosen[at])
        if total > budget:
            return at + 1
    return 0


def _until(chosen: Sequence[int], tokens: Callable[[int], int], enough: int, gain: int) -> int:
    """How many of the oldest of them it takes until so many tokens are freed; all where these are not enough."""
    freed = 0
    for count, number in enumerate(chosen, 1):
        freed += tokens(number) - gain
        if freed >= enough:
            return count
    return len(chosen)
