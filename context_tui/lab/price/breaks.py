"""Find where a session's requests paid again for tokens that were in the prompt cache, with the cause and the cost.

Each token of a prompt is read from the cache, paid again, or new. Tokens that the previous request of the same context
left in the cache and that this request did not read are paid again. After a compaction or a clearing, the new content
is estimated (calibrated where the session allows it); everywhere else the split follows from the recorded usage alone.
The rest of the uncached tokens is new, so that the parts add up to the recorded usage.

The cause is the first of these that applies: a compaction, the provider's own reason, a clearing or rewind, another
model, another prompt (where requests are recorded whole), an expired entry, more new blocks than the provider looks
back, or a switch of thinking. Otherwise it is inferred from the tokens that were still read: those of the part that
other sessions share (the tools), or of everything before the messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Literal, NamedTuple

from context_tui.lab.price.cache import LOOKBACK
from context_tui.lab.price.cache_requests import (
    SAME_SIZE_TOLERANCE,
    THINKING_DROPPED,
    THINKING_OFF,
    THINKING_ON,
    RecordedCalls,
    build_recorded_rates,
    reconstruct_recorded_calls,
    starts_turn,
)
from context_tui.lab.price.rates import FIVE_MINUTES, ONE_HOUR, Rates, RateTable
from context_tui.session.drops import find_drops
from context_tui.session.facts import Drop, epoch_at, find_prompt_row, recorded_spans_at
from context_tui.session.jsontext import compact_json
from context_tui.session.session import Session
from context_tui.session.token_factors import estimate_content, fit_earlier_factors, is_other_conversation
from context_tui.session.values import Explanation, Kind, MessageFlag
from context_tui.text.numbers import format_count

Source = Literal["recorded", "inferred"]

AUTOMATIC_BLOCK, AUTOMATIC_MINIMUM = 128, 1_024
"""Tokens by which an automatic cache counts, and the smallest prompt that it keeps."""

MIN_COSTLY_TOKENS, MIN_COSTLY_SHARE = 5_000, 0.05
"""Minimum tokens of a costly break, and its minimum share of the cost of all breaks in the session."""
MIN_EMPTY_READS, EMPTY_READ_RATIO = 3, 5
"""Number of turns that began with nothing read from which a change of the system prompt is inferred, and how many times
as often this happened as within turns."""


class BreakCause(StrEnum):
    """The cause of a cache break, as shown to users."""

    COMPACTION = "compaction"
    CLEARING = "clearing"
    REWIND = "rewind"
    MODEL = "model changed"
    TOOLS = "tools changed"
    SYSTEM = "system changed"
    MESSAGES = "messages changed"
    EXPIRED = "expired"
    LOOKBACK = "beyond the look-back"
    THINKING = "thinking switched"
    RESUME = "resume or fork"
    NEIGHBOUR = "beside another session's cache"
    PROVIDER = "lost by the provider"
    UNEXPLAINED = "unexplained"


PROVIDER_CAUSES = {
    "system_changed": BreakCause.SYSTEM,
    "tools_changed": BreakCause.TOOLS,
    "model_changed": BreakCause.MODEL,
    "messages_changed": BreakCause.MESSAGES,
}
"""Causes by the provider's reason. Its other reasons say nothing about the content of the prompt."""
PROVIDER_EVIDENCE = "the provider says "


class CacheBreak(NamedTuple):
    """A request that paid again for tokens that the previous request of its context had in the cache.

    Attributes:
        message: the reply to the request.
        tokens, cost: tokens written again or sent uncached, and their cost minus that of a cache read.
        source: whether the cause is recorded or inferred; ``evidence`` describes how it is known.
        gap_ms, ttl_ms: time since the previous reply, or -1 if unknown, and the time to live, in milliseconds.
        saved: cost of the cache reads that a clearing saved in the later requests of the context.
        is_estimated: whether ``tokens`` depends on an estimate of the new content.
        is_provider_reason: whether the cause is the provider's own statement of the part of the prompt that changed.
    """

    message: int
    tokens: int
    cost: float
    cause: BreakCause
    source: Source
    evidence: str
    gap_ms: int = -1
    ttl_ms: int = 0
    saved: float = 0.0
    is_estimated: bool = False
    is_provider_reason: bool = False


