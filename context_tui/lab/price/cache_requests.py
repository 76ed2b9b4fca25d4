"""Reconstruction of recorded calls as prompt-cache requests, with each call's unchanged prefix, expiry and cache miss.

A prediction for a call uses only the records before its reply, and three others: the thinking of its reply, the
uncached tail of its prompt, and the provider's reason for a miss. The tokens that a call read are used only for later
predictions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from context_tui.lab.price.cache import CLOCK_TOLERANCE_MS, LOOKBACK, CacheRequest, CacheUsage, PromptCache
from context_tui.lab.price.rates import FIVE_MINUTES, ONE_HOUR, CostUnit, RateTable, build_rate_table
from context_tui.session.drops import find_drops
from context_tui.session.facts import Drop, Facts, epoch_at
from context_tui.session.session import Session
from context_tui.session.values import Kind, MessageFlag

NOTHING_CHANGED = 1 << 60
"""Unchanged prefix of a call that only appends to the previous one."""
SYSTEM_CHANGED = "the system prompt changed"
EXPIRED = "its time had passed"
THINKING_DROPPED = "thinking of the turn before was dropped"
THINKING_ON, THINKING_OFF = "thinking was switched on", "thinking was switched off"
PROVIDER_MISS_REASONS = {
    "system_changed": SYSTEM_CHANGED,
    "tools_changed": "the tools changed",
    "model_changed": "the model changed",
    "messages_changed": "messages changed",
}
MISPREDICTION_TOLERANCE = 1_000
"""Maximum error of a prediction in tokens; above it, the recording is used and the call is listed."""
MIN_TAIL_CHANGE = 3
"""Minimum change in tokens of the prompt's tail when thinking is switched on or off."""


class CacheRead(NamedTuple):
    """A recorded call's predicted cache usage, to compare with the ``recorded`` number of tokens read.

    ``cached_before`` is the number of tokens that the previous call left in the cache. ``inferred_reason`` says why
    they were lost, and ``provider_reason`` is the provider's own text; each is None if unknown.
    """

    message: int
    predicted: CacheUsage
    recorded: int
    cached_before: int
    inferred_reason: str | None
    provider_reason: str | None

    @property
    def miss_reason(self) -> str | None:
        """Reason why the cache was lost: the provider's, else the inferred one, or None if unknown or not lost."""
        return PROVIDER_MISS_REASONS.get(self.provider_reason or "") or self.inferred_reason


class RecordedCalls(NamedTuple):
    """The recorded requests of a session, as requests to the prompt cache, with the tokens that each read from it.

    ``cached_beginnings`` has, for each request, the leading tokens (system prompt and tools) that stay cached after any
    later change, as observed up to that request or, failing that, after it.
    """

    requests: list[CacheRequest]
    reads: list[CacheRead]
    cached_beginnings: list[int]


def reconstruct_recorded_calls(session: Session) -> RecordedCalls:
    """Return the recorded requests of a session, in order, as requests to the prompt cache."""
    return _CacheReconstruction(session).reconstruct()


@dataclass
class _CachedBeginning:
    """Tokens at the start of a prompt that are read even if the rest is not: after expiry (cold) and before (warm)."""

    cold: int = 0
    warm: int = 0


