"""Which bodies a rule changes: tool results, the inputs of calls, or thinking, by tool, size, age and place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from context_tui.compaction.verdicts import Code, Kept
from context_tui.policies.base import param
from context_tui.policies.parameters import names
from context_tui.policies.parts.keeping import Keep, Limits
from context_tui.policies.parts.part import Part
from context_tui.session.context import Context
from context_tui.session.facts import Kind, MessageFlag
from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import START_LENGTH
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measured import measured, once_for_messages

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


class Bodies(NamedTuple):
    """Blocks of one kind in prompt order: parallel columns, tokens by ``bytes/4``, bytes of their text."""

    position: Sequence[int]
    block: Sequence[int]
    tokens: Sequence[int]
    size: Sequence[int]


@dataclass(frozen=True)
class Selection:
    """What a rule changes, and why it does not change the rest.

    ``chosen`` are rows of blocks in prompt order, ``tokens`` and ``size`` what they have now, ``older`` how many there
    are before what is kept, ``why`` why one of them is not chosen.
    """

    chosen: Sequence[int]
    tokens: Sequence[int]
    size: Sequence[int]
    older: int
    why: Callable[[int, int | None], Kept]


def bodies(context: Context, of: Of, marker: str) -> tuple[Bodies, list[int]]:
    """The blocks of a kind that are not *marker* yet, nor known to be cleared, and the numbers of those that are among
    all; kept by the context.
    """
    key = ("bodies", of, marker)
    if key not in context.memo:
        every = list(_all(context, of))
        known = [is_marked(context, row, of, marker) for _, row, *_ in every]
        found = [each for each, gone in zip(every, known, strict=True) if not gone]
        marked = [number for number, gone in enumerate(known) if gone]
        context.memo[key] = (Bodies(*zip(*found, strict=True)) if found else Bodies((), (), (), ())), marked
    kept: tuple[Bodies, list[int]] = context.memo[key]
    return kept


def is_marked(context: Context, row: int, of: Of, marker: str) -> bool:
    """Whether a block has been cleared before: it is the marker; where facts keep no such text, takes as many bytes."""
    body = context.replaced.get(row)
    if body is not None:
        if body.known or body.removed:
            return True
        if of == "inputs":
            return body.text == "{}"
        return body.text == marker if body.text is not None else body.size == marker_bytes(marker)
    if of != "results":
        return of == "inputs" and context.facts.text_bytes[row] <= EMPTY_INPUT
    if marker.startswith("[") and len(marker) <= START_LENGTH and LINES not in marker:
        return context.facts.starts.get(row) == marker
    more = context.facts.text_bytes[row] - marker_bytes(marker)
    return -1 <= more <= MOST_DIGITS - 2 if LINES in marker else more == 0


@lru_cache(maxsize=64)
def marker_bytes(marker: str) -> int:
    """Bytes that a marker takes, with the usual two digits where it says how many lines went."""
    return utf8_len(marker.replace(LINES, "00"))


def _all(context: Context, of: Of) -> Iterator[tuple[int, int, int, int]]:
    facts, replaced = context.facts, context.replaced
    if of == "results":
        results = measured(context).results
        text = facts.text_bytes
        for position, row, tokens in zip(results.position, results.block, results.tokens, strict=True):
            yield position, row, tokens, replaced[row].size if row in replaced else text[row]
        return
    kind, wanted = facts.kind, _KINDS[of]
    for position, message in enumerate(context.order):
        for row in context.blocks_of(message):
            if kind[row] == wanted:
                body = replaced.get(row)
                tokens = body.tokens if body else bytes4(facts, row)
                yield position, row, tokens, body.size if body else facts.text_bytes[row]


def select(context: Context, rule: Select, keep: Keep, of: Of, marker: str, gain: int, limits: Limits) -> Selection:
    """The blocks that a rule changes. Linear in the blocks of that kind.

    Args:
        gain: tokens that stand in the place of one of them.
    """
    found, marked = bodies(context, of, marker)
    ends, first = list(keep.ends(context, limits)), keep.first or 0
    end = min((each.start for each in ends), default=len(context))
    high = bisect_left(found.position, end)
    low = min(max(bisect_left(found.position, first), _stopped(context, rule, found, marked, end, high)), high)
    eligible = _eligible(context, rule, found, low, high)
    chosen = eligible
    if keep.results is not None:
        chosen = _but_newest(context, found, eligible, keep, of)
    if keep.result_tokens is not None:
        chosen = _beyond(found, chosen, keep.result_tokens)
    beyond = len(chosen)
    if rule.until:
        chosen = _until(found, chosen, rule.until, gain)
    enough = len(chosen) < beyond
    behind = frozenset(found.block[:low]) if rule.stop_at else frozenset[int]()

    def why(position: int, block: int | None) -> Kept:
        for each in ends:
            if position >= each.start:
                return Kept(each.code, each.words)
        if position < first:
            return Kept(Code.PINNED, f"within the first {first:,} messages")
        if block is None or context.facts.kind[block] != _KINDS[of]:
            return Kept(Code.NOT_A_RESULT, f"only {NOUNS[of]} {'is' if of == 'thinking' else 'are'} {DONE[of]}")
        if is_marked(context, block, of, marker):
            return Kept(Code.ALREADY_CLEARED, "already cleared")
        if block in behind:
            return Kept(Code.KEPT, f"before {' or '.join(_STOPS[stop] for stop in rule.stop_at)}")
        if wrong := _unfit(context, rule, block):
            return wrong
        if enough:
            return Kept(Code.KEPT, f"at least {rule.until or 0:,} tokens are freed without it")
        if keep.results is not None:
            return Kept(Code.RECENT_RESULT, f"within the last {keep.results:,} results")
        return Kept(Code.RECENT_RESULT, f"within the last {keep.result_tokens or 0:,} tokens of results")

    return Selection(
        [found.block[number] for number in chosen],
        [found.tokens[number] for number in chosen],
        [found.size[number] for number in chosen],
        bisect_left(_positions(context, of), end),
        why,
    )


_STOPS = {"summary": "the last summary", "cleared": "what was cleared last"}
DONE = {"results": "cleared", "inputs": "cleared", "thinking": "dropped"}
"""What becomes of what is changed."""


def _positions(context: Context, of: Of) -> Sequence[int]:
    """Positions of all blocks of a kind, cleared ones too."""
    return measured(context).results.position if of == "results" else [position for position, *_ in _all(context, of)]


def _eligible(context: Context, rule: Select, found: Bodies, low: int, high: int) -> Sequence[int]:
    """Numbers of the bodies that are of the right tool, size and age."""
    facts, tokens, size, block = context.facts, found.tokens, found.size, found.block
    chosen: Sequence[int] = range(low, high)
    if rule.larger_than is not None:
        limit = rule.larger_than
        chosen = [number for number in chosen if tokens[number] > limit]
    if rule.at_least is not None:
        limit = rule.at_least
        chosen = [number for number in chosen if tokens[number] >= limit]
    if rule.longer_than is not None:
        limit = rule.longer_than
        chosen = [number for number in chosen if size[number] > limit]
    if rule.tools:
        only = _rows(context, rule.tools)
        chosen = [number for number in chosen if facts.tool[block[number]] in only]
    if rule.except_tools:
        never = _rows(context, rule.except_tools)
        chosen = [number for number in chosen if facts.tool[block[number]] not in never]
    if rule.older_than is not None and len(context):
        before = facts.time[context.order[-1]] - rule.older_than * 1_000
        times = (facts.time[facts.block_message[block[number]]] for number in chosen)
        chosen = [number for number, time in zip(chosen, times, strict=True) if 0 <= time < before]
    if rule.paired:
        calls = measured(context).tool_of_call
        chosen = [number for number in chosen if facts.call[block[number]] in calls]
    return chosen


def _rows(context: Context, tools: Sequence[str]) -> frozenset[int]:
    """Rows of these tools."""
    wanted = frozenset(tools)
    return frozenset(row for row, name in enumerate(context.facts.tools) if name in wanted)


def _unfit(context: Context, rule: Select, block: int) -> Kept | None:
    """Why a body is not of the right tool, size or age."""
    facts, body = context.facts, context.replaced.get(block)
    tokens, size = (body.tokens, body.size) if body else (bytes4(facts, block), facts.text_bytes[block])
    tool = facts.tool_name(block)
    if (rule.tools and tool not in rule.tools) or tool in rule.except_tools:
        what = f"{tool} is not compactable" if tool else "its call is missing, so its tool is unknown"
        return Kept(Code.NOT_COMPACTABLE, what)
    if rule.paired and facts.call[block] not in measured(context).tool_of_call:
        return Kept(Code.NOT_COMPACTABLE, "its call is missing")
    if rule.larger_than is not None and tokens <= rule.larger_than:
        return Kept(Code.SMALL, f"{rule.larger_than:,} tokens or fewer")
    if rule.at_least is not None and tokens < rule.at_least:
        return Kept(Code.SMALL, f"fewer than {rule.at_least:,} tokens")
    if rule.longer_than is not None and size <= rule.longer_than:
        return Kept(Code.SMALL, f"{rule.longer_than:,} bytes or fewer")
    if rule.older_than is not None:
        age = facts.time[context.order[-1]] - facts.time[facts.block_message[block]]
        if age <= rule.older_than * 1_000 or facts.time[facts.block_message[block]] < 0:
            return Kept(Code.KEPT, f"not older than {rule.older_than:,} seconds")
    return None


def _stopped(context: Context, rule: Select, found: Bodies, marked: list[int], end: int, high: int) -> int:
    """The number of the first body behind which nothing stops the walk back from *end*."""
    low = 0
    if "summary" in rule.stop_at:
        low = bisect_left(found.position, _last_summary(context) + 1)
    if "cleared" in rule.stop_at:
        until = bisect_left(measured(context).results.position, end)
        before = bisect_left(marked, until)
        if before:
            return max(low, high - (until - marked[before - 1] - 1))
    return low


@once_for_messages
def _last_summary(context: Context) -> int:
    """The position of the last summary, or -1."""
    flags, order = context.facts.flags, context.order
    return next((at for at in range(len(order) - 1, -1, -1) if flags[order[at]] & MessageFlag.SUMMARY), -1)


def _but_newest(context: Context, found: Bodies, eligible: Sequence[int], keep: Keep, of: Of) -> Sequence[int]:
    """All but the newest of the bodies, counted among all of them or those that could be changed."""
    if keep.count == "eligible":
        return eligible[: _cleared(len(eligible), keep)]
    rows = measured(context).results.block if of == "results" else [row for _, row, *_ in _all(context, of)]
    recent = frozenset(rows[_cleared(len(rows), keep) :])
    return [number for number in eligible if found.block[number] not in recent]


def _cleared(count: int, keep: Keep) -> int:
    """How many of so many are cleared: in batches, where the first batch has the task before them as one more."""
    every = keep.every or 1
    return max((count + 1) // every * every - 1 - (keep.results or 0), 0)


def _beyond(found: Bodies, chosen: Sequence[int], budget: int) -> Sequence[int]:
    """Those that lie beyond the newest *budget* tokens, with the one that crosses the line."""
    total, low = 0, 0
    for at in range(len(chosen) - 1, -1, -1):
        total += found.tokens[chosen[at]]
        if total > budget:
            low = at + 1
            break
    return chosen[:low]


def _until(found: Bodies, chosen: Sequence[int], enough: int, gain: int) -> Sequence[int]:
    """The oldest of them, until so many tokens are freed."""
    freed = 0
    for count, number in enumerate(chosen, 1):
        freed += found.tokens[number] - gain
        if freed >= enough:
            return chosen[:count]
    return chosen