class PromptUse(NamedTuple):
    """The requests of a session with the same model, system prompt and tools, which ``key`` identifies.

    ``ended_at`` holds the times when their replies ended, in milliseconds since 1970, in order.
    """

    key: str
    ended_at: Sequence[int]


class FirstRequest(NamedTuple):
    """The first request of a session: its prompt's key, its time in milliseconds since 1970, and a possible break.

    It is a break only if another session has the same system prompt and tools in the cache.
    """

    key: str
    sent_at: int
    cache_break: CacheBreak


class HourCache(NamedTuple):
    """Effect of caching for an hour, not five minutes: breaks avoided, their cost, and the extra cost of writes."""

    breaks: int = 0
    saved: float = 0.0
    added: float = 0.0


class CacheHistory(NamedTuple):
    """The use of the prompt cache along a session, in tokens: read, new, and paid again by the ``breaks``.

    ``has_cache`` is False if no request of the session records tokens read from a cache or written to one. Where whole
    requests are recorded, ``prompt_uses`` and ``first_request`` serve to compare its prompts with other sessions'.
    """

    requests: int
    read: int
    new: int
    breaks: tuple[CacheBreak, ...]
    rate_table: RateTable
    has_cache: bool
    hour_cache: HourCache
    prompt_uses: tuple[PromptUse, ...] = ()
    first_request: FirstRequest | None = None

    @property
    def again(self) -> int:
        """Tokens that were in the cache and were paid again."""
        return sum(each.tokens for each in self.breaks)

    @property
    def cost(self) -> float:
        """Cost of the tokens paid again minus that of reading them, in ``rate_table.unit``."""
        return sum(each.cost for each in self.breaks)

    @property
    def costly_breaks(self) -> list[CacheBreak]:
        """The breaks with ``MIN_COSTLY_TOKENS`` tokens or more and at least ``MIN_COSTLY_SHARE`` of the cost."""
        least = MIN_COSTLY_SHARE * self.cost
        return [each for each in self.breaks if each.tokens >= MIN_COSTLY_TOKENS and each.cost >= least]


def find_cache_breaks(
    session: Session, *, recorded: RecordedCalls | None = None, use_reasons: bool = True
) -> CacheHistory:
    """Return the use of the prompt cache along a session, with its cache breaks.

    Args:
        recorded: the result of ``reconstruct_recorded_calls``, if it is computed already.
        use_reasons: whether to use the provider's recorded reasons; without them every cause is inferred.
    """
    return _BreakSearch(session, recorded or reconstruct_recorded_calls(session), use_reasons=use_reasons).search()


class _Change(NamedTuple):
    """A cause with its evidence; ``new`` is the estimated number of new tokens if the prompt was rewritten."""

    cause: BreakCause
    evidence: str
    source: Source = "inferred"
    new: int | None = None
    removed: int = 0
    is_provider_reason: bool = False


class _Candidate(NamedTuple):
    """A break; its ``change`` is None if the cause must be inferred from the tokens that requests read."""

    row: int
    before: int
    tokens: int
    cached: int
    change: _Change | None