class _CacheReconstruction:
    def __init__(self, session: Session) -> None:
        self.facts = facts = session.facts
        self.request_count = bisect_left(facts.request_message, session.length)
        self.drops: dict[int, Drop] = {drop.message: drop for drop in find_drops(facts)}
        usages = facts.requests[: self.request_count]
        self.automatic = not any(usage.cache_write_5m or usage.cache_write_1h for usage in usages)
        self.ttl_ms = FIVE_MINUTES
        self.has_thinking: bool | None = None
        self.caches_replies = False
        self.cached_beginnings: dict[int, _CachedBeginning] = {}

    def reconstruct(self) -> RecordedCalls:
        cache, calls, reads, beginnings = PromptCache(), list[CacheRequest](), list[CacheRead](), list[int]()
        for row in range(self.request_count):
            usage = self.facts.requests[row]
            call, reason = self._build_request(row, calls)
            if calls:
                cache.append_reply(calls[-1].cached_reply_tokens)
            predicted = cache.update(call)
            cached_before = self.facts.requests[row - 1].context - calls[-1].tail if row else 0
            idle = call.sent_at - calls[-1].ended_at if calls else 0
            if reason is None and calls and call.is_expired_after(calls[-1]):
                reason = EXPIRED
            reply = self.facts.request_message[row]
            provider_reason = self.facts.cache_misses.get(reply)
            reads.append(CacheRead(reply, predicted, usage.cache_read, cached_before, reason, provider_reason))
            if abs(predicted.read - usage.cache_read) > MISPREDICTION_TOLERANCE:
                call = call._replace(recorded_read=usage.cache_read)
            calls.append(call)
            is_cold = not row or idle > FIVE_MINUTES + CLOCK_TOLERANCE_MS
            self._update_cached_beginning(row, usage.cache_read, cached_before, is_cold=is_cold)
            beginnings.append(self.cached_beginnings[self.facts.request_model[row]].warm)
        later_beginnings: dict[int, int] = {}  # by model
        for row in reversed(range(len(beginnings))):
            model = self.facts.request_model[row]
            later_beginnings[model] = beginnings[row] = beginnings[row] or later_beginnings.get(model, 0)
        return RecordedCalls(calls, reads, beginnings)

    def _build_request(self, row: int, calls: list[CacheRequest]) -> tuple[CacheRequest, str | None]:
        facts, usage, message = self.facts, self.facts.requests[row], self.facts.request_message[row]
        previous_reply = facts.request_message[row - 1] if row else -1
        new_messages = range(previous_reply + 1, message)
        if usage.cache_write_1h or usage.cache_write_5m:
            self.ttl_ms = ONE_HOUR if usage.cache_write_1h else FIVE_MINUTES
        model = facts.request_model[row]
        floor = self.cached_beginnings.setdefault(model, _CachedBeginning())
        sent_at = self._find_sent_time(row, new_messages)
        ended_at = max(facts.end_time[message], facts.request_time[row])
        has_user_content = any(facts.kind[b] != Kind.TOOL_RESULT for m in new_messages for b in facts.blocks_of(m))
        unchanged_prefix, reason = self._find_unchanged_prefix(row)
        is_next_turn = row > 0 and starts_turn(facts, row - 1, row)
        if calls and self.caches_replies and is_next_turn and facts.requests[row - 1].output_trusted:
            calls[-1] = calls[-1]._replace(cached_reply_tokens=facts.requests[row - 1].output)
        if calls and model != facts.request_model[row - 1]:
            reason = "the model changed"
        if self._update_thinking_switch(row, has_user_content):
            reason = reason or (THINKING_ON if self.has_thinking else THINKING_OFF)
        miss_reason = PROVIDER_MISS_REASONS.get(facts.cache_misses.get(message, ""))
        idle = sent_at - calls[-1].ended_at if calls else 0
        is_cold = not calls or miss_reason == SYSTEM_CHANGED or idle > FIVE_MINUTES + CLOCK_TOLERANCE_MS
        call = CacheRequest(
            usage.context,
            unchanged_prefix,
            0 if self.automatic else min(usage.fresh, usage.context),
            sent_at,
            ended_at,
            (model, self.has_thinking),
            self.ttl_ms if self.automatic or usage.context > usage.fresh else 0,
            sum(1 for m in range(max(previous_reply, 0), message) for _ in facts.blocks_of(m)),
            floor.cold if is_cold else floor.warm,
            miss_reason=miss_reason,
            anywhere=self.automatic,
        )
        return call, reason

    def _find_sent_time(self, row: int, new_messages: range) -> int:
        facts = self.facts
        if not new_messages or any(facts.first_record[m] != facts.last_record[m] for m in new_messages):
            return facts.request_time[row]
        return max(max(facts.time[message], facts.end_time[message]) for message in new_messages)

    def _find_unchanged_prefix(self, row: int) -> tuple[int, str | None]:
        """Return the unchanged prefix of request *row* in tokens, and the reason for a change, or None."""
        facts, message = self.facts, self.facts.request_message[row]
        previous_reply = facts.request_message[row - 1] if row else -1
        if previous_reply < epoch_at(facts, message).start:
            return 0, "the context began anew" if row else None
        first, reason = self._find_first_change(previous_reply, message)
        has_shrunk = facts.requests[row].context < facts.requests[row - 1].context
        if first is None and has_shrunk and starts_turn(facts, row - 1, row):
            first, reason = self._find_first_thinking(previous_reply), THINKING_DROPPED
        if first is None:
            return NOTHING_CHANGED, None
        request = bisect_right(facts.request_message, first, hi=row) - 1
        return (facts.requests[request].context if request >= 0 else 0), reason

    def _find_first_change(self, previous_reply: int, message: int) -> tuple[int | None, str | None]:
        """Return the first message changed since *previous_reply*, and the reason; both are None if nothing changed."""
        facts, drop = self.facts, self.drops.get(message)
        start = bisect_right(facts.compactions, previous_reply, key=lambda compaction: compaction.message)
        end = bisect_right(facts.compactions, message, key=lambda compaction: compaction.message)
        cleared_rows = [min(event.cleared_blocks) for event in facts.compactions[start:end] if event.cleared_blocks]
        if cleared_rows:
            return min(facts.block_message[row] for row in cleared_rows), "microcompaction"
        if drop is None:
            return None, None
        if drop.cleared_blocks:
            return facts.block_message[min(drop.cleared_blocks)], "old results were cleared"
        return 0, str(drop.explained_by or "part of the context went")

    def _find_first_thinking(self, last_message: int) -> int:
        facts, first = self.facts, last_message
        for message in range(last_message, -1, -1):
            if any(facts.kind[block] == Kind.THINKING for block in facts.blocks_of(message)):
                first = message
            if facts.flags[message] & MessageFlag.TURN_START:
                break
        return first

    def _update_thinking_switch(self, row: int, has_user_content: bool) -> bool:
        """Update whether thinking is on, from the replies and the prompt's tail, and return whether it was switched."""
        facts = self.facts
        has_thinking = any(facts.kind[block] == Kind.THINKING for block in facts.blocks_of(facts.request_message[row]))
        if self.has_thinking is None:
            self.has_thinking = has_thinking
            return False
        tail = abs(facts.requests[row].fresh - facts.requests[row - 1].fresh)
        if not has_user_content or has_thinking == self.has_thinking or tail < MIN_TAIL_CHANGE:
            return False
        self.has_thinking = has_thinking
        return True

    def _update_cached_beginning(self, row: int, read: int, cached_before: int, *, is_cold: bool) -> None:
        """Update the cached beginning, and whether other requests cache the replies, after *read* tokens were read."""
        floor = self.cached_beginnings[self.facts.request_model[row]]
        if not row:
            floor.cold = floor.warm = read
        elif 2 * read < cached_before:
            if is_cold:
                floor.cold = read
            else:
                floor.warm = read
        elif cached_before < read:
            self.caches_replies = True
        elif read == cached_before and starts_turn(self.facts, row - 1, row):
            self.caches_replies = False