class _BreakSearch:
    def __init__(self, session: Session, recorded: RecordedCalls, *, use_reasons: bool) -> None:
        self.facts = facts = session.facts
        self.calls, self.reads, self.use_reasons = recorded.requests, recorded.reads, use_reasons
        self.usages = facts.requests[: len(self.calls)]
        self.rows = [row for row, usage in enumerate(self.usages) if usage.context and not self._is_side_request(row)]
        self.is_automatic = bool(self.calls) and all(call.anywhere for call in self.calls)
        self.drops: dict[int, Drop] = {drop.message: drop for drop in find_drops(facts)}
        self.models, self.rate_table = build_recorded_rates(facts, len(self.calls))
        self.has_cache = any(usage.context > usage.fresh for usage in self.usages)

    def _is_side_request(self, row: int) -> bool:
        facts = self.facts
        return is_other_conversation(facts, row) or bool(facts.flags[facts.request_message[row]] & MessageFlag.NOT_SENT)

    def search(self) -> CacheHistory:
        candidates, cached = list[_Candidate](), 0
        for before, row in zip([-1, *self.rows], self.rows if self.has_cache else (), strict=False):
            if (candidate := self._find_candidate(before, row, cached)) is not None:
                candidates.append(candidate)
            cached = self._count_cached(row) or cached
        levels = self._find_levels(candidates)
        breaks = tuple(self._build_break(candidate, levels) for candidate in candidates)
        read = sum(usage.cache_read for usage in self.usages)
        new = sum(usage.context for usage in self.usages) - read - sum(each.tokens for each in breaks)
        has_prompts = self.has_cache and self.facts.holds_requests and bool(self.facts.prompts)
        prompts = self._list_prompt_uses() if has_prompts else ()
        first = self._find_first_request(prompts[0].key, levels) if prompts else None
        results = self.has_cache, self._price_hour_cache(breaks), prompts, first
        return CacheHistory(len(self.usages), read, new, breaks, self.rate_table, *results)

    def _list_prompt_uses(self) -> tuple[PromptUse, ...]:
        ends = defaultdict[tuple[str | None, int], list[int]](list)
        for row in self.rows:
            ends[self.models[row], find_prompt_row(self.facts, self._get_message(row))].append(self.calls[row].ended_at)
        uses = defaultdict[str, list[int]](list)
        for (model, prompt_row), ended_at in ends.items():
            prompt = self.facts.prompts[prompt_row]
            parts = compact_json((model, [each.text for each in (*prompt.tools, *prompt.system)]))
            uses[blake2b(parts, digest_size=16).hexdigest()] += ended_at
        return tuple(PromptUse(key, sorted(ended_at)) for key, ended_at in uses.items())

    def _find_first_request(self, key: str, levels: _Levels) -> FirstRequest | None:
        """Return the first request, whose prompt has this *key*, or None if it read its system prompt and tools."""
        row = self.rows[0]
        new = self._estimate_new(row, range(self._get_message(row)))
        tokens = self.usages[row].context - new - self.usages[row].cache_read
        if tokens <= 0 or self._find_recorded_cause(row) is not None:
            return None
        change = _Change(BreakCause.NEIGHBOUR, "", new=new)
        found = self._build_break(_Candidate(row, -1, tokens, tokens, change), levels)
        return FirstRequest(key, self.calls[row].sent_at, found)

    def _get_rates(self, row: int) -> Rates:
        return self.rate_table.get_rates(self.models[row]).select_for_prompt(self.usages[row].context)

    def _price_hour_cache(self, breaks: Iterable[CacheBreak]) -> HourCache:
        """Return the effect on the breaks and costs if the cache had kept its content for an hour, not five minutes."""
        if self.is_automatic:
            return HourCache()
        expired = [each for each in breaks if each.cause == BreakCause.EXPIRED and each.ttl_ms == FIVE_MINUTES]
        avoided = {each.message: each for each in expired if each.gap_ms <= ONE_HOUR}
        added = 0.0
        for row, usage in enumerate(self.usages):
            found = avoided.get(self._get_message(row))
            rates = self._get_rates(row)
            written = max(usage.cache_write_5m - (found.tokens if found else 0), 0)
            added += written * (rates.write_1h - rates.write_5m)
        return HourCache(len(avoided), sum(each.cost for each in avoided.values()), added)

    def _price_removed(self, row: int, removed: int) -> float:
        """Return the cost of reading *removed* tokens in the later requests of the context of request *row*."""
        message = self._get_message(row)
        later_epochs = (epoch.message for epoch in self.facts.epochs if epoch.message > message)
        end = min(later_epochs, default=len(self.facts))
        rows = (each for each in self.rows[bisect_right(self.rows, row) :] if self._get_message(each) < end)
        return removed * sum(self._get_rates(each).read for each in rows)

    def _count_cached(self, row: int) -> int:
        usage = self.usages[row]
        if not self.is_automatic:
            return usage.context - usage.fresh
        return usage.context // AUTOMATIC_BLOCK * AUTOMATIC_BLOCK if usage.context >= AUTOMATIC_MINIMUM else 0

    def _find_candidate(self, before: int, row: int, cached: int) -> _Candidate | None:
        """Return the break at request *row*, or None if it read all tokens that request *before* left *cached*."""
        usage = self.usages[row]
        if before < 0:
            change = self._find_recorded_cause(row)
            if change is None:
                return None
            cached, change = usage.context, change._replace(new=self._estimate_new(row, range(self._get_message(row))))
        elif self._get_message(before) < epoch_at(self.facts, self._get_message(row)).start:
            change = self._find_compaction(before, row)
            if change is None:  # a new conversation, of which nothing was cached
                return None
        else:
            change = self._find_rewrite(before, row)
        reusable = usage.context if change is None or change.new is None else max(usage.context - change.new, 0)
        tokens = min(cached, reusable) - usage.cache_read
        if tokens <= 0:
            return None
        if change is None or change.cause != BreakCause.COMPACTION:
            recorded = self._find_recorded_cause(row)
            if recorded is not None and change is not None:
                change = recorded._replace(new=change.new, removed=change.removed)
            change = change or recorded or self._find_known_cause(before, row)
        return _Candidate(row, before, tokens, cached, change)

    def _get_message(self, row: int) -> int:
        return self.facts.request_message[row]

    def _find_recorded_cause(self, row: int) -> _Change | None:
        reason = self.reads[row].provider_reason if self.use_reasons else None
        cause = PROVIDER_CAUSES.get(reason or "")
        if cause is None:
            return None
        text = f"{PROVIDER_EVIDENCE}{reason}; {self.usages[row].cache_read:,} tokens were still read"
        return _Change(cause, text, "recorded", is_provider_reason=True)

    def _estimate_new(self, row: int, messages: Iterable[int]) -> int:
        content, factors = estimate_content(self.facts, messages), fit_earlier_factors(self.facts, row)
        if factors is None:
            return sum(content.tokens)
        return round(factors.count_tokens(content) + (factors.image or 0) * content.images)

    def _find_compaction(self, before: int, row: int) -> _Change | None:
        """Return the compaction with which the context of request *row* begins, or None for a new conversation."""
        facts, message = self.facts, self._get_message(row)
        epoch = epoch_at(facts, message)
        if epoch.cause != "compaction":
            return None
        known = recorded_spans_at(facts, self._get_message(before))
        new = self._estimate_new(row, recorded_spans_at(facts, message).without(known))
        sizes = f"{self.usages[before].context:,} tokens became {self.usages[row].context:,}"
        return _Change(BreakCause.COMPACTION, f"full compaction at message {epoch.message:,}: {sizes}", new=new)

    def _find_rewrite(self, before: int, row: int) -> _Change | None:
        facts, first, message = self.facts, self._get_message(before), self._get_message(row)
        drop = self.drops.get(message)
        start, end = (bisect_right(facts.compactions, at, key=attrgetter("message")) for at in (first, message))
        clearings = [each for each in facts.compactions[start:end] if each.kind == "micro" and each.cleared_blocks]
        if drop is None and not clearings:
            return None
        new = self._estimate_new(row, range(first, message))
        cleared = frozenset[int]().union(*(each.cleared_blocks for each in clearings)) or (drop and drop.cleared_blocks)
        removed = max(sum(each.saved_tokens or 0 for each in clearings), drop.removed_tokens if drop else 0)
        if cleared:
            at = facts.block_message[min(cleared)]
            text = f"{format_count(len(cleared), 'old result')} cleared from message {at:,} on"
            note = "" if clearings else ", inferred from the sizes"
            return _Change(BreakCause.CLEARING, text + note, "recorded" if clearings else "inferred", new, removed)
        fall_text = f"the context fell by {drop.tokens:,} tokens" if drop else ""
        if drop and drop.explained_by == Explanation.MODEL:
            change = self._find_known_cause(before, row) or _Change(BreakCause.MODEL, fall_text)
            return change._replace(new=new)
        if drop and drop.explained_by == Explanation.THINKING:
            return _Change(BreakCause.MESSAGES, f"thinking of earlier turns is no longer sent: {fall_text}", new=new)
        if drop and drop.explained_by == Explanation.COMPACTION:
            return _Change(BreakCause.COMPACTION, f"full compaction: {fall_text}", new=new, removed=removed)
        return _Change(BreakCause.MESSAGES, f"{fall_text}, with no record of why", new=new)

    def _find_known_cause(self, before: int, row: int) -> _Change | None:
        """Return the cause of a break in a context that only grew, or None if only the tokens read reveal it."""
        facts, first, message = self.facts, self._get_message(before), self._get_message(row)
        branch = next((each for each in facts.rewound_branches if first < each.message <= message), None)
        if branch is not None:
            text = f"{format_count(branch.messages, 'message')} abandoned before message {branch.message:,}"
            return _Change(BreakCause.REWIND, text)
        old_model, model = self.models[before] or "unknown", self.models[row] or "unknown"
        if model != old_model:
            return _Change(BreakCause.MODEL, f"{old_model} became {model}")
        if (change := self._find_prompt_change(first, message)) is not None:
            return change
        if self.calls[row].is_expired_after(self.calls[before]):
            lifetime = f"{format_gap(self.calls[before].ttl_ms)}{' or longer' if self.is_automatic else ''}"
            text = f"{format_gap(self._get_gap(before, row))} after the last reply; entries live {lifetime}"
            return _Change(BreakCause.EXPIRED, text)
        positions = 0 if self.is_automatic else self._count_positions(range(first, message))
        if positions > LOOKBACK:
            text = f"{positions:,} blocks were added; the provider looks for entries at most {LOOKBACK} back"
            return _Change(BreakCause.LOOKBACK, text)
        reason = self.reads[row].inferred_reason
        if reason == THINKING_DROPPED:
            return _Change(BreakCause.MESSAGES, "thinking of the turn before is no longer sent")
        if reason in (THINKING_ON, THINKING_OFF):
            return _Change(BreakCause.THINKING, reason)
        recorded = self.reads[row].provider_reason if self.use_reasons else None
        if recorded is not None:
            cause = BreakCause.RESUME if recorded == "previous_message_not_found" else BreakCause.UNEXPLAINED
            text = f"{PROVIDER_EVIDENCE}{recorded}; {self.usages[row].cache_read:,} tokens were still read"
            return _Change(cause, text, "recorded")
        return None

    def _find_prompt_change(self, first: int, message: int) -> _Change | None:
        """Return the change of the system prompt or tools, or None if there is none or the requests are incomplete."""
        facts = self.facts
        rows = find_prompt_row(facts, first), find_prompt_row(facts, message)
        if not facts.holds_requests or not facts.prompts or rows[0] == rows[1]:
            return None
        old, new = (facts.prompts[row] for row in rows)
        if old.tools != new.tools:
            tools, others = ({tool.name: tool for tool in each.tools} for each in (old, new))
            changed = sorted(name for name in tools.keys() | others if tools.get(name) != others.get(name))
            listed = ", ".join(changed[:3]) + (f" and {len(changed) - 3:,} more" if len(changed) > 3 else "")
            return _Change(BreakCause.TOOLS, f"tools that differ: {listed or 'their order'}", "recorded")
        pairs = zip(old.system, new.system, strict=False)
        part = next((number for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]), len(old.system) + 1)
        return _Change(BreakCause.SYSTEM, f"the system prompt differs from part {part} on", "recorded")

    def _count_positions(self, messages: Iterable[int]) -> int:
        """Count the blocks of messages as the provider's look-back does: a run of calls or of results is one."""
        facts, runs = self.facts, (Kind.TOOL_USE, Kind.TOOL_RESULT)
        kinds = (facts.kind[block] for message in messages for block in facts.blocks_of(message))
        return sum(1 if kind in runs else len(list(group)) for kind, group in groupby(kinds))

    def _get_gap(self, before: int, row: int) -> int:
        start, end = self.calls[before].ended_at, self.calls[row].sent_at
        return max(end - start, 0) if min(start, end) >= 0 else -1

    def _find_levels(self, candidates: list[_Candidate]) -> _Levels:
        """Find how many tokens are still read after an expiry, after a compaction, and at breaks of unknown cause."""
        if not self.rows:
            return _Levels(0, 0, 0, "")
        first = self.usages[self.rows[0]]
        cold, compacted, other = [first.cache_read], [0], [0]
        by_cause = {BreakCause.EXPIRED: cold, BreakCause.COMPACTION: compacted, None: other}
        for candidate in candidates:
            reads = by_cause.get(candidate.change and candidate.change.cause)
            read = self.usages[candidate.row].cache_read
            if reads is not None and read <= first.context and 2 * read < candidate.cached:
                reads.append(read)
        level = max(cold + compacted + other)
        return _Levels(min(filter(None, cold), default=0), max(compacted), level, self._count_empty_reads())

    def _count_empty_reads(self) -> str:
        """Describe how often nothing was read at the start of turns, or return "" if that may be chance."""
        counts = {True: [0, 0], False: [0, 0]}  # requests that read nothing, and all, at the start of turns or not
        for before, row in pairwise(self.rows):
            if not self.calls[row].is_expired_after(self.calls[before]):
                count = counts[starts_turn(self.facts, before, row)]
                count[0] += not self.usages[row].cache_read
                count[1] += 1
        (empty, turns), (other_empty, others) = counts[True], counts[False]
        if empty < MIN_EMPTY_READS or empty * max(others, 1) < EMPTY_READ_RATIO * max(other_empty, 1) * turns:
            return ""
        return f"at {empty:,} of {turns:,} turn starts, and at {other_empty:,} of {others:,} other requests"

    def _build_break(self, candidate: _Candidate, levels: _Levels) -> CacheBreak:
        row, before, tokens, _, known = candidate
        change = known or self._infer_from_read(candidate, levels)
        usage, rates, cost, rest = self.usages[row], self._get_rates(row), 0.0, tokens
        parts = usage.cache_write_1h, usage.cache_write_5m, usage.fresh
        for part, rate in zip(parts, (rates.write_1h, rates.write_5m, rates.input), strict=True):
            part_tokens = min(part, rest)
            cost, rest = cost + part_tokens * (rate - rates.read), rest - part_tokens
        return CacheBreak(
            self._get_message(row),
            tokens,
            cost,
            change.cause,
            change.source,
            change.evidence,
            self._get_gap(before, row) if before >= 0 else -1,
            self.calls[before if before >= 0 else row].ttl_ms,
            self._price_removed(row, change.removed) if change.cause == BreakCause.CLEARING else 0.0,
            change.new is not None,
            change.is_provider_reason,
        )

    def _infer_from_read(self, candidate: _Candidate, levels: _Levels) -> _Change:
        row, before = candidate.row, candidate.before
        read = self.usages[row].cache_read
        text = f"{read:,} tokens were still read"
        entry = self._find_entry(before, read)
        if self.is_automatic or not starts_turn(self.facts, before, row):
            if entry is not None:
                text += f", the entry of the request at message {self._get_message(entry):,}"
            return _Change(BreakCause.PROVIDER, f"nothing changed, within its time to live; {text}")
        if not read:
            if not levels.empty_reads:
                return _Change(BreakCause.UNEXPLAINED, "nothing was read, and nothing in the file changed")
            text = f"nothing was read, as {levels.empty_reads}: the prompt changed at its start"
            return _Change(BreakCause.SYSTEM, text)
        if levels.is_shared(read):
            return _Change(BreakCause.SYSTEM, f"{text}, the part that other sessions share")
        if entry is not None and entry != self.rows[0]:
            text += f", the entry of the request at message {self._get_message(entry):,}; a later one changed"
            return _Change(BreakCause.MESSAGES, text)
        if levels.is_beginning(read):
            return _Change(BreakCause.MESSAGES, f"{text}, all that stands before the messages")
        return _Change(BreakCause.UNEXPLAINED, text)

    def _find_entry(self, before: int, read: int) -> int | None:
        earlier = reversed(self.rows[: bisect_right(self.rows, before)] if read else [])
        return next((row for row in earlier if abs(self._count_cached(row) - read) <= SAME_SIZE_TOLERANCE), None)


class _Levels(NamedTuple):
    """Sizes in tokens of beginnings that stay cached: one that sessions share, one after compactions, and the longest.

    ``empty_reads`` says how often the first request of a turn read nothing before expiry; empty if that may be chance.
    """

    shared: int
    after_compaction: int
    beginning: int
    empty_reads: str

    def is_shared(self, read: int) -> bool:
        """Return whether a request read only the part that other sessions share, not everything before the messages."""
        is_near = abs(read - self.shared) <= SAME_SIZE_TOLERANCE
        return is_near and not abs(read - self.after_compaction) <= SAME_SIZE_TOLERANCE and bool(self.shared)

    def is_beginning(self, read: int) -> bool:
        """Return whether a request read everything before the messages."""
        has_evidence = self.after_compaction > 0 or self.beginning > self.shared
        return has_evidence and 2 * read > self.shared + self.beginning


def format_gap(milliseconds: int) -> str:
    """Format a span of time, as in ``5 min`` or ``1 h 12 min``."""
    if milliseconds < 0:
        return "an unknown time"
    seconds = milliseconds // 1000
    parts = [f"{value:,} {unit}" for value, unit in ((seconds // 3600, "h"), (seconds // 60 % 60, "min")) if value]
    return " ".join(parts) if parts else f"{seconds} s"