def starts_turn(facts: Facts, before: int, row: int) -> bool:
    """Return whether a turn starts between the replies to two requests."""
    messages = range(facts.request_message[before] + 1, facts.request_message[row])
    return any(facts.flags[message] & MessageFlag.TURN_START for message in messages)


SAME_SIZE_TOLERANCE = 16
"""Tokens within which two sizes count as equal."""


@dataclass(frozen=True)
class CacheMisprediction:
    """A call, identified by its reply, for which the predicted tokens read differ from the recorded ones.

    ``guess`` is the likely reason.
    """

    message: int
    predicted: int
    recorded: int
    guess: str


@dataclass(frozen=True)
class PriceModel:
    """The recorded calls' use of the prompt cache, compared with the use that the cache model predicts.

    Attributes:
        written_recorded, written_predicted: tokens written by all calls; 0 if no writes are recorded.
        error: relative error of the predicted total of tokens read, or None if nothing was read.
        off: sum of the calls' absolute errors, relative to the tokens read, or None if nothing was read.
        broken: number of calls for which the cache was lost, keyed by reason.
        unexplained: calls with an error above ``MISPREDICTION_TOLERANCE`` tokens.
        cost_recorded, cost_predicted: cost of all prompts in ``unit``.
    """

    read_recorded: int
    read_predicted: int
    written_recorded: int
    written_predicted: int
    error: float | None
    off: float | None
    broken: dict[str, int]
    unexplained: tuple[CacheMisprediction, ...]
    cost_recorded: float
    cost_predicted: float
    unit: CostUnit


def build_recorded_rates(facts: Facts, count: int) -> tuple[list[str | None], RateTable]:
    """Return the model of each of the first *count* requests, and the rates of these models."""
    models = [facts.models[row] if row >= 0 else None for row in facts.request_model[:count]]
    has_writes = any(usage.cache_write_5m or usage.cache_write_1h for usage in facts.requests[:count])
    return models, build_rate_table(models, has_write_fee=has_writes)


def build_price_model(session: Session) -> PriceModel:
    """Compare the cache model's predictions with a session's recorded usage."""
    facts, reads = session.facts, reconstruct_recorded_calls(session).reads
    usages = facts.requests[: len(reads)]
    total = sum(read.recorded for read in reads)
    predicted = sum(read.predicted.read for read in reads)
    absolute_error = sum(abs(read.predicted.read - read.recorded) for read in reads)
    written = sum(usage.cache_write_5m + usage.cache_write_1h for usage in usages)
    models, table = build_recorded_rates(facts, len(reads))
    pairs = zip(models, usages, strict=True)
    rates = [table.get_rates(model).select_for_prompt(usage.context) for model, usage in pairs]
    mispredictions = (
        CacheMisprediction(read.message, read.predicted.read, read.recorded, _guess_misprediction_reason(reads, row))
        for row, read in enumerate(reads)
        if abs(read.predicted.read - read.recorded) > MISPREDICTION_TOLERANCE
    )
    return PriceModel(
        total,
        predicted,
        written,
        sum(read.predicted.written for read in reads) if written else 0,
        abs(predicted - total) / total if total else None,
        absolute_error / total if total else None,
        dict(Counter(read.miss_reason for read in reads if read.miss_reason is not None)),
        tuple(mispredictions),
        sum(price.compute_recorded_cost(usage) for price, usage in zip(rates, usages, strict=True)),
        sum(price.compute_usage_cost(read.predicted) for price, read in zip(rates, reads, strict=True)),
        table.unit,
    )


def _guess_misprediction_reason(reads: list[CacheRead], row: int) -> str:
    read = reads[row]
    if not row:
        return "cached by another session: the cache before the first call is not in the file"
    if read.recorded > read.predicted.read:
        if read.miss_reason is not None:
            return f"{read.miss_reason}, but more than the beginning was still read"
        return "another request had cached the newer messages, such as the reply"
    if abs(read.cached_before - read.recorded) <= SAME_SIZE_TOLERANCE:
        return "the previous reply was not cached, unlike at other calls"
    earlier_sizes = (earlier.cached_before for earlier in reads[max(row - LOOKBACK, 0) : row])
    if read.recorded and any(abs(size - read.recorded) <= SAME_SIZE_TOLERANCE for size in earlier_sizes):
        return "an earlier entry was read: the newest was not ready yet, or the end of the prompt had changed"
    if read.miss_reason is not None:
        return f"{read.miss_reason}, and less of the beginning was cached than at other calls"
    if read.provider_reason is not None:
        return f"the provider gives no reason ({read.provider_reason})"
    return "lost before it expired: something outside the file changed the prompt, or the entry was evicted early"
